"""Evaporation: how fast, out of which vessels, and that the record does not show what nobody has measured."""

from decimal import Decimal

import pytest

from simulation.offline.handlers.evaporation import compute_rate
from simulation.offline.ledger import VOLUME, Contents
from tests.support.laboratory_factory import SmallLab, build_material

BEAKER = {"volume": "100 mL", "capacity": "400 mL", "container": "400 mL glass beaker"}


def open_lab(lab, seed=5, **vessels):
    materials = [
        build_material(key, **{"contents": {"salt": "10 mM"}, **properties}) for key, properties in vessels.items()
    ]
    return SmallLab(lab.catalogue, *materials, seed=seed)


def measure_loss(small, key):
    """Return the volume in µL that the vessel lacks compared with its record."""
    contents = Contents.from_ledger(small[key].ledger)
    return float(-contents.deviations.get(VOLUME, Decimal(0)) * contents.volume)


@pytest.mark.parametrize(
    ("temperature", "humidity", "rate"),
    [
        # 0.089 / 2440 * 3600 * 100 = 13.13 µL/(cm² h kPa). Vapour pressures of water from steam tables: 2.645 kPa at 22 °C,
        # 6.282 at 37 °C, 57.87 at 85 °C, 0.8135 at 4 °C. The air of the room has half of 2.645 kPa, that of a refrigerator half of
        # 0.8135 kPa.
        (22, None, 13.13 * 2.645 / 2),
        (37, None, 13.13 * (6.282 - 1.322)),
        (37, 95, 13.13 * 6.282 * 0.05),
        (85, None, 13.13 * (57.87 - 1.32)),
        (4, None, 13.13 * 0.8135 / 2),
        (37, 100, 0),
    ],
)
def test_water_evaporates_by_the_difference_of_vapour_pressures(temperature, humidity, rate):
    assert compute_rate(temperature, humidity) == pytest.approx(rate, rel=0.02, abs=1e-9)


def test_an_open_beaker_loses_water_on_the_bench_and_a_bottle_does_not(lab):
    bottle = {**BEAKER, "container": "500 mL glass bottle", "capacity": "500 mL"}
    small = open_lab(lab, beaker=BEAKER, bottle=bottle)
    small.run_step("Wait", "beaker bottle", duration="10 h")
    # A beaker of 400 mL, 1.3 times as high as wide, is 7.3 cm wide, 42 cm²: 17.3 µL/(cm² h) make 7.3 mL in 10 h.
    assert measure_loss(small, "beaker") == pytest.approx(7300, rel=0.02)
    assert measure_loss(small, "bottle") == 0
    # The record keeps the volume and concentration that were set; instruments measure the higher concentration.
    assert small.get_property("beaker", "volume") == "100 mL"
    assert small.get_property("beaker", "salt concentration") == "10 mM"
    measured = Contents.from_ledger(small["beaker"].ledger).as_delivered().compute_concentration("salt")
    assert float(measured) == pytest.approx(10_000 / 0.927, rel=0.002)  # nmol/mL


@pytest.mark.parametrize(
    ("container", "capacity", "humidity", "loss"),
    [
        # A day at 37 °C: 13.13 * 6.26 * 0.05 = 4.11 µL/(cm² h) at 95 % humidity, through a slit of 5 % of the area
        ("well of a 96-well plate, clear bottom", "360 µL", "95 %", 4.11 * 0.32 * 0.05 * 24),
        ("well of a 24-well plate", "3 mL", "95 %", 4.11 * 1.9 * 0.05 * 24),
        ("35 mm glass-bottom dish", "4 mL", "95 %", 4.11 * 9.6 * 0.05 * 24),
        ("well of a 96-well plate, clear bottom", "360 µL", "50 %", 41.1 * 0.32 * 0.05 * 24),
        ("well of a 96-well deep-well plate, polypropylene", "2.2 mL", "50 %", 0),  # covered with a film
        ("15 mL centrifuge tube", "15 mL", "50 %", 0),
    ],
)
def test_cultures_lose_water_by_the_format_of_their_vessel_and_the_humidity(lab, container, capacity, humidity, loss):
    well = {"volume": "200 µL", "capacity": capacity, "container": container}
    small = open_lab(lab, well=well)
    small.run_step("CellCultureIncubate", "well", temperature="37 °C", duration="24 h", humidity=humidity)
    assert measure_loss(small, "well") == pytest.approx(loss, rel=0.01)


@pytest.mark.parametrize(("cover", "share"), [("closed", 0.05), ("gas-permeable film", 0.2), ("open", 1)])
def test_a_cover_decides_how_much_leaves_a_beaker_in_an_incubator(lab, cover, share):
    small = open_lab(lab, beaker=BEAKER)
    small.run_step("Incubate", "beaker", temperature="37 °C", duration="5 h", cover=cover)
    # 64.8 µL/(cm² h) in air of the room that was warmed to 37 °C, 42.1 cm²
    assert measure_loss(small, "beaker") == pytest.approx(64.8 * 42.1 * 5 * share, rel=0.02)


def test_evaporation_adds_up_over_steps_and_stops_at_half(lab):
    once, often = open_lab(lab, beaker=BEAKER), open_lab(lab, beaker=BEAKER)
    once.run_step("Wait", "beaker", duration="12 h")
    for _ in range(12):
        often.run_step("Wait", "beaker", duration="1 h")
    assert measure_loss(often, "beaker") == pytest.approx(measure_loss(once, "beaker"), rel=0.001)
    once.run_step("Wait", "beaker", duration="14 day")
    assert measure_loss(once, "beaker") == 50_000


def test_ice_and_solids_do_not_evaporate(lab):
    frozen = {**BEAKER, "phase": "frozen", "condition": "-80C"}
    powder = {**BEAKER, "phase": "powder", "volume": None, "contents": {"salt": "1 mg"}}
    small = open_lab(lab, frozen=frozen, powder=powder)
    small.run_step("Wait", "frozen powder", duration="3 day")
    assert [small[key].ledger.get("deviations") for key in ("frozen", "powder")] == [None, None]
