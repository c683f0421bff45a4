"""The rows of a payload as a model rater receives them: each key that it may mark, with its content.

A table of similar materials has further keys for the same rows. Those are for people's pages; a model receives
each row once, under the key of its material.
"""

from collections.abc import Iterator
from typing import Any

from ratings.blinding.mark_keys import MISSING, REJECTED, has_known_lineage, observation_key, step_key
from ratings.blinding.material_rows import MaterialRow, Payload, align_materials, list_separately

RowText = dict[str, str]


def list_payload_rows(payload: Payload) -> list[RowText]:
    """Return every row in the order of the payload; all of its keys also exist on a rater's page."""
    content_rows = _list_step_rows(payload) if payload["kind"] == "evidence" else _list_transition_rows(payload)
    # Every item has this key. If only items with an omission had it, the key itself would reveal the error.
    return [*content_rows, {"key": MISSING, "says": "something that should be there is not"}]


def _list_step_rows(payload: Payload) -> Iterator[RowText]:
    for step in payload["steps"]:
        yield {"key": step_key(step["number"]), "step": str(step["number"]), "action": step["action"]["name"]}


def _list_transition_rows(payload: Payload) -> Iterator[RowText]:
    if payload["rejected"]:
        yield {"key": REJECTED, "says": f"the action was rejected: {payload['rejected']}"}
    certain = has_known_lineage(payload)
    for lane in align_materials(payload) if certain else list_separately(payload):
        yield from _list_material_rows(lane, certain)
    for number, observation in enumerate(payload["observations"], 1):
        yield {"key": observation_key(number), "observation": _format_observation(observation)}


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


def _format_observation(observation: dict[str, Any]) -> str:
    return ": ".join(filter(None, (observation["description"], observation["value"])))
