"""Tests of the names of items: what they contain, and that all versions of a pair have the same name."""

from typing import Any

import pytest

from ratings.blinding import blind_evidence, blind_transition
from ratings.blinding.item_names import MAX_GOAL_LENGTH, MAX_LENGTH, format_action, name_item
from simulation.lab.bench import step_to_json
from tests.support import run_factory

STEP = step_to_json(run_factory.build_lab_step(5, "here"))


def build_payload(action: str, *names: str, unlimited: tuple[str, ...] = ()) -> dict[str, Any]:
    before = [
        {"name": name, "availability": "unlimited supply" if name in unlimited else "can be used further"}
        for name in names
    ]
    return {"kind": "transition", "action": {"name": action}, "before": before}


def test_name_is_the_action_and_the_first_material() -> None:
    assert name_item(build_payload("Centrifuge", "Lysate", "Balance tube")) == "Centrifuge, Lysate"


def test_name_folds_wells() -> None:
    assert (
        name_item(build_payload("Transfer", *(f"HeLa well {n}" for n in (13, 14, 15))))
        == "Transfer, HeLa wells 13 to 15"
    )


def test_name_skips_an_unlimited_supply_unless_there_is_nothing_else() -> None:
    payload = build_payload("Transfer", "PBS", "HeLa well 1", unlimited=("PBS",))
    assert name_item(payload) == "Transfer, HeLa well 1"
    assert name_item(build_payload("Aliquot", "PBS", unlimited=("PBS",))) == "Aliquot, PBS"


def test_name_without_materials_is_the_action() -> None:
    assert name_item(build_payload("Wait")) == "Wait"
    assert name_item({}) == "Item"


def test_name_fits_its_column_and_is_cut_after_a_word() -> None:
    name = name_item(build_payload("Transfer", "bottle of medium " * 20))
    assert len(name) <= MAX_LENGTH
    assert name.endswith("medium…") or name.endswith("bottle…") or name.endswith("of…")


def test_name_of_a_record_is_its_goal_with_the_number_of_steps() -> None:
    assert name_item(blind_evidence("Measure the pH.", [STEP])) == "Measure the pH. (1 step)"
    long = name_item(blind_evidence("Measure " * 30, []))
    assert long == "Measure Measure Measure Measure Measure Measure Measure Measure… (0 steps)"
    assert len(long.partition("…")[0]) < MAX_GOAL_LENGTH


def test_twin_has_the_name_of_its_original_whatever_was_changed() -> None:
    original = name_item(blind_transition(STEP))
    for changed in ({"new_materials": []}, {"new_observations": []}, {"success": False, "failure_reason": "broken"}):
        assert name_item(blind_transition(STEP, STEP["outcome"] | changed)) == original


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CellCounter", "Cell counter"),
        ("FillToVolume", "Fill to volume"),
        ("AgaroseGelElectrophoresis", "Agarose gel electrophoresis"),
        ("AttemptDNAExtraction", "Attempt DNA extraction"),
        ("MeasurepH", "Measure pH"),
        ("qPCR", "qPCR"),
        ("ELISA", "ELISA"),
        ("CapillaryELISA", "Capillary ELISA"),
    ],
)
def test_action_is_written_as_words(name: str, words: str) -> None:
    assert format_action(name) == words
