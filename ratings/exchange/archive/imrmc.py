"""Write and read reader studies in the file format of iMRMC, the FDA's program for multi-reader multi-case studies.

The format follows the program's manual (section 4.1.1, didsr.github.io/iMRMC) and the files in its repository,
DIDSR/iMRMC. Files written here were read back only by `parse_reader_study`; they were not run in that program.

A file starts with free text and the sizes NR (readers), N0 (cases without a signal), N1 (with one) and NM
(modalities). After "BEGIN DATA:" follow one line "reader,case,modality,score" for each reading and one
"-1,case,truth,0 or 1" for each case.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

import numpy as np

from ratings.stats import Ratings
from ratings.stats.contrasts import build_rating_pool, has_repeated_cases
from ratings.stats.ratings_table import REFERENCES, WITHOUT_ERROR, RatingRecord, build_ratings_table

BEGIN_LINE = "BEGIN DATA:"
TRUTH_READER = "-1"
TRUTH_READERS = (
    TRUTH_READER,
    "truth",
)  # reader names that mark a line as the truth, for the program and for its R package
DEFAULT_MODALITY = "rating"
ENCODING_NOTICE = "Identifiers are percent-encoded."
MAX_PROBLEMS = 20
UNQUOTED_CHARACTERS = (
    " !#$&'()*+-./:;<=>?@[]^_`{|}~"  # besides letters and digits; no comma, quotation mark or percent sign
)


class Reading(NamedTuple):
    """The score that one reader gave one case; a higher score means more evidence of the signal."""

    reader: str
    case: str
    modality: str
    score: float


class ReaderStudy(NamedTuple):
    """The content of a file: free text, the truth of each case (1: with the signal), and the readings in file order."""

    description: tuple[str, ...]
    truth: Mapping[str, int]
    readings: tuple[Reading, ...]

    @property
    def modality_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(reading.modality for reading in self.readings))

    def to_ratings(self, modality: str) -> Ratings:
        """Return the readings of one modality as ratings; the signed rating is minus the score.

        A case with the signal is an item with an error (reference 0). Sources are "signal" and "no signal". Raises
        ValueError for a score that is not a signed confidence, a whole number from 1 to 5 or from -5 to -1.
        """
        return build_ratings_table(
            self._build_rating_row(reading) for reading in self.readings if reading.modality == modality
        )

    def _build_rating_row(self, reading: Reading) -> RatingRecord:
        if abs(reading.score) not in (1, 2, 3, 4, 5):
            raise ValueError(f"the score {reading.score:g} is not a signed confidence from 1 to 5")
        signal = self.truth[reading.case]
        source = "signal" if signal else "no signal"
        return RatingRecord(
            reading.case, reading.reader, int(reading.score < 0), int(abs(reading.score)), 1 - signal, source
        )


class FormatError(ValueError):
    """A file that cannot be parsed. `problems` are sentences with line numbers, at most twenty."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)[:MAX_PROBLEMS]
        super().__init__("; ".join(self.problems))


def format_source_study(table: Ratings, source: str, modality: str = DEFAULT_MODALITY) -> Iterator[str]:
    """Yield the lines of a file, with line ends, for one error source (with the signal) and all unperturbed items.

    The score is minus the signed rating: 5 is surely implausible, -5 surely plausible. Ratings without confidence are left
    out; the free text gives their number.
    """
    comparison = table.select_against_unperturbed(source)
    scored = comparison.select_ratings(np.isfinite(comparison.signed_ratings))
    cases = np.unique(scored.item)
    signal = scored.item_reference[cases] == 0
    yield from (f"{line}\n" for line in _format_header(source, len(comparison) - len(scored), table.reference_name))
    yield f"NR: {len(np.unique(scored.rater))}\nN0: {int((~signal).sum())}\nN1: {int(signal.sum())}\nNM: 1\n\n{BEGIN_LINE}\n"
    for case, is_signal in zip(cases, signal, strict=True):
        yield f"{TRUTH_READER},{_encode_identifier(scored.items[case])},truth,{int(is_signal)}\n"
    modality_id = _encode_identifier(modality)
    readers = [_encode_identifier(name) for name in scored.raters]
    for rater, item, score in zip(scored.rater, scored.item, -scored.signed_ratings, strict=True):
        yield f"{readers[rater]},{_encode_identifier(scored.items[item])},{modality_id},{int(score)}\n"


def format_condition_study(table: Ratings, condition_by_item: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of a study in which readers read cases in two conditions, each a modality of the file.

    `condition_by_item` gives the condition, 1 or 2, of each item. As in the contrasts,
    a case is all versions of one transition with the same planted error, or a single item if a rater has read several
    versions in one condition. A case is named after its first item. Items with a planted error have the signal.
    Ratings without a reference or a confidence are left out; the free text gives their number.
    """
    condition = np.array([condition_by_item.get(code, 0) for code in table.items], dtype=np.int64)[table.item]
    case = build_rating_pool(table).case
    # The format allows one score per reader, case and modality.
    if any(
        has_repeated_cases(table.select_ratings(condition == modality), case[condition == modality])
        for modality in (1, 2)
    ):
        case = table.item
    known = np.isfinite(table.signed_ratings) & (table.reference >= 0) & (condition > 0)
    scored, case, condition = table.select_ratings(known), case[known], condition[known]
    cases, first_rows = np.unique(case, return_index=True)
    names = {
        number: _encode_identifier(scored.items[scored.item[row]])
        for number, row in zip(cases, first_rows, strict=True)
    }
    signal = scored.reference[first_rows] == 0
    yield from (
        f"{line}\n"
        for line in _format_header(
            "all errors", len(table) - len(scored), table.reference_name, _WITHOUT_SCORE_OR_TRUTH
        )
    )
    yield f"NR: {len(np.unique(scored.rater))}\nN0: {int((~signal).sum())}\nN1: {int(signal.sum())}\nNM: 2\n\n{BEGIN_LINE}\n"
    for number, is_signal in zip(cases, signal, strict=True):
        yield f"{TRUTH_READER},{names[number]},truth,{int(is_signal)}\n"
    readers = [_encode_identifier(name) for name in scored.raters]
    for rater, number, modality, score in zip(scored.rater, case, condition, -scored.signed_ratings, strict=True):
        yield f"{readers[rater]},{names[number]},condition {modality},{int(score)}\n"


_WITHOUT_CONFIDENCE = "they have no confidence"
_WITHOUT_SCORE_OR_TRUTH = "they have no confidence or no reference"


def _format_header(source: str, left_out: int, reference_name: str, reason: str = _WITHOUT_CONFIDENCE) -> Iterator[str]:
    yield "Expert ratings exported by WetBench; this file was not run in iMRMC."
    yield f"Signal: {_encode_identifier(source)}, truth 1. No signal: {WITHOUT_ERROR[reference_name]}, truth 0."
    yield f"Reference: {REFERENCES[reference_name]}."
    yield "Score: confidence 1 to 5, negative where the verdict was plausible."
    yield f"Ratings left out because {reason}: {left_out}"
    yield ENCODING_NOTICE


def _encode_identifier(text: str) -> str:
    """Return the text, percent-encoded where it could be read as a separator, a line end or a name in TRUTH_READERS.

    Spaces at both ends of the text are encoded too.
    """
    encoded = [quote(char, safe=UNQUOTED_CHARACTERS) for char in text]
    # encoding the first and last character is enough: programs strip spaces only at the ends, and compare complete
    # names with those in TRUTH_READERS
    if text in TRUTH_READERS or text != text.strip():
        for end in (0, -1):
            if len(encoded[end]) == 1:  # not encoded yet
                encoded[end] = f"%{ord(encoded[end]):02X}"
    return "".join(encoded)


def parse_reader_study(text: str) -> ReaderStudy:
    """Return the study from the text of a file. Raises FormatError with all problems: a partly parsed file is never used."""
    lines = text.splitlines()
    begin_lines = [number for number, line in enumerate(lines) if line.rstrip(" ,\t") == BEGIN_LINE]
    if not begin_lines:
        raise FormatError([f'there is no line "{BEGIN_LINE}"'])
    # spreadsheet programs pad lines with commas when they save a file of several columns
    header = tuple(line.rstrip(" ,\t") for line in lines[: begin_lines[0]])
    decode = ENCODING_NOTICE in header
    truth: dict[str, int] = {}
    readings: dict[tuple[str, str, str], Reading] = {}
    problems: list[str] = []
    for number, line in enumerate(lines[begin_lines[0] + 1 :], begin_lines[0] + 2):
        if line.strip(" ,\t"):
            problems += [f"line {number}: {problem}" for problem in _parse_data_line(line, decode, truth, readings)]
    unknown = sorted({reading.case for reading in readings.values()} - truth.keys())
    problems += [f"case {case} has no truth" for case in unknown]
    if problems:
        raise FormatError(problems)
    return ReaderStudy(header, truth, tuple(readings.values()))


def _parse_data_line(
    line: str, decode: bool, truth: dict[str, int], readings: dict[tuple[str, str, str], Reading]
) -> Iterator[str]:
    """Add one line to the truth or the readings, or yield what is wrong with it."""
    fields = [field.strip() for field in line.split(",")]
    if len(fields) != 4:
        yield f"{len(fields)} fields instead of reader, case, modality, score"
        return
    is_truth = fields[0] in TRUTH_READERS
    reader, case, modality = (unquote(field) if decode else field for field in fields[:3])
    score = _parse_finite_number(fields[3])
    if score is None:
        yield f"the score {fields[3]!r} is not a number"
    elif is_truth and score not in (0, 1):
        yield f"the truth of case {case} is {fields[3]}, not 0 or 1"
    elif is_truth and case in truth:
        yield f"the truth of case {case} is given twice"
    elif is_truth:
        truth[case] = int(score)
    elif (reader, case, modality) in readings:
        yield f"reader {reader} has case {case} in modality {modality} twice"
    else:
        readings[reader, case, modality] = Reading(reader, case, modality, score)


def _parse_finite_number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
