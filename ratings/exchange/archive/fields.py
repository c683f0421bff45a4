"""What the columns of the archive's tables hold and mean."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ratings.exchange.codebook import MEANINGS


class Field(NamedTuple):
    """A column. `kind`: text, count, number, flag (1 or 0), moment (UTC) or list (JSON); an empty cell is none or unknown."""

    name: str
    kind: str
    meaning: str


# By the kinds above: the types of Frictionless' Table Schema.
TYPES: Mapping[str, Mapping[str, Any]] = {
    "text": {"type": "string"},
    "count": {"type": "integer"},
    "number": {"type": "number"},
    "flag": {"type": "boolean", "trueValues": ["1"], "falseValues": ["0"]},
    "moment": {"type": "datetime", "format": "any"},
    "list": {"type": "array"},
}
# The kinds of an analysis' tables (ratings.results.analyses.tables) among these.
OF_RESULTS: Mapping[str, str] = {
    "text": "text", "count": "count", "share": "number", "number": "number", "flag": "flag",
}  # fmt: skip

_KINDS: Mapping[str, tuple[str, ...]] = {
    "flag": (
        "verdict", "truth", "simulated", "surplus", "cannot_judge", "context", "localised", "first_verdict", "imported",
        "counts",
    ),
    "count": ("confidence", "position", "occasion", "session", "first_confidence", "revision", "changes", "guide_version"),
    "number": ("seconds", "active_seconds", "first_verdict_seconds"),
    "moment": ("opened_at", "submitted_at"),
    "list": ("marked",),
}  # fmt: skip
_KIND = {name: kind for kind, names in _KINDS.items() for name in names}


def rating(name: str) -> Field:
    """A column of the ratings, as the codebook has it."""
    return Field(name, _KIND.get(name, "text"), MEANINGS[name])


def some(*names: str) -> Iterable[Field]:
    return map(rating, names)


RATINGS = tuple(map(rating, MEANINGS))

WIDE_BEFORE = (
    *some("item", "pair", "source", "perturbation", "reference", "truth", "experiment", "action"),
    Field("ratings", "count", "ratings in this row; those that count nowhere are in ratings.csv alone"),
    Field("could_not_judge", "count", "of these, raters who could not judge; their cells are empty"),
)

VERSIONS = (
    *some("item", "rater", "occasion"),
    Field("revision", "count", "1 is the first answer; the highest of a rater, item and occasion stands"),
    Field("kind", "text", "answer, correction or imported"),
    *some("verdict", "confidence", "cannot_judge", "marked", "note", "active_seconds"),
    Field("at", "moment", "when this version was given, UTC"),
)

ITEMS = (
    *some("item", "pair", "source", "perturbation"),
    Field("error_kind", "text", "which error was planted, as the twin maker names it (sealed)"),
    *some("reference", "truth", "experiment", "action"),
    Field("target", "list", "keys of the rows that hold the planted error; empty: not known (sealed)"),
    Field("classifiers", "text", "what classifiers said when the study opened, JSON by name (sealed)"),
    Field("imported_id", "text", "the id it was imported under; empty: made here (sealed)"),
    Field("payload_sha256", "text", "SHA-256 of what raters were shown, as stored; empty before unblinding"),
    Field("ratings", "count", "ratings that count; before unblinding without those that were imported"),
    Field("could_not_judge", "count", "of these, raters who could not judge"),
)

RATERS = (
    Field("rater", "text", MEANINGS["rater"]),
    Field(
        "who",
        "text",
        "person, simulated, imported (collected elsewhere), or the last two: a simulated rater of another file; a seat that "
        "nobody took is a person's",
    ),
    Field("consented_at", "moment", "when they agreed to take part, UTC; empty: nobody took the seat, or no person"),
    Field("practised_at", "moment", "when practice was passed, or not asked for, UTC"),
    Field("started_at", "moment", "when the first item could be rated, UTC"),
    Field("finished_at", "moment", "when they pressed Finish, UTC"),
    Field("withdrawn_at", "moment", "when they withdrew, UTC"),
    Field("dropped", "flag", "1: withdrawn, and their ratings count nowhere; nothing else is told of them"),
    Field("guide_version", "count", "version of the instructions that was read last"),
    Field("items", "count", "items given to them that were not taken back, repeats left out"),
    Field("ratings", "count", "of these, rated"),
    Field("could_not_judge", "count", "of these, could not judge"),
    Field("repeats", "count", "items they rated a second time"),
    Field("practice_right", "count", "practice items answered right"),
    Field("practice_of", "count", "practice items answered"),
)

EVENTS = (
    Field("at", "moment", "when it happened, UTC; of imported ratings as their file has it"),
    Field(
        "event",
        "text",
        "study: what was done with the study, as its log says; answer, correction, imported: a version of a rating",
    ),
    Field("kind", "text", "of a study's event, which; exports are left out, so that taking files away changes none"),
    *some("rater", "item", "occasion"),
    Field("revision", "count", "of a rating, its version"),
    Field("detail", "text", "what the log says of it; empty where it could name a person"),
)

MACHINE_RATERS = (
    Field("rater", "text", "the machine's code in this study; machines are in no number of people"),
    Field("name", "text", "the model, or set of rules"),
    Field("kind", "text", "machine (a model) or checker (rules)"),
    Field("cast", "text", "what it was ordered as"),
    Field("shown", "text", "payload alone, or payload and context"),
    Field("prompts", "text", "the prompt set with its version; empty: it is given none"),
    Field("ratings", "count", "items it gave a verdict on"),
    Field("failed", "count", "items on which it gave none"),
)

MACHINE_RATINGS = (
    Field("rater", "text", "the machine's code, as in machine_raters.csv"),
    Field("item", "text", MEANINGS["item"].partition(";")[0]),
    Field("verdict", "flag", "1 plausible or sufficient, 0 not; empty: none was given"),
    Field("confidence", "count", "1 to 5; empty: it gives none"),
    Field("marked", "list", "keys of the rows it called wrong"),
    Field("failed", "text", "why there is no verdict; empty: there is one"),
    Field("reasoning", "text", "what it said; raters never see it"),
    Field("payload_sha256", "text", "SHA-256 of what it was shown"),
    Field("at", "moment", "when, UTC"),
)

CODEBOOK = (
    Field("file", "text", "name of the table"),
    Field("column", "text", "name of the column"),
    Field("type", "text", "text, count, number, flag (1 or 0), moment (UTC) or list (JSON)"),
    Field("meaning", "text", "what it means; (sealed): empty until the study is unblinded"),
)
