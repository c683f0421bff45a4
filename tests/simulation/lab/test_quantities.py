"""Parsing and formatting of quantities with units."""

from decimal import Decimal

import pint
import pytest

from simulation.lab import quantities
from simulation.lab.quantities import QuantityError, format_number, format_quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "dimension", "kept"),
    [
        ("50 µL", "volume", "50"),
        ("50uL", "volume", "50"),
        ("50 μL", "volume", "50"),  # the Greek letter, not the micro sign
        ("1.5 mL", "volume", "1500"),
        ("2 mg", "mass", "2000"),
        ("10 mM", "molar_concentration", "10000"),
        ("0.4 mg/mL", "mass_concentration", "400"),
        ("2 h", "duration", "7200"),
        ("90", "duration", "90"),  # a bare number is seconds
        ("37C", "temperature", "37"),
        ("-80 °C", "temperature", "-80"),
        ("1e8 TU/mL", "number_density", "100000000"),
        ("300 x g", "centrifugal_force", "300"),
        ("1.5 kb", "base_pairs", "1500"),
        ("273 nm", "length", "0.000273"),
        ("24", "count", "24"),
        ("5 mcL", "volume", "5"),
        ("5 microliters", "volume", "5"),
        ("5 mcg", "mass", "5"),
        ("5 micromolar", "molar_concentration", "5"),
        ("5 microns", "length", "0.005"),
        ("37 ℃", "temperature", "37"),
        ("37 º C", "temperature", "37"),
        ("37 degrees Celsius", "temperature", "37"),
        ("−20 degC", "temperature", "-20"),
        ("14 weeks", "duration", "8467200"),
        ("3 W/cm2", "power_density", "30"),
        ("100 mV/s", "scan_rate", "0.1"),
        ("2 mU/mL", "activity", "0.002"),
        ("3 cP", "viscosity", "3"),
        ("0.998 kg/L", "density", "0.998"),
        ("500 nL/min", "flow", "0.0005"),
        ("1 S/m", "conductivity", "10"),
        ("27 kDa", "molecular_mass", "27"),
    ],
)
def test_quantity_is_parsed_into_the_base_unit(text, dimension, kept):
    assert parse_quantity(text, dimension).value == Decimal(kept)


@pytest.mark.parametrize(
    ("text", "dimension"),
    [
        ("50", "volume"),
        ("50 mL of water", "volume"),
        ("50 mg", "volume"),
        ("9**9**9 m", "length"),
        ("1:10", "ratio"),
        ("nan mL", "volume"),
        ("1,000 µL", "volume"),
        ("", "volume"),
        (True, "count"),
        (None, "mass"),
        (["1 mL"], "volume"),
        pytest.param(10**5000, "count", id="more digits than Python formats"),
        (float("nan"), "duration"),
        (float("inf"), "duration"),
        ("1e999 mL", "volume"),
        ("٣ mL", "volume"),  # a digit, but not an ASCII one
        ("５ mL", "volume"),
        ("5 mL\n5 mL", "volume"),
        ("5 m\u200bL", "volume"),
        ("7.4 pH", "length"),
        ("10 bp", "length"),
        ("300 g", "centrifugal_force"),
        ("0x10 mL", "volume"),
        ("1_000 µL", "volume"),
    ],
)
def test_invalid_quantity_is_refused_with_allowed_units_or_an_example(text, dimension):
    with pytest.raises(QuantityError, match=r"units allowed|write a number and a unit"):
        parse_quantity(text, dimension)


def test_decimal_arithmetic_keeps_tenths_exact():
    total = parse_quantity("0.1 mL", "volume").value + parse_quantity("0.2 mL", "volume").value
    assert format_quantity(total, "volume", "mL") == "0.3 mL"


@pytest.mark.parametrize(
    ("value", "dimension", "unit", "shown"),
    [
        ("1500", "volume", "", "1.5 mL"),
        ("0.5", "volume", "", "500 nL"),
        ("1500", "volume", "µL", "1500 µL"),
        ("412", "mass_concentration", "mg/mL", "0.412 mg/mL"),
        ("10000", "mass_concentration", "", "10 mg/mL"),
        ("0.05", "mass_concentration", "", "50 ng/mL"),
        ("5", "count", "", "5"),
        ("0", "volume", "", "0 µL"),
        ("-80", "temperature", "", "-80 °C"),
        ("5400", "duration", "", "1.5 h"),
    ],
)
def test_quantity_is_formatted_in_the_requested_or_a_readable_unit(value, dimension, unit, shown):
    assert format_quantity(Decimal(value), dimension, unit) == shown


def test_formatted_number_has_six_significant_digits_and_an_exponent_from_a_million_on():
    # 1/3 to six digits; 1234567 rounds to 1234570 (half even at the sixth digit); 1E+3 loses its exponent
    assert format_number(Decimal("999999")) == "999999"
    assert format_number(Decimal("2000000000000")) == "2e12"
    assert format_number(Decimal(1) / Decimal(3)) == "0.333333"
    assert format_number(Decimal("1234567")) == "1.23457e6"
    assert format_number(Decimal("1E+3")) == "1000"
    assert format_number(Decimal("-0.0000")) == "0"


@pytest.mark.parametrize(
    ("computed", "written"),
    # four digits or fewer are kept; more are rounded to three
    [("3.125", "3.125"), ("15.9744", "16.0"), ("1.5625", "1.56"), ("869.565", "870"), ("100000", "100000"), ("0", "0")],
)
def test_computed_number_is_rounded_to_three_digits_unless_it_has_few_digits(computed, written):
    assert quantities.round_for_display(Decimal(computed)) == Decimal(written)


@pytest.mark.parametrize("dimension", quantities.list_dimensions())
def test_quantity_of_every_dimension_can_be_formatted_and_parsed_back(dimension):
    shown = format_quantity(Decimal("25"), dimension)
    assert parse_quantity(shown, dimension).value == Decimal("25")


@pytest.mark.parametrize("dimension", quantities.list_dimensions())
def test_every_unit_of_every_dimension_can_be_parsed(dimension):
    for unit in quantities.list_units(dimension):
        shown = format_quantity(parse_quantity(f"2 {unit}", dimension).value, dimension, unit)
        assert shown == f"2 {unit}".strip()


PINT_NAMES = {
    "min": "minute",
    "h": "hour",
    "nM": "nmol/L",
    "µM": "umol/L",
    "mM": "mmol/L",
    "M": "mol/L",
    "mTorr": "mtorr",
}
# Dimensions whose units are not defined by Pint, or mean something else there.
NOT_IN_PINT = {
    "temperature", "number_density", "count", "centrifugal_force", "rotation", "ratio", "base_pairs", "osmolality", "angle",
    "mass_to_charge", "heating_rate", "activity", "enzyme_units", "area_density",
}  # fmt: skip


@pytest.mark.parametrize("dimension", sorted(set(quantities.list_dimensions()) - NOT_IN_PINT))
def test_size_of_every_unit_is_that_of_pint(dimension):
    registry = pint.UnitRegistry(non_int_type=Decimal)

    def measure(unit):
        name = PINT_NAMES.get(unit, unit).replace("µ", "u").replace("·", "*").replace("²", "**2").replace("³", "**3")
        return registry.Quantity(Decimal(1), name)

    for unit in quantities.list_units(dimension):
        expected = measure(unit).to(measure(quantities.base_unit(dimension)).units).magnitude
        assert parse_quantity(f"1 {unit}", dimension).value == expected, unit


@pytest.mark.parametrize(
    ("text", "dimension", "unit"),
    [("50 ul", "volume", "µL"), ("37C", "temperature", "°C"), ("90", "duration", "s"), ("24", "count", "")],
)
def test_unit_of_a_text_is_returned_in_the_standard_spelling(text, dimension, unit):
    assert quantities.parse_unit(text, dimension) == unit


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("HEK293T cells", "2e6 cells/mL"),
        ("lentiviral vector", "2e6 TU/mL"),
        ("jGCaMP7f vector", "2e6 vg/mL"),
        ("fat globules", "2e6 1/mL"),
    ],
)
def test_number_per_volume_is_shown_in_the_unit_of_what_is_counted(name, text):
    assert quantities.format_concentration(name, Decimal(2_000_000), "count") == text
