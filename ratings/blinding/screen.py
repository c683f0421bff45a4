"""Build the context of an item's page in the layout its rater was given, from the blinded payload alone.

plain: inputs and outputs as lists, one below the other. aligned: each output beside the input it continues.
balance: aligned, and the balance sheet. confirm: aligned for the initial rating, with the balance sheet for the final one.
With unknown lineage, every layout is plain, and `layout_shown` says so.
An evidence record has one layout, which is stored as "aligned".
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from ratings.blinding.balance import sheet
from ratings.blinding.batches import batches, record
from ratings.blinding.lanes import NAME, Payload, facts, lanes
from ratings.blinding.marking import is_certain, step_key
from ratings.blinding.observing import observed

PLAIN, ALIGNED, BALANCE, CONFIRM = "plain", "aligned", "balance", "confirm"
LATEST = 2  # previous steps that are unfolded; earlier ones are folded
WORKED_OUT = 4  # lines of the balance sheet that are unfolded


class Listed(NamedTuple):
    """A material of the plain layout. Rows are (label, value, key); a key is "" if the row is marked elsewhere.

    `named`: its name is marked here.
    """

    ref: str
    name: str
    named: bool
    rows: tuple[tuple[str, str, str], ...]


def view(
    payload: Payload,
    context: Payload | None = None,
    *,
    layout: str = ALIGNED,
    with_context: bool = False,
    marks: str = "off",
    marked: Collection[str] = (),
    stage: str = "final",
) -> dict[str, Any]:
    """Return the template context of ratings/_item.html, with `layout_shown` and `two_stage` (is there an initial rating?)."""
    effective_layout = layout_shown(payload, layout)
    return {
        "payload": payload,
        "layout_shown": effective_layout,
        "two_stage": effective_layout == CONFIRM,
        "marks": marks,
        "marked": frozenset(marked),
        "context": _context(context) if with_context and context else None,
        **(_evidence(payload) if payload["kind"] == "evidence" else _transition(payload, effective_layout, stage)),
    }


def layout_shown(payload: Payload, layout: str) -> str:
    """Return the layout that this item really gets: plain if the lineage is unknown."""
    # A record has no before and after of one step, so the other layouts do not apply.
    if payload["kind"] == "evidence":
        return ALIGNED
    return layout if is_certain(payload) else PLAIN


def _transition(payload: Payload, layout: str, stage: str) -> dict[str, Any]:
    if layout == PLAIN:
        return {"observed": _observed(payload["observations"], fold=False), **_lists(payload)}
    groups, alone = batches(lanes(payload))
    # In the confirm layout the sheet appears only after the initial rating is stored.
    with_balance = layout == BALANCE or (layout == CONFIRM and stage == "final")
    narrow = [batch for batch in groups if batch.is_narrow]
    return {
        "observed": _observed(payload["observations"]),
        "narrow": narrow,
        "wide": [batch for batch in groups if not batch.is_narrow],
        "lanes": alone,
        "balance": _balance(payload) if with_balance else None,
        # The page uses at most two columns for fewer than three cards; the last card holds the observations.
        "cards": len(narrow) + len(alone) + with_balance + 1,
    }


def _observed(observations: list[dict[str, str]], fold: bool = True) -> dict[str, Any]:
    tables, alone = observed(observations, fold)
    wide = [table for table in tables if table.is_wide]
    return {"wide": wide, "tables": [table for table in tables if not table.is_wide], "alone": alone}


def _lists(payload: Payload) -> dict[str, Any]:
    """Return every row once; continued materials are marked in the list after the action."""
    after = {material["ref"]: facts(material) for material in payload["after"] if material["continues"]}
    before = [_listed(material, after.get(material["ref"], {})) for material in payload["before"]]
    # Without lineage it is unknown whether anything was used up.
    gone = {lane.ref for lane in lanes(payload) if lane.gone} if is_certain(payload) else set()
    return {"before": before, "after": [_listed(material, ()) for material in payload["after"]], "gone": gone}


def _listed(material: Payload, elsewhere: Collection[str]) -> Listed:
    ref, rows_of_key = material["ref"], facts(material)
    # The key is where the row can be marked: after the action if the material continues, else before.
    rows = [(*rows_of_key[key], "" if key in elsewhere else f"{ref}{key}") for key in rows_of_key if key != NAME]
    return Listed(ref, material["name"], NAME not in elsewhere, tuple(rows))


def _balance(payload: Payload) -> dict[str, Any]:
    balance = sheet(payload)
    return {
        "stated": balance.stated,
        "worked_out": balance.worked_out[:WORKED_OUT],
        "more": balance.worked_out[WORKED_OUT:],
    }


def _evidence(payload: Payload) -> dict[str, Any]:
    return {"steps": list(_steps(payload))}


def _steps(payload: Payload) -> Iterator[tuple[Any, ...]]:
    for step, results in record(payload["steps"]):
        text = f"step {step['number']}, {step['action']['name']}"
        yield {**step, "mark": step_key(step["number"]), "said": text}, results, observed(step["observations"])


def _context(context: Payload) -> dict[str, Any]:
    steps = context["steps"]
    return {**context, "older": steps[:-LATEST], "steps": steps[-LATEST:]}
