"""Read rating tables: rows of CSV files, cells protected from formulas, words for verdicts. For every reader and writer."""

import csv
import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from wetbench_site.validation import Problem

# The apostrophe is among them, so that restore_cell can distinguish an added one from one in the text.
_RISKY_STARTS = frozenset("=+-@|'\0\t\r\n")
# Before the first sign a spreadsheet may skip blanks and invisible characters.
_IGNORED_STARTS = re.compile(
    "[\x01-\x08\x0b\x0c\x0e-\x20\x7f-\xa0\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]*"
)


def escape_cell(text: str) -> str:
    """Return the text, with an apostrophe before it if a spreadsheet could read it as a formula."""
    return f"'{text}" if _is_risky(text) else text


def restore_cell(text: str) -> str:
    """Return the text as it was before `escape_cell`. Any other apostrophe is part of the text and stays."""
    return text[1:] if text.startswith("'") and _is_risky(text[1:]) else text


def _is_risky(text: str) -> bool:
    if text[:1].isascii() and text[:1].isalnum():  # a fast path for nearly all cells
        return False
    # NFKC turns full-width signs, which some spreadsheets accept, into their usual forms
    return _IGNORED_STARTS.sub("", unicodedata.normalize("NFKC", text), count=1)[:1] in _RISKY_STARTS


# First bytes of zip (also of workbooks), gzip, bzip2, xz, Zstandard, 7z and RAR files.
PACKED_MAGIC = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf", b"Rar!")

YES_WORDS = ("1", "true", "yes", "y", "plausible", "sufficient", "valid")
NO_WORDS = (
    "0", "false", "no", "n", "not plausible", "implausible", "not sufficient", "insufficient", "not valid", "invalid",
)  # fmt: skip
CANNOT_JUDGE_WORDS = ("cannot judge", "cannot_judge", "can't judge")
WHOLE_NUMBER = re.compile(r"(0|-?[1-9]\d{0,17})(\.0+)?")  # at most 18 digits: fits into 64 bits


def normalise_unicode(text: str) -> str:
    """Return the text in Unicode's composed form, so that two encodings of one letter are one name."""
    # a fast path: nearly all names are ASCII
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def normalise_verdict(text: str) -> str:
    """Return a verdict or truth in the form in which it is compared: lower case, single spaces, no final ".0"."""
    word = " ".join(normalise_unicode(text).split()).casefold()
    # data frames write whole numbers with .0 if their column has empty cells
    whole = WHOLE_NUMBER.fullmatch(word)
    return whole[1] if whole else word


class TableError(ValueError):
    """The table cannot be read beyond this problem."""

    def __init__(self, line: int, message: str, column: str = "") -> None:
        super().__init__(message)
        self.problem = Problem(line, column, message)


def iter_rows(texts: Iterable[str], max_length: int = 0) -> Iterator[tuple[int, list[str]]]:
    """Yield every row of a CSV table that is not blank, with the number of its first line.

    Columns are separated by commas or, if the first line has none, by semicolons or tabs. Raises TableError, also for a row
    of more than `max_length` characters (0: no limit).
    """
    lines = iter(texts)
    first_line, begun, length = next(lines, ""), 1, 0

    def limit_rows() -> Iterator[str]:
        nonlocal length
        for text in chain([first_line], lines):
            length += len(text)
            # A missing quotation mark turns the rest of the file into one cell, and the csv reader needs much more memory
            # for it than the text has.
            if 0 < max_length < length:
                raise TableError(begun, f"a row is longer than {max_length // 1024} KiB")
            yield text

    separator = next((character for character in ",;\t" if character in first_line), ",")
    reader = csv.reader(limit_rows(), delimiter=separator, strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield begun, row
            begun, length = reader.line_num + 1, 0
    except csv.Error as error:
        message = f"not a table: {error}"
        if "new-line character" in str(error):
            message = "the lines end in a bare carriage return; save the table as CSV with usual line ends"
        elif "field limit" in str(error):
            limit = f"{csv.field_size_limit():,} characters"
            message = f"a cell is longer than {limit}; perhaps the quotation mark that ends it is missing"
        raise TableError(begun, message) from error


def normalise_column(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


def format_quoted(value: Any) -> str:
    """Return a value as error messages quote it: short and on one line."""
    return repr(value)[:60]
