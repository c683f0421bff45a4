"""Contents of a database for comparison: its migrations, rows per table, and a digest of all ratings with their log."""

import hashlib
import json
from typing import NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from ratings.models import InitialRating, Rating, RatingEvent
from wetbench_site.maintenance.verify.checks import iter_rows

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
    return DatabaseContents(_list_migrations(alias), _count_rows(alias), _compute_ratings_digest(alias))


def _list_migrations(alias: str) -> tuple[str, ...]:
    applied = MigrationRecorder(connections[alias]).applied_migrations()
    return tuple(sorted(f"{app}.{name}" for app, name in applied))


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
