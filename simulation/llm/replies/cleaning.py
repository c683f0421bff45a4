"""Clean a model's text for any database, page or request, in linear time."""

import re
import unicodedata

MAX_REPLY_LENGTH = 256 * 1024  # characters of a reply

_LINE_ENDS = re.compile("\r\n?")
# C0 without tab and line feed, DEL and C1, unpaired surrogates: PostgreSQL and UTF-8 reject some of them.
# Then invisible characters: zero-width ones, and those that reverse the reading direction.
_NOT_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
_THOUGHTS_END = re.compile(r"^[ \t]*</think>[ \t]*$", re.MULTILINE)


def clean_text(text: str) -> str:
    """Return the text with U+FFFD for every character that is not text, and line feeds as line ends."""
    return _NOT_TEXT.sub("�", _LINE_ENDS.sub("\n", text))


def extract_answer(text: str) -> str:
    """Return the final answer of a reply: clean, without the thinking that open models write between tags before it."""
    clean = clean_text(text).strip()
    # Open models write their thinking into the reply; it can contain drafts that look like answers.
    if clean.startswith("<think>"):
        return clean.partition("</think>")[2].strip()
    ends = list(_THOUGHTS_END.finditer(clean))
    # Exactly one closing tag: with several it is unclear where the answer begins.
    return clean[ends[0].end() :].strip() if len(ends) == 1 else clean


def normalise_text(text: str) -> str:
    """Return the text for comparisons: one spelling of each letter and unit, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).split())


def quote_short(value: object, most: int = 60) -> str:
    """Return a model's text for use in a message: short, on one line, in quotation marks."""
    text = " ".join(str(value)[: 4 * most].split())  # no more than this is normalised, however long the text is
    return repr(text if len(text) <= most else text[: most - 1] + "…")
