"""Long tables of ratings from any tool (item, rater, verdict, ...), read strictly: all of one, or every problem in it.

Our own export is known by its columns: rows that count nowhere are left out and said, second occasions become repeats.
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

NO_SOURCE = "no source given"  # the source of ratings without one beside others that have one
MOST_ADVISED = 10  # words of an advice
_BINARY = {**dict.fromkeys(YES, 1), **dict.fromkeys(NO, 0)}


class LongTable(NamedTuple):
    """What a file holds. `left_out`: rows in no number, by reason. `notes`: what else the reader should be told. `marked`:
    the errors that were called, None where raters were asked for no marks or no error was rated."""

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
    """The ratings of a CSV file's lines (UTF-8; commas, semicolons or tabs). UnreadableError with every problem.

    `source_name` makes one name of the columns source and perturbation of our own export.
    """
    reading = reading or Reading()
    file = File(reading, source_name)
    try:
        file.take(lines)
    except EndError as end:
        raise UnreadableError([*file.problems, end.problem]) from end
    own = [line for line in file.lines if file.wants(line.rater)]
    file.problems += _unknown_raters(file, reading.raters)
    again = [line for line in file.second if file.wants(line.rater)]
    scale = _scale([*own, *again], reading.categories)
    problems = [
        *file.problems,
        *scale.problems,
        *_twice(own),
        *_twice(again, again=True),
        *_two_minded(own, file),
    ]
    if not own and not problems:
        problems.append(_nothing(file))
    references, wrong = _references(own, file) if scale.categories == (0, 1) else ({}, [])
    wrong += _unread_marks(own)
    if problems or wrong:
        raise UnreadableError([*problems, *wrong])
    unnamed = NO_SOURCE if any(line.source for line in own) else ALL
    rows = [_row(line, scale, references, unnamed) for line in own]
    ignored = ["references and truths are not used: the verdicts are categories"] * (
        scale.categories != (0, 1) and any(line.truth or line.reference or line.perturbation for line in own)
    )
    return LongTable(
        build(rows, scale.categories), _repeats(own, again, scale), file.left_out, (*scale.notes, *ignored),
        _marked(own, rows, file.ours),
    )  # fmt: skip


def _unread_marks(lines: Iterable[Line]) -> list[Problem]:
    return [
        Problem(line.number, "localised", f"is {shown(line.localised)}; it must be 1 or 0, true or false, or empty")
        for line in lines
        if line.localised and wording(line.localised) not in _BINARY
    ]


def _marked(lines: Sequence[Line], rows: Sequence[Row], ours: bool) -> tuple[Marked, ...] | None:
    """Return the errors that were called, with whether a mark hit the planted place; None where the question does not arise.

    Our own export says whether rows could be marked; of other files it is known where a cell says whether a mark hit.
    """
    asked = any(line.marks not in ("", "off") if ours else line.localised for line in lines)
    if not asked or all(row.reference != 0 for row in rows):
        return None
    return tuple(
        Marked(row.item, row.rater, row.source, bool(_BINARY[wording(line.localised)]) if line.localised else None)
        for line, row in zip(lines, rows, strict=True)
        if row.reference == 0 and row.verdict == 0
    )


def _nothing(file: File) -> Problem:
    said = "no row holds a rating" + " of these raters" * bool(file.wanted)
    reasons = "; ".join(f"{reason} ({n:,})" for reason, n in file.left_out.items())
    return Problem(0, "", f"{said}; left out: {reasons}" if reasons else said)


class _Scale(NamedTuple):
    """The categories and which of them each spelling of a verdict is."""

    categories: tuple[Any, ...]
    of: Mapping[str, Any]
    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()


def _scale(lines: Sequence[Line], declared: Sequence[str]) -> _Scale:
    found = Counter(line.verdict for line in lines if line.verdict)
    if declared:
        return _declared(lines, declared)
    binary = {text: _BINARY[wording(text)] for text in found if wording(text) in _BINARY}
    if len(binary) == len(found):
        return _Scale((0, 1), binary)
    others = {text: n for text, n in found.items() if text not in binary}
    if all(WHOLE.fullmatch(text) for text in found):
        numbers = {text: int(wording(text)) for text in found}
        return _Scale(tuple(sorted(set(numbers.values()))), numbers)
    if set(binary.values()) == {0, 1} and 2 * sum(others.values()) < found.total():
        return _Scale((0, 1), binary, _strangers(lines, others))
    return _Scale(tuple(sorted(found, key=natural)), {text: text for text in found}, notes=_alike(found))


def _strangers(lines: Sequence[Line], others: Mapping[str, int]) -> list[Problem]:
    """A few other words among yes and no are rather a slip than a third category; whoever means it can say so."""
    advice = f"if it is a category of its own, {_advice(others)}"
    return [
        Problem(line.number, "verdict", f"is {shown(line.verdict)}, the others are yes or no; {advice}")
        for line in lines
        if line.verdict in others
    ]


def _advice(others: Mapping[str, int]) -> str:
    """What to type, as a shell takes it: 0 and 1 for all wordings of no and yes, and each other word once."""
    named: dict[str, str] = {}
    for text in sorted(others, key=lambda text: (-others[text], text)):
        named.setdefault(wording(text), wording(text) if WHOLE.fullmatch(text) else text)
    if len(named) > MOST_ADVISED:
        return "declare 0, 1 and all the others by --categories"
    names = ["0", "1", *sorted(named.values(), key=natural)]
    if all(WHOLE.fullmatch(name) for name in names):
        names.sort(key=int)
    row = io.StringIO()
    csv.writer(row, lineterminator="").writerow(names)
    text = row.getvalue()
    return f"say --categories{'=' if text.startswith('-') else ' '}{shlex.quote(text)}"


def _alike(found: Iterable[str]) -> list[str]:
    by_word: dict[str, list[str]] = {}
    for text in sorted(found):
        by_word.setdefault(text.casefold(), []).append(text)
    alike = [" and ".join(texts) for texts in by_word.values() if len(texts) > 1]
    return [f"counted as different categories: {names}" for names in alike]


def _declared(lines: Sequence[Line], declared: Sequence[str]) -> _Scale:
    texts = [" ".join(text.split()) for text in declared]
    words = [wording(text) for text in texts]
    if len(set(words)) < max(2, len(words)) or not all(words):
        said = f"the declared categories are {', '.join(texts)}; they must be two or more different ones"
        return _Scale((0, 1), {}, [Problem(0, "", said)])
    meant = [_meant(word) for word in words]
    if len(set(meant)) < len(meant):
        one = 1 if meant.count(1) > 1 else 0
        same = " and ".join(text for text, own in zip(texts, meant, strict=True) if own == one)
        said = f"of the declared categories {same} are the same {'yes' if one else 'no'}; declare one of them"
        return _Scale((0, 1), {}, [Problem(0, "", said)])
    categories: tuple[Any, ...] = tuple(texts)
    if set(meant) == {0, 1}:
        categories = (0, 1)
    elif all(WHOLE.fullmatch(text) for text in texts):
        categories = tuple(map(int, words))
    of = dict(zip(words, categories, strict=True))
    if {0, 1} <= set(meant):  # any wording of yes and no is one of them
        of |= {word: categories[meant.index(one)] for word, one in _BINARY.items()}
    problems = [
        Problem(line.number, "verdict", f"is {shown(line.verdict)}; declared are {', '.join(texts)}"[:200])
        for line in lines
        if line.verdict and wording(line.verdict) not in of
    ]
    return _Scale(categories, {line.verdict: of.get(wording(line.verdict)) for line in lines}, problems)


def _twice(lines: Sequence[Line], again: bool = False) -> Iterator[Problem]:
    seen: dict[tuple[str, str], int] = {}
    for line in lines:
        before = seen.setdefault((line.item, line.rater), line.number)
        if before != line.number and line.item and line.rater:
            said = f"rater {line.rater} rated item {line.item} in line {before} already; each may rate an item once"
            if again:
                said = f"rater {line.rater} rated item {line.item} again in line {before} already; there is one second time"
            yield Problem(line.number, "", said)


def _two_minded(lines: Sequence[Line], file: File) -> Iterator[Problem]:
    """Yield a problem for each item with two sources, truths, references, perturbations or pairs."""
    about: dict[str, Line] = {}
    columns = {"truth": file.truth_column, "source": file.source_column, "pair": "pair"}
    columns |= {name: name for name in ("reference", "perturbation")}
    for line in lines:
        first = about.setdefault(line.item, line)
        for name, column in columns.items():
            own, before = getattr(line, name), getattr(first, name)
            if own != before and line.item and not (name == "truth" and _meant(own) == _meant(before)):
                said = f"is {shown(own)}, but {shown(before)} in line {first.number}, for the same item {line.item}"
                yield Problem(line.number, column, said)


def _meant(text: str) -> int | str:
    """1 or 0 where the text is a wording of it."""
    return _BINARY.get(wording(text), wording(text))


class _Reference(NamedTuple):
    """`label` as in Row.reference; `declared` where it rests on a declared truth alone."""

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

    Our own export states a reference (empty: not known). In other files the perturbation decides where it is stated, then
    the truth.
    """
    readers: tuple[tuple[str, str, Mapping[str, _Reference], str], ...] = (
        ("reference", "reference", _REFERENCES, "planted, unperturbed, declared wrong, declared right, or empty"),
        ("perturbation", "perturbation", _PERTURBATIONS, "none, obvious, subtle, or empty"),
        ("truth", file.truth_column, _TRUTHS, "1 or 0, true or false, or empty"),
    )
    found: dict[_Key, _Reference] = {}
    unknown: dict[str, set[str]] = {name: set() for name, *_ in readers}
    for key in {_key(line) for line in lines}:
        read = [known.get(wording(text)) for text, (_, _, known, _) in zip(key, readers, strict=True)]
        for text, one, (name, *_) in zip(key, read, readers, strict=True):
            if one is None:
                unknown[name].add(text)
        stated = read[:1] if "reference" in file.place else read[1:]
        found[key] = next((one for one in stated if one is not None and one.label is not None), _NO_REFERENCE)
    problems = [
        Problem(line.number, column, f"is {shown(getattr(line, name))}; it must be {allowed}")
        for name, column, _, allowed in readers
        if unknown[name]
        for line in lines
        if getattr(line, name) in unknown[name]
    ]
    return found, problems


def _key(line: Line) -> _Key:
    return line.reference, line.perturbation, line.truth


def _unknown_raters(file: File, raters: Sequence[str]) -> list[Problem]:
    unknown = sorted({name for name in raters if normal(name) not in file.raters})
    known = ", ".join(sorted(file.raters, key=natural))[:200]
    return [Problem(0, "rater", f"nobody is called {shown(name)}; the raters are {known}") for name in unknown]


def _row(line: Line, scale: _Scale, references: Mapping[_Key, _Reference], unnamed: str) -> Row:
    verdict, reference = scale.of[line.verdict], references.get(_key(line), _NO_REFERENCE)
    return Row(
        line.item, line.rater, verdict, line.confidence, reference.label, line.source or unnamed, line.pair,
        declared=reference.declared,
    )  # fmt: skip


def _repeats(own: Iterable[Line], again: Iterable[Line], scale: _Scale) -> tuple[Repeat, ...]:
    """Both answers of everyone who judged an item on both occasions."""
    first = {(line.item, line.rater): line for line in own}
    return tuple(
        Repeat(line.item, line.rater, scale.of[one.verdict], scale.of[line.verdict])
        for line in again
        if (one := first.get((line.item, line.rater)))
    )
