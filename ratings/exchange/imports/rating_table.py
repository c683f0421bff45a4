"""Parse a CSV table of ratings collected elsewhere. Every problem has its line and column.

A study's own export is such a table. Rows that the export marks as not counted (repeats, surplus ratings, reassigned
items) are left out and their number is reported, as are the imported rows of a blinded export, which name no item.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, NamedTuple

from ratings.blinding.naming import visible
from ratings.exchange.imports import import_lines
from ratings.exchange.imports.import_lines import LONGEST_LINE, MOST_BYTES, Note, Problem, hides, noting, shown
from ratings.exchange.tables.cells import as_written
from ratings.exchange.tables.wordings import CANNOT, NO, YES, separator, wording

NEEDED = ("item", "rater", "verdict", "confidence")
OPTIONAL = ("submitted_at", "seconds", "note", "simulated")
MOST_ROWS = 10_000
LONGEST_NOTE = 4_000
_YES = (
    *YES,
    "p",
    "s",
)  # short for plausible and sufficient; here, unlike in `long_csv`, they cannot be names of categories
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_CODE = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """One rating of the file. `verdict` and `confidence` are None if the rater could not judge, `simulated` if not stated."""

    line: int
    item: str
    rater: str
    verdict: bool | None
    confidence: int | None
    submitted_at: datetime | None
    seconds: float
    note: str
    simulated: bool | None


class Table(NamedTuple):
    """The valid rows, the problems of the others, and the number of rows left out: not counted, or without an item."""

    rows: list[Row]
    problems: list[Problem]
    left_out: int = 0
    nameless: int = 0


def read(stream: BinaryIO, now: datetime) -> Table:
    """Return the table of a file. It is not compared with any study."""
    problems: list[Problem] = []
    rows: list[Row] = []
    left_out = nameless = 0
    try:
        # the order matters: rows that are left out may be incomplete without being a problem
        for line, cells in _cells(_text(stream)):
            if _counts_nowhere(cells):
                left_out += 1
                continue
            if _names_nothing(cells):
                nameless += 1
                continue
            n_before = len(problems)
            row = _row(line, cells, now, noting(problems, line))
            if len(problems) == n_before:
                rows.append(row)
    except _Unreadable as problem:
        problems.append(Problem(problem.line, "", str(problem)))
    if not rows and not problems:
        message = "it has no row that counts and names its item"
        problems.append(Problem(0, "", message if left_out or nameless else "the table has no rows"))
    return Table(rows, problems + _two_kinds(rows), left_out, nameless)


def _counts_nowhere(cells: Mapping[str, str]) -> bool:
    return _is_exported(cells) and cells.get("counts", "").strip() == "0"


def _names_nothing(cells: Mapping[str, str]) -> bool:
    imported = cells.get("imported", "").strip() == "1"
    return _is_exported(cells) and imported and not cells.get("item", "").strip()


def _is_exported(cells: Mapping[str, str]) -> bool:
    """Return whether the table is an export of ratings."""
    # two columns: in tables from elsewhere, a column `counts` could mean anything
    return "occasion" in cells and "surplus" in cells


def _two_kinds(rows: Iterable[Row]) -> list[Problem]:
    """Return problems for rows that contradict an earlier row on whether their rater is simulated."""
    first_rows: dict[str, Row] = {}
    problems = []
    for row in rows:
        if row.simulated is None:
            continue
        earlier = first_rows.setdefault(row.rater, row)
        if earlier.simulated != row.simulated:
            contradiction = (
                f"is {row.simulated:d} for {row.rater[:60]!r}, but {earlier.simulated:d} on line {earlier.line}"
            )
            problems.append(
                Problem(row.line, "simulated", f"{contradiction}; it must be the same in all rows of a rater")
            )
    return problems


class _Unreadable(ValueError):  # noqa: N818  # ends the parsing and becomes a Problem
    def __init__(self, line: int, said: str) -> None:
        super().__init__(said)
        self.line = line


def _text(stream: BinaryIO) -> str:
    # one byte more than allowed, to see whether there is more
    raw = stream.read(MOST_BYTES + 1)
    if len(raw) > MOST_BYTES:
        raise _Unreadable(0, f"larger than {MOST_BYTES // 1024**2} MiB")
    try:
        import_lines.refuse_unless_text(raw)
        return raw.decode("utf-8-sig")
    except import_lines.FileError as problem:
        raise _Unreadable(0, str(problem)) from problem
    except UnicodeDecodeError as problem:
        raise _Unreadable(raw.count(b"\n", 0, problem.start) + 1, "not UTF-8") from problem


def _cells(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    first_line = text.partition("\n")[0]
    lines = _Lines(io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=separator(first_line), strict=True)
    names: list[str] = []
    n_rows = 0
    try:
        for row in reader:
            lines.row_begins()
            if not any(cell.strip() for cell in row):
                continue
            if not names:
                names = _names(reader.line_num, row)
                continue
            if (n_rows := n_rows + 1) > MOST_ROWS:
                raise _Unreadable(0, f"more than {MOST_ROWS:,} rows")
            if len(row) > len(names):
                raise _Unreadable(reader.line_num, f"has {len(row)} cells, the first line {len(names)}")
            yield reader.line_num, dict(zip(names, map(as_written, row), strict=False))
    except csv.Error as problem:
        message = _CELL_TOO_LONG if "field limit" in str(problem) else f"not a table: {problem}"
        raise _Unreadable(lines.begun, message) from problem
    if not names:
        raise _Unreadable(0, "the file is empty")


_CELL_TOO_LONG = (
    f"a cell is longer than {csv.field_size_limit():,} characters; perhaps the quotation mark that ends it is missing"
)


class _Lines:
    """The lines of a table. Raises _UnreadableTable if a row is longer than a row may be."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self._number = self._length = 0
        self.begun = 1

    def row_begins(self) -> None:
        self.begun, self._length = self._number + 1, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._number, self._length = self._number + 1, self._length + len(line)
            # a missing quotation mark turns the rest of the file into one cell, and the csv reader needs much more
            # memory for it than the text has
            if self._length > LONGEST_LINE:
                raise _Unreadable(self.begun, f"a row is longer than {LONGEST_LINE // 1024} KiB")
            yield line


def _names(line: int, row: list[str]) -> list[str]:
    column_names = [cell.strip().casefold().replace(" ", "_") for cell in row]
    if missing := [name for name in NEEDED if name not in column_names]:
        raise _Unreadable(line, f"the first line must name the columns; missing: {', '.join(missing)}")
    if duplicates := [name for name in (*NEEDED, *OPTIONAL) if column_names.count(name) > 1]:
        raise _Unreadable(line, f"the column {duplicates[0]} appears twice")
    return column_names


def _row(line: int, cells: Mapping[str, str], now: datetime, note: Note) -> Row:
    for name, cell in cells.items():
        if _UNSTORABLE.search(cell):
            note(name[:80], "contains the character NUL or half a surrogate pair")
    # our own export writes an empty verdict and 1 in `cannot_judge`
    is_unsure = not cells.get("verdict", "").strip() and cells.get("cannot_judge", "").strip() == "1"
    verdict, judged = _verdict(CANNOT[0] if is_unsure else cells.get("verdict", ""), note)
    item = _named("item", cells, note)
    return Row(
        line=line,
        # codes are compared as text, and some tools write them in capitals
        item=item.lower() if _CODE.fullmatch(item) else item,
        rater=_named("rater", cells, note),
        verdict=verdict,
        confidence=_confidence(cells.get("confidence", ""), judged, note),
        submitted_at=_moment(cells.get("submitted_at", ""), now, note),
        seconds=_seconds(cells.get("seconds", ""), note),
        note=_noted(cells.get("note", ""), note),
        simulated=_simulated(cells.get("simulated", ""), note),
    )


def _named(name: str, cells: Mapping[str, str], note: Note) -> str:
    text = cells.get(name, "").strip()
    if not 0 < len(text) <= 120:
        note(name, f"is {shown(text)}; it must have 1 to 120 characters")
    elif hides(text):
        note(name, f"is {shown(text)}; it must not contain control characters or line breaks")
    return text


def _verdict(text: str, note: Note) -> tuple[bool | None, bool | None]:
    """Return the verdict and whether there is one. Both are None if the text is not valid."""
    word = wording(text)
    if word in _YES or word in NO:
        return word in _YES, True
    if word not in CANNOT:
        note(
            "verdict", f"is {shown(text)}; allowed: 1 or 0, plausible or not plausible, sufficient or not, cannot judge"
        )
        return None, None
    return None, False


def _confidence(text: str, judged: bool | None, note: Note) -> int | None:
    text = wording(text)
    if text in ("1", "2", "3", "4", "5") and judged:
        return int(text)
    if judged:
        note("confidence", f"is {shown(text)}; it must be 1, 2, 3, 4 or 5")
    elif text and judged is False:
        note("confidence", f"is {shown(text)}; it must be empty if the rater could not judge")
    return None


def _moment(text: str, now: datetime, note: Note) -> datetime | None:
    """Return a time with its zone; without a zone it is read as UTC."""
    if not text.strip():
        return None
    try:
        time = datetime.fromisoformat(text.strip())
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        note("submitted_at", f"is {shown(text)}; it must have the form 2026-03-01T14:05:00+00:00")
        return None
    # a day of tolerance for clocks and times without a zone
    if not _EARLIEST <= time <= now + timedelta(days=1):
        note("submitted_at", f"is {shown(text)}; it must be between 2000 and now")
        return None
    return time


def _seconds(text: str, note: Note) -> float:
    if not text.strip():
        return 0.0
    try:
        seconds = math.nan if "_" in text else float(text)  # Python would read 1_000 as 1000
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 10**6:
        note("seconds", f"is {shown(text)}; it must be a number from 0 to 1,000,000")
        return 0.0
    return seconds


def _simulated(text: str, note: Note) -> bool | None:
    flag = text.strip()
    if flag not in ("0", "1", ""):
        note("simulated", f"is {shown(text)}; it must be 1 for a simulated rater, 0 for others, or empty")
    return None if flag == "" else flag == "1"


def _noted(text: str, note: Note) -> str:
    if len(text) > LONGEST_NOTE:
        note("note", f"is longer than {LONGEST_NOTE:,} characters")
    return visible(text)
