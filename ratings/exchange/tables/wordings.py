"""How verdicts are written in tables of ratings, whoever reads them: to analyse a file, or to import it into a study."""

import re
import unicodedata

YES = ("1", "true", "yes", "y", "plausible", "sufficient", "valid")
NO = (
    "0", "false", "no", "n", "not plausible", "implausible", "not sufficient", "insufficient", "not valid", "invalid",
)  # fmt: skip
CANNOT = ("cannot judge", "cannot_judge", "can't judge")
WHOLE = re.compile(r"(0|-?[1-9]\d{0,17})(\.0+)?")


def normal(text: str) -> str:
    """The text in Unicode's composed form: two spellings of one letter are one name."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def wording(text: str) -> str:
    """A verdict or truth as it is compared: without case, doubled spaces, or the .0 a data frame writes."""
    word = " ".join(normal(text).split()).casefold()
    whole = WHOLE.fullmatch(word)
    return whole[1] if whole else word


def separator(first_line: str) -> str:
    """What parts the columns of a table: a comma if its first line has one, else a semicolon or a tab."""
    return next((sign for sign in ",;\t" if sign in first_line), ",")
