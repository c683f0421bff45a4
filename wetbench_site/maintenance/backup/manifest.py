"""The manifest next to a backup: the database it was made from, its contents, and the digest of its file."""

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ratings.exchange.archive.contents import compute_source_sha256
from wetbench_site.database_copies.errors import BackupError
from wetbench_site.maintenance.backup.checksums import DatabaseContents

MANIFEST_VERSION = 1
_FILE_SIGNATURES = {"sqlite": b"SQLite format 3\x00", "postgresql": b"PGDMP"}
DATABASE_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_CHUNK_BYTES = 1 << 20


class Manifest(NamedTuple):
    """The facts about a backup that are stored outside of it."""

    database: str
    made_at: str
    code_sha256: str
    size: int
    sha256: str
    held: DatabaseContents

    def to_dict(self) -> dict[str, Any]:
        held = {"migrations": list(self.held.migrations), "rows": self.held.rows}
        return {
            "form": MANIFEST_VERSION,
            **self._asdict(),
            "held": {**held, "ratings_sha256": self.held.ratings_sha256},
        }


def get_manifest_path(file: Path) -> Path:
    """Return the path of a backup's manifest."""
    return file.with_name(f"{file.name}.json")


def build_manifest(file: Path, database: str, held: DatabaseContents, now: datetime) -> Manifest:
    return Manifest(
        database, now.isoformat(timespec="seconds"), compute_source_sha256(), file.stat().st_size, hash_file(file), held
    )


def hash_file(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def load_manifest(file: Path) -> Manifest:
    """Return the manifest of this backup. Raises BackupError if it is missing or this version cannot read it."""
    path = get_manifest_path(file)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["form"] != MANIFEST_VERSION:
            raise BackupError(
                f"{path} is a manifest of format {document['form']}; this version reads format {MANIFEST_VERSION}"
            )
        held = DatabaseContents(
            tuple(document["held"]["migrations"]), dict(document["held"]["rows"]), document["held"]["ratings_sha256"]
        )
        return Manifest(held=held, **{name: document[name] for name in Manifest._fields if name != "held"})
    except FileNotFoundError:
        raise BackupError(f"{path} is missing: the manifest must be next to the backup") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BackupError(f"{path} cannot be read as the manifest of a backup: {error!r}") from error


def check_file(file: Path, manifest: Manifest) -> None:
    """Raise BackupError unless the file is, byte for byte, the one that was created."""
    if not file.is_file():
        raise BackupError(f"{file} does not exist or is not a file")
    # The type and size are checked first: the digest of a large file takes a while.
    with file.open("rb") as stream:
        start = stream.read(16)
    if not start.startswith(_FILE_SIGNATURES.get(manifest.database, b"?")):
        raise BackupError(
            f"{file} is not a backup of {DATABASE_NAMES.get(manifest.database, manifest.database)}, although its manifest says so"
        )
    if (size := file.stat().st_size) != manifest.size:
        raise BackupError(f"{file} has {size:,} bytes instead of {manifest.size:,}: use another copy")
    if hash_file(file) != manifest.sha256:
        raise BackupError(f"{file} is damaged: its SHA-256 differs from the manifest. Use another copy")
