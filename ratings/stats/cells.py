"""Cells of a CSV file that a spreadsheet may open: what it would take for a formula has one apostrophe before it."""

import unicodedata

_RISKY = ("=", "+", "-", "@", "|", "\0", "\t", "\r", "\n", "'")


def plain(text: str) -> str:
    """The text with one apostrophe before it if a spreadsheet would take it for a formula."""
    return f"'{text}" if _is_risky(text) else text


def as_written(text: str) -> str:
    """What `plain` made this of. Any other apostrophe stays: it is the text's own."""
    return text[1:] if text.startswith("'") and _is_risky(text[1:]) else text


def _is_risky(text: str) -> bool:
    return unicodedata.normalize("NFKC", text).lstrip(" ")[:1] in _RISKY
