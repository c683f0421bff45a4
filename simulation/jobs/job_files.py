"""Input and output files of jobs, stored in the database in pieces because workers may run on any host.

No function here holds more than one piece in memory.
"""

import hashlib
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO

from django.db import transaction
from django.utils import timezone

from simulation.models import Job, JobChunk, JobFile

PIECE_SIZE = 1 << 18  # bytes; every piece of a file but the last has this size
_MAX_JOBS_PER_SWEEP = 20  # keeps each sweep short; the next one removes more
Pieces = Iterable[bytes]
CommitWrite = Callable[[Callable[[], Any]], Any]
OnProgress = Callable[[int, int], None]  # bytes read, bytes in total


class FileRemoved(LookupError):  # noqa: N818  # a state of the file, not a fault
    """The file was removed while it was being read."""


@dataclass(frozen=True)
class Upload:
    """A file that is part of a request."""

    name: str
    content_type: str
    stream: BinaryIO  # must be seekable: it is read twice, once for its digest

    def compute_digest(self) -> tuple[str, str]:
        """Return the name and the SHA-256 of the file."""
        digest = hashlib.sha256()
        for piece in self.iter_pieces():
            digest.update(piece)
        return self.name, digest.hexdigest()

    def iter_pieces(self) -> Iterator[bytes]:
        self.stream.seek(0)
        while piece := self.stream.read(PIECE_SIZE):
            yield piece


class _StoredFile(io.RawIOBase):
    """The raw stream of a stored file, open for reading and seeking."""

    def __init__(self, file: JobFile, watch: OnProgress) -> None:
        self._file, self._on_progress, self._position = file, watch, 0
        self._number, self._piece = -1, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        if self._position >= self._file.size:
            return 0
        # All pieces but the last have the same size, so the position gives the piece.
        number, inside = divmod(self._position, PIECE_SIZE)
        # The piece that was read last is cached: the buffered reader asks for much less than a piece at a time.
        if number != self._number:
            self._number, self._piece = number, _load_piece(self._file, number)
        self._on_progress(self._position, self._file.size)
        part = self._piece[inside : inside + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)


def open_input(job: Job, name: str, on_progress: OnProgress = lambda _at, _size: None) -> io.BufferedReader:
    """Open the file of that name that came with the request. Raise KeyError if there is none."""
    file = job.files.filter(role="in", name=name).first()
    if file is None:
        raise KeyError(name)
    return io.BufferedReader(_StoredFile(file, on_progress))


def iter_file(file: JobFile) -> Iterator[bytes]:
    """Yield the file's bytes in order, one piece at a time. Raise FileRemoved if it is removed in the meantime."""
    for number in range(-(-file.size // PIECE_SIZE)):
        yield _load_piece(file, number)


def store_output(job: Job, name: str, content_type: str, pieces: Pieces, commit_write: CommitWrite) -> JobFile:

    def create_file() -> JobFile:
        # A unit that was interrupted may have left part of this file.
        job.files.filter(role="out", name=name).delete()
        return JobFile.objects.create(job=job, role="out", name=name, content_type=content_type, size=0)

    # Each piece is a transaction of its own, so the job's row is never locked for long. An unfinished file has no digest.
    return _store_pieces(commit_write(create_file), pieces, commit_write)


def store_inputs(job: Job, uploads: Sequence[Upload]) -> None:
    """Store the files of a request, in the caller's transaction."""
    for upload in uploads:
        file = JobFile.objects.create(job=job, role="in", name=upload.name, content_type=upload.content_type, size=0)
        _store_pieces(file, upload.iter_pieces(), lambda write: write())


def remove_expired_files(before: datetime) -> int:
    """Remove the files of some jobs that ended before `before`, and record it in their results. Return how many jobs."""
    expired = Job.objects.filter(status__in=Job.ENDED, ended_at__lt=before, files__isnull=False)
    jobs = list(expired.order_by("pk").distinct()[:_MAX_JOBS_PER_SWEEP])
    for job in jobs:
        with transaction.atomic():
            removed = {"files_removed": timezone.now().isoformat(timespec="seconds")}
            if job.files.filter(role="in").exists():
                removed["inputs_removed"] = removed["files_removed"]
            Job.objects.filter(pk=job.pk).update(result={**job.result, **removed})
            job.files.all().delete()
    return len(jobs)


def list_finished_files(job: Job) -> list[JobFile]:
    """Return the finished output files of a job, by name."""
    # The digest is stored last, so a file without one is unfinished.
    return list(job.files.filter(role="out").exclude(sha256="").order_by("name"))


def _store_pieces(file: JobFile, pieces: Pieces, commit_write: CommitWrite) -> JobFile:
    digest, size = hashlib.sha256(), 0
    for number, piece in enumerate(_iter_equal_pieces(pieces)):
        digest.update(piece)
        size += len(piece)
        chunk = JobChunk(file=file, number=number, data=piece)
        commit_write(chunk.save)
    file.size, file.sha256 = size, digest.hexdigest()
    commit_write(lambda: JobFile.objects.filter(pk=file.pk).update(size=file.size, sha256=file.sha256))
    return file


def _iter_equal_pieces(pieces: Pieces) -> Iterator[bytes]:
    """Yield the same bytes in pieces of PIECE_SIZE; the last one is shorter."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= PIECE_SIZE:
            yield bytes(buffer[:PIECE_SIZE])
            del buffer[:PIECE_SIZE]
    if buffer:
        yield bytes(buffer)


def _load_piece(file: JobFile, number: int) -> bytes:
    data = JobChunk.objects.filter(file=file, number=number).values_list("data", flat=True).first()
    if data is None:
        raise FileRemoved(file.name)
    return bytes(data)
