"""The actions and experiments of `fixtures/`, read and checked once in each process of the tests: it takes half a second."""

from functools import cache
from pathlib import Path
from typing import Any

from simulation.lab import catalogue, experiments
from simulation.lab.experiments import ExperimentSpec

FIXTURES = Path(__file__).parents[2] / "fixtures"
CATALOGUE, ACTION_ENTRIES = catalogue.load_catalogue(FIXTURES / "actions")


@cache
def load_experiments() -> tuple[tuple[ExperimentSpec, dict[str, Any]], ...]:
    """Return every experiment, each with its raw data, which tests copy before they change it."""
    return tuple(experiments.load_experiments(FIXTURES / "experiments", CATALOGUE))


@cache
def load_specs() -> dict[str, ExperimentSpec]:
    """Return the experiments by slug."""
    return {spec.slug: spec for spec, _ in load_experiments()}
