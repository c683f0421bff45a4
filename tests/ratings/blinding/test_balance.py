"""The balance sheet: sums of what is stated, with their terms. Expected numbers are worked out by hand."""

from typing import Any

import pytest

from ratings.blinding.balance import Line, Side, sheet


def material(ref: str, continues: str = "", supply: str = "can be used further", **stated: str) -> dict[str, Any]:
    return {
        "ref": ref,
        "name": f"Material {ref}",
        "properties": [[label.replace("_", " ").capitalize(), value] for label, value in sorted(stated.items())],
        "condition": "on ice",
        "availability": supply,
        "continues": continues,
    }


def transition(before: list[dict[str, Any]], after: list[dict[str, Any]], rejected: str = "") -> dict[str, Any]:
    return {"kind": "transition", "lineage": True, "before": before, "after": after, "rejected": rejected}


def volumes(before: list[str], after: list[str]) -> Line:
    """The volume line of so many materials, all of which go on or are new."""
    letters = "ABCDEFGH"
    had = [material(letters[at], volume=value) for at, value in enumerate(before)]
    have = [material(letters[at], letters[at] if at < len(before) else "", volume=v) for at, v in enumerate(after)]
    [line] = sheet(transition(had, have)).stated
    return line


def test_the_wash_of_the_mock_has_ten_millilitres_too_many() -> None:
    # 15 + 500 = 515 in; 0.3 + 490 + 34.7 = 525 out; 525 - 515 = +10.
    line = volumes(["15.0 mL", "500 mL"], ["0.3 mL", "490 mL", "34.7 mL"])

    assert line.into == Side("515 mL", (("15.0 mL", 1), ("500 mL", 1)))
    assert line.out == Side("525 mL", (("0.3 mL", 1), ("490 mL", 1), ("34.7 mL", 1)))
    assert (line.difference, line.unsummed) == ("+10 mL", ())


def test_units_are_added_up_in_one_unit_and_the_terms_stay_as_they_were_written() -> None:
    # 1 L - (500 uL + 900 mL) = 1000 - 900.5 = 99.5 mL less; the larger sum is 1 L, so the line is in L.
    line = volumes(["1 L"], ["900 mL", "500 µL"])

    assert [text for text, _ in line.out.terms] == ["900 mL", "500 µL"]
    assert (line.into.sum, line.out.sum, line.difference) == ("1 L", "0.9005 L", "−0.0995 L")


def test_sums_are_exact() -> None:
    # Binary floats would make 0.1 + 0.2 other than 0.3.
    assert volumes(["0.3 mL"], ["0.1 mL", "0.2 mL"]).difference == "0 µL"


def test_equal_terms_are_counted() -> None:
    assert volumes(["3 mL"], ["1 mL", "1 mL", "1 mL"]).out == Side("3 mL", (("1 mL", 3),))


@pytest.mark.parametrize("written", ["about 5 mL", "1,000 µL", "5", "5 parsecs", "", "٣ mL", "9**9 mL", "1e99 mL"])
def test_what_cannot_be_read_is_named_and_never_guessed(written: str) -> None:
    line = volumes(["5 mL"], ["4 mL", written])

    assert line.unsummed == (("B", written),)
    assert (line.out.sum, line.difference) == ("4 mL", "−1 mL")


def test_where_nothing_can_be_read_there_is_no_sum_at_all() -> None:
    line = volumes(["some"], ["most of it"])

    assert (line.into.sum, line.out.sum, line.difference) == ("", "", "")
    assert line.unsummed == (("A", "some"), ("A", "most of it"))


def test_an_unlimited_supply_is_not_summed_on_either_side() -> None:
    supply = material("B", supply="unlimited supply", volume="1 L")
    [line] = sheet(transition([material("A", volume="1 mL"), supply], [material("A", "A", volume="2 mL")])).stated

    assert line.unsummed == (("B", "unlimited supply"),)
    assert line.difference == "+1 mL"


def test_what_is_used_up_counts_before_and_not_afterwards() -> None:
    [line] = sheet(transition([material("A", volume="1 mL")], [])).stated

    assert (line.into.sum, line.out, line.difference) == ("1 mL", Side("0 mL", ()), "−1 mL")


def test_a_rejected_action_leaves_everything_where_it_was() -> None:
    [line] = sheet(transition([material("A", volume="1 mL")], [], rejected="it is frozen")).stated

    assert line.difference == "0 mL"


def test_a_capacity_is_no_volume() -> None:
    assert sheet(transition([material("A", container_capacity="5 mL")], [])) == ((), ())


def test_two_different_volumes_of_one_material_are_left_to_the_reader() -> None:
    [line] = sheet(transition([material("A", volume="1 mL", total_volume="2 mL")], [])).stated

    assert line.unsummed == (("A", "2 mL or 1 mL"),)


def test_cells_and_masses_have_lines_of_their_own() -> None:
    before = [material("A", viable_cells="7.6 × 10⁶ cells", mass="2 mg")]
    after = [material("A", "A", viable_cells="7.4e6", mass="2.5 mg")]
    mass, cells = sheet(transition(before, after)).stated

    # 7.4e6 - 7.6e6 = -0.2e6; 2.5 - 2 = 0.5 mg.
    assert (mass.name, mass.difference) == ("Mass", "+0.5 mg")
    assert (cells.name, cells.into.sum, cells.difference) == ("Viable cells", "7.6 × 10⁶", "−200000")


def test_an_amount_is_worked_out_from_volume_and_concentration() -> None:
    before = [material("A", volume="1 mL", salt_concentration="50 mM")]
    after = [material("A", "A", volume="500 µL", salt_concentration="50 mM"), material("B", volume="1 mL", salt_concentration="25 mM")]  # fmt: skip
    [line] = sheet(transition(before, after)).worked_out

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
def test_each_kind_of_concentration_gives_its_amount(concentration: str, amount: str) -> None:
    [line] = sheet(transition([material("A", volume="1 mL", it_concentration=concentration)], [])).worked_out
    assert line.into.sum == amount


def test_what_is_worked_out_is_rounded_alike_on_both_sides() -> None:
    # 0.6 x 2 + 0.002 x 2 + 9.92 x 2 = 21.044, to four figures 21.04; 0.72 x 2 + 10 x 2 = 21.44.
    before = [material("A", volume="720 µL", calcium_concentration="2 mM"), material("B", volume="10 mL", calcium_concentration="2 mM")]  # fmt: skip
    after = [material(ref, ref if ref < "C" else "", volume=v, calcium_concentration="2 mM") for ref, v in (("A", "602 µL"), ("B", "9.92 mL"))]  # fmt: skip
    [line] = sheet(transition(before, after)).worked_out

    assert (line.into.sum, line.out.sum, line.difference) == ("21.44 µmol", "21.04 µmol", "−0.4 µmol")


def test_a_concentration_without_a_volume_is_not_summed() -> None:
    [line] = sheet(transition([material("A", salt_concentration="50 mM")], [])).worked_out
    assert line.unsummed == (("A", "50 mM, no volume stated"),)


def test_concentrations_of_different_kinds_are_not_added() -> None:
    before = [material("A", volume="1 mL", salt_concentration="50 mM"), material("B", volume="1 mL", salt_concentration="5 mg/mL")]  # fmt: skip
    [line] = sheet(transition(before, [])).worked_out

    assert line.into == Side("50 µmol", (("1 mL at 50 mM", 1),))
    assert line.unsummed == (("B", "1 mL at 5 mg/mL"),)


def test_the_sheet_says_nothing_of_right_or_wrong() -> None:
    assert set(Line._fields) == {"name", "into", "out", "difference", "unsummed"}
