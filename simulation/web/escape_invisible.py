"""Make a model's text fully visible: invisible characters, and those that affect the display, are named."""

import re
from collections.abc import Iterator
from typing import NamedTuple

# Controls but newline and tab, odd spaces, zero-width and bidirectional marks, fillers, variation selectors, tags,
# surrogates, private use, byte order mark and noncharacters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u115f\u1160\u1680"
    "\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\udfff\ue000-\uf8ff"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\U000f0000-\U0010ffff]"
)
# Runs of the same hidden character become one mark with a number: a model may write thousands.
_RUN = re.compile(f"({_HIDDEN.pattern})\\1*")
MAX_SHOWN, MAX_SHOWN_ALL = 6_000, 200_000  # characters of one text on a page, and with ?all=1


class TextPiece(NamedTuple):
    """A run of plain text, or the name of a hidden character with its number of repetitions."""

    text: str
    mark: bool = False


class VisibleText(NamedTuple):
    """The beginning of a text, and the length of the full text."""

    pieces: list[TextPiece]
    shown: int
    length: int

    @property
    def is_truncated(self) -> bool:
        return self.shown < self.length


def make_visible(text: str, limit: int = MAX_SHOWN) -> VisibleText:
    """Return the first `limit` characters in pieces that are safe to encode and to read."""
    # Cut before the pattern runs, so that the time depends on the length of the shown text only.
    begin = text[:limit]
    return VisibleText(list(_split_pieces(begin)), len(begin), len(text))


def decode_bytes(body: bytes) -> str:
    r"""Return bytes as text; invalid UTF-8 as \\xNN."""
    # Escapes instead of replacement characters: the bytes may be the reason of the failure.
    return body.decode("utf-8", "backslashreplace")


def _split_pieces(text: str) -> Iterator[TextPiece]:
    offset = 0
    for match in _RUN.finditer(text):
        if match.start() > offset:
            yield TextPiece(text[offset : match.start()])
        times = match.end() - match.start()
        yield TextPiece(f"U+{ord(match[1]):04X}" + (f" ×{times}" if times > 1 else ""), mark=True)
        offset = match.end()
    if offset < len(text):
        yield TextPiece(text[offset:])
