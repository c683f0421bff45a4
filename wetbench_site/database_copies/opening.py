"""Connections to databases other than the site's own, each under an alias that exists only inside the block."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

OTHER = "other"


@contextmanager
def copy_of_sqlite(file: Path) -> Iterator[str]:
    """Yield the alias of a SQLite file, opened read-only."""
    with _opened({"NAME": f"file:{file}?mode=ro", "OPTIONS": {"timeout": 20}}) as alias:
        yield alias


@contextmanager
def database_of_the_server(name: str, alias: str = OTHER) -> Iterator[str]:
    """Yield the alias of another database of the same PostgreSQL server, without time limits and without a pool."""
    options = dict(connections[DEFAULT_DB_ALIAS].settings_dict["OPTIONS"])
    # A scratch database is dropped afterwards, which idle connections of a pool would prevent.
    options.pop("pool", None)
    with _opened({"NAME": name, "OPTIONS": {**options, "options": "-c lock_timeout=5000"}}, alias):
        yield alias


@contextmanager
def database_elsewhere(target: Mapping[str, Any], alias: str = OTHER) -> Iterator[str]:
    """Yield the alias of a PostgreSQL database that `target` describes in the format of Django's settings."""
    location = {name: target[name] for name in ("NAME", "HOST", "PORT", "USER", "PASSWORD")}
    options = {"connect_timeout": 5, **target.get("OPTIONS", {}), "options": "-c lock_timeout=5000"}
    with _opened({**location, "OPTIONS": options}, alias):
        yield alias


@contextmanager
def site_on(file: Path) -> Iterator[None]:
    """Use this SQLite file as the site's own database inside the block."""
    database = connections[DEFAULT_DB_ALIAS]
    database.close()
    # Under the default alias, because migrations and checks know no other.
    usual_name, database.settings_dict["NAME"] = database.settings_dict["NAME"], str(file)
    try:
        yield
    finally:
        database.close()
        database.settings_dict["NAME"] = usual_name


@contextmanager
def _opened(changes: dict[str, Any], alias: str = OTHER) -> Iterator[str]:
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
