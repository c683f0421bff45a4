"""Retention of backups in a directory: the last one of each day, then the last one of each week."""

import itertools
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from wetbench_site.maintenance.backup import manifest

ENDINGS = {"sqlite": "sqlite3", "postgresql": "dump"}
_NAME = re.compile(r"wetbench-(\d{8}T\d{6}Z)(?:-\d+)?\.(?:sqlite3|dump)")


def name_of(now: datetime, database: str) -> str:
    return f"wetbench-{now:%Y%m%dT%H%M%SZ}.{ENDINGS[database]}"


def free(directory: Path, now: datetime, database: str) -> Path:
    """Return a path that no backup of this directory has; several of one second are numbered."""
    first = directory / name_of(now, database)
    numbered = (first.with_stem(f"{first.stem}-{number}") for number in itertools.count(2))
    return next(
        path for path in itertools.chain([first], numbered) if not (path.exists() or manifest.beside(path).exists())
    )


def own(directory: Path) -> dict[Path, datetime]:
    """Return the backups with a standard name, each with its time. Other files of the directory are ignored."""
    matches = ((path, _NAME.fullmatch(path.name)) for path in directory.iterdir())
    times = {path: match[1] for path, match in matches if match and manifest.beside(path).is_file()}
    return {
        path: datetime.strptime(time_text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) for path, time_text in times.items()
    }


def surplus(backups: dict[Path, datetime], daily: int, weekly: int) -> list[Path]:
    """Return those that are neither the last of one of the latest `daily` days nor of one of the latest `weekly` weeks.

    Days and weeks without a backup do not count.
    """
    newest = sorted(backups, key=lambda path: (backups[path], path.name), reverse=True)
    days = _first_of_each((backups[path].date().isoformat(), path) for path in newest)
    weeks = _first_of_each((str(backups[path].isocalendar()[:2]), path) for path in newest)
    # The newest backup always stays, also with both numbers 0.
    retained = {*days[:daily], *weeks[:weekly], *newest[:1]}
    return sorted(set(backups) - retained)


def prune(directory: Path, daily: int, weekly: int) -> list[Path]:
    """Remove the expired backups and return their paths."""
    expired = surplus(own(directory), daily, weekly)
    for path in expired:
        # The backup before its manifest: if this is interrupted, a manifest without backup is left, which nothing
        # restores.
        path.unlink(missing_ok=True)
        manifest.beside(path).unlink(missing_ok=True)
    return expired


def _first_of_each(named: Iterable[tuple[str, Path]]) -> list[Path]:
    first: dict[str, Path] = {}
    for group, path in named:
        first.setdefault(group, path)
    return list(first.values())
