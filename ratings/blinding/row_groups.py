"""Group similar materials into tables. Rows equal in all materials are shown once, the others for each material.

Eighteen wells that were washed alike would fill a page with equal rows. In a table, the well that differs is visible
by its values and needs no highlighting. In a record of many steps, rows that a step left unchanged are folded. The
grouping depends on nothing but the blinded payload.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import Any, NamedTuple

from ratings.blinding.material_rows import NAME, MaterialRow, Payload, PropertyRow, align_materials

MIN_GROUP = 3  # materials; two are as easy to read as rows
MAX_NARROW_MATERIALS = 16  # materials of a table shown beside single materials
MAX_NARROW_LINES = 26  # lines of text in such a table, roughly estimated


class RowGroup(NamedTuple):
    """Material rows with the same properties. `shared` rows are equal in all of them; `table` has each material's
    other rows.
    """

    lanes: tuple[MaterialRow, ...]
    shared: tuple[PropertyRow, ...]
    columns: tuple[str, ...]
    table: tuple[tuple[MaterialRow, tuple[PropertyRow, ...]], ...]

    @property
    def split_names(self) -> tuple[str, tuple[str, ...]]:
        """The words that all names begin with, and the rest of each: "Culture", ("well 1", "well 2", ...)."""
        # If a name changed, a common beginning would hide the change.
        names = [lane.name for lane in self.lanes]
        if any(lane.before and lane.after and lane.before["name"] != lane.after["name"] for lane in self.lanes):
            return "", tuple(names)
        words = [name.split(" ") for name in names]
        # The number stays with each name: "well 1" and "well 2", not "1" and "2".
        shared = count_common_words(words, keep_numbers=True)
        return " ".join(words[0][:shared]), tuple(" ".join(own[shared:]) for own in words)

    @property
    def table_with_short_names(self) -> list[tuple[MaterialRow, str, tuple[PropertyRow, ...]]]:
        """The rows of the table, each with its material's name without the words that all names begin with."""
        return [(lane, name, rows) for (lane, rows), name in zip(self.table, self.split_names[1], strict=True)]

    @property
    def is_narrow(self) -> bool:
        """Whether the table can be shown beside single materials.

        It can if its materials differ in at most one property and it is short enough.
        """
        if len(self.columns) > 1:
            return False
        rows = (*self.shared, *(row for _, own in self.table for row in own))
        return len(self.lanes) <= MAX_NARROW_MATERIALS and sum(map(_estimate_lines, rows)) <= MAX_NARROW_LINES


class StepResult(NamedTuple):
    """Similar materials after a step of a record: `batch` has the rows that the step changed, `same` the unchanged
    ones.
    """

    batch: RowGroup
    same: RowGroup


def group_materials(materials: Iterable[MaterialRow]) -> tuple[list[RowGroup], list[MaterialRow]]:
    """Return the groups in order of their first material, and the materials in no group."""
    materials = list(materials)
    groups, by_ref = _group_alike(materials), {lane.ref: lane for lane in materials}
    grouped = [_build_group(group, range(len(group[0].rows))) for group in groups if len(group) >= MIN_GROUP]
    # A group of one or two returns to single materials with the full name.
    alone = [_name_row_first(by_ref[lane.ref]) for group in groups if len(group) < MIN_GROUP for lane in group]
    return grouped, alone


def count_common_words(lines: Sequence[Sequence[str]], keep_numbers: bool = False) -> int:
    """Return with how many common words all lines begin, leaving at least one word of each line.

    With `keep_numbers`, the last common word is not counted if a number follows it in every line.
    """
    limit = min(map(len, lines)) - 1
    n_shared = next((index for index in range(limit) if len({line[index] for line in lines}) > 1), max(limit, 0))
    return (
        n_shared - 1 if keep_numbers and n_shared and all(line[n_shared][:1].isdigit() for line in lines) else n_shared
    )


def iter_record_steps(steps: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[StepResult]]]:
    """Yield each step of an evidence record with its resulting materials in groups."""
    known: dict[str, Payload] = {}
    for step in steps:
        before = [known[material["ref"]] for material in step["made"] if material["ref"] in known]
        # The letter decides: a material with the letter of an earlier step continues that one.
        after = [m | {"continues": m["ref"] if m["ref"] in known else ""} for m in step["made"]]
        yield (
            step,
            [
                _build_step_result(group)
                for group in _group_alike(align_materials({"before": before, "after": after, "rejected": ""}))
            ],
        )
        known |= {material["ref"]: material for material in step["made"]}


def _group_alike(materials: Iterable[MaterialRow]) -> list[list[MaterialRow]]:
    """Return the material rows in groups of those that have the same labels and exist, or are gone, at the same
    times.
    """
    groups: dict[tuple[object, ...], list[MaterialRow]] = {}
    for lane in map(_drop_name_row, materials):
        # The labels are part of the key: a table needs the same rows for all its materials.
        key = (lane.before is None, lane.after is None, lane.gone, *(row.label for row in lane.rows))
        groups.setdefault(key, []).append(lane)
    return list(groups.values())


def _build_step_result(group: Sequence[MaterialRow]) -> StepResult:
    indexes = range(len(group[0].rows))
    # A row that changed in one material counts as changed in all, so that columns stay complete.
    changed_indexes = [place for place in indexes if any(lane.rows[place].changed for lane in group)]
    results = [_after_only(lane) for lane in group]
    return StepResult(
        _build_group(results, changed_indexes),
        _build_group(results, [place for place in indexes if place not in changed_indexes]),
    )


def _estimate_lines(row: PropertyRow) -> int:
    """Return about how many lines of text a row takes. The row has three columns if it changed, else two."""
    value_lines = (
        max(len(row.before), len(row.after)) / 13  # about 13 characters fit in a changed column, 26 in a single one
        if row.changed and row.before and row.after
        else len(row.after or row.before) / 26
    )
    return max(ceil(len(row.label) / 13), ceil(value_lines), 2 if row.difference else 1)


def _after_only(lane: MaterialRow) -> MaterialRow:
    """Return the material as the step left it. Its earlier values are shown at the step that produced them."""
    return lane._replace(rows=tuple(PropertyRow(row.label, "", row.after, False, "", row.key) for row in lane.rows))


def _drop_name_row(lane: MaterialRow) -> MaterialRow:
    """Return the material without the row that repeats its heading."""
    return lane._replace(rows=tuple(row for row in lane.rows if row.key != NAME))


def _name_row_first(lane: MaterialRow) -> MaterialRow:
    """Return the material with the row of its name first if the action changed it, and without that row otherwise."""
    names = [row for row in lane.rows if row.key == NAME and row.changed and lane.before and lane.after]
    return lane._replace(rows=(*names, *_drop_name_row(lane).rows))


def _build_group(group: Sequence[MaterialRow], indexes: Iterable[int]) -> RowGroup:
    """Return the group with the rows at these indexes. Indexes, not labels: two rows may have the same label."""
    is_equal = {place: len({lane.rows[place] for lane in group}) == 1 for place in indexes}
    different = [place for place in is_equal if not is_equal[place]]
    return RowGroup(
        tuple(group),
        tuple(group[0].rows[place] for place in is_equal if is_equal[place]),
        tuple(group[0].rows[place].label for place in different),
        tuple((lane, tuple(lane.rows[place] for place in different)) for lane in group),
    )
