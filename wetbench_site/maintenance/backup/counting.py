"""Contents of a database for comparison: its migrations, rows per table, and a digest of all ratings with their log."""

import hashlib
import json
from typing import NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.migrations.recorder import MigrationRecorder

from ratings.models import FirstLook, Rating, RatingEvent
from wetbench_site.maintenance.verify.form import rows

# Columns that exist in every version: a backup of an older one is compared before it is migrated.
_SAID = ("assignment_id", "verdict", "confidence", "cannot_judge", "marks", "note", "submission_id")
_DIGESTED: tuple[tuple[type[models.Model], tuple[str, ...]], ...] = (
    (Rating, (*_SAID, "revision", "submitted_at", "revised_at", "seconds")),
    (RatingEvent, (*_SAID, "kind", "revision", "at")),
    (FirstLook, ("assignment_id", "verdict", "confidence", "marks", "submission_id", "at")),
)


class Held(NamedTuple):
    """Contents of a database at one moment."""

    migrations: tuple[str, ...]
    rows: dict[str, int]
    ratings_sha256: str


def held(alias: str = DEFAULT_DB_ALIAS) -> Held:
    """Return the counted and hashed contents; of one moment only if the caller reads a snapshot."""
    return Held(_migrations(alias), _rows(alias), _digest(alias))


def _migrations(alias: str) -> tuple[str, ...]:
    applied = MigrationRecorder(connections[alias]).applied_migrations()
    return tuple(sorted(f"{app}.{name}" for app, name in applied))


def _rows(alias: str) -> dict[str, int]:
    database = connections[alias]
    with database.cursor() as cursor:
        counts = {}
        for table in sorted(database.introspection.table_names(cursor)):
            cursor.execute(f"SELECT count(*) FROM {database.ops.quote_name(table)}")
            counts[table] = int(cursor.fetchone()[0])
    return counts


def _digest(alias: str) -> str:
    """Return the same digest on SQLite and PostgreSQL."""
    digest = hashlib.sha256()
    for model, columns in _DIGESTED:
        digest.update(f"{model._meta.db_table}\n".encode())
        for row in rows(model._default_manager.using(alias).order_by("assignment_id", "pk").values_list(*columns)):
            # Values as JSON, because the two systems store UUIDs, times and booleans differently.
            digest.update(json.dumps(row, default=str, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()
