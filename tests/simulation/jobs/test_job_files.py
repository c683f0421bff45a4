"""Files of jobs: stored in pieces, read in constant memory, removed after a while."""

import hashlib
import io
import tracemalloc
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from simulation.engine import workers
from simulation.jobs import Work, job_files, jobs
from simulation.jobs.job_files import PIECE, Upload
from simulation.leases import Lease
from simulation.models import Job, JobChunk
from tests.support.job_steps import ACTS, asked, claimed, lapse, now, played

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_job_file_is_stored_unchanged() -> None:
    body = bytes(range(256)) * 4000  # 1,024,000 bytes: three pieces and a part of one
    job = played(asked(lambda work: {"file": work.put("out.bin", "application/x-test", _iter_odd_pieces(body)).name}))
    file = job.files.get()
    assert b"".join(job_files.read(file)) == body
    assert (file.size, file.sha256) == (len(body), hashlib.sha256(body).hexdigest())
    assert [len(bytes(chunk.data)) for chunk in file.chunks.order_by("number")] == [PIECE] * 3 + [1_024_000 - 3 * PIECE]


def _iter_odd_pieces(body: bytes) -> Iterator[bytes]:
    """In pieces of odd sizes."""
    for start in range(0, len(body), 99_991):
        yield body[start : start + 99_991]


def test_empty_job_file_is_stored() -> None:
    job = played(asked(lambda work: {"file": work.put("empty", "text/plain", []).name}))
    file = job.files.get()
    # SHA-256 of nothing, FIPS 180-4
    assert file.sha256 == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert b"".join(job_files.read(file)) == b"" and job_files.whole(job) == [file]


def test_partial_job_file_is_replaced_by_the_next_worker() -> None:
    fences: list[int] = []

    def write(work: Work) -> Mapping[str, Any]:
        fences.append(work.lease.fence)
        if len(fences) == 1:
            claimed_file = work.put("out", "text/plain", _lose_lease_halfway(work))
            raise AssertionError(f"{claimed_file} was written by a dead worker")
        assert job_files.whole(work.job) == []
        work.put("out", "text/plain", [b"whole"])
        return {}

    def _lose_lease_halfway(work: Work) -> Iterator[bytes]:
        yield b"half" * PIECE
        lapse(work.job)
        claimed(work.job)  # another worker holds the job now
        yield b"more" * PIECE

    job = asked(write)
    workers.play("job", job.code)
    assert JobChunk.objects.filter(file__job=job).count() == 4
    lapse(job)
    assert b"".join(job_files.read(played(job).files.get())) == b"whole"
    assert JobChunk.objects.count() == 1


def test_job_files_are_written_and_read_in_constant_memory() -> None:
    """A file of 32 MiB needs memory for a few pieces only."""
    digest = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        for number in range(64):
            yield bytes([number]) * (1 << 19)

    for piece in pieces():
        digest.update(piece)
    job = asked(lambda work: {"sha": work.put("large", "application/zip", pieces()).sha256})
    tracemalloc.start()
    try:
        played(job)
        file = job.files.get()
        assert sum(map(len, job_files.read(file))) == 32 << 20
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now(job).result == {"sha": digest.hexdigest()} and peak < 12 << 20


def test_job_input_supports_reading_lines_and_seeking() -> None:
    lines = [f"line {number}\n".encode() for number in range(40_000)]
    upload = Upload("in.txt", "text/plain", io.BytesIO(b"".join(lines)))
    ACTS["act"] = lambda work: {}
    job = jobs.request("tested", {"act": "act"}, subject="", files=[upload])
    stream = Work(claimed(job)).input("in.txt")
    assert list(stream) == lines
    stream.seek(PIECE - 3)
    assert stream.read(6) == b"".join(lines)[PIECE - 3 : PIECE + 3]
    with pytest.raises(KeyError):
        Work(Lease(job, 1)).input("another")


def test_the_same_request_with_another_file_is_another_job() -> None:
    ACTS["act"] = lambda work: {}
    made = [
        jobs.request("tested", {"act": "act"}, subject="", files=[Upload("in", "text/plain", io.BytesIO(body))])
        for body in (b"one", b"two", b"one")
    ]
    assert made[0] == made[2] != made[1]


def test_job_files_are_removed_after_the_retention_time_and_the_result_records_it(settings: Any) -> None:
    upload = Upload("in", "text/plain", io.BytesIO(b"in"))
    ACTS["act"] = lambda work: {"file": work.put("out", "text/plain", [b"out"]).name}
    old = played(jobs.request("tested", {"act": "act"}, subject="", files=[upload]))
    new = played(asked(lambda work: {"file": work.put("out", "text/plain", [b"out"]).name}, "new"))
    Job.objects.filter(pk=old.pk).update(
        status="failed", ended_at=timezone.now() - timedelta(days=settings.JOB_FILE_DAYS, seconds=1)
    )
    jobs.sweep()
    assert not old.files.exists() and new.files.count() == 1 and JobChunk.objects.count() == 1
    assert set(now(old).result) == {"file", "files_removed", "inputs_removed"}
    with pytest.raises(jobs.Failed, match="Upload it again"):
        jobs.retry(now(old))


def test_reading_a_job_file_fails_if_it_is_removed_meanwhile() -> None:
    job = played(asked(lambda work: {"file": work.put("out", "text/plain", [b"a" * 2 * PIECE]).name}))
    pieces = job_files.read(job.files.get())
    next(pieces)
    job.files.all().delete()
    with pytest.raises(job_files.FileGone):
        next(pieces)
