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
    PACKED_MAGIC,
    WHOLE_NUMBER,
    YES_WORDS,
    TableError,
    format_quoted,
    iter_rows,
    normalise_column,
    normalise_unicode,
    normalise_verdict,
    restore_cell,
)
from ratings.stats.detection import CalledError
from ratings.stats.ratings_table import ALL, RatingRecord, Ratings, RepeatedRating, build_ratings_table
from wetbench_site.text import format_count, natural_sort_key
from wetbench_site.validation import Problem

REQUIRED_COLUMNS = ("item", "rater", "verdict")
OPTIONAL_COLUMNS = ("confidence", "truth", "source", "pair", "perturbation", "reference", "localised")
NOT_JUDGED_REASON = "could not be judged"
MISSING_VALUES = ("na", "n/a", "nan", "null", "none")  # what other tools write into a cell without a value
MAX_NAME_LENGTH = 200
# A file with all of these columns is from export_ratings; each has a flag in every row.
_EXPORT_FLAGS = {"counts": "01", "occasion": "12", "surplus": "01", "cannot_judge": "01", "imported": "01"}


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

    @property
    def reference_key(self) -> tuple[str, str, str]:
        return self.reference, self.perturbation, self.truth


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
        self.truth_column = normalise_column(options.truth) or "truth"
        self.source_column = normalise_column(options.source) or "source"
        # text as written -> normalised text. A million rows name few items and raters: keep one string for each.
        self._normalised: dict[str, str] = {}
        self._valid_names: set[str] = set()  # names are checked once, not on every row

    def parse_lines(self, lines: Iterable[bytes]) -> None:
        rows = iter_rows(decode_lines(lines))
        number, header = next(rows, (0, []))
        if not number:
            raise TableError(0, "the file is empty")
        self._parse_header(number, header)
        for number, cells in rows:
            if len(cells) < self.width or any(cell.strip() for cell in cells[self.width :]):
                self._add_problem(number, "", f"has {format_count(len(cells), 'cell')}, the first line {self.width}")
            else:
                self._parse_cells(number, cells)

    def is_requested(self, rater: str) -> bool:
        return not self.requested_raters or rater in self.requested_raters

    def _add_problem(self, number: int, column: str, message: str) -> None:
        self.problems.append(Problem(number, column, message))

    def _parse_header(self, number: int, header: Sequence[str]) -> None:
        names = [normalise_column(_clean_cell(name)) for name in header]
        self.width = len(names)
        requested = [normalise_column(name) for name in (self.options.truth, self.options.source) if name]
        if missing := [name for name in (*REQUIRED_COLUMNS, *requested) if name not in names]:
            existing = ", ".join(filter(None, names))[:200]
            message = f"the first line must name the columns; missing: {', '.join(missing)}; it names: {existing}"
            raise TableError(number, message, missing[0])
        known = (*REQUIRED_COLUMNS, *requested, *OPTIONAL_COLUMNS, *_EXPORT_FLAGS)
        if duplicates := [name for name in known if names.count(name) > 1]:
            raise TableError(number, "this column appears twice", duplicates[0])
        self.column_index = {name: index for index, name in enumerate(names) if name}
        self.is_export = self.column_index.keys() >= _EXPORT_FLAGS.keys()
        self.has_error_types = "perturbation" in self.column_index and not self.options.source

    def _parse_cells(self, number: int, cells: Sequence[str]) -> None:
        flags = {name: self._parse_flag(number, name, cells) for name in _EXPORT_FLAGS} if self.is_export else {}
        verdict = " ".join(normalise_unicode(self._get_text("verdict", cells)).split())
        rater = self._normalise_once(self._get_text("rater", cells))
        if rater:
            self.raters.add(rater)
        is_undeclared = normalise_verdict(verdict) not in self.declared
        # every row ends as a line that counts, as a repeat, or under a reason for leaving it out
        line = reason = None
        if self.is_export and flags["imported"] and not self._get_text("item", cells):
            reason = "imported ratings, whose items are not in the blinded export"
        elif flags.get("cannot_judge") or (verdict.casefold() in CANNOT_JUDGE_WORDS and is_undeclared):
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
        source, perturbation, reference, marks = (
            self._normalise_once(self._get_text(name, cells))
            for name in (self.source_column, "perturbation", "reference", "marks")
        )
        if self.has_error_types and source:
            source = self._normalise_once(self.source_name(source, perturbation or "none"))
        return RatingLine(
            number=number,
            item=self._parse_name(number, "item", cells),
            rater=self._parse_name(number, "rater", cells),
            verdict=self._parse_verdict(number, verdict),
            confidence=self._parse_confidence(number, cells),
            truth=self._get_text(self.truth_column, cells),
            source=source,
            pair=self._get_text("pair", cells),
            reference=reference,
            perturbation=perturbation,
            localised=self._get_text("localised", cells),
            marks=marks if self.is_export else "",
        )

    def _parse_verdict(self, number: int, text: str) -> str:
        """Return the verdict, or "" after recording the problem."""
        advice = "leave out rows without a rating, or write: cannot judge"
        if not text:
            message = f"is empty; {advice}"
        elif len(text) > MAX_NAME_LENGTH:
            message = f"is {format_quoted(text)}; it must have 1 to {MAX_NAME_LENGTH} characters"
        elif text.casefold() in MISSING_VALUES and normalise_verdict(text) not in self.declared:
            option = "if it is a category of its own, declare all categories with --categories"
            message = f"is {format_quoted(text)}; {advice}; {option}"
        else:
            return text
        self._add_problem(number, "verdict", message)
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
            self._add_problem(number, name, message)
        # control, format, surrogate, and line and paragraph separator characters
        elif any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") for character in text):
            message = f"is {format_quoted(original)}; it must not contain control characters or line breaks"
            self._add_problem(number, name, message)
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
        whole = WHOLE_NUMBER.fullmatch(text)
        if whole and 1 <= int(whole[1]) <= 5:
            return int(whole[1])
        if text:
            self._add_problem(number, "confidence", f"is {format_quoted(text)}; it must be 1, 2, 3, 4 or 5, or empty")
        return None

    def _parse_flag(self, number: int, name: str, cells: Sequence[str]) -> int:
        text = self._get_text(name, cells)
        if len(text) == 1 and text in _EXPORT_FLAGS[name]:
            return int(text)
        message = "in a file with the columns of export_ratings it must be one of their flags"
        self._add_problem(number, name, f"is {format_quoted(text)}; {message}")
        return 0


def decode_lines(lines: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines as text. Raises TableError for a compressed file, for another encoding than UTF-8, and for NUL."""
    for number, line in enumerate(lines, 1):
        if number == 1 and line.startswith(PACKED_MAGIC):
            raise TableError(0, "this is a compressed file or a workbook; save the table as CSV first")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            message = f"not UTF-8 at byte {error.start + 1}; save the table as CSV in UTF-8"
            raise TableError(number, message) from error
        if "\0" in text:
            raise TableError(number, "contains the character NUL; save the table as CSV in UTF-8")
        yield text


def _clean_cell(text: str) -> str:
    """Return the text without the apostrophe with which an export protects cells from being read as formulas."""
    return restore_cell(text.strip()).strip()


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
    except TableError as stop:
        raise UnreadableError([*file.problems, stop.problem]) from stop
    first_lines = [line for line in file.lines if file.is_requested(line.rater)]
    repeat_lines = [line for line in file.repeats if file.is_requested(line.rater)]
    scale = _detect_scale([*first_lines, *repeat_lines], options.categories)
    is_binary = scale.categories == (0, 1)
    problems = [
        *file.problems,
        *_find_unknown_raters(file, options.raters),
        *scale.problems,
        *_find_duplicate_ratings(first_lines),
        *_find_duplicate_ratings(repeat_lines, are_repeats=True),
        *_find_contradicting_lines(first_lines, file),
    ]
    if not first_lines and not problems:
        reasons = "; ".join(f"{reason} ({n:,})" for reason, n in file.left_out.items())
        message = "no row has a rating" + " by these raters" * bool(file.requested_raters)
        problems.append(Problem(0, "", f"{message}; left out: {reasons}" if reasons else message))
    # references apply only to verdicts of yes or no
    references, reference_problems = _resolve_references(first_lines, file) if is_binary else ({}, [])
    problems += [*reference_problems, *_find_invalid_marks(first_lines)]
    if problems:
        raise UnreadableError(problems)
    default_source = NO_SOURCE if any(line.source for line in first_lines) else ALL
    rows = [_build_row(line, scale, references, default_source) for line in first_lines]
    notes = list(scale.notes)
    if not is_binary and any(line.truth or line.reference or line.perturbation for line in first_lines):
        notes.append("references and truths are not used, because the verdicts are categories")
    repeats, marked = (
        _pair_repeats(first_lines, repeat_lines, scale),
        _list_marked_errors(first_lines, rows, file.is_export),
    )
    return LongTable(build_ratings_table(rows, scale.categories), repeats, file.left_out, tuple(notes), marked)


def _find_invalid_marks(lines: Iterable[RatingLine]) -> Iterator[Problem]:
    for line in lines:
        if line.localised and normalise_verdict(line.localised) not in _BINARY_VALUES:
            message = f"is {format_quoted(line.localised)}; it must be 1 or 0, true or false, or empty"
            yield Problem(line.number, "localised", message)


def _list_marked_errors(
    lines: Sequence[RatingLine], rows: Sequence[RatingRecord], is_export: bool
) -> tuple[CalledError, ...] | None:
    """Return the errors that raters detected, each with whether it was marked; None if marks do not apply."""
    # An export records whether rows could be marked. For other files, a filled cell is the only evidence.
    marks_were_used = any(line.marks not in ("", "off") if is_export else line.localised for line in lines)
    if not marks_were_used or all(row.reference != 0 for row in rows):
        return None
    localised = {word: bool(value) for word, value in _BINARY_VALUES.items()}
    return tuple(
        CalledError(row.item, row.rater, row.source, localised.get(normalise_verdict(line.localised)))
        for line, row in zip(lines, rows, strict=True)
        if row.reference == 0 and row.verdict == 0
    )


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
    meanings = {text: _BINARY_VALUES.get(normalise_verdict(text)) for text in spellings}
    binary = {text: meaning for text, meaning in meanings.items() if meaning is not None}
    if len(binary) == len(spellings):
        return _Scale((0, 1), binary)
    others = {text: n for text, n in spellings.items() if text not in binary}
    if all(WHOLE_NUMBER.fullmatch(text) for text in spellings):
        numbers = {text: int(normalise_verdict(text)) for text in spellings}
        return _Scale(tuple(sorted(set(numbers.values()))), numbers)
    # Mostly yes and no: the few other words are more likely typing errors than a third category.
    if set(binary.values()) == {0, 1} and 2 * sum(others.values()) < spellings.total():
        advice = f"all other verdicts are yes or no; if it is a category of its own, {_advise_categories(others)}"
        messages = [(line, f"is {format_quoted(line.verdict)}, {advice}") for line in lines if line.verdict in others]
        return _Scale((0, 1), binary, [Problem(line.number, "verdict", message) for line, message in messages])
    categories = tuple(sorted(spellings, key=natural_sort_key))
    by_word: dict[str, list[str]] = {}
    for text in sorted(spellings):
        by_word.setdefault(text.casefold(), []).append(text)
    similar = [" and ".join(texts) for texts in by_word.values() if len(texts) > 1]
    notes = [f"counted as different categories: {names}" for names in similar]
    return _Scale(categories, {text: text for text in spellings}, notes=notes)


def _advise_categories(others: Mapping[str, int]) -> str:
    """Return advice with the option to type, quoted for a shell: 0 (any no), 1 (any yes) and each other word once."""
    spellings: dict[str, str] = {}
    for text in sorted(others, key=lambda text: (-others[text], text)):
        word = normalise_verdict(text)
        spellings.setdefault(word, word if WHOLE_NUMBER.fullmatch(text) else text)
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


def _apply_declared_scale(lines: Sequence[RatingLine], declared: Sequence[str]) -> _Scale:
    texts = [" ".join(text.split()) for text in declared]
    words, meanings = [normalise_verdict(text) for text in texts], [_get_meaning(text) for text in texts]
    message = ""
    if len(set(words)) < max(2, len(words)) or not all(words):
        message = f"the declared categories are {', '.join(texts)}; at least two different ones are needed"
    elif len(set(meanings)) < len(meanings):
        value = 1 if meanings.count(1) > 1 else 0
        synonyms = " and ".join(text for text, meaning in zip(texts, meanings, strict=True) if meaning == value)
        message = f"the declared categories {synonyms} all mean {'yes' if value else 'no'}; declare only one of them"
    if message:
        return _Scale((0, 1), {}, [Problem(0, "", message)])
    categories: tuple[Any, ...] = tuple(texts)
    if set(meanings) == {0, 1}:
        categories = (0, 1)
    elif all(WHOLE_NUMBER.fullmatch(text) for text in texts):
        categories = tuple(map(int, words))
    by_word = dict(zip(words, categories, strict=True))
    if {0, 1} <= set(meanings):  # then every word for yes and no belongs to one of them
        by_word |= {word: categories[meanings.index(value)] for word, value in _BINARY_VALUES.items()}
    by_spelling = {line.verdict: by_word.get(normalise_verdict(line.verdict)) for line in lines}
    problems = []
    for line in lines:
        if line.verdict and normalise_verdict(line.verdict) not in by_word:
            message = f"is {format_quoted(line.verdict)}; the declared categories are {', '.join(texts)}"[:200]
            problems.append(Problem(line.number, "verdict", message))
    return _Scale(categories, by_spelling, problems)


def _find_duplicate_ratings(lines: Sequence[RatingLine], are_repeats: bool = False) -> Iterator[Problem]:
    again, rule = ("again ", "only one repeat is allowed") if are_repeats else ("", "each rater may rate an item once")
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        first = seen.setdefault((line.item, line.rater), line.number)
        if first != line.number and line.item and line.rater:
            message = f"rater {line.rater} already rated item {line.item} {again}in line {first}; {rule}"
            yield Problem(line.number, "", message)


def _find_contradicting_lines(lines: Sequence[RatingLine], file: RatingLines) -> Iterator[Problem]:
    """Yield a problem for each item with two sources, truths, references, perturbations or pairs."""
    first_lines: dict[str, RatingLine] = {}
    columns = {"truth": file.truth_column, "source": file.source_column, "pair": "pair"}
    columns |= {name: name for name in ("reference", "perturbation")}
    for line in lines:
        first = first_lines.setdefault(line.item, line)
        for name, column in columns.items() if line.item else ():
            value, other = getattr(line, name), getattr(first, name)
            if value == other or (name == "truth" and _get_meaning(value) == _get_meaning(other)):
                continue
            where = f"{format_quoted(other)} in line {first.number}, for the same item {line.item}"
            yield Problem(line.number, column, f"is {format_quoted(value)}, but {where}")


def _get_meaning(text: str) -> int | str:
    """Return 1 or 0 for a word for yes or no, otherwise the normalised text."""
    return _BINARY_VALUES.get(normalise_verdict(text), normalise_verdict(text))


_Reference = tuple[int | None, bool]  # a label as in RatingRecord.reference, and whether it is only a declared truth
_UNKNOWN: _Reference = (None, False)
# The labels of the words in each column that can state a reference, and these words in a message.
_LABELS: Mapping[str, tuple[Mapping[str, _Reference], str]] = {
    "reference": (
        {"planted": (0, False), "unperturbed": (1, False), "declared wrong": (0, True), "declared right": (1, True)},
        "planted, unperturbed, declared wrong, declared right, or empty",
    ),
    "perturbation": (
        dict.fromkeys(("none", "unperturbed"), (1, False))
        | dict.fromkeys(("obvious", "subtle", "type1", "type2"), (0, False)),
        "none, obvious, subtle, or empty",
    ),
    "truth": ({word: (label, True) for word, label in _BINARY_VALUES.items()}, "1 or 0, true or false, or empty"),
}
_ReferenceKey = tuple[str, str, str]


def _resolve_references(
    lines: Sequence[RatingLine], file: RatingLines
) -> tuple[dict[_ReferenceKey, _Reference], list[Problem]]:
    """Return the reference of each (reference, perturbation, truth), and a problem for each unknown word."""
    references: dict[_ReferenceKey, _Reference] = {}
    unknown: dict[str, set[str]] = {name: set() for name in _LABELS}
    # each combination once: a file has very few of them
    for key in {line.reference_key for line in lines}:
        labels = []
        for text, (name, (known, _)) in zip(key, _LABELS.items(), strict=True):
            word = normalise_verdict(text)
            if word and word not in known:
                unknown[name].add(text)
            labels.append(known.get(word, _UNKNOWN))
        stated = labels[:1] if "reference" in file.column_index else labels[1:]
        references[key] = next((label for label in stated if label != _UNKNOWN), _UNKNOWN)
    problems = []
    for name, (_, allowed) in _LABELS.items():
        column = file.truth_column if name == "truth" else name
        for line in lines if unknown[name] else ():
            if (text := getattr(line, name)) in unknown[name]:
                problems.append(Problem(line.number, column, f"is {format_quoted(text)}; it must be {allowed}"))
    return references, problems


def _find_unknown_raters(file: RatingLines, raters: Sequence[str]) -> list[Problem]:
    unknown = sorted({name for name in raters if normalise_unicode(name) not in file.raters})
    known = ", ".join(sorted(file.raters, key=natural_sort_key))[:200]
    return [Problem(0, "rater", f"there is no rater {format_quoted(name)}; the raters are {known}") for name in unknown]


def _build_row(
    line: RatingLine, scale: _Scale, references: Mapping[_ReferenceKey, _Reference], default_source: str
) -> RatingRecord:
    reference, declared = references.get(line.reference_key, _UNKNOWN)
    answer = scale.by_spelling[line.verdict], line.confidence, reference
    return RatingRecord(line.item, line.rater, *answer, line.source or default_source, line.pair, declared=declared)


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
