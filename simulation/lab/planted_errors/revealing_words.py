"""Find words that reveal a planted error, and runs of words for comparing two texts.

The code that creates twins uses this module to request other wording, and studies use it to quarantine items.
"""

import re
import unicodedata
from functools import lru_cache

RUN_LENGTH = 6  # consecutive words that an outcome and its own explanation may not share
_MIN_WORDS = 4  # minimum of different words among the six that do not begin with a digit, to exclude lists of readings
_HINTS = re.compile(  # words that a model may copy from the prompt that requests an error
    r"\b(?:secret|perturb\w*|deliberate(?:ly)?|(?:un)?intentional(?:ly)?|implausib\w*|error[ -]?types?"
    r"|incorrect[ -]transitions?)\b"
)
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r"“[^“”]*”|\"[^\"]*\"|`[^`]*`|(?<!\w)[‘'][^‘’']*[’'](?!\w)")

Run = tuple[str, ...]


# Cached: many items of a study share their texts.
@lru_cache(maxsize=100_000)
def find_revealing_words(text: str) -> tuple[str, ...]:
    """Return the words of a text that suggest a planted error, normalised and without duplicates."""
    return tuple(sorted(set(_HINTS.findall(fold_text(text)))))


def word_runs(*texts: str) -> set[Run]:
    """Return every run of six consecutive words in these texts, normalised, except runs that are mostly numbers."""
    lists = [_WORD.findall(fold_text(text)) for text in texts]
    all_runs = (
        tuple(words[start : start + RUN_LENGTH]) for words in lists for start in range(len(words) - RUN_LENGTH + 1)
    )
    # Readings such as "12 13 12 14" are shared by many honest outcomes; they are not wording.
    return {run for run in all_runs if len({word for word in run if not word[:1].isdigit()}) >= _MIN_WORDS}


def unquoted_runs(secret: str) -> set[Run]:
    """Return the word runs of an explanation outside its quotation marks. Quotations are ignored."""
    # The explanation may quote the outcome, so a shared run in quotation marks proves nothing.
    return word_runs(*_QUOTED.split(secret))


def fold_text(text: str) -> str:
    """Return the text in lower case, with one code point per letter, no invisible characters and no underscores."""
    if not text.isascii():
        normalised = unicodedata.normalize("NFKC", text)
        text = "".join(sign for sign in normalised if unicodedata.category(sign) != "Cf" and sign != "\ufffd")
    return " ".join(text.casefold().replace("_", " ").split())
