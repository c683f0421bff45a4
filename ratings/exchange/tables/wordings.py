"""How verdicts are written in tables of ratings, both for the analysis of a file and for an import into a study."""

import re
import unicodedata

YES = ("1", "true", "yes", "y", "plausible", "sufficient", "valid")
NO = (
    "0", "false", "no", "n", "not plausible", "implausible", "not sufficient", "insufficient", "not valid", "invalid",
)  # fmt: skip
CANNOT = ("cannot judge", "cannot_judge", "can't judge")
WHOLE = re.compile(r"(0|-?[1-9]\d{0,17})(\.0+)?")  # at most 18 digits: fits into 64 bits


def normal(text: str) -> str:
    """Return the text in Unicode's composed form, so that two encodings of one letter are one name."""
    # a fast path: nearly all names are ASCII
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def wording(text: str) -> str:
    """Return a verdict or truth in the form for comparison: lower case, single spaces, without a final ".0"."""
    word = " ".join(normal(text).split()).casefold()
    # data frames write whole numbers with .0 if their column has empty cells
    whole = WHOLE.fullmatch(word)
    return whole[1] if whole else word


def separator(first_line: str) -> str:
    """Return the column separator: a comma if the first line has one, otherwise a semicolon or a tab."""
    return next((character for character in ",;\t" if character in first_line), ",")
