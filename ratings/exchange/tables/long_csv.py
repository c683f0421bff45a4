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

from ratings.exchange.tables.long_lines import (
    ParsingStoppedError,
    Problem,
    RatingLine,
    RatingLines,
    ReadingOptions,
    UnreadableError,
    format_quoted,
)
from ratings.exchange.tables.verdict_words import (
    NO_WORDS,
    WHOLE_NUMBER,
    YES_WORDS,
    normalise_unicode,
    normalise_verdict,
)
from ratings.stats import Ratings
from ratings.stats.localisation import CalledError
from ratings.stats.ratings_table import ALL, RatingRecord, RepeatedRating, build_ratings_table, natural_sort_key

__all__ = ["LongTable", "Problem", "ReadingOptions", "UnreadableError", "parse_long_csv"]

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
