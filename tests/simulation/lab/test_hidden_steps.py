"""Masks of protocols: how they are drawn, and the protocol that an agent reads."""

from itertools import combinations, islice, pairwise
from math import comb

import pytest

from simulation.lab.errors import LabError
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.hidden_steps.masks import ProtocolMask, list_candidates
from simulation.lab.hidden_steps.written_protocols import write_protocol
from simulation.lab.materials import AVAILABLE, UNLIMITED, NewMaterial

STEPS = (1, 2, 4, 7, 9)

TEA = ExperimentSpec(
    slug="tea",
    name="Tea",
    group="Chemistry",
    goal="Find the pH of the tea.",
    max_steps=20,
    materials=(
        ("tea", NewMaterial("Tea, green", {"volume": "50 mL"}, AVAILABLE)),
        ("tubes", NewMaterial("Tubes", {}, UNLIMITED)),
    ),
    protocol=(
        {"action": "Aliquot", "materials": ["tea", "tubes"], "parameters": {"volume": "1 mL", "count": 3, "label": "Cup"},
         "yields": {"cup_b": 2, "cup_a": 1, "cup_c": 3}, "role": "sample"},
        {"action": "Aliquot", "materials": ["tea", "tubes"], "parameters": {"label": "Secret blank", "count": 1},
         "yields": {"blank": 1}, "role": "control"},
        {"action": "Transfer", "materials": ["cup_a", "blank"], "parameters": {"source": "@cup_a"}, "yields": {}},
        {"action": "MeasurepH", "materials": ["cup_a", "cup_b", "cup_c", "tea"],
         "parameters": {"calibrate": True, "points": ["4", "7"], "range": {"low": 1}}, "yields": {}, "role": "sample"},
        {"action": "MeasurepH", "materials": ["cup_a", "cup_c"], "parameters": {}, "yields": {}},
    ),
)  # fmt: skip


def test_uniform_masks_are_every_combination_once_and_more_never_change_the_first() -> None:
    drawn = list(list_candidates(STEPS, 2, "tea"))
    assert sorted(drawn) == list(combinations(STEPS, 2)) and drawn != sorted(drawn)
    assert list(islice(list_candidates(STEPS, 2, "tea"), 3)) == drawn[:3]
    assert drawn != list(list_candidates(STEPS, 2, "tea", seed=2)) != list(list_candidates(STEPS, 2, "coffee", seed=2))


def test_uniform_masks_of_many_steps_are_drawn_without_listing_all() -> None:
    steps = range(1, 31)
    assert comb(30, 15) > 10**8
    drawn = list(islice(list_candidates(steps, 15, "tea"), 300))
    assert len(set(drawn)) == 300 and all(len(set(hidden)) == 15 and list(hidden) == sorted(hidden) for hidden in drawn)
    # Each of the 30 steps is hidden in 150 of 300 masks on average, with a standard deviation of 8.7.
    assert all(100 < sum(step in hidden for hidden in drawn) < 200 for step in steps)


def test_nested_masks_of_rising_n_contain_each_other() -> None:
    by_n = [next(list_candidates(STEPS, n, "tea", "nested")) for n in range(6)]
    assert by_n[0] == () and by_n[5] == STEPS
    assert all(set(fewer) < set(more) for fewer, more in pairwise(by_n))
    assert len(list(list_candidates(STEPS, 1, "tea", "nested"))) == 5


@pytest.mark.parametrize(("n", "mode", "words"), [(6, "uniform", "allowed: 0 to 5"), (1, "linked", "allowed: uniform")])
def test_impossible_mask_is_refused_with_what_is_allowed(n: int, mode: str, words: str) -> None:
    with pytest.raises(LabError, match=words):
        next(list_candidates(STEPS, n, "tea", mode))  # type: ignore[arg-type]  # what a form could send


def test_mask_survives_storage_and_equal_tasks_have_equal_keys() -> None:
    mask = ProtocolMask((3, 7), "nested", "prefix", 4, 9, ("blank",))
    assert ProtocolMask.from_json(mask.to_json()) == mask and ProtocolMask.from_json({}) is None
    assert (mask.n, mask.key, mask.steps_before) == (2, "3.7/prefix", 2)
    assert ProtocolMask((3, 7), help="prefix").key == mask.key != ProtocolMask((3, 7)).key
    assert (ProtocolMask(()).key, ProtocolMask(()).steps_before) == ("none/text", None)


def test_written_protocol_names_materials_and_products_and_shows_nothing_of_hidden_steps() -> None:
    lines = write_protocol(TEA, [2]).splitlines()
    assert lines == [
        "1. Aliquot. Materials: Tea, green; Tubes. Parameters: count=3; label=Cup; volume=1 mL",
        "2. (one step is missing here)",
        "3. Transfer. Materials: product 1 of step 1; the product of step 2. Parameters: source=product 1 of step 1",
        "4. MeasurepH. Materials: all 3 products of step 1; Tea, green. Parameters: calibrate=true; points=4, 7; range={low:1}",
        "5. MeasurepH. Materials: products 1, 3 of step 1",
    ]
    assert "Secret blank" in write_protocol(TEA, []) and "missing" not in write_protocol(TEA, [])
