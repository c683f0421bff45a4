"""Write reader studies in the file format of iMRMC, the FDA's program for multi-reader multi-case studies.

The format follows the program's manual (section 4.1.1, didsr.github.io/iMRMC) and the reader in its source,
src/mrmc/core/InputFile.java in DIDSR/iMRMC. Tests read the files by the rules of that reader; the files themselves are
not run in the program.

A file starts with free text and the sizes NR (readers), N0 (cases without a signal), N1 (with one) and NM
(modalities). After "BEGIN DATA:" follow one line "reader,case,modality,score" for each reading and one
"-1,case,truth,0 or 1" for each case.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

import numpy as np

from ratings.stats.contrasts import build_rating_pool, has_repeated_cases
from ratings.stats.ratings_table import REFERENCES, WITHOUT_ERROR, Bools, Ints, Ratings

BEGIN_LINE = "BEGIN DATA:"
# Reader names that mark a line as the truth, for the program and for its R package.
TRUTH_READERS = ("-1", "truth")
DEFAULT_MODALITY = "rating"
ENCODING_NOTICE = "Identifiers are percent-encoded."
# Besides letters and digits; no comma, quotation mark or percent sign.
UNQUOTED_CHARACTERS = " !#$&'()*+-./:;<=>?@[]^_`{|}~"
# The program reads a size after any of these in the header, also inside a word, and refuses text there.
_SIZE_MARK = re.compile("(?<=[nN][rR01mM]):")


def format_source_study(table: Ratings, source: str, modality: str = DEFAULT_MODALITY) -> Iterator[str]:
    """Yield the lines of a file, with line ends, for one error source (with the signal) and all unperturbed items.

    The score is minus the signed rating: 5 is surely implausible, -5 surely plausible. Ratings without confidence are left
    out; the free text gives their number.
    """
    comparison = table.select_against_unperturbed(source)
    scored = comparison.select_ratings(np.isfinite(comparison.signed_ratings))
    yield from _format_header(table, source, len(comparison) - len(scored), "they have no confidence")
    yield from _format_data(scored, scored.item, [_encode_identifier(modality)], np.zeros(len(scored), dtype=np.int64))


def format_condition_study(table: Ratings, condition_by_item: Mapping[str, int]) -> Iterator[str]:
    """Yield the lines of a study in which readers read cases in two conditions, each a modality of the file.

    `condition_by_item` gives the condition, 1 or 2, of each item. As in the contrasts,
    a case is all versions of one transition with the same planted error, or a single item if a rater has read several
    versions in one condition. A case is named after its first item. Items with a planted error have the signal.
    Ratings without a reference or a confidence are left out; the free text gives their number.
    """
    condition = np.array([condition_by_item.get(code, 0) for code in table.items], dtype=np.int64)[table.item]
    case = build_rating_pool(table).case
    masks: list[Bools] = [condition == 1, condition == 2]
    # The format allows one score per reader, case and modality.
    if any(has_repeated_cases(table.select_ratings(mask), case[mask]) for mask in masks):
        case = table.item
    known = np.isfinite(table.signed_ratings) & (table.reference >= 0) & (condition > 0)
    scored = table.select_ratings(known)
    left_out = len(table) - len(scored)
    yield from _format_header(table, "all errors", left_out, "they have no confidence or no reference")
    yield from _format_data(scored, case[known], ["condition 1", "condition 2"], condition[known] - 1)


def _format_header(table: Ratings, source: str, left_out: int, reason: str) -> Iterator[str]:
    name = table.reference_name
    signal = _SIZE_MARK.sub("%3A", _encode_identifier(source))
    yield "Expert ratings exported by WetBench; this file was not run in iMRMC.\n"
    yield f"Signal: {signal}, truth 1. No signal: {WITHOUT_ERROR[name]}, truth 0.\n"
    yield f"Reference: {REFERENCES[name]}.\n"
    yield "Score: confidence 1 to 5, negative where the verdict was plausible.\n"
    yield f"Ratings left out because {reason}: {left_out}\n"
    yield f"{ENCODING_NOTICE}\n"


def _format_data(scored: Ratings, case: Ints, modalities: Sequence[str], modality: Ints) -> Iterator[str]:
    """Yield the sizes, the truth of each case and the readings. `case` and `modality` number those of each rating."""
    cases, first_rows = np.unique(case, return_index=True)
    names = {
        number: _encode_identifier(scored.items[scored.item[row]])
        for number, row in zip(cases, first_rows, strict=True)
    }
    signal = scored.reference[first_rows] == 0
    n_readers, n_signal = len(np.unique(scored.rater)), int(signal.sum())
    yield f"NR: {n_readers}\nN0: {len(cases) - n_signal}\nN1: {n_signal}\nNM: {len(modalities)}\n\n{BEGIN_LINE}\n"
    for number, is_signal in zip(cases, signal, strict=True):
        yield f"{TRUTH_READERS[0]},{names[number]},truth,{int(is_signal)}\n"
    readers = [_encode_identifier(name) for name in scored.raters]
    for rater, number, index, score in zip(scored.rater, case, modality, -scored.signed_ratings, strict=True):
        yield f"{readers[rater]},{names[number]},{modalities[index]},{int(score)}\n"


def _encode_identifier(text: str) -> str:
    """Percent-encode separators, line ends, spaces at both ends, and names in TRUTH_READERS."""
    encoded = [quote(char, safe=UNQUOTED_CHARACTERS) for char in text]
    # encoding the first and last character is enough: programs strip spaces only at the ends, and compare complete
    # names with those in TRUTH_READERS
    if text in TRUTH_READERS or text != text.strip():
        for end in (0, -1):
            if len(encoded[end]) == 1:  # not encoded yet
                encoded[end] = f"%{ord(encoded[end]):02X}"
    return "".join(encoded)
