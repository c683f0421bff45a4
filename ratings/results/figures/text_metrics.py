"""Format numbers and names for figures: clean, measure and wrap text."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence

# Control characters, unpaired surrogates, and characters that reverse or hide text.
_INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
# A function that formats a number.
FormatFunction = Callable[[float | None], str]

_NARROW, _WIDE = frozenset("iljtfrI.,:;'|!()[]/ -"), frozenset("mwMWQOGD%@=+−±<>~#&…")


def clean_label(text: object, most: int = 300) -> str:
    """Return a name for a figure: one line, every character visible, at most `most` characters."""
    # Replaced, not removed: two names that differ only in such a character must stay different.
    cleaned = " ".join(_INVISIBLE.sub("\ufffd", re.sub(r"\s+", " ", str(text))).split())
    return cleaned if len(cleaned) <= most else cleaned[: most - 1] + "…"


def format_percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.0%}"


def format_two_decimals(number: float | None) -> str:
    """Return two decimals, with a minus sign as wide as a plus."""
    # "-0.00" would suggest a direction.
    return "undefined" if number is None else f"{number:.2f}".replace("-0.00", "0.00").replace("-", "−")


def format_signed(number: float | None) -> str:
    """Return two decimals with the sign of a difference: +0.12, −0.05, 0.00."""
    text_value = format_two_decimals(number)
    return f"+{text_value}" if number is not None and number > 0 and text_value != "0.00" else text_value


def format_integer(number: float | None) -> str:
    return "undefined" if number is None else f"{number:,.0f}"


def format_interval(low: float | None, high: float | None, say: FormatFunction = format_percent) -> str:
    """Return "81% to 91%", or "no interval"."""
    return "no interval" if low is None or high is None else f"{say(low)} to {say(high)}"


def few_items_note(reason: str) -> str:
    """Return the note on an estimate from few shared items if the reason in its table row requires it, else ""."""
    return " (few items)" if reason.startswith("few items") else ""


def join_parts(parts: Iterable[str], most: int = 6) -> str:
    """Return the first `most` parts of a sentence, joined by semicolons, and the number of parts that were left out."""
    all_parts = list(parts)
    more = [f"and {len(all_parts) - most} more in the table"] if len(all_parts) > most else []
    return "; ".join([*all_parts[:most], *more])


def text_width(text: str, size: float) -> float:
    """Return the width, in pixels, of a line of text in a wide sans-serif font.

    Readers' fonts can be wider than the renderer's.
    """
    return sum(_letter_width(letter) for letter in text) * size


def _letter_width(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0  # combining characters are drawn over the letter before them
    if letter in _NARROW:
        return 0.36
    if letter in _WIDE:
        return 0.9
    if unicodedata.east_asian_width(letter) in "WF":  # "W" and "F": a full square in East Asian fonts
        return 1.05
    return 0.68 if letter.isupper() else 0.61


def wrap_text(text: str, room: float, size: float, most: int = 2) -> list[str]:
    """Return the text in at most `most` lines of `room` pixels, broken between words, ending in "…" if truncated."""
    remaining, wrapped = clean_label(text), list[str]()
    while remaining and len(wrapped) < most:
        line, remaining = _break_line(remaining, room, size)
        wrapped.append(line)
    if remaining:
        last = wrapped[-1]
        # Letters are removed until the ellipsis fits as well.
        while last and text_width(last + "…", size) > room:
            last = last[:-1]
        wrapped[-1] = last + "…"
    return wrapped or [""]


def _break_line(text: str, room: float, size: float) -> tuple[str, str]:
    """Return the part that fits on a line, and the rest."""
    fits = len(text)
    # At least one letter per line, or a very narrow column would never end.
    while fits > 1 and text_width(text[:fits], size) > room:
        fits -= 1
    if fits == len(text):
        return text, ""
    space = text.rfind(" ", 0, fits + 1)
    # If the last space is in the first third of a line, the word is broken, because that wastes less room.
    if space > fits / 3:
        return text[:space], text[space + 1 :]
    return text[:fits], text[fits:]


def widest_text(texts: Sequence[str], size: float) -> float:
    return max((text_width(text, size) for text in texts), default=0.0)
