"""Texts: strict JSON, characters that cannot be stored or seen, digests, counts with their nouns. Without Django."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

# PostgreSQL stores neither NUL nor lone surrogates.
UNSTORABLE = re.compile("[\0\ud800-\udfff]")
# Control characters except tab and line breaks, characters without width, and those that change the direction of text.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
# What changes the state of a terminal or the order of what it shows: control characters except tab and line feed, line and
# paragraph separators, marks of the writing direction; and surrogates, which cannot be printed.
_TERMINAL_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")  # after an even number of backslashes


class DuplicateFieldError(ValueError):
    """Raised if a field occurs twice in one JSON object."""


def parse_json(text: str) -> Any:
    """Parse JSON strictly. Raises ValueError for NaN, infinities, repeated fields and text that no database stores.

    Python's parser by default accepts NaN, and uses the last of repeated fields.
    """
    value = json.loads(text, parse_constant=reject_constant, object_pairs_hook=reject_duplicates)
    # Serialised again, because the text may contain these characters in escaped form.
    text_again = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text_again.encode()
    if _ESCAPED_NUL.search(text_again):
        raise ValueError("contains the character NUL")
    return value


def reject_constant(name: str) -> Any:
    """Raise ValueError for NaN and infinities. For use as `parse_constant` of a JSON parser."""
    raise ValueError(f"{name} is not a number")


def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the fields as a dict, or raise DuplicateFieldError. For use as `object_pairs_hook` of a JSON parser."""
    data = dict(pairs)
    if len(data) < len(pairs):
        # Not with list.count for each name: a hostile text of 256 KiB would keep the parser busy for 20 s.
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise DuplicateFieldError(f"the field {name!r} occurs twice")
    return data


def is_storable(text: str) -> bool:
    """Return whether every database stores the text: it has neither NUL nor lone surrogates."""
    return not UNSTORABLE.search(text)


def natural_sort_key(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key that places R2 before R10."""
    # By default, int() accepts at most 4,300 digits. 640 is the lowest limit that can be set, and 600 is below it.
    parts = re.findall(r"\d{1,600}|\D+", text)
    return [(0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts]


def remove_control_characters(text: str) -> str:
    """Return the text without characters that control a terminal. The rest of an escape sequence stays as visible text."""
    return _TERMINAL_CONTROL.sub("", text)


def describe_error(error: BaseException) -> str:
    """Return an exception's message for people, on one line and without names of classes; "no reason is given" if it has none."""
    text = getattr(error, "strerror", None) or str(error)
    if isinstance(error, KeyError):  # whose text is the key alone
        text = f"{text} is missing"
    return " ".join(text.split()) or "no reason is given"


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal. Lone surrogates count as question marks."""
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def hash_json(value: Any) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys, so that the order of its fields does not change it."""
    return hash_text(json.dumps(value, sort_keys=True))


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 item", "2 items" or "2,000 items"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def join_words(words: Iterable[str]) -> str:
    """Return "", "a", "a and b" or "a, b and c"."""
    *first, last = tuple(words) or ("",)
    return f"{', '.join(first)} and {last}" if first else last
