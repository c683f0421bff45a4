"""Weighings, drying and written calculations: every spelling of a right number is correct, of a wrong one an error."""

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.bases import build_material, build_observation, build_transition


def codes(line):
    return {finding.code for finding in check_transition(line).error_findings}


def weigh(properties, *records):
    material = build_material("Crucible 4 with AgCl", properties)
    observations = [build_observation(*record) for record in records]
    return build_transition(
        "MeasureWeight", {"balance": "analytical", "tare": False}, [material], [material], observations
    )


# 31.7348 - 31.2086 = 0.5262 g
@pytest.mark.parametrize(
    ("properties", "description", "value"),
    [
        ({"tare": "31.2086 g"}, "Weighing", "m(gross) = 31.7348 g; m(AgCl) = {net} g"),
        ({"tare of empty crucible": "31.2086 g"}, "gross 31.7348 g; net AgCl = gross - tare", "{net} g"),
        ({"tare": {"value": 31.2086, "unit": "g"}}, "Mass of crucible with precipitate 31.7348 g; precipitate", "{net} g"),
        ({"Tiegel leer": "31.2086 g"}, "Wägung", "Brutto 31.7348 g; netto {net} g"),
        ({"creuset vide": "31.2086 g"}, "pesée", "brut: 31.7348 g; précipité: {net} g"),
        ({"crisol vacío": "31.2086 g"}, "pesada", "bruto 31.7348 g, neto {net} g"),
        ({"boat only": "31.2086 g"}, "weighed boat with product", "reading 31.7348 g; yield {net} g"),
        ({"tara": "31,2086 g"}, "pesata", "lordo 31.7348 g, netto {net} g"),
        ({"m0": "31.2086 g"}, "constant mass", "m1 = 31.7348 g, m1 - m0 = {net} g"),
        ({"crucible": "31.2086 g"}, "Table", "| item | mass (g) |\n|---|---|\n| crucible + cake | 31.7348 |\n| cake | {net} |"),
        ({"empty_crucible_g": 31.2086}, "Reading", "gross weight 31.7348 g, AgCl by difference {net} g"),
    ],
)  # fmt: skip
def test_net_mass_follows_from_gross_and_tare_in_other_words(properties, description, value):
    assert codes(weigh(properties, (description, value.format(net="0.5262")))) == set()
    assert "L04" in codes(weigh(properties, (description, value.format(net="0.6262"))))


def dry(before, after, description, value):
    observations = [build_observation(description, value)] if description else []
    return build_transition(
        "DryingOven",
        {"temperature": "110 °C", "duration": "2 h"},
        [build_material("Dish 2 with soil, moist", before)],
        [build_material("Dish 2 with soil, dry", after)],
        observations,
    )


GROSS = ({"tare": "12.0000 g", "gross wet": "37.0000 g"}, {"tare": "12.0000 g", "gross dry": "32.0000 g"})


# 37 - 32 = 5 g of 25 g wet (20.0 %) or 20 g dry (25.0 %)
@pytest.mark.parametrize(
    ("description", "right", "wrong"),
    [
        ("vapour", "water off 5.00 g", "water off 6.00 g"),
        ("mass loss on drying (H2O)", "5.0000 g", "10.0000 g"),
        ("Trockenverlust", "5.00 g", "4.00 g"),
        ("eau partie", "5.00 g", "7.50 g"),
        ("pérdida de masa", "5.0 g", "2.5 g"),
        ("moisture account", "net 25.000 -> 20.000 g, loss 5.00 g, 20.0 % of wet mass", "net 25.000 -> 20.000 g, loss 5.00 g, 26.0 % of wet mass"),
        ("water content", "25.0 % of dry mass", "22.1 % of dry mass"),
        ("LOD", "20.0 %", "23.0 %"),
        ("dry to wet ratio", "0.80", "0.70"),
        ("Δm", "-5.00 g", "-8.50 g"),
        ("result", "lost 20.0 % of its weight", "lost 30.0 % of its weight"),
        ("dry matter content", "80.0 %", "75.0 %"),
        ("siccité", "80 %", "85 %"),
        ("balance note", "the soil became 5.00 g lighter", "the soil became 7.00 g lighter"),
        ("moisture (dry basis)", "25.0 %", "20.0 % of dry mass"),
    ],
)  # fmt: skip
def test_loss_on_drying_follows_from_the_weighings(description, right, wrong):
    assert codes(dry(*GROSS, description, right)) == set()
    assert codes(dry(*GROSS, description, wrong)) == {"L04"}


@pytest.mark.parametrize(
    ("description", "right", "wrong"),
    [
        # 3.250 g / 10 = 325 mg
        ("pooled weight of the 10 tablets 3.250 g; average per tablet", "325 mg", "352 mg"),
        ("three readings", "12.3451 g, 12.3449 g, 12.3450 g; average 12.3450 g", "12.3451 g, 12.3449 g, 12.3450 g; average 12.3950 g"),
    ],
)  # fmt: skip
def test_mean_mass_follows_from_its_weighings(description, right, wrong):
    assert codes(weigh({}, (description, right))) == set()
    assert codes(weigh({}, (description, wrong))) & {"L04", "L20"}


def test_moisture_of_each_of_several_dishes_is_checked():
    def line(second):
        names = ("Heath soil", "Podzol soil")
        wet = [build_material(f"{name} in open dish", {"tare_g": 10.0, "gross_wet_g": 35.0}) for name in names]
        dried = [build_material(f"{name}, oven-dried", {"tare_g": 10.0, "gross_dry_g": 30.0}) for name in names]
        value = f"Heath: water content 25.0 % of dry mass; Podzol: water content {second} % of dry mass"
        record = [build_observation("Moisture per dish", value)]
        return build_transition("DryingOven", {"temperature": "105 °C", "duration": "24 h"}, wet, dried, record)

    # 5 g of water on 20 g of dry soil are 25 %.
    assert codes(line("25.0")) == set()
    assert codes(line("18.0")) == {"L04"}


@pytest.mark.parametrize(("share", "expected"), [("59.4", set()), ("47.5", {"L04"})])
def test_chloride_found_by_weighing_follows_from_the_formula(share, expected):
    # 31.9127 - 31.2046 = 0.7081 g of AgCl; x 35.45 / 143.32 = 0.1751 g in 0.2950 g = 59.4 %
    before = {"tare": "31.2046 g", "precipitate": "AgCl from 0.2950 g of the unknown sample"}
    assert codes(weigh(before, ("Result", f"gross 31.9127 g; chloride in the unknown {share} %"))) == expected


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("12 x 50 µL = 600 µL", "12 x 50 µL = 700 µL"),
        ("20 mL - 0.8 mL = 19.2 mL", "20 mL - 0.8 mL = 18.2 mL"),
        ("224 + 16 = 240", "224 + 16 = 250"),
        ("18/24 = 75 %", "18/24 = 57 %"),
        ("100 µL + 0.8 mL = 900 µL", "100 µL + 0.8 mL = 1800 µL"),
        ("2 x 60 min = 2 h", "2 x 60 min = 2.5 h"),
    ],
)
def test_written_calculation_gives_its_result(right, wrong):
    def line(text):
        return build_transition(
            "VisualInspection",
            {},
            [build_material("S", {})],
            [build_material("S", {})],
            [build_observation("Note", text)],
        )

    assert "L20" not in codes(line(right))
    assert "L20" in codes(line(wrong))
