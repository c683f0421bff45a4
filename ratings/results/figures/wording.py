"""Numbers and names as figures say them: cleaned of what cannot be drawn, measured, broken into lines."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

# Control characters, halves of surrogate pairs, and what turns or hides text or is no character.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
# How a number is said.
Say = Callable[[float | None], str]

_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[]/ -"), frozenset("mwMWQOGD%@=+−±<>~#&…")


def plain(text: object, most: int = 300) -> str:
    """A name as it may stand in a figure: one line, every sign visible, at most `most` characters."""
    found = " ".join(_UNSEEN.sub("\ufffd", re.sub(r"\s+", " ", str(text))).split())
    return found if len(found) <= most else found[: most - 1] + "…"


def percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.0%}"


def two(number: float | None) -> str:
    """Two decimals, with a minus that is as wide as a plus."""
    return "undefined" if number is None else f"{number:.2f}".replace("-0.00", "0.00").replace("-", "−")


def signed(number: float | None) -> str:
    """Two decimals with the sign of a difference: +0.12, −0.05, 0.00."""
    found = two(number)
    return f"+{found}" if number is not None and number > 0 and found != "0.00" else found


def whole(number: float | None) -> str:
    return "undefined" if number is None else f"{number:,.0f}"


def interval(low: float | None, high: float | None, say: Say = percent) -> str:
    """ "81% to 91%", or "no interval"."""
    return "no interval" if low is None or high is None else f"{say(low)} to {say(high)}"


def few_items(reason: str) -> str:
    """Return the mark of a point estimate from few shared items, by the reason that its table gives, or ""."""
    return " (few items)" if reason.startswith("few items") else ""


def listed(parts: Iterable[str], most: int = 6) -> str:
    """Parts of a sentence with semicolons; what is beyond `most` is counted."""
    every = list(parts)
    more = [f"and {len(every) - most} more in the table"] if len(every) > most else []
    return "; ".join([*every[:most], *more])


def width(text: str, size: float) -> float:
    """Pixels that a line of text may take in a wide sans-serif: readers' own fonts are wider than the one we draw with."""
    return sum(_em(letter) for letter in text) * size


def _em(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 0.9
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    return 0.68 if letter.isupper() else 0.61


def lines(text: str, room: float, size: float, most: int = 2) -> list[str]:
    """The text in at most `most` lines of `room` pixels, broken between words where there are any, ended by "…" where cut."""
    rest, found = plain(text), list[str]()
    while rest and len(found) < most:
        line, rest = _break(rest, room, size)
        found.append(line)
    if rest:
        last = found[-1]
        while last and width(last + "…", size) > room:
            last = last[:-1]
        found[-1] = last + "…"
    return found or [""]


def _break(text: str, room: float, size: float) -> tuple[str, str]:
    """What fits on a line, and the rest."""
    fits = len(text)
    while fits > 1 and width(text[:fits], size) > room:
        fits -= 1
    if fits == len(text):
        return text, ""
    space = text.rfind(" ", 0, fits + 1)
    if space > fits / 3:
        return text[:space], text[space + 1 :]
    return text[:fits], text[fits:]


def widest(texts: Sequence[str], size: float) -> float:
    return max((width(text, size) for text in texts), default=0.0)
