"""The manifest next to a backup: the database it was made from, its contents, and the digest of its file."""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from ratings.exchange.archive.contents import compute_source_sha256
from ratings.models import InitialRating, Rating, RatingEvent
from wetbench_site.database_copies.extra_databases import BackupError
from wetbench_site.maintenance.verify.checks import iter_rows
from wetbench_site.text import describe_error

MANIFEST_VERSION = 1
DATABASE_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_FILE_SIGNATURES = {"sqlite": b"SQLite format 3\x00", "postgresql": b"PGDMP"}
# Columns that exist in every version: a backup of an older one is compared before it is migrated.
_ANSWER_COLUMNS = ("assignment_id", "verdict", "confidence", "cannot_judge", "marks", "note", "submission_id")
# Each table has a label in the digest. Labels never change, so that backups of earlier releases keep their digests.
_DIGEST_COLUMNS: tuple[tuple[str, type[models.Model], tuple[str, ...]], ...] = (
    ("ratings_rating", Rating, (*_ANSWER_COLUMNS, "revision", "submitted_at", "revised_at", "seconds")),
    ("ratings_ratingevent", RatingEvent, (*_ANSWER_COLUMNS, "kind", "revision", "at")),
    ("ratings_firstlook", InitialRating, ("assignment_id", "verdict", "confidence", "marks", "submission_id", "at")),
)
# A backup is compared before it is migrated, so its tables can have the names of an earlier release:
# model -> the last migration before the table was renamed, and the model's name then.
_FORMER_NAMES = {InitialRating: (("ratings", "0002_study_event_data"), "FirstLook")}


class DatabaseContents(NamedTuple):
    """Contents of a database at one moment."""

    migrations: tuple[str, ...]
    rows: dict[str, int]
    ratings_sha256: str


def count_contents(alias: str = DEFAULT_DB_ALIAS) -> DatabaseContents:
    """Return the counted and hashed contents. They are of one moment only if the caller reads a snapshot."""
    applied = MigrationRecorder(connections[alias]).applied_migrations()
    migrations = tuple(sorted(f"{app}.{name}" for app, name in applied))
    return DatabaseContents(migrations, _count_rows(alias), _compute_ratings_digest(alias))


def _count_rows(alias: str) -> dict[str, int]:
    database = connections[alias]
    with database.cursor() as cursor:
        counts = {}
        for table in sorted(database.introspection.table_names(cursor)):
            cursor.execute(f"SELECT count(*) FROM {database.ops.quote_name(table)}")
            counts[table] = int(cursor.fetchone()[0])
    return counts


def _compute_ratings_digest(alias: str) -> str:
    """Return the digest of all ratings and their log. It is the same on SQLite and PostgreSQL."""
    digest = hashlib.sha256()
    for label, current_model, columns in _DIGEST_COLUMNS:
        digest.update(f"{label}\n".encode())
        model = _find_stored_model(current_model, alias)
        for row in iter_rows(model._default_manager.using(alias).order_by("assignment_id", "pk").values_list(*columns)):
            # Values as JSON, because the two systems store UUIDs, times and booleans differently.
            digest.update(json.dumps(row, default=str, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def _find_stored_model(model: type[models.Model], alias: str) -> type[models.Model]:
    """Return the model, or its former state if the database was not migrated since its table was renamed."""
    if model not in _FORMER_NAMES or model._meta.db_table in connections[alias].introspection.table_names():
        return model
    migration, name = _FORMER_NAMES[model]
    former: type[models.Model] = MigrationLoader(None).project_state(migration).apps.get_model("ratings", name)
    return former


class Manifest(NamedTuple):
    """The facts about a backup that are stored outside of it."""

    database: str
    made_at: str
    code_sha256: str
    size: int
    sha256: str
    held: DatabaseContents

    def to_dict(self) -> dict[str, Any]:
        held = {**self.held._asdict(), "migrations": list(self.held.migrations)}
        return {"form": MANIFEST_VERSION, **self._asdict(), "held": held}


def get_manifest_path(file: Path) -> Path:
    """Return the path of a backup's manifest."""
    return file.with_name(f"{file.name}.json")


def build_manifest(file: Path, database: str, held: DatabaseContents, now: datetime) -> Manifest:
    made_at = now.isoformat(timespec="seconds")
    return Manifest(database, made_at, compute_source_sha256(), file.stat().st_size, hash_file(file), held)


def hash_file(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def load_manifest(file: Path) -> Manifest:
    """Return the manifest of this backup. Raises BackupError if it is missing or this version cannot read it."""
    path = get_manifest_path(file)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if (form := document["form"]) != MANIFEST_VERSION:
            raise BackupError(f"{path} is a manifest of format {form}; this version reads format {MANIFEST_VERSION}")
        contents = document["held"]
        held = DatabaseContents(tuple(contents["migrations"]), dict(contents["rows"]), contents["ratings_sha256"])
        return Manifest(held=held, **{name: document[name] for name in Manifest._fields if name != "held"})
    except FileNotFoundError:
        raise BackupError(f"{path} is missing: the manifest must be next to the backup") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(f"{path} cannot be read as the manifest of a backup: {describe_error(error)}") from error


def check_file(file: Path, manifest: Manifest) -> None:
    """Raise BackupError unless the file is, byte for byte, the one that was created."""
    if not file.is_file():
        raise BackupError(f"{file} does not exist or is not a file")
    # The type and size are checked first: the digest of a large file takes a while.
    with file.open("rb") as stream:
        start = stream.read(16)
    if not start.startswith(_FILE_SIGNATURES.get(manifest.database, b"?")):
        name = DATABASE_NAMES.get(manifest.database, manifest.database)
        raise BackupError(f"{file} is not a backup of {name}, although its manifest says so")
    if (size := file.stat().st_size) != manifest.size:
        raise BackupError(f"{file} has {size:,} bytes instead of {manifest.size:,}: use another copy")
    if hash_file(file) != manifest.sha256:
        raise BackupError(f"{file} is damaged: its SHA-256 differs from the manifest. Use another copy")
