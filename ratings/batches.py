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
    for lane in map(_without_name, found):
        key = (lane.before is None, lane.after is None, lane.gone, *(row.label for row in lane.rows))
        groups.setdefault(key, []).append(lane)
    together = [_batch(group) for group in groups.values() if len(group) >= smallest]
    return together, [lane for group in groups.values() if len(group) < smallest for lane in group]


def made_in(step: dict[str, Any]) -> list[Batch]:
    """What a step of an evidence record lists afterwards, every material in a batch, if only of its own."""
    return batches(lanes({"before": [], "after": [m | {"continues": ""} for m in step["made"]], "rejected": ""}), 1)[0]


def _without_name(lane: Lane) -> Lane:
    """The lane without the row that repeats its own heading; the page shows names, old and new, as headings."""
    stands = lane.after or lane.before
    own = ("Name", lane.before["name"] if lane.before else "", "" if lane.gone or stands is None else stands["name"])
    return lane._replace(rows=tuple(row for row in lane.rows if (row.label, row.before, row.after) != own))


def _batch(group: Sequence[Lane]) -> Batch:
    """Rows go by their place: a property may bear the same label as another row."""
    places = range(len(group[0].rows))
    alike = [place for place in places if len({lane.rows[place] for lane in group}) == 1]
    unlike = [place for place in places if place not in alike]
    return Batch(
        tuple(group),
        tuple(group[0].rows[place] for place in alike),
        tuple(group[0].rows[place].label for place in unlike),
        tuple((lane, tuple(lane.rows[place] for place in unlike)) for lane in group),
    )
