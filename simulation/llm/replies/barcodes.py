"""Barcodes and aliases in a text: their spellings, and where they refer to an input."""

import re

_DASHES = "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"
_WRITTEN = rf"MAT[{_DASHES}_]([A-Z0-9]{{8}})"
BARCODE = re.compile(_WRITTEN, re.IGNORECASE)
BRACKETED = re.compile(rf"\s?\({_WRITTEN}\)", re.IGNORECASE)
ALIAS = re.compile(r"\bS([1-9]\d{0,2})\b")

_LONE = re.compile(rf"(?<![A-Za-z0-9]){_WRITTEN}(?![A-Za-z0-9])", re.IGNORECASE)
# Contexts in which an alias is a separate word, and not part of a name such as "Standard S1" or "S1 nuclease".
_BEFORE = re.compile(r"(?:^|[,;:(\[/+&]|\b(?:and|by|for|from|in|into|of|or|plus|to|with))\s*$", re.IGNORECASE)
_AFTER = re.compile(r"\s{0,12}(?:$|[.,;:)\]/+&]|(?:and|in|into|or|plus|to|with)\b)", re.IGNORECASE)
_NEAR = 12  # characters checked on either side


def normalise_barcode(match: re.Match[str]) -> str:
    """Return the barcode in the bench's spelling."""
    return f"MAT-{match[1].upper()}"


def is_separate_barcode(match: re.Match[str]) -> bool:
    """Return whether the match is a barcode, even if no input has it, and not part of a word such as mat-finished."""
    full = _LONE.match(match.string, match.start())
    # A word such as "mat-finished" is no barcode; capitals or digits make one.
    return full is not None and (match[0].isupper() or any(sign.isdigit() for sign in match[1]))


def is_reference(match: re.Match[str]) -> bool:
    before = match.string[max(0, match.start() - _NEAR) : match.start()]
    return _BEFORE.search(before) is not None and _AFTER.match(match.string, match.end()) is not None


def find_aliases(text: str) -> set[str]:
    return {found[0] for found in ALIAS.finditer(text)}


def find_codes(text: str) -> set[str]:
    """Return all barcodes and aliases in a text, the barcodes in the bench's spelling."""
    return {normalise_barcode(found) for found in BARCODE.finditer(text)} | find_aliases(text)
