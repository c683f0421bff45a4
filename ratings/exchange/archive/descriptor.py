"""Describe the archive: a Frictionless Data Package, and the digests of all its files.

Follows the Data Package standard 2.0 (datapackage.org): a resource has a name and a path, a table has a type and a
schema, and `hash` names its algorithm.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ratings.exchange.archive import archive_requests
from ratings.exchange.archive.archive_files import ArchiveFile
from ratings.exchange.archive.fields import SCHEMA_TYPES, Field
from ratings.models import Study

DESCRIPTOR_NAME, CHECKSUMS_NAME = "datapackage.json", "SHA256SUMS"
_PROFILE_URL = "https://datapackage.org/profiles/2.0"
_MEDIA_TYPES: Mapping[str, str] = {
    ".csv": "text/csv", ".json": "application/json", ".jsonl": "application/jsonl", ".svg": "image/svg+xml",
    ".pdf": "application/pdf", ".png": "image/png", ".tex": "application/x-tex", ".imrmc": "text/plain",
    ".txt": "text/plain", ".md": "text/markdown",
}  # fmt: skip
# The program frictionless reads a JSON file with a key "data", such as results.json, as another descriptor,
# unless the file has a special format.
_SPECIAL_FORMATS: Mapping[str, str] = {"results.json": "wetbench-analysis"}


class WrittenFile(NamedTuple):
    """A file of the archive after it was written."""

    entry: ArchiveFile
    size: int
    sha256: str


def format_data_package(study: Study, blinded: bool, files: Sequence[WrittenFile]) -> str:
    """Return datapackage.json, which describes every file except itself and the checksums."""
    # No creation date: the same study must give the same bytes.
    document = {
        "$schema": f"{_PROFILE_URL}/datapackage.json",
        "name": study.slug,
        "id": str(study.code),
        "title": f"{study.name} ({archive_requests.get_variant_name(blinded)})",
        "description": study.question,
        "resources": [_describe_resource(file) for file in files],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def format_checksum_lines(digests: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Return lines for `sha256sum -c` from (name, digest) pairs."""
    return (f"{digest}  {name}\n" for name, digest in digests)


def _describe_resource(file: WrittenFile) -> dict[str, Any]:
    archive_file = file.entry
    suffix = PurePosixPath(archive_file.name).suffix
    resource = {
        # the standard allows no slash in a name
        "name": archive_file.name.lower().replace("/", "."),
        "path": archive_file.name,
        **({"type": "table"} if archive_file.fields else {}),
        "description": archive_file.description,
        "format": _SPECIAL_FORMATS.get(archive_file.name, suffix.removeprefix(".")),
        "mediatype": _MEDIA_TYPES[suffix],
        # encoding is only defined for text
        **({} if suffix in (".pdf", ".png") else {"encoding": "utf-8"}),
        "bytes": file.size,
        "hash": f"sha256:{file.sha256}",
    }
    if archive_file.fields:
        resource["schema"] = {
            "$schema": f"{_PROFILE_URL}/tableschema.json",
            "fields": [_describe_field(field) for field in archive_file.fields],
            **({"primaryKey": list(archive_file.key)} if archive_file.key else {}),
            # an empty cell is null in every type, text included
            "missingValues": [""],
        }
    return resource


def _describe_field(field: Field) -> dict[str, Any]:
    return {"name": field.name, **SCHEMA_TYPES[field.kind], "description": field.meaning}
