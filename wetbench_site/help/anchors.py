"""Anchors of headings and terms, made like those of GitHub, so that links work there and here."""

import re

_REMOVED = re.compile(r"[^\w\- ]")


def make_anchor(heading: str) -> str:
    """Return the heading in small letters and digits, hyphens for spaces, other characters left out."""
    return _REMOVED.sub("", heading.lower()).replace(" ", "-")
