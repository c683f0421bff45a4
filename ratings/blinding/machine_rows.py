"""The rows of a payload as a model rater receives them: each key that it may mark, with its content.

A table of similar materials has further keys for the same rows. Those are for people's pages; a model receives
each row once, under the key of its material.
"""

from collections.abc import Iterator
from typing import Any

from ratings.blinding.lanes import Lane, Payload, apart, lanes
from ratings.blinding.marking import MISSING, REJECTED, is_certain, seen_key, step_key

Told = dict[str, str]


def rows(payload: Payload) -> list[Told]:
    """Return every row in the order of the payload; all of its keys also exist on a rater's page."""
    content_rows = _record(payload) if payload["kind"] == "evidence" else _step(payload)
    # Every item has this key. If only items with an omission had it, the key itself would reveal the error.
    return [*content_rows, {"key": MISSING, "says": "something that should be there is not"}]


def _record(payload: Payload) -> Iterator[Told]:
    for step in payload["steps"]:
        yield {"key": step_key(step["number"]), "step": str(step["number"]), "action": step["action"]["name"]}


def _step(payload: Payload) -> Iterator[Told]:
    if payload["rejected"]:
        yield {"key": REJECTED, "says": f"the action was rejected: {payload['rejected']}"}
    certain = is_certain(payload)
    for lane in lanes(payload) if certain else apart(payload):
        yield from _lane(lane, certain)
    for number, observation in enumerate(payload["observations"], 1):
        yield {"key": seen_key(number), "observation": _said(observation)}


def _lane(lane: Lane, certain: bool) -> Iterator[Told]:
    """Yield a material's rows. With unknown lineage, a row has one value, before or after."""
    about = {"material": f"{lane.ref}, {lane.name}"}
    for row in lane.rows:
        row_text: Told = {"key": f"{lane.ref}{row.key}", **about, "row": row.label}
        if lane.before is not None:
            row_text["before"] = row.before
        # An empty value means that the property is absent; without the key there is no such material.
        if lane.after is not None or (certain and lane.before is not None):
            row_text["after"] = row.after
        yield row_text
    if lane.gone:
        yield {"key": f"{lane.ref}/gone", **about, "says": "nothing of it is listed afterwards"}


def _said(seen: dict[str, Any]) -> str:
    return ": ".join(filter(None, (seen["description"], seen["value"])))
