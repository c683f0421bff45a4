"""Show similar observations of many things as one table, in which their common words appear once.

Twenty wells under one microscope give sixty sentences that differ in a number. They become a table of things by
measures, from which every sentence can be reconstructed word for word. The grouping depends on the text alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MIN_TABLE = 3  # observations; fewer remain sentences
MAX_NARROW_ROWS = 16  # rows of a table shown beside others


class MarkedObservation(NamedTuple):
    """One observation, with the key of its mark."""

    key: str
    type: str
    description: str
    value: str


class ObservationTable(NamedTuple):
    """A table of similar observations."""

    type: str
    before: str  # the words that all share
    after: str
    measures: tuple[str, ...]
    # The words that differ, and the cells: None if nothing was observed.
    rows: tuple[tuple[str, tuple[MarkedObservation | None, ...]], ...]

    @property
    def count_cells(self) -> int:
        return sum(cell is not None for _, cells in self.rows for cell in cells)

    @property
    def is_wide(self) -> bool:
        """Whether the table needs more room than a column of the page."""
        return len(self.measures) > 1 or len(self.rows) > MAX_NARROW_ROWS


class GroupedObservations(NamedTuple):
    """All observations: the tables, then the sentences that are in no table, both in the order of the record."""

    tables: tuple[ObservationTable, ...]
    alone: tuple[MarkedObservation, ...]


def group_observations(observations: Sequence[Mapping[str, Any]], fold: bool = True) -> GroupedObservations:
    """Return the observations of an item or a step, in tables where possible; as sentences only unless `fold`."""
    marked = [
        MarkedObservation(observation_key(at), o["type"], o["description"], o["value"])
        for at, o in enumerate(observations, 1)
    ]
    if not fold:
        return GroupedObservations((), tuple(marked))
    groups: dict[tuple[str, str], list[MarkedObservation]] = {}
    for observation in marked:
        # Only observations of one type that begin with the same word can share a sentence.
        groups.setdefault((observation.type, observation.description.partition(" ")[0]), []).append(observation)
    tables: list[ObservationTable] = []
    sentences: list[MarkedObservation] = []
    for group in groups.values():
        if table := _try_table(group):
            tables.append(table)
        else:
            sentences += group
    # In the order of the record, not of the groups.
    return GroupedObservations(tuple(tables), tuple(sorted(sentences, key=marked.index)))


def observation_key(number: int) -> str:
    """Return the key of an observation, counted from 1."""
    return f"seen/{number}"


def count_common_words(lines: Sequence[Sequence[str]], keep_numbers: bool = False) -> int:
    """Return with how many common words all lines begin, leaving at least one word of each line.

    With `keep_numbers`, the last common word is not counted if a number follows it in every line.
    """
    limit = min(map(len, lines)) - 1
    n_shared = next((index for index in range(limit) if len({line[index] for line in lines}) > 1), max(limit, 0))
    is_before_number = keep_numbers and n_shared and all(line[n_shared][:1].isdigit() for line in lines)
    return n_shared - 1 if is_before_number else n_shared


def _try_table(group: Sequence[MarkedObservation]) -> ObservationTable | None:
    """Return the group as a table, or None.

    A table needs at least MIN_TABLE observations, two words that all share, and no two observations in one cell.
    """
    if len(group) < MIN_TABLE:
        return None
    parts = [one.description.rpartition(": ") for one in group]
    heads = [(head if colon else measure).split(" ") for head, colon, measure in parts]
    measures = [measure if colon else "" for _, colon, measure in parts]
    before = count_common_words(heads, keep_numbers=True)
    # The ending is searched after the shared beginning only, or words of short sentences would be counted twice.
    after = count_common_words([list(reversed(head[before:])) for head in heads])
    subjects = [" ".join(head[before : len(head) - after]) for head in heads]
    # Two equal cells would overwrite each other, and fewer than two common words save no reading.
    if before + after < 2 or len(set(zip(subjects, measures, strict=True))) < len(group):
        return None
    cells = {(thing, measure): one for thing, measure, one in zip(subjects, measures, group, strict=True)}
    columns, rows = tuple(dict.fromkeys(measures)), tuple(dict.fromkeys(subjects))
    # A table of which more than half is empty is harder to read than sentences.
    if len(rows) < 2 or 2 * len(cells) < len(columns) * len(rows):
        return None
    beginning, ending = " ".join(heads[0][:before]), " ".join(heads[0][len(heads[0]) - after :])
    # The comma belongs to the sentence: with it removed from each row, it is added once to the common part.
    comma = "," if all(thing.endswith(",") for thing in rows) else ""
    ending = f"{comma} {ending}" if comma else ending
    table = tuple(
        (thing.removesuffix(comma), tuple(cells.get((thing, measure)) for measure in columns)) for thing in rows
    )
    return ObservationTable(group[0].type, beginning, ending, columns, table)
