"""Barcodes and aliases in a text: how they may be written, and where they mean an input."""

import re

_DASHES = "-\u00ad\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"
_WRITTEN = rf"MAT[{_DASHES}_]([A-Z0-9]{{8}})"
BARCODE = re.compile(_WRITTEN, re.IGNORECASE)
BRACKETED = re.compile(rf"\s?\({_WRITTEN}\)", re.IGNORECASE)
ALIAS = re.compile(r"\bS([1-9]\d{0,2})\b")

_LONE = re.compile(rf"(?<![A-Za-z0-9]){_WRITTEN}(?![A-Za-z0-9])", re.IGNORECASE)
# Where an alias stands alone or as one of several things, and not as part of a name such as "Standard S1" or "S1 nuclease".
_BEFORE = re.compile(r"(?:^|[,;:(\[/+&]|\b(?:and|by|for|from|in|into|of|or|plus|to|with))\s*$", re.IGNORECASE)
_AFTER = re.compile(r"\s{0,12}(?:$|[.,;:)\]/+&]|(?:and|in|into|or|plus|to|with)\b)", re.IGNORECASE)
_NEAR = 12  # characters that are looked at on either side


def barcode(found: re.Match[str]) -> str:
    """The code as the bench writes it."""
    return f"MAT-{found[1].upper()}"


def stands_alone(found: re.Match[str]) -> bool:
    """Whether this is a barcode although no input bears it: a word of its own, and no part of one like mat-finished."""
    whole = _LONE.match(found.string, found.start())
    return whole is not None and (found[0].isupper() or any(sign.isdigit() for sign in found[1]))


def stands_for_a_thing(found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start() - _NEAR) : found.start()]
    return _BEFORE.search(before) is not None and _AFTER.match(found.string, found.end()) is not None


def aliases(text: str) -> set[str]:
    return {found[0] for found in ALIAS.finditer(text)}


def codes(text: str) -> set[str]:
    """All barcodes and aliases in a text, in one spelling."""
    return {barcode(found) for found in BARCODE.finditer(text)} | aliases(text)
