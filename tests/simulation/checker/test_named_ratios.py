"""L20: named ratios, molar ratios, net masses and numbers per cell follow from the numbers of the record."""

from typing import Any

import pytest

from simulation.checker import check_transition
from tests.simulation.checker.bases import build_material, build_observation, build_transition


def find_codes(*seen: tuple[str, Any], action: str = "UsePlateReader") -> set[str]:
    """Return the codes of the errors in a record of observations, each a description and a value."""
    sample = build_material("Sample in a well", {"container": "96-well plate"})
    observations = [build_observation(description, value) for description, value in seen]
    line = build_transition(action, {}, [sample], [sample], observations)
    return {finding.code for finding in check_transition(line).error_findings}


# 960 / 640 = 1.50, and 640 / 960 = 67 %
@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("acceptor/donor ratio", "1.50", "2.50"),
        ("ratio of acceptor to donor", "1.50", "1.30"),
        ("donor over acceptor", "67 %", "150 %"),
    ],
)
def test_named_ratio_is_the_quotient_of_the_signals_with_these_names(name: str, right: str, wrong: str) -> None:
    signals = ("donor signal", "640"), ("acceptor signal", "960")
    assert find_codes(*signals, (name, right)) == set()
    assert find_codes(*signals, (name, wrong)) == {"L20"}
    assert find_codes(("ratiometric imaging", f"donor 640; acceptor 960; {name} {right}")) == set()
    assert find_codes(("ratiometric imaging", f"donor 640; acceptor 960; {name} {wrong}")) == {"L20"}


def test_named_ratio_of_a_well_is_of_the_signals_of_this_well() -> None:
    signals = [("donor, well C3", "640"), ("acceptor, well C3", "960"), ("donor, well C4", "500"), ("acceptor, well C4", "900")]  # fmt: skip
    # 900 / 500 = 1.80
    assert find_codes(*signals, ("acceptor/donor ratio, well C4", "1.80")) == set()
    assert find_codes(*signals, ("acceptor/donor ratio, well C4", "1.50")) == {"L20"}


@pytest.mark.parametrize("name", ["acceptor/donor R/R0", "fold change of acceptor/donor ratio", "normalised acceptor/donor ratio"])  # fmt: skip
def test_named_ratio_of_ratios_is_not_a_quotient_of_signals(name: str) -> None:
    assert find_codes(("donor signal", "640"), ("acceptor signal", "960"), (name, "1.20")) == set()


def test_named_ratio_of_a_material_is_that_of_its_own_numbers() -> None:
    def check(ratio: str) -> set[str]:
        before = build_material("Mixed spores", {"volume": "2 mL"})
        after = build_material(
            "Mixed spores", {"volume": "2 mL", "wild": 300, "mutant": 100, "wild/mutant ratio": ratio}
        )
        line = build_transition("ManualCount", {}, [before], [after], [])
        return {finding.code for finding in check_transition(line).error_findings}

    assert "L20" not in check("3.0")
    assert "L20" in check("4.5")


def test_molar_ratio_of_elements_follows_from_their_mass_concentrations() -> None:
    # 400.8 / 40.08 = 10.0 mmol/L of Ca, 185.8 / 30.97 = 6.0 mmol/L of P: 1.67. The ratio of the masses is 2.16.
    elements = ("Ca", "400.8 mg/L"), ("P", "185.8 mg/L")
    assert find_codes(*elements, ("molar ratio Ca/P", "1.67"), action="ICPMS") == set()
    assert find_codes(*elements, ("molar ratio Ca/P", "2.16"), action="ICPMS") == {"L20"}
    assert find_codes(*elements, ("mass ratio Ca/P", "2.16"), action="ICPMS") == set()


def test_net_mass_is_a_difference_of_two_masses_though_other_masses_stand_around() -> None:
    def check(net: str) -> set[str]:
        dishes = ("gross, dish with peat", "31.482 g"), ("tare, empty dish", "29.482 g"), ("spatula", "7.310 g")
        return find_codes(*dishes, ("net mass of the peat", net), action="Weigh")

    assert check("2.000 g") == set()  # 31.482 - 29.482
    assert check("2.300 g") == {"L20"}


def test_net_mass_without_gross_and_tare_is_not_judged() -> None:
    assert (
        find_codes(("peat of the first dish", "1.731 g"), ("net mass of the peat", "2.300 g"), action="Weigh") == set()
    )


def test_number_per_cell_is_the_number_of_particles_over_that_of_cells() -> None:
    def check(number: str) -> set[str]:
        well = build_material("Macrophage well", {"cells": "2e5 cells"})
        yeast = build_material("Yeast suspension", {"volume": "1 mL", "density": "1e7 /mL"})
        settings = {"volume": "100 µL", "yeast per macrophage": number}
        line = build_transition("Transfer", settings, [well, yeast], [], [])
        return {finding.code for finding in check_transition(line).error_findings}

    assert "L20" not in check("5")  # 1e7 /mL x 0.1 mL / 2e5 = 5
    assert "L20" in check("8")


def test_ratio_without_the_word_is_read_if_there_is_one_signal_of_each_name() -> None:
    # 900 / 500 = 1.80; "counts/s" is a unit and not a ratio.
    signals = ("donor end", "500"), ("acceptor end", "900")
    assert find_codes(*signals, ("acceptor/donor end", "1.80")) == set()
    assert find_codes(*signals, ("acceptor/donor end", "1.30")) == {"L20"}
    assert find_codes(*signals, ("rate, counts/s", "1.30")) == set()


def test_share_of_a_gate_is_a_count_over_the_count_of_this_gate() -> None:
    # 1200 / 8000 = 15 %; 1200 of all 10000 events would be 12 %.
    counts = ("events recorded", "10000"), ("single cells", "8000"), ("mCherry positive", "1200")
    assert find_codes(*counts, ("mCherry share of single cells", "15.0 %"), action="FlowCytometry") == set()
    assert find_codes(*counts, ("mCherry share of single cells", "12.0 %"), action="FlowCytometry") == {"L20"}
    # The count of the part is not there, so nothing is compared.
    assert find_codes(*counts[:2], ("mCherry share of single cells", "12.0 %"), action="FlowCytometry") == set()
