"""Tests of the blinded payload: which fields raters may see, and how mark keys and error locations refer to its rows."""

import copy
import json

import pytest

from ratings.blinding import blind_context, blind_evidence, blind_transition, payload_digest
from ratings.blinding.allow_list import align_materials, find_error_keys, format_difference, list_mark_keys
from simulation.lab.bench import step_to_json
from tests.support import run_factory

STEP = step_to_json(run_factory.build_lab_step(5, "here"))
ALLOWED = {"kind", "lineage", "action", "before", "after", "observations", "rejected"}
MATERIAL = {"ref", "name", "properties", "condition", "availability"}


def list_leaf_paths(value: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the path of every leaf value of the record."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in list_leaf_paths(inner, (*path, key))]
    if isinstance(value, list):
        return [found for index, inner in enumerate(value) for found in list_leaf_paths(inner, (*path, index))]
    return [path]


def copy_with_value(record: dict, path: tuple, value: object) -> dict:
    changed = copy.deepcopy(record)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


# The only fields whose text a rater may read; `*` matches any key or index.
SHOWN = [
    ("action", "name"),
    ("action", "parameters", "*"),
    ("inputs", "*", "name"),
    ("inputs", "*", "properties", "*"),
    ("outcome", "new_materials", "*", "name"),
    ("outcome", "new_materials", "*", "properties", "*"),
    ("outcome", "new_observations", "*", "description"),
    ("outcome", "new_observations", "*", "measurement_type"),
    ("outcome", "new_observations", "*", "value"),
    ("outcome", "failure_reason"),
]


def is_shown(path: tuple) -> bool:
    return any(len(p) == len(path) and all(a in ("*", b) for a, b in zip(p, path, strict=True)) for p in SHOWN)


# Numbers, times and the success flag control the payload by their value; they contain no text.
UNWRITABLE = {("number",), ("started_at",), ("ended_at",), ("outcome", "success")}
HIDDEN = [path for path in list_leaf_paths(STEP) if not is_shown(path) and path not in UNWRITABLE]


def test_hidden_fields_include_reasoning_fidelity_ledger_and_barcode() -> None:
    assert ("outcome", "reasoning") in HIDDEN
    assert ("outcome", "fidelity") in HIDDEN
    assert ("inputs", 0, "ledger", "key") in HIDDEN
    assert ("inputs", 0, "barcode") in HIDDEN


@pytest.mark.parametrize("path", HIDDEN, ids=str)
def test_payload_contains_no_text_of_hidden_fields(path: tuple) -> None:
    record = copy_with_value(STEP, path, "SECRET: LEAK")
    for payload in (blind_transition(record), blind_evidence("goal", [record]), blind_context("goal", [record])):
        assert "LEAK" not in json.dumps(payload)


def test_routine_note_is_shown_as_one_of_the_types_that_every_source_uses() -> None:
    notes = [
        {"description": "Delivered from PBS", "measurement_type": "note", "value": "3 × 50.0 µL"},
        {"description": "Appearance of PBS", "measurement_type": "note", "value": "clear"},
    ]
    payload = blind_transition(copy_with_value(STEP, ("outcome", "new_observations"), notes))
    assert [shown["type"] for shown in payload["observations"]] == ["quantitative", "visual"]


@pytest.mark.parametrize("field", ["cast", "model", "perturbation", "SECRET", "why"])
def test_payload_omits_unknown_fields(field: str) -> None:
    record = copy.deepcopy(STEP)
    for place in (
        record,
        record["action"],
        record["outcome"],
        record["inputs"][0],
        record["outcome"]["new_materials"][0],
    ):
        place[field] = "LEAK"
    for observation in record["outcome"]["new_observations"]:
        observation[field] = "LEAK"
    assert "LEAK" not in json.dumps(blind_transition(record)) + json.dumps(blind_evidence("goal", [record]))


def test_payload_has_exactly_the_allowed_keys() -> None:
    payload = blind_transition(STEP)
    assert set(payload) == ALLOWED
    assert set(payload["action"]) == {"name", "parameters"}
    assert {frozenset(m) for m in payload["before"]} == {frozenset(MATERIAL)}
    assert {frozenset(m) for m in payload["after"]} == {frozenset(MATERIAL | {"continues"})}


def test_twin_payload_differs_from_its_original_only_in_the_changed_outcome() -> None:
    outcome = copy.deepcopy(STEP["outcome"])
    outcome["new_materials"][0]["properties"]["volume"] = "3 kL"
    outcome |= {"reasoning": "SECRET: LEAK", "fidelity": "none"}
    outcome["new_materials"].reverse()
    plain, twin = blind_transition(STEP), blind_transition(STEP, outcome)
    assert {key for key in plain if plain[key] != twin[key]} == {"after"}
    assert [m["ref"] for m in plain["after"]] == [m["ref"] for m in twin["after"]] == ["A", "C"]
    assert twin["after"][0]["properties"] == [["Volume", "3 kL"]]
    assert twin["after"][1] == plain["after"][1]


def test_payload_replaces_barcodes_by_names_everywhere() -> None:
    record = copy.deepcopy(STEP)
    sample = record["inputs"][0]["barcode"]
    record["outcome"]["new_materials"][1]["properties"]["from"] = f"Sample ({sample}) and MAT-ZZZZZZZZ"
    text = json.dumps(blind_transition(record))
    assert "MAT-" not in text
    payload = blind_transition(record)
    assert payload["action"]["parameters"] == [["Destination", "Sample"], ["Volume", "10 mL"]]
    assert payload["observations"][0]["description"] == "Sample looks clear"
    assert ["From", "Sample and a material"] in payload["after"][1]["properties"]


def test_payload_adds_a_letter_to_materials_with_the_same_name() -> None:
    record = copy_with_value(STEP, ("inputs", 1, "name"), "Sample")
    assert blind_transition(record)["action"]["parameters"][0] == ["Destination", "Sample (A)"]


def test_unlimited_supply_is_listed_only_before_the_action() -> None:
    record = copy.deepcopy(STEP)
    buffer = record["inputs"][1]
    record["outcome"]["new_materials"].append(
        {**copy.deepcopy(record["outcome"]["new_materials"][0]), "name": "PBS", "replaces": buffer["barcode"]}
    )
    payload = blind_transition(record)
    assert [m["name"] for m in payload["before"]] == ["Sample", "PBS"]
    assert [m["name"] for m in payload["after"]] == ["Sample", "Tube"]
    assert payload["before"][1]["availability"] == "unlimited supply"


def test_material_rows_pair_each_material_before_and_after() -> None:
    sample, buffer, tube = align_materials(blind_transition(STEP))
    # 105 mL before, 115 mL after: +10 mL.
    assert sample.rows[0] == ("Volume", "105 mL", "115 mL", True, "+10 mL", ":Volume")
    assert [row.changed for row in sample.rows] == [True, False, False, False]
    assert (buffer.after, buffer.gone, [row.changed for row in buffer.rows]) == (None, False, [False] * 4)
    assert (tube.before, tube.ref) == (None, "C")


def test_material_missing_from_the_outcome_is_gone_unless_the_action_was_rejected() -> None:
    record = copy.deepcopy(STEP)
    record["outcome"]["new_materials"] = []
    assert [lane.gone for lane in align_materials(blind_transition(record))] == [True, False]
    record["outcome"] |= {"success": False, "failure_reason": "no"}
    assert [lane.gone for lane in align_materials(blind_transition(record))] == [False, False]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("885.75 mL", "795.95 mL", "−89.8 mL"),
        ("500 mL", "490 mL", "−10 mL"),
        ("0.1 mL", "0.3 mL", "+0.2 mL"),
        ("7.4", "7.0", "−0.4"),
        ("85 %", "83 %", "−2 points"),
        ("7.6 × 10⁶", "7.4 × 10⁶", "−200,000"),
        ("7.6e6 cells", "7.4 × 10^6 cells", "−200,000 cells"),
        ("7.6 × 10⁶", "7.4 × 10⁵", "−6.86 × 10⁶"),
        ("500 mL", "0.49 L", ""),
        ("clear", "cloudy", ""),
        ("12 of 96 wells", "13 of 96 wells", ""),
        ("", "5 mL", ""),
        ("1e400 g", "2e400 g", ""),
    ],
)
def test_difference_is_calculated_only_between_plain_numbers_of_one_unit(before: str, after: str, said: str) -> None:
    assert format_difference(before, after) == said


def test_payload_digest_does_not_depend_on_key_order() -> None:
    payload = blind_transition(STEP)
    assert payload_digest(payload) == payload_digest(dict(reversed(payload.items())))


def test_evidence_payload_has_times_since_the_start_and_keeps_material_letters() -> None:
    steps = [step_to_json(run_factory.build_lab_step(number, "here")) for number in (5, 6)]
    payload = blind_evidence("Find out.", steps)
    assert [step["time"] for step in payload["steps"]] == ["after 50 min", "after 1 h 00 min"]
    first = payload["steps"][0]
    assert [m["ref"] for m in first["materials"]] == ["A", "B"]
    assert [(m["ref"], m["continues"]) for m in first["made"]] == [("A", "A"), ("C", "")]
    assert payload["goal"] == "Find out."


def test_new_materials_are_ordered_by_the_numbers_in_their_names() -> None:
    record = copy.deepcopy(STEP)
    tube = record["outcome"]["new_materials"][1]
    names = ["Well 10", "Well 2", "Well 1"]
    record["outcome"]["new_materials"] = [{**tube, "name": name} for name in names]
    assert [m["name"] for m in blind_transition(record)["after"]] == ["Well 1", "Well 2", "Well 10"]


def rename_first_material(name: str, **changes: object) -> dict:
    """Return STEP with another name for its first material, before and after, and with changes to its outcome."""
    record = copy.deepcopy(STEP)
    record["inputs"][0]["name"] = record["outcome"]["new_materials"][0]["name"] = name
    record["outcome"].update(changes)
    return record


def test_payload_removes_barcodes_inside_material_names() -> None:
    sample = STEP["inputs"][0]["barcode"]
    record = rename_first_material(
        f"Tube of {sample}", new_observations=[{**STEP["outcome"]["new_observations"][0], "description": sample}]
    )
    assert "MAT-" not in json.dumps(blind_transition(record))


def test_payload_replaces_barcodes_in_nested_keys() -> None:
    record = copy_with_value(STEP, ("action", "parameters", "volume"), {STEP["inputs"][0]["barcode"]: "1 mL"})
    assert blind_transition(record)["action"]["parameters"][1] == ["Volume", "Sample: 1 mL"]


@pytest.mark.parametrize("hidden", ["\0", "\x07", "\x9b", "\ud800", "\u202e", "\u200b", "\u2066", "\ufeff"])
def test_payload_replaces_invisible_and_unstorable_characters(hidden: str) -> None:
    payload = blind_transition(rename_first_material(f"Sam{hidden}ple"))
    assert payload["before"][0]["name"] == payload["after"][0]["name"] == "Sam\ufffdple"
    assert payload_digest(payload)


HOSTILE = ["{{ 7|add:7 }}{% now 'Y' %}", "a\r\nSet-Cookie: x", "../../etc/passwd", "<script>alert(1)</script>", "=1+1",
           "9" * 4000, "٣" * 5000, "²" * 20, "1e999999", "x" * 4000, "naïve µ 漢字 👩‍🔬"]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_payload_keeps_hostile_but_visible_text_unchanged(text: str) -> None:
    made = {**STEP["outcome"]["new_materials"][1], "name": text, "properties": {"volume": text}}
    payload = blind_transition(
        rename_first_material(text, new_materials=[STEP["outcome"]["new_materials"][0] | {"name": text}, made])
    )
    assert {material["name"] for material in payload["after"]} == {text}
    assert align_materials(payload)[-1].rows[0].after == text
    assert payload_digest(payload)


def test_payload_describes_storage_conditions_of_an_action_in_words() -> None:
    step = step_to_json(run_factory.build_lab_step(1))
    step["action"]["parameters"] = {"condition": "room_temp", "label": "room_temperature"}
    parameters = dict(map(tuple, blind_transition(step)["action"]["parameters"]))
    assert parameters == {"Condition": "room temperature", "Label": "room_temperature"}


@pytest.mark.parametrize(
    ("written", "label"),
    [
        ("container_capacity", "Container capacity"),
        ("pH", "pH"),
        ("target_ph", "Target pH"),
        ("dNTP concentration", "dNTP concentration"),
        ("L-glutamate concentration", "L-glutamate concentration"),
    ],
)
def test_payload_capitalises_property_labels_except_symbols(written: str, label: str) -> None:
    step = copy_with_value(STEP, ("inputs", 0, "properties"), {written: "7"})
    assert [name for name, _ in blind_transition(step)["before"][0]["properties"]] == [label]


# ---------------------------------------------------------------- lineage


def test_payload_without_lineage_links_no_output_to_an_input() -> None:
    payload = blind_transition(STEP, lineage=False)
    assert (payload["lineage"], [m["continues"] for m in payload["after"]]) == (False, ["", ""])
    # A and B are the inputs; the outputs have other letters.
    assert [m["ref"] for m in payload["after"]] == ["C", "D"]
    assert set(payload) == set(blind_transition(STEP))


def test_payload_orders_outputs_like_their_inputs() -> None:
    record = copy.deepcopy(STEP)
    outputs = record["outcome"]["new_materials"]
    for material, draft in zip(record["inputs"], outputs, strict=True):
        material["available_for_use"], draft["replaces"] = "yes", material["barcode"]
    turned = copy.deepcopy(record)
    turned["outcome"]["new_materials"].reverse()
    assert [m["continues"] for m in blind_transition(turned)["after"]] == ["A", "B"]
    assert blind_transition(turned) == blind_transition(record)


def test_payload_lineage_is_unknown_if_two_outputs_replace_one_input() -> None:
    record = copy.deepcopy(STEP)
    record["outcome"]["new_materials"][1]["replaces"] = record["inputs"][0]["barcode"]
    payload = blind_transition(record)
    assert (payload["lineage"], len(payload["after"])) == (False, 2)


def test_payload_shows_both_properties_with_the_same_label() -> None:
    record = copy_with_value(STEP, ("inputs", 1, "properties"), {"flow_rate": "1", "flow rate": "2"})
    _, buffer, _ = align_materials(blind_transition(record))
    assert [(row.before, row.key) for row in buffer.rows[:2]] == [("2", ":Flow rate"), ("1", ":Flow rate (2)")]


# ---------------------------------------------------------------- context


def test_context_lists_earlier_actions_without_their_outcomes() -> None:
    steps = [step_to_json(run_factory.build_lab_step(number, "here")) for number in (5, 6)]
    context = blind_context("Find out.", steps)
    # The second step ends after 6 x 600 + 60 s = 3660 s = 1 h 01 min.
    assert (context["goal"], context["time"]) == ("Find out.", "after 1 h 01 min")
    assert context["steps"][0] == {
        "number": 5,
        "time": "after 50 min",
        "action": "Transfer",
        "materials": ["Sample", "PBS"],
        "parameters": [["Destination", "Sample"], ["Volume", "10 mL"]],
        "rejected": "",
    }
    assert "clear" not in json.dumps(context)
    assert "MAT-" not in json.dumps(context)


def test_context_of_a_first_step_has_only_the_goal() -> None:
    assert blind_context("Find out.", []) == {"goal": "Find out.", "time": "after 0 min", "steps": []}


# ---------------------------------------------------------------- marks and targets


def test_mark_keys_depend_only_on_the_payload_and_cover_every_row() -> None:
    keys = list_mark_keys(blind_transition(STEP))
    assert keys[:4] == ["A:Volume", "A/name", "A/place", "A/availability"]
    # A continues, B is an unlimited buffer, C is new; there is one observation.
    assert {key[0] for key in keys if "/" in key and key[0].isupper()} == {"A", "B", "C"}
    assert keys[-2:] == ["seen/1", "missing"]
    assert len(keys) == len(set(keys))
    assert list_mark_keys(json.loads(json.dumps(blind_transition(STEP)))) == keys


def test_mark_keys_include_rejections_and_materials_that_are_gone() -> None:
    record = copy_with_value(STEP, ("outcome", "new_materials"), [])
    assert "A/gone" in list_mark_keys(blind_transition(record))
    record["outcome"] |= {"success": False, "failure_reason": "no"}
    assert list_mark_keys(blind_transition(record))[0] == "rejected"


def test_mark_keys_of_an_evidence_record_are_its_steps() -> None:
    steps = [step_to_json(run_factory.build_lab_step(number, "here")) for number in (5, 6)]
    assert list_mark_keys(blind_evidence("Find out.", steps)) == ["step/5", "step/6", "missing"]


@pytest.mark.parametrize(
    ("path", "hit"),
    [
        ("new_materials[0].properties.volume", ["A:Volume"]),
        ("new_materials[1].properties.made in", ["C:Made in"]),
        ("new_materials[1].name", ["C/name"]),
        ("new_materials[0].environmental_condition", ["A/place"]),
        ("new_materials[0].available_for_use", ["A/availability"]),
        ("new_materials[0].material_type", []),
        ("new_observations[0].value", ["seen/1"]),
        ("new_observations[1]", ["missing"]),
        ("new_materials[2]", ["missing"]),
        ("new_materials[0].properties.colour", ["missing"]),
        ("success", []),
        ("reasoning", []),
        ("new_materials[99999999].name", []),
    ],
)
def test_error_location_is_translated_to_the_row_that_shows_it(path: str, hit: list[str]) -> None:
    assert find_error_keys(STEP, STEP["outcome"], [path]) == hit


def test_error_location_follows_the_material_and_not_its_index() -> None:
    outcome = copy.deepcopy(STEP["outcome"])
    outcome["new_materials"].reverse()
    assert find_error_keys(STEP, outcome, ["new_materials[1].properties.volume"]) == ["A:Volume"]


def test_error_location_of_an_omitted_material_is_the_missing_mark_or_its_input_marked_gone() -> None:
    outcome = {**STEP["outcome"], "new_materials": STEP["outcome"]["new_materials"][1:]}
    assert find_error_keys(STEP, outcome, ["new_materials[0]"]) == ["missing", "A/gone"]


def test_error_location_of_an_extra_material_is_any_of_its_rows() -> None:
    extra = {**STEP["outcome"]["new_materials"][1], "name": "Zwilling"}
    outcome = {**STEP["outcome"], "new_materials": [*STEP["outcome"]["new_materials"], extra]}
    assert find_error_keys(STEP, outcome, ["new_materials[2]"]) == ["D:Made in", "D:Volume", "D/name", "D/place", "D/availability"]  # fmt: skip


def test_error_location_of_an_omitted_property_is_its_row_or_the_mark_for_something_missing() -> None:
    record = copy_with_value(STEP, ("outcome", "new_materials", 0, "properties"), {})
    assert find_error_keys(record, record["outcome"], ["new_materials[0].properties.volume"]) == ["A:Volume", "missing"]


def test_error_location_includes_the_row_of_the_group_table() -> None:
    record = copy.deepcopy(STEP)
    tube = record["outcome"]["new_materials"][1]
    record["outcome"]["new_materials"] = [{**tube, "name": f"Tube {n}", "properties": {"volume": f"{n} mL", "made in": "x"}} for n in (1, 2, 3)]  # fmt: skip
    # The tubes are C, D and E. Their table has one row for each, whether or not a value differs.
    hit = find_error_keys(record, record["outcome"], ["new_materials[1].properties.volume"])
    assert hit == ["D:Volume", "D/row"]
    shared = find_error_keys(record, record["outcome"], ["new_materials[1].properties.made in"])
    assert shared == ["D:Made in", "D/row"]
    assert {*hit, *shared} <= set(list_mark_keys(blind_transition(record)))


@pytest.mark.parametrize("text", HOSTILE)
def test_mark_key_of_a_hostile_property_is_safe_in_a_form(text: str) -> None:
    record = copy_with_value(STEP, ("outcome", "new_materials", 1, "properties"), {text: "1"})
    for key in list_mark_keys(blind_transition(record)):
        assert len(key) < 80 and "\n" not in key and key == " ".join(key.split())
    [hit] = find_error_keys(record, record["outcome"], [f"new_materials[1].properties.{text}"])
    assert hit.startswith("C:")
