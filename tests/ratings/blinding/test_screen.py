"""Tests of the rendered item: each layout shows every value and each mark box once, and escapes hostile text."""

import copy
import gzip
import html
import json
import re
from typing import Any

import pytest
from django.template.loader import render_to_string

from ratings.blinding import allow_list, item_view
from simulation.lab.bench import step_to_json
from simulation.lab.observation_tables import group_observations
from tests.support import run_factory
from tests.support.rating_room import (
    build_aliquots,
    build_change_of_medium,
    build_dilution,
    build_evidence_payloads,
    build_filtration,
    build_rejection,
)

LAYOUTS = ["plain", "aligned", "balance", "confirm"]
STEPS = {
    "two lanes": build_dilution(100),
    "a table and many observations": build_aliquots(),
    "wells": build_change_of_medium(),
    "a rejection": build_rejection(),
    "something used up": build_filtration(),
    "an endless buffer": step_to_json(run_factory.build_lab_step(5, "here")),
}


def render_item(payload: dict[str, Any], context: dict[str, Any] | None = None, **arm: Any) -> str:
    return render_to_string("ratings/_item.html", item_view.build_item_view(payload, context, **arm))


def extract_text(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def list_mark_keys(page: str) -> list[str]:
    return [html.unescape(key) for key in re.findall(r'name="marks" form="verdict" value="([^"]*)"', page)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_item_shows_every_value_in_every_layout(step: dict[str, Any], layout: str) -> None:
    payload = allow_list.blind_transition(step)

    text = extract_text(render_item(payload, layout=layout))

    for material in (*payload["before"], *payload["after"]):
        for _, value in material["properties"]:
            assert " ".join(value.split()) in text
    assert all(o["value"] in text for o in payload["observations"])
    assert payload["rejected"] in text


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_item_mark_boxes_have_valid_keys_and_occur_once(step: dict[str, Any], layout: str) -> None:
    payload = allow_list.blind_transition(step)

    found = list_mark_keys(render_item(payload, layout=layout, marks="always"))

    assert len(found) == len(set(found))
    assert set(found) <= set(allow_list.list_mark_keys(payload))
    assert "missing" in found


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_item_offers_a_mark_for_every_possible_error_location_in_every_layout(
    step: dict[str, Any], layout: str
) -> None:
    payload = allow_list.blind_transition(step)
    found = set(list_mark_keys(render_item(payload, layout=layout, marks="always")))

    for at, draft in enumerate(step["outcome"]["new_materials"]):
        for inside in [*(f"properties.{name}" for name in draft["properties"]), "environmental_condition"]:
            hit = allow_list.find_error_keys(step, step["outcome"], [f"new_materials[{at}].{inside}"])
            assert set(hit) & found
    for at, _ in enumerate(step["outcome"]["new_observations"]):
        assert set(allow_list.find_error_keys(step, step["outcome"], [f"new_observations[{at}].value"])) & found


def test_item_has_no_mark_boxes_if_the_study_uses_no_marks() -> None:
    payload = allow_list.blind_transition(build_dilution(100))
    assert list_mark_keys(render_item(payload)) == []
    assert "shown--if-not" not in render_item(payload, marks="always")
    assert "shown--if-not" in render_item(payload, marks="if_not_plausible")


def test_item_shows_stored_marks_as_checked() -> None:
    payload = allow_list.blind_transition(build_dilution(100))
    page = render_item(payload, marks="always", marked=["A:Volume", "no such row"])
    [ticked] = re.findall(r'value="([^"]*)"[^>]* checked', page)
    assert ticked == "A:Volume"


def test_balance_sheet_is_shown_in_balance_layout_and_only_in_the_final_stage_of_confirm() -> None:
    payload = allow_list.blind_transition(build_dilution(100))
    has = {layout: "Balance sheet" in render_item(payload, layout=layout) for layout in LAYOUTS}
    assert has == {"plain": False, "aligned": False, "balance": True, "confirm": True}
    assert "Balance sheet" not in render_item(payload, layout="confirm", stage="first")
    assert [item_view.build_item_view(payload, layout=layout)["two_stage"] for layout in LAYOUTS] == [
        False,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_item_without_known_lineage_is_always_shown_in_the_plain_layout(layout: str) -> None:
    payload = allow_list.blind_transition(build_dilution(100), lineage=False)
    shown = item_view.build_item_view(payload, layout=layout, marks="always")
    assert (shown["layout_shown"], shown["two_stage"]) == ("plain", False)
    page = render_to_string("ratings/_item.html", shown)
    assert "Before the action" in page and "Balance sheet" not in page
    assert set(list_mark_keys(page)) <= set(allow_list.list_mark_keys(payload))


def test_item_without_a_lineage_field_is_shown_in_the_aligned_layout() -> None:
    payload = allow_list.blind_transition(build_dilution(100))
    del payload["lineage"]
    assert item_view.build_item_view(payload)["layout_shown"] == "aligned"


def test_unchanged_value_is_shown_once_in_aligned_and_twice_in_plain_layout() -> None:
    payload = allow_list.blind_transition(build_dilution(100))
    assert extract_text(render_item(payload, layout="aligned")).count("dark brown, slightly cloudy") == 1
    assert extract_text(render_item(payload, layout="plain")).count("dark brown, slightly cloudy") == 2


def test_item_context_is_shown_only_in_arms_with_context() -> None:
    payload = allow_list.blind_transition(build_dilution(100))
    context = allow_list.blind_context(
        "Find the caffeine", [build_rejection(), *(build_dilution(n * 50) for n in range(1, 6))]
    )
    assert "Find the caffeine" not in render_item(payload, context)
    page = extract_text(render_item(payload, context, with_context=True))
    assert "Find the caffeine" in page and "rejected: The vial is empty" in page and "4 steps before these" in page
    assert "Find the caffeine" not in extract_text(render_item(payload, {}, with_context=True))


def test_evidence_record_shows_each_step_with_its_own_mark() -> None:
    payload = build_evidence_payloads(4)[3]
    page = render_item(payload, layout="aligned", marks="always")
    assert list_mark_keys(page) == ["step/1", "step/2", "step/3", "missing"] == allow_list.list_mark_keys(payload)
    assert item_view.build_item_view(payload, layout="balance")["layout_shown"] == "aligned"
    for step in payload["steps"]:
        assert step["time"] in extract_text(page)


HOSTILE = '<script>alert(1)</script>"\' onfocus=x {{ 7|add:7 }} {% now "Y" %} \u202e\x00'


@pytest.mark.parametrize("layout", LAYOUTS)
def test_hostile_text_is_escaped_in_every_field_of_a_transition(layout: str) -> None:
    step = copy.deepcopy(STEPS["wells"] | {"outcome": STEPS["a table and many observations"]["outcome"]})
    step["action"] |= {"name": HOSTILE, "parameters": {HOSTILE: HOSTILE}}
    for material in (*step["inputs"], *step["outcome"]["new_materials"]):
        material |= {
            "name": HOSTILE,
            "properties": {HOSTILE: HOSTILE, "volume": HOSTILE, f"{HOSTILE} concentration": "x"},
        }
    for observation in step["outcome"]["new_observations"]:
        observation |= {"description": HOSTILE, "value": HOSTILE}
    context = allow_list.blind_context(HOSTILE, [step])

    page = render_item(allow_list.blind_transition(step), context, layout=layout, marks="always", with_context=True)

    assert "<script" not in page and "14" not in re.findall(r"add:7 }}|(14) ", page)
    assert "&lt;script&gt;" in page and "{{ 7|add:7 }}" in html.unescape(page)
    assert "\u202e" not in page and "\x00" not in page


def test_hostile_text_is_escaped_in_an_evidence_record() -> None:
    steps = [step_to_json(run_factory.build_lab_step(number, "here")) for number in (1, 2)]
    steps[0]["action"] |= {"name": HOSTILE, "parameters": {HOSTILE: HOSTILE}}
    steps[0]["inputs"][0]["name"] = HOSTILE
    steps[0]["outcome"]["new_materials"][0] |= {"name": HOSTILE, "properties": {HOSTILE: HOSTILE}}
    page = render_item(allow_list.blind_evidence(HOSTILE, steps), marks="always")
    assert "<script" not in page and "&lt;script&gt;" in page and "\u202e" not in page


def test_item_with_a_material_name_of_4000_letters_is_shown() -> None:
    step = copy.deepcopy(build_dilution(100))
    step["inputs"][0]["name"] = step["outcome"]["new_materials"][0]["name"] = "x" * 4000
    assert "x" * 4000 in render_item(allow_list.blind_transition(step), marks="always")


def test_item_markup_is_the_same_for_an_original_and_its_twin() -> None:
    """No tag, class, attribute or order may reveal a planted error."""
    step = build_dilution(100)
    twin = copy.deepcopy(step["outcome"])
    twin["new_materials"][0]["properties"]["volume"] = "48.9 mL"
    twin |= {"reasoning": "SECRET", "fidelity": "none"}
    tags = [
        re.findall(
            r"<[^>]+>", render_item(allow_list.blind_transition(step, outcome), layout="balance", marks="always")
        )
        for outcome in (None, twin)
    ]
    assert tags[0] == tags[1]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("properties.volume", "250 µL"),
        ("properties.phase", "frozen"),  # a value that is equal in all others, and that the step did not change
        ("properties.medium", "DMEM with 10 % FBS and puromycin"),
        ("environmental_condition", "-80C"),
        ("available_for_use", "not_available_for_further_use"),
    ],
)
def test_item_structure_is_the_same_whether_or_not_one_replicate_differs(layout: str, path: str, value: str) -> None:
    step = make_well_step(6)
    for number, draft in enumerate(step["outcome"]["new_materials"]):
        draft["properties"] = {**draft["properties"], "volume": "300 µL"}
        step["inputs"][number]["properties"] = {**step["inputs"][number]["properties"], "volume": "500 µL"}
    twin = copy.deepcopy(step["outcome"])
    *folder, name = path.split(".")
    (twin["new_materials"][3]["properties"] if folder else twin["new_materials"][3])[name] = value
    pages = [
        render_item(allow_list.blind_transition(step, outcome), layout=layout, marks="always")
        for outcome in (step["outcome"], twin)
    ]
    if layout in ("plain", "aligned"):
        assert re.findall(r"<[^>]+>", pages[0]) == re.findall(r"<[^>]+>", pages[1])
    else:
        # The balance sheet computes with the values, so its lines follow from them; the tables do not.
        tables = [re.findall(r'(?s)<table class="batch__table">.*?</table>', page) for page in pages]
        assert len(tables[0]) == 1
        assert re.findall(r"<[^>]+>", tables[0][0]) == re.findall(r"<[^>]+>", tables[1][0])
    # The value, what it was before, and its difference: less than the padding of a response.
    assert abs(len(pages[0]) - len(pages[1])) < 200


# ---------------------------------------------------------------- size of the response


@pytest.mark.parametrize("layout", LAYOUTS)
def test_item_response_stays_under_ten_kilobytes_compressed(layout: str) -> None:
    """Use a step like the largest of our experiments: 20 wells with eight properties, 40 observations, marks and context."""
    step = make_well_step(20)
    context = allow_list.blind_context("Find out. " * 20, [make_well_step(20) for _ in range(20)])
    page = render_item(allow_list.blind_transition(step), context, layout=layout, marks="always", with_context=True)
    assert len(gzip.compress(page.encode())) < 7_000  # leaves 3,000 bytes for the rest of the fragment


def test_evidence_record_of_thirty_steps_stays_under_ten_kilobytes_compressed() -> None:
    steps = [make_well_step(20) | {"number": n, "started_at": n * 600} for n in range(1, 31)]
    page = render_item(allow_list.blind_evidence("Find out.", steps), marks="always")
    assert len(gzip.compress(page.encode())) < 7_000


def make_well_step(count: int) -> dict[str, Any]:
    """Return a step on `count` wells that differ in volume, with two observations each."""
    common = {"phase": "suspension", "medium": "DMEM with 10 % FBS", "cell type": "HEK293T", "container": "24-well plate",
              "container_capacity": "3.4 mL", "temperature": "37 °C", "polybrene concentration": "8 µg/mL"}  # fmt: skip
    barcodes = [f"MAT-WELL{n:04}" for n in range(count)]
    drafts = [
        {"name": f"HEK293T well {n + 1}", "properties": {**common, "volume": f"{300 + n} µL"}, "replaces": code,
         "environmental_condition": "cell_culture_conditions", "available_for_use": "available_for_further_use"}
        for n, code in enumerate(barcodes)
    ]  # fmt: skip
    observations = [
        {"measurement_type": "quantitative", "value": f"{n * 1.37:.2f} {unit}",
         "description": f"FlowCytometry of HEK293T well {n + 1}, laser 488 nm: {measure}"}
        for n in range(count)
        for measure, unit in (("cells with green fluorescence", "%"), ("mean green fluorescence", "a.u."))
    ]  # fmt: skip
    inputs = [{**draft, "barcode": draft["replaces"], "properties": {**common, "volume": "500 µL"}} for draft in drafts]
    return {
        "number": 1, "started_at": 600, "ended_at": 660, "inputs": inputs, "barcodes": barcodes,
        "action": {"name": "FlowCytometry", "parameters": {"laser": "488 nm"}},
        "outcome": {"success": True, "failure_reason": "", "new_materials": drafts, "new_observations": observations},
    }  # fmt: skip


# ---------------------------------------------------------------- observations as a table


def test_observations_with_the_same_wording_are_grouped_into_a_table() -> None:
    payload = allow_list.blind_transition(make_well_step(20))
    [table], alone = group_observations(payload["observations"])
    assert alone == ()
    assert (table.before, table.after, len(table.rows), table.count_cells) == (
        "FlowCytometry of HEK293T", ", laser 488 nm", 20, 40,
    )  # fmt: skip
    assert table.measures == ("cells with green fluorescence", "mean green fluorescence")
    thing, cells = table.rows[2]
    assert (thing, [cell and cell.value for cell in cells]) == ("well 3", ["2.74 %", "2.74 a.u."])


def test_observation_table_preserves_every_sentence() -> None:
    payload = allow_list.blind_transition(make_well_step(12))
    [table], _ = group_observations(payload["observations"])
    restored = {
        f"{table.before} {thing}{table.after}: {measure}": cell.value
        for thing, cells in table.rows
        for measure, cell in zip(table.measures, cells, strict=True)
        if cell
    }
    assert restored == {o["description"]: o["value"] for o in payload["observations"]}


def make_observations(*descriptions: str, type: str = "visual") -> list[dict[str, Any]]:
    return [{"type": type, "description": text, "value": ""} for text in descriptions]


@pytest.mark.parametrize(
    "sentences",
    [
        ["The mixture is clear", "Foam on top", "A layer forms"],
        ["Well 1 is clear", "Well 2 is clear"],
        ["Well 1 is clear", "Well 1 is clear", "Well 1 is clear"],
        ["Clear", "Clear", "Clouded"],
        ["", "", ""],
    ],
)
def test_observations_that_are_few_different_or_repeated_stay_sentences(sentences: list[str]) -> None:
    found = group_observations(make_observations(*sentences))
    assert found.tables == ()
    assert [one.description for one in found.alone] == sentences
    assert [one.key for one in found.alone] == [f"seen/{n}" for n, _ in enumerate(sentences, 1)]


def test_observation_that_fits_no_table_is_listed_beside_it() -> None:
    found = group_observations(make_observations(*(f"Well {n} is clear and still" for n in range(1, 5)), "Foam on top"))
    assert [len(table.rows) for table in found.tables] == [4]
    assert [one.description for one in found.alone] == ["Foam on top"]


def test_observations_are_not_grouped_if_folding_is_switched_off() -> None:
    payload = allow_list.blind_transition(make_well_step(3))
    assert len(group_observations(payload["observations"], fold=False).alone) == 6
    assert json.dumps(payload)
