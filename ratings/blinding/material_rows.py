"""The rows of an item: each material before an action beside what it became, similar materials as tables, and mark keys.

Everything depends on the blinded payload alone. A row's `key` is its name within its material: ":Volume" for a property,
"/name", "/place" and "/availability" for the rest. Prefixed with the material's letter, it is the stored key of a mark.

Eighteen wells that were washed alike are one table with a row for each well and a column for each property. Which materials
form a table, and its columns, depend on names and roles and on what most of its materials have, never on whether one value
differs from the others: a page that isolates the odd one would find the error for the rater. In a record of many steps,
whose outcomes have no planted errors, rows that are equal in all materials are shown once, and unchanged rows are folded.

Keys of marks. transition: "A:Volume", "A/name", "A/place", "A/availability" (rows of material A), "A/gone" (nothing is left
of it), "A/row" (its row in a table), "seen/1" (an observation, counted from 1), "rejected", and "missing": something that
should be there is not. evidence: "step/1" and "missing". The plain layout shows a material's rows one by one, a table shows
them in one row; the keys of both are valid.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ratings.blinding.pseudonyms import AVAILABILITY, UNLIMITED, index_to_letters, letters_to_index
from simulation.lab import notation
from simulation.lab.name_ranges import MIN_RANGE, group_names
from simulation.lab.observation_tables import observation_key

Payload = dict[str, Any]

MAX_KEY_LABEL = 48  # characters; keys are stored in every mark
NAME, PLACE, AVAILABLE = "/name", "/place", "/availability"


class PropertyRow(NamedTuple):
    """One property before and after an action; "" if there is no value."""

    label: str
    before: str
    after: str
    changed: bool
    difference: str  # only if both values are numbers with the same unit
    key: str = ""


class MaterialRow(NamedTuple):
    """One material before and after an action. `before` or `after` is None if missing."""

    ref: str
    before: Payload | None
    after: Payload | None
    rows: tuple[PropertyRow, ...]
    gone: bool = False  # an output that continues this material was expected and is missing

    @property
    def name(self) -> str:
        """The name after the action, or before it if there is no material after it."""
        return str((self.after or self.before or {}).get("name", ""))

    @property
    def name_in_table(self) -> str:
        """The name after the action, with the name before it if the action changed it."""
        earlier = (self.before or {}).get("name", self.name)
        return self.name if earlier == self.name else f"{self.name} (before: {earlier})"

    @property
    def is_name_in_heading(self) -> bool:
        """Whether the name is only in the heading, and not in a row because it changed."""
        return not any(row.key == NAME for row in self.rows)


def align_materials(payload: Payload) -> list[MaterialRow]:
    """Return each material before the action beside what it became, in order; then the new materials."""
    continued = {material["continues"]: material for material in payload["after"] if material["continues"]}
    aligned = []
    for before in payload["before"]:
        after = continued.get(before["ref"])
        # Nothing happens to an unlimited supply or after a rejection, so a missing output is no loss.
        is_unchanged = before["availability"] == AVAILABILITY[UNLIMITED] or bool(payload["rejected"])
        rows = _build_rows(before, before if after is None and is_unchanged else after)
        aligned.append(MaterialRow(before["ref"], before, after, rows, gone=after is None and not is_unchanged))
    return aligned + [_build_new_row(material) for material in payload["after"] if not material["continues"]]


def list_separately(payload: Payload) -> list[MaterialRow]:
    """Return the materials before the action, then those after it, unpaired. For items with unknown lineage."""
    before = [MaterialRow(given["ref"], given, None, _build_rows(given, given)) for given in payload["before"]]
    return before + [_build_new_row(material) for material in payload["after"]]


def rows_by_key(material: Payload | None) -> dict[str, tuple[str, str]]:
    """Return the label and value of each row by row key: properties first, with unique keys for equal labels.

    Values are in the notation of all items, so that rows are compared by what they state and not by its spelling.
    """
    if material is None:
        return {}
    rows: dict[str, tuple[str, str]] = {}
    for label, value in material["properties"]:
        # Whitespace is folded and the length limited: the key is stored with every mark and must not depend on line
        # breaks.
        key = _unique_key(f":{' '.join(label.split())[:MAX_KEY_LABEL]}", rows)
        rows[key] = (label, notation.write_value(value, label))
    kept = {PLACE: ("Kept at", material["condition"]), AVAILABLE: ("Availability", material["availability"])}
    return {**rows, NAME: ("Name", notation.write_text(material["name"])), **kept}


def format_difference(before: str, after: str) -> str:
    """Return after minus before, with its sign, if both are plain numbers with the same unit; else "".

    The difference of two percentages is given in points.
    """
    old, new = notation.parse_number(before), notation.parse_number(after)
    if old is None or new is None or old.unit != new.unit:
        return ""
    change = new.number - old.number
    sign = "+" if change > 0 else ""  # that of a negative number is written with it
    return f"{sign}{notation.write_number(change)} {'points' if new.unit == '%' else new.unit}".strip()


def _build_new_row(material: Payload) -> MaterialRow:
    return MaterialRow(material["ref"], None, material, _build_rows(None, material))


def _build_rows(before: Payload | None, after: Payload | None) -> tuple[PropertyRow, ...]:
    old, new, rows = rows_by_key(before), rows_by_key(after), []
    # Properties first, in the order before the action; new ones after them, so that rows do not move.
    properties = [key for key in {**old, **new} if key[0] == ":"]
    for key in (*properties, NAME, PLACE, AVAILABLE):
        label, old_value = old.get(key, ("", ""))
        new_label, new_value = new.get(key, ("", ""))
        changed = old_value != new_value
        difference = format_difference(old_value, new_value) if changed else ""
        rows.append(PropertyRow(label or new_label, old_value, new_value, changed, difference, key))
    return tuple(rows)


def _unique_key(key: str, taken: dict[str, tuple[str, str]]) -> str:
    """Return the key, with a number appended if another property has the same key."""
    number, candidate = 1, key
    while candidate in taken:
        number += 1
        candidate = f"{key} ({number})"
    return candidate


MIN_GROUP = 3  # materials; two are as easy to read as rows
LONG_VALUE = 40  # characters of both values of a cell; longer ones get a wider column
# A number, a letter or a position such as B12, in which the names of replicates differ.
_NUMBER_IN_NAME = re.compile(r"\b(?:[A-Z]?[0-9]+(?:[.:][0-9]+)*|[A-Z])\b")


class Column(NamedTuple):
    """A property of the materials in a table. `changes`: the action changed it in most of them, so both values are shown."""

    key: str
    label: str
    changes: bool
    is_wide: bool  # most of its values are long


class Cell(NamedTuple):
    """A material's value in a column; `before` and `difference` are "" in a column that shows one value."""

    before: str
    after: str
    difference: str
    changes: bool  # that of the column


class MaterialTable(NamedTuple):
    """Materials of one kind, with their values before and after the action."""

    lanes: tuple[MaterialRow, ...]
    columns: tuple[Column, ...]
    rows: tuple[tuple[MaterialRow, tuple[Cell, ...]], ...]


class RowGroup(NamedTuple):
    """Material rows of a record's step with the same properties."""

    lanes: tuple[MaterialRow, ...]
    shared: tuple[PropertyRow, ...]  # rows that are equal in all materials
    columns: tuple[str, ...]
    table: tuple[tuple[MaterialRow, tuple[PropertyRow, ...]], ...]  # each material's other rows

    @property
    def folded_names(self) -> list[tuple[str, str]]:
        """The names of the materials with their letters; names that differ in one number as one: "wells 1 to 3", "A to C"."""
        return fold_materials([(lane.name, lane.ref) for lane in self.lanes])


class StepResult(NamedTuple):
    """Similar materials after a step of a record."""

    batch: RowGroup  # the rows that the step changed
    same: RowGroup


def group_materials(payload: Payload) -> tuple[list[MaterialTable], list[MaterialRow]]:
    """Return the tables in order of their first material, and the materials in no table."""
    settings = payload["action"]["parameters"]
    groups: dict[tuple[object, ...], list[MaterialRow]] = {}
    for lane in align_materials(payload):
        groups.setdefault(_get_kind(lane, settings), []).append(lane)
    tables = [_build_table(group) for group in groups.values() if len(group) >= MIN_GROUP]
    alone = []
    for lane in (lane for group in groups.values() if len(group) < MIN_GROUP for lane in group):
        # A single material has its name in the heading: its row is first if the action changed it.
        names = [row for row in lane.rows if row.key == NAME and row.changed and lane.before and lane.after]
        alone.append(lane._replace(rows=(*names, *_drop_name_row(lane).rows)))
    return tables, alone


def _get_kind(lane: MaterialRow, settings: Sequence[Sequence[str]]) -> tuple[object, ...]:
    """Return what the materials of a table have in common. It depends on nothing that an outcome states about a value."""
    if lane.before is None:
        return ("new", _NUMBER_IN_NAME.sub("#", lane.name))
    names = (lane.before["name"], f"{lane.before['name']} ({lane.ref})")
    role = tuple(label for label, value in settings if value in names)
    return ("given", lane.gone, role, tuple(rows_by_key(lane.before)))


def _build_table(lanes: Sequence[MaterialRow]) -> MaterialTable:
    rows = [{row.key: row for row in lane.rows if row.key != NAME} for lane in lanes]
    labels = {key: row.label for own in rows for key, row in own.items()}
    is_continued = lanes[0].before is not None and not lanes[0].gone
    columns = []
    for key, label in labels.items():
        # More than half and not all: one material that differs must not change how the others are shown.
        changes = is_continued and 2 * sum(own[key].changed for own in rows if key in own) > len(lanes)
        shown = [
            row.before + row.after if changes else row.after or row.before for own in rows if (row := own.get(key))
        ]
        is_wide = 2 * sum(len(text) > LONG_VALUE for text in shown) > len(lanes)
        columns.append(Column(key, label, changes, is_wide))
    # Stable: otherwise the columns stay in the order of the properties.
    columns.sort(key=lambda column: not column.changes)
    table = [
        (lane, tuple(_build_cell(own.get(column.key), column, is_continued) for column in columns))
        for lane, own in zip(lanes, rows, strict=True)
    ]
    return MaterialTable(tuple(lanes), tuple(columns), tuple(table))


def _build_cell(row: PropertyRow | None, column: Column, is_continued: bool) -> Cell:
    if row is None:
        return Cell("", "", "", column.changes)
    if column.changes:
        return Cell(row.before, row.after, row.difference, True)
    if not is_continued or not row.changed:
        return Cell("", row.after or row.before, "", False)
    # Text without tags, so that a material that differs has the same structure as the others.
    return Cell("", f"{row.after or 'not stated'} (before: {row.before or 'not stated'})", "", False)


def fold_materials(materials: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return names with their letters, those that differ in one number as one name with all its letters."""
    return [
        (folded.name, _join_letters([materials[at][1] for at in folded.positions]))
        for folded in group_names(name for name, _ in materials)
    ]


def _join_letters(refs: Sequence[str]) -> str:
    """Return letters as "A", "A, C" or, if at least three follow one another, "A to C"."""
    first = letters_to_index(refs[0])
    in_order = [index_to_letters(first + at) for at in range(len(refs))]
    return f"{refs[0]} to {refs[-1]}" if len(refs) >= MIN_RANGE and list(refs) == in_order else ", ".join(refs)


def iter_record_steps(steps: Iterable[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], list[StepResult]]]:
    """Yield each step of an evidence record with its resulting materials in groups."""
    known: dict[str, Payload] = {}
    for step in steps:
        before = [known[material["ref"]] for material in step["made"] if material["ref"] in known]
        # The letter decides: a material with the letter of an earlier step continues that one.
        after = [m | {"continues": m["ref"] if m["ref"] in known else ""} for m in step["made"]]
        materials = align_materials({"before": before, "after": after, "rejected": ""})
        yield step, [_build_step_result(group) for group in _group_alike(materials)]
        known |= {material["ref"]: material for material in step["made"]}


def _group_alike(materials: Iterable[MaterialRow]) -> list[list[MaterialRow]]:
    """Return the material rows in groups of those that have the same labels and exist, or are gone, at the same times."""
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
    results = [
        lane._replace(rows=tuple(PropertyRow(row.label, "", row.after, False, "", row.key) for row in lane.rows))
        for lane in group
    ]
    same_indexes = [place for place in indexes if place not in changed_indexes]
    return StepResult(_build_group(results, changed_indexes), _build_group(results, same_indexes))


def _drop_name_row(lane: MaterialRow) -> MaterialRow:
    """Return the material without the row that repeats its heading."""
    return lane._replace(rows=tuple(row for row in lane.rows if row.key != NAME))


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


MISSING = "missing"
REJECTED = "rejected"


def list_mark_keys(payload: Payload) -> list[str]:
    """Return every key that a rater of this payload may mark, in the order of the page."""
    if payload["kind"] == "evidence":
        return [*(step_key(step["number"]) for step in payload["steps"]), MISSING]
    materials = align_materials(payload) if has_known_lineage(payload) else list_separately(payload)
    keys = [REJECTED] if payload["rejected"] else []
    for lane in materials:
        keys += [f"{lane.ref}{row.key}" for row in lane.rows]
        keys += [f"{lane.ref}/gone"] if lane.gone else []
    for table in group_materials(payload)[0]:
        keys += [f"{lane.ref}/row" for lane in table.lanes]
    # The observation itself is not part of the key: texts can repeat, positions cannot.
    keys += [observation_key(number) for number, _ in enumerate(payload["observations"], 1)]
    # A key may be offered by two layouts; it is listed once.
    return list(dict.fromkeys([*keys, MISSING]))


def has_known_lineage(payload: Payload) -> bool:
    """Return whether it is known which output continues which input.

    Items without this field were frozen by an early release, in which it was always known.
    """
    return bool(payload.get("lineage", True))  # the only safe reading of a missing field


def step_key(number: int) -> str:
    return f"step/{number}"


def list_equivalent_keys(payload: Payload, key: str) -> list[str]:
    """Return the keys of a material's row in all layouts: its own, and the one it has in a table."""
    # Without lineage every layout is the plain one, which has no tables.
    if not has_known_lineage(payload):
        return [key]
    # The letters of a material contain neither ":" nor "/".
    ref = key[: min(place for place in (key.find(":"), key.find("/")) if place >= 0)]
    in_table = any(lane.ref == ref for table in group_materials(payload)[0] for lane in table.lanes)
    return [key, f"{ref}/row"] if in_table else [key]
