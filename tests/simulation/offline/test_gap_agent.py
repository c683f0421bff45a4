"""The agent that fills gaps of a protocol by rules, and the agent for which the first steps are done."""

from collections import Counter

from simulation.lab.actions import SUBMIT
from simulation.lab.bench import Bench
from simulation.offline.agents import ProtocolAgent, RandomAgent
from simulation.offline.hidden_steps.gap_agent import NONE, OTHER, RIGHT, build_gap_agent, plan_gaps
from simulation.offline.hidden_steps.prefix_agent import PrefixAgent


def test_gaps_are_filled_rightly_in_six_of_ten_cases_and_else_with_another_step_or_none(lab) -> None:
    spec = lab.specs["gfp-colony-screening"]
    fillings = [filling for seed in range(500) for filling in plan_gaps(spec, [4, 6], seed)]
    kinds = Counter(filling.kind for filling in fillings)
    # Of 1,000 gaps 600 on average, with a standard deviation of 15.5; of the others half, with one of 12.6 (for 400).
    assert abs(kinds[RIGHT] - 600) < 60 and abs(kinds[OTHER] - 200) < 60 and abs(kinds[NONE] - 200) < 60
    taken = {filling.taken_from for filling in fillings if filling.kind == OTHER}
    assert taken and not taken & {4, 6} and max(taken) < len(spec.protocol)  # the last step is the submission
    # Whether a gap is filled rightly does not depend on the other gaps.
    assert [plan_gaps(spec, [6], seed)[0].kind for seed in range(20)] == [
        plan_gaps(spec, [4, 6], seed)[1].kind for seed in range(20)
    ]


def test_gap_agent_without_gaps_follows_the_protocol(lab) -> None:
    spec = lab.specs["caffeine-hplc-analysis"]
    assert build_gap_agent(spec, [], seed=11).steps == spec.protocol


def test_prefix_does_the_first_steps_and_then_the_agent_chooses(lab) -> None:
    spec = lab.specs["gfp-colony-screening"]
    agent = PrefixAgent.build(spec, 3, 11, RandomAgent(5))
    done = lab.play_attempt(spec, agent, 11).history
    reference = lab.play_reference("gfp-colony-screening").history
    assert [step.action for step in done[:3]] == [step.action for step in reference[:3]]
    bench = Bench(spec.goal, lab.catalogue, lab.play_reference(spec.slug).inventory, 11, spec.max_steps)
    bench.replay_steps(done[:3])
    situation = bench.get_situation()
    assert agent.find_given_action(situation) is None
    assert agent.choose_action(situation) == RandomAgent(5).choose_action(situation)
    assert ProtocolAgent(spec, 11).choose_action(situation).name != SUBMIT
