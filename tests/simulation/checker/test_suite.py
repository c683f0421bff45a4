"""Recall and false alarms on labelled transitions, and the tables of the documentation."""

import importlib
import json
from collections import Counter
from pathlib import Path

import pytest

from simulation.checker import check_transition, suite
from simulation.checker.checks import CHECKS, CODES, validate_checks
from simulation.checker.suite import WARNING_CODES, measure_suite

DERIVED = Path(__file__).parents[3] / "fixtures" / "checker" / "derived.jsonl"
FOREIGN = DERIVED.with_name("foreign.jsonl")
LINES = [json.loads(line) for line in DERIVED.read_text(encoding="utf-8").splitlines()]
MADE_UP = [line for line in LINES if "-mutant-" in line["id"] and line["id"].startswith("L")]


def test_suite_has_at_least_three_wrong_and_three_correct_transitions_for_each_code():
    wrong = Counter(line["code"] for line in LINES if line["truth"] != "correct" and "code" in line)
    clean = Counter(line["code"] for line in LINES if line["truth"] == "correct" and "code" in line)
    assert min(wrong[code] for code in CODES) >= 3
    assert min(clean[code] for code in CODES) >= 3


@pytest.mark.parametrize("line", MADE_UP, ids=[line["id"] for line in MADE_UP])
def test_wrong_transition_of_the_suite_is_reported_under_its_own_code(line):
    report = check_transition(line)
    severity = "warning" if line["code"] in WARNING_CODES else "error"
    assert (line["code"], severity) in {(finding.code, finding.severity) for finding in report.findings}
    assert (report.verdict == "error") == (severity == "error")


@pytest.mark.parametrize("line", [line for line in LINES if line["truth"] == "correct"], ids=lambda line: line["id"])
def test_correct_transition_has_no_errors(line):
    assert check_transition(line).error_findings == ()


def test_checker_recall_on_the_derived_suite_is_at_least_90_percent():
    result = measure_suite(DERIVED)
    assert result.recall.part >= 0.9 * result.recall.whole
    assert result.malformed == 0


def test_checker_recall_on_the_foreign_suite_is_at_least_90_percent():
    result = measure_suite(FOREIGN)
    assert result.recall.part >= 0.9 * result.recall.whole
    assert result.false_alarms.part <= 0.05 * result.false_alarms.whole
    assert (result.malformed, result.false_alarms.whole) == (0, 94)


def test_error_under_one_of_several_accepted_codes_counts_as_named(tmp_path):
    line = next(line for line in MADE_UP if line["code"] == "L02")
    path = tmp_path / "labelled.jsonl"
    path.write_text("\n".join(json.dumps(line | {"code": "L07", "also": also}) for also in (["L02"], [])))
    result = measure_suite(path)
    assert (result.recall.part, result.named_by_code["L07"].part) == (2, 1)


def test_documentation_of_the_checker_has_the_current_measurements():
    page = suite.PAGE.read_text(encoding="utf-8")
    assert suite.insert_tables(page) == page, "run: python -m simulation.checker.suite"


def test_check_with_a_missing_or_repeated_part_stops_the_start():
    first, second, *others = CHECKS
    validate_checks(CHECKS)
    with pytest.raises(ValueError, match="L02 has no title"):
        validate_checks([first, second._replace(title=""), *others])
    with pytest.raises(ValueError, match="L02 has no functions"):
        validate_checks([first, second._replace(functions=()), *others])
    with pytest.raises(ValueError, match="check 2 has the code L01; it must be L02"):
        validate_checks([first, second._replace(code="L01"), *others])
    with pytest.raises(ValueError, match="check_origins is declared 2 times"):
        validate_checks([first, second._replace(functions=first.functions), *others])


def test_every_public_check_of_the_checker_is_declared():
    declared = {function for check in CHECKS for function in check.functions}
    modules = {function.__module__ for function in declared}
    found = {
        value
        for module in modules
        for name, value in vars(importlib.import_module(module)).items()
        if name.startswith("check_") and value.__module__ == module
    }
    assert found == declared
