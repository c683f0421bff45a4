"""What stands beside a backup: of what it is, what must be in it, and the digest of its file."""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ratings.exchange.archive.contents import source_sha256
from wetbench_site.database_copies.faults import BackupError
from wetbench_site.maintenance.backup.counting import Held

FORM = 1
_MAGIC = {"sqlite": b"SQLite format 3\x00", "postgresql": b"PGDMP"}
KINDS = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_PIECE = 1 << 20


class Manifest(NamedTuple):
    """All that is known of a backup without opening it."""

    database: str
    made_at: str
    code_sha256: str
    size: int
    sha256: str
    held: Held

    def to_json(self) -> dict[str, Any]:
        held = {"migrations": list(self.held.migrations), "rows": self.held.rows}
        return {"form": FORM, **self._asdict(), "held": {**held, "ratings_sha256": self.held.ratings_sha256}}


def beside(file: Path) -> Path:
    """Where the manifest of a backup stands."""
    return file.with_name(f"{file.name}.json")


def of(file: Path, database: str, held: Held, now: datetime) -> Manifest:
    return Manifest(
        database, now.isoformat(timespec="seconds"), source_sha256(), file.stat().st_size, sha256(file), held
    )


def sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while piece := stream.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()


def read(file: Path) -> Manifest:
    """The manifest of this backup. BackupError if there is none, or none that this version can read."""
    path = beside(file)
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["form"] != FORM:
            raise BackupError(f"{path} is a manifest of form {told['form']}; this version reads form {FORM}")
        held = Held(tuple(told["held"]["migrations"]), dict(told["held"]["rows"]), told["held"]["ratings_sha256"])
        return Manifest(held=held, **{name: told[name] for name in Manifest._fields if name != "held"})
    except FileNotFoundError:
        raise BackupError(f"{path} is missing: a backup is restored with its manifest beside it") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(f"{path} cannot be read as the manifest of a backup: {error!r}") from error


def refuse_damaged(file: Path, told: Manifest) -> None:
    """BackupError unless the file is, byte for byte, the one that was made."""
    if not file.is_file():
        raise BackupError(f"{file} is not there, or not a file")
    with file.open("rb") as stream:
        start = stream.read(16)
    if not start.startswith(_MAGIC.get(told.database, b"?")):
        raise BackupError(f"{file} is no backup of {KINDS.get(told.database, told.database)}, as its manifest has it")
    if (size := file.stat().st_size) != told.size:
        raise BackupError(f"{file} has {size:,} bytes and had {told.size:,} when it was made: use another copy")
    if sha256(file) != told.sha256:
        raise BackupError(f"{file} is damaged: its bytes are not those that were written. Use another copy")
