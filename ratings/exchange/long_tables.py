"""Parse long tables of ratings from any tool (item, rater, verdict, ...): the whole table, or a list of all its problems.

An export of WetBench is recognised by its columns. Its rows that are not counted are left out and reported; second
occasions become repeats.
"""

import csv
import io
import shlex
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ratings.exchange.rating_tables import (
    CANNOT_JUDGE_WORDS,
    NO_WORDS,
    WHOLE_NUMBER,
    YES_WORDS,
    detect_separator,
    normalise_unicode,
    normalise_verdict,
    restore_cell,
)
from ratings.stats import Ratings
from ratings.stats.detection import CalledError
from ratings.stats.ratings_table import ALL, RatingRecord, RepeatedRating, build_ratings_table, natural_sort_key

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


NO_SOURCE = "no source given"  # for ratings without a source in a file where others have one
MAX_ADVISED_WORDS = 10  # words in the advised option; more would make it too long to type
_BINARY_VALUES = {**dict.fromkeys(YES_WORDS, 1), **dict.fromkeys(NO_WORDS, 0)}


class LongTable(NamedTuple):
    """The content of a file.

    `left_out` is the number of rows that no result includes, by reason. `notes` are further remarks for the user. `marked` lists
    the errors that raters detected; it is None if raters were not asked to mark rows, or if no error was rated.
    """

    table: Ratings
    repeats: tuple[RepeatedRating, ...]
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    marked: tuple[CalledError, ...] | None = None


def parse_long_csv(
    lines: Iterable[bytes],
    options: ReadingOptions | None = None,
    source_name: Callable[[str, str], str] = lambda source, error: (
        source if error in ("", "none") else f"{source}, {error}"
    ),
) -> LongTable:
    """Return the ratings from the lines of a CSV file (UTF-8; commas, semicolons or tabs).

    Raises UnreadableError with all problems. `source_name` combines the columns source and perturbation of an export of
    WetBench into one name.
    """
    options = options or ReadingOptions()
    file = RatingLines(options, source_name)
    try:
        file.parse_lines(lines)
    except ParsingStoppedError as stop:
        raise UnreadableError([*file.problems, stop.problem]) from stop
    first_lines = [line for line in file.lines if file.is_requested(line.rater)]
    file.problems += _find_unknown_raters(file, options.raters)
    repeat_lines = [line for line in file.repeats if file.is_requested(line.rater)]
    scale = _detect_scale([*first_lines, *repeat_lines], options.categories)
    problems = [
        *file.problems,
        *scale.problems,
        *_find_duplicate_ratings(first_lines),
        *_find_duplicate_ratings(repeat_lines, are_repeats=True),
        *_find_contradicting_lines(first_lines, file),
    ]
    if not first_lines and not problems:
        problems.append(_describe_empty_table(file))
    # references apply only to verdicts of yes or no
    references, late_problems = _resolve_references(first_lines, file) if scale.categories == (0, 1) else ({}, [])
    late_problems += _find_invalid_marks(first_lines)
    if problems or late_problems:
        raise UnreadableError([*problems, *late_problems])
    default_source = NO_SOURCE if any(line.source for line in first_lines) else ALL
    rows = [_build_row(line, scale, references, default_source) for line in first_lines]
    ignored = ["references and truths are not used, because the verdicts are categories"] * (
        scale.categories != (0, 1) and any(line.truth or line.reference or line.perturbation for line in first_lines)
    )
    return LongTable(
        build_ratings_table(rows, scale.categories), _pair_repeats(first_lines, repeat_lines, scale), file.left_out, (*scale.notes, *ignored),
        _list_marked_errors(first_lines, rows, file.is_export),
    )  # fmt: skip


def _find_invalid_marks(lines: Iterable[RatingLine]) -> list[Problem]:
    return [
        Problem(
            line.number, "localised", f"is {format_quoted(line.localised)}; it must be 1 or 0, true or false, or empty"
        )
        for line in lines
        if line.localised and normalise_verdict(line.localised) not in _BINARY_VALUES
    ]


def _list_marked_errors(
    lines: Sequence[RatingLine], rows: Sequence[RatingRecord], is_export: bool
) -> tuple[CalledError, ...] | None:
    """Return the errors that raters detected, each with whether it was marked; None if marks do not apply."""
    # An export records whether rows could be marked. For other files, a filled cell is the only evidence.
    marks_were_used = any(line.marks not in ("", "off") if is_export else line.localised for line in lines)
    if not marks_were_used or all(row.reference != 0 for row in rows):
        return None
    return tuple(
        CalledError(
            row.item,
            row.rater,
            row.source,
            bool(_BINARY_VALUES[normalise_verdict(line.localised)]) if line.localised else None,
        )
        for line, row in zip(lines, rows, strict=True)
        if row.reference == 0 and row.verdict == 0
    )


def _describe_empty_table(file: RatingLines) -> Problem:
    message = "no row has a rating" + " by these raters" * bool(file.requested_raters)
    reasons = "; ".join(f"{reason} ({n:,})" for reason, n in file.left_out.items())
    return Problem(0, "", f"{message}; left out: {reasons}" if reasons else message)


class _Scale(NamedTuple):
    """The categories, and the category of each spelling of a verdict."""

    categories: tuple[Any, ...]
    by_spelling: Mapping[str, Any]
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()


def _detect_scale(lines: Sequence[RatingLine], declared: Sequence[str]) -> _Scale:
    spellings = Counter(line.verdict for line in lines if line.verdict)
    if declared:
        return _apply_declared_scale(lines, declared)
    binary = {
        text: _BINARY_VALUES[normalise_verdict(text)] for text in spellings if normalise_verdict(text) in _BINARY_VALUES
    }
    if len(binary) == len(spellings):
        return _Scale((0, 1), binary)
    other_words = {text: n for text, n in spellings.items() if text not in binary}
    if all(WHOLE_NUMBER.fullmatch(text) for text in spellings):
        numbers = {text: int(normalise_verdict(text)) for text in spellings}
        return _Scale(tuple(sorted(set(numbers.values()))), numbers)
    # Mostly yes and no: the few other words are more likely typing errors than a third category.
    if set(binary.values()) == {0, 1} and 2 * sum(other_words.values()) < spellings.total():
        return _Scale((0, 1), binary, _report_other_words(lines, other_words))
    return _Scale(
        tuple(sorted(spellings, key=natural_sort_key)),
        {text: text for text in spellings},
        notes=_note_similar_categories(spellings),
    )


def _report_other_words(lines: Sequence[RatingLine], others: Mapping[str, int]) -> list[Problem]:
    """Return a problem for each of the few words other than yes and no, with the option that declares them as categories."""
    advice = f"if it is a category of its own, {_advise_categories(others)}"
    return [
        Problem(line.number, "verdict", f"is {format_quoted(line.verdict)}, all other verdicts are yes or no; {advice}")
        for line in lines
        if line.verdict in others
    ]


def _advise_categories(others: Mapping[str, int]) -> str:
    """Return advice with the option to type, quoted for a shell: 0 (any no), 1 (any yes) and each other word once."""
    spellings: dict[str, str] = {}
    for text in sorted(others, key=lambda text: (-others[text], text)):
        spellings.setdefault(normalise_verdict(text), normalise_verdict(text) if WHOLE_NUMBER.fullmatch(text) else text)
    if len(spellings) > MAX_ADVISED_WORDS:
        return "declare 0, 1 and all other categories with --categories"
    names = ["0", "1", *sorted(spellings.values(), key=natural_sort_key)]
    if all(WHOLE_NUMBER.fullmatch(name) for name in names):
        names.sort(key=int)
    buffer = io.StringIO()
    # the option is parsed as a CSV row: a category may contain a comma
    csv.writer(buffer, lineterminator="").writerow(names)
    text = buffer.getvalue()
    return f"use --categories{'=' if text.startswith('-') else ' '}{shlex.quote(text)}"


def _note_similar_categories(categories: Iterable[str]) -> list[str]:
    by_word: dict[str, list[str]] = {}
    for text in sorted(categories):
        by_word.setdefault(text.casefold(), []).append(text)
    similar = [" and ".join(texts) for texts in by_word.values() if len(texts) > 1]
    return [f"counted as different categories: {names}" for names in similar]


def _apply_declared_scale(lines: Sequence[RatingLine], declared: Sequence[str]) -> _Scale:
    texts = [" ".join(text.split()) for text in declared]
    words = [normalise_verdict(text) for text in texts]
    if len(set(words)) < max(2, len(words)) or not all(words):
        message = f"the declared categories are {', '.join(texts)}; at least two different ones are needed"
        return _Scale((0, 1), {}, [Problem(0, "", message)])
    meanings = [_get_meaning(word) for word in words]
    if len(set(meanings)) < len(meanings):
        value = 1 if meanings.count(1) > 1 else 0
        synonyms = " and ".join(text for text, meaning in zip(texts, meanings, strict=True) if meaning == value)
        message = f"the declared categories {synonyms} all mean {'yes' if value else 'no'}; declare only one of them"
        return _Scale((0, 1), {}, [Problem(0, "", message)])
    categories: tuple[Any, ...] = tuple(texts)
    if set(meanings) == {0, 1}:
        categories = (0, 1)
    elif all(WHOLE_NUMBER.fullmatch(text) for text in texts):
        categories = tuple(map(int, words))
    by_word = dict(zip(words, categories, strict=True))
    if {0, 1} <= set(meanings):  # then every word for yes and no belongs to one of them
        by_word |= {word: categories[meanings.index(value)] for word, value in _BINARY_VALUES.items()}
    problems = [
        Problem(
            line.number,
            "verdict",
            f"is {format_quoted(line.verdict)}; the declared categories are {', '.join(texts)}"[:200],
        )
        for line in lines
        if line.verdict and normalise_verdict(line.verdict) not in by_word
    ]
    return _Scale(categories, {line.verdict: by_word.get(normalise_verdict(line.verdict)) for line in lines}, problems)


def _find_duplicate_ratings(lines: Sequence[RatingLine], are_repeats: bool = False) -> Iterator[Problem]:
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        first_number = seen.setdefault((line.item, line.rater), line.number)
        if first_number != line.number and line.item and line.rater:
            message = f"rater {line.rater} already rated item {line.item} in line {first_number}; each rater may rate an item once"
            if are_repeats:
                message = f"rater {line.rater} already rated item {line.item} again in line {first_number}; only one repeat is allowed"
            yield Problem(line.number, "", message)


def _find_contradicting_lines(lines: Sequence[RatingLine], file: RatingLines) -> Iterator[Problem]:
    """Yield a problem for each item with two sources, truths, references, perturbations or pairs."""
    first_lines: dict[str, RatingLine] = {}
    columns = {"truth": file.truth_column, "source": file.source_column, "pair": "pair"}
    columns |= {name: name for name in ("reference", "perturbation")}
    for line in lines:
        first = first_lines.setdefault(line.item, line)
        for name, column in columns.items():
            value, first_value = getattr(line, name), getattr(first, name)
            if (
                value != first_value
                and line.item
                and not (name == "truth" and _get_meaning(value) == _get_meaning(first_value))
            ):
                message = f"is {format_quoted(value)}, but {format_quoted(first_value)} in line {first.number}, for the same item {line.item}"
                yield Problem(line.number, column, message)


def _get_meaning(text: str) -> int | str:
    """Return 1 or 0 for a word for yes or no, otherwise the normalised text."""
    return _BINARY_VALUES.get(normalise_verdict(text), normalise_verdict(text))


class _Reference(NamedTuple):
    """A reference label as in RatingRecord.reference. `declared`: it is based only on a declared truth."""

    label: int | None
    declared: bool = False


_UNKNOWN_REFERENCE = _Reference(None)
_LABELS_OF_REFERENCE: Mapping[str, _Reference] = {
    "planted": _Reference(0), "unperturbed": _Reference(1), "declared wrong": _Reference(0, True),
    "declared right": _Reference(1, True), "": _UNKNOWN_REFERENCE,
}  # fmt: skip
_LABELS_OF_PERTURBATION: Mapping[str, _Reference] = {
    "none": _Reference(1), "unperturbed": _Reference(1), "obvious": _Reference(0), "subtle": _Reference(0),
    "type1": _Reference(0), "type2": _Reference(0), "": _UNKNOWN_REFERENCE,
}  # fmt: skip
_LABELS_OF_TRUTH: Mapping[str, _Reference] = {
    **{word: _Reference(label, True) for word, label in _BINARY_VALUES.items()}, "": _UNKNOWN_REFERENCE,
}  # fmt: skip
_ReferenceKey = tuple[str, str, str]


def _resolve_references(
    lines: Sequence[RatingLine], file: RatingLines
) -> tuple[dict[_ReferenceKey, _Reference], list[Problem]]:
    """Return the reference of each (reference, perturbation, truth) as written, and a problem for each unknown word.

    An export of WetBench states a reference (empty: not known). In other files the perturbation is used if it is stated,
    otherwise the truth.
    """
    columns: tuple[tuple[str, str, Mapping[str, _Reference], str], ...] = (
        (
            "reference",
            "reference",
            _LABELS_OF_REFERENCE,
            "planted, unperturbed, declared wrong, declared right, or empty",
        ),
        ("perturbation", "perturbation", _LABELS_OF_PERTURBATION, "none, obvious, subtle, or empty"),
        ("truth", file.truth_column, _LABELS_OF_TRUTH, "1 or 0, true or false, or empty"),
    )
    references: dict[_ReferenceKey, _Reference] = {}
    unknown: dict[str, set[str]] = {name: set() for name, *_ in columns}
    # each combination once: a file has very few of them
    for key in {_get_reference_key(line) for line in lines}:
        labels = [known.get(normalise_verdict(text)) for text, (_, _, known, _) in zip(key, columns, strict=True)]
        for text, label, (name, *_) in zip(key, labels, columns, strict=True):
            if label is None:
                unknown[name].add(text)
        stated = labels[:1] if "reference" in file.column_index else labels[1:]
        references[key] = next(
            (label for label in stated if label is not None and label.label is not None), _UNKNOWN_REFERENCE
        )
    problems = [
        Problem(line.number, column, f"is {format_quoted(getattr(line, name))}; it must be {allowed}")
        for name, column, _, allowed in columns
        if unknown[name]
        for line in lines
        if getattr(line, name) in unknown[name]
    ]
    return references, problems


def _get_reference_key(line: RatingLine) -> _ReferenceKey:
    return line.reference, line.perturbation, line.truth


def _find_unknown_raters(file: RatingLines, raters: Sequence[str]) -> list[Problem]:
    unknown = sorted({name for name in raters if normalise_unicode(name) not in file.raters})
    known = ", ".join(sorted(file.raters, key=natural_sort_key))[:200]
    return [Problem(0, "rater", f"there is no rater {format_quoted(name)}; the raters are {known}") for name in unknown]


def _build_row(
    line: RatingLine, scale: _Scale, references: Mapping[_ReferenceKey, _Reference], default_source: str
) -> RatingRecord:
    verdict, reference = scale.by_spelling[line.verdict], references.get(_get_reference_key(line), _UNKNOWN_REFERENCE)
    return RatingRecord(
        line.item, line.rater, verdict, line.confidence, reference.label, line.source or default_source, line.pair,
        declared=reference.declared,
    )  # fmt: skip


def _pair_repeats(
    first_lines: Iterable[RatingLine], repeat_lines: Iterable[RatingLine], scale: _Scale
) -> tuple[RepeatedRating, ...]:
    """Return both verdicts of every rater who judged an item on both occasions."""
    first_by_key = {(line.item, line.rater): line for line in first_lines}
    return tuple(
        RepeatedRating(line.item, line.rater, scale.by_spelling[earlier.verdict], scale.by_spelling[line.verdict])
        for line in repeat_lines
        if (earlier := first_by_key.get((line.item, line.rater)))
    )
