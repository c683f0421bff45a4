"""Agents that are rules with the answer key: what each writes and reports, played in real sandboxes."""

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest

from simulation.lab.errors import LabError
from simulation.replication.agents import OFFLINE_AGENTS, build_offline_agent
from simulation.replication.agents.offline_agents import (
    CRASHING_BODY,
    Plan,
    choose_error,
    choose_stub,
    misreport_number,
    plan_lapses,
)
from simulation.replication.agents.playing import PlayedEpisode, play_episode
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.masking import read_gold_bodies
from simulation.replication.tasks.task_files import load_task
from simulation.replication.tasks.workspaces import BRIEF, build_workspace, read_printed_results
from simulation.replication.values import Task
from tests.support.small_tasks import write_small_task

# By hand: the mean of 1, 3 and 5 less 1, and their standard deviation with n - 1.
DATA = {"readings.json": b'{"offset": 1, "values": [1, 3, 5]}'}
RESULTS = {"e1": {"mean": 2.0}, "e2": {"spread": 2.0}}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return load_task(write_small_task(tmp_path_factory.mktemp("tasks")))


def play(name: str, task: Task, hidden: tuple[str, ...], seed: int = 1, docs: str = "kept") -> PlayedEpisode:
    workspace = build_workspace(task, hidden, DATA, docs)
    agent = build_offline_agent(name, task, hidden, seed, docs)
    return play_episode(agent, workspace, workspace[BRIEF].decode(), open_sandbox(), packages=task.packages)


@pytest.mark.parametrize("docs", ["kept", "signature"])
def test_offline_oracle_restores_every_function_and_reports_what_was_printed(task: Task, docs: str) -> None:
    played = play("offline-oracle", task, ("f1", "f2"), docs=docs)
    assert played.ending == "submitted" and json.loads(played.reported) == RESULTS and played.sandbox_seconds > 0
    module = played.trees[-1]["code/small/sums.py"].decode()
    assert "NotImplementedError" not in module and ('"""Return the readings without the offset."""' in module) == (
        docs == "kept"
    )
    assert [step.call.tool for step in played.steps] == ["write_file", "write_file", "run_script", "submit"]


def test_offline_null_writes_and_reports_nothing(task: Task) -> None:
    played = play("offline-null", task, ("f1",))
    assert (played.ending, played.reported, len(played.steps)) == ("submitted", "{}", 1)
    assert played.trees[0] == played.trees[1]


def test_offline_stub_is_right_only_if_nothing_is_hidden(task: Task) -> None:
    assert json.loads(play("offline-stub", task, ()).reported) == RESULTS
    # None of the stubs gives the spread of 1, 3 and 5.
    report = json.loads(play("offline-stub", task, ("f2",)).reported)
    assert report["e1"] == RESULTS["e1"] and report.get("e2") != RESULTS["e2"]


def test_offline_mutant_has_one_error_and_restores_the_rest(task: Task) -> None:
    agents = [build_offline_agent("offline-mutant", task, ("f1", "f2"), seed) for seed in range(30)]
    # One seed for each error: the small task has two of each function.
    seeds = {str(agent.plan.rounds[0]): seed for seed, agent in enumerate(agents)}  # type: ignore[attr-defined]
    reports = [json.loads(play("offline-mutant", task, ("f1", "f2"), seed).reported) for seed in seeds.values()]
    # f1 adds the offset instead (mean 4) or multiplies by 1.001; f2 divides by n (root of 8 / 3) or returns the range.
    right_mean, right_spread = RESULTS["e1"], RESULTS["e2"]
    wrong = [
        {"e1": {"mean": 4.0}, "e2": right_spread},
        {"e1": {"mean": pytest.approx(2.002)}, "e2": right_spread},
        {"e1": right_mean, "e2": {"spread": pytest.approx((8 / 3) ** 0.5)}},
        {"e1": right_mean, "e2": {"spread": 4.0}},
    ]
    assert len(reports) == 4 and all(report in reports for report in wrong)


def test_offline_agents_repeat_their_calls_for_a_seed_and_vary_between_seeds(task: Task) -> None:
    plans = [build_offline_agent("offline-oracle-lapses", task, ("f1", "f2"), seed).plan for seed in range(30)]  # type: ignore[attr-defined]
    again = [build_offline_agent("offline-oracle-lapses", task, ("f1", "f2"), seed).plan for seed in range(30)]  # type: ignore[attr-defined]
    assert plans == again and len({str(plan) for plan in plans}) > 5


def test_offline_lapses_have_their_stated_shares(task: Task) -> None:
    """Of 800 functions: 20 % with an error, 10 % hidden, 15 % crashing, 9 % mended; 5 % of the reports misreported."""
    reference, count = read_gold_bodies(task)["f2"], Counter[str]()
    for seed in range(800):
        plan = plan_lapses(task, ("f2",), seed)
        count[_name_lapse(plan, reference)] += 1
        count["misreported"] += plan.misreports
    # Three standard errors of a share of 800 are at most 0.053.
    shares = {"error": 0.20, "hidden": 0.10, "crashing": 0.06, "mended": 0.09, "reference": 0.55, "misreported": 0.05}
    assert {name: count[name] / 800 for name in shares} == pytest.approx(shares, abs=0.04)


def _name_lapse(plan: Plan, reference: str) -> str:
    written: Mapping[str, str] = plan.rounds[0]
    if not written:
        return "hidden"
    if written["f2"] == CRASHING_BODY:
        return "mended" if len(plan.rounds) == 2 and plan.rounds[1] == {"f2": reference} else "crashing"
    return "reference" if written["f2"] == reference else "error"


def test_offline_lapses_mend_a_crash_after_the_first_run(task: Task) -> None:
    seed = next(seed for seed in range(200) if len(plan_lapses(task, ("f2",), seed).rounds) == 2)
    played = play("offline-oracle-lapses", task, ("f2",), seed)
    assert [step.call.tool for step in played.steps] == [
        "write_file",
        "run_script",
        "write_file",
        "run_script",
        "submit",
    ]
    assert "NameError" in played.steps[1].observation and json.loads(played.reported) == RESULTS


def test_printed_results_are_read_from_result_lines_alone() -> None:
    text = 'RESULT e1 {"a": 1}\n x RESULT e2 {"a": 1}\nRESULT e1 {"a": 2}\nRESULT e3 {"a": \nRESULT e4 {a}'
    assert read_printed_results(text) == {"e1": {"a": 2}}


def test_misreported_number_is_a_fifth_larger() -> None:
    assert misreport_number({"e1": {"a": 10, "b": "text", "c": [1.0]}}, random.Random(1)) == {
        "e1": {"a": 12.0, "b": "text", "c": [1.0]}
    }
    assert misreport_number({"e1": {"a": 0}}, random.Random(1)) == {"e1": {"a": 1.0}}
    assert misreport_number({"e1": {"a": True}}, random.Random(1)) == {"e1": {"a": True}}


def test_errors_are_written_ones_of_the_type_or_generic_mutants_and_stubs_use_the_first_argument(task: Task) -> None:
    assert choose_error(task, "f1", random.Random(1), "obvious") == "return values + offset\n"
    assert "/ len(values))" in choose_error(task, "f2", random.Random(1), "subtle")
    # Without a written error, one operator of the reference body `return values - offset` is swapped.
    unwritten = replace(task, errors=tuple(error for error in task.errors if error.function != "f1"))
    assert choose_error(unwritten, "f1", random.Random(1), "subtle") == "return values + offset\n"
    stubs = {choose_stub(task, "f2", random.Random(seed)) for seed in range(50)}
    assert {"return None\n", "return 0.0\n", "return 1.0\n", "return values\n"} < stubs


def test_unknown_offline_agent_is_refused_with_the_allowed_names(task: Task) -> None:
    with pytest.raises(LabError, match=f"no offline agent 'x'; there are {', '.join(OFFLINE_AGENTS)}"):
        build_offline_agent("x", task, (), 1)
