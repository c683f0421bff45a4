"""Rewrites that keep every fact never change the verdict on a correct line."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulation.checker import check_transition
from tests.simulation.checker.rewrites import REWRITES, split_vessel, use_decimal_commas, use_small_units
from tests.support.data_files import CATALOGUE as TYPES

FOLDER = Path(__file__).parents[3] / "fixtures" / "checker"
LINES = [
    line
    for name in ("development", "foreign", "derived")
    for text in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    if (line := json.loads(text))["truth"] == "correct"
]
UNSEEN = [json.loads(text) for text in (FOLDER / "development.jsonl").read_text(encoding="utf-8").splitlines()]


@settings(max_examples=120, deadline=None)
@given(line=st.sampled_from(LINES), rewrites=st.lists(st.sampled_from(REWRITES), min_size=1, max_size=3, unique=True))
def test_rewritten_correct_line_has_the_same_verdict(line, rewrites):
    rewritten = line
    for rewrite in rewrites:
        rewritten = rewrite(rewritten)
    assert (check_transition(rewritten, TYPES).verdict == "error") == (check_transition(line, TYPES).verdict == "error")


@pytest.mark.parametrize("rewrite", REWRITES, ids=lambda rewrite: rewrite.__name__)
def test_errors_of_the_unseen_suite_are_found_after_a_rewrite(rewrite):
    wrong = [line for line in UNSEEN if line["truth"] != "correct"]
    is_found = [check_transition(line, TYPES).verdict == "error" for line in wrong]
    still_found = [check_transition(rewrite(line), TYPES).verdict == "error" for line in wrong]
    # One in fifty may get lost: a rewrite may remove the very spelling that was wrong.
    assert sum(old and not new for old, new in zip(is_found, still_found, strict=True)) <= len(wrong) / 50


def test_rewrites_do_rewrite():
    assert sum(use_small_units(line) != line for line in UNSEEN) > 50
    assert sum(use_decimal_commas(line) != line for line in UNSEEN) > 50
    # Pool of two: 1.0 mL becomes twice 0.5 mL.
    vessel = {"barcode": "MAT-AAAA1111", "name": "Pool part", "properties": {"volume": "1.0 mL"}}
    line = {
        "input_materials": [vessel],
        "action": {"name": "Combine", "materials": ["MAT-AAAA1111"]},
        "outcome": {"new_materials": [], "new_observations": []},
    }
    assert [view["properties"]["volume"] for view in split_vessel(line)["input_materials"]] == ["0.5 mL", "0.5 mL"]
