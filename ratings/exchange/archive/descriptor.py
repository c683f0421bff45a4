"""What describes the archive: a Frictionless Data Package, and the digests of all its files.

By the Data Package standard 2.0 (datapackage.org): a resource has a name and a path, a table its type and schema, and
`hash` names its algorithm. There is no date of creation in it: the same study gives the same bytes.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ratings.exchange.archive import orders
from ratings.exchange.archive.entries import Entry
from ratings.exchange.archive.fields import TYPES, Field
from ratings.models import Study

NAME, SUMS = "datapackage.json", "SHA256SUMS"
_PROFILES = "https://datapackage.org/profiles/2.0"
_MEDIA: Mapping[str, str] = {
    ".csv": "text/csv", ".json": "application/json", ".jsonl": "application/jsonl", ".svg": "image/svg+xml",
    ".pdf": "application/pdf", ".png": "image/png", ".tex": "application/x-tex", ".imrmc": "text/plain",
    ".txt": "text/plain", ".md": "text/markdown",
}  # fmt: skip
# The program frictionless takes a JSON file with a key "data", which results.json has, for a descriptor of its own.
_FORMATS: Mapping[str, str] = {"results.json": "wetbench-analysis"}


class File(NamedTuple):
    """An entry as it was written."""

    entry: Entry
    size: int
    sha256: str


def package(study: Study, blinded: bool, files: Sequence[File]) -> str:
    """datapackage.json: every file but itself and the sums."""
    about = {
        "$schema": f"{_PROFILES}/datapackage.json",
        "name": study.slug,
        "id": str(study.code),
        "title": f"{study.name} ({orders.variant(blinded)})",
        "description": study.question,
        "resources": [_resource(file) for file in files],
    }
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


def sums(digests: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Lines for `sha256sum -c`, of (name, digest)."""
    return (f"{digest}  {name}\n" for name, digest in digests)


def _resource(file: File) -> dict[str, Any]:
    entry = file.entry
    ending = PurePosixPath(entry.name).suffix
    found = {
        "name": entry.name.lower().replace("/", "."),
        "path": entry.name,
        **({"type": "table"} if entry.fields else {}),
        "description": entry.says,
        "format": _FORMATS.get(entry.name, ending.removeprefix(".")),
        "mediatype": _MEDIA[ending],
        **({} if ending in (".pdf", ".png") else {"encoding": "utf-8"}),
        "bytes": file.size,
        "hash": f"sha256:{file.sha256}",
    }
    if entry.fields:
        found["schema"] = {
            "$schema": f"{_PROFILES}/tableschema.json",
            "fields": [_field(field) for field in entry.fields],
            **({"primaryKey": list(entry.key)} if entry.key else {}),
            "missingValues": [""],
        }
    return found


def _field(field: Field) -> dict[str, Any]:
    return {"name": field.name, **TYPES[field.kind], "description": field.meaning}
