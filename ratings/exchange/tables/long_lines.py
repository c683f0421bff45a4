"""The lines of a long table of ratings as they are taken in: cells, names, flags. Every problem has its line and column."""

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
MISSING = ("na", "n/a", "nan", "null", "none")  # what tools write into a cell without a value
LONGEST_NAME = 200
_OURS = ("counts", "occasion", "surplus", "cannot_judge", "imported")  # all of them: a file of export_ratings
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")


class Problem(NamedTuple):
    """What is wrong in which line (0: the whole file) and which column of it ("": all of the line)."""

    line: int
    column: str
    said: str

    def __str__(self) -> str:
        line = f"line {self.line}" if self.line else "file"
        return f"{line}, column {self.column}: {self.said}" if self.column else f"{line}: {self.said}"


class UnreadableError(ValueError):
    """Nothing may be computed from the file; `problems` are all there are, in the order of its lines."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__("; ".join(map(str, self.problems[:3])))


@dataclass(frozen=True)
class Reading:
    """How to read a file. Columns that are named must be there; "" takes the usual one if there is one.

    `categories`: the verdicts that may occur, in order; without them binary wordings are 1 and 0, and other verdicts the
    categories observed. `raters`: only theirs.
    """

    truth: str = ""
    source: str = ""
    categories: Sequence[str] = ()
    raters: Sequence[str] = ()


class Line(NamedTuple):
    """One row that has a verdict, as it was written."""

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
    """No further line can be read."""

    def __init__(self, line: int, said: str, column: str = "") -> None:
        super().__init__(said)
        self.problem = Problem(line, column, said)


class File:
    """The lines of one file as they are taken in, and what is wrong with the others."""

    def __init__(self, reading: Reading, source_name: Callable[[str, str], str]) -> None:
        self.reading, self.source_name = reading, source_name
        self.problems: list[Problem] = []
        self.lines: list[Line] = []
        self.second: list[Line] = []  # occasions of our own export
        self.left_out: Counter[str] = Counter()
        self.raters: set[str] = set()  # of all rows, those without a judgement too
        self.wanted = {normal(name) for name in reading.raters}
        self.declared = {wording(name) for name in reading.categories}
        self.truth_column = _folded(reading.truth) or "truth"
        self.source_column = _folded(reading.source) or "source"
        self._kept: dict[str, str] = {}  # as written: normal; one object, as a million rows name few items and raters
        self._good: set[str] = set()

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
        return not self.wanted or rater in self.wanted

    def _head(self, number: int, header: Sequence[str]) -> None:
        names = [_folded(_cell(name)) for name in header]
        self.width = len(names)
        asked = [_folded(name) for name in (self.reading.truth, self.reading.source) if name]
        if missing := [name for name in (*NEEDED, *asked) if name not in names]:
            found = ", ".join(filter(None, names))[:200]
            said = f"the first line must name the columns; missing: {', '.join(missing)}; it names: {found}"
            raise EndError(number, said, missing[0])
        known = (
            *NEEDED,
            *asked,
            "confidence",
            "truth",
            "source",
            "pair",
            "perturbation",
            "reference",
            "localised",
            *_OURS,
        )
        if twice := [name for name in known if names.count(name) > 1]:
            raise EndError(number, "this column stands there twice", twice[0])
        self.place = {name: at for at, name in enumerate(names) if name}
        self.ours = all(name in self.place for name in _OURS)
        self.errors = "perturbation" in self.place and not self.reading.source

    def _take(self, number: int, cells: Sequence[str]) -> None:
        flags = {name: self._flag(number, name, cells) for name in _OURS} if self.ours else {}
        verdict = " ".join(normal(self._text("verdict", cells)).split())
        rater = self._once(self._text("rater", cells))
        if rater:
            self.raters.add(rater)
        line = reason = None
        if self.ours and flags["imported"] and not self._text("item", cells):
            reason = "imported ratings, whose items the blinded export withholds"
        elif flags.get("cannot_judge") or (verdict.casefold() in CANNOT and wording(verdict) not in self.declared):
            reason = UNJUDGED
        else:
            line = self._line(number, cells, verdict)
        if line and (not self.ours or flags["counts"]):
            self.lines.append(line)
        elif line and flags["occasion"] == 2:
            self.second.append(line)
            reason = "second ratings by the same rater, read only for agreement with oneself"
        elif line and flags["surplus"]:
            reason = "surplus: the item had its ratings already"
        elif line:
            reason = "given after their place was taken back"
        if reason and self.wants(rater):
            self.left_out[reason] += 1

    def _line(self, number: int, cells: Sequence[str], verdict: str) -> Line:
        source = self._text(self.source_column, cells)
        if self.errors and source:
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
            marks=self._once(self._text("marks", cells)) if self.ours else "",
        )

    def _verdict(self, number: int, text: str) -> str:
        """The verdict; "" where it is none, which is told."""
        said = "leave rows without a rating out, or write: cannot judge"
        if not text:
            said = f"is empty; {said}"
        elif len(text) > LONGEST_NAME:
            said = f"is {shown(text)}; it must have 1 to {LONGEST_NAME} characters"
        elif text.casefold() in MISSING and wording(text) not in self.declared:
            said = f"is {shown(text)}; {said}; if it is a category of its own, declare all of them by --categories"
        else:
            return text
        self.problems.append(Problem(number, "verdict", said))
        return ""

    def _text(self, name: str, cells: Sequence[str]) -> str:
        at = self.place.get(name)
        return "" if at is None else _cell(cells[at])

    def _named(self, number: int, name: str, cells: Sequence[str]) -> str:
        written = self._text(name, cells)
        text = self._once(written)
        if text in self._good:
            return text
        if not 0 < len(text) <= LONGEST_NAME:
            said = f"is {shown(written)}; it must have 1 to {LONGEST_NAME} characters"
            self.problems.append(Problem(number, name, said))
        elif any(unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in text):
            said = f"is {shown(written)}; it must not hold control characters or line breaks"
            self.problems.append(Problem(number, name, said))
        else:
            self._good.add(text)
        return text

    def _once(self, text: str) -> str:
        found = self._kept.get(text)
        if found is None:
            found = self._kept[text] = normal(text)
        return found

    def _confidence(self, number: int, cells: Sequence[str]) -> int | None:
        text = self._text("confidence", cells)
        if not text:
            return None
        whole = WHOLE.fullmatch(text)
        if not whole or not 1 <= int(whole[1]) <= 5:
            said = f"is {shown(text)}; it must be 1, 2, 3, 4 or 5, or empty"
            self.problems.append(Problem(number, "confidence", said))
            return None
        return int(whole[1])

    def _flag(self, number: int, name: str, cells: Sequence[str]) -> int:
        text = self._text(name, cells)
        if text not in (("1", "2") if name == "occasion" else ("0", "1")):
            said = f"is {shown(text)}; in a file with the columns of export_ratings it must be a flag of theirs"
            self.problems.append(Problem(number, name, said))
            return 0
        return int(text)


def _rows(lines: Iterable[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Every row that is not blank, with the number of the line it begins in."""
    text = _decoded(lines)
    first = next(text, "")
    reader = csv.reader(_again(first, text), delimiter=separator(first), strict=True)
    begun = 1
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield begun, row
            begun = reader.line_num + 1
    except csv.Error as problem:
        if "new-line character" in str(problem):
            said = "the lines end in a bare carriage return; save the table as CSV with usual line ends"
            raise EndError(begun, said) from problem
        raise EndError(begun, f"not a table: {problem}") from problem


def _again(first: str, others: Iterator[str]) -> Iterator[str]:
    yield first
    yield from others


def _decoded(lines: Iterable[bytes]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if number == 1 and line.startswith(_PACKED):
            raise EndError(0, "this is a packed file or a workbook; save the table as CSV first")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as problem:
            said = f"not UTF-8 at byte {problem.start + 1}; save the table as CSV in UTF-8"
            raise EndError(number, said) from problem
        if "\0" in text:
            raise EndError(number, "holds the character NUL; save the table as CSV in UTF-8")
        yield text


def _cell(text: str) -> str:
    """Without the one apostrophe that an export puts before what a spreadsheet would take for a formula."""
    return as_written(text.strip()).strip()


def _folded(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


def shown(text: str) -> str:
    return repr(text)[:60]
