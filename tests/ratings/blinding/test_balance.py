"""Tests of the balance sheet: sums of stated values, with their terms. Expected numbers are calculated by hand."""

from typing import Any

import pytest

from ratings.blinding.balance_sheet import BalanceLine, BalanceSide, build_balance_sheet


def make_material(ref: str, continues: str = "", supply: str = "can be used further", **stated: str) -> dict[str, Any]:
    return {
        "ref": ref,
        "name": f"Material {ref}",
        "properties": [[label.replace("_", " ").capitalize(), value] for label, value in sorted(stated.items())],
        "condition": "on ice",
        "availability": supply,
        "continues": continues,
    }


def make_transition(before: list[dict[str, Any]], after: list[dict[str, Any]], rejected: str = "") -> dict[str, Any]:
    return {"kind": "transition", "lineage": True, "before": before, "after": after, "rejected": rejected}


def build_volume_line(before: list[str], after: list[str]) -> BalanceLine:
    """Return the volume line of these materials; each output continues the input at its index, or is new."""
    letters = "ABCDEFGH"
    had = [make_material(letters[at], volume=value) for at, value in enumerate(before)]
    have = [make_material(letters[at], letters[at] if at < len(before) else "", volume=v) for at, v in enumerate(after)]
    [line] = build_balance_sheet(make_transition(had, have)).stated
    return line


def test_balance_of_a_wash_shows_ten_millilitres_too_many() -> None:
    # 15 + 500 = 515 in; 0.3 + 490 + 34.7 = 525 out; 525 - 515 = +10.
    line = build_volume_line(["15.0 mL", "500 mL"], ["0.3 mL", "490 mL", "34.7 mL"])

    assert line.into == BalanceSide("515 mL", (("15.0 mL", 1), ("500 mL", 1)))
    assert line.out == BalanceSide("525 mL", (("0.3 mL", 1), ("490 mL", 1), ("34.7 mL", 1)))
    assert (line.difference, line.unsummed) == ("+10 mL", ())


def test_balance_adds_in_one_unit_but_shows_each_volume_as_written() -> None:
    # 1 L - (500 uL + 900 mL) = 1000 - 900.5 = 99.5 mL less; the larger sum is 1 L, so the line is in L.
    line = build_volume_line(["1 L"], ["900 mL", "500 µL"])

    assert [text for text, _ in line.out.terms] == ["900 mL", "500 µL"]
    assert (line.into.sum, line.out.sum, line.difference) == ("1 L", "0.9005 L", "−0.0995 L")


def test_balance_sums_are_exact() -> None:
    # Binary floats would make 0.1 + 0.2 other than 0.3.
    assert build_volume_line(["0.3 mL"], ["0.1 mL", "0.2 mL"]).difference == "0 µL"


def test_balance_lists_equal_volumes_once_with_their_count() -> None:
    assert build_volume_line(["3 mL"], ["1 mL", "1 mL", "1 mL"]).out == BalanceSide("3 mL", (("1 mL", 3),))


@pytest.mark.parametrize("written", ["about 5 mL", "5", "5 parsecs", "", "٣ mL", "9**9 mL", "1e99 mL"])
def test_balance_lists_unreadable_values_and_does_not_guess_them(written: str) -> None:
    line = build_volume_line(["5 mL"], ["4 mL", written])

    assert line.unsummed == (("B", written),)
    assert (line.out.sum, line.difference) == ("4 mL", "−1 mL")


@pytest.mark.parametrize("written", ["1,000 µL", "1e3 ul", "1 x 10^3 µL", "1000 microliters"])
def test_balance_sums_a_volume_in_every_notation(written: str) -> None:
    line = build_volume_line(["5 mL"], ["4 mL", written])

    assert (line.unsummed, line.out.sum) == ((), "5 mL")


def test_balance_has_no_sum_if_no_value_is_readable() -> None:
    line = build_volume_line(["some"], ["most of it"])

    assert (line.into.sum, line.out.sum, line.difference) == ("", "", "")
    assert line.unsummed == (("A", "some"), ("A", "most of it"))


def test_balance_does_not_sum_an_unlimited_supply() -> None:
    supply = make_material("B", supply="unlimited supply", volume="1 L")
    [line] = build_balance_sheet(
        make_transition([make_material("A", volume="1 mL"), supply], [make_material("A", "A", volume="2 mL")])
    ).stated

    assert line.unsummed == (("B", "unlimited supply"),)
    assert line.difference == "+1 mL"


def test_balance_counts_a_used_up_material_only_before_the_action() -> None:
    [line] = build_balance_sheet(make_transition([make_material("A", volume="1 mL")], [])).stated

    assert (line.into.sum, line.out, line.difference) == ("1 mL", BalanceSide("0 mL", ()), "−1 mL")


def test_balance_of_a_rejected_action_is_zero() -> None:
    [line] = build_balance_sheet(
        make_transition([make_material("A", volume="1 mL")], [], rejected="it is frozen")
    ).stated

    assert line.difference == "0 mL"


def test_balance_ignores_the_container_capacity() -> None:
    assert build_balance_sheet(make_transition([make_material("A", container_capacity="5 mL")], [])) == ((), ())


def test_balance_lists_two_different_volumes_of_one_material_without_summing() -> None:
    [line] = build_balance_sheet(make_transition([make_material("A", volume="1 mL", total_volume="2 mL")], [])).stated

    assert line.unsummed == (("A", "2 mL or 1 mL"),)


def test_balance_has_separate_lines_for_cells_and_mass() -> None:
    before = [make_material("A", viable_cells="7.6 × 10⁶ cells", mass="2 mg")]
    after = [make_material("A", "A", viable_cells="7.4e6", mass="2.5 mg")]
    mass, cells = build_balance_sheet(make_transition(before, after)).stated

    # 7.4e6 - 7.6e6 = -0.2e6; 2.5 - 2 = 0.5 mg.
    assert (mass.name, mass.difference) == ("Mass", "+0.5 mg")
    assert (cells.name, cells.into.sum, cells.difference) == ("Viable cells", "7.6 × 10⁶", "−200,000")


def test_balance_calculates_an_amount_from_volume_and_concentration() -> None:
    before = [make_material("A", volume="1 mL", salt_concentration="50 mM")]
    after = [make_material("A", "A", volume="500 µL", salt_concentration="50 mM"), make_material("B", volume="1 mL", salt_concentration="25 mM")]  # fmt: skip
    [line] = build_balance_sheet(make_transition(before, after)).computed

    # 1 mL x 50 mM = 50 umol; 0.5 mL x 50 mM + 1 mL x 25 mM = 25 + 25 = 50 umol.
    assert (line.name, line.into.sum, line.out.sum, line.difference) == ("Salt", "50 µmol", "50 µmol", "0 µmol")
    assert line.into.terms == (("1 mL at 50 mM", 1),)


@pytest.mark.parametrize(
    ("concentration", "amount"),
    [
        ("2 mg/mL", "2 mg"),  # 1 mL x 2 mg/mL
        ("3000 cells/mL", "3000"),
        ("4 U/mL", "4 U"),
        ("2000000000000 1/mL", "2 × 10¹²"),
    ],
)
def test_balance_calculates_the_amount_for_each_kind_of_concentration(concentration: str, amount: str) -> None:
    [line] = build_balance_sheet(
        make_transition([make_material("A", volume="1 mL", it_concentration=concentration)], [])
    ).computed
    assert line.into.sum == amount


def test_balance_rounds_calculated_amounts_alike_on_both_sides() -> None:
    # 0.6 x 2 + 0.002 x 2 + 9.92 x 2 = 21.044, to four figures 21.04; 0.72 x 2 + 10 x 2 = 21.44.
    before = [make_material("A", volume="720 µL", calcium_concentration="2 mM"), make_material("B", volume="10 mL", calcium_concentration="2 mM")]  # fmt: skip
    after = [make_material(ref, ref if ref < "C" else "", volume=v, calcium_concentration="2 mM") for ref, v in (("A", "602 µL"), ("B", "9.92 mL"))]  # fmt: skip
    [line] = build_balance_sheet(make_transition(before, after)).computed

    assert (line.into.sum, line.out.sum, line.difference) == ("21.44 µmol", "21.04 µmol", "−0.4 µmol")


def test_balance_does_not_sum_a_concentration_without_a_volume() -> None:
    [line] = build_balance_sheet(make_transition([make_material("A", salt_concentration="50 mM")], [])).computed
    assert line.unsummed == (("A", "50 mM, no volume stated"),)


def test_balance_does_not_add_different_kinds_of_concentration() -> None:
    before = [make_material("A", volume="1 mL", salt_concentration="50 mM"), make_material("B", volume="1 mL", salt_concentration="5 mg/mL")]  # fmt: skip
    [line] = build_balance_sheet(make_transition(before, [])).computed

    assert line.into == BalanceSide("50 µmol", (("1 mL at 50 mM", 1),))
    assert line.unsummed == (("B", "1 mL at 5 mg/mL"),)


def test_balance_line_has_no_field_for_right_or_wrong() -> None:
    assert set(BalanceLine._fields) == {"name", "into", "out", "difference", "unsummed"}
