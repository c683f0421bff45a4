"""A table of ratings collected elsewhere (CSV), read strictly: every problem with its line and column.

A study's own export is such a table: what it says of a rater who could not judge is understood, and ratings that it says
count nowhere (second showings, surplus, places taken back) are left out and counted. So are the imported ones of a
blinded export, which name no item.
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
_YES = (*YES, "p", "s")  # in a table for a study there is no category of that name
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_CODE = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)


class Row(NamedTuple):
    """One rating as the file has it. `verdict` and `confidence` are None where it could not be judged, `simulated` where
    the row does not say."""

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
    """Every row that can be used, what is wrong with others, and how many were left out: because they count nowhere, and
    because a blinded export does not say of which item they are."""

    rows: list[Row]
    problems: list[Problem]
    left_out: int = 0
    nameless: int = 0


def read(stream: BinaryIO, now: datetime) -> Table:
    """The table of a file, whatever a study holds."""
    problems: list[Problem] = []
    rows: list[Row] = []
    left_out = nameless = 0
    try:
        for line, cells in _cells(_text(stream)):
            if _counts_nowhere(cells):
                left_out += 1
                continue
            if _names_nothing(cells):
                nameless += 1
                continue
            before = len(problems)
            row = _row(line, cells, now, noting(problems, line))
            if len(problems) == before:
                rows.append(row)
    except _Unreadable as problem:
        problems.append(Problem(problem.line, "", str(problem)))
    if not rows and not problems:
        none = "none of its rows counts and names its item"
        problems.append(Problem(0, "", none if left_out or nameless else "the table has no rows"))
    return Table(rows, problems + _two_kinds(rows), left_out, nameless)


def _counts_nowhere(cells: Mapping[str, str]) -> bool:
    return _is_exported(cells) and cells.get("counts", "").strip() == "0"


def _names_nothing(cells: Mapping[str, str]) -> bool:
    imported = cells.get("imported", "").strip() == "1"
    return _is_exported(cells) and imported and not cells.get("item", "").strip()


def _is_exported(cells: Mapping[str, str]) -> bool:
    """A table with the columns of an export: `counts` alone could mean anything."""
    return "occasion" in cells and "surplus" in cells


def _two_kinds(rows: Iterable[Row]) -> list[Problem]:
    """Rows that say of a rater the other thing than the first row that says any."""
    first: dict[str, Row] = {}
    problems = []
    for row in rows:
        if row.simulated is None:
            continue
        earlier = first.setdefault(row.rater, row)
        if earlier.simulated != row.simulated:
            said = f"is {row.simulated:d} of {row.rater[:60]!r} and {earlier.simulated:d} on line {earlier.line}"
            problems.append(Problem(row.line, "simulated", f"{said}; it must be the same in all rows of a rater"))
    return problems


class _Unreadable(ValueError):  # noqa: N818  # ends the reading, is told as a Problem
    def __init__(self, line: int, said: str) -> None:
        super().__init__(said)
        self.line = line


def _text(stream: BinaryIO) -> str:
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
    first = text.partition("\n")[0]
    lines = _Lines(io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=separator(first), strict=True)
    names: list[str] = []
    count = 0
    try:
        for row in reader:
            lines.row_begins()
            if not any(cell.strip() for cell in row):
                continue
            if not names:
                names = _names(reader.line_num, row)
                continue
            if (count := count + 1) > MOST_ROWS:
                raise _Unreadable(0, f"more than {MOST_ROWS:,} rows")
            if len(row) > len(names):
                raise _Unreadable(reader.line_num, f"has {len(row)} cells, the first line {len(names)}")
            yield reader.line_num, dict(zip(names, map(as_written, row), strict=False))
    except csv.Error as problem:
        said = _CELL_TOO_LONG if "field limit" in str(problem) else f"not a table: {problem}"
        raise _Unreadable(lines.begun, said) from problem
    if not names:
        raise _Unreadable(0, "the file is empty")


_CELL_TOO_LONG = (
    f"a cell is longer than {csv.field_size_limit():,} characters; perhaps the quotation mark that ends it is missing"
)


class _Lines:
    """The lines of a table, as long as each row of it is of a length that can be a row: cells take more memory than text."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self._number = self._length = 0
        self.begun = 1

    def row_begins(self) -> None:
        self.begun, self._length = self._number + 1, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._number, self._length = self._number + 1, self._length + len(line)
            if self._length > LONGEST_LINE:
                raise _Unreadable(self.begun, f"a row is longer than {LONGEST_LINE // 1024} KiB")
            yield line


def _names(line: int, row: list[str]) -> list[str]:
    names = [cell.strip().casefold().replace(" ", "_") for cell in row]
    if missing := [name for name in NEEDED if name not in names]:
        raise _Unreadable(line, f"the first line must name the columns; missing: {', '.join(missing)}")
    if twice := [name for name in (*NEEDED, *OPTIONAL) if names.count(name) > 1]:
        raise _Unreadable(line, f"the column {twice[0]} stands there twice")
    return names


def _row(line: int, cells: Mapping[str, str], now: datetime, note: Note) -> Row:
    for name, cell in cells.items():
        if _UNSTORABLE.search(cell):
            note(name[:80], "holds the character NUL or half a surrogate pair")
    unsure = not cells.get("verdict", "").strip() and cells.get("cannot_judge", "").strip() == "1"
    verdict, judged = _verdict(CANNOT[0] if unsure else cells.get("verdict", ""), note)
    item = _named("item", cells, note)
    return Row(
        line=line,
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
        note(name, f"is {shown(text)}; it must not hold control characters or line breaks")
    return text


def _verdict(text: str, note: Note) -> tuple[bool | None, bool | None]:
    """The verdict, and whether there is one; None where nobody can tell."""
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
        note("confidence", f"is {shown(text)}; what cannot be judged has none")
    return None


def _moment(text: str, now: datetime, note: Note) -> datetime | None:
    """A time with its zone, or of UTC."""
    if not text.strip():
        return None
    try:
        moment = datetime.fromisoformat(text.strip())
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        note("submitted_at", f"is {shown(text)}; it must be like 2026-03-01T14:05:00+00:00")
        return None
    if not _EARLIEST <= moment <= now + timedelta(days=1):
        note("submitted_at", f"is {shown(text)}; it must lie between 2000 and now")
        return None
    return moment


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
    said = text.strip()
    if said not in ("0", "1", ""):
        note("simulated", f"is {shown(text)}; it must be 1 for a simulated rater, 0 for others, or empty")
    return None if said == "" else said == "1"


def _noted(text: str, note: Note) -> str:
    if len(text) > LONGEST_NOTE:
        note("note", f"is longer than {LONGEST_NOTE:,} characters")
    return visible(text)
