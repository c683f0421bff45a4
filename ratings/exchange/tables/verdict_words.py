"""How verdicts are written in tables of ratings, both for the analysis of a file and for an import into a study."""

import re
import unicodedata

YES_WORDS = ("1", "true", "yes", "y", "plausible", "sufficient", "valid")
NO_WORDS = (
    "0", "false", "no", "n", "not plausible", "implausible", "not sufficient", "insufficient", "not valid", "invalid",
)  # fmt: skip
CANNOT_JUDGE_WORDS = ("cannot judge", "cannot_judge", "can't judge")
WHOLE_NUMBER = re.compile(r"(0|-?[1-9]\d{0,17})(\.0+)?")  # at most 18 digits: fits into 64 bits


def normalise_unicode(text: str) -> str:
    """Return the text in Unicode's composed form, so that two encodings of one letter are one name."""
    # a fast path: nearly all names are ASCII
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def normalise_verdict(text: str) -> str:
    """Return a verdict or truth in the form in which it is compared: lower case, single spaces, no final ".0"."""
    word = " ".join(normalise_unicode(text).split()).casefold()
    # data frames write whole numbers with .0 if their column has empty cells
    whole = WHOLE_NUMBER.fullmatch(word)
    return whole[1] if whole else word


def detect_separator(first_line: str) -> str:
    """Return the column separator: a comma if the first line has one, otherwise a semicolon or a tab."""
    return next((character for character in ",;\t" if character in first_line), ",")
