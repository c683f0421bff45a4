"""The rules of the outcome, as pure functions of what the stages returned."""

import json

import pytest

from simulation.replication.grading import (
    OUTCOME_TEXTS,
    OUTCOMES,
    ExtractedFunction,
    Extraction,
    Grade,
    GradingWork,
    Measurement,
    ScreenFinding,
    Stages,
    conclude,
)
from simulation.replication.grading.probing import Probes, is_same_result
from tests.support.grading_task import TASK

GOLD = {
    0: {"e1": {"slope": 3.298, "intercept": 18.06}},
    7: {"e1": {"slope": -2.0, "intercept": 0.0}},
    8: {"e1": {"slope": 5.0, "intercept": 1.0}},
}
FILLED = Extraction(functions={"f2": ExtractedFunction("filled", "", "return 1, 1", 22)})
WRONG = {"e1": {"slope": 1.0, "intercept": 1.0}}
RIGHT_BASE = Measurement({0: GOLD[0]}, {0: {}})
RIGHT_SECRET = Measurement({7: GOLD[7], 8: GOLD[8]}, {7: {}, 8: {}})
WRONG_BASE = Measurement({0: WRONG}, {0: {}})
WRONG_SECRET = Measurement({7: GOLD[7], 8: WRONG}, {7: {}, 8: {}})
CRASHED = Measurement({0: {}}, {0: {"e1": "ZeroDivisionError: division by zero"}})
TAMPERED = Measurement({0: GOLD[0]}, {0: {}}, tampered=("a line that the driver did not write",))
FINDING = ScreenFinding("import", "code/assay/curves.py", "fit_line", "os", 22)
REFUSED = Extraction(FILLED.functions, findings=(FINDING,))


def with_status(status):
    return Extraction(functions={"f2": ExtractedFunction(status, "a reason")})


def conclude_with(
    ending="submitted",
    reported=GOLD[0],
    extraction=FILLED,
    base=RIGHT_BASE,
    secret=RIGHT_SECRET,
    task=TASK,
    gold=GOLD,
    fault="",
):
    # Data of a variant are only needed to run its test cases.
    work = GradingWork(task, ("f2",), {}, {number: {} for number in gold}, gold, ("e1",), ending, reported)
    grade = conclude(work, Stages(extraction, base, secret, Probes()), fault)
    assert Grade.from_json(json.loads(json.dumps(grade.to_json()))) == grade
    return grade


@pytest.mark.parametrize(
    ("options", "outcome", "passed"),
    [
        ({}, "solved", (True, True, True)),
        ({"reported": WRONG}, "unreported", (False, True, True)),
        ({"reported": {}}, "unreported", (False, True, True)),
        ({"reported": None}, "unreported", (False, True, True)),
        ({"secret": WRONG_SECRET}, "reported_only", (True, True, False)),
        ({"base": WRONG_BASE}, "reported_only", (True, False, True)),
        ({"base": WRONG_BASE, "reported": WRONG}, "wrong", (False, False, True)),
        ({"base": CRASHED, "secret": None}, "crashed", (True, False, None)),
        ({"extraction": with_status("unreadable"), "base": None, "secret": None}, "crashed", (True, None, None)),
        ({"extraction": with_status("hidden"), "base": None, "secret": None}, "hidden_left", (True, None, None)),
        ({"extraction": with_status("missing"), "base": None, "secret": None}, "hidden_left", (True, None, None)),
        ({"extraction": with_status("too large"), "base": None, "secret": None}, "refused", (True, None, None)),
        ({"extraction": REFUSED, "base": None, "secret": None}, "refused", (True, None, None)),
        ({"base": TAMPERED, "secret": None}, "tampered", (True, True, None)),
        ({"ending": "out_of_steps"}, "unfinished", (False, True, True)),
        ({"ending": "quit", "base": TAMPERED, "extraction": REFUSED}, "unfinished", (False, True, True)),
        ({"fault": "no gold values", "ending": "quit"}, "fault", (False, True, True)),
        ({"extraction": None, "base": None, "secret": None}, "fault", (True, None, None)),
        ({"base": None, "secret": None}, "fault", (True, None, None)),  # a stage is missing
        ({"secret": None}, "fault", (True, True, None)),
        ({"secret": None, "gold": {0: GOLD[0]}}, "reported_only", (True, True, None)),  # a task without secret variants
    ],
)  # fmt: skip
def test_grade_outcome_is_the_first_that_holds(options, outcome, passed):
    grade = conclude_with(**options)
    assert (grade.outcome, (grade.paper_pass, grade.measured, grade.robust)) == (outcome, passed)
    assert grade.solved == (outcome == "solved")


def test_grade_outcomes_are_a_closed_list_with_texts():
    assert tuple(OUTCOME_TEXTS) == OUTCOMES
    assert len(OUTCOMES) == 10


def test_grade_without_gold_values_is_a_fault_and_not_a_failure():
    for gold in ({}, {**GOLD, 8: {"e1": {"slope": 1.0}}}, {**GOLD, 0: {"e1": {"slope": float("nan"), "intercept": 1}}}):
        grade = conclude_with(gold=gold)
        assert grade.outcome == "fault"
        assert "has no usable gold value of" in grade.findings[0].text


def test_grade_warns_of_a_screen_finding_if_the_task_only_warns():
    from dataclasses import replace

    grade = conclude_with(extraction=REFUSED, task=replace(TASK, screen="warn"))
    assert grade.outcome == "solved"
    assert [finding.text for finding in grade.findings] == ["code/assay/curves.py:22: fit_line has the import os"]


def test_grade_names_gold_numbers_in_code_and_leaves_out_short_and_given_numbers():
    # 3.2981 rounds to the slope; 18.06 is the intercept; 1.0 has too few digits; 3.5 is a constant of the task.
    extraction = Extraction(FILLED.functions, literals=(3.2984, -18.06, 1.0, 3.5))
    gold = {0: {"e1": {"slope": 3.298, "intercept": 18.06}, "e2": {"kept": 1.0, "widest": 3.5}}, 7: GOLD[7], 8: GOLD[8]}
    found = [finding.text for finding in conclude_with(extraction=extraction, gold=gold).findings]
    assert found == ["e1.slope", "e1.intercept"]


def test_grade_shows_reported_measured_and_secret_values_beside_gold():
    grade = conclude_with(reported='{"e1": {"slope": 3.4, "intercept": "18.06"}}', secret=WRONG_SECRET)
    assert [(row.metric, row.value, row.near) for row in grade.compared["reported"]] == [
        ("slope", 3.4, True),
        ("intercept", "18.06", False),
    ]
    assert [row.near for row in grade.compared["secret 1"]] == [True, True]
    assert [(row.gold, row.value, row.near) for row in grade.compared["secret 2"]] == [
        (5.0, 1.0, False),
        (1.0, 1.0, True),
    ]
    assert set(grade.compared) == {"reported", "measured", "secret 1", "secret 2"}


def test_grade_does_not_read_a_report_of_an_episode_that_did_not_submit():
    assert not conclude_with(ending="quit").paper_pass


@pytest.mark.parametrize(
    ("gold", "value", "same"),
    [
        ([12.0, 0.5], [12.0, 0.5], True),
        ([12.0, 0.5], [12.0, 0.55], False),  # of a tuple each number counts by itself
        ({"array": [12.0, 1e-6], "length": 2}, [12.0, 2e-6], True),  # of an array, the largest number sets the scale
        ({"array": [12.0, 0.5], "length": 2}, {"array": [12.0, 0.6], "length": 2}, False),
        ({"array": [1.0], "length": 1}, {"array": [1.0, 2.0], "length": 2}, False),
        (1, 1.0, True),
        ("nan", "nan", True),
        ("nan", 1.0, False),
        (None, None, True),
        ({"kind": "Line", "values": {"slope": 1.0}}, {"kind": "Line", "values": {"slope": 1.0001}}, True),
        ({"kind": "Line", "values": {"slope": 1.0}}, {"kind": "Other", "values": {"slope": 1.0}}, False),
        ([1.0], 7, False),
        (1.0, [1.0], False),
    ],
)
def test_probe_compares_results_by_value_and_not_by_type_of_list(gold, value, same):
    assert is_same_result(gold, value) is same
