"""Make cells of a CSV file safe to open in a spreadsheet: text that could be read as a formula starts with an apostrophe."""

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
