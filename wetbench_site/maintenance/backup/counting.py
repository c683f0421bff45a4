"""What a database holds: its migrations, rows per table, and a digest of every rating with its log."""

import hashlib
import json
from typing import NamedTuple

from django.db import DEFAULT_DB_ALIAS, connections, models
from django.db.migrations.recorder import MigrationRecorder

from ratings.models import FirstLook, Rating, RatingEvent
from wetbench_site.maintenance.verify.form import rows

# Columns that are there in every version, so that a backup of an earlier one can be compared before it is migrated.
_SAID = ("assignment_id", "verdict", "confidence", "cannot_judge", "marks", "note", "submission_id")
_DIGESTED: tuple[tuple[type[models.Model], tuple[str, ...]], ...] = (
    (Rating, (*_SAID, "revision", "submitted_at", "revised_at", "seconds")),
    (RatingEvent, (*_SAID, "kind", "revision", "at")),
    (FirstLook, ("assignment_id", "verdict", "confidence", "marks", "submission_id", "at")),
)


class Held(NamedTuple):
    """What a database holds at one moment."""

    migrations: tuple[str, ...]
    rows: dict[str, int]
    ratings_sha256: str


def held(alias: str = DEFAULT_DB_ALIAS) -> Held:
    """Counted and hashed; of one moment if the caller sees to it."""
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
    """The same on both databases: of values, not of how they are stored."""
    digest = hashlib.sha256()
    for model, columns in _DIGESTED:
        digest.update(f"{model._meta.db_table}\n".encode())
        for row in rows(model._default_manager.using(alias).order_by("assignment_id", "pk").values_list(*columns)):
            digest.update(json.dumps(row, default=str, sort_keys=True).encode() + b"\n")
    return digest.hexdigest()
