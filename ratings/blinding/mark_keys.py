"""The rows a rater can mark as wrong, and the keys that marks are stored under. Only the blinded payload decides
them.

transition: "A:Volume", "A/name", "A/place", "A/availability" (rows of material A), "A/gone" (nothing is left of it),
"A/row" (its row in a table of similar materials), "A+:Volume" (a row that such a table shows once for A and all
others), "seen/1" (an observation, counted from 1), "rejected", and "missing": something that should be there is not.
evidence: "step/1" and "missing". The plain layout shows a material's rows one by one, a table shows them in one row.
The keys of both are always valid.
"""

from collections.abc import Iterator

from ratings.blinding.material_rows import MaterialRow, Payload, align_materials, list_separately
from ratings.blinding.row_groups import RowGroup, group_materials

MISSING = "missing"
REJECTED = "rejected"


def list_mark_keys(payload: Payload) -> list[str]:
    """Return every key that a rater of this payload may mark, in the order of the page."""
    if payload["kind"] == "evidence":
        return [*(step_key(step["number"]) for step in payload["steps"]), MISSING]
    materials = align_materials(payload) if has_known_lineage(payload) else list_separately(payload)
    rejected = [REJECTED] if payload["rejected"] else []
    # The observation itself is not part of the key: texts can repeat, positions cannot.
    observation_keys = [observation_key(number) for number, _ in enumerate(payload["observations"], 1)]
    # A key may be offered by two layouts; it is listed once.
    return list(
        dict.fromkeys([*rejected, *_list_row_keys(materials), *_list_group_keys(materials), *observation_keys, MISSING])
    )


def has_known_lineage(payload: Payload) -> bool:
    """Return whether it is known which output continues which input.

    Items without this field were frozen by an early release, in which it was always known.
    """
    return bool(payload.get("lineage", True))  # the only safe reading of a missing field


def step_key(number: int) -> str:
    return f"step/{number}"


def observation_key(number: int) -> str:
    """Return the key of an observation, counted from 1."""
    return f"seen/{number}"


def list_equivalent_keys(payload: Payload, key: str) -> list[str]:
    """Return the keys of a material's row in all layouts: its own, and the one it has in a table of similar
    materials.
    """
    # Without lineage every layout is the plain one, which has no tables.
    if not has_known_lineage(payload):
        return [key]
    ref, rest = _split_key(key)
    for batch in group_materials(align_materials(payload))[0]:
        if any(lane.ref == ref for lane in batch.lanes):
            # In a table, a row that differs is marked as the material's row; one that is shared has its own key.
            is_shared = any(row.key == rest for row in batch.shared)
            return [key, shared_key(batch, rest) if is_shared else f"{ref}/row"]
    return [key]


def shared_key(batch: RowGroup, row_key: str) -> str:
    """Return the key of a row that a table shows once for all its materials."""
    return f"{batch.lanes[0].ref}+{row_key}"


def _split_key(key: str) -> tuple[str, str]:
    """Return "A" and ":Volume" for "A:Volume". The letters of a material contain neither ":" nor "/"."""
    index = min(place for place in (key.find(":"), key.find("/")) if place >= 0)
    return key[:index], key[index:]


def _list_row_keys(materials: list[MaterialRow]) -> Iterator[str]:
    for lane in materials:
        yield from (f"{lane.ref}{row.key}" for row in lane.rows)
        if lane.gone:
            yield f"{lane.ref}/gone"


def _list_group_keys(materials: list[MaterialRow]) -> Iterator[str]:
    for batch in group_materials(materials)[0]:
        yield from (shared_key(batch, row.key) for row in batch.shared)
        yield from (f"{lane.ref}/row" for lane in batch.lanes)
