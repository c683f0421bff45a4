"""Episodes of the rule-based cast. Each is computed once and shared by all tests."""

from functools import cache
from pathlib import Path

import pytest

from simulation.lab import catalogue, experiments
from simulation.lab.bench import Bench
from simulation.lab.materials import place_all
from simulation.offline.agent import ProtocolAgent
from simulation.offline.random_agent import RandomAgent
from simulation.offline.rules import RuleBasedTransitionModel

FIXTURES = Path(__file__).parents[3] / "fixtures"
CATALOGUE, _ = catalogue.read_directory(FIXTURES / "actions")
SPECS = {spec.slug: spec for spec, _ in experiments.read_directory(FIXTURES / "experiments", CATALOGUE)}


def play(spec, agent, seed):
    """Return the bench after the complete attempt."""
    bench = Bench(
        goal=spec.goal,
        catalogue=CATALOGUE,
        inventory=place_all(spec.drafts(), seed),
        seed=seed,
        max_steps=spec.max_steps,
    )
    model = RuleBasedTransitionModel(seed, spec.truth)
    while bench.ending is None:
        bench.step(agent.choose(bench.situation()), model)
    return bench


@cache
def reference_bench(slug, seed=11):
    return play(SPECS[slug], ProtocolAgent(SPECS[slug], seed), seed)


@cache
def random_bench(slug, seed):
    return play(SPECS[slug], RandomAgent(seed), seed)


def situations(bench, spec, seed=11):
    """Yield (action, situation before it, outcome) for every step of an attempt."""
    replayed = Bench(
        goal=bench.goal,
        catalogue=bench.catalogue,
        inventory=place_all(spec.drafts(), seed),
        seed=seed,
        max_steps=bench.max_steps,
    )
    for step in bench.history:
        yield step.action, replayed.situation(), step.outcome
        replayed.record(step.action, step.outcome)


class Lab:
    """Catalogue, experiments and cached attempts for the tests of this folder."""

    catalogue = CATALOGUE
    specs = SPECS
    play = staticmethod(play)
    reference = staticmethod(reference_bench)
    random = staticmethod(random_bench)
    situations = staticmethod(situations)


@pytest.fixture(scope="session")
def lab():
    return Lab
