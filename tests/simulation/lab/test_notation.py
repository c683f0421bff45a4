"""Tests of the notation of numbers: one form for every source, and no digit that was given is lost or added."""

from decimal import Decimal

import pytest

from simulation.lab.notation import parse_number, write_explanation, write_number, write_text, write_value

SAME = [
    ["2e12 1/mL", "2000000000000 1/mL", "2 x 10^12 per mL", "2E+12/mL", "2*10^12 per mL", "2 × 10¹² per mL"],
    ["2.0e12 per mL", "2.0 × 10^12 per mL", "2.0x10^12 1/mL", "2.0 · 10**12/mL", "2.0 × 10¹² per mL"],
    ["300000 cells/mL", "3e5 cells/mL", "300,000 cells/mL", "3 × 10^5 cells/ml"],
    ["1500 µL", "1,500 uL", "1.5e3 ul"],
    ["0.00005 M", "5e-5 M", "5 x 10^-5 M"],
    ["16000 x g", "16,000 × g", "1.6e4 xg"],
    ["−80 °C", "-80 C", "-80 degC"],
]  # fmt: skip


@pytest.mark.parametrize("values", SAME, ids=[values[0] for values in SAME])
def test_value_looks_the_same_for_every_source(values: list[str]) -> None:
    assert len({write_value(value) for value in values}) == 1


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("7.40", "7.40"),
        ("5.0 µL", "5.0 µL"),
        ("2000000000000 1/mL", "2 × 10¹² per mL"),
        ("2.0e12 1/mL", "2.0 × 10¹² per mL"),
        ("3.0e5 cells/mL", "3.0 × 10⁵ cells/mL"),
        ("300000 cells/mL", "300,000 cells/mL"),
        ("1137000", "1.137 × 10⁶"),
        ("0.0005", "5 × 10⁻⁴"),
        ("0.00050 M", "5.0 × 10⁻⁴ M"),
        ("98%", "98 %"),
        ("0.00 mg/mL", "0.00 mg/mL"),
        ("2024", "2024"),
        ("11370000, 11440000", "1.137 × 10⁷, 1.144 × 10⁷"),
        ("334700, 349800 counts/s", "334,700, 349,800 counts/s"),
        ("2 days", "2 days"),
        ("48.9 % (48960 of 100000 events)", "48.9 % (48,960 of 100,000 events)"),
        ("12345A", "12345A"),
        ("00123", "00123"),
        ("clear, 37 °C", "clear, 37 °C"),
        ("", ""),
    ],
)
def test_value_keeps_the_digits_it_was_given(value: str, written: str) -> None:
    assert write_value(value) == written


@pytest.mark.parametrize("label", ["Lot", "Catalog number", "Passage date", "Serial", "Barcode id"])
def test_digits_of_an_identifier_stay(label: str) -> None:
    assert write_value("1234567", label) == "1234567"
    assert write_value("12345", label) == "12345"


def test_number_of_things_is_no_identifier() -> None:
    assert write_value("1234500", "Number of cells") == "1.2345 × 10⁶"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("5.0 µL", "50 µL"),
        ("5.00", "5.0"),
        ("2e12", "2e11"),
        ("2.0e12", "2.00e12"),
        ("3e5 cells", "3.0e5 cells"),
        ("10000 cells", "100000 cells"),
        ("999999 cells", "1000000 cells"),
        ("0.001 M", "0.0001 M"),
        ("50 µL", "50 mL"),
        ("-80 °C", "80 °C"),
        ("1234567", "1234568"),
    ],
)
def test_values_that_differ_look_different(one: str, other: str) -> None:
    assert write_value(one) != write_value(other)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a titer of 2e12 vg/mL", "a titer of 2 × 10¹² vg/mL"),
        ("2.0*10^12 per mL and 10^6 cells.", "2.0 × 10¹² per mL and 10⁶ cells."),
        ("16000 x g, 10000 events (5521 of 10000 events)", "16,000 × g, 10,000 events (5521 of 10,000 events)"),
        ("5.07e4 /mL, 5.1 µm", "50,700 per mL, 5.1 µm"),
        ("p < 1e-5; 3.2E-4", "p < 1 × 10⁻⁵; 3.2 × 10⁻⁴"),
        ("Seeded 5.0E+5 cells per well", "Seeded 5.0 × 10⁵ cells per well"),
        ("kept at room_temp, then at -80C", "kept at room temperature, then at −80 °C"),
    ],
)
def test_text_shows_certain_numbers_in_the_same_notation(text: str, written: str) -> None:
    assert write_text(text) == written


@pytest.mark.parametrize(
    "text",
    [
        "clone 3E10, lot 2e10, plate 1e2",
        "A1E3, IL-1e5, 2E8, MAT-1E5XXXXX",
        "chips of 10 x 10 x 2 mm, 3 x 10 mL",
        "in 2024, room 12345, 10.1000/182e12, SHA 5e10f3",
        "well 4C, HEK293T, E18, pH 7.40, 1:25000, 10-15 days",
        "1e5-2e5 and 1e5,2e5",
        "Gene 1E4.5 and 10^6.5",
    ],
)
def test_text_keeps_everything_else(text: str) -> None:
    assert write_text(text) == text


def test_explanation_names_every_condition() -> None:
    assert write_explanation("kept at 4C instead of incubating_conditions") == "kept at 4 °C instead of incubator"


def test_writing_again_changes_nothing() -> None:
    for value in [value for values in SAME for value in values]:
        assert write_value(write_value(value)) == write_value(value)
        assert write_text(write_text(value)) == write_text(value)


def test_number_is_read_from_every_notation() -> None:
    assert parse_number("2.5 × 10¹² per mL") == (Decimal("2.5e12"), "per mL")
    assert parse_number("−80 °C") == (Decimal(-80), "°C")
    assert parse_number("1,500 µL") == (Decimal(1500), "µL")
    assert parse_number("about 5 µL") is None


def test_computed_number_is_written_like_all_others() -> None:
    assert [write_number(Decimal(text)) for text in ("500000", "-0.00002", "1500000", "0.50")] == [
        "500,000",
        "−2 × 10⁻⁵",
        "1.5 × 10⁶",
        "0.5",
    ]
