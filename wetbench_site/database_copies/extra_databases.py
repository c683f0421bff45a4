"""Connections to databases other than the site's own, each under an alias that exists only inside the block."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

DEFAULT_COPY_ALIAS = "other"


@contextmanager
def connect_sqlite_copy(file: Path) -> Iterator[str]:
    """Yield the alias of a SQLite file, opened read-only."""
    with _open_connection({"NAME": f"file:{file}?mode=ro", "OPTIONS": {"timeout": 20}}) as alias:
        yield alias


@contextmanager
def connect_server_database(name: str, alias: str = DEFAULT_COPY_ALIAS) -> Iterator[str]:
    """Yield the alias of another database of the same PostgreSQL server, without time limits and without a pool."""
    options = dict(connections[DEFAULT_DB_ALIAS].settings_dict["OPTIONS"])
    # A scratch database is dropped afterwards, which idle connections of a pool would prevent.
    options.pop("pool", None)
    with _open_connection({"NAME": name, "OPTIONS": {**options, "options": "-c lock_timeout=5000"}}, alias):
        yield alias


@contextmanager
def connect_external_database(target: Mapping[str, Any], alias: str = DEFAULT_COPY_ALIAS) -> Iterator[str]:
    """Yield the alias of a PostgreSQL database that `target` describes in the format of Django's settings."""
    location = {name: target[name] for name in ("NAME", "HOST", "PORT", "USER", "PASSWORD")}
    options = {"connect_timeout": 5, **target.get("OPTIONS", {}), "options": "-c lock_timeout=5000"}
    with _open_connection({**location, "OPTIONS": options}, alias):
        yield alias


@contextmanager
def replace_site_database(file: Path) -> Iterator[None]:
    """Use this SQLite file as the site's own database inside the block."""
    database = connections[DEFAULT_DB_ALIAS]
    database.close()
    # Under the default alias, because migrations and checks use no other.
    usual_name, database.settings_dict["NAME"] = database.settings_dict["NAME"], str(file)
    try:
        yield
    finally:
        database.close()
        database.settings_dict["NAME"] = usual_name


@contextmanager
def _open_connection(changes: dict[str, Any], alias: str = DEFAULT_COPY_ALIAS) -> Iterator[str]:
    """Yield the alias of a new connection with the changed settings."""
    # Not in settings.DATABASES, so code that iterates over all configured databases does not see it.
    database = connections[DEFAULT_DB_ALIAS].copy(alias=alias)
    database.settings_dict.update(changes)
    connections[alias] = database
    try:
        yield alias
    finally:
        database.close()
        del connections[alias]


class BackupError(Exception):
    """Nothing was created or changed; the message says what is wrong and what to do next."""
