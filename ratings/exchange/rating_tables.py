"""Cells and words of rating tables, for every reader and writer of CSV files: escaped formulas, verdicts, separators."""

import re
import unicodedata

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


def detect_separator(first_line: str) -> str:
    """Return the column separator: a comma if the first line has one, otherwise a semicolon or a tab."""
    return next((character for character in ",;\t" if character in first_line), ",")
