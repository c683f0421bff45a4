"""A reader of the file format of iMRMC, to read back what the archive writes and the files of other programs."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from ratings.exchange.archive.imrmc import BEGIN_LINE, ENCODING_NOTICE, TRUTH_READERS
from ratings.stats.ratings_table import RatingRecord, Ratings, build_ratings_table

MAX_PROBLEMS = 20


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


class ProgramStudy(NamedTuple):
    """What the program itself reads: the sizes in the header, the truth of each case, and each score."""

    sizes: dict[str, int]
    truth: dict[str, int]
    scores: dict[tuple[str, str, str], float]  # by reader, case and modality

    def count_sizes(self) -> dict[str, int]:
        """Return the sizes of the data, which the program compares with those in the header."""
        readers, _, modalities = (set(names) for names in zip(*self.scores, strict=True))
        n_signal = sum(self.truth.values())
        return {"NR": len(readers), "N0": len(self.truth) - n_signal, "N1": n_signal, "NM": len(modalities)}

    def compute_mean_area(self, modality: str) -> float:
        """Return the mean over readers of the area under the empirical ROC curve."""
        areas = []
        for name in sorted({reader for reader, _, used in self.scores if used == modality}):
            scores = {
                case: score for (reader, case, used), score in self.scores.items() if (reader, used) == (name, modality)
            }
            pairs = [
                (scores[high], scores[low])
                for high in scores
                if self.truth[high]
                for low in scores
                if not self.truth[low]
            ]
            areas.append(sum((high > low) + 0.5 * (high == low) for high, low in pairs) / len(pairs))
        return sum(areas) / len(areas)


def read_as_the_program(text: str) -> ProgramStudy:
    """Read a file by the rules of the program's reader, src/mrmc/core/InputFile.java of DIDSR/iMRMC (commit ad589e57).

    Raises ValueError or IndexError for what the program refuses.
    """
    lines = []
    for line in text.splitlines():
        if len(line) == 1:
            raise IndexError("the program reads the last two characters of every line that is not empty")
        lines.append((line[: line.index(",,")] if line.endswith(",,") else line).removesuffix(","))
    begin = next(number for number, line in enumerate(lines) if line.upper().startswith("BEGIN DATA:"))
    # The mark of a size may stand anywhere in a line; the number is what follows the line's third character.
    sizes = {
        name: int(line.upper()[3:])
        for line in lines[:begin]
        for name in ("N0", "N1", "NR", "NM")
        if f"{name}:" in line.upper()
    }
    truth: dict[str, int] = {}
    scores: dict[tuple[str, str, str], float] = {}
    rows = [["".join(field.split()) for field in line.split(",")] for line in lines[begin + 1 :]]
    for reader, case, _, score in (row[:4] for row in rows):
        if reader in ("truth", "-1"):
            if case in truth:
                raise ValueError(f"duplicate case {case}")
            truth[case] = int(score)
    for reader, case, modality, score in (row[:4] for row in rows):
        if reader not in ("truth", "-1"):
            if case not in truth or (reader, case, modality) in scores:
                raise ValueError(f"no truth for case {case}, or a replicate observation of it")
            scores[reader, case, modality] = float(score)
    return ProgramStudy(sizes, truth, scores)
