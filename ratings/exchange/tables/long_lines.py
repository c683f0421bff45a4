"""Parse the lines of a long table of ratings: cells, names, flags. Every problem has its line and column."""

import csv
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ratings.exchange.tables.cells import as_written
from ratings.exchange.tables.wordings import CANNOT, WHOLE, normal, separator, wording

NEEDED = ("item", "rater", "verdict")
UNJUDGED = "could not be judged"
MISSING = ("na", "n/a", "nan", "null", "none")  # what other tools write into a cell without a value
LONGEST_NAME = 200
_OURS = ("counts", "occasion", "surplus", "cannot_judge", "imported")  # a file with all of them is from export_ratings
# first bytes of zip (also of workbooks), gzip, bzip2, xz, Zstandard, 7z and RAR files
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")


class Problem(NamedTuple):
    """A problem, with its line (0: the whole file) and column ("": the whole line)."""

    line: int
    column: str
    said: str

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else "file"
        return f"{line}, column {self.column}: {self.said}" if self.column else f"{line}: {self.said}"


class UnreadableError(ValueError):
    """The file cannot be used at all. `problems` lists everything that is wrong, in the order of the lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("; ".join(map(str, self.problems[:3])))


@dataclass(frozen=True)
class Reading:
    """Options for a file. Columns named here must exist; "" uses the default column if there is one.

    `categories` are the possible verdicts in order. Without them, words for yes and no become 1 and 0, and other verdicts
    become the categories that occur. `raters` restricts the ratings to these raters.
    """

    truth: str = ""
    source: str = ""
    categories: Sequence[str] = ()
    raters: Sequence[str] = ()


class Line(NamedTuple):
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


class EndError(ValueError):
    """No further line can be parsed."""

    def __init__(self, line: int, said: str, column: str = "") -> None:
        super().__init__(said)
        self.problem = Problem(line, column, said)


class File:
    """The parsed lines of one file, and the problems of the others."""

    def __init__(self, reading: Reading, source_name: Callable[[str, str], str]) -> None:
        self.options, self.source_name = reading, source_name
        self.problems: list[Problem] = []
        self.lines: list[Line] = []
        self.repeats: list[Line] = []  # second occasions in an export of WetBench
        self.left_out: Counter[str] = Counter()
        self.raters: set[str] = set()  # of all rows, including those without a verdict
        self.requested_raters = {normal(name) for name in reading.raters}
        self.declared = {wording(name) for name in reading.categories}
        self.truth_column = _folded(reading.truth) or "truth"
        self.source_column = _folded(reading.source) or "source"
        # text as written -> normalised text. A million rows name few items and raters: keep one string for each.
        self._normalised: dict[str, str] = {}
        self._valid_names: set[str] = set()  # names are checked once, not on every row

    def take(self, lines: Iterable[bytes]) -> None:
        rows = _rows(lines)
        number, header = next(rows, (0, []))
        if not number:
            raise EndError(0, "the file is empty")
        self._head(number, header)
        for number, cells in rows:
            if len(cells) < self.width or any(cell.strip() for cell in cells[self.width :]):
                self.problems.append(
                    Problem(number, "", f"has {len(cells)} cell{'s' * (len(cells) != 1)}, the first line {self.width}")
                )
            else:
                self._take(number, cells)

    def wants(self, rater: str) -> bool:
        return not self.requested_raters or rater in self.requested_raters

    def _head(self, number: int, header: Sequence[str]) -> None:
        names = [_folded(_cell(name)) for name in header]
        self.width = len(names)
        requested_columns = [_folded(name) for name in (self.options.truth, self.options.source) if name]
        if missing := [name for name in (*NEEDED, *requested_columns) if name not in names]:
            existing = ", ".join(filter(None, names))[:200]
            message = f"the first line must name the columns; missing: {', '.join(missing)}; it names: {existing}"
            raise EndError(number, message, missing[0])
        known_columns = (
            *NEEDED,
            *requested_columns,
            "confidence",
            "truth",
            "source",
            "pair",
            "perturbation",
            "reference",
            "localised",
            *_OURS,
        )
        if duplicates := [name for name in known_columns if names.count(name) > 1]:
            raise EndError(number, "this column appears twice", duplicates[0])
        self.column_index = {name: index for index, name in enumerate(names) if name}
        self.is_export = all(name in self.column_index for name in _OURS)
        self.has_error_types = "perturbation" in self.column_index and not self.options.source

    def _take(self, number: int, cells: Sequence[str]) -> None:
        flags = {name: self._flag(number, name, cells) for name in _OURS} if self.is_export else {}
        verdict = " ".join(normal(self._text("verdict", cells)).split())
        rater = self._once(self._text("rater", cells))
        if rater:
            self.raters.add(rater)
        # every row ends as a line that counts, as a repeat, or under a reason for leaving it out
        line = reason = None
        if self.is_export and flags["imported"] and not self._text("item", cells):
            reason = "imported ratings, whose items are not in the blinded export"
        elif flags.get("cannot_judge") or (verdict.casefold() in CANNOT and wording(verdict) not in self.declared):
            reason = UNJUDGED
        else:
            line = self._line(number, cells, verdict)
        if line and (not self.is_export or flags["counts"]):
            self.lines.append(line)
        elif line and flags["occasion"] == 2:
            self.repeats.append(line)
            reason = "repeats by the same rater, used only for test-retest agreement"
        elif line and flags["surplus"]:
            reason = "surplus: the item already had all its ratings"
        elif line:
            reason = "submitted after the item had been reassigned"
        if reason and self.wants(rater):
            self.left_out[reason] += 1

    def _line(self, number: int, cells: Sequence[str], verdict: str) -> Line:
        source = self._text(self.source_column, cells)
        if self.has_error_types and source:
            source = self.source_name(source, self._text("perturbation", cells) or "none")
        return Line(
            number=number,
            item=self._named(number, "item", cells),
            rater=self._named(number, "rater", cells),
            verdict=self._verdict(number, verdict),
            confidence=self._confidence(number, cells),
            truth=self._text(self.truth_column, cells),
            source=self._once(source),
            pair=self._text("pair", cells),
            reference=self._once(self._text("reference", cells)),
            perturbation=self._once(self._text("perturbation", cells)),
            localised=self._text("localised", cells),
            marks=self._once(self._text("marks", cells)) if self.is_export else "",
        )

    def _verdict(self, number: int, text: str) -> str:
        """Return the verdict, or "" after recording the problem."""
        message = "leave out rows without a rating, or write: cannot judge"
        if not text:
            message = f"is empty; {message}"
        elif len(text) > LONGEST_NAME:
            message = f"is {shown(text)}; it must have 1 to {LONGEST_NAME} characters"
        elif text.casefold() in MISSING and wording(text) not in self.declared:
            message = (
                f"is {shown(text)}; {message}; if it is a category of its own, declare all categories with --categories"
            )
        else:
            return text
        self.problems.append(Problem(number, "verdict", message))
        return ""

    def _text(self, name: str, cells: Sequence[str]) -> str:
        index = self.column_index.get(name)
        return "" if index is None else _cell(cells[index])

    def _named(self, number: int, name: str, cells: Sequence[str]) -> str:
        original = self._text(name, cells)
        text = self._once(original)
        if text in self._valid_names:
            return text
        if not 0 < len(text) <= LONGEST_NAME:
            message = f"is {shown(original)}; it must have 1 to {LONGEST_NAME} characters"
            self.problems.append(Problem(number, name, message))
        # control, format, surrogate, and line and paragraph separator characters
        elif any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text):
            message = f"is {shown(original)}; it must not contain control characters or line breaks"
            self.problems.append(Problem(number, name, message))
        else:
            self._valid_names.add(text)
        return text

    def _once(self, text: str) -> str:
        normalised = self._normalised.get(text)
        if normalised is None:
            normalised = self._normalised[text] = normal(text)
        return normalised

    def _confidence(self, number: int, cells: Sequence[str]) -> int | None:
        text = self._text("confidence", cells)
        if not text:
            return None
        whole = WHOLE.fullmatch(text)
        if not whole or not 1 <= int(whole[1]) <= 5:
            message = f"is {shown(text)}; it must be 1, 2, 3, 4 or 5, or empty"
            self.problems.append(Problem(number, "confidence", message))
            return None
        return int(whole[1])

    def _flag(self, number: int, name: str, cells: Sequence[str]) -> int:
        text = self._text(name, cells)
        if text not in (("1", "2") if name == "occasion" else ("0", "1")):
            message = f"is {shown(text)}; in a file with the columns of export_ratings it must be one of their flags"
            self.problems.append(Problem(number, name, message))
            return 0
        return int(text)


def _rows(lines: Iterable[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Yield every row that is not blank, with the number of its first line."""
    texts = _decoded(lines)
    # the first line decides the separator and is put back before the others
    first_line = next(texts, "")
    reader = csv.reader(_again(first_line, texts), delimiter=separator(first_line), strict=True)
    first_number = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield first_number, row
            first_number = reader.line_num + 1
    except csv.Error as problem:
        if "new-line character" in str(problem):
            message = "the lines end in a bare carriage return; save the table as CSV with usual line ends"
            raise EndError(first_number, message) from problem
        raise EndError(first_number, f"not a table: {problem}") from problem


def _again(first: str, others: Iterator[str]) -> Iterator[str]:
    yield first
    yield from others


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if number == 1 and line.startswith(_PACKED):
            raise EndError(0, "this is a compressed file or a workbook; save the table as CSV first")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as problem:
            message = f"not UTF-8 at byte {problem.start + 1}; save the table as CSV in UTF-8"
            raise EndError(number, message) from problem
        if "\0" in text:
            raise EndError(number, "contains the character NUL; save the table as CSV in UTF-8")
        yield text


def _cell(text: str) -> str:
    """Return the text without the apostrophe with which an export protects cells from being read as formulas."""
    return as_written(text.strip()).strip()


def _folded(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


def shown(text: str) -> str:
    return repr(text)[:60]
