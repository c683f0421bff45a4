"""Calculations that a record writes out, and shares and counts of one record that must fit each other."""

import pytest

from simulation.checker.findings import Finding
from simulation.checker.reading.spelling import normalise_numbers
from simulation.checker.results.calculations import find_wrong_results
from tests.simulation.checker.test_relations import codes, measured


def is_wrong(text):
    return any(isinstance(item, Finding) for item in find_wrong_results("record", normalise_numbers(text), {}))


# Each line has the right result and a wrong one in place of "#".
@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        ("1.0e5 x 0.146 / 0.005 mL -> # TU/mL", "2.9e6", "2.9e7"),
        ("14 260 / (14 260 + 1 840) = # % cleaved", "88.6", "71.6"),
        ("1000 uL - 48 x 10 uL = # uL", "520", "620"),
        ("0.5 mL x 200 µg/mL = # µg", "100", "150"),
        ("50 µL x 2 mg/mL gives # mg", "0.1", "1"),
        ("12 x 2^30 = # copies", "1.3e10", "6.4e11"),
        ("1 mg / 194.2 g/mol = # µmol", "5.15", "51.5"),
        ("28.9862 - 28.4137 = # g", "0.5725", "0.6725"),
        (r"$\frac{20.02}{0.020} = #$", "1001", "101"),
        ("(0.41 + 0.43 + 0.40)/3 = #", "0.413", "0.513"),
        # The result of the first calculation begins the second one.
        ("4e9 /mL x 0.150 mL = 6e8 minicells / 3e6 cells = #", "200", "300"),
    ],
)
def test_result_of_a_written_calculation_is_computed(text, right, wrong):
    assert (is_wrong(text.replace("#", right)), is_wrong(text.replace("#", wrong))) == (False, True)


@pytest.mark.parametrize(
    "text",
    [
        "A260/280 = 1.86",  # wavelengths
        "ratio 535/480 = 1.4",
        "Cq 24.11 / 24.25 -> 24.18",  # readings and their mean
        "3 x 5 min -> 4 °C",  # a next step
        "mean of 5 and 7 / 2 = 6",  # part of a larger term
        "30-300 = countable, 1:10 = 0.1",
        "(20.0)/(180.16) -> 111 mM",  # g/L over g/mol is mol/L
        "2 h x 60 = 120 min",
    ],
)
def test_what_only_looks_like_a_calculation_is_left_alone(text):
    assert not is_wrong(text)


# (action, description, right, wrong); the arithmetic is in the comment
@pytest.mark.parametrize(
    ("action", "description", "right", "wrong"),
    [
        # 0.5 * (0.128 + 0.060) = 0.094 V
        ("CyclicVoltammetry", "Epa = 0.128 V; Epc = 0.060 V; E1/2 = (Epa + Epc)/2", "0.094 V", "0.108 V"),
        # 7544 + 656 = 8200
        ("FlowCytometry", "live single cells 8200 of all events 10000; GFP+ 7544; GFP-", "656", "1156"),
        # 8653 / 36053 = 24.0 %
        ("FlowCytometry", "events", "All 50000\n> Live 36053\n>> GFP+ 8653; 24.0 % of parent", "All 50000\n> Live 36053\n>> GFP+ 8653; 17.0 % of parent"),
        # 13 + 6 + 1 = 20
        ("QuantifyColonies", "tally", "20 patches total / green 13 / dark 6 / no growth 1", "20 patches total / green 13 / dark 9 / no growth 1"),
        # 25 / 48 = 52.1 %
        ("qPCR", "calls of 48 fish", "WT/WT: 11 (22.9 %); WT/mut: 25 (52.1 %); mut/mut: 12 (25.0 %)", "WT/WT: 11 (22.9 %); WT/mut: 25 (65.1 %); mut/mut: 12 (25.0 %)"),
        # A child of a gate is part of it.
        ("FlowCytometry", "gates", "- events: 9000\n  - singlets: 8000\n    - live: 7000", "- events: 9000\n  - singlets: 7000\n    - live: 8000"),
    ],
)  # fmt: skip
def test_counts_and_shares_of_a_record_fit_each_other(action, description, right, wrong):
    assert codes(measured(action, {}, [(description, right, "quantitative")])) == set()
    assert codes(measured(action, {}, [(description, wrong, "quantitative")])) == {"L20"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"support": "TBAPF6 0.1 M"}, {"support": "TBABF4 0.1 M"}, {"L19"}),
        ({"vessel": "1.5 mL tube"}, {"vessel": "5 mL tube"}, {"L19"}),
        ({"lid": "open"}, {"lid": "closed"}, set()),
    ],
)
def test_weighing_keeps_the_substance_and_the_vessel(before, after, expected):
    line = measured("MeasureWeight", {}, [("mass", "1.2 g", "quantitative")], before, after)
    assert codes(line) == expected
