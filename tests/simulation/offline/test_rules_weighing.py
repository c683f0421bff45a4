"""Weighing: what heat, moisture and rinsing do to the mass of a precipitate, and that the record shows it."""

import re

import pytest

from tests.support.laboratory_factory import SmallLab, build_material

TARE, PRECIPITATE = 31.2045, 0.4  # g


@pytest.fixture
def small(lab):
    slurry = build_material(
        "slurry", "suspension", "100 mL", "400 mL", "glass beaker",
        contents={"silver nitrate": "20 mM"}, hidden={"silver chloride": "4 mg/mL"},
    )  # fmt: skip
    slurry["contents"]["silver chloride"]["kind"] = "particles"
    crucible = build_material("crucible", "empty container", None, "30 mL", "filter crucible") | {"tare": f"{TARE} g"}
    salty = build_material(
        "salty", volume="100 mL", capacity="200 mL", container="glass bottle", contents={"nitric acid": "10 mM"}
    )
    return SmallLab(
        lab.catalogue,
        slurry,
        crucible,
        salty,
        build_material("water", volume="100 mL", capacity="200 mL", container="glass bottle"),
        build_material("flasks", "empty container", None, "500 mL", "suction flask")
        | {"available_for_use": "unlimited"},
        truth={
            "retained": {"silver chloride": "20 µm"},
            "peptised": {"silver chloride": {"into": "colloidal silver chloride", "share": "0.02"}},
        },
    )


def filter_slurry(small, wash="salty", rinses=3, made="filtrate", **parameters):
    small.run_step(
        "Filter", f"slurry crucible flasks {wash}", made, pore_size="5 µm", membrane="glass fibre", keep_residue=True,
        residue_wash=f"@{wash}", residue_wash_volume="10 mL", residue_washes=rinses, **parameters,
    )  # fmt: skip


def weigh(small, **parameters):
    """Return the readings of the crucible with what is in it, less the empty crucible and the precipitate, in mg."""
    (value,) = small.read_values("MeasureWeight", "crucible", tare=False, **parameters)
    return [(float(reading) - TARE - PRECIPITATE) * 1000 for reading in re.findall(r"(\d+\.\d{4}) g", value)]


def test_an_empty_crucible_weighs_its_tare_also_after_water_ran_through_it(small):
    (value,) = small.read_values("MeasureWeight", "crucible", tare=False, replicates=1)
    assert float(value.removesuffix(" g")) == pytest.approx(TARE, abs=0.0006)
    small.run_step("Filter", "water crucible flasks", "blank", pore_size="5 µm", keep_residue=True)
    small.run_step("DryingOven", "crucible", temperature="110 °C", duration="2 h")
    (value,) = small.read_values("MeasureWeight", "crucible", tare=False, replicates=1)
    assert float(value.removesuffix(" g")) == pytest.approx(TARE, abs=0.0006)


def test_a_dry_cold_precipitate_weighs_what_it_is(small):
    filter_slurry(small)
    small.run_step("DryingOven", "crucible", temperature="110 °C", duration="2 h")
    assert small.get_property("crucible", "condition") == "cooled in a desiccator"
    assert weigh(small) == pytest.approx([0, 0], abs=0.6)


def test_a_damp_precipitate_weighs_tenths_of_a_gram_too_much(small):
    filter_slurry(small)
    assert all(200 <= excess <= 400 for excess in weigh(small))


def test_a_precipitate_dried_below_100_degrees_keeps_some_water_until_it_is_dried_hotter(small):
    filter_slurry(small)
    small.run_step("DryingOven", "crucible", temperature="60 °C", duration="4 h")
    assert small.get_property("crucible", "moisture") == "dry to the eye"
    # 0.4 to 1.0 % of 400 mg
    assert all(1 <= excess <= 4.6 for excess in weigh(small))
    small.run_step("DryingOven", "crucible", temperature="110 °C", duration="1 h")
    assert weigh(small) == pytest.approx([0, 0], abs=0.6)


def test_a_hot_crucible_weighs_milligrams_too_little_and_its_reading_rises(small):
    filter_slurry(small)
    small.run_step("DryingOven", "crucible", temperature="110 °C", duration="2 h", cool_in_desiccator=False)
    excess = weigh(small, replicates=10)
    assert -3.6 <= excess[0] <= -0.4
    assert excess[0] < excess[-1]
    assert weigh(small, cool_first=True) == pytest.approx([0, 0], abs=0.6)


def test_a_crucible_left_in_air_cools_but_takes_up_some_moisture(small):
    filter_slurry(small)
    small.run_step("DryingOven", "crucible", temperature="110 °C", duration="2 h", cool_in_desiccator=False)
    small.run_step("Wait", "water", duration="1 h")
    assert all(-0.5 <= excess <= 1 for excess in weigh(small))
    assert small.get_property("crucible", "condition") == "cooled in air"


def test_cooling_takes_its_time_once_for_all_samples(small):
    before = small.bench.elapsed
    small.run_step("MeasureWeight", "crucible slurry", cool_first=True, replicates=2)
    # twice 1 min and two settling times of 10 s, and 45 min
    assert small.bench.elapsed - before == 2 * (60 + 20) + 45 * 60


def test_three_rinses_with_pure_water_carry_off_two_percent_of_a_precipitate_each(small):
    filter_slurry(small, wash="water")
    small.run_step("DryingOven", "crucible", temperature="110 °C", duration="2 h")
    # 400 mg x 0.98^3 = 376.5 mg
    assert weigh(small) == pytest.approx([-23.5, -23.5], abs=0.6)


@pytest.mark.parametrize(("rinses", "concentration"), [(1, 20 / 21), (3, 20 / 21**3)])
def test_the_last_rinse_carries_the_less_of_the_filtrate_the_more_often_the_residue_was_rinsed(
    small, rinses, concentration
):
    filter_slurry(small, rinses=rinses, made="filtrate rinse", keep_last_rinse=True)
    assert small.get_property("rinse", "rinse") == f"last of {rinses} x 10 mL of salty"
    # 0.5 mL x 20 mM = 10 µmol are held back; of this, each rinse of 10 mL takes 10 / 10.5 along and leaves 0.5 / 10.5
    amount = float(small["rinse"].ledger["components"]["silver nitrate"]["amount"]) / 1000
    assert amount == pytest.approx(10 * concentration)
