"""Which backups of a directory stay: the last of each day, then of each week."""

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
    """A name that no backup of this directory has; several of one second are numbered."""
    first = directory / name_of(now, database)
    others = (first.with_stem(f"{first.stem}-{number}") for number in itertools.count(2))
    return next(
        path for path in itertools.chain([first], others) if not (path.exists() or manifest.beside(path).exists())
    )


def own(directory: Path) -> dict[Path, datetime]:
    """The backups that were named here, each with its time. Others in the directory are nobody's business."""
    found = ((path, _NAME.fullmatch(path.name)) for path in directory.iterdir())
    times = {path: match[1] for path, match in found if match and manifest.beside(path).is_file()}
    return {path: datetime.strptime(at, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) for path, at in times.items()}


def surplus(backups: dict[Path, datetime], daily: int, weekly: int) -> list[Path]:
    """Those that are neither the last of one of the latest `daily` days nor of one of the latest `weekly` weeks with any."""
    newest = sorted(backups, key=lambda path: (backups[path], path.name), reverse=True)
    days = _first_of_each((backups[path].date().isoformat(), path) for path in newest)
    weeks = _first_of_each((str(backups[path].isocalendar()[:2]), path) for path in newest)
    kept = {*days[:daily], *weeks[:weekly], *newest[:1]}
    return sorted(set(backups) - kept)


def prune(directory: Path, daily: int, weekly: int) -> list[Path]:
    """Remove what is surplus, each backup before its manifest: what has none is no backup."""
    gone = surplus(own(directory), daily, weekly)
    for path in gone:
        path.unlink(missing_ok=True)
        manifest.beside(path).unlink(missing_ok=True)
    return gone


def _first_of_each(named: Iterable[tuple[str, Path]]) -> list[Path]:
    first: dict[str, Path] = {}
    for group, path in named:
        first.setdefault(group, path)
    return list(first.values())
