"""Materials of one kind shown together: what they all share is said once, and only the rest for each of them. No Django.

Eighteen wells that were washed alike are a page of equal rows as lanes; as a batch the one that differs stands out by
its values, never by a mark of ours. In a record of many steps, what a step left as an earlier one had left it folds
away. The grouping looks at nothing but the blinded payload.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Any, NamedTuple

from ratings.blinding.lanes import NAME, Lane, Payload, Row, lanes

SMALLEST = 3
LONGEST = 16  # materials of a batch beside lanes
LONGEST_LINES = 26  # and lines of text, by a rough count


class Batch(NamedTuple):
    """Lanes with the same properties. `shared` rows read alike in all of them; `table` has each lane's other rows."""

    lanes: tuple[Lane, ...]
    shared: tuple[Row, ...]
    columns: tuple[str, ...]
    table: tuple[tuple[Lane, tuple[Row, ...]], ...]

    @property
    def named(self) -> tuple[str, tuple[str, ...]]:
        """The words all their names begin with, and what each goes on with: "Culture", ("well 1", "well 2", ...)."""
        names = [lane.name for lane in self.lanes]
        if any(lane.before and lane.after and lane.before["name"] != lane.after["name"] for lane in self.lanes):
            return "", tuple(names)
        words = [name.split(" ") for name in names]
        shared = common_start(words, keep_numbers=True)
        return " ".join(words[0][:shared]), tuple(" ".join(own[shared:]) for own in words)

    @property
    def each(self) -> list[tuple[Lane, str, tuple[Row, ...]]]:
        """The table with the short names."""
        return [(lane, name, rows) for (lane, rows), name in zip(self.table, self.named[1], strict=True)]

    @property
    def is_narrow(self) -> bool:
        """Whether it can stand beside lanes: they differ in one property at most, and it is not too long there."""
        if len(self.columns) > 1:
            return False
        rows = (*self.shared, *(row for _, own in self.table for row in own))
        return len(self.lanes) <= LONGEST and sum(map(_lines, rows)) <= LONGEST_LINES


class Made(NamedTuple):
    """A batch of what a step of a record lists afterwards: the rows that say something new, and those that repeat."""

    batch: Batch
    same: Batch


def batches(found: Iterable[Lane]) -> tuple[list[Batch], list[Lane]]:
    """The batches in order of their first lane, and the lanes that are in none."""
    found = list(found)
    groups, whole = _groups(found), {lane.ref: lane for lane in found}
    together = [_batch(group, range(len(group[0].rows))) for group in groups if len(group) >= SMALLEST]
    alone = [_headed(whole[lane.ref]) for group in groups if len(group) < SMALLEST for lane in group]
    return together, alone


def common_start(lines: Sequence[Sequence[str]], keep_numbers: bool = False) -> int:
    """How many words all lines begin with; a word at least is left of each. A number may keep the word before it."""
    most = min(map(len, lines)) - 1
    shared = next((at for at in range(most) if len({line[at] for line in lines}) > 1), max(most, 0))
    return shared - 1 if keep_numbers and shared and all(line[shared][:1].isdigit() for line in lines) else shared


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


def _lines(row: Row) -> int:
    """About how many lines a row takes in a lane: three columns if it changed, else two."""
    beside = (
        max(len(row.before), len(row.after)) / 13
        if row.changed and row.before and row.after
        else len(row.after or row.before) / 26
    )
    return max(ceil(len(row.label) / 13), ceil(beside), 2 if row.difference else 1)


def _left(lane: Lane) -> Lane:
    """The lane as the step left it: what stood there before is said where it came about."""
    return lane._replace(rows=tuple(Row(row.label, "", row.after, False, "", row.key) for row in lane.rows))


def _without_name(lane: Lane) -> Lane:
    """The lane without the row that repeats its own heading; the page shows names, old and new, as headings."""
    return lane._replace(rows=tuple(row for row in lane.rows if row.key != NAME))


def _headed(lane: Lane) -> Lane:
    """The lane with the row of its name first where the action changed it, and without it where it did not."""
    names = [row for row in lane.rows if row.key == NAME and row.changed and lane.before and lane.after]
    return lane._replace(rows=(*names, *_without_name(lane).rows))


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
