"""The checklist classifier: it uses the transcript, and nothing but the transcript."""

from dataclasses import replace
from pathlib import Path

import pytest

from simulation.lab.errors import LabError
from simulation.lab.roles import TranscriptStep
from simulation.offline.agents import ProtocolAgent
from simulation.offline.checklist import ChecklistClassifier
from simulation.offline.evidence import collect_readings

SLUGS = sorted(path.stem for path in (Path(__file__).parents[3] / "fixtures/experiments").glob("*.json"))
GOAL = "How much caffeine is in the tea?"


def material(code, name, created_at=0, **properties):
    return {"barcode": code, "name": name, "properties": properties, "created_at": created_at}


def output(code, name, replaces="", derived_from=(), **properties):
    return {
        "barcode": code, "name": name, "properties": properties, "replaces": replaces, "derived_from": list(derived_from)
    }  # fmt: skip


def step(number, action, inputs, outputs=(), observations=(), parameters=None, rejected=""):
    seen = [{"description": text, "measurement_type": "instrumental", "value": value} for text, value in observations]
    return TranscriptStep(number, 0, 0, action, parameters or {}, tuple(inputs), tuple(outputs), tuple(seen), rejected)


TEA, STOCK, WATER = material("T", "Tea"), material("S", "Stock"), material("W", "Water")
UV = {"detection_wavelength": "273 nm"}


def build_vial(code, name, **properties):
    return material(code, name, created_at=60, **properties)


def pour_step(number, code, name, *sources, **properties):
    kept = [output(source["barcode"], source["name"], replaces=source["barcode"]) for source in sources]
    new = output(code, name, derived_from=[source["barcode"] for source in sources], **properties)
    return step(number, "Combine", sources, [*kept, new])


def inject_step(number, vials, values, parameters=UV):
    kept = [output(one["barcode"], one["name"], replaces=one["barcode"]) for one in vials]
    told = [(f"Peak area of {one['name']}", value) for one, value in zip(vials, values, strict=True)]
    return step(number, "HPLC", vials, kept, told, parameters)


TEA_LINE = {
    "line": "tea", "text": "tea read twice", "actions": ["HPLC"], "of": ["Tea"], "not_of": ["Stock"], "at_least": 2,
    "value": "numeric", "parameters": {"detection_wavelength": {"at_least": "268 nm", "at_most": "278 nm"}},
}  # fmt: skip
STANDARDS_LINE = {
    "line": "standards", "text": "two standards around it", "actions": ["HPLC"], "of": ["Stock"], "not_of": ["Tea"],
    "at_least": 2, "distinct": "caffeine concentration", "value": "numeric", "brackets": ["tea"],
}  # fmt: skip
TWO_TEAS = [build_vial("A", "Tea vial 1"), build_vial("B", "Tea vial 2")]
RECORD = (
    pour_step(1, "A", "Tea vial 1", TEA, WATER),
    pour_step(2, "B", "Tea vial 2", TEA, WATER),
    pour_step(3, "L", "Low", STOCK, WATER),
    pour_step(4, "H", "High", STOCK, WATER),
    inject_step(5, TWO_TEAS, ["50 mAU", "52 mAU"]),
    inject_step(
        6,
        [
            build_vial("L", "Low", **{"caffeine concentration": "1 µg/mL"}),
            build_vial("H", "High", **{"caffeine concentration": "9 µg/mL"}),
        ],
        ["10 mAU", "90 mAU"],
    ),
)


def judge(record, *lines):
    return ChecklistClassifier(lines).judge_evidence(GOAL, record)


def test_checklist_accepts_a_record_that_meets_every_line():
    verdict = judge(RECORD, TEA_LINE, STANDARDS_LINE)
    assert verdict.sufficient, verdict.reasoning
    assert verdict.confidence == 1.0  # 0.5 + 0.5 x 2/2
    assert [line["met"] for line in verdict.lines] == [True, True]
    assert [line["steps"] for line in verdict.lines] == [[5], [6]]
    assert all(line["reason"] for line in verdict.lines)


@pytest.mark.parametrize("gone", range(len(RECORD)))
def test_checklist_rejects_the_record_without_any_one_of_its_steps(gone):
    # A vial whose preparation is not recorded has no lineage, so its readings do not count.
    verdict = judge([one for index, one in enumerate(RECORD) if index != gone], TEA_LINE, STANDARDS_LINE)
    assert not verdict.sufficient


def replace_step(index, one):
    return [*RECORD[:index], one, *RECORD[index + 1 :]]


@pytest.mark.parametrize(
    "record",
    [
        replace_step(4, inject_step(5, TWO_TEAS, ["50 mAU", "52 mAU"], {"detection_wavelength": "350 nm"})),
        replace_step(4, inject_step(5, TWO_TEAS, ["50 mAU", "52 mAU"], {})),
        replace_step(4, inject_step(5, TWO_TEAS, ["no peak", ""])),
        replace_step(4, inject_step(5, TWO_TEAS[:1], ["50 mAU"])),
        replace_step(4, inject_step(5, TWO_TEAS, ["50 mAU", "95 mAU"])),
        replace_step(4, RECORD[4]._replace(rejected="too little left")),
        replace_step(1, pour_step(2, "B", "Tea vial 2", TEA, STOCK)),
    ],
    ids=["wavelength", "no wavelength", "no number", "one vial", "above the standards", "rejected", "spiked"],
)
def test_checklist_ignores_a_reading_that_does_not_match_the_rubric_line(record):
    assert not judge(record, TEA_LINE, STANDARDS_LINE).sufficient


def test_checklist_counts_the_same_vial_twice_as_one_sample():
    record = replace_step(4, inject_step(5, TWO_TEAS[:1], ["50 mAU"]))
    again = inject_step(7, TWO_TEAS[:1], ["50 mAU"])
    assert not judge([*record, again], TEA_LINE).sufficient


def test_lineage_follows_barcodes_and_not_names():
    liar = pour_step(2, "B", "Tea vial 2", WATER)
    assert not judge(replace_step(1, liar), TEA_LINE).sufficient


def test_lineage_includes_materials_added_later():
    spiked = step(
        5,
        "Transfer",
        [STOCK, TWO_TEAS[0]],
        [output("S", "Stock", replaces="S"), output("A", "Tea vial 1", replaces="A", derived_from=["S"])],
    )
    record = [*RECORD[:4], spiked, RECORD[4]._replace(number=6)]
    found = {reading.barcode: reading.origins for reading in collect_readings(record) if reading.step == 6}
    assert found == {"A": {"Tea", "Water", "Stock"}, "B": {"Tea", "Water"}}


def test_checklist_needs_one_complete_route():
    seen = {"line": "seen", "text": "looked at", "actions": ["VisualInspection"], "of": ["Tea"], "route": "eye"}
    read = {**TEA_LINE, "route": "instrument"}
    noted = {**STANDARDS_LINE, "route": "instrument"}
    looked = step(7, "VisualInspection", [TEA], [output("T", "Tea", replaces="T")], [("Tea: brown", "brown")])
    assert judge(RECORD, seen, read, noted).sufficient
    assert judge([looked], seen, read, noted).sufficient
    assert not judge(RECORD[:5], seen, read, noted).sufficient
    required = {"line": "asked", "text": "weighed", "actions": ["MeasureWeight"]}
    assert not judge([*RECORD, looked], seen, read, noted, required).sufficient


def test_each_material_of_a_line_needs_its_own_reading():
    both = {
        "line": "both",
        "text": "both seen",
        "actions": ["VisualInspection"],
        "each": ["Tea", "Stock"],
        "value": "text",
    }
    one = step(1, "VisualInspection", [TEA], [], [("Tea is brown", "brown")])
    other = step(2, "VisualInspection", [STOCK], [], [("Stock is clear", "clear")])
    assert not judge([one, one], both).sufficient
    assert judge([one, other], both).sufficient


def test_rubric_field_after_requires_an_earlier_step_on_the_same_lineage():
    warmed = {"line": "warmed", "text": "warmed", "actions": ["Incubate"], "at_least": 1,
              "parameters": {"duration": {"at_least": "1 h"}}}  # fmt: skip
    looked_at = {"line": "seen", "text": "seen", "actions": ["VisualInspection"], "value": "text", "after": ["warmed"]}
    warm = step(1, "Incubate", [TEA], [output("T", "Tea", replaces="T")], parameters={"duration": "90 min"})
    short = warm._replace(parameters={"duration": "30 min"})
    look = step(2, "VisualInspection", [TEA], [], [("Tea is brown", "brown")])
    elsewhere = step(2, "VisualInspection", [STOCK], [], [("Stock is clear", "clear")])
    assert judge([warm, look], warmed, looked_at).sufficient
    assert not judge([look._replace(number=1), warm._replace(number=2)], warmed, looked_at).sufficient
    assert not judge([short, look], warmed, looked_at).sufficient
    assert not judge([warm, elsewhere], warmed, looked_at).sufficient


def test_rubric_field_spread_requires_readings_of_different_materials():
    made = {"line": "made", "text": "dilutions", "actions": ["Combine"], "of": ["Stock"], "not_of": ["Tea"]}
    read = {"line": "read", "text": "read", "actions": ["HPLC"], "value": "numeric", "spread": {"made": 2}}
    assert judge(RECORD, made, read).sufficient
    assert not judge([*RECORD[:5], inject_step(6, [build_vial("L", "Low")], ["10 mAU"])], made, read).sufficient


def measure_vials(*settings, properties=({}, {}, {})):
    """Return steps that each measure a vial of its own, with these parameters."""
    vials = [build_vial(code, f"Vial {code}", **shown) for code, shown in zip("ABC", properties, strict=True)]
    steps = [pour_step(number, vial["barcode"], vial["name"], TEA) for number, vial in enumerate(vials, 1)]
    return [*steps, *(inject_step(4 + n, [vials[n]], ["50"], values) for n, values in enumerate(settings))]


VIALS_LINE = {"line": "vials", "text": "three vials", "actions": ["HPLC"], "of": ["Tea"], "at_least": 3}


def test_rubric_field_never_excludes_a_material_after_an_excluded_step_and_what_is_made_of_it():
    heated = {"actions": ["Incubate"], "of": ["Tea"], "parameters": {"temperature": {"at_least": "60 °C"}}}
    line = VIALS_LINE | {"at_least": 1, "never": [heated]}
    first, second = build_vial("A", "First"), build_vial("B", "Second")
    heat = step(2, "Incubate", [first], [output("A", "First", replaces="A")], parameters={"temperature": "95 °C"})
    warm = step(2, "Incubate", [first], [output("A", "First", replaces="A")], parameters={"temperature": "37 °C"})
    pour = [pour_step(1, "A", "First", TEA), pour_step(3, "B", "Second", first), inject_step(4, [second], ["50"])]

    assert judge([pour[0], warm, *pour[1:]], line).sufficient
    assert not judge([pour[0], heat, *pour[1:]], line).sufficient
    # A step that follows the reading cannot have changed it.
    assert judge([pour[0], *pour[1:], heat._replace(number=5)], line).sufficient


@pytest.mark.parametrize(
    ("third", "sufficient"),
    [({"exposure_time": "100 ms"}, True), ({"exposure_time": "109 ms"}, True), ({"exposure_time": "1 s"}, False), ({}, False)],
)  # fmt: skip
def test_rubric_field_same_counts_only_the_largest_group_of_materials_that_agree(third, sufficient):
    record = measure_vials({"exposure_time": "0.1 s"}, {"exposure_time": "100 ms"}, third)
    verdict = judge(record, VIALS_LINE | {"same": ["exposure_time"]})
    assert verdict.sufficient is sufficient
    assert ("materials counted: 2, needed: 3" in verdict.reasoning) is not sufficient


def test_rubric_field_same_keeps_the_group_with_the_most_different_values_if_the_line_counts_values():
    # Two vials agree at 1 s and share one dose; one vial is read at two doses at 0.1 s.
    short, long = {"exposure_time": "0.1 s"}, {"exposure_time": "1 s"}
    record = measure_vials(long | {"dose": "3"}, long | {"dose": "3"}, short | {"dose": "1"})
    record.append(inject_step(7, [build_vial("C", "Vial C")], ["50"], short | {"dose": "2"}))
    line = VIALS_LINE | {"at_least": 2, "distinct": "dose", "same": ["exposure_time"]}
    assert judge(record, line).sufficient


@pytest.mark.parametrize(("solvent", "sufficient"), [("0.2 %", True), ("0.19 %", True), ("0.02 %", False)])
def test_rubric_field_same_as_requires_a_control_to_agree_with_its_sample(solvent, sufficient):
    record = measure_vials(
        {"dose": "1"}, {"dose": "1"}, {"dose": "0"},
        properties=[{"DMSO concentration": text} for text in ("0.2 %", "0.2 %", solvent)],
    )  # fmt: skip
    sample = VIALS_LINE | {"line": "sample", "at_least": 2, "parameters": {"dose": {"equals": "1"}}}
    control = VIALS_LINE | {"line": "control", "at_least": 1, "parameters": {"dose": {"equals": "0"}}}
    verdict = judge(record, sample, control | {"same_as": {"sample": ["DMSO concentration"]}})
    assert verdict.sufficient is sufficient


@pytest.mark.parametrize(("rates", "sufficient"), [(("20 mV/s", "0.1 V/s", "200 mV/s"), True), (("90 mV/s", "0.1 V/s", "110 mV/s"), False)])  # fmt: skip
def test_rubric_field_span_requires_the_highest_value_to_be_so_many_times_the_lowest(rates, sufficient):
    # 200 / 20 = 10; 110 / 90 = 1.2.
    record = measure_vials(*({"scan_rate": rate} for rate in rates))
    assert judge(record, VIALS_LINE | {"span": {"scan_rate": "10"}}).sufficient is sufficient


def test_rubric_field_direct_does_not_count_a_portion_of_a_portion():
    flask = build_vial("A", "Flask")
    one_flask = [
        pour_step(1, "A", "Flask", TEA),
        pour_step(2, "B", "Vial 1", flask),
        pour_step(3, "C", "Vial 2", flask),
    ]
    two_flasks = [pour_step(1, "A", "Flask", TEA), pour_step(2, "B", "Second flask", TEA, WATER)]
    portions = {"line": "portions", "text": "two portions", "actions": ["Combine"], "at_least": 2, "direct": ["Tea"]}
    # The initial tea itself takes part in the step, but nothing was taken for it.
    assert "materials counted: 1, needed: 2" in judge(one_flask, portions).reasoning
    assert judge(two_flasks, portions).sufficient


@pytest.mark.parametrize(
    ("vials", "sufficient"),
    [(("A", "B", "L"), True), (("A", "L", "B"), False), (("L", "A", "B"), False)],
)
def test_rubric_field_follows_counts_only_what_is_read_after_every_material_of_a_line(vials, sufficient):
    read = [build_vial(code, f"Vial {code}") for code in vials]
    sample = {"line": "sample", "text": "sample", "actions": ["HPLC"], "of": ["Tea"], "value": "numeric"}
    check = {"line": "check", "text": "check", "actions": ["HPLC"], "of": ["Stock"], "follows": ["sample"]}
    # The order of the materials of a step is the order in which the instrument reads them.
    record = [*RECORD[:4], inject_step(5, read, ["50", "50", "50"])]
    assert judge(record, sample, check).sufficient is sufficient
    # A later reading of the same vials does not make the check too early.
    assert judge([*record, inject_step(6, TWO_TEAS, ["50", "50"])], sample, check).sufficient is sufficient


@pytest.mark.parametrize(("again", "sufficient"), [("1 mW", True), ("3 mW", False), ("", False)])
def test_rubric_field_again_requires_a_setting_that_the_same_material_had_before(again, sufficient):
    vial, other = TWO_TEAS
    powers = {"line": "powers", "text": "powers", "actions": ["HPLC"], "of": ["Tea"], "value": "numeric"}
    line = powers | {"line": "repeated", "again": {"powers": ["power"]}}
    read = [inject_step(5, [vial], ["50"], {"power": "1 mW"}), inject_step(6, [vial], ["90"], {"power": "2 mW"})]
    last = [inject_step(7, [vial], ["50"], {"power": again})] if again else []
    # Another vial at the same power repeats nothing.
    record = [*RECORD[:4], *read, inject_step(8, [other], ["50"], {"power": "1 mW"}), *last]
    assert judge(record, powers, line).sufficient is sufficient


@pytest.mark.parametrize(
    ("first", "second", "sufficient"),
    [
        # means 31.4080 and 31.4084 g, 0.4 mg apart
        ("31.4079 g, 31.4081 g", "31.4083 g, 31.4085 g", True),
        ("31.4079 g, 31.4081 g", "31.4086 g, 31.4088 g", False),
        ("31.4080 g", "31.4080 mg", False),
        ("31.4080 g", "overload", False),
    ],
)
def test_rubric_field_agrees_with_compares_a_reading_with_the_last_one_of_the_same_material(first, second, sufficient):
    vial, other = TWO_TEAS
    weighed = {"line": "weighed", "text": "weighed", "actions": ["HPLC"], "of": ["Tea"], "value": "numeric"}
    constant = weighed | {"line": "constant", "agrees_with": {"weighed": "0.0005 g"}}
    record = [*RECORD[:4], inject_step(5, [vial], [first]), inject_step(6, [vial], [second])]
    assert judge(record, weighed, constant).sufficient is sufficient
    # A reading of another vial is no second one of this.
    assert not judge(
        [*RECORD[:4], inject_step(5, [vial], [first]), inject_step(6, [other], [first])], weighed, constant
    ).sufficient


@pytest.mark.parametrize(
    ("bounds", "sufficient"),
    [
        ({"at_least": "40 mAU"}, True),
        ({"at_least": "40", "at_most": "60 mAU"}, True),
        ({"at_least": "60 mAU"}, False),
        ({"at_least": "40 AU"}, False),
    ],
)
def test_bounds_of_a_signal_hold_only_for_readings_in_their_unit(bounds, sufficient):
    line = {"line": "read", "text": "read", "actions": ["HPLC"], "of": ["Tea"], "signal": bounds}
    record = [*RECORD[:4], inject_step(5, TWO_TEAS, ["50.1, 49.8 mAU", "51 mAU"])]
    assert judge(record, line).sufficient is sufficient


@pytest.mark.parametrize(("volume", "sufficient"), [("2 mL", True), ("7 mL", False)])
def test_rubric_field_shares_within_requires_portions_of_about_the_same_size(volume, sufficient):
    # Of 100 mL each, 1 mL of the tea is 1 %, and 2 mL or 7 mL of the stock are 2 % or 7 %.
    def dilute(number, code, source, taken):
        new = {**output(code, f"Dilution {code}", derived_from=[source["barcode"], "W"], volume="100 mL")}
        rest = f"{100 - int(taken.split()[0])} mL"
        return step(number, "Dilute", [source, WATER], [new | {"taken": {source["barcode"]: taken, "W": rest}}])

    # Tea and stock take part in the steps themselves, so this line counts them.
    whole = {"line": "whole", "text": "what was diluted", "actions": ["Dilute"], "not_of": ["Water"]}
    line = {
        "line": "equal", "text": "equal portions", "actions": ["Dilute"], "of": ["Water"], "at_least": 2,
        "shares": {"of": "whole", "within": "3"},
    }  # fmt: skip
    record = [dilute(1, "A", TEA, "1 mL"), dilute(2, "B", STOCK, volume)]
    assert judge(record, whole, line).sufficient is sufficient


def test_checklist_without_lines_or_for_another_goal_raises():
    with pytest.raises(LabError, match="at least one line"):
        ChecklistClassifier(())
    with pytest.raises(LabError, match="another goal"):
        ChecklistClassifier((TEA_LINE,), goal=GOAL).judge_evidence("something else", RECORD)


def test_checklist_rejects_an_empty_record_with_full_confidence():
    verdict = judge((), TEA_LINE, STANDARDS_LINE)
    assert (verdict.sufficient, verdict.confidence, verdict.goal_relevance) == (False, 1.0, "does not support goal")


@pytest.mark.parametrize("slug", SLUGS)
def test_the_reference_protocol_is_sufficient(lab, slug):
    bench = lab.play_reference(slug)
    refused = [(one.action, one.outcome.failure_reason) for one in bench.history if not one.outcome.success]
    assert refused == []
    verdict = ChecklistClassifier(lab.specs[slug].rubric, bench.goal).judge_evidence(bench.goal, bench.get_transcript())
    assert verdict.sufficient, verdict.reasoning
    # The protocol need not take all of several routes, or meet all lines of a group of which one is enough.
    told = zip(lab.specs[slug].rubric, verdict.lines, strict=True)
    assert all(line["met"] for one, line in told if not one.get("route") and not one.get("one_of")), verdict.lines


@pytest.mark.parametrize("slug", SLUGS)
def test_checklist_rejects_thirty_random_attempts_per_experiment(lab, slug):
    spec = lab.specs[slug]
    classifier = ChecklistClassifier(spec.rubric, spec.goal)
    verdicts = [
        classifier.judge_evidence(spec.goal, lab.play_random(slug, seed).get_transcript()) for seed in range(30)
    ]
    assert not any(verdict.sufficient for verdict in verdicts)
    assert {verdict.evidence_strength for verdict in verdicts} <= {"weak", "moderate"}


@pytest.mark.parametrize("slug", SLUGS)
def test_some_careless_attempts_fail_for_lack_of_evidence(lab, slug):
    spec = lab.specs[slug]
    classifier = ChecklistClassifier(spec.rubric, spec.goal)
    verdicts = (
        classifier.judge_evidence(
            spec.goal, lab.play_attempt(spec, ProtocolAgent(spec, seed, lapses=True), seed).get_transcript()
        )
        for seed in range(25)
    )
    assert not all(verdict.sufficient for verdict in verdicts)


@pytest.mark.parametrize("slug", SLUGS)
def test_verdict_reveals_nothing_of_the_hidden_truth(lab, slug):
    bench = lab.play_reference(slug)
    verdict = ChecklistClassifier(lab.specs[slug].rubric).judge_evidence(bench.goal, bench.get_transcript())
    assert "ledger" not in repr(bench.get_transcript())
    assert "0.412" not in repr(verdict)


@pytest.mark.parametrize(
    ("amounts", "enough"),
    [
        (("50 µL", "20 µL", "5 µL", "1 µL"), True),
        (("5 µL", "5 µL", "5 µL", "0.005 mL"), False),
        (("5 µL", "5 µL", "5 µL", "1 µL"), False),
    ],
)
def test_wells_dosed_directly_from_the_stock_count_as_dilutions_if_enough_doses_differ(lab, amounts, enough):
    spec = lab.specs["lentivirus-moi-optimization"]
    doses = dict(zip(("@dilution_5", "@dilution_25", "@dilution_125", "@dilution_625"), amounts, strict=True))
    steps = []
    for planned in spec.protocol:
        source = planned.get("parameters", {}).get("source")
        if source in doses:
            materials = ["virus", *planned["materials"][1:]]
            planned = {**planned, "materials": materials, "parameters": {"source": "@virus", "amount": doses[source]}}
        if planned["action"] == "SerialDilute":
            # Polybrene, which the dilutions would have contained.
            wells = [f"well_{dose}_{n}" for dose in (5, 25, 125, 625) for n in (1, 2, 3)]
            added = {"solvent": "@polybrene", "volume": "0.5 µL"}
            planned = {
                **planned,
                "action": "Dilute",
                "materials": [*wells, "polybrene"],
                "parameters": added,
                "yields": {},
            }
        steps.append(planned)
    changed = replace(spec, protocol=tuple(steps))
    bench = lab.play_attempt(changed, ProtocolAgent(changed, 11), 11)
    assert all(step.outcome.success for step in bench.history)
    verdict = ChecklistClassifier(spec.rubric, spec.goal).judge_evidence(spec.goal, bench.get_transcript())
    assert verdict.sufficient is enough, verdict.reasoning


def test_rubric_lines_in_a_group_need_only_one_met_and_a_later_line_may_follow_any_of_them():
    by_reading = {"line": "read", "text": "read", "actions": ["HPLC"], "of": ["Tea"], "one_of": "known"}
    by_pouring = {"line": "poured", "text": "poured", "actions": ["Combine"], "of": ["Tea", "Water"], "one_of": "known"}
    late = {"line": "late", "text": "read after", "actions": ["HPLC"], "after": ["known"]}
    cup = build_vial("C", "Cup")
    mixed, measured = pour_step(1, "C", "Cup", TEA, WATER), inject_step(2, [cup], ["4"])
    judge = ChecklistClassifier([by_reading, by_pouring, late])
    verdict = judge.judge_evidence(GOAL, [mixed, measured])
    assert verdict.sufficient
    assert "2 of 2 lines met" in verdict.reasoning
    assert not judge.judge_evidence(GOAL, [mixed]).sufficient
    again = inject_step(3, [cup], ["4"])
    assert (
        ChecklistClassifier([by_reading, {**late, "after": ["known"]}])
        .judge_evidence(GOAL, [mixed, measured, again])
        .sufficient
    )
    assert not ChecklistClassifier([by_reading, late]).judge_evidence(GOAL, [mixed, measured]).sufficient


def test_pooled_sample_does_not_count_as_a_reading_of_materials_that_must_be_read_separately():
    apart = {"line": "each", "text": "each", "actions": ["HPLC"], "each": ["Tea", "Stock"], "value": "text"}
    pool = [pour_step(1, "P", "Pool", TEA, STOCK), inject_step(2, [build_vial("P", "Pool")], ["mixed signal"])]
    single = [inject_step(1, [TEA], ["4"]), inject_step(2, [STOCK], ["5"])]
    assert not ChecklistClassifier([apart]).judge_evidence(GOAL, pool).sufficient
    assert ChecklistClassifier([apart]).judge_evidence(GOAL, single).sufficient
