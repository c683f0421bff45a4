"""Files of jobs: stored in pieces, read in constant memory, removed after a while."""

import hashlib
import io
import tracemalloc
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from simulation.jobs import Work, job_files, jobs
from simulation.jobs.job_files import PIECE_SIZE, Upload
from simulation.leases import Lease
from simulation.models import Job, JobChunk
from tests.support.embedded_worker import run_one_unit
from tests.support.job_steps import ACTIONS_BY_NAME, claim_job, expire_lease, reload_job, request_test_job, run_job

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_job_file_is_stored_unchanged() -> None:
    body = bytes(range(256)) * 4000  # 1,024,000 bytes: three pieces and a part of one
    job = run_job(
        request_test_job(
            lambda work: {"file": work.store_file("out.bin", "application/x-test", _iter_odd_pieces(body)).name}
        )
    )
    file = job.files.get()
    assert b"".join(job_files.iter_file(file)) == body
    assert (file.size, file.sha256) == (len(body), hashlib.sha256(body).hexdigest())
    assert [len(bytes(chunk.data)) for chunk in file.chunks.order_by("number")] == [PIECE_SIZE] * 3 + [
        1_024_000 - 3 * PIECE_SIZE
    ]


def _iter_odd_pieces(body: bytes) -> Iterator[bytes]:
    """In pieces of odd sizes."""
    for start in range(0, len(body), 99_991):
        yield body[start : start + 99_991]


def test_empty_job_file_is_stored() -> None:
    job = run_job(request_test_job(lambda work: {"file": work.store_file("empty", "text/plain", []).name}))
    file = job.files.get()
    # SHA-256 of nothing, FIPS 180-4
    assert file.sha256 == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert b"".join(job_files.iter_file(file)) == b"" and job_files.list_finished_files(job) == [file]


def test_partial_job_file_is_replaced_by_the_next_worker() -> None:
    fences: list[int] = []

    def write(work: Work) -> Mapping[str, Any]:
        fences.append(work.lease.fence)
        if len(fences) == 1:
            claimed_file = work.store_file("out", "text/plain", _lose_lease_halfway(work))
            raise AssertionError(f"{claimed_file} was written by a dead worker")
        assert job_files.list_finished_files(work.job) == []
        work.store_file("out", "text/plain", [b"whole"])
        return {}

    def _lose_lease_halfway(work: Work) -> Iterator[bytes]:
        yield b"half" * PIECE_SIZE
        expire_lease(work.job)
        claim_job(work.job)  # another worker holds the job now
        yield b"more" * PIECE_SIZE

    job = request_test_job(write)
    run_one_unit("job", job.code)
    assert JobChunk.objects.filter(file__job=job).count() == 4
    expire_lease(job)
    assert b"".join(job_files.iter_file(run_job(job).files.get())) == b"whole"
    assert JobChunk.objects.count() == 1


def test_job_files_are_written_and_read_in_constant_memory() -> None:
    """A file of 32 MiB needs memory for a few pieces only."""
    digest = hashlib.sha256()

    def pieces() -> Iterator[bytes]:
        for number in range(64):
            yield bytes([number]) * (1 << 19)

    for piece in pieces():
        digest.update(piece)
    job = request_test_job(lambda work: {"sha": work.store_file("large", "application/zip", pieces()).sha256})
    tracemalloc.start()
    try:
        run_job(job)
        file = job.files.get()
        assert sum(map(len, job_files.iter_file(file))) == 32 << 20
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reload_job(job).result == {"sha": digest.hexdigest()} and peak < 12 << 20


def test_job_input_supports_reading_lines_and_seeking() -> None:
    lines = [f"line {number}\n".encode() for number in range(40_000)]
    upload = Upload("in.txt", "text/plain", io.BytesIO(b"".join(lines)))
    ACTIONS_BY_NAME["act"] = lambda work: {}
    job = jobs.request_job("tested", {"act": "act"}, subject="", files=[upload])
    stream = Work(claim_job(job)).open_input("in.txt")
    assert list(stream) == lines
    stream.seek(PIECE_SIZE - 3)
    assert stream.read(6) == b"".join(lines)[PIECE_SIZE - 3 : PIECE_SIZE + 3]
    with pytest.raises(KeyError):
        Work(Lease(job, 1)).open_input("another")


def test_the_same_request_with_another_file_is_another_job() -> None:
    ACTIONS_BY_NAME["act"] = lambda work: {}
    made = [
        jobs.request_job("tested", {"act": "act"}, subject="", files=[Upload("in", "text/plain", io.BytesIO(body))])
        for body in (b"one", b"two", b"one")
    ]
    assert made[0] == made[2] != made[1]


def test_job_files_are_removed_after_the_retention_time_and_the_result_records_it(settings: Any) -> None:
    upload = Upload("in", "text/plain", io.BytesIO(b"in"))
    ACTIONS_BY_NAME["act"] = lambda work: {"file": work.store_file("out", "text/plain", [b"out"]).name}
    old = run_job(jobs.request_job("tested", {"act": "act"}, subject="", files=[upload]))
    new = run_job(request_test_job(lambda work: {"file": work.store_file("out", "text/plain", [b"out"]).name}, "new"))
    Job.objects.filter(pk=old.pk).update(
        status="failed", ended_at=timezone.now() - timedelta(days=settings.JOB_FILE_DAYS, seconds=1)
    )
    jobs.sweep_jobs()
    assert not old.files.exists() and new.files.count() == 1 and JobChunk.objects.count() == 1
    assert set(reload_job(old).result) == {"file", "files_removed", "inputs_removed"}
    with pytest.raises(jobs.JobFailed, match="Upload it again"):
        jobs.retry_job(reload_job(old))


def test_reading_a_job_file_fails_if_it_is_removed_meanwhile() -> None:
    job = run_job(
        request_test_job(lambda work: {"file": work.store_file("out", "text/plain", [b"a" * 2 * PIECE_SIZE]).name})
    )
    pieces = job_files.iter_file(job.files.get())
    next(pieces)
    job.files.all().delete()
    with pytest.raises(job_files.FileRemoved):
        next(pieces)
