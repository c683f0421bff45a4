"""What the checks are worth on labelled transitions, and that the page says so."""

import json
from collections import Counter
from pathlib import Path

import pytest

from simulation.checker import check, tables
from simulation.checker.findings import CODES
from simulation.checker.suite import WARNED, measure

DERIVED = Path(__file__).parents[3] / "fixtures" / "checker" / "derived.jsonl"
FOREIGN = DERIVED.with_name("foreign.jsonl")
LINES = [json.loads(line) for line in DERIVED.read_text(encoding="utf-8").splitlines()]
MADE_UP = [line for line in LINES if "-mutant-" in line["id"] and line["id"].startswith("L")]


def test_every_code_has_three_mutants_and_three_clean_twins():
    wrong = Counter(line["code"] for line in LINES if line["truth"] != "correct" and "code" in line)
    clean = Counter(line["code"] for line in LINES if line["truth"] == "correct" and "code" in line)
    assert min(wrong[code] for code in CODES) >= 3
    assert min(clean[code] for code in CODES) >= 3


@pytest.mark.parametrize("line", MADE_UP, ids=[line["id"] for line in MADE_UP])
def test_a_mutant_is_found_under_the_code_it_breaks(line):
    report = check(line)
    severity = "warning" if line["code"] in WARNED else "error"
    assert (line["code"], severity) in {(finding.code, finding.severity) for finding in report.findings}
    assert (report.verdict == "error") == (severity == "error")


@pytest.mark.parametrize("line", [line for line in LINES if line["truth"] == "correct"], ids=lambda line: line["id"])
def test_a_correct_transition_is_not_called_wrong(line):
    assert check(line).errors == ()


def test_nine_errors_in_ten_are_found():
    result = measure(DERIVED)
    assert result.recall.part >= 0.9 * result.recall.whole
    assert result.malformed == 0


def test_nine_errors_in_ten_are_found_in_foreign_spellings_too():
    result = measure(FOREIGN)
    assert result.recall.part >= 0.9 * result.recall.whole
    assert result.false_alarms.part <= 0.05 * result.false_alarms.whole
    assert (result.malformed, result.false_alarms.whole) == (0, 94)


def test_the_page_gives_the_numbers_of_today():
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.with_tables(page) == page, "run: python -m simulation.checker.tables"
