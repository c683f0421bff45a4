"""Reader studies in the file format of iMRMC, the FDA's program for multi-reader multi-case studies: written and read.

The format is that of the program's manual (section 4.1.1, didsr.github.io/iMRMC) and of the files in its repository,
DIDSR/iMRMC. Files written here were read back by `read` alone; they were not run in that program.

After free text and the sizes NR (readers), N0 (cases without a signal), N1 (with one) and NM (modalities) comes "BEGIN
DATA:", then a line "reader,case,modality,score" for each reading, and one "-1,case,truth,0 or 1" for each case.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from ratings.stats import Ratings
from ratings.stats.contrasts import gather_pool, is_repeated
from ratings.stats.table import REFERENCES, WITHOUT_ERROR, Row, build

BEGIN = "BEGIN DATA:"
TRUTH = "-1"
TRUTHS = (TRUTH, "truth")  # readers that mean the truth, to the program and to its R package
MODALITY = "rating"
ENCODED = "Identifiers are percent-encoded."
TOLD_AT_MOST = 20
PLAIN = " !#$&'()*+-./:;<=>?@[]^_`{|}~"  # besides letters and digits; no comma, quotation mark or percent sign


class Reading(NamedTuple):
    """What one reader said of one case; a higher score is more of the signal."""

    reader: str
    case: str
    modality: str
    score: float


class ReaderStudy(NamedTuple):
    """What a file holds: its free text, the truth of each case (1: with the signal), and the readings in the file's
    order."""

    description: tuple[str, ...]
    truth: Mapping[str, int]
    readings: tuple[Reading, ...]

    @property
    def modalities(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(reading.modality for reading in self.readings))

    def table(self, modality: str) -> Ratings:
        """The readings of one modality as ratings: the signed rating is the score with its sign turned.

        A case with the signal is an item with an error (reference 0). Sources are "signal" and "no signal". ValueError for a score that
        is no signed confidence, a whole number from 1 to 5 or from -5 to -1.
        """
        return build(self._row(reading) for reading in self.readings if reading.modality == modality)

    def _row(self, reading: Reading) -> Row:
        if abs(reading.score) not in (1, 2, 3, 4, 5):
            raise ValueError(f"the score {reading.score:g} is no confidence from 1 to 5 with a sign")
        signal = self.truth[reading.case]
        source = "signal" if signal else "no signal"
        return Row(reading.case, reading.reader, int(reading.score < 0), int(abs(reading.score)), 1 - signal, source)


class FormatError(ValueError):
    """A file that cannot be read; `problems` are sentences that name the lines, at most twenty."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)[:TOLD_AT_MOST]
        super().__init__("; ".join(self.problems))


def write(table: Ratings, source: str, modality: str = MODALITY) -> Iterator[str]:
    """The lines, each with its end, of the items of this error source (with the signal) and of all unperturbed items.

    The score is the signed rating with its sign turned: 5 is surely implausible, -5 surely plausible. Ratings without
    confidence are left out and counted in the free text.
    """
    whole = table.against_unperturbed(source)
    own = whole.where(np.isfinite(whole.signed))
    cases = np.unique(own.item)
    signal = own.item_reference[cases] == 0
    yield from (f"{line}\n" for line in _head(source, len(whole) - len(own), table.reference_name))
    yield f"NR: {len(np.unique(own.rater))}\nN0: {int((~signal).sum())}\nN1: {int(signal.sum())}\nNM: 1\n\n{BEGIN}\n"
    for case, is_signal in zip(cases, signal, strict=True):
        yield f"{TRUTH},{_identifier(own.items[case])},truth,{int(is_signal)}\n"
    named = _identifier(modality)
    readers = [_identifier(name) for name in own.raters]
    for rater, item, score in zip(own.rater, own.item, -own.signed, strict=True):
        yield f"{readers[rater]},{_identifier(own.items[item])},{named},{int(score)}\n"


def write_conditions(table: Ratings, of_item: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of a study in which readers read cases in two conditions, each a modality of the file.

    `of_item`: the condition, 1 or 2, of each item. Cases are those of the contrasts: versions of one thing with the same
    planted error, or every item where a rater has read several in one condition. A case is named by its first item. All
    items with a planted error are the signal. Ratings without a reference or a confidence are left out and counted in the
    free text.
    """
    condition = np.array([of_item.get(code, 0) for code in table.items], dtype=np.int64)[table.item]
    case = gather_pool(table).case
    if any(is_repeated(table.where(condition == which), case[condition == which]) for which in (1, 2)):
        case = table.item
    known = np.isfinite(table.signed) & (table.reference >= 0) & (condition > 0)
    own, case, condition = table.where(known), case[known], condition[known]
    cases, at = np.unique(case, return_index=True)
    names = {number: _identifier(own.items[own.item[place]]) for number, place in zip(cases, at, strict=True)}
    signal = own.reference[at] == 0
    yield from (f"{line}\n" for line in _head("all errors", len(table) - len(own), table.reference_name, _LEFT_OUT))
    yield f"NR: {len(np.unique(own.rater))}\nN0: {int((~signal).sum())}\nN1: {int(signal.sum())}\nNM: 2\n\n{BEGIN}\n"
    for number, is_signal in zip(cases, signal, strict=True):
        yield f"{TRUTH},{names[number]},truth,{int(is_signal)}\n"
    readers = [_identifier(name) for name in own.raters]
    for rater, number, which, score in zip(own.rater, case, condition, -own.signed, strict=True):
        yield f"{readers[rater]},{names[number]},condition {which},{int(score)}\n"


_NO_CONFIDENCE = "they have no confidence"
_LEFT_OUT = "they have no confidence or no reference"


def _head(source: str, left_out: int, reference_name: str, why: str = _NO_CONFIDENCE) -> Iterator[str]:
    yield "Expert ratings written by WetBench; not run in iMRMC."
    yield f"Signal: {_identifier(source)}, truth 1. No signal: {WITHOUT_ERROR[reference_name]}, truth 0."
    yield f"Reference: {REFERENCES[reference_name]}."
    yield "Score: confidence 1 to 5, negative where the verdict was plausible."
    yield f"Ratings left out because {why}: {left_out}"
    yield ENCODED


def _identifier(text: str) -> str:
    """Text that cannot be taken for a separator, a line end, or the truth's reader; spaces at its ends are kept."""
    signs = [quote(char, safe=PLAIN) for char in text]
    if text in TRUTHS or text != text.strip():
        for end in (0, -1):
            if len(signs[end]) == 1:  # not encoded yet
                signs[end] = f"%{ord(signs[end]):02X}"
    return "".join(signs)


def read(text: str) -> ReaderStudy:
    """The study of a file's text. FormatError with all problems found: nothing is made of a half-read file."""
    lines = text.splitlines()
    begins = [number for number, line in enumerate(lines) if line.rstrip(" ,\t") == BEGIN]
    if not begins:
        raise FormatError([f'there is no line "{BEGIN}"'])
    head = tuple(line.rstrip(" ,\t") for line in lines[: begins[0]])
    decode = ENCODED in head
    truth: dict[str, int] = {}
    readings: dict[tuple[str, str, str], Reading] = {}
    problems: list[str] = []
    for number, line in enumerate(lines[begins[0] + 1 :], begins[0] + 2):
        if line.strip(" ,\t"):
            problems += [f"line {number}: {problem}" for problem in _take(line, decode, truth, readings)]
    unknown = sorted({reading.case for reading in readings.values()} - truth.keys())
    problems += [f"case {case} has no truth" for case in unknown]
    if problems:
        raise FormatError(problems)
    return ReaderStudy(head, truth, tuple(readings.values()))


def _take(
    line: str, decode: bool, truth: dict[str, int], readings: dict[tuple[str, str, str], Reading]
) -> Iterator[str]:
    """Put one line where it belongs, or say what is wrong with it."""
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 4:
        yield f"{len(fields)} fields instead of reader, case, modality, score"
        return
    is_truth = fields[0] in TRUTHS
    reader, case, modality = (unquote(field) if decode else field for field in fields[:3])
    score = _number(fields[3])
    if score is None:
        yield f"the score {fields[3]!r} is no number"
    elif is_truth and score not in (0, 1):
        yield f"the truth of case {case} is {fields[3]}, not 0 or 1"
    elif is_truth and case in truth:
        yield f"the truth of case {case} is given again"
    elif is_truth:
        truth[case] = int(score)
    elif (reader, case, modality) in readings:
        yield f"reader {reader} has case {case} in modality {modality} again"
    else:
        readings[reader, case, modality] = Reading(reader, case, modality, score)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
