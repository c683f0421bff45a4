"""Names and units of readings are read wherever an observation states them."""

import pytest

from simulation.checker.reading import observed


def arrange(description: str, kind: str, value: object) -> tuple[str, object]:
    [entry] = observed.arrange_observations([{"description": description, "measurement_type": kind, "value": value}])
    return entry["description"], entry["value"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("Mg_ug_per_L", "41.2", "41.2 ug/L"),
        ("mass (mg)", 12.5, "12.5 mg"),
        ("spores_per_milliliter", "3.1e6", "3.1e6 spores/milliliter"),
        ("recovery_pct", "97", "97 pct"),
        ("t_R [min]", "[3.1; 3.2]", "3.1 min, 3.2 min"),
        ("OD600", "0.31", "0.31"),
        ("absorbance at 405 nm", "0.31", "0.31"),
    ],
)
def test_observed_unit_of_the_type_belongs_to_each_number(kind: str, value: object, expected: str) -> None:
    assert arrange("row 4", kind, value)[1] == expected


@pytest.mark.parametrize(
    ("description", "kind", "value", "expected"),
    [
        ("sizing of beads, d_um", "median;max", "9.1;22.4", "median: 9.1 um; max: 22.4 um"),
        ("calcium imaging", "intensity (resting; stimulated)", [210, 480], "intensity resting: 210; intensity stimulated: 480"),
        ("plate reader, wells B1,B2,B3", "RFU", "[11; 12; 13]", "B1: 11; B2: 12; B3: 13"),
        ("three weighings r1,r2,r3", "m_g", [1.1, 1.2, 1.3], "1.1 g, 1.2 g, 1.3 g"),
        ("two numbers of unknown meaning", "values", "4; 5", "4, 5"),
    ],
)  # fmt: skip
def test_observed_names_of_a_list_are_those_in_the_same_order(
    description: str, kind: str, value: object, expected: str
) -> None:
    assert arrange(description, kind, value)[1] == expected


def test_observed_type_is_part_of_the_description_unless_it_only_says_how_it_was_observed() -> None:
    assert arrange("tube 3", "net_mass", "1 g") == ("tube 3, net mass", "1 g")
    assert arrange("net mass of tube 3", "net_mass", "1 g")[0] == "net mass of tube 3"
    assert arrange("tube 3", "quantitative", "1 g")[0] == "tube 3"
    assert arrange("tube 3", "visual observation", "clear") == ("tube 3", "clear")


@pytest.mark.parametrize("value", ["about five", "1.2 (n = 3)", {"a": 1}, None, True])
def test_observed_value_that_is_no_list_of_numbers_is_unchanged(value: object) -> None:
    assert arrange("a reading", "m_g", value)[1] == value


def test_observed_entries_that_are_no_objects_are_unchanged() -> None:
    assert observed.arrange_observations(["text", 3]) == ["text", 3]
    assert observed.arrange_observations("text") == "text"
