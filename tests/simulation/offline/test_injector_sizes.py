"""Sizes and scopes of planted errors: drawn from the range, written as genuine numbers are, in one vessel or in all."""

import random
from decimal import Decimal

import pytest

from simulation.lab import quantities
from simulation.lab.actions import Action, ActionType, Catalogue
from simulation.lab.deviations import SizeRange, measure_deviation
from simulation.lab.materials import Inventory, Material, NewMaterial
from simulation.lab.outcomes import NOTE, Observation, Outcome, Perturbation
from simulation.lab.roles import Situation
from simulation.offline.injectors import Injector, edits, scopes, sizes
from simulation.offline.injectors.choice import compute_shares

SOURCE, TUBES = "MAT-AAAAAAAA", "MAT-BBBBBBBB"
AVAILABLE = "available_for_further_use"


def build_aliquots(portions=3):
    """Return (action, situation, outcome) of 10 mL each from 100 mL of medium into new tubes of 50 mL."""
    medium = Material(SOURCE, "Medium", {"phase": "liquid", "volume": "100 mL"}, AVAILABLE, "static", "4C", 0, 0)
    tubes = Material(TUBES, "Tubes", {"phase": "consumable"}, AVAILABLE, "static", "room_temp", 0, 0)
    catalogue = Catalogue({"Aliquot": ActionType("Aliquot", "transformation", "d", "i", "o", ())})
    situation = Situation("goal", catalogue, Inventory((medium, tubes)), (), 0, 50)
    shown = {"phase": "liquid", "volume": "10 mL", "container": "50 mL tube", "container_capacity": "50 mL"}
    new = [NewMaterial(f"Culture {n}", dict(shown), derived_from=(SOURCE,)) for n in range(1, portions + 1)]
    rest = NewMaterial("Medium", {"phase": "liquid", "volume": f"{100 - 10 * portions} mL"}, replaces=SOURCE)
    note = Observation("Delivered from Medium", NOTE, f"{portions} × 10.00 mL")
    action = Action("Aliquot", (SOURCE, TUBES), {"volume": "10 mL", "count": portions})
    return action, situation, Outcome(True, (rest, *new), (note,))


def read_volumes(outcome):
    return [material.properties["volume"] for material in outcome.new_materials]


@pytest.mark.parametrize("sizes_range", [SizeRange(), SizeRange(0.02, 0.08), SizeRange(0.3, 0.6)])
def test_drawn_factors_lie_in_the_range_and_go_up_as_often_as_down(sizes_range):
    factors = [factor for seed in range(50) for factor in sizes.draw_factors(sizes_range, random.Random(seed))]
    assert all(sizes_range.contains(float(factor) - 1) for factor in factors)
    assert sum(factor > 1 for factor in factors) == len(factors) / 2


def test_deviations_of_a_tiny_volume_exceed_what_its_pipette_may_be_off():
    # A pipette of 2 µL may be off by 0.08 + 0.04 µL: 24 % of 0.5 µL, three times of which is more than the largest size.
    factors = sizes.draw_factors(SizeRange(0.1, 0.4), random.Random(1), Decimal("0.5"))
    assert {abs(factor - 1) for factor in factors} == {Decimal("0.4")}
    # Of 2 µL it is 6 %, so deviations begin at 18 %.
    factors = sizes.draw_factors(SizeRange(0.1, 0.4), random.Random(1), Decimal(2))
    assert all(abs(factor - 1) >= Decimal("0.18") for factor in factors)


@pytest.mark.parametrize(
    ("value", "factor", "scaled"),
    [
        ("5.850 min", "1.2", "7.020 min"),  # the decimals of the display
        ("0.220, 0.224 AU", "1.5", "0.330, 0.336 AU"),
        ("290, 291, 288 mOsm/kg", "1.2", "348, 349, 346 mOsm/kg"),
        ("102000 cells/mL, 104000 cells/mL", "0.75", "76500 cells/mL, 78000 cells/mL"),
        ("0.3012 g, 0.3011 g", "1.1", "0.3313 g, 0.3312 g"),  # a balance: the same shift, so the scatter stays
        ("33.33 % (3333 of 10000 events)", "1.2", "40 % (4000 of 10000 events)"),  # the whole stays
    ],
)
def test_readings_are_scaled_with_the_digits_of_their_display(value, factor, scaled):
    assert sizes.scale_reading(value, Decimal(factor)) == scaled


def test_every_numeric_subtle_error_has_a_size_in_the_range_and_every_obvious_one_a_factor_of_two():
    example, small = build_aliquots(), SizeRange(0.15, 0.25)
    for seed in range(5):
        for candidate in Injector(Perturbation.SUBTLE, seed, small).list_candidates(*example):
            deviation = measure_deviation(candidate.plan.edits[0].old, candidate.plan.edits[0].new)
            assert deviation is None or 0.15 <= abs(deviation) <= 0.25
        for candidate in Injector(Perturbation.OBVIOUS, seed).list_candidates(*example):
            deviation = measure_deviation(candidate.plan.edits[0].old, candidate.plan.edits[0].new)
            assert deviation is None or deviation >= 1 or deviation <= -0.5


def test_an_error_fits_one_vessel_and_all_its_replicates():
    case = edits.Case(*build_aliquots())
    plan = edits.Plan("rule", "too much", (case.all_materials[1].change("volume", "12 mL"),))
    scoped = dict(scopes.list_scopes(case, plan))
    one, every = (edits.apply_edits(case.outcome, scoped[scope].edits) for scope in (scopes.ONE, scopes.ALL))
    assert read_volumes(one) == ["70 mL", "12 mL", "10 mL", "10 mL"]
    assert read_volumes(every) == ["70 mL", "12 mL", "12 mL", "12 mL"]


def test_routine_notes_follow_the_volumes_that_they_repeat():
    case = edits.Case(*build_aliquots())
    plan = edits.Plan("rule", "too much", (case.all_materials[1].change("volume", "12 mL"),))
    notes = {
        scope: edits.apply_edits(case.outcome, scoped.edits).new_observations[0].value
        for scope, scoped in scopes.list_scopes(case, plan)
    }
    # 12 mL are set on a graduated pipette of 25 mL, which has one decimal.
    assert notes == {scopes.ONE: "2 × 10.00 mL, 12.0 mL", scopes.ALL: "3 × 12.0 mL"}


def test_a_wrong_volume_delivered_is_missing_from_its_source():
    case = edits.Case(*build_aliquots())
    kind = edits.INJECTORS[Perturbation.SUBTLE]["wrong_volume_delivered"]
    plans = [plan for seed in range(4) for plan in kind.iter_plans(case, random.Random(seed))]
    assert len({len(plan.edits) for plan in plans}) == 2  # one vessel and the source, or all three and the source
    for plan in plans:
        volumes = [
            quantities.parse_quantity(text, "volume").value
            for text in read_volumes(edits.apply_edits(case.outcome, plan.edits))
        ]
        assert sum(volumes) == 100_000 and set(volumes[1:]) != {10_000}


def test_readings_of_replicates_that_agree_are_shifted_together():
    action, situation, outcome = build_aliquots()
    seen = [Observation(f"Reading of Culture {n}: absorbance", "quantitative", f"0.{n}00 AU") for n in (1, 2, 3)]
    seen[1] = Observation("Reading of Culture 2: absorbance", "quantitative", "0.110 AU")
    case = edits.Case(action, situation, Outcome(True, outcome.new_materials, tuple(seen)))
    plan = edits.Plan("rule", "too much", (case.readings[0].change("0.120 AU"),))
    spread = scopes.spread_plan(case, plan)
    assert spread is not None
    # 0.120 is 20 % above 0.100; the second reads 0.110 and agrees, the third reads 0.300 and does not.
    assert [edit.new for edit in spread.edits] == ["0.120 AU", "0.132 AU"]


def test_shares_are_divided_by_place_field_kind_and_scope():
    kinds = {name: edits.ErrorKind(lambda case, rng: iter(()), "rule", 4, False, True) for name in "ab"}
    keys = [
        (edits.OBSERVATIONS, "absorbance", "a", scopes.ONE),
        (edits.MATERIALS, "mass", "a", scopes.ONE),
        (edits.MATERIALS, "mass", "a", scopes.ALL),
        (edits.MATERIALS, "mass", "b", scopes.ONE),
    ]
    shares = compute_shares(keys, kinds, has_measurements=False)
    # 18 % for observations, in which errors fit in one field only; of the mass, half for each kind; of kind a, one part for
    # one vessel and 0.5 for all.
    assert shares == pytest.approx([0.18, 0.41 / 1.5, 0.41 * 0.5 / 1.5, 0.41])
    assert compute_shares(keys, kinds, has_measurements=True)[0] == pytest.approx(0.97)
    # With errors in a second field of the notes, both together have 48 %.
    noted = [(edits.OBSERVATIONS, "Delivered from (heading)", "a", scopes.ONE), *keys]
    assert sum(compute_shares(noted, kinds, has_measurements=False)[:2]) == pytest.approx(0.48)
