"""Observations that say the same of many things, as one table: what they share is said once. No Django.

Twenty wells under one microscope are sixty sentences that differ in a number. They become a table of things by
measures, from which every sentence can be read back word for word. The grouping looks at the blinded text alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from ratings.blinding.batches import common_start
from ratings.blinding.marking import seen_key

SMALLEST = 3  # fewer than this stay sentences
LONGEST = 16  # rows of a table beside others


class Seen(NamedTuple):
    """One observation, with the key of its mark."""

    key: str
    type: str
    description: str
    value: str


class Table(NamedTuple):
    """`before … after` is what all say, the rows are where they differ, a cell is None where nothing was observed."""

    type: str
    before: str
    after: str
    measures: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Seen | None, ...]], ...]

    @property
    def size(self) -> int:
        return sum(cell is not None for _, cells in self.rows for cell in cells)

    @property
    def is_wide(self) -> bool:
        """Whether it needs more room than a column of the page."""
        return len(self.measures) > 1 or len(self.rows) > LONGEST


class Observed(NamedTuple):
    """Everything observed: the tables, then the sentences that are in none, both in the order of the record."""

    tables: tuple[Table, ...]
    alone: tuple[Seen, ...]


def observed(observations: Sequence[dict[str, Any]], fold: bool = True) -> Observed:
    """The observations of an item or a step; sentences only, unless they are to be folded."""
    seen = [Seen(seen_key(at), o["type"], o["description"], o["value"]) for at, o in enumerate(observations, 1)]
    if not fold:
        return Observed((), tuple(seen))
    groups: dict[tuple[str, str], list[Seen]] = {}
    for one in seen:
        groups.setdefault((one.type, one.description.partition(" ")[0]), []).append(one)
    tables = {key: _table(group) for key, group in groups.items()}
    folded = [table for table in tables.values() if table]
    left = [one for key, group in groups.items() if not tables[key] for one in group]
    return Observed(tuple(folded), tuple(sorted(left, key=seen.index)))


def _table(group: Sequence[Seen]) -> Table | None:
    """The group as a table, if it is large enough, shares at least two words and says nothing twice of one thing."""
    if len(group) < SMALLEST:
        return None
    parts = [one.description.rpartition(": ") for one in group]
    heads = [(head if colon else measure).split(" ") for head, colon, measure in parts]
    measures = [measure if colon else "" for _, colon, measure in parts]
    before, after = _shared(heads)
    things = [" ".join(head[before : len(head) - after]) for head in heads]
    if before + after < 2 or len(set(zip(things, measures, strict=True))) < len(group):
        return None
    return _tabled(group, heads[0], (before, after), things, measures)


def _tabled(
    group: Sequence[Seen], head: Sequence[str], shared: tuple[int, int], things: Sequence[str], measures: Sequence[str]
) -> Table | None:
    cells = {(thing, measure): one for thing, measure, one in zip(things, measures, group, strict=True)}
    columns, rows = tuple(dict.fromkeys(measures)), tuple(dict.fromkeys(things))
    if len(rows) < 2 or 2 * len(cells) < len(columns) * len(rows):
        return None
    before, after = " ".join(head[: shared[0]]), " ".join(head[len(head) - shared[1] :])
    comma = "," if all(thing.endswith(",") for thing in rows) else ""
    after = f"{comma} {after}" if comma else after
    table = tuple(
        (thing.removesuffix(comma), tuple(cells.get((thing, measure)) for measure in columns)) for thing in rows
    )
    return Table(group[0].type, before, after, columns, table)


def _shared(heads: Sequence[Sequence[str]]) -> tuple[int, int]:
    """How many words all begin with, and how many they end with; a word at least is left of each."""
    before = common_start(heads, keep_numbers=True)
    return before, common_start([list(reversed(head[before:])) for head in heads])
