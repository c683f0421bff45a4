"""Tests that a page shows the same number in the same way, whichever source wrote it, and that its keys stay valid."""

import copy
from typing import Any

import pytest
from django.template.loader import render_to_string

from ratings.blinding import blind_context, blind_evidence, blind_transition
from ratings.blinding.allow_list import align_materials, list_mark_keys
from ratings.blinding.item_view import build_item_view
from simulation.lab.bench import step_to_json
from tests.support import run_factory

STEP = step_to_json(run_factory.build_lab_step(5, "here"))
SPELLINGS = ("2e12 1/mL", "2000000000000 1/mL", "2 x 10^12 per mL", "2E+12/mL")


def build_payload(value: str, text: str = "a titer of 3.0e12 vg/mL") -> dict[str, Any]:
    step = copy.deepcopy(STEP)
    step["outcome"]["new_materials"][0]["properties"]["titer"] = value
    step["outcome"]["new_observations"] = [{"measurement_type": "count", "description": text, "value": value}]
    step["action"]["parameters"] = {"target": value, "place": "room_temp"}
    return blind_transition(step)


def render(payload: dict[str, Any], layout: str) -> str:
    context = blind_context("Reach 2e12 vg/mL.", [STEP])
    return render_to_string("ratings/_item.html", build_item_view(payload, context, layout=layout, with_context=True, marks="always"))  # fmt: skip


@pytest.mark.parametrize("layout", ["plain", "aligned", "balance"])
def test_page_is_the_same_for_every_spelling_of_a_number(layout: str) -> None:
    pages = {render(build_payload(value), layout) for value in SPELLINGS}
    assert len(pages) == 1
    [page] = pages
    assert page.count("2 × 10¹² per mL") >= 3
    assert "a titer of 3.0 × 10¹² vg/mL" in page
    assert "Reach 2 × 10¹² vg/mL." in page
    assert "room_temp" not in page


@pytest.mark.parametrize("layout", ["plain", "aligned", "balance"])
def test_page_shows_a_planted_error_that_only_moves_a_point(layout: str) -> None:
    assert render(build_payload("5.0 µL"), layout) != render(build_payload("50 µL"), layout)
    assert render(build_payload("5.00 µL"), layout) != render(build_payload("5.0 µL"), layout)


def test_rows_that_only_differ_in_spelling_are_unchanged_and_share_a_row() -> None:
    step = copy.deepcopy(STEP)
    material = step["outcome"]["new_materials"][0]
    step["inputs"][0]["properties"]["titer"] = "2e12 1/mL"
    material["properties"]["titer"] = "2.0e12 1/mL"
    [row] = [row for row in align_materials(blind_transition(step))[0].rows if row.label == "Titer"]
    # The number of digits changed, which a rater must be able to see.
    assert (row.before, row.after, row.changed) == ("2 × 10¹² per mL", "2.0 × 10¹² per mL", True)
    material["properties"]["titer"] = "2000000000000/mL"
    [row] = [row for row in align_materials(blind_transition(step))[0].rows if row.label == "Titer"]
    assert not row.changed


def test_keys_of_marks_do_not_depend_on_the_spelling() -> None:
    assert len({tuple(list_mark_keys(build_payload(value))) for value in SPELLINGS}) == 1


def test_record_folds_no_digit_and_shows_its_goal_in_the_same_notation() -> None:
    view = build_item_view(blind_evidence("Count 2e6 cells.", [STEP]))
    assert view["payload"]["goal"] == "Count 2 × 10⁶ cells."
