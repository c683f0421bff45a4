"""Cells of a CSV file that a spreadsheet may open: what it would take for a formula has one apostrophe before it."""

import re
import unicodedata

_RISKY = frozenset("=+-@|'\0\t\r\n")
# Before the sign that counts a spreadsheet may skip blanks, and what shows nothing.
_SKIPPED = re.compile(
    "[\x01-\x08\x0b\x0c\x0e-\x20\x7f-\xa0\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]*"
)


def plain(text: str) -> str:
    """The text with one apostrophe before it if a spreadsheet would take it for a formula."""
    return f"'{text}" if _is_risky(text) else text


def as_written(text: str) -> str:
    """What `plain` made this of. Any other apostrophe stays: it is the text's own."""
    return text[1:] if text.startswith("'") and _is_risky(text[1:]) else text


def _is_risky(text: str) -> bool:
    if text[:1].isascii() and text[:1].isalnum():  # nearly all there are
        return False
    return _SKIPPED.sub("", unicodedata.normalize("NFKC", text), count=1)[:1] in _RISKY
