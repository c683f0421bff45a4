"""Build the template context of an item's page in its rater's layout, from the blinded payload alone.

plain: inputs and outputs as lists, one below the other. aligned: each output beside the input it continues. balance:
aligned, and the balance sheet. confirm: aligned for the initial rating, with the balance sheet for the final one.
With unknown lineage, every layout is plain, and `layout_shown` records this. An evidence record has one layout, which
is stored as "aligned".
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from ratings.blinding.balance_sheet import build_balance_sheet
from ratings.blinding.material_rows import (
    MISSING,
    NAME,
    REJECTED,
    MaterialRow,
    Payload,
    align_materials,
    fold_materials,
    group_materials,
    has_known_lineage,
    iter_record_steps,
    list_separately,
    rows_by_key,
    step_key,
)
from simulation.lab.name_ranges import fold_names
from simulation.lab.notation import write_pairs, write_text, write_value
from simulation.lab.observation_tables import group_observations, observation_key

PLAIN, ALIGNED, BALANCE, CONFIRM = "plain", "aligned", "balance", "confirm"
CHANGED = (
    "changed"  # `marks` of a page for staff: the rows in `marked` differ from the original, and nothing can be marked
)
UNFOLDED_STEPS = 2  # previous steps that are unfolded; earlier ones are folded
UNFOLDED_COMPUTED_LINES = 4  # lines of the balance sheet that are unfolded


class ListedMaterial(NamedTuple):
    """A material of the plain layout."""

    ref: str
    name: str
    named: bool  # the name is marked in this list
    rows: tuple[tuple[str, str, str], ...]  # label, value, and key: "" if the row is marked in the other list


def build_item_view(
    payload: Payload,
    context: Payload | None = None,
    *,
    layout: str = ALIGNED,
    with_context: bool = False,
    marks: str = "off",
    marked: Collection[str] = (),
    stage: str = "final",
) -> dict[str, Any]:
    """Return the template context of ratings/_item.html; `two_stage`: is there an initial rating?"""
    effective_layout = choose_layout(payload, layout)
    payload = write_payload(payload)
    if context and with_context:
        context = _write_context(context)
        earlier = context["steps"]
        context = {**context, "older": earlier[:-UNFOLDED_STEPS], "steps": earlier[-UNFOLDED_STEPS:]}
    if payload["kind"] == "evidence":
        content: dict[str, Any] = {"steps": list(_iter_steps(payload))}
    else:
        content = _build_transition(payload, effective_layout, stage)
    return {
        "payload": payload,
        "layout_shown": effective_layout,
        "two_stage": effective_layout == CONFIRM,
        "marks": marks,
        "marked": frozenset(marked),
        "context": context if with_context and context else None,
        **content,
    }


def choose_layout(payload: Payload, layout: str) -> str:
    """Return the layout in which this item is shown: plain if its lineage is unknown, aligned for evidence records."""
    # A record has no before and after of one step, so the other layouts do not apply.
    if payload["kind"] == "evidence":
        return ALIGNED
    return layout if has_known_lineage(payload) else PLAIN


def write_payload(payload: Payload) -> Payload:
    """Return the payload with all numbers and conditions in one notation, so that spelling reveals no source.

    Labels stay, because keys of marks contain them.
    """
    if payload["kind"] == "evidence":
        goal = write_text(payload["goal"])
        return {**payload, "goal": goal, "steps": [_write_evidence_step(step) for step in payload["steps"]]}
    return {
        **payload,
        "action": _write_action(payload["action"]),
        **{side: [_write_material(material) for material in payload[side]] for side in ("before", "after")},
        **_write_outcome(payload),
    }


def _write_evidence_step(step: Payload) -> Payload:
    return {
        **step,
        "action": _write_action(step["action"]),
        "materials": [{**material, "name": write_text(material["name"])} for material in step["materials"]],
        "made": [_write_material(material) for material in step["made"]],
        **_write_outcome(step),
    }


def _write_outcome(outcome: Payload) -> Payload:
    observations = [
        {**seen, "description": write_text(seen["description"]), "value": write_value(seen["value"])}
        for seen in outcome["observations"]
    ]
    return {"observations": observations, "rejected": write_text(outcome["rejected"])}


def _write_action(action: Payload) -> Payload:
    return {**action, "parameters": write_pairs(action["parameters"])}


def _write_material(material: Payload) -> Payload:
    return {**material, "name": write_text(material["name"]), "properties": write_pairs(material["properties"])}


def _write_context(context: Payload) -> Payload:
    steps = [
        {
            **step,
            "materials": fold_names(write_text(name) for name in step["materials"]),
            "parameters": write_pairs(step["parameters"]),
            "rejected": write_text(step["rejected"]),
        }
        for step in context["steps"]
    ]
    return {**context, "goal": write_text(context["goal"]), "steps": steps}


def _build_transition(payload: Payload, layout: str, stage: str) -> dict[str, Any]:
    if layout == PLAIN:
        return {"observed": _build_observations(payload["observations"], fold=False), **_build_lists(payload)}
    tables, alone = group_materials(payload)
    # In the confirm layout the sheet appears only after the initial rating is stored.
    with_balance = layout == BALANCE or (layout == CONFIRM and stage == "final")
    balance: dict[str, Any] | None = None
    if with_balance:
        sheet = build_balance_sheet(payload)
        computed, n_unfolded = sheet.computed, UNFOLDED_COMPUTED_LINES
        balance = {"stated": sheet.stated, "worked_out": computed[:n_unfolded], "more": computed[n_unfolded:]}
    return {
        "observed": _build_observations(payload["observations"]),
        "tables": tables,
        "lanes": alone,
        "balance": balance,
        # The page uses at most two columns for fewer than three cards; the last card holds the observations.
        "cards": len(alone) + with_balance + 1,
    }


def _build_observations(observations: list[dict[str, str]], fold: bool = True) -> dict[str, Any]:
    tables, alone = group_observations(observations, fold)
    wide = [table for table in tables if table.is_wide]
    return {"wide": wide, "tables": [table for table in tables if not table.is_wide], "alone": alone}


def _build_lists(payload: Payload) -> dict[str, Any]:
    """Return the two lists of the plain layout. A row that a material has in both is marked in the list afterwards."""
    after = {material["ref"]: rows_by_key(material) for material in payload["after"] if material["continues"]}
    before = [_build_listed(material, after.get(material["ref"], {})) for material in payload["before"]]
    # Without lineage it is unknown whether anything was used up.
    gone = {lane.ref for lane in align_materials(payload) if lane.gone} if has_known_lineage(payload) else set()
    return {"before": before, "after": [_build_listed(material, ()) for material in payload["after"]], "gone": gone}


def _build_listed(material: Payload, marked_elsewhere: Collection[str]) -> ListedMaterial:
    ref, rows_of_key = material["ref"], rows_by_key(material)
    # The key is where the row can be marked: after the action if the material continues, else before.
    rows = [(*rows_of_key[key], "" if key in marked_elsewhere else f"{ref}{key}") for key in rows_of_key if key != NAME]
    return ListedMaterial(ref, material["name"], NAME not in marked_elsewhere, tuple(rows))


def _iter_steps(payload: Payload) -> Iterator[tuple[Any, ...]]:
    for step, results in iter_record_steps(payload["steps"]):
        text = f"step {step['number']}, {step['action']['name']}"
        marked_step = {**step, "mark": step_key(step["number"]), "said": text, "used": _fold_used(step)}
        yield marked_step, results, group_observations(step["observations"])


def _fold_used(step: Payload) -> list[tuple[str, str]]:
    return fold_materials([(material["name"], material["ref"]) for material in step["materials"]])


RowText = dict[str, str]


def list_payload_rows(payload: Payload) -> list[RowText]:
    """Return every row in the order of the payload; all of its keys also exist on a rater's page."""
    # Every item has this key. If only items with an omission had it, the key itself would reveal the error.
    return [*_list_content_rows(payload), {"key": MISSING, "says": "something that should be there is not"}]


def _list_content_rows(payload: Payload) -> Iterator[RowText]:
    if payload["kind"] == "evidence":
        for step in payload["steps"]:
            yield {"key": step_key(step["number"]), "step": str(step["number"]), "action": step["action"]["name"]}
        return
    if payload["rejected"]:
        yield {"key": REJECTED, "says": f"the action was rejected: {payload['rejected']}"}
    certain = has_known_lineage(payload)
    for lane in align_materials(payload) if certain else list_separately(payload):
        yield from _list_material_rows(lane, certain)
    for number, observation in enumerate(payload["observations"], 1):
        text = ": ".join(filter(None, (observation["description"], observation["value"])))
        yield {"key": observation_key(number), "observation": text}


def _list_material_rows(lane: MaterialRow, is_certain: bool) -> Iterator[RowText]:
    """Yield a material's rows. With unknown lineage, a row has one value: that before the action or that after it."""
    about = {"material": f"{lane.ref}, {lane.name}"}
    for row in lane.rows:
        row_text: RowText = {"key": f"{lane.ref}{row.key}", **about, "row": row.label}
        if lane.before is not None:
            row_text["before"] = row.before
        # An empty value means that the property is absent; without the key there is no such material.
        if lane.after is not None or (is_certain and lane.before is not None):
            row_text["after"] = row.after
        yield row_text
    if lane.gone:
        yield {"key": f"{lane.ref}/gone", **about, "says": "nothing of it is listed afterwards"}
