"""L20: viable counts, changes over a baseline, means and standard deviations follow from the numbers of the record."""

from typing import Any

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.bases import build_material, build_observation, build_transition


def find_codes(
    *seen: tuple[str, Any], action: str = "ManualCount", name: str = "Sample in a dish", **settings: Any
) -> set[str]:
    """Return the codes of the errors in a record of observations, each a description and a value."""
    sample = build_material(name, {"container": "dish"})
    observations = [build_observation(description, value) for description, value in seen]
    line = build_transition(action, settings, [sample], [sample], observations)
    return {finding.code for finding in check_transition(line).error_findings}


# 43 colonies / 0.1 mL x 10^4 = 4.3e6 CFU/mL
@pytest.mark.parametrize(("stated", "codes"), [("4.3e6", set()), ("4.3e5", {"L20"}), ("8.6e6", {"L20"})])
def test_viable_count_is_colonies_over_plated_volume_times_the_dilution_wherever_they_are_written(
    stated: str, codes: set[str]
) -> None:
    result = ("viable count of the wash, CFU/mL", stated)
    assert find_codes(("colonies on the plate, 100 µL spread of the 10^-4 dilution", "43"), result) == codes
    assert find_codes(("colonies", "43"), result, name="Soil wash 10^-4 on agar", plated_volume="100 µL") == codes
    assert find_codes(("colonies", "43"), result, dilution="1:10000", spread_volume="0.1 mL") == codes


def test_viable_count_of_a_surface_is_not_compared_with_a_volume() -> None:
    assert find_codes(("colonies of the swab, 0.2 mL spread", "60"), ("surface load, CFU/cm²", "12")) == set()


def test_viable_count_without_a_plated_volume_is_not_judged() -> None:
    assert find_codes(("colonies on the plate", "43"), ("viable count, CFU/mL", "8.6e6")) == set()


# (1400 - 800) / 800 = 0.75
@pytest.mark.parametrize(("stated", "codes"), [("0.75", set()), ("75 %", set()), ("1.75", {"L20"}), ("57 %", {"L20"})])
def test_change_over_baseline_follows_from_peak_and_baseline(stated: str, codes: set[str]) -> None:
    seen = ("F0 of the resting astrocyte", "800"), ("F peak after ATP", "1400"), ("ΔF/F0", stated)
    assert find_codes(*seen, action="FluorescenceMicroscopy") == codes


def test_change_over_baseline_takes_no_numbers_of_another_size_as_one_signal() -> None:
    # 800 is 100 times 8, which is therefore no baseline of it.
    seen = ("frames at the start", "8"), ("F at the end", "800"), ("ΔF/F0", "0.75")
    assert find_codes(*seen, action="FluorescenceMicroscopy") == set()


CUVETTES = [
    0.412,
    0.418,
    0.421,
]  # mean 1.251 / 3 = 0.417; squared deviations 25, 1, 16 e-6, so SD = sqrt(42e-6 / 2) = 0.0046, 1.1 %


@pytest.mark.parametrize(
    ("description", "right", "wrong"),
    [
        ("mean absorbance", "0.417", "0.437"),
        ("Mittelwert", "0.417", "0.394"),
        ("standard deviation of the absorbance", "0.0046", "0.0146"),
        ("RSD of the cuvettes", "1.1 %", "4.1 %"),
    ],
)
def test_mean_and_spread_are_those_of_the_readings(description: str, right: str, wrong: str) -> None:
    def check(stated: str, *readings: tuple[str, Any]) -> set[str]:
        return find_codes(*readings, (description, stated), action="UseUVVisSpectrophotometer")

    in_one = ("absorbance in three cuvettes", CUVETTES)
    in_three = [(f"cuvette {name} absorbance", str(value)) for name, value in zip("ABC", CUVETTES, strict=True)]
    assert check(right, in_one) == check(right, *in_three) == set()
    assert check(wrong, in_one) == check(wrong, *in_three) == {"L20"}


def test_mean_and_spread_in_one_value_with_their_readings() -> None:
    def check(mean: float, deviation: float) -> set[str]:
        value = dict(zip("ABC", CUVETTES, strict=True)) | {"mean": mean, "SD": deviation}
        return find_codes(("absorbance of nitrate", value), action="UseUVVisSpectrophotometer")

    assert check(0.417, 0.0046) == set()
    assert check(0.437, 0.0046) == {"L20"}
    assert check(0.417, 0.0146) == {"L20"}


def test_mean_of_a_list_in_prose() -> None:
    # (2.10 + 1.99 + 2.23) / 3 = 2.1067
    assert find_codes(("three readings", "2.10, 1.99, 2.23 | mean 2.11")) == set()
    assert find_codes(("three readings", "2.10, 1.99, 2.23 | mean 2.46")) == {"L20"}


@pytest.mark.parametrize(
    ("description", "stated"),
    [
        # The mean without 0.530 is 0.417, that of all four 0.445.
        ("mean absorbance without the outlier", "0.417"),
        ("mean absorbance", "0.445"),
    ],
)
def test_mean_may_leave_out_an_outlier(description: str, stated: str) -> None:
    readings = ("absorbance in four cuvettes", [*CUVETTES[:2], 0.530, CUVETTES[2]])
    assert find_codes(readings, (description, stated), action="UseUVVisSpectrophotometer") == set()


@pytest.mark.parametrize(
    "description",
    ["mean fluorescence of the population", "mean of all cells", "geometric mean", "mean signal intensity of the gate"],
)
def test_mean_of_a_population_is_not_the_mean_of_the_listed_readings(description: str) -> None:
    assert find_codes(("three gates", [812, 820, 816]), (description, "905.2"), action="FlowCytometry") == set()


def test_mean_of_readings_that_are_not_of_one_quantity_is_not_judged() -> None:
    assert find_codes(("weights of a leaf, a root and a pot", [0.4, 2.2, 181]), ("mean", "0.91")) == set()


def test_mean_of_readings_that_follow_its_name_is_the_number_behind_them() -> None:
    # (7.20 + 7.21 + 7.25) / 3 = 7.22; 7.20 is a reading.
    assert find_codes(("pH (mean of 7.20, 7.21, 7.25)", "7.22"), action="MeasurePH") == set()


def test_mean_in_a_row_is_that_of_the_readings_of_this_row() -> None:
    # (0.84 + 0.88 + 0.86) / 3 = 0.86; (0.91 + 0.95 + 0.93) / 3 = 0.93
    def check(second: str) -> set[str]:
        rows = (
            f"A: first 0.84, second 0.88, third 0.86, mean 0.860\nB: first 0.91, second 0.95, third 0.93, mean {second}"
        )
        return find_codes(("absorbance of two samples", rows), action="UseUVVisSpectrophotometer")

    assert check("0.930") == set()
    assert check("0.860") == {"L20"}
