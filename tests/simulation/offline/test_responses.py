"""Declared responses: their input, curve and noise, and when there is no reading."""

from decimal import Decimal

import pytest

from simulation.lab.actions import ActionType, Catalogue, Duration
from simulation.lab.parameters import Parameter
from simulation.offline.hidden_truth import check_truth
from tests.support.laboratory_factory import SmallLab, build_material, build_tubes

# A separate instrument, so that these tests do not depend on any file of the catalogue.
METER = ActionType(
    "Meter", "measurement", "reads", "samples", "readings", handler="assay", duration=Duration(60),
    parameters=(
        Parameter("sample_volume", "range_with_units", "load", dimension="volume", minimum="0 µL", maximum="1 mL", default="10 µL"),
        Parameter("power", "range_with_units", "light", dimension="power_density", minimum="0 mW/mm²", maximum="50 mW/mm²"),
        Parameter("speed", "range_with_units", "scan", dimension="scan_rate", minimum="1 mV/s", maximum="1 V/s", default="100 mV/s"),
        Parameter("probe", "material_selector", "what reads"),
        Parameter("channels", "multiselect", "what is recorded", options=("red", "green", "blue")),
    ),
)  # fmt: skip
CATALOGUE = Catalogue({"Meter": METER})


def build_lab(truth, *materials):
    entry = {"action": "Meter", "signal": "signal", "unit": "AU", "noise": "0", **truth}
    return SmallLab(CATALOGUE, *materials, truth={"responses": [entry]})


def read_values(truth, hidden, **parameters):
    """Return the readings of one liquid with these contents."""
    lab = build_lab(truth, build_material("tea", hidden=hidden))
    return lab.read_values("Meter", "tea", **parameters)


def test_hill_response_is_halfway_at_its_half_point_and_at_its_bottom_without_the_substance():
    curve = {"component": "dye", "hill": {"bottom": "1 AU", "top": "9 AU", "half": "4 µM", "n": "2"}}
    assert read_values(curve, {"dye": "4 µM"}) == ["5 AU"]  # 1 + 8 / 2
    assert read_values(curve, {"dye": "12 µM"}) == ["8.2 AU"]  # 1 + 8 * 144 / (16 + 144)
    assert read_values(curve, {"salt": "1 mM"}) == ["1 AU"]


def test_log_and_table_responses_give_declared_values():
    log10 = {
        "component": "dye",
        "log10": {"slope": "2 AU", "intercept": "1 AU", "at": "10 µM"},
        "detection_limit": "1 µM",
    }
    assert read_values(log10, {"dye": "1 mM"}) == ["5 AU"]  # 1 + 2 log10(1000 / 10)
    assert read_values(log10, {"dye": "0.1 µM"}) == read_values(log10, {"salt": "1 mM"}) == ["not detected"]
    table = {"component": "acid", "table": [["0 mM", "7 AU"], ["2 mM", "5 AU"], ["4 mM", "4.5 AU"]]}
    assert read_values(table, {"acid": "1 mM"}) == ["6 AU"]
    assert read_values(table, {"acid": "3 mM"}) == ["4.75 AU"]
    assert read_values(table, {"acid": "9 mM"}) == ["4.5 AU"]


def test_response_sums_components_by_weight():
    # 10 mM at 2 AU per mM and 5 mM at 1 AU per mM: 20 + 5
    weights = {"components": {"sodium": "2", "sugar": "1"}, "slope": "1 AU per mM", "intercept": "0 AU"}
    assert read_values(weights, {"sodium": "10 mM", "sugar": "5 mM"}) == ["25 AU"]


def test_response_to_an_action_parameter_treats_a_missing_value_as_zero():
    light = {"parameter": "power", "hill": {"bottom": "0 AU", "top": "10 AU", "half": "2 mW/mm²", "n": "1"}}
    assert read_values(light, {"sensor": "1 µM"}, power="2 mW/mm²") == ["5 AU"]
    assert read_values(light, {"sensor": "1 µM"}) == ["0 AU"]


def test_response_is_the_background_without_its_required_component_and_absent_outside_its_medium():
    light = {
        "parameter": "power",
        "slope": "1 AU per mW/mm²",
        "intercept": "0.5 AU",
        "requires": ["sensor"],
        "within": ["medium"],
    }
    assert read_values(light, {"medium": "1 µM", "sensor": "1 µM"}, power="2 mW/mm²") == ["2.5 AU"]
    assert read_values(light, {"medium": "1 µM"}, power="2 mW/mm²") == ["0.5 AU"]
    assert read_values(light, {"sensor": "1 µM"}, power="2 mW/mm²") == [""]


def test_response_per_cell_is_independent_of_the_volume():
    per = {"component": "label", "per": ["red cells", "white cells"], "slope": "1 AU", "intercept": "0 AU"}
    # 600 particles/mL over 100 + 200 cells/mL, in 1 mL
    assert read_values(per, {"label": "600 1/mL", "red cells": "100 cells/mL", "white cells": "200 cells/mL"}) == [
        "2 AU"
    ]


@pytest.mark.parametrize(
    ("channels", "values"),
    [(["red", "green"], ["3 AU"]), (["blue", "green", "red"], ["3 AU"]), (["red"], [""]), (None, [""])],
)
def test_response_may_require_several_options_that_are_chosen_together(channels, values):
    both = {"channels": {"all": ["red", "green"]}}
    ratio = {"component": "dye", "slope": "1 AU per µM", "intercept": "0 AU", "when": both}
    chosen = {"channels": channels} if channels else {}
    assert read_values(ratio, {"dye": "3 µM"}, **chosen) == values


def test_response_scales_with_a_power_of_a_parameter():
    peak = {"component": "ferrocene", "slope": "1 AU per µM", "intercept": "0 AU",
            "scales_with": {"parameter": "speed", "reference": "100 mV/s", "power": "0.5"}}  # fmt: skip
    assert read_values(peak, {"ferrocene": "3 µM"}, speed="400 mV/s") == ["6 AU"]  # twice at four times the speed


def test_response_scales_with_several_parameters_at_once():
    scales = [{"parameter": "speed", "reference": "100 mV/s", "power": "0.5"},
              {"parameter": "speed", "reference": "200 mV/s", "power": "-1"}]  # fmt: skip
    peak = {"component": "ferrocene", "slope": "1 AU per µM", "intercept": "0 AU", "scales_with": scales}
    # 3 x sqrt(400 / 100) x 200 / 400
    assert read_values(peak, {"ferrocene": "3 µM"}, speed="400 mV/s") == ["3 AU"]


def test_response_requires_that_the_chosen_probe_or_reagent_has_the_declared_property_or_component():
    liquid = build_material("tea", hidden={"ferrocene": "3 µM"})
    shows = {
        "component": "ferrocene",
        "slope": "1 AU per µM",
        "intercept": "0 AU",
        "chosen": {"probe": {"kind": "silver"}},
    }
    lab = build_lab(shows, liquid, build_material("silver_rod", kind="silver"), build_material("gold_rod", kind="gold"))
    assert lab.read_values("Meter", "tea silver_rod", probe="@silver_rod")[0] == "3 AU"
    assert lab.read_values("Meter", "tea gold_rod", probe="@gold_rod")[0] == ""
    assert lab.read_values("Meter", "tea")[0] == ""
    holds = {**shows, "chosen": {"probe": {"holds": "anti-GFP"}}}
    lab = build_lab(
        holds, liquid, build_material("antibody", contents={"anti-GFP": "1 µg/mL"}), build_material("water")
    )
    assert lab.read_values("Meter", "tea antibody", probe="@antibody")[0] == "3 AU"
    assert lab.read_values("Meter", "tea water", probe="@water")[0] == ""


def test_response_noise_has_the_declared_standard_deviation():
    flat = {"component": "dye", "slope": "1 per µM", "intercept": "0", "noise": "0.1", "noise_floor": "2"}
    found = []
    for seed in range(300):
        entry = {"action": "Meter", "signal": "signal", "unit": "", **flat}
        lab = SmallLab(
            CATALOGUE, build_material("tea", hidden={"dye": "10 µM"}), truth={"responses": [entry]}, seed=seed
        )
        found.append(Decimal(lab.read_values("Meter", "tea")[0]))
    mean = sum(found) / 300
    variance = sum((value - mean) ** 2 for value in found) / 299
    # Standard deviation: sqrt((10 * 0.1)^2 + 2^2) = 2.24; of the mean 0.13, of the deviation about 4 %.
    assert abs(mean - 10) < Decimal("0.6")
    assert Decimal("1.9") < variance.sqrt() < Decimal("2.6")


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({"component": "dye"}, "truth.responses[0]: needs exactly one of slope, hill, log10, table (its curve)"),
        (
            {"slope": "1 per µM", "intercept": "0"},
            "truth.responses[0]: needs exactly one of component, components, parameter (",
        ),
        ({"component": "dye", "slope": "1 per µM"}, "truth.responses[0].intercept: is missing"),
        (
            {"component": "dye", "hill": {"bottom": "0", "top": "1", "half": "half", "n": "1"}},
            "truth.responses[0].hill.half: is 'half'; allowed: a concentration",
        ),
        (
            {"component": "dye", "hill": {"bottom": "0", "top": "1", "half": "5 µg/mL", "n": "1"}},
            "truth.responses[0].hill.half: is '5 µg/mL'; allowed: a concentration, like \"5 µM\"",
        ),
        (
            {"component": "dye", "per": "cells", "slope": "1 per µM", "intercept": "0"},
            "truth.responses[0].per: is count, the component is amount; both must be the same",
        ),
        (
            {"component": "dye", "log10": {"slope": "1", "intercept": "0", "at": "1 µM"}},
            "truth.responses[0].detection_limit: is missing; the logarithm of zero is undefined",
        ),
        (
            {"components": {"dye": "1", "cells": "1"}, "slope": "1 per µM", "intercept": "0"},
            "truth.responses[0].components: are amounts of several dimensions: amount, count",
        ),
        (
            {"parameter": "power", "table": [["0 mW/mm²", "0"], ["99 mW/mm²", "1"]]},
            "truth.responses[0].power: power is 99 mW/mm²; it must be",
        ),
        (
            {"component": "ink", "slope": "1 per µM", "intercept": "0"},
            "truth.responses[0].component: unknown component 'ink'; allowed: cells, dye",
        ),
    ],
)
def test_truth_check_names_the_faulty_field_of_a_response(entry, problem):
    whole = {"action": "Meter", "signal": "s", "unit": "", "noise": "0", **entry}
    found = check_truth({"responses": [whole]}, CATALOGUE, {"dye": "amount", "cells": "count"}, {"tea"})
    assert any(told.startswith(problem) for told in found), found


def test_measurements_ignore_empty_tubes():
    lab = build_lab(
        {"component": "dye", "slope": "1 AU per µM", "intercept": "0 AU"},
        build_material("tea", hidden={"dye": "1 µM"}),
        build_tubes(),
    )
    assert lab.read_values("Meter", "tea tubes") == ["1 AU"]
