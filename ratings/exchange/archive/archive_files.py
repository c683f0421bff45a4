"""A file of the archive, the columns of its tables, and the descriptor of all files (a Frictionless Data Package)."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ratings.exchange.archive import archive_requests
from ratings.exchange.exports import COLUMN_MEANINGS, RATING_FIELDS, Field, format_table_lines
from ratings.models import Study

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


def get_rating_fields(*names: str) -> Iterable[Field]:
    """Return columns of ratings.csv."""
    fields = {field.name: field for field in RATING_FIELDS}
    return (fields[name] for name in names)


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
    Field(
        "deviation",
        "number",
        "relative deviation of the planted number from the true one, with its sign; empty: unknown, or the error does not change a number (sealed)",
    ),
    *get_rating_fields("reference", "truth", "experiment", "action"),
    Field("target", "list", "keys of the rows that contain the planted error; empty: not known (sealed)"),
    Field("classifiers", "text", "verdicts of the classifiers when the study opened, JSON by name (sealed)"),
    Field("imported_id", "text", "the id under which it was imported; empty: generated here (sealed)"),
    Field("payload_sha256", "text", "SHA-256 of the stored payload that raters were shown; empty before unblinding"),
    Field("ratings", "count", "number of ratings that count; before unblinding without imported ones"),
    Field("could_not_judge", "count", "of these, ratings of raters who could not judge"),
    Field(
        "name",
        "text",
        "action and first material, or the goal of a record; a twin has the name of its original (sealed)",
    ),
)

RATER_FIELDS = (
    Field("rater", "text", COLUMN_MEANINGS["rater"]),
    Field("who", "text", 'person, simulated, imported (collected elsewhere), or "simulated, imported" for a simulated rater of an imported file; an open rater place is listed as person'),
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
)  # fmt: skip

EVENT_FIELDS = (
    Field("at", "moment", "time of the event, UTC; for imported ratings the time in their file"),
    Field("event", "text", "study: an entry of the study's activity log; answer, correction, imported: a version of a rating"),
    Field("kind", "text", "kind of the study event; exports are left out, so that downloading an archive does not change the next one"),
    *get_rating_fields("rater", "item", "occasion"),
    Field("revision", "count", "version of the rating"),
    Field("detail", "text", "description in the activity log; empty if it could name a person"),
)  # fmt: skip

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


Rows = Callable[[], Iterable[Iterable[Any]]]


class ArchiveFile(NamedTuple):
    """One file of the archive.

    `description` is one sentence. `fields` are the columns of a table, empty for other files. `key` names the columns
    that identify a row; none of their cells is ever empty.

    `pieces` is called once, when the file is written. Nothing is read from the database before that.
    """

    name: str
    description: str
    pieces: Callable[[], Iterable[str | bytes]]
    fields: tuple[Field, ...] = ()
    key: tuple[str, ...] = ()


def create_table_file(
    name: str, description: str, fields: Sequence[Field], rows: Rows, *, exact: bool = False, key: tuple[str, ...] = ()
) -> ArchiveFile:
    """Return a CSV file. Numbers have three decimals, or with `exact` as many as needed to restore the same number."""
    columns = [field.name for field in fields]
    return ArchiveFile(name, description, lambda: format_table_lines(columns, rows(), exact=exact), tuple(fields), key)


def create_text_file(name: str, description: str, content: str) -> ArchiveFile:
    return ArchiveFile(name, description, lambda: [content])


DESCRIPTOR_NAME, CHECKSUMS_NAME = "datapackage.json", "SHA256SUMS"
_PROFILE_URL = "https://datapackage.org/profiles/2.0"
_MEDIA_TYPES: Mapping[str, str] = {
    ".csv": "text/csv", ".json": "application/json", ".jsonl": "application/jsonl", ".svg": "image/svg+xml",
    ".pdf": "application/pdf", ".png": "image/png", ".tex": "application/x-tex", ".imrmc": "text/plain",
    ".txt": "text/plain", ".md": "text/markdown",
}  # fmt: skip
# The program frictionless reads a JSON file with a key "data", such as results.json, as another descriptor,
# unless the file has a special format.
_SPECIAL_FORMATS: Mapping[str, str] = {"results.json": "wetbench-analysis"}


class WrittenFile(NamedTuple):
    """A file of the archive after it was written."""

    entry: ArchiveFile
    size: int
    sha256: str


def format_data_package(study: Study, blinded: bool, files: Sequence[WrittenFile]) -> str:
    """Return datapackage.json, which describes every file except itself and the checksums.

    It follows the Data Package standard 2.0 (datapackage.org): a resource has a name and a path, a table has a type and a
    schema, and `hash` names its algorithm.
    """
    # No creation date: the same study must give the same bytes.
    document = {
        "$schema": f"{_PROFILE_URL}/datapackage.json",
        "name": study.slug,
        "id": str(study.code),
        "title": f"{study.name} ({archive_requests.get_variant_name(blinded)})",
        "description": study.question,
        "resources": [_describe_resource(*file) for file in files],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _describe_resource(entry: ArchiveFile, size: int, sha256: str) -> dict[str, Any]:
    suffix = PurePosixPath(entry.name).suffix
    resource = {
        # the standard allows no slash in a name
        "name": entry.name.lower().replace("/", "."),
        "path": entry.name,
        **({"type": "table"} if entry.fields else {}),
        "description": entry.description,
        "format": _SPECIAL_FORMATS.get(entry.name, suffix.removeprefix(".")),
        "mediatype": _MEDIA_TYPES[suffix],
        # encoding is only defined for text
        **({} if suffix in (".pdf", ".png") else {"encoding": "utf-8"}),
        "bytes": size,
        "hash": f"sha256:{sha256}",
    }
    if entry.fields:
        resource["schema"] = {
            "$schema": f"{_PROFILE_URL}/tableschema.json",
            "fields": [
                {"name": name, **SCHEMA_TYPES[kind], "description": meaning} for name, kind, meaning in entry.fields
            ],
            **({"primaryKey": list(entry.key)} if entry.key else {}),
            # an empty cell is null in every type, text included
            "missingValues": [""],
        }
    return resource
