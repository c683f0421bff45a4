"""Parse long tables of ratings from any tool (item, rater, verdict, ...): the whole table, or a list of all its problems.

An export of WetBench is recognised by its columns. Its rows that are not counted are left out and reported; second
occasions become repeats.
"""

import csv
import io
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ratings.exchange.tables.long_lines import EndError, File, Line, Problem, Reading, UnreadableError, shown
from ratings.exchange.tables.wordings import NO, WHOLE, YES, normal, wording
from ratings.stats import Ratings
from ratings.stats.localisation import Marked
from ratings.stats.table import ALL, Repeat, Row, build, natural

__all__ = ["LongTable", "Problem", "Reading", "UnreadableError", "read"]

NO_SOURCE = "no source given"  # for ratings without a source in a file where others have one
MOST_ADVISED = 10  # words in an advice; more do not fit on a command line anyone would type
_BINARY = {**dict.fromkeys(YES, 1), **dict.fromkeys(NO, 0)}


class LongTable(NamedTuple):
    """The content of a file.

    `left_out` counts the rows that are in no number, by reason. `notes` are further remarks for the user. `marked` lists
    the errors that raters detected; it is None if raters were not asked to mark rows, or if no error was rated.
    """

    table: Ratings
    repeats: tuple[Repeat, ...]
    left_out: Mapping[str, int]
    notes: tuple[str, ...]
    marked: tuple[Marked, ...] | None = None


def read(
    lines: Iterable[bytes],
    reading: Reading | None = None,
    source_name: Callable[[str, str], str] = lambda source, error: (
        source if error in ("", "none") else f"{source}, {error}"
    ),
) -> LongTable:
    """Return the ratings from the lines of a CSV file (UTF-8; commas, semicolons or tabs).

    Raises UnreadableError with all problems. `source_name` combines the columns source and perturbation of an export of
    WetBench into one name.
    """
    reading = reading or Reading()
    file = File(reading, source_name)
    try:
        file.take(lines)
    except EndError as stop:
        raise UnreadableError([*file.problems, stop.problem]) from stop
    first_lines = [line for line in file.lines if file.wants(line.rater)]
    file.problems += _unknown_raters(file, reading.raters)
    repeat_lines = [line for line in file.repeats if file.wants(line.rater)]
    scale = _scale([*first_lines, *repeat_lines], reading.categories)
    problems = [
        *file.problems,
        *scale.problems,
        *_twice(first_lines),
        *_twice(repeat_lines, again=True),
        *_two_minded(first_lines, file),
    ]
    if not first_lines and not problems:
        problems.append(_nothing(file))
    # references mean something only for yes and no
    references, late_problems = _references(first_lines, file) if scale.categories == (0, 1) else ({}, [])
    late_problems += _unread_marks(first_lines)
    if problems or late_problems:
        raise UnreadableError([*problems, *late_problems])
    default_source = NO_SOURCE if any(line.source for line in first_lines) else ALL
    rows = [_row(line, scale, references, default_source) for line in first_lines]
    ignored = ["references and truths are not used, because the verdicts are categories"] * (
        scale.categories != (0, 1) and any(line.truth or line.reference or line.perturbation for line in first_lines)
    )
    return LongTable(
        build(rows, scale.categories), _repeats(first_lines, repeat_lines, scale), file.left_out, (*scale.notes, *ignored),
        _marked(first_lines, rows, file.is_export),
    )  # fmt: skip


def _unread_marks(lines: Iterable[Line]) -> list[Problem]:
    return [
        Problem(line.number, "localised", f"is {shown(line.localised)}; it must be 1 or 0, true or false, or empty")
        for line in lines
        if line.localised and wording(line.localised) not in _BINARY
    ]


def _marked(lines: Sequence[Line], rows: Sequence[Row], ours: bool) -> tuple[Marked, ...] | None:
    """Return the detected errors, with whether a mark is on the planted location, or None if marks do not apply."""
    # An export records whether rows could be marked. For other files, a filled cell is the only evidence.
    marks_were_used = any(line.marks not in ("", "off") if ours else line.localised for line in lines)
    if not marks_were_used or all(row.reference != 0 for row in rows):
        return None
    return tuple(
        Marked(row.item, row.rater, row.source, bool(_BINARY[wording(line.localised)]) if line.localised else None)
        for line, row in zip(lines, rows, strict=True)
        if row.reference == 0 and row.verdict == 0
    )


def _nothing(file: File) -> Problem:
    message = "no row has a rating" + " by these raters" * bool(file.requested_raters)
    reasons = "; ".join(f"{reason} ({n:,})" for reason, n in file.left_out.items())
    return Problem(0, "", f"{message}; left out: {reasons}" if reasons else message)


class _Scale(NamedTuple):
    """The categories, and the category of each spelling of a verdict."""

    categories: tuple[Any, ...]
    of: Mapping[str, Any]
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()


def _scale(lines: Sequence[Line], declared: Sequence[str]) -> _Scale:
    spellings = Counter(line.verdict for line in lines if line.verdict)
    if declared:
        return _declared(lines, declared)
    binary = {text: _BINARY[wording(text)] for text in spellings if wording(text) in _BINARY}
    if len(binary) == len(spellings):
        return _Scale((0, 1), binary)
    other_words = {text: n for text, n in spellings.items() if text not in binary}
    if all(WHOLE.fullmatch(text) for text in spellings):
        numbers = {text: int(wording(text)) for text in spellings}
        return _Scale(tuple(sorted(set(numbers.values()))), numbers)
    # Mostly yes and no: the few other words are more likely typing errors than a third category.
    if set(binary.values()) == {0, 1} and 2 * sum(other_words.values()) < spellings.total():
        return _Scale((0, 1), binary, _strangers(lines, other_words))
    return _Scale(tuple(sorted(spellings, key=natural)), {text: text for text in spellings}, notes=_alike(spellings))


def _strangers(lines: Sequence[Line], others: Mapping[str, int]) -> list[Problem]:
    """Return a problem for each of the few words other than yes and no, with the option that declares them as categories."""
    advice = f"if it is a category of its own, {_advice(others)}"
    return [
        Problem(line.number, "verdict", f"is {shown(line.verdict)}, all other verdicts are yes or no; {advice}")
        for line in lines
        if line.verdict in others
    ]


def _advice(others: Mapping[str, int]) -> str:
    """Return the option to type, quoted for a shell: 0 and 1 for all words for no and yes, and each other word once."""
    spellings: dict[str, str] = {}
    for text in sorted(others, key=lambda text: (-others[text], text)):
        spellings.setdefault(wording(text), wording(text) if WHOLE.fullmatch(text) else text)
    if len(spellings) > MOST_ADVISED:
        return "declare 0, 1 and all other categories with --categories"
    names = ["0", "1", *sorted(spellings.values(), key=natural)]
    if all(WHOLE.fullmatch(name) for name in names):
        names.sort(key=int)
    buffer = io.StringIO()
    # the option is parsed as a CSV row: a category may contain a comma
    csv.writer(buffer, lineterminator="").writerow(names)
    text = buffer.getvalue()
    return f"use --categories{'=' if text.startswith('-') else ' '}{shlex.quote(text)}"


def _alike(found: Iterable[str]) -> list[str]:
    by_word: dict[str, list[str]] = {}
    for text in sorted(found):
        by_word.setdefault(text.casefold(), []).append(text)
    similar = [" and ".join(texts) for texts in by_word.values() if len(texts) > 1]
    return [f"counted as different categories: {names}" for names in similar]


def _declared(lines: Sequence[Line], declared: Sequence[str]) -> _Scale:
    texts = [" ".join(text.split()) for text in declared]
    words = [wording(text) for text in texts]
    if len(set(words)) < max(2, len(words)) or not all(words):
        message = f"the declared categories are {', '.join(texts)}; at least two different ones are needed"
        return _Scale((0, 1), {}, [Problem(0, "", message)])
    meanings = [_meant(word) for word in words]
    if len(set(meanings)) < len(meanings):
        value = 1 if meanings.count(1) > 1 else 0
        synonyms = " and ".join(text for text, meaning in zip(texts, meanings, strict=True) if meaning == value)
        message = f"the declared categories {synonyms} all mean {'yes' if value else 'no'}; declare only one of them"
        return _Scale((0, 1), {}, [Problem(0, "", message)])
    categories: tuple[Any, ...] = tuple(texts)
    if set(meanings) == {0, 1}:
        categories = (0, 1)
    elif all(WHOLE.fullmatch(text) for text in texts):
        categories = tuple(map(int, words))
    by_word = dict(zip(words, categories, strict=True))
    if {0, 1} <= set(meanings):  # then every word for yes and no belongs to one of them
        by_word |= {word: categories[meanings.index(value)] for word, value in _BINARY.items()}
    problems = [
        Problem(
            line.number, "verdict", f"is {shown(line.verdict)}; the declared categories are {', '.join(texts)}"[:200]
        )
        for line in lines
        if line.verdict and wording(line.verdict) not in by_word
    ]
    return _Scale(categories, {line.verdict: by_word.get(wording(line.verdict)) for line in lines}, problems)


def _twice(lines: Sequence[Line], again: bool = False) -> Iterator[Problem]:
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        first_number = seen.setdefault((line.item, line.rater), line.number)
        if first_number != line.number and line.item and line.rater:
            message = f"rater {line.rater} already rated item {line.item} in line {first_number}; each rater may rate an item once"
            if again:
                message = f"rater {line.rater} already rated item {line.item} again in line {first_number}; only one repeat is allowed"
            yield Problem(line.number, "", message)


def _two_minded(lines: Sequence[Line], file: File) -> Iterator[Problem]:
    """Yield a problem for each item with two sources, truths, references, perturbations or pairs."""
    first_lines: dict[str, Line] = {}
    columns = {"truth": file.truth_column, "source": file.source_column, "pair": "pair"}
    columns |= {name: name for name in ("reference", "perturbation")}
    for line in lines:
        first = first_lines.setdefault(line.item, line)
        for name, column in columns.items():
            value, first_value = getattr(line, name), getattr(first, name)
            if value != first_value and line.item and not (name == "truth" and _meant(value) == _meant(first_value)):
                message = (
                    f"is {shown(value)}, but {shown(first_value)} in line {first.number}, for the same item {line.item}"
                )
                yield Problem(line.number, column, message)


def _meant(text: str) -> int | str:
    """Return 1 or 0 for a word for yes or no, otherwise the normalised text."""
    return _BINARY.get(wording(text), wording(text))


class _Reference(NamedTuple):
    """A reference label as in Row.reference. `declared`: it is based only on a declared truth."""

    label: int | None
    declared: bool = False


_NO_REFERENCE = _Reference(None)
_REFERENCES: Mapping[str, _Reference] = {
    "planted": _Reference(0), "unperturbed": _Reference(1), "declared wrong": _Reference(0, True),
    "declared right": _Reference(1, True), "": _NO_REFERENCE,
}  # fmt: skip
_PERTURBATIONS: Mapping[str, _Reference] = {
    "none": _Reference(1), "unperturbed": _Reference(1), "obvious": _Reference(0), "subtle": _Reference(0),
    "type1": _Reference(0), "type2": _Reference(0), "": _NO_REFERENCE,
}  # fmt: skip
_TRUTHS: Mapping[str, _Reference] = {
    **{word: _Reference(label, True) for word, label in _BINARY.items()}, "": _NO_REFERENCE,
}  # fmt: skip
_Key = tuple[str, str, str]


def _references(lines: Sequence[Line], file: File) -> tuple[dict[_Key, _Reference], list[Problem]]:
    """Return the reference of each (reference, perturbation, truth) as written, and a problem for each unknown word.

    An export of WetBench states a reference (empty: not known). In other files the perturbation is used if it is stated,
    otherwise the truth.
    """
    columns: tuple[tuple[str, str, Mapping[str, _Reference], str], ...] = (
        ("reference", "reference", _REFERENCES, "planted, unperturbed, declared wrong, declared right, or empty"),
        ("perturbation", "perturbation", _PERTURBATIONS, "none, obvious, subtle, or empty"),
        ("truth", file.truth_column, _TRUTHS, "1 or 0, true or false, or empty"),
    )
    references: dict[_Key, _Reference] = {}
    unknown: dict[str, set[str]] = {name: set() for name, *_ in columns}
    # each combination once: a file has very few of them
    for key in {_key(line) for line in lines}:
        labels = [known.get(wording(text)) for text, (_, _, known, _) in zip(key, columns, strict=True)]
        for text, label, (name, *_) in zip(key, labels, columns, strict=True):
            if label is None:
                unknown[name].add(text)
        stated = labels[:1] if "reference" in file.column_index else labels[1:]
        references[key] = next(
            (label for label in stated if label is not None and label.label is not None), _NO_REFERENCE
        )
    problems = [
        Problem(line.number, column, f"is {shown(getattr(line, name))}; it must be {allowed}")
        for name, column, _, allowed in columns
        if unknown[name]
        for line in lines
        if getattr(line, name) in unknown[name]
    ]
    return references, problems


def _key(line: Line) -> _Key:
    return line.reference, line.perturbation, line.truth


def _unknown_raters(file: File, raters: Sequence[str]) -> list[Problem]:
    unknown = sorted({name for name in raters if normal(name) not in file.raters})
    known = ", ".join(sorted(file.raters, key=natural))[:200]
    return [Problem(0, "rater", f"there is no rater {shown(name)}; the raters are {known}") for name in unknown]


def _row(line: Line, scale: _Scale, references: Mapping[_Key, _Reference], unnamed: str) -> Row:
    verdict, reference = scale.of[line.verdict], references.get(_key(line), _NO_REFERENCE)
    return Row(
        line.item, line.rater, verdict, line.confidence, reference.label, line.source or unnamed, line.pair,
        declared=reference.declared,
    )  # fmt: skip


def _repeats(own: Iterable[Line], again: Iterable[Line], scale: _Scale) -> tuple[Repeat, ...]:
    """Return both verdicts of every rater who judged an item on both occasions."""
    first_by_key = {(line.item, line.rater): line for line in own}
    return tuple(
        Repeat(line.item, line.rater, scale.of[earlier.verdict], scale.of[line.verdict])
        for line in again
        if (earlier := first_by_key.get((line.item, line.rater)))
    )
