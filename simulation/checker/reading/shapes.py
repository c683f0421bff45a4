"""Turn tables and pairs into objects by their shape, whatever their keys: the first step of reading a record.

A list of rows, lines with strokes between their cells, and fields with an equals sign become objects with one entry for each fact. An
object of a number and a unit becomes one text, "12 mL".
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from simulation.checker.reading import leaves, units

_MAX_DEPTH, _MAX_ROWS, _MAX_TEXT, _MAX_UNIT = 8, 60, 2000, 30
_FIELD = re.compile(r"\s*([^\W\d][^=:|]{0,40}?)\s*=\s*(\S.*)", re.DOTALL)
_RULE = re.compile(r"[\s|:+-]+")


def normalise_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties in which tables, lists of fields, and numbers with units have one shape."""
    return {key: normalise_shapes(value) for key, value in properties.items()}


def normalise_shapes(data: Any, depth: int = 0) -> Any:
    """Return JSON data in which tables, lists of fields, and numbers with units have one shape."""
    if depth > _MAX_DEPTH:
        return data
    if isinstance(data, str):
        read = _read_text(data) if len(data) <= _MAX_TEXT else None
        return data if read is None else normalise_shapes(read, depth + 1)
    if isinstance(data, list):
        if (table := _read_rows(data)) is not None:
            return normalise_shapes(table, depth + 1)
        return [normalise_shapes(item, depth + 1) for item in data]
    if isinstance(data, Mapping):
        if (amount := _join_unit(data)) is not None:
            return amount
        return {key: normalise_shapes(value, depth + 1) for key, value in data.items()}
    return data


def _join_unit(data: Mapping[str, Any]) -> str | None:
    """Return "12 mL" for an object of one number and one unit, else None. It may have one boolean, as "estimated", besides."""
    rest = {key: value for key, value in data.items() if not isinstance(value, bool)}
    if len(rest) != 2 or len(data) > 3:
        return None
    (key, unit), (_, number) = sorted(rest.items(), key=lambda item: _is_bare_number(item[1]))
    if not _is_bare_number(number) or not isinstance(unit, str) or len(unit) >= _MAX_UNIT:
        return None
    # A single letter may be a name: {"passage": 5, "strain": "A"}.
    is_unit = len(unit.strip()) > 1 or key.lower() in leaves.UNIT_KEYS
    return f"{number} {unit}" if is_unit and units.find_dimension(unit) else None


def _is_bare_number(value: Any) -> bool:
    parts = units.split_number(value)
    return parts is not None and not parts[2]


def _read_rows(rows: Sequence[Any]) -> Any:
    """Return the table of a list of rows as an object or as a list of objects, None if it is no table."""
    if not 1 < len(rows) <= _MAX_ROWS or not all(isinstance(row, list) for row in rows):
        return None
    if not all(isinstance(cell, str | int | float) for row in rows for cell in row):
        return None
    return _read_cells([[str(cell).strip() if isinstance(cell, str) else cell for cell in row] for row in rows])


def _read_cells(rows: list[list[Any]]) -> Any:
    """Return {name: value} for two columns, a list of objects for more or for a second column with a unit in its heading.

    Return None if rows differ in length, names are equal, or more than two columns have no header.
    """
    width = len(rows[0])
    if width < 2 or any(len(row) != width for row in rows):
        return None
    has_header = not any(_has_number(cell) for cell in rows[0]) and all(
        any(_has_number(cell) for cell in row) for row in rows[1:]
    )
    if width == 2 and not (has_header and units.find_dimension(_find_unit_of_heading(str(rows[0][1])))):
        names = [str(row[0]) for row in rows]
        if len(set(names)) == len(names) and all(re.search(r"[^\W\d]", name) for name in names):
            body = rows[1:] if has_header and len(rows) > 2 else rows
            return {str(name): value for name, value in body}
        return None
    header = [str(cell) for cell in rows[0]]
    if not has_header or len(set(header)) != width:
        return None
    objects = [dict(zip(header, row, strict=True)) for row in rows[1:]]
    return objects if len(objects) > 1 else objects[0]


def _read_header_and_row(header: str, row: str) -> dict[str, str] | None:
    """Return {heading: cell} of two lines with as many cells, whatever separates them, None for other lines."""
    for separator in ("\t", "|", ";", ","):
        names, cells = ([cell.strip() for cell in line.strip("|").split(separator)] for line in (header, row))
        is_header = all(
            re.search(r"[^\W\d]", name) and not _has_number(name) and len(name.split()) < 5 for name in names
        )
        if (
            len(names) == len(cells) > 1
            and is_header
            and len(set(names)) == len(names)
            and all(map(_has_number, cells))  # a row with a name is read as one of a table
        ):
            return dict(zip(names, cells, strict=True))
    return None


def _find_unit_of_heading(heading: str) -> str:
    """Return what is in brackets or after a stroke or comma at the end of a heading: "mg" of "mass (mg)", else ""."""
    match = re.search(r"[(\[/,]\s*([^()\[\]]{1,12})[)\]]?\s*$", heading)
    return match[1].strip() if match else ""


def _has_number(cell: Any) -> bool:
    return not isinstance(cell, str) or re.search(r"(?<![A-Za-z\d])\d", cell) is not None


def _read_text(text: str) -> Any:
    """Return the table or the fields that a text consists of, None if it is prose."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    if len(lines) == 2 and (row := _read_header_and_row(*lines)) is not None:
        return row
    if "|" not in text:
        return None
    if len(lines) == 1:
        fields = [_FIELD.fullmatch(part) for part in text.split("|")]
        if len(fields) > 1 and all(fields) and len({match[1] for match in fields if match}) == len(fields):
            return {match[1]: match[2].strip() for match in fields if match}
        return None
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not _RULE.fullmatch(line)]
    # Longer tables in texts are read with their rows as scopes of claims.
    return _read_cells(rows) if len(rows) > 1 and len(rows[0]) == 2 else None
