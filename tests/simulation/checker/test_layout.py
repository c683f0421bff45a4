"""Properties of foreign simulators get one layout: words as keys, values with their units, the state after the step."""

from decimal import Decimal

import pytest

from simulation.checker import check_transition
from simulation.checker.reading.layout import arrange_properties
from simulation.checker.reading.properties import build_material_view
from tests.simulation.checker.bases import build_material, build_transition


def read(properties):
    """Return the view of a material with these properties."""
    return build_material_view({"name": "Sample K", "properties": arrange_properties(properties)}, "m")


@pytest.mark.parametrize(
    "properties",
    [
        {"V": "5.0 mL"},
        {"uL": 5000},
        {"total_uL": 5000},
        {"Vf": "5.0 mL", "Vi": "9.0 mL"},
        {"d": "vol: 5 mL; puffer: HBSS; pH 7.4"},
        {"v": "5.0 mL; medio: M9; tubo: 15 mL"},
        {"info": "volumen: 5 mL, pH: 7.4"},
        {"volume": {"v": 5, "u": "mL"}},
        {"state_before": {"volume": "9 mL"}, "state_after": {"volume": "5 mL"}},
        {"liquid": {"before": {"total_uL": 9000}, "after": {"total_uL": 5000}}},
        {"liquid": {"before_mL": 9.0, "after_mL": 5.0}},
        {"volume": "9.0 mL -> 5.0 mL"},
        {"now": {"uL": 5000}, "made_from": [{"what": "1 mM stock", "uL": 250}, {"what": "HBSS", "uL": 4750}]},
    ],
)
def test_volume_is_read_from_every_layout(properties):
    assert read(properties).volume.value == 5000


@pytest.mark.parametrize(
    "properties",
    [
        {"c(KCl)": "20 mmol/L"},
        {"c(KCl, from the masses)": "20 mM"},
        {"[KCl]": "20 mM"},
        {"KCl_mM": 20},
        {"components": [{"name": "KCl", "mM": 20}, {"name": "glucose", "mM": 5}]},
        {"solutes": [{"n": "potassium chloride", "conc_mM": 20}, {"n": "water"}]},
        {"contents": {"KCl": {"v": 20, "u": "mM"}}},
        {"composition": "KCl: 20 mM; glucose: 5.5 mM; pH 7.4"},
        {"composition": "| species | mM |\n|---|---|\n| KCl | 20 |\n| glucose | 5.5 |"},
        {"salts_mM": {"KCl": 20, "glucose": 5.5}},
        {"d": "volume: 500 mL; KCl: 0.7455 g -> 20.0 mM"},
    ],
)
def test_concentration_is_read_from_every_layout(properties):
    assert read(properties).concentrations["kcl"].value == 20000


def test_symbols_of_other_quantities_keep_their_meaning():
    view = read({"V(HCl) consumed": "15 mL", "rho(20 degC)": "0.786 g/mL", "M(KCl)": "74.55 g/mol", "D": 20})
    assert (view.volume, view.concentrations, view.mass) == (None, {}, None)
    assert read({"m": "46.5 mg", "M": "186.03 g/mol"}).mass.value == Decimal(46500)


def test_share_by_volume_in_the_key_is_a_concentration():
    assert read({"contents": [{"c": "DMSO", "percent_v_v": 0.5}]}).concentrations["dmso"].value == Decimal("0.5")


def test_sentences_and_ratios_are_no_fields():
    properties = {"note": "kept cold: yes; spun: no", "dilution": "1:10", "remark": "a: 1; b: 2", "reaction": "A -> B"}
    assert arrange_properties(properties) == properties


@pytest.mark.parametrize(("left", "expected"), [("7.0 mL", set()), ("9.5 mL", {"L02"})])
def test_volume_taken_for_several_wells_is_missing_in_every_layout(left, expected):
    # 6 x 0.5 mL = 3.0 mL of 10.0 mL
    wells = [build_material(f"Cells, well C{n}", {"medium_volume": "500 µL"}, barcode=f"MAT-WELL{n}") for n in range(6)]
    source = build_material("DMEM", {"V": "10.0 mL"}, barcode="MAT-DMEM")
    after = {"state_before": {"medium_volume": "500 µL"}, "state_after": {"medium_volume": "1000 µL"}}
    filled = [build_material(f"Cells, well C{n}", after) for n in range(6)]
    rest = build_material("DMEM (remaining)", {"state_before": {"volume": "10.0 mL"}, "state_after": {"volume": left}})
    line = build_transition("Transfer", {"source": "MAT-DMEM", "amount": "500 µL"}, [source, *wells], [rest, *filled])
    assert {finding.code for finding in check_transition(line).error_findings} == expected
