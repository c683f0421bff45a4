"""Episodes of the rule-based cast. Each is computed once and shared by all tests."""

from functools import cache

import pytest

from simulation.lab.bench import Bench
from simulation.lab.materials import build_inventory
from simulation.offline.agents import ProtocolAgent, RandomAgent
from simulation.offline.rules import RuleBasedTransitionModel
from tests.support.data_files import CATALOGUE, load_specs

SPECS = load_specs()


def play_attempt(spec, agent, seed):
    """Return the bench after the complete attempt."""
    bench = Bench(
        goal=spec.goal,
        catalogue=CATALOGUE,
        inventory=build_inventory(spec.initial_materials(), seed),
        seed=seed,
        max_steps=spec.max_steps,
    )
    model = RuleBasedTransitionModel(seed, spec.truth)
    while bench.ending is None:
        bench.take_step(agent.choose_action(bench.get_situation()), model)
    return bench


@cache
def play_reference(slug, seed=11):
    return play_attempt(SPECS[slug], ProtocolAgent(SPECS[slug], seed), seed)


@cache
def play_random(slug, seed):
    return play_attempt(SPECS[slug], RandomAgent(seed), seed)


def iter_situations(bench, spec, seed=11):
    """Yield (action, situation before it, outcome) for every step of an attempt."""
    replayed = Bench(
        goal=bench.goal,
        catalogue=bench.catalogue,
        inventory=build_inventory(spec.initial_materials(), seed),
        seed=seed,
        max_steps=bench.max_steps,
    )
    for step in bench.history:
        yield step.action, replayed.get_situation(), step.outcome
        replayed.record_outcome(step.action, step.outcome)


class Lab:
    """Catalogue, experiments and cached attempts for the tests of this folder."""

    catalogue = CATALOGUE
    specs = SPECS
    play_attempt = staticmethod(play_attempt)
    play_reference = staticmethod(play_reference)
    play_random = staticmethod(play_random)
    iter_situations = staticmethod(iter_situations)


@pytest.fixture(scope="session")
def lab():
    return Lab
