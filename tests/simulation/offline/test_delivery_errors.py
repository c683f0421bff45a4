"""Errors of pipettes, flasks and dispensers: what the record states, and what instruments measure."""

from decimal import Decimal
from statistics import mean, stdev

import pytest

from simulation.offline.ledger import VOLUME, Component, Contents
from simulation.offline.volumetric import DeliveryErrors
from tests.support.laboratory_factory import SmallLab, build_material, build_tubes

FULL = {"salt": Component("amount", Decimal(1000), True)}


def measure_volume(contents):
    return contents.as_delivered().volume


def weigh(small, key):
    (value,) = small.read_values("MeasureWeight", key, balance="analytical", tare=True, replicates=1)
    return float(value.removesuffix(" g"))


@pytest.fixture
def small(lab):
    return SmallLab(
        lab.catalogue,
        build_material("water", volume="50 mL", capacity="100 mL", container="bottle", density="1 g/mL"),
        build_material("tap", volume=None, capacity=None, unlimited=True, density="1 g/mL"),
        build_material("flask", volume="1 mL", capacity="130 mL", container="volumetric flask", density="1 g/mL"),
        build_tubes("tubes", "2 mL", "2 mL tube"),
        seed=7,
    )


def test_replicates_have_equal_volumes_in_the_record_and_different_masses_on_the_balance(small):
    small.run_step("Aliquot", "water tubes", "a b c d e f", volume="1 mL", count=6)
    assert {small.get_property(key, "volume") for key in "abcdef"} == {"1 mL"}
    masses = [weigh(small, key) for key in "abcdef"]
    assert len(set(masses)) == 6
    # 1 mL of a 1000 µL pipette: at most 4 µL of systematic error, 1.5 µL of scatter (four of them)
    assert all(mass == pytest.approx(1, abs=0.010) for mass in masses)
    assert stdev(masses) == pytest.approx(0.0015, rel=0.9)


def test_same_seed_delivers_the_same_volumes_and_another_seed_others():
    first, again, other = DeliveryErrors((1, 4)), DeliveryErrors((1, 4)), DeliveryErrors((2, 4))
    ratio = first.compute_ratio(Decimal(50), "MAT-A", 0)
    assert again.compute_ratio(Decimal(50), "MAT-A", 0) == ratio
    assert first.compute_ratio(Decimal(50), "MAT-A", 1) != ratio
    assert other.compute_ratio(Decimal(50), "MAT-A", 0) != ratio


def test_errors_of_a_pipette_have_the_declared_scatter_and_one_systematic_error():
    # 200 µL pipette: half of the limits 1.6 µL (systematic) and 0.6 µL (scatter), on 100 µL
    errors = [DeliveryErrors((3, step)).compute_ratio(Decimal(100), "MAT-A", 0) - 1 for step in range(400)]
    percent = [100 * float(error) for error in errors]
    assert stdev(percent) == pytest.approx(0.3, rel=0.15)
    assert 0 < abs(mean(percent)) < 0.8 + 3 * 0.3 / 20
    others = [float(DeliveryErrors((seed, 1)).compute_ratio(Decimal(100), "MAT-A", 0) - 1) for seed in range(400)]
    # Uniform from -0.8 to 0.8 %, whose standard deviation is 0.46 %, and 0.3 % of scatter: 0.55 %
    assert 100 * stdev(others) == pytest.approx(0.55, rel=0.15)


def test_splitting_conserves_what_is_really_there():
    contents = Contents(FULL, {}, Decimal(500)).scale_delivery(Decimal("1.004"))
    moved, left = contents.take_volume(Decimal(100), ratio=Decimal("1.01"))
    # 500 µL x 1.004 = 502 µL; a fifth of it x 1.01 = 101.404 µL
    assert (moved.volume, left.volume) == (100, 400)
    assert measure_volume(moved) == Decimal("101.404")
    assert measure_volume(moved) + measure_volume(left) == pytest.approx(Decimal(502), abs=Decimal("1E-6"))
    amounts = [part.as_delivered().get_amount("salt") for part in (moved, left)]
    assert sum(amounts) == pytest.approx(Decimal(1004), abs=Decimal("1E-6"))


def test_a_drawn_portion_has_the_concentration_of_its_source():
    contents = Contents(FULL, {}, Decimal(500)).scale_delivery(Decimal("1.004"))
    moved, left = contents.take_volume(Decimal(100), ratio=Decimal("1.01"))
    for part in (moved, left):
        concentration = part.as_delivered().compute_concentration("salt")
        assert concentration == pytest.approx(Decimal(2000), abs=Decimal("1E-4"))


def test_mixing_adds_what_is_really_there():
    one = Contents(FULL, {}, Decimal(100)).scale_delivery(Decimal("1.02"))
    other = Contents({}, {}, Decimal(300)).scale_delivery(Decimal("0.98"))
    mixed = (one + other).as_delivered()
    # 102 + 294 µL; 1020 nmol of salt
    assert (mixed.volume, mixed.get_amount("salt")) == (396, 1020)


def test_the_last_portion_takes_everything_that_is_left():
    contents = Contents(FULL, {}, Decimal(100)).scale_delivery(Decimal("0.99"))
    moved, left = contents.take_volume(Decimal(100), ratio=Decimal("1.01"))
    assert (measure_volume(moved), measure_volume(left)) == (99, 0)


def test_a_portion_never_takes_more_than_is_there():
    contents = Contents(FULL, {}, Decimal(100))
    moved, left = contents.take_volume(Decimal(99), ratio=Decimal("1.05"))
    # 1 µL is left by the record, and at most half of it moves with the portion.
    assert measure_volume(moved) == pytest.approx(Decimal("99.5"), abs=Decimal("1E-6"))
    assert measure_volume(left) == pytest.approx(Decimal("0.5"), abs=Decimal("1E-6"))


def test_cells_that_stay_are_not_changed_by_the_error_of_a_draw():
    cells = {"HeLa cells": Component("count", Decimal(1000), False, "cells")}
    contents = Contents(cells, {}, Decimal(500)).scale_delivery(Decimal("1.01"))
    _, left = contents.take_volume(Decimal(100), keep=["HeLa cells"], ratio=Decimal("1.02"))
    assert left.as_delivered().get_amount("HeLa cells") == 1010


def test_deviations_are_kept_in_the_ledger_and_hidden_from_people(small):
    small.run_step("Aliquot", "tap tubes", "a", volume="500 µL", count=1)
    assert VOLUME in small["a"].ledger["deviations"]
    assert Contents.from_ledger(small["a"].ledger).deviations != {}
    assert "deviations" not in str(small["a"].to_visible())


def test_a_volumetric_flask_is_more_precise_than_a_cylinder(small):
    small.run_step("FillToVolume", "flask tap", solvent="@tap", total_volume="100 mL")
    # 100 mL with 0.05 % of scatter (four of them); a cylinder of 100 mL is off by up to 0.25 mL
    held = measure_volume(Contents.from_ledger(small["flask"].ledger))
    assert held != 100_000
    assert held == pytest.approx(Decimal(100_000), abs=Decimal(200))
    assert small.get_property("flask", "volume") == "100 mL"


def test_acoustic_droplets_have_relative_errors():
    ratios = [
        float(DeliveryErrors((5, 1)).compute_ratio(Decimal("0.025"), "MAT-A", n, acoustic=True)) for n in range(200)
    ]
    assert stdev(ratios) == pytest.approx(0.04, rel=0.2)
    assert mean(ratios) == pytest.approx(1, abs=0.05 + 0.01)


@pytest.mark.parametrize(
    ("mass", "scatter"),
    # 1 mg and 0.1 % of the mass, at most 1 %
    [(9_500, 0.01), (200_000, 0.006), (4_000_000, 0.00125)],
)
def test_masses_of_weighed_portions_scatter_less_the_larger_they_are(mass, scatter):
    masses = [DeliveryErrors((8, 1)).compute_weighed_mass(Decimal(mass), "MAT-A", number) for number in range(400)]
    errors = [float(weighed) / mass - 1 for weighed in masses]
    assert stdev(errors) == pytest.approx(scatter, rel=0.12)  # 3 / sqrt(2 * 400)
    assert mean(errors) == pytest.approx(0, abs=3 * scatter / 20)
    assert max(map(abs, errors)) <= 0.0301
    # Analytical balances display 0.1 mg, microbalances, for less than 10 mg, 0.001 mg.
    assert all(weighed % (1 if mass < 10_000 else 100) == 0 for weighed in masses)
