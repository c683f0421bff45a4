"""Parse the lines of a long table of ratings: cells, names, flags. Every problem has its line and column."""

import csv
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ratings.exchange.tables.spreadsheet_safe import restore_cell
from ratings.exchange.tables.verdict_words import (
    CANNOT_JUDGE_WORDS,
    WHOLE_NUMBER,
    detect_separator,
    normalise_unicode,
    normalise_verdict,
)

REQUIRED_COLUMNS = ("item", "rater", "verdict")
NOT_JUDGED_REASON = "could not be judged"
MISSING_VALUES = ("na", "n/a", "nan", "null", "none")  # what other tools write into a cell without a value
MAX_NAME_LENGTH = 200
_EXPORT_COLUMNS = (
    "counts",
    "occasion",
    "surplus",
    "cannot_judge",
    "imported",
)  # a file with all of them is from export_ratings
# first bytes of zip (also of workbooks), gzip, bzip2, xz, Zstandard, 7z and RAR files
_PACKED_MAGIC = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")


class Problem(NamedTuple):
    """A problem, with its line (0: the whole file) and column ("": the whole line)."""

    line: int
    column: str
    message: str

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else "file"
        return f"{line}, column {self.column}: {self.message}" if self.column else f"{line}: {self.message}"


class UnreadableError(ValueError):
    """The file cannot be used at all. `problems` lists everything that is wrong, in the order of the lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("; ".join(map(str, self.problems[:3])))


@dataclass(frozen=True)
class ReadingOptions:
    """Options for a file. Columns named here must exist; "" uses the default column if there is one.

    `categories` are the possible verdicts in order. Without them, words for yes and no become 1 and 0, and other verdicts
    become the categories that occur. `raters` restricts the ratings to these raters.
    """

    truth: str = ""
    source: str = ""
    categories: Sequence[str] = ()
    raters: Sequence[str] = ()


class RatingLine(NamedTuple):
    """A row with a verdict, as written in the file."""

    number: int
    item: str
    rater: str
    verdict: str
    confidence: int | None
    truth: str
    source: str
    pair: str
    reference: str = ""
    perturbation: str = ""
    localised: str = ""
    marks: str = ""


class ParsingStoppedError(ValueError):
    """No further line can be parsed."""

    def __init__(self, line: int, message: str, column: str = "") -> None:
        super().__init__(message)
        self.problem = Problem(line, column, message)


class RatingLines:
    """The parsed lines of one file, and the problems of the others."""

    def __init__(self, options: ReadingOptions, source_name: Callable[[str, str], str]) -> None:
        self.options, self.source_name = options, source_name
        self.problems: list[Problem] = []
        self.lines: list[RatingLine] = []
        self.repeats: list[RatingLine] = []  # second occasions in an export of WetBench
        self.left_out: Counter[str] = Counter()
        self.raters: set[str] = set()  # of all rows, including those without a verdict
        self.requested_raters = {normalise_unicode(name) for name in options.raters}
        self.declared = {normalise_verdict(name) for name in options.categories}
        self.truth_column = _normalise_column_name(options.truth) or "truth"
        self.source_column = _normalise_column_name(options.source) or "source"
        # text as written -> normalised text. A million rows name few items and raters: keep one string for each.
        self._normalised: dict[str, str] = {}
        self._valid_names: set[str] = set()  # names are checked once, not on every row

    def parse_lines(self, lines: Iterable[bytes]) -> None:
        rows = _iter_rows(lines)
        number, header = next(rows, (0, []))
        if not number:
            raise ParsingStoppedError(0, "the file is empty")
        self._parse_header(number, header)
        for number, cells in rows:
            if len(cells) < self.width or any(cell.strip() for cell in cells[self.width :]):
                self.problems.append(
                    Problem(number, "", f"has {len(cells)} cell{'s' * (len(cells) != 1)}, the first line {self.width}")
                )
            else:
                self._parse_cells(number, cells)

    def is_requested(self, rater: str) -> bool:
        return not self.requested_raters or rater in self.requested_raters

    def _parse_header(self, number: int, header: Sequence[str]) -> None:
        names = [_normalise_column_name(_clean_cell(name)) for name in header]
        self.width = len(names)
        requested_columns = [_normalise_column_name(name) for name in (self.options.truth, self.options.source) if name]
        if missing := [name for name in (*REQUIRED_COLUMNS, *requested_columns) if name not in names]:
            existing = ", ".join(filter(None, names))[:200]
            message = f"the first line must name the columns; missing: {', '.join(missing)}; it names: {existing}"
            raise ParsingStoppedError(number, message, missing[0])
        known_columns = (
            *REQUIRED_COLUMNS,
            *requested_columns,
            "confidence",
            "truth",
            "source",
            "pair",
            "perturbation",
            "reference",
            "localised",
            *_EXPORT_COLUMNS,
        )
        if duplicates := [name for name in known_columns if names.count(name) > 1]:
            raise ParsingStoppedError(number, "this column appears twice", duplicates[0])
        self.column_index = {name: index for index, name in enumerate(names) if name}
        self.is_export = all(name in self.column_index for name in _EXPORT_COLUMNS)
        self.has_error_types = "perturbation" in self.column_index and not self.options.source

    def _parse_cells(self, number: int, cells: Sequence[str]) -> None:
        flags = {name: self._parse_flag(number, name, cells) for name in _EXPORT_COLUMNS} if self.is_export else {}
        verdict = " ".join(normalise_unicode(self._get_text("verdict", cells)).split())
        rater = self._normalise_once(self._get_text("rater", cells))
        if rater:
            self.raters.add(rater)
        # every row ends as a line that counts, as a repeat, or under a reason for leaving it out
        line = reason = None
        if self.is_export and flags["imported"] and not self._get_text("item", cells):
            reason = "imported ratings, whose items are not in the blinded export"
        elif flags.get("cannot_judge") or (
            verdict.casefold() in CANNOT_JUDGE_WORDS and normalise_verdict(verdict) not in self.declared
        ):
            reason = NOT_JUDGED_REASON
        else:
            line = self._parse_line(number, cells, verdict)
        if line and (not self.is_export or flags["counts"]):
            self.lines.append(line)
        elif line and flags["occasion"] == 2:
            self.repeats.append(line)
            reason = "repeats by the same rater, used only for test-retest agreement"
        elif line and flags["surplus"]:
            reason = "surplus: the item already had all its ratings"
        elif line:
            reason = "submitted after the item had been reassigned"
        if reason and self.is_requested(rater):
            self.left_out[reason] += 1

    def _parse_line(self, number: int, cells: Sequence[str], verdict: str) -> RatingLine:
        source = self._get_text(self.source_column, cells)
        if self.has_error_types and source:
            source = self.source_name(source, self._get_text("perturbation", cells) or "none")
        return RatingLine(
            number=number,
            item=self._parse_name(number, "item", cells),
            rater=self._parse_name(number, "rater", cells),
            verdict=self._parse_verdict(number, verdict),
            confidence=self._parse_confidence(number, cells),
            truth=self._get_text(self.truth_column, cells),
            source=self._normalise_once(source),
            pair=self._get_text("pair", cells),
            reference=self._normalise_once(self._get_text("reference", cells)),
            perturbation=self._normalise_once(self._get_text("perturbation", cells)),
            localised=self._get_text("localised", cells),
            marks=self._normalise_once(self._get_text("marks", cells)) if self.is_export else "",
        )

    def _parse_verdict(self, number: int, text: str) -> str:
        """Return the verdict, or "" after recording the problem."""
        message = "leave out rows without a rating, or write: cannot judge"
        if not text:
            message = f"is empty; {message}"
        elif len(text) > MAX_NAME_LENGTH:
            message = f"is {format_quoted(text)}; it must have 1 to {MAX_NAME_LENGTH} characters"
        elif text.casefold() in MISSING_VALUES and normalise_verdict(text) not in self.declared:
            message = f"is {format_quoted(text)}; {message}; if it is a category of its own, declare all categories with --categories"
        else:
            return text
        self.problems.append(Problem(number, "verdict", message))
        return ""

    def _get_text(self, name: str, cells: Sequence[str]) -> str:
        index = self.column_index.get(name)
        return "" if index is None else _clean_cell(cells[index])

    def _parse_name(self, number: int, name: str, cells: Sequence[str]) -> str:
        original = self._get_text(name, cells)
        text = self._normalise_once(original)
        if text in self._valid_names:
            return text
        if not 0 < len(text) <= MAX_NAME_LENGTH:
            message = f"is {format_quoted(original)}; it must have 1 to {MAX_NAME_LENGTH} characters"
            self.problems.append(Problem(number, name, message))
        # control, format, surrogate, and line and paragraph separator characters
        elif any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text):
            message = f"is {format_quoted(original)}; it must not contain control characters or line breaks"
            self.problems.append(Problem(number, name, message))
        else:
            self._valid_names.add(text)
        return text

    def _normalise_once(self, text: str) -> str:
        normalised = self._normalised.get(text)
        if normalised is None:
            normalised = self._normalised[text] = normalise_unicode(text)
        return normalised

    def _parse_confidence(self, number: int, cells: Sequence[str]) -> int | None:
        text = self._get_text("confidence", cells)
        if not text:
            return None
        whole = WHOLE_NUMBER.fullmatch(text)
        if not whole or not 1 <= int(whole[1]) <= 5:
            message = f"is {format_quoted(text)}; it must be 1, 2, 3, 4 or 5, or empty"
            self.problems.append(Problem(number, "confidence", message))
            return None
        return int(whole[1])

    def _parse_flag(self, number: int, name: str, cells: Sequence[str]) -> int:
        text = self._get_text(name, cells)
        if text not in (("1", "2") if name == "occasion" else ("0", "1")):
            message = (
                f"is {format_quoted(text)}; in a file with the columns of export_ratings it must be one of their flags"
            )
            self.problems.append(Problem(number, name, message))
            return 0
        return int(text)


def _iter_rows(lines: Iterable[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Yield every row that is not blank, with the number of its first line."""
    texts = _decode_lines(lines)
    # the first line decides the separator and is put back before the others
    first_line = next(texts, "")
    reader = csv.reader(_prepend_line(first_line, texts), delimiter=detect_separator(first_line), strict=True)
    first_number = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield first_number, row
            first_number = reader.line_num + 1
    except csv.Error as problem:
        if "new-line character" in str(problem):
            message = "the lines end in a bare carriage return; save the table as CSV with usual line ends"
            raise ParsingStoppedError(first_number, message) from problem
        raise ParsingStoppedError(first_number, f"not a table: {problem}") from problem


def _prepend_line(first: str, others: Iterator[str]) -> Iterator[str]:
    yield first
    yield from others


def _decode_lines(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if number == 1 and line.startswith(_PACKED_MAGIC):
            raise ParsingStoppedError(0, "this is a compressed file or a workbook; save the table as CSV first")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as problem:
            message = f"not UTF-8 at byte {problem.start + 1}; save the table as CSV in UTF-8"
            raise ParsingStoppedError(number, message) from problem
        if "\0" in text:
            raise ParsingStoppedError(number, "contains the character NUL; save the table as CSV in UTF-8")
        yield text


def _clean_cell(text: str) -> str:
    """Return the text without the apostrophe with which an export protects cells from being read as formulas."""
    return restore_cell(text.strip()).strip()


def _normalise_column_name(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


def format_quoted(text: str) -> str:
    return repr(text)[:60]
