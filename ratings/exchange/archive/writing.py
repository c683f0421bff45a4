"""Entries written one after another into a zip or a folder. One piece of one file is in memory at a time."""

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
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can say, for every file: no clock in the archive
_PLAIN_FILE = 0o100644 << 16


class Writer(Protocol):
    def write(self, data: bytes, /) -> object: ...


Open = Callable[[str], AbstractContextManager[Writer]]


def into_zip(file: IO[bytes]) -> tuple[zipfile.ZipFile, Open]:
    """A zip to be closed when all is written, and how its files are opened. Times and rights are the same for all."""
    archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)

    def opened(name: str) -> IO[bytes]:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, _PLAIN_FILE, 3
        # Whether a table passes 2 GiB is not known before it is written; readers have known the long form since 2001.
        return archive.open(info, "w", force_zip64=name.endswith((".csv", ".jsonl")))

    return archive, opened


def into_folder(folder: Path) -> Open:
    """How files of an empty folder are opened."""

    def opened(name: str) -> IO[bytes]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb")

    return opened


def write(study: Study, blinded: bool, all_of_it: Sequence[Entry], opened: Open, tell: Tell) -> int:
    """Every entry in order, then what describes them, last the sums of everything; how many files there are."""
    files = []
    of = len(all_of_it) + 2
    for step, entry in enumerate(all_of_it):
        tell(step, of, f"Writing {entry.name}")
        files.append(_written(entry, opened))
    tell(of - 2, of, f"Writing {descriptor.NAME}")
    about = entries.text(descriptor.NAME, "What the files are.", descriptor.package(study, blinded, files))
    described = _written(about, opened)
    digests = [(file.entry.name, file.sha256) for file in (*files, described)]
    _written(Entry(descriptor.SUMS, "Digests.", lambda: descriptor.sums(digests)), opened)
    return of


def _written(entry: Entry, opened: Open) -> File:
    digest, size = hashlib.sha256(), 0
    with opened(entry.name) as file:
        for piece in _blocks(entry.pieces()):
            digest.update(piece)
            size += len(piece)
            file.write(piece)
    return File(entry, size, digest.hexdigest())


def _blocks(pieces: Iterable[str | bytes]) -> Iterable[bytes]:
    """Lines together in blocks: a million small writes into a zip are slow."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece.encode() if isinstance(piece, str) else piece
        if len(waiting) >= _BLOCK:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)


_BLOCK = 1 << 16
