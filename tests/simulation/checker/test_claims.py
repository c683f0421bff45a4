"""Claims are read from sentences, tables and nested values, each with its unit and the words that name it."""

from decimal import Decimal

import pytest

from simulation.checker.reading import claims, units
from simulation.checker.reading.spelling import normalise_numbers, normalise_transition


def read(text):
    return [(claim.label, claim.value, claim.dimension) for claim in claims.read_text(text)]


def test_sentence_has_one_claim_for_each_number_with_its_name():
    assert read("live 224; dead 16; total 240") == [("live", 224, ""), ("dead", 16, ""), ("total", 240, "")]
    # A word before the number names it, otherwise the words behind it.
    assert read("10000 gated cells, 1800 GFP+")[0] == ("gated cells", 10000, "")


def test_table_in_text_names_cells_by_row_and_column():
    text = "Species | Peak area\nfree GFP | 41000\nfusion | 9000"
    assert read(text) == [("free gfp peak area", 41000, ""), ("fusion peak area", 9000, "")]


def test_numbers_in_names_ranges_and_powers_are_no_claims():
    assert read("isolate RB-4, A260 of a 10^-5 dilution, 30-300 colonies") == []


def test_nested_values_keep_the_path_as_name():
    found = claims.read_value({"A1": {"RAW": 0.842, "NET": {"value": 0.781, "unit": ""}}, "volume_uL": 50})
    assert ("a1 raw raw", Decimal("0.842")) in [(claim.label, claim.value) for claim in found]
    assert [claim.value for claim in found if claim.dimension == "volume"] == [50]


def test_state_before_the_step_is_no_property_of_the_material_now():
    nested = {"state_before": {"age": "DIV 14"}, "state_after": {"age": "DIV 15"}, "volume_uL": 50}
    assert [claim.value for claim in claims.read_value(nested)] == [15, 50]
    # One of the two alone is a name like any other.
    assert [claim.value for claim in claims.read_value({"before": {"mass": "2 g"}})] == [2_000_000]


def test_about_makes_a_claim_approximate():
    assert [claim.is_approximate for claim in claims.read_text("about 200 cells; dead 16")] == [True, False]


@pytest.mark.parametrize(
    ("text", "has_commas", "expected"),
    [
        ("2,0 × 10⁸ cells", True, "2.0e8 cells"),
        ("12,004 g (12.004,0 mg)", True, "12.004 g (12004.0 mg)"),
        ("12,004 events", False, "12004 events"),
        ("50 000 cells", False, "50000 cells"),
        ("213 ng µl−1", False, "213 ng/µl"),
        ("sixty-three (63)", False, "63"),
        ("minus zero point five mg", False, "-0.5 mg"),
        ("portion two", False, "portion two"),
        (r"$2.0\times10^{5}$ cells", False, "2.0e5 cells"),
        (r"$4.2\cdot10^{6}\,\mathrm{cells\,mL^{-1}}$", False, "4.2e6 cells/mL"),
        (r"$R_{0} = \frac{3}{2}$, $37\,^{\circ}\mathrm{C}$", False, "R_0 = (3)/(2), 37 °C"),
        ("2.0 &times; 10<sup>5</sup> cells", False, "2.0e5 cells"),
    ],
)
def test_numbers_get_one_spelling(text, has_commas, expected):
    assert normalise_numbers(text, has_commas) == expected


def test_decimal_commas_are_decided_for_the_whole_transition():
    line = {
        "input_materials": [{"properties": {"a": "0,5 mL", "b": "12,004 g"}}],
        "outcome": {},
        "action": {"parameters": {"v": "0.5 mL"}},
    }
    assert normalise_transition(line)["input_materials"][0]["properties"] == {"a": "0.5 mL", "b": "12.004 g"}
    line["input_materials"][0]["properties"] = {"a": "0.5 mL", "b": "12,004 g"}
    assert normalise_transition(line)["input_materials"][0]["properties"]["b"] == "12004 g"


@pytest.mark.parametrize(
    ("text", "value", "dimension"),
    [
        ("0.1 mM", 100, "molar_concentration"),  # µM, never millimetres
        ("0.1 mm", Decimal("0.1"), "length"),
        ("1 pM", Decimal("1e-6"), "molar_concentration"),
        ("0.04 micrograms per mL", Decimal("0.04"), "mass_concentration"),
        ("2 nmol/mL", 2, "molar_concentration"),  # nmol/mL is µmol/L
        ("2e8 minicells per mL", Decimal("2e8"), "number_density"),
        ("0.292 Osm/kg", 292, "osmolality"),
        ("18.6 ± 0.1 mg", 18600, "mass"),
    ],
)
def test_units_are_told_apart(text, value, dimension):
    amount = units.parse_amount(text)
    assert (amount.value, amount.dimension) == (value, dimension)


def test_a_unit_in_the_wrong_case_that_could_mean_two_things_is_no_unit():
    assert units.parse_amount("1 MM") is None


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Brutto: 28.99 g", "gross"),
        ("creuset vide: 34.9260 g", "crucible empty"),
        ("pérdida de agua 0.2 g", "loss de water"),
        ("Leermasse 12.1 g", "tare"),
    ],
)
def test_labels_in_other_languages_are_read_in_english(text, label):
    assert claims.read_text(text)[0].label == f"{label} g"
