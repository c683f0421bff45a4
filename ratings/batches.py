"""Materials of one kind shown together: what they all share is said once, and only the rest for each of them. No Django.

Eighteen wells that were washed alike are a page of equal rows as lanes; as a batch the one that differs stands out by
its values, never by a mark of ours. In a record of many steps, what a step left as an earlier one had left it folds
away. The grouping looks at nothing but the blinded payload.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ratings.blinding import Lane, Payload, Row, lanes

SMALLEST = 3


class Batch(NamedTuple):
    """Lanes with the same properties. `shared` rows read alike in all of them; `table` has each lane's other rows."""

    lanes: tuple[Lane, ...]
    shared: tuple[Row, ...]
    columns: tuple[str, ...]
    table: tuple[tuple[Lane, tuple[Row, ...]], ...]


class Made(NamedTuple):
    """A batch of what a step of a record lists afterwards: the rows that say something new, and those that repeat."""

    batch: Batch
    same: Batch


def batches(found: Iterable[Lane]) -> tuple[list[Batch], list[Lane]]:
    """The batches in order of their first lane, and the lanes that are in none."""
    groups = _groups(found)
    together = [_batch(group, range(len(group[0].rows))) for group in groups if len(group) >= SMALLEST]
    return together, [lane for group in groups if len(group) < SMALLEST for lane in group]


def record(steps: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[Made]]]:
    """Each step of an evidence record with what it made, every material in a batch, if only of its own."""
    known: dict[str, Payload] = {}
    for step in steps:
        before = [known[material["ref"]] for material in step["made"] if material["ref"] in known]
        after = [m | {"continues": m["ref"] if m["ref"] in known else ""} for m in step["made"]]
        yield step, [_made(group) for group in _groups(lanes({"before": before, "after": after, "rejected": ""}))]
        known |= {material["ref"]: material for material in step["made"]}


def _groups(found: Iterable[Lane]) -> list[list[Lane]]:
    """Lanes of one fate with the same properties."""
    groups: dict[tuple[object, ...], list[Lane]] = {}
    for lane in map(_without_name, found):
        key = (lane.before is None, lane.after is None, lane.gone, *(row.label for row in lane.rows))
        groups.setdefault(key, []).append(lane)
    return list(groups.values())


def _made(group: Sequence[Lane]) -> Made:
    places = range(len(group[0].rows))
    new = [place for place in places if any(lane.rows[place].changed for lane in group)]
    left = [_left(lane) for lane in group]
    return Made(_batch(left, new), _batch(left, [place for place in places if place not in new]))


def _left(lane: Lane) -> Lane:
    """The lane as the step left it: what stood there before is said where it came about."""
    return lane._replace(rows=tuple(Row(row.label, "", row.after, False, "") for row in lane.rows))


def _without_name(lane: Lane) -> Lane:
    """The lane without the row that repeats its own heading; the page shows names, old and new, as headings."""
    stands = lane.after or lane.before
    own = ("Name", lane.before["name"] if lane.before else "", "" if lane.gone or stands is None else stands["name"])
    return lane._replace(rows=tuple(row for row in lane.rows if (row.label, row.before, row.after) != own))


def _batch(group: Sequence[Lane], places: Iterable[int]) -> Batch:
    """The rows at these places; by place and not by label, for a property may bear the same label as another row."""
    alike = {place: len({lane.rows[place] for lane in group}) == 1 for place in places}
    unlike = [place for place in alike if not alike[place]]
    return Batch(
        tuple(group),
        tuple(group[0].rows[place] for place in alike if alike[place]),
        tuple(group[0].rows[place].label for place in unlike),
        tuple((lane, tuple(lane.rows[place] for place in unlike)) for lane in group),
    )
