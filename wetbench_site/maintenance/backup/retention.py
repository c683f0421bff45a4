"""Retention of backups in a directory: the last one of each day, then the last one of each week."""

import itertools
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from wetbench_site.maintenance.backup import manifest

FILE_SUFFIXES = {"sqlite": "sqlite3", "postgresql": "dump"}
_NAME_PATTERN = re.compile(r"wetbench-(\d{8}T\d{6}Z)(?:-\d+)?\.(?:sqlite3|dump)")


def format_backup_name(now: datetime, database: str) -> str:
    return f"wetbench-{now:%Y%m%dT%H%M%SZ}.{FILE_SUFFIXES[database]}"


def find_free_path(directory: Path, now: datetime, database: str) -> Path:
    """Return a path that no backup of this directory has; backups of the same second are numbered."""
    first = directory / format_backup_name(now, database)
    numbered = (first.with_stem(f"{first.stem}-{number}") for number in itertools.count(2))
    return next(
        path
        for path in itertools.chain([first], numbered)
        if not (path.exists() or manifest.get_manifest_path(path).exists())
    )


def list_backups(directory: Path) -> dict[Path, datetime]:
    """Return the backups with a standard name, each with its time. Other files of the directory are ignored."""
    matches = ((path, _NAME_PATTERN.fullmatch(path.name)) for path in directory.iterdir())
    times = {path: match[1] for path, match in matches if match and manifest.get_manifest_path(path).is_file()}
    return {
        path: datetime.strptime(time_text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) for path, time_text in times.items()
    }


def find_expired_backups(backups: dict[Path, datetime], daily: int, weekly: int) -> list[Path]:
    """Return all backups except the last of each of the latest `daily` days and of each of the latest `weekly` weeks.

    Days and weeks without a backup do not count. The newest backup is never returned.
    """
    newest = sorted(backups, key=lambda path: (backups[path], path.name), reverse=True)
    days = _take_first_of_each_group((backups[path].date().isoformat(), path) for path in newest)
    weeks = _take_first_of_each_group((str(backups[path].isocalendar()[:2]), path) for path in newest)
    # The newest backup always stays, also with both numbers 0.
    retained = {*days[:daily], *weeks[:weekly], *newest[:1]}
    return sorted(set(backups) - retained)


def prune_backups(directory: Path, daily: int, weekly: int) -> list[Path]:
    """Remove the expired backups and return their paths."""
    expired = find_expired_backups(list_backups(directory), daily, weekly)
    for path in expired:
        # The backup before its manifest: if this is interrupted, a manifest without backup is left, which nothing
        # restores.
        path.unlink(missing_ok=True)
        manifest.get_manifest_path(path).unlink(missing_ok=True)
    return expired


def _take_first_of_each_group(grouped_paths: Iterable[tuple[str, Path]]) -> list[Path]:
    first: dict[str, Path] = {}
    for group, path in grouped_paths:
        first.setdefault(group, path)
    return list(first.values())
