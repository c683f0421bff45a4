"""Other databases beside the site's own: opened under a name of their own, and forgotten afterwards."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

OTHER = "other"


@contextmanager
def copy_of_sqlite(file: Path) -> Iterator[str]:
    """The alias of a SQLite file that is only read."""
    with _opened({"NAME": f"file:{file}?mode=ro", "OPTIONS": {"timeout": 20}}) as alias:
        yield alias


@contextmanager
def database_of_the_server(name: str, alias: str = OTHER) -> Iterator[str]:
    """The alias of another database of the same PostgreSQL server, without limits of time and without a pool."""
    options = dict(connections[DEFAULT_DB_ALIAS].settings_dict["OPTIONS"])
    options.pop("pool", None)
    with _opened({"NAME": name, "OPTIONS": {**options, "options": "-c lock_timeout=5000"}}, alias):
        yield alias


@contextmanager
def database_elsewhere(target: Mapping[str, Any], alias: str = OTHER) -> Iterator[str]:
    """The alias of a PostgreSQL database that `target` describes as Django's settings do."""
    place = {name: target[name] for name in ("NAME", "HOST", "PORT", "USER", "PASSWORD")}
    options = {"connect_timeout": 5, **target.get("OPTIONS", {}), "options": "-c lock_timeout=5000"}
    with _opened({**place, "OPTIONS": options}, alias):
        yield alias


@contextmanager
def site_on(file: Path) -> Iterator[None]:
    """The site's own database is this SQLite file: what migrates and checks needs no other name for it."""
    database = connections[DEFAULT_DB_ALIAS]
    database.close()
    usual, database.settings_dict["NAME"] = database.settings_dict["NAME"], str(file)
    try:
        yield
    finally:
        database.close()
        database.settings_dict["NAME"] = usual


@contextmanager
def _opened(changes: dict[str, Any], alias: str = OTHER) -> Iterator[str]:
    """A connection that no setting names: whoever goes through all of the site's does not meet it."""
    database = connections[DEFAULT_DB_ALIAS].copy(alias=alias)
    database.settings_dict.update(changes)
    connections[alias] = database
    try:
        yield alias
    finally:
        database.close()
        del connections[alias]
