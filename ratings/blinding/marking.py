"""What a rater can tick as wrong, and how the ticks are stored: keys that the blinded payload alone decides. No Django.

transition: "A:Volume", "A/name", "A/place", "A/availability" (rows of material A), "A/gone" (that nothing is left of
it), "A/row" (its row of a table of like materials), "A+:Volume" (what such a table says once of A and all others),
"seen/1" (an observation, counted from 1), "rejected", and "missing": something that should be there is not.
evidence: "step/1" and "missing".
The plain layout has a material's rows one by one, a table has them together: the keys of both are always valid.
"""

from collections.abc import Iterator

from ratings.blinding.batches import Batch, batches
from ratings.blinding.lanes import Lane, Payload, apart, lanes

MISSING = "missing"
REJECTED = "rejected"


def mark_keys(payload: Payload) -> list[str]:
    """Every key that a rater of this payload may tick, in the order of the page. It depends on nothing else."""
    if payload["kind"] == "evidence":
        return [*(step_key(step["number"]) for step in payload["steps"]), MISSING]
    found = lanes(payload) if is_certain(payload) else apart(payload)
    rejected = [REJECTED] if payload["rejected"] else []
    seen = [seen_key(number) for number, _ in enumerate(payload["observations"], 1)]
    return list(dict.fromkeys([*rejected, *_lane_keys(found), *_batch_keys(found), *seen, MISSING]))


def is_certain(payload: Payload) -> bool:
    """Whether it is known which output goes on from which input. Items frozen before this was asked always knew."""
    return bool(payload.get("lineage", True))


def step_key(number: int) -> str:
    return f"step/{number}"


def seen_key(number: int) -> str:
    """An observation's, counted from 1."""
    return f"seen/{number}"


def covering(payload: Payload, key: str) -> list[str]:
    """The keys under which a material's row is shown in any layout: its own, and that of a table it may stand in."""
    if not is_certain(payload):
        return [key]
    ref, rest = _split(key)
    for batch in batches(lanes(payload))[0]:
        if any(lane.ref == ref for lane in batch.lanes):
            said_once = any(row.key == rest for row in batch.shared)
            return [key, shared_key(batch, rest) if said_once else f"{ref}/row"]
    return [key]


def shared_key(batch: Batch, row_key: str) -> str:
    """The key of a row that a batch says once for all its materials."""
    return f"{batch.lanes[0].ref}+{row_key}"


def _split(key: str) -> tuple[str, str]:
    """ "A:Volume" is "A" and ":Volume". A material's letters hold neither sign."""
    at = min(place for place in (key.find(":"), key.find("/")) if place >= 0)
    return key[:at], key[at:]


def _lane_keys(found: list[Lane]) -> Iterator[str]:
    for lane in found:
        yield from (f"{lane.ref}{row.key}" for row in lane.rows)
        if lane.gone:
            yield f"{lane.ref}/gone"


def _batch_keys(found: list[Lane]) -> Iterator[str]:
    for batch in batches(found)[0]:
        yield from (shared_key(batch, row.key) for row in batch.shared)
        yield from (f"{lane.ref}/row" for lane in batch.lanes)
