"""Declared readings: what x is, which curve, which noise, and where there is no reading at all."""

from decimal import Decimal

import pytest

from simulation.lab.actions import ActionType, Catalogue, Duration
from simulation.lab.parameters import Parameter
from simulation.offline.truths import check
from tests.support.laboratory_factory import SmallLab, material, tubes

# An instrument of our own, so that no file of the catalogue changes what these tests show.
METER = ActionType(
    "Meter", "measurement", "reads", "samples", "readings", handler="assay", duration=Duration(60),
    parameters=(
        Parameter("sample_volume", "range_with_units", "load", dimension="volume", minimum="0 µL", maximum="1 mL", default="10 µL"),
        Parameter("power", "range_with_units", "light", dimension="power_density", minimum="0 mW/mm²", maximum="50 mW/mm²"),
        Parameter("speed", "range_with_units", "scan", dimension="scan_rate", minimum="1 mV/s", maximum="1 V/s", default="100 mV/s"),
        Parameter("probe", "material_selector", "what reads"),
    ),
)  # fmt: skip
CATALOGUE = Catalogue({"Meter": METER})


def bench(truth, *materials):
    entry = {"action": "Meter", "signal": "signal", "unit": "AU", "noise": "0", **truth}
    return SmallLab(CATALOGUE, *materials, truth={"responses": [entry]})


def read(truth, hidden, **parameters):
    """The numbers read of one liquid that holds this."""
    lab = bench(truth, material("tea", hidden=hidden))
    return lab.values("Meter", "tea", **parameters)


def test_a_hill_curve_is_half_way_at_its_half_point_and_at_its_bottom_without_the_substance():
    curve = {"component": "dye", "hill": {"bottom": "1", "top": "9", "half": "4 µM", "n": "2"}}
    assert read(curve, {"dye": "4 µM"}) == ["5 AU"]  # 1 + 8 / 2
    assert read(curve, {"dye": "12 µM"}) == ["8.2 AU"]  # 1 + 8 * 144 / (16 + 144)
    assert read(curve, {"salt": "1 mM"}) == ["1 AU"]


def test_a_logarithm_and_a_table_give_what_is_declared():
    assert read({"component": "dye", "log10": {"slope": "2", "intercept": "1"}}, {"dye": "1 mM"}) == ["7 AU"]  # 2*3+1
    table = {"component": "acid", "table": [["0 mM", "7"], ["2 mM", "5"], ["4 mM", "4.5"]]}
    assert read(table, {"acid": "1 mM"}) == ["6 AU"]
    assert read(table, {"acid": "3 mM"}) == ["4.75 AU"]
    assert read(table, {"acid": "9 mM"}) == ["4.5 AU"]


def test_several_components_add_up_by_their_weights():
    # 10 mM = 10000 µM at 0.002 and 5 mM = 5000 µM at 0.001: 20 + 5
    weights = {"components": {"sodium": "0.002", "sugar": "0.001"}, "slope": "1", "intercept": "0"}
    assert read(weights, {"sodium": "10 mM", "sugar": "5 mM"}) == ["25 AU"]


def test_a_signal_may_go_by_a_parameter_and_one_left_out_counts_as_zero():
    light = {"parameter": "power", "hill": {"bottom": "0", "top": "10", "half": "2 mW/mm²", "n": "1"}}
    assert read(light, {"sensor": "1 µM"}, power="2 mW/mm²") == ["5 AU"]
    assert read(light, {"sensor": "1 µM"}) == ["0 AU"]


def test_without_what_it_requires_the_reading_is_that_of_nothing_and_without_its_medium_there_is_none():
    light = {"parameter": "power", "slope": "1", "intercept": "0.5", "requires": ["sensor"], "within": ["medium"]}
    assert read(light, {"medium": "1 µM", "sensor": "1 µM"}, power="2 mW/mm²") == ["2.5 AU"]
    assert read(light, {"medium": "1 µM"}, power="2 mW/mm²") == ["0.5 AU"]
    assert read(light, {"sensor": "1 µM"}, power="2 mW/mm²") == [""]


def test_an_amount_for_each_cell_is_the_same_in_any_volume():
    per = {"component": "label", "per": ["red cells", "white cells"], "slope": "1", "intercept": "0"}
    # 600 particles/mL over 100 + 200 cells/mL, in 1 mL
    assert read(per, {"label": "600 1/mL", "red cells": "100 cells/mL", "white cells": "200 cells/mL"}) == ["2 AU"]


def test_a_signal_scales_with_a_power_of_a_parameter():
    peak = {"component": "ferrocene", "slope": "1", "intercept": "0",
            "scales_with": {"parameter": "speed", "reference": "100 mV/s", "power": "0.5"}}  # fmt: skip
    assert read(peak, {"ferrocene": "3 µM"}, speed="400 mV/s") == ["6 AU"]  # twice at four times the speed


def test_a_reading_is_declared_against_a_probe_that_shows_or_holds_the_right_thing():
    liquid = material("tea", hidden={"ferrocene": "3 µM"})
    shows = {"component": "ferrocene", "slope": "1", "intercept": "0", "chosen": {"probe": {"kind": "silver"}}}
    lab = bench(shows, liquid, material("silver_rod", kind="silver"), material("gold_rod", kind="gold"))
    assert lab.values("Meter", "tea silver_rod", probe="@silver_rod")[0] == "3 AU"
    assert lab.values("Meter", "tea gold_rod", probe="@gold_rod")[0] == ""
    assert lab.values("Meter", "tea")[0] == ""
    holds = {**shows, "chosen": {"probe": {"holds": "anti-GFP"}}}
    lab = bench(holds, liquid, material("antibody", contents={"anti-GFP": "1 µg/mL"}), material("water"))
    assert lab.values("Meter", "tea antibody", probe="@antibody")[0] == "3 AU"
    assert lab.values("Meter", "tea water", probe="@water")[0] == ""


def test_noise_scatters_readings_around_the_truth_by_what_is_declared():
    flat = {"component": "dye", "slope": "1", "intercept": "0", "noise": "0.1", "noise_floor": "2"}
    found = []
    for seed in range(300):
        entry = {"action": "Meter", "signal": "signal", "unit": "", **flat}
        lab = SmallLab(CATALOGUE, material("tea", hidden={"dye": "10 µM"}), truth={"responses": [entry]}, seed=seed)
        found.append(Decimal(lab.values("Meter", "tea")[0]))
    mean = sum(found) / 300
    variance = sum((value - mean) ** 2 for value in found) / 299
    # Standard deviation: sqrt((10 * 0.1)^2 + 2^2) = 2.24; of the mean 0.13, of the deviation about 4 %.
    assert abs(mean - 10) < Decimal("0.6")
    assert Decimal("1.9") < variance.sqrt() < Decimal("2.6")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"component": "dye"}, "truth.responses[0]: what its curve is needs exactly one of slope, hill, log10, table"),
        ({"slope": "1", "intercept": "0"}, "truth.responses[0]: what its signal depends on needs exactly one of"),
        ({"component": "dye", "slope": "1"}, "truth.responses[0].intercept: is missing"),
        (
            {"component": "dye", "hill": {"bottom": "0", "top": "1", "half": "half", "n": "1"}},
            "truth.responses[0].hill.half: is 'half'; allowed: a concentration",
        ),
        (
            {"parameter": "power", "table": [["0 mW/mm²", "0"], ["99 mW/mm²", "1"]]},
            "truth.responses[0].power: power is 99 mW/mm²; it must be",
        ),
        (
            {"component": "ink", "slope": "1", "intercept": "0"},
            "truth.responses[0].component: names 'ink'; allowed: dye",
        ),
    ],
)
def test_a_response_that_cannot_be_read_is_refused_by_field(entry, problem):
    whole = {"action": "Meter", "signal": "s", "unit": "", "noise": "0", **entry}
    found = check({"responses": [whole]}, CATALOGUE, {"dye"}, {"tea"})
    assert any(told.startswith(problem) for told in found), found


def test_tubes_are_no_sample():
    lab = bench({"component": "dye", "slope": "1", "intercept": "0"}, material("tea", hidden={"dye": "1 µM"}), tubes())
    assert lab.values("Meter", "tea tubes") == ["1 AU"]
