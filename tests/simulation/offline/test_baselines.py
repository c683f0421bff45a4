"""The table of baselines in docs/training.md has the stored results, and these are those of today's laboratory."""

import pytest

from bench import baselines
from simulation.offline import gym


def test_table_of_baselines_has_the_stored_results_of_every_experiment_agent_and_seed():
    rollouts = baselines.load_rollouts()
    played = [(one.experiment, one.agent, one.number) for one in rollouts]
    everything = [
        (slug, name, number)
        for slug in gym.list_slugs()
        for name in baselines.AGENTS
        for number in range(baselines.SEEDS)
    ]
    assert played == everything
    document = baselines.DOCUMENT.read_text(encoding="utf-8")
    table = document.split(baselines.BEGIN)[1].split(baselines.END)[0]
    assert table == baselines.format_table(rollouts), "run python -m bench.baselines --write"


def test_baselines_separate_agents_that_know_the_protocol_from_those_that_do_not():
    rewards = {
        name: [one.reward for one in baselines.load_rollouts() if one.agent == name] for name in baselines.AGENTS
    }
    assert set(rewards["protocol"]) == {1.0} and set(rewards["random"]) == set(rewards["null"]) == {0.0}
    assert 0 < sum(rewards["careless"]) < len(rewards["careless"])


@pytest.mark.parametrize("agent", ["protocol", "null"])
def test_stored_baseline_is_what_its_agent_reaches_today(agent):
    stored = {(one.experiment, one.agent, one.number): one for one in baselines.load_rollouts()}
    today = baselines.roll_out("zebrafish-genotyping", agent, 0)
    before = stored["zebrafish-genotyping", agent, 0]
    stale = "run python -m bench.baselines --write"
    assert (today.reward, today.ending, today.steps) == (before.reward, before.ending, before.steps), stale


def test_training_document_says_for_every_experiment_what_is_drawn():
    document = baselines.DOCUMENT.read_text(encoding="utf-8")
    assert [
        line.split("`")[1] for line in document.splitlines() if line.startswith("| `") and "-" in line.split("`")[1]
    ] == gym.list_slugs()
