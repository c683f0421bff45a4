"""Words by which a text gives a planted error away, and runs of words that two texts share: one list, one folding.

Those who make twins ask for other words; those who take items into a study ask a person.
"""

import re
import unicodedata
from functools import lru_cache

RUN = 6  # words in a row that an outcome and its own secret may not share
_LETTERS = 4  # different words with letters among the six: a list of readings, units included, is nobody's wording
_HINTS = re.compile(
    r"\b(?:secret|perturb\w*|deliberate(?:ly)?|(?:un)?intentional(?:ly)?|implausib\w*|error[ -]?types?"
    r"|incorrect[ -]transitions?)\b"
)
_WORD = re.compile(r"\w+")
_QUOTED = re.compile(r"“[^“”]*”|\"[^\"]*\"|`[^`]*`|(?<!\w)[‘'][^‘’']*[’'](?!\w)")

Run = tuple[str, ...]


@lru_cache(maxsize=100_000)
def hints(text: str) -> tuple[str, ...]:
    """The suspicious words of a text, folded, each once."""
    return tuple(sorted(set(_HINTS.findall(folded(text)))))


def runs(*texts: str) -> set[Run]:
    """Every six words in a row of these texts, folded."""
    lists = [_WORD.findall(folded(text)) for text in texts]
    found = (tuple(words[at : at + RUN]) for words in lists for at in range(len(words) - RUN + 1))
    return {run for run in found if len({word for word in run if not word[:1].isdigit()}) >= _LETTERS}


def own_runs(secret: str) -> set[Run]:
    """The runs of a secret outside its quotation marks: it may quote the outcome."""
    return runs(*_QUOTED.split(secret))


def folded(text: str) -> str:
    """One spelling of each letter, no capitals, no signs that cannot be seen, names of programs as words."""
    if not text.isascii():
        spelt = unicodedata.normalize("NFKC", text)
        text = "".join(sign for sign in spelt if unicodedata.category(sign) != "Cf" and sign != "\ufffd")
    return " ".join(text.casefold().replace("_", " ").split())
