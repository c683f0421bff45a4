"""The columns of the archive's tables: names, types and meanings."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ratings.exchange.codebook import COLUMN_MEANINGS


class Field(NamedTuple):
    """A column. `kind` is text, count, number, flag (1 or 0), moment (UTC) or list (JSON). An empty cell means none or unknown."""

    name: str
    kind: str
    meaning: str


# The type of each kind in a Frictionless Table Schema. `format: any` for moments: cells have a UTC offset and microseconds.
SCHEMA_TYPES: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean", "trueValues": ["1"], "falseValues": ["0"]},
    "moment": {"type": "datetime", "format": "any"},
    "list": {"type": "array"},
}
# Kind of column in the tables of an analysis (ratings.results.analyses.tables) -> kind of field.
RESULT_KINDS: Mapping[str, str] = {
    "text": "text", "count": "count", "share": "number", "number": "number", "flag": "flag",
}  # fmt: skip

# columns of ratings.csv; those not listed here are text
_COLUMNS_BY_KIND: Mapping[str, tuple[str, ...]] = {
    "flag": (
        "verdict", "truth", "simulated", "surplus", "cannot_judge", "context", "localised", "first_verdict", "imported",
        "counts",
    ),
    "count": ("confidence", "position", "occasion", "session", "first_confidence", "revision", "changes", "guide_version"),
    "number": ("seconds", "active_seconds", "first_verdict_seconds"),
    "moment": ("opened_at", "submitted_at"),
    "list": ("marked",),
}  # fmt: skip
_KIND_BY_COLUMN = {name: kind for kind, names in _COLUMNS_BY_KIND.items() for name in names}


def get_rating_field(name: str) -> Field:
    """Return a column of ratings.csv with its meaning from the codebook."""
    return Field(name, _KIND_BY_COLUMN.get(name, "text"), COLUMN_MEANINGS[name])


def get_rating_fields(*names: str) -> Iterable[Field]:
    return map(get_rating_field, names)


RATING_FIELDS = tuple(map(get_rating_field, COLUMN_MEANINGS))

# the columns before those of the raters: ratings_wide.csv adds two for each rater
WIDE_FIELDS = (
    *get_rating_fields("item", "pair", "source", "perturbation", "reference", "truth", "experiment", "action"),
    Field("ratings", "count", "number of ratings in this row; ratings that are not counted are only in ratings.csv"),
    Field("could_not_judge", "count", "of these, ratings of raters who could not judge; their cells are empty"),
)

VERSION_FIELDS = (
    *get_rating_fields("item", "rater", "occasion"),
    Field("revision", "count", "1 is the first answer; the highest revision of a rater, item and occasion is in force"),
    Field("kind", "text", "answer, correction or imported"),
    *get_rating_fields("verdict", "confidence", "cannot_judge", "marked", "note", "active_seconds"),
    Field("at", "moment", "time of this version, UTC"),
)

ITEM_FIELDS = (
    *get_rating_fields("item", "pair", "source", "perturbation"),
    Field("error_kind", "text", "kind of the planted error, as the twin generator names it (sealed)"),
    *get_rating_fields("reference", "truth", "experiment", "action"),
    Field("target", "list", "keys of the rows that contain the planted error; empty: not known (sealed)"),
    Field("classifiers", "text", "verdicts of the classifiers when the study opened, JSON by name (sealed)"),
    Field("imported_id", "text", "the id under which it was imported; empty: generated here (sealed)"),
    Field("payload_sha256", "text", "SHA-256 of the stored payload that raters were shown; empty before unblinding"),
    Field("ratings", "count", "number of ratings that count; before unblinding without imported ones"),
    Field("could_not_judge", "count", "of these, ratings of raters who could not judge"),
)

RATER_FIELDS = (
    Field("rater", "text", COLUMN_MEANINGS["rater"]),
    Field(
        "who",
        "text",
        'person, simulated, imported (collected elsewhere), or "simulated, imported" for a simulated rater of an imported '
        "file; an open rater place is listed as person",
    ),
    Field("consented_at", "moment", "time of consent, UTC; empty: an open rater place, or not a person"),
    Field("practised_at", "moment", "time at which practice was passed or skipped because the study has none, UTC"),
    Field("started_at", "moment", "time at which the first item could be rated, UTC"),
    Field("finished_at", "moment", "time at which they pressed Finish, UTC"),
    Field("withdrawn_at", "moment", "time of withdrawal, UTC"),
    Field("dropped", "flag", "1: withdrawn, and their ratings are not counted; all other columns are empty"),
    Field("guide_version", "count", "latest version of the instructions that they read"),
    Field("items", "count", "items assigned to them, without reassigned items and repeats"),
    Field("ratings", "count", "of these, items they rated"),
    Field("could_not_judge", "count", "of these, items they could not judge"),
    Field("repeats", "count", "items they rated a second time"),
    Field("practice_right", "count", "practice items answered correctly"),
    Field("practice_of", "count", "practice items answered"),
)

EVENT_FIELDS = (
    Field("at", "moment", "time of the event, UTC; for imported ratings the time in their file"),
    Field(
        "event",
        "text",
        "study: an entry of the study's activity log; answer, correction, imported: a version of a rating",
    ),
    Field(
        "kind",
        "text",
        "kind of the study event; exports are left out, so that downloading an archive does not change the next one",
    ),
    *get_rating_fields("rater", "item", "occasion"),
    Field("revision", "count", "version of the rating"),
    Field("detail", "text", "description in the activity log; empty if it could name a person"),
)

MACHINE_RATER_FIELDS = (
    Field("rater", "text", "the model rater's code in this study; model raters are never counted as people"),
    Field("name", "text", "the model, or set of rules"),
    Field("kind", "text", "machine (a model) or checker (rules)"),
    Field("cast", "text", "the cast under which it was requested"),
    Field("shown", "text", "what it was shown: the payload alone, or payload and context"),
    Field("prompts", "text", "the prompt set with its version; empty: none"),
    Field("ratings", "count", "items with a verdict"),
    Field("failed", "count", "items without a verdict"),
)

MACHINE_RATING_FIELDS = (
    Field("rater", "text", "the model rater's code, as in machine_raters.csv"),
    Field("item", "text", COLUMN_MEANINGS["item"].partition(";")[0]),
    Field("verdict", "flag", "1 plausible or sufficient, 0 not; empty: no verdict"),
    Field("confidence", "count", "1 to 5; empty: not reported"),
    Field("marked", "list", "keys of the rows it reported as wrong"),
    Field("failed", "text", "reason why there is no verdict; empty: there is one"),
    Field("reasoning", "text", "its explanation; raters never see it"),
    Field("payload_sha256", "text", "SHA-256 of the payload that it was shown"),
    Field("at", "moment", "time of the rating, UTC"),
)

CODEBOOK_FIELDS = (
    Field("file", "text", "name of the table"),
    Field("column", "text", "name of the column"),
    Field("type", "text", "text, count, number, flag (1 or 0), moment (UTC) or list (JSON)"),
    Field("meaning", "text", "meaning of the column; (sealed): empty until the study is unblinded"),
)
