"""Text of a model made fit for any database, page or request: pure, total, linear."""

import re
import unicodedata

LONGEST = 256 * 1024  # characters of a reply that are read

_LINE_ENDS = re.compile("\r\n?")
# C0 without tab and line feed, DEL and C1, lone halves of surrogate pairs: PostgreSQL and UTF-8 take not all of them.
# Then what nobody sees: characters of no width, and those that turn the reading direction round behind them.
_NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_THOUGHTS_END = re.compile(r"^[ \t]*</think>[ \t]*$", re.MULTILINE)


def clean_text(text: str) -> str:
    """The text with U+FFFD for every character that is none, and line ends as line feeds."""
    return _NO_TEXT.sub("�", _LINE_ENDS.sub("\n", text))


def answer(text: str) -> str:
    """What a reply says in the end: clean, without the thinking that open models write between tags before it."""
    clean = clean_text(text).strip()
    if clean.startswith("<think>"):
        return clean.partition("</think>")[2].strip()
    ends = list(_THOUGHTS_END.finditer(clean))
    return clean[ends[0].end() :].strip() if len(ends) == 1 else clean


def plain(text: str) -> str:
    """For comparison: one spelling of each letter and unit, one space between words."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def quoted(value: object, most: int = 60) -> str:
    """A model's words inside a message of ours: short, on one line, in quotation marks."""
    text = " ".join(str(value)[: 4 * most].split())
    return repr(text if len(text) <= most else text[: most - 1] + "…")
