"""Write archive files one after another into a zip or a folder, with one piece of one file in memory at a time."""

import hashlib
import zipfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol

from ratings.exchange.archive import descriptor
from ratings.exchange.archive.archive_files import ArchiveFile, create_text_file
from ratings.exchange.archive.descriptor import WrittenFile
from ratings.models import Study

ReportProgress = Callable[[int, int, str], None]
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can store; used for all files, so that bytes are reproducible
_FILE_MODE = 0o100644 << 16  # a regular file, rw-r--r--; zip keeps Unix modes in the upper 16 bits


class Writer(Protocol):
    def write(self, data: bytes, /) -> object: ...


OpenFile = Callable[[str], AbstractContextManager[Writer]]


def open_zip(file: IO[bytes]) -> tuple[zipfile.ZipFile, OpenFile]:
    """Return a zip, which the caller closes, and a function that opens files in it with a fixed time and mode."""
    zip_file = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)

    def open_member(name: str) -> IO[bytes]:
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, _FILE_MODE, 3
        # The header must choose the 64-bit format before the size is known, and a table may exceed 2 GiB.
        # Zip programs have supported that format since 2001.
        return zip_file.open(info, "w", force_zip64=name.endswith((".csv", ".jsonl")))

    return zip_file, open_member


def get_folder_opener(folder: Path) -> OpenFile:
    """Return a function that opens files in an empty folder."""

    def open_member(name: str) -> IO[bytes]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # x: two files with one name would be a bug, not something to overwrite
        return path.open("xb")

    return open_member


def write_archive(
    study: Study,
    blinded: bool,
    archive_files: Sequence[ArchiveFile],
    open_file: OpenFile,
    report_progress: ReportProgress,
) -> int:
    """Write every file in order, then the descriptor, then the checksums of all. Return the number of files."""
    written_files = []
    n_files = len(archive_files) + 2
    for step, entry in enumerate(archive_files):
        report_progress(step, n_files, f"Writing {entry.name}")
        written_files.append(_write_file(entry, open_file))
    report_progress(n_files - 2, n_files, f"Writing {descriptor.DESCRIPTOR_NAME}")
    descriptor_file = create_text_file(
        descriptor.DESCRIPTOR_NAME,
        "Description of the files.",
        descriptor.format_data_package(study, blinded, written_files),
    )
    written_descriptor = _write_file(descriptor_file, open_file)
    digests = [(file.entry.name, file.sha256) for file in (*written_files, written_descriptor)]
    _write_file(
        ArchiveFile(descriptor.CHECKSUMS_NAME, "Digests.", lambda: descriptor.format_checksum_lines(digests)), open_file
    )
    return n_files


def _write_file(archive_file: ArchiveFile, open_file: OpenFile) -> WrittenFile:
    digest, size = hashlib.sha256(), 0
    with open_file(archive_file.name) as file:
        for piece in _join_into_blocks(archive_file.pieces()):
            digest.update(piece)
            size += len(piece)
            file.write(piece)
    return WrittenFile(archive_file, size, digest.hexdigest())


def _join_into_blocks(pieces: Iterable[str | bytes]) -> Iterable[bytes]:
    """Yield the pieces joined into blocks."""
    # a million small writes into a zip are slow
    buffer = bytearray()
    for piece in pieces:
        buffer += piece.encode() if isinstance(piece, str) else piece
        if len(buffer) >= _BLOCK_SIZE:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


_BLOCK_SIZE = 1 << 16  # bytes
