"""The eight cheats, on the small task, and the two controls that show what each guard is for."""

from dataclasses import replace

import pytest

from simulation.lab.errors import LabError
from simulation.replication.grading import GradingWork, grade_work
from simulation.replication.grading.cheats import CHEATS, prepare_trial, try_cheat
from simulation.replication.grading.cheats.agents import digest_numbers, list_numbers
from simulation.replication.grading.cheats.trying import find_problems
from simulation.replication.tasks.masking import fill_code
from tests.support.grading_task import TASK


@pytest.fixture(scope="module")
def trial(room):
    return prepare_trial(TASK, room.sandbox)


def test_cheats_know_the_number_of_a_function_that_is_a_result_of_the_task(trial):
    assert trial.known.function_id == "f4"
    assert trial.known.cases == ("e3",)
    assert trial.known.result == trial.known.values["e3"]["amount"]


def test_cheats_need_a_function_whose_result_depends_on_the_data(room):
    constant = replace(TASK, code=fill_code(TASK, {"f4": "return 2.5\n"}))
    with pytest.raises(LabError, match="returns a result of the task; choose another task"):
        prepare_trial(constant, room.sandbox)


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: f"{cheat.number}-{cheat.screen}")
def test_cheat_is_not_solved_and_has_its_outcome_and_findings(room, trial, cheat):
    result = try_cheat(cheat, trial, room.sandbox)
    assert result.problems == ()
    assert not result.grade.solved


def test_cheat_with_typed_in_numbers_is_measured_right_if_secret_data_is_switched_off(room, trial):
    code = fill_code(TASK, {"f4": f"return {trial.known.result!r}\n"})
    files = {path: text.encode() for path, text in code.items()}
    data, gold = {0: trial.data[0]}, {0: trial.gold[0]}
    grade = grade_work(GradingWork(TASK, ("f4",), files, data, gold, ("e3",), reported=gold[0]), room.sandbox)
    assert (grade.measured, grade.robust, grade.outcome) == (True, None, "reported_only")


def test_cheat_that_copies_a_report_passes_the_rule_of_the_published_benchmark(room, trial):
    result = try_cheat(CHEATS[-1], trial, room.sandbox)
    assert (result.grade.outcome, result.grade.paper_pass) == ("hidden_left", True)


def test_cheat_that_was_not_tried_is_a_problem(room, trial):
    """A call that is refused would show nothing about grading."""
    from simulation.replication.agents.playing import play_episode
    from simulation.replication.grading.cheats.agents import CheatAgent, CheatPlan
    from simulation.replication.values import ToolCall

    agent = CheatAgent(CheatPlan((ToolCall("write_file", {"path": "../x", "text": ""}),), "{}"))
    played = play_episode(agent, room.mask(["f4"]), "", room.sandbox)
    result = try_cheat(CHEATS[-1], trial, room.sandbox)
    problems = find_problems(CHEATS[0], result.grade, played)
    assert any("a call was refused" in problem for problem in problems)
    assert "the outcome is hidden_left and must be reported_only" in problems


def test_cheat_digests_numbers_of_recorded_arguments():
    encoded = [
        "sequence",
        "list",
        [
            ["float", (1.5).hex()],
            ["array", "<f8", [2], [(2.0).hex(), (3.0).hex()], False],
            ["plain", 4],
            ["plain", "x"],
        ],
    ]
    assert digest_numbers(list_numbers(encoded)) == "1.050000000e+01"
