"""The rows of a payload as a machine is told them: each key that it may mark, and what stands there. No Django.

A table of like materials has keys of its own for the same rows; those are for people's pages, and a machine is given
each row once, under the key of the material it belongs to.
"""

from collections.abc import Iterator
from typing import Any

from ratings.blinding.lanes import Lane, Payload, apart, lanes
from ratings.blinding.marking import MISSING, REJECTED, is_certain, seen_key, step_key

Told = dict[str, str]


def rows(payload: Payload) -> list[Told]:
    """Every row in the order of the payload; all of its keys are keys that a rater's page has."""
    found = _record(payload) if payload["kind"] == "evidence" else _step(payload)
    return [*found, {"key": MISSING, "says": "something that should be there is not"}]


def _record(payload: Payload) -> Iterator[Told]:
    for step in payload["steps"]:
        yield {"key": step_key(step["number"]), "step": str(step["number"]), "action": step["action"]["name"]}


def _step(payload: Payload) -> Iterator[Told]:
    if payload["rejected"]:
        yield {"key": REJECTED, "says": f"the action was rejected: {payload['rejected']}"}
    certain = is_certain(payload)
    for lane in lanes(payload) if certain else apart(payload):
        yield from _lane(lane, certain)
    for number, seen in enumerate(payload["observations"], 1):
        yield {"key": seen_key(number), "observation": _said(seen)}


def _lane(lane: Lane, certain: bool) -> Iterator[Told]:
    """A material's rows. Where nobody knows what became of what, a row has one value, before or after."""
    about = {"material": f"{lane.ref}, {lane.name}"}
    for row in lane.rows:
        told: Told = {"key": f"{lane.ref}{row.key}", **about, "row": row.label}
        if lane.before is not None:
            told["before"] = row.before
        if lane.after is not None or (certain and lane.before is not None):
            told["after"] = row.after
        yield told
    if lane.gone:
        yield {"key": f"{lane.ref}/gone", **about, "says": "nothing of it is listed afterwards"}


def _said(seen: dict[str, Any]) -> str:
    return ": ".join(filter(None, (seen["description"], seen["value"])))
