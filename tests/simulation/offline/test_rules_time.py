"""What happens in a culture or a reaction follows its total time and what is there, not the number of steps."""

from decimal import Decimal

import pytest

from simulation.offline.hidden_truth import check_truth
from tests.support.laboratory_factory import SmallLab, build_material

KILLING = {
    "action": "CellCultureIncubate", "components": ["HeLa cells"], "agent": "puromycin", "half": "1 µg/mL", "n": "2", "after": "72 h",
}  # fmt: skip
AMPLIFICATION = {
    "action": "Thermocycler", "needs": ["DNA", "primer"], "makes": "amplicon", "dimension": "mass", "per_volume": "30 ng/µL",
    "consumes": {"primer": "2 pmol per µg"},
}  # fmt: skip
INFECTION = {
    "action": "CellCultureIncubate", "needs": ["HeLa cells", "virus"], "uses": ["virus"], "makes": "hit HeLa cells",
    "poisson": {"targets": "HeLa cells", "agent": "virus", "hit_before": ["hit HeLa cells"]},
}  # fmt: skip


def get_amount(lab, key, name):
    parts = lab[key].ledger["components"]
    return Decimal(parts[name]["amount"]) if name in parts else Decimal(0)


def culture(small, key, *durations):
    for duration in durations:
        step = small.run_step("CellCultureIncubate", key, temperature="37 °C", duration=duration)
        assert step.outcome.success, step.outcome.failure_reason


@pytest.mark.parametrize("durations", [["72 h"], ["24 h", "24 h", "24 h"], ["1 day", "2 day"]])
def test_three_days_with_an_antibiotic_kill_the_same_share_in_one_step_and_in_several(lab, durations):
    # At 3 µg/mL, 1 / (1 + 3^2) = 10 % survive three days.
    well = build_material(
        "well", "adherent culture", contents={"puromycin": "3 µg/mL"}, hidden={"HeLa cells": "1e5 cells/mL"}
    )
    small = SmallLab(lab.catalogue, well, truth={"survival": [KILLING]})
    culture(small, "well", *durations)
    assert get_amount(small, "well", "HeLa cells") == pytest.approx(Decimal(10_000))


def test_second_amplification_makes_only_what_is_missing_to_the_final_concentration(lab):
    # 25 µL hold at most 750 ng, for which 1.5 of the 10 pmol of primer are used.
    tube = build_material(
        "tube", volume="25 µL", container="0.2 mL PCR tube", hidden={"DNA": "1 ng/µL"}, contents={"primer": "400 nM"}
    )
    small = SmallLab(lab.catalogue, tube, truth={"reactions": [AMPLIFICATION]})
    for _ in range(2):
        assert small.run_step("Thermocycler", "tube").outcome.success
        assert get_amount(small, "tube", "amplicon") == pytest.approx(Decimal("0.75"))  # µg
        assert get_amount(small, "tube", "primer") == pytest.approx(Decimal("0.0085"))  # nmol
    assert small.get_property("tube", "primer amount") == "not determined"


def test_amplification_stops_when_its_primer_is_used_up(lab):
    # 0.5 pmol of primer are enough for 250 ng.
    tube = build_material(
        "tube", volume="25 µL", container="0.2 mL PCR tube", hidden={"DNA": "1 ng/µL"}, contents={"primer": "20 nM"}
    )
    small = SmallLab(lab.catalogue, tube, truth={"reactions": [AMPLIFICATION]})
    small.run_step("Thermocycler", "tube")
    assert get_amount(small, "tube", "amplicon") == pytest.approx(Decimal("0.25"))
    assert get_amount(small, "tube", "primer") == 0


def test_cells_that_were_hit_before_are_not_counted_again(lab):
    # One particle per cell hits 1 - 1/e of the cells; the next dose hits as large a share of the others.
    well = build_material("well", "adherent culture", hidden={"HeLa cells": "1e5 cells/mL", "virus": "1e5 TU/mL"})
    stock = build_material("stock", hidden={"virus": "1e7 TU/mL"})
    small = SmallLab(lab.catalogue, well, stock, truth={"reactions": [INFECTION]})
    culture(small, "well", "6 h")
    missed = Decimal(100_000) * Decimal(-1).exp()
    assert get_amount(small, "well", "hit HeLa cells") == pytest.approx(Decimal(100_000) - missed)
    small.run_step("Transfer", "stock well", source="@stock", amount="10 µL")
    culture(small, "well", "6 h")
    assert get_amount(small, "well", "hit HeLa cells") == pytest.approx(
        Decimal(100_000) - missed * Decimal(-1).exp(), rel=Decimal("0.02")
    )


def test_truth_check_allows_a_final_concentration_with_what_it_consumes_and_no_other_pair(lab):
    assert check_truth({"reactions": [AMPLIFICATION], "survival": [KILLING]}, lab.catalogue) == []
    pair = {**AMPLIFICATION, "from": "DNA", "ratio": "1"}
    assert check_truth({"reactions": [pair]}, lab.catalogue)[0].startswith(
        "truth.reactions[0].makes: needs exactly one of"
    )
    without_duration = {**KILLING, "action": "Thermocycler"}
    assert check_truth({"survival": [without_duration]}, lab.catalogue)[0].startswith(
        "truth.survival[0]: 'duration' is not a parameter of Thermocycler"
    )
