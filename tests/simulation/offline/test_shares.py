"""The share of each source in a material, which the classifier follows through the amounts in the transcript."""

from simulation.offline.checklist import ChecklistClassifier
from simulation.offline.evidence import collect_readings
from tests.support.data_files import CATALOGUE
from tests.support.laboratory_factory import SmallLab, build_material, build_tubes

WEIGHED = {"line": "weighed", "text": "volume read", "actions": ["MeasureVolume"]}


def bench():
    return SmallLab(
        CATALOGUE,
        build_material("virus", hidden={"vector": "1e6 TU/mL"}, capacity="2 mL"),
        build_material("medium", volume="50 mL", capacity="50 mL", container="50 mL tube"),
        build_tubes(capacity="15 mL", container="15 mL tube"),
        build_material("well_1", "adherent culture", "500 µL", "3 mL", hidden={"cells": "1e5 cells/mL"}),
        build_material("well_2", "adherent culture", "500 µL", "3 mL", hidden={"cells": "1e5 cells/mL"}),
        build_material("well_3", "adherent culture", "500 µL", "3 mL", hidden={"cells": "1e5 cells/mL"}),
    )


def shares(lab, key, of="virus"):
    """Return the share of a source in a material after the last step done to it."""
    found = [reading for reading in collect_readings(lab.bench.get_transcript()) if reading.barcode == lab.codes[key]]
    return found[-1].shares.get(of)


def finding(lab, *lines):
    return ChecklistClassifier(lines).evaluate_lines(lab.bench.get_transcript())[-1]


def diluted(lab):
    lab.run_step(
        "SerialDilute",
        "virus medium tubes",
        "a b c",
        diluent="@medium",
        factor=5,
        dilutions=3,
        transfer_volume="200 µL",
    )
    return lab


def test_shares_follow_a_dilution_series():
    lab = diluted(bench())
    assert [round(float(shares(lab, key)), 5) for key in "abc"] == [0.2, 0.04, 0.008]
    assert round(float(shares(lab, "c", "medium")), 5) == 0.992


def test_share_of_a_dose_includes_the_previous_contents_of_the_well():
    lab = diluted(bench())
    lab.run_step("Transfer", "b well_1", source="@b", amount="500 µL")
    assert round(float(shares(lab, "well_1")), 5) == 0.02  # 500 µL of a 25th in 1 mL


def test_share_is_zero_after_a_wash():
    lab = diluted(bench())
    lab.run_step("Transfer", "b well_1", source="@b", amount="500 µL")
    lab.run_step("Wash", "well_1 medium", wash_medium="@medium", replacement_medium="@medium", wash_volume="500 µL",
           replacement_volume="1 mL")  # fmt: skip
    assert shares(lab, "well_1") is None
    assert round(float(shares(lab, "well_1", "medium")), 5) == 1


DOSED = {"line": "dosed", "text": "dosed", "actions": ["Transfer"], "of": ["virus", "well 1"]}


def doses(*sources):
    """Add 500 µL of each source to a well of its own, then wash and read the wells."""
    lab = diluted(bench())
    for number, source in enumerate(sources, start=1):
        lab.run_step("Transfer", f"{source} well_{number}", source=f"@{source}", amount="250 µL")
    wells = " ".join(f"well_{number}" for number in range(1, len(sources) + 1))
    lab.run_step("Wash", f"{wells} medium", wash_medium="@medium", replacement_medium="@medium", wash_volume="500 µL",
           replacement_volume="1 mL")  # fmt: skip
    lab.run_step("MeasureVolume", wells)
    return lab


def test_different_shares_need_distinct_doses_even_after_a_wash():
    dosed = {"line": "dosed", "text": "dosed", "actions": ["Transfer"], "of": ["virus"]}
    read = {"line": "read", "text": "read", "actions": ["MeasureVolume"], "of": ["virus"], "at_least": 3,
            "shares": {"of": "virus", "different": 3, "at": "dosed"}}  # fmt: skip
    assert finding(doses("a", "b", "c"), dosed, read).met
    same = finding(doses("b", "b", "b"), dosed, read)
    assert not same.met
    assert "different shares of virus: 1, needed: 3" in same.reason


def test_shares_can_be_traced_to_materials_counted_by_an_earlier_rubric_line():
    lab = bench()
    lab.run_step("Aliquot", "virus tubes", "lysate", volume="400 µL", count=1)
    lab.run_step("MeasureVolume", "lysate")
    lab.run_step(
        "SerialDilute", "lysate medium tubes", "x y", diluent="@medium", factor=2, dilutions=2, transfer_volume="200 µL"
    )
    lab.run_step("MeasureVolume", "x y")
    lysed = {"line": "lysed", "text": "lysed", "actions": ["Aliquot"]}
    series = {"line": "series", "text": "series", "actions": ["MeasureVolume"], "after": ["lysed"], "at_least": 3,
              "shares": {"of": "lysed", "different": 3, "known": True}}  # fmt: skip
    assert finding(lab, lysed, series).met  # 1, 1/2 and 1/4 of the lysate


def test_shares_are_unknown_if_a_step_does_not_state_the_amount_taken():
    lab = diluted(bench())
    steps = [step._replace(outputs=tuple({**output, "taken": {}} for output in step.outputs))
             for step in lab.bench.get_transcript()]  # fmt: skip
    found = [reading for reading in collect_readings(steps) if reading.barcode == lab.codes["a"]]
    assert found[-1].origins == {"virus", "medium"}
    assert found[-1].shares == {}


def test_reading_counts_only_within_the_required_time_after_an_earlier_rubric_line():
    lab = bench()
    lab.run_step("Transfer", "virus well_1", source="@virus", amount="100 µL")
    lab.run_step("CellCultureIncubate", "well_1", duration="3 day", temperature="37 °C")
    lab.run_step("MeasureVolume", "well_1")
    late = {**WEIGHED, "elapsed": {"since": "dosed", "at_least": "2 day", "at_most": "4 day"}}
    assert finding(lab, DOSED, late).met
    assert not finding(lab, DOSED, {**late, "elapsed": {"since": "dosed", "at_least": "4 day"}}).met
    assert not finding(lab, DOSED, {**late, "elapsed": {"since": "dosed", "at_most": "2 day"}}).met


def test_reading_matches_a_rubric_line_by_number_by_words_or_by_properties():
    lab = bench()
    lab.run_step("MeasureVolume", "medium virus")
    assert (
        finding(lab, {**WEIGHED, "signal": {"at_least": "40", "at_most": "60"}}).counted[0].barcode
        == lab.codes["medium"]
    )
    assert len(finding(lab, {**WEIGHED, "signal": {"at_least": "40", "at_most": "60"}}).counted) == 1
    assert not finding(lab, {**WEIGHED, "value": "numeric", "about": ["fluorescence"]}).met
    assert finding(lab, {**WEIGHED, "value": "numeric", "about": ["fluorescence", "MeasureVolume"]}).met
    big = {**WEIGHED, "properties": {"container_capacity": {"at_least": "20 mL"}}}
    assert [reading.barcode for reading in finding(lab, big).counted] == [lab.codes["medium"]]


def test_missing_setting_counts_as_its_default():
    lab = bench()
    lab.run_step("MeasureVolume", "medium")
    default = next(p.default for p in CATALOGUE.types["MeasureVolume"].parameters if p.name == "replicates")
    assert finding(lab, {**WEIGHED, "parameters": {"replicates": {"equals": str(default)}}}).met


def test_rubric_field_mentions_all_requires_every_word():
    lab = bench()
    lab.run_step("MeasureVolume", "medium")
    both = {**WEIGHED, "properties": {"container": {"mentions_all": ["50 mL", "tube"]}}}
    assert finding(lab, both).met
    assert not finding(lab, {**both, "properties": {"container": {"mentions_all": ["50 mL", "flask"]}}}).met
    assert finding(lab, {**both, "properties": {"container": {"mentions": ["50 mL", "flask"]}}}).met


def test_materials_diluted_once_each_are_not_a_dilution_series():
    lab = bench()
    lab.run_step("Aliquot", "virus tubes", "p q r", volume="200 µL", count=3)
    lab.run_step("Mix", "p q r", duration="10 s")
    for key, volume in (("p", "200 µL"), ("q", "600 µL"), ("r", "1.4 mL")):
        lab.run_step("Dilute", f"{key} medium", solvent="@medium", volume=volume)
    lab.run_step("MeasureVolume", "p q r")
    parted = {"line": "parted", "text": "parted", "actions": ["Mix"], "at_least": 3}
    series = {"line": "series", "text": "series", "actions": ["MeasureVolume"], "after": ["parted"], "at_least": 3,
              "shares": {"of": "parted", "different": 3, "at": "diluted"}}  # fmt: skip
    poured = {"line": "diluted", "text": "diluted", "actions": ["Dilute"], "of": ["virus", "medium"]}
    found = ChecklistClassifier([parted, poured, series]).evaluate_lines(lab.bench.get_transcript())[-1]
    assert not found.met
    assert "different shares of parted: " in found.reason
