"""Files that go into jobs and come out of them, kept in the database in pieces: workers may be on any host.

Nothing here holds more than one piece in memory.
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

PIECE = 1 << 18
_REMOVED_AT_ONCE = 20  # jobs whose files one sweep removes
Pieces = Iterable[bytes]
Commit = Callable[[Callable[[], Any]], Any]
Watch = Callable[[int, int], None]  # bytes read, bytes in all


class FileGone(LookupError):  # noqa: N818  # a state the reader is told about
    """The file was removed while it was read."""


@dataclass(frozen=True)
class Upload:
    """A file that goes with a request: its stream is read twice from its beginning, once for its digest."""

    name: str
    content_type: str
    stream: BinaryIO

    def hashed(self) -> tuple[str, str]:
        """Its name and SHA-256."""
        digest = hashlib.sha256()
        for piece in self.pieces():
            digest.update(piece)
        return self.name, digest.hexdigest()

    def pieces(self) -> Iterator[bytes]:
        self.stream.seek(0)
        while piece := self.stream.read(PIECE):
            yield piece


class Reading(io.BufferedReader):
    """A stored file, open for reading and seeking."""


class _Stored(io.RawIOBase):
    """Every piece but the last has PIECE bytes, so a place in the file tells its piece."""

    def __init__(self, file: JobFile, watch: Watch) -> None:
        self._file, self._watch, self._at = file, watch, 0
        self._number, self._piece = -1, b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any, /) -> int:
        if self._at >= self._file.size:
            return 0
        number, inside = divmod(self._at, PIECE)
        if number != self._number:
            self._number, self._piece = number, _piece(self._file, number)
        self._watch(self._at, self._file.size)
        part = self._piece[inside : inside + len(buffer)]
        buffer[: len(part)] = part
        self._at += len(part)
        return len(part)


def opened(job: Job, name: str, watch: Watch = lambda _at, _size: None) -> Reading:
    """The file of that name that came with the request; `watch` is told how far it was read. KeyError if there is none."""
    file = job.files.filter(role="in", name=name).first()
    if file is None:
        raise KeyError(name)
    return Reading(_Stored(file, watch))


def read(file: JobFile) -> Iterator[bytes]:
    """The file's bytes in order, a piece at a time. FileGone if it is removed meanwhile."""
    for number in range(-(-file.size // PIECE)):
        yield _piece(file, number)


def put(job: Job, name: str, content_type: str, pieces: Pieces, commit: Commit) -> JobFile:
    """A file that comes out of a job, each piece written by a `commit` of its own; half a file has no digest."""
    file = commit(lambda: _begun(job, name, content_type))
    return _filled(file, pieces, commit)


def take_in(job: Job, uploads: Sequence[Upload]) -> None:
    """Store what came with a request, in the transaction of whoever calls."""
    for upload in uploads:
        file = JobFile.objects.create(job=job, role="in", name=upload.name, content_type=upload.content_type, size=0)
        _filled(file, upload.pieces(), lambda write: write())


def hand_on(job: Job, to: Job) -> None:
    """What came with a request goes on to the job that tries it again."""
    job.files.filter(role="in").update(job=to)


def remove_old(before: datetime) -> int:
    """Remove the files of some jobs that ended before then, and say so in their results. The number of jobs."""
    kept = Job.objects.filter(status__in=Job.ENDED, ended_at__lt=before, files__isnull=False)
    jobs = list(kept.order_by("pk").distinct()[:_REMOVED_AT_ONCE])
    for job in jobs:
        with transaction.atomic():
            removed = {"files_removed": timezone.now().isoformat(timespec="seconds")}
            if job.files.filter(role="in").exists():
                removed["inputs_removed"] = removed["files_removed"]
            Job.objects.filter(pk=job.pk).update(result={**job.result, **removed})
            job.files.all().delete()
    return len(jobs)


def whole(job: Job) -> list[JobFile]:
    """The finished files that came out of a job, by name."""
    return list(job.files.filter(role="out").exclude(sha256="").order_by("name"))


def _begun(job: Job, name: str, content_type: str) -> JobFile:
    job.files.filter(role="out", name=name).delete()
    return JobFile.objects.create(job=job, role="out", name=name, content_type=content_type, size=0)


def _filled(file: JobFile, pieces: Pieces, commit: Commit) -> JobFile:
    digest, size = hashlib.sha256(), 0
    for number, piece in enumerate(_even(pieces)):
        digest.update(piece)
        size += len(piece)
        chunk = JobChunk(file=file, number=number, data=piece)
        commit(chunk.save)
    file.size, file.sha256 = size, digest.hexdigest()
    commit(lambda: JobFile.objects.filter(pk=file.pk).update(size=file.size, sha256=file.sha256))
    return file


def _even(pieces: Pieces) -> Iterator[bytes]:
    """The same bytes in pieces of PIECE, the last one shorter."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        while len(waiting) >= PIECE:
            yield bytes(waiting[:PIECE])
            del waiting[:PIECE]
    if waiting:
        yield bytes(waiting)


def _piece(file: JobFile, number: int) -> bytes:
    data = JobChunk.objects.filter(file=file, number=number).values_list("data", flat=True).first()
    if data is None:
        raise FileGone(file.name)
    return bytes(data)
