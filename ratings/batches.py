"""Materials of one kind shown together: what they all share is said once, and only the rest for each of them. No Django.

Eighteen wells that were washed alike are a page of equal rows as lanes; as a batch the one that differs stands out by
its values, never by a mark of ours. The grouping looks at nothing but the blinded payload.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ratings.blinding import Lane, Row, lanes

SMALLEST = 3


class Batch(NamedTuple):
    """Lanes with the same properties. `shared` rows read alike in all of them; `table` has each lane's other rows."""

    lanes: tuple[Lane, ...]
    shared: tuple[Row, ...]
    columns: tuple[str, ...]
    table: tuple[tuple[Lane, tuple[Row, ...]], ...]


def batches(found: Iterable[Lane], smallest: int = SMALLEST) -> tuple[list[Batch], list[Lane]]:
    """The batches in order of their first lane, and the lanes that are in none."""
    groups: dict[tuple[object, ...], list[Lane]] = {}
    for lane in found:
        key = (lane.before is None, lane.after is None, lane.gone, *sorted(row.label for row in lane.rows))
        groups.setdefault(key, []).append(lane)
    together = [_batch(group) for group in groups.values() if len(group) >= smallest]
    return together, [lane for group in groups.values() if len(group) < smallest for lane in group]


def made_in(step: dict[str, Any]) -> list[Batch]:
    """What a step of an evidence record lists afterwards, every material in a batch, if only of its own."""
    return batches(lanes({"before": [], "after": [m | {"continues": ""} for m in step["made"]], "rejected": ""}), 1)[0]


def _batch(group: Sequence[Lane]) -> Batch:
    rows = [{row.label: row for row in lane.rows} for lane in group]
    labels = [row.label for row in group[0].rows if row.label != "Name" or any(r["Name"].changed for r in rows if r["Name"].before)]
    shared = [label for label in labels if len({row[label] for row in rows}) == 1]
    columns = [label for label in labels if label not in shared]
    return Batch(
        tuple(group),
        tuple(rows[0][label] for label in shared),
        tuple(columns),
        tuple((lane, tuple(row[label] for label in columns)) for lane, row in zip(group, rows, strict=True)),
    )
