"""Write archive files one after another into a zip or a folder, with one piece of one file in memory at a time."""

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol

from ratings.exchange.archive import descriptor, entries
from ratings.exchange.archive.descriptor import File
from ratings.exchange.archive.entries import Entry
from ratings.models import Study

Tell = Callable[[int, int, str], None]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can store; used for all files, so that bytes are reproducible
_PLAIN_FILE = 0o100644 << 16  # a regular file, rw-r--r--; zip keeps Unix modes in the upper 16 bits


class Writer(Protocol):
    def write(self, data: bytes, /) -> object: ...


Open = Callable[[str], AbstractContextManager[Writer]]


def into_zip(file: IO[bytes]) -> tuple[zipfile.ZipFile, Open]:
    """Return a zip, which the caller closes, and a function that opens files in it. Times and modes are the same for all."""
    zip_file = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)

    def opened(name: str) -> IO[bytes]:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, _PLAIN_FILE, 3
        # The header must choose the 64-bit format before the size is known, and a table may exceed 2 GiB.
        # Zip programs have supported that format since 2001.
        return zip_file.open(info, "w", force_zip64=name.endswith((".csv", ".jsonl")))

    return zip_file, opened


def into_folder(folder: Path) -> Open:
    """Return a function that opens files in an empty folder."""

    def opened(name: str) -> IO[bytes]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # x: two files with one name would be a bug, not something to overwrite
        return path.open("xb")

    return opened


def write(study: Study, blinded: bool, all_of_it: Sequence[Entry], opened: Open, tell: Tell) -> int:
    """Write every file in order, then the descriptor, then the checksums of all. Return the number of files."""
    written_files = []
    n_files = len(all_of_it) + 2
    for step, entry in enumerate(all_of_it):
        tell(step, n_files, f"Writing {entry.name}")
        written_files.append(_written(entry, opened))
    tell(n_files - 2, n_files, f"Writing {descriptor.NAME}")
    descriptor_file = entries.text(
        descriptor.NAME, "Description of the files.", descriptor.package(study, blinded, written_files)
    )
    written_descriptor = _written(descriptor_file, opened)
    digests = [(file.entry.name, file.sha256) for file in (*written_files, written_descriptor)]
    _written(Entry(descriptor.SUMS, "Digests.", lambda: descriptor.sums(digests)), opened)
    return n_files


def _written(entry: Entry, opened: Open) -> File:
    digest, size = hashlib.sha256(), 0
    with opened(entry.name) as file:
        for piece in _blocks(entry.pieces()):
            digest.update(piece)
            size += len(piece)
            file.write(piece)
    return File(entry, size, digest.hexdigest())


def _blocks(pieces: Iterable[str | bytes]) -> Iterable[bytes]:
    """Yield the pieces joined into blocks."""
    # a million small writes into a zip are slow
    buffer = bytearray()
    for piece in pieces:
        buffer += piece.encode() if isinstance(piece, str) else piece
        if len(buffer) >= _BLOCK:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


_BLOCK = 1 << 16  # bytes
