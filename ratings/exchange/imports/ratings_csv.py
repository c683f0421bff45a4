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

from ratings.blinding.pseudonyms import replace_invisible
from ratings.exchange.imports import json_lines
from ratings.exchange.imports.json_lines import (
    MAX_BYTES,
    MAX_LINE_LENGTH,
    Problem,
    RecordProblem,
    create_recorder,
    format_quoted,
    has_hidden_characters,
)
from ratings.exchange.rating_tables import (
    CANNOT_JUDGE_WORDS,
    NO_WORDS,
    YES_WORDS,
    detect_separator,
    normalise_verdict,
    restore_cell,
)

REQUIRED_COLUMNS = ("item", "rater", "verdict", "confidence")
OPTIONAL_COLUMNS = ("submitted_at", "seconds", "note", "simulated")
MAX_ROWS = 10_000
MAX_NOTE_LENGTH = 4_000
_YES = (
    *YES_WORDS,
    "p",
    "s",
)  # short for plausible and sufficient; here, unlike in `long_csv`, they cannot be names of categories
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_ITEM_CODE = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_EARLIEST_TIME = datetime(2000, 1, 1, tzinfo=UTC)


class ParsedRow(NamedTuple):
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


class ParsedTable(NamedTuple):
    """The valid rows, the problems of the others, and the numbers of rows left out (not counted, no item)."""

    rows: list[ParsedRow]
    problems: list[Problem]
    left_out: int = 0
    nameless: int = 0


def parse_ratings_csv(stream: BinaryIO, now: datetime) -> ParsedTable:
    """Parse the file into a table, without comparing it with a study."""
    problems: list[Problem] = []
    rows: list[ParsedRow] = []
    left_out = nameless = 0
    try:
        # the order matters: rows that are left out may be incomplete without being a problem
        for line, cells in _iter_cells(_decode_file(stream)):
            if _is_not_counted(cells):
                left_out += 1
                continue
            if _has_no_item(cells):
                nameless += 1
                continue
            n_before = len(problems)
            row = _parse_row(line, cells, now, create_recorder(problems, line))
            if len(problems) == n_before:
                rows.append(row)
    except _UnreadableTable as problem:
        problems.append(Problem(problem.line, "", str(problem)))
    if not rows and not problems:
        message = "it has no row that counts and names its item"
        problems.append(Problem(0, "", message if left_out or nameless else "the table has no rows"))
    return ParsedTable(rows, problems + _find_contradicting_rows(rows), left_out, nameless)


def _is_not_counted(cells: Mapping[str, str]) -> bool:
    return _is_exported(cells) and cells.get("counts", "").strip() == "0"


def _has_no_item(cells: Mapping[str, str]) -> bool:
    imported = cells.get("imported", "").strip() == "1"
    return _is_exported(cells) and imported and not cells.get("item", "").strip()


def _is_exported(cells: Mapping[str, str]) -> bool:
    """Return whether the table is an export of ratings."""
    # both names are needed: in tables of other tools, a common name such as `counts` could mean anything
    return "occasion" in cells and "surplus" in cells


def _find_contradicting_rows(rows: Iterable[ParsedRow]) -> list[Problem]:
    """Return problems for rows that contradict an earlier row on whether their rater is simulated."""
    first_rows: dict[str, ParsedRow] = {}
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


class _UnreadableTable(ValueError):  # noqa: N818  # ends the parsing and becomes a Problem
    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def _decode_file(stream: BinaryIO) -> str:
    # one byte more than allowed, to see whether there is more
    raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise _UnreadableTable(0, f"larger than {MAX_BYTES // 1024**2} MiB")
    try:
        json_lines.check_is_text(raw)
        return raw.decode("utf-8-sig")
    except json_lines.FileError as problem:
        raise _UnreadableTable(0, str(problem)) from problem
    except UnicodeDecodeError as problem:
        raise _UnreadableTable(raw.count(b"\n", 0, problem.start) + 1, "not UTF-8") from problem


def _iter_cells(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    first_line = text.partition("\n")[0]
    lines = _LimitedLines(io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=detect_separator(first_line), strict=True)
    names: list[str] = []
    n_rows = 0
    try:
        for row in reader:
            lines.start_row()
            if not any(cell.strip() for cell in row):
                continue
            if not names:
                names = _parse_column_names(reader.line_num, row)
                continue
            if (n_rows := n_rows + 1) > MAX_ROWS:
                raise _UnreadableTable(0, f"more than {MAX_ROWS:,} rows")
            if len(row) > len(names):
                raise _UnreadableTable(reader.line_num, f"has {len(row)} cells, the first line {len(names)}")
            yield reader.line_num, dict(zip(names, map(restore_cell, row), strict=False))
    except csv.Error as problem:
        message = _CELL_TOO_LONG_MESSAGE if "field limit" in str(problem) else f"not a table: {problem}"
        raise _UnreadableTable(lines.begun, message) from problem
    if not names:
        raise _UnreadableTable(0, "the file is empty")


_CELL_TOO_LONG_MESSAGE = (
    f"a cell is longer than {csv.field_size_limit():,} characters; perhaps the quotation mark that ends it is missing"
)


class _LimitedLines:
    """The lines of a table. Raises _UnreadableTable if a row is too long."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self._number = self._length = 0
        self.begun = 1

    def start_row(self) -> None:
        self.begun, self._length = self._number + 1, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self._number, self._length = self._number + 1, self._length + len(line)
            # a missing quotation mark turns the rest of the file into one cell, and the csv reader needs much more
            # memory for it than the text has
            if self._length > MAX_LINE_LENGTH:
                raise _UnreadableTable(self.begun, f"a row is longer than {MAX_LINE_LENGTH // 1024} KiB")
            yield line


def _parse_column_names(line: int, row: list[str]) -> list[str]:
    column_names = [cell.strip().casefold().replace(" ", "_") for cell in row]
    if missing := [name for name in REQUIRED_COLUMNS if name not in column_names]:
        raise _UnreadableTable(line, f"the first line must name the columns; missing: {', '.join(missing)}")
    if duplicates := [name for name in (*REQUIRED_COLUMNS, *OPTIONAL_COLUMNS) if column_names.count(name) > 1]:
        raise _UnreadableTable(line, f"the column {duplicates[0]} appears twice")
    return column_names


def _parse_row(line: int, cells: Mapping[str, str], now: datetime, note: RecordProblem) -> ParsedRow:
    for name, cell in cells.items():
        if _UNSTORABLE.search(cell):
            note(name[:80], "contains the character NUL or half a surrogate pair")
    # our own export writes an empty verdict and 1 in `cannot_judge`
    is_unsure = not cells.get("verdict", "").strip() and cells.get("cannot_judge", "").strip() == "1"
    verdict, judged = _parse_verdict(CANNOT_JUDGE_WORDS[0] if is_unsure else cells.get("verdict", ""), note)
    item = _parse_name("item", cells, note)
    return ParsedRow(
        line=line,
        # codes are compared as text, and some tools write them in capitals
        item=item.lower() if _ITEM_CODE.fullmatch(item) else item,
        rater=_parse_name("rater", cells, note),
        verdict=verdict,
        confidence=_parse_confidence(cells.get("confidence", ""), judged, note),
        submitted_at=_parse_time(cells.get("submitted_at", ""), now, note),
        seconds=_parse_seconds(cells.get("seconds", ""), note),
        note=_parse_note(cells.get("note", ""), note),
        simulated=_parse_simulated(cells.get("simulated", ""), note),
    )


def _parse_name(name: str, cells: Mapping[str, str], note: RecordProblem) -> str:
    text = cells.get(name, "").strip()
    if not 0 < len(text) <= 120:
        note(name, f"is {format_quoted(text)}; it must have 1 to 120 characters")
    elif has_hidden_characters(text):
        note(name, f"is {format_quoted(text)}; it must not contain control characters or line breaks")
    return text


def _parse_verdict(text: str, note: RecordProblem) -> tuple[bool | None, bool | None]:
    """Return the verdict (None: cannot judge) and whether there is one. Both are None if the text is not valid."""
    word = normalise_verdict(text)
    if word in _YES or word in NO_WORDS:
        return word in _YES, True
    if word not in CANNOT_JUDGE_WORDS:
        note(
            "verdict",
            f"is {format_quoted(text)}; allowed: 1 or 0, plausible or not plausible, sufficient or not, cannot judge",
        )
        return None, None
    return None, False


def _parse_confidence(text: str, judged: bool | None, note: RecordProblem) -> int | None:
    text = normalise_verdict(text)
    if text in ("1", "2", "3", "4", "5") and judged:
        return int(text)
    if judged:
        note("confidence", f"is {format_quoted(text)}; it must be 1, 2, 3, 4 or 5")
    elif text and judged is False:
        note("confidence", f"is {format_quoted(text)}; it must be empty if the rater could not judge")
    return None


def _parse_time(text: str, now: datetime, note: RecordProblem) -> datetime | None:
    """Return a time with its zone; without a zone it is read as UTC."""
    if not text.strip():
        return None
    try:
        time = datetime.fromisoformat(text.strip())
        time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        note("submitted_at", f"is {format_quoted(text)}; it must have the form 2026-03-01T14:05:00+00:00")
        return None
    # a day of tolerance for clocks and times without a zone
    if not _EARLIEST_TIME <= time <= now + timedelta(days=1):
        note("submitted_at", f"is {format_quoted(text)}; it must be between 2000 and now")
        return None
    return time


def _parse_seconds(text: str, note: RecordProblem) -> float:
    if not text.strip():
        return 0.0
    try:
        seconds = math.nan if "_" in text else float(text)  # Python would read 1_000 as 1000
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 10**6:
        note("seconds", f"is {format_quoted(text)}; it must be a number from 0 to 1,000,000")
        return 0.0
    return seconds


def _parse_simulated(text: str, note: RecordProblem) -> bool | None:
    flag = text.strip()
    if flag not in ("0", "1", ""):
        note("simulated", f"is {format_quoted(text)}; it must be 1 for a simulated rater, 0 for others, or empty")
    return None if flag == "" else flag == "1"


def _parse_note(text: str, note: RecordProblem) -> str:
    if len(text) > MAX_NOTE_LENGTH:
        note("note", f"is longer than {MAX_NOTE_LENGTH:,} characters")
    return replace_invisible(text)
