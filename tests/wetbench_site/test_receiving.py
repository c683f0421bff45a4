"""Uploads: limited in size, rejected before they are read, and not stored if they are rejected."""

import io
import os
import re
import select
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as site
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT

from ratings.studies import lifecycle
from simulation.jobs import jobs
from simulation.models import Job
from tests.support import run_factory, study_factory
from tests.support.services import find_free_port
from wetbench_site.middleware import uploads

pytestmark = pytest.mark.django_db
MIB = 1 << 20
LIMIT = uploads.MAX_FILE_BYTES["ratings:import_items"]


class Stream(io.RawIOBase):
    """A form with one file of this size, generated while it is read."""

    def __init__(self, size: int, field: str = 'name="file"; filename="items.jsonl"') -> None:
        head = f"--{BOUNDARY}\r\nContent-Disposition: form-data; {field}\r\nContent-Type: text/plain\r\n\r\n"
        self.head, self.tail, self.size = head.encode(), f"\r\n--{BOUNDARY}--\r\n".encode(), size
        self.length, self.taken = len(self.head) + size + len(self.tail), 0

    def read(self, size: int = -1) -> bytes:
        begin, self.taken = self.taken, min(self.length, self.taken + size if size >= 0 else self.length)
        body = self.size + len(self.head)
        if begin == 0:
            self.taken = len(self.head)
            return self.head
        if begin < body:
            self.taken = min(self.taken, body)
            return b"x" * (self.taken - begin)
        return self.tail[begin - body : self.taken - body]


@pytest.fixture
def boss(admin_user: User) -> Client:
    """A signed-in admin on the import page."""
    lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(slug="one", sources=[])))
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(admin_user)
    client.get("/studies/one/import/")
    return client


def posted(client: Client, path: str, fields: Any, **more: Any) -> Any:
    return client.post(path, fields, headers={"X-CSRFToken": client.cookies["wb_csrf"].value}, **more)


def sent(client: Client, path: str, stream: Stream, length: int = 0) -> tuple[int, str]:
    """Send a form with this file as a server does, with the body as a stream, and return the status and the page."""
    told = {"wsgi.input": stream, "CONTENT_LENGTH": str(length or stream.length), "CONTENT_TYPE": MULTIPART_CONTENT}
    token = client.cookies["wb_csrf"].value
    answer = client.generic("POST", path, headers={"X-CSRFToken": token}, **told)
    return answer.status_code, answer.content.decode()


def test_upload_that_is_far_too_large_is_rejected_before_it_is_read(boss: Client) -> None:
    stream = Stream(300 * MIB)
    status, page = sent(boss, "/studies/one/import/", stream)
    assert (status, stream.taken) == (413, 0) and "at most 256 MiB" in page


def test_upload_to_a_page_without_a_file_field_is_limited_like_an_ordinary_form(boss: Client) -> None:
    stream = Stream(2 * MIB)
    assert sent(boss, "/studies/one/members/", stream)[0] == 413 and stream.taken == 0


def test_upload_by_somebody_not_signed_in_is_not_read(boss: Client) -> None:
    client = Client(enforce_csrf_checks=True)  # CSRF protection would read the body if it came before the access table
    client.cookies["wb_csrf"] = boss.cookies["wb_csrf"].value
    stream = Stream(19 * MIB)
    assert sent(client, "/studies/one/import/", stream)[0] == 302 and stream.taken == 0


def test_upload_of_the_largest_size_uses_the_disk_and_is_checked_in_a_job(
    boss: Client, tmp_path: Path, settings: Any
) -> None:
    settings.FILE_UPLOAD_TEMP_DIR, settings.VAR_DIR = str(tmp_path), tmp_path
    tracemalloc.start()
    try:
        status, _ = sent(boss, "/studies/one/import/", Stream(LIMIT))
        job = Job.objects.get()
        jobs.run_job_here(job)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    page = boss.get(f"/studies/one/import/?job={job.code}").content.decode()
    assert status == 302 and "longer than 256 KiB" in page
    assert peak < 8 * MIB
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= LIMIT  # the job's copy


def test_upload_that_is_slightly_too_large_is_reported_on_the_form(boss: Client) -> None:
    status, page = sent(boss, "/studies/one/import/", Stream(LIMIT + 1))
    assert status == 422 and "The file is larger than 256 MiB." in page


def test_upload_is_not_read_beyond_its_declared_length(boss: Client) -> None:
    stream = Stream(100 * MIB)
    assert sent(boss, "/studies/one/import/", stream, length=MIB)[0] in (400, 422) and stream.taken <= 2 * MIB


def test_upload_shorter_than_declared_is_not_a_server_error(boss: Client) -> None:
    stream = Stream(1000)
    stream.size = stream.length = 10
    assert sent(boss, "/studies/one/import/", stream, length=5_000)[0] in (400, 422)


@pytest.mark.parametrize(
    "fields",
    [
        {f"file{number}": io.BytesIO(b"{}") for number in range(2)},
        {f"field{number}": "" for number in range(501)},
        {"field": "x" * (MIB + 1)},
    ],
    ids=["two files", "501 fields", "a field of more than 1 MiB"],
)
def test_upload_with_too_many_parts_is_rejected(boss: Client, fields: dict[str, Any]) -> None:
    for number, value in enumerate(fields.values()):
        if isinstance(value, io.BytesIO):
            value.name = f"{number}.jsonl"
    answer = posted(boss, "/studies/one/import/", fields)
    assert (
        answer.status_code in (400, 413) and "Nothing was saved" in answer.content.decode()
    ) or "nothing was saved" in answer.content.decode()


@pytest.mark.parametrize("body", [b"", b"--", b"no boundary at all", b"--x\r\n\r\n", b"\xff\xfe\x00"], ids=range(5))
def test_upload_that_is_not_a_form_is_rejected(boss: Client, body: bytes) -> None:
    kinds = (
        MULTIPART_CONTENT,
        *(f"multipart/form-data{more}" for more in ("", "; boundary=\xe9", "; boundary=x; boundary=y")),
    )
    token = {"X-CSRFToken": boss.cookies["wb_csrf"].value}
    for kind in kinds:
        answer = boss.generic("POST", "/studies/one/import/", body, content_type=kind, headers=token)
        assert answer.status_code in (400, 422)


PACKED = {
    "zip": b"PK\x03\x04", "gzip": b"\x1f\x8b\x08", "bzip2": b"BZh9", "xz": b"\xfd7zXZ\x00", "zstd": b"\x28\xb5\x2f\xfd",
    "7z": b"7z\xbc\xaf\x27\x1c", "rar": b"Rar!\x1a\x07",
}  # fmt: skip
ADDRESSES = ("/studies/one/import/", "/studies/two/import-ratings/")


@pytest.fixture
def two(boss: Client) -> Client:
    run_factory.create_pool()
    study_factory.create_open_study(slug="two", name="Two")
    return boss


@pytest.mark.parametrize("kind", PACKED)
def test_upload_of_a_compressed_file_is_rejected_by_its_first_bytes(two: Client, kind: str) -> None:
    for address in ADDRESSES:
        answer = posted(two, address, {"file": named(PACKED[kind] + b"\x00" * 64)})
        assert answer.status_code == 422 and "compressed" in answer.content.decode(), address


def test_upload_in_another_encoding_or_with_nul_is_reported(two: Client) -> None:
    for address, line in zip(ADDRESSES, ('{"id": "a"}', "item,rater,verdict,confidence\na,b,1,3\n"), strict=True):
        for raw, said in (
            (line.encode("utf-16"), "UTF-16"),
            (line.replace('"a"', '"a\0"').replace("a,b", "a\0,b").encode(), "NUL"),
            (b"\xff" + line.encode(), "not UTF-8"),
        ):
            answer = posted(two, address, {"file": named(raw)})
            assert answer.status_code == 422 and said in answer.content.decode(), (address, said)


def named(raw: bytes) -> io.BytesIO:
    file = io.BytesIO(raw)
    file.name = "sent.bin"
    return file


@pytest.fixture
def served(tmp_path: Path, transactional_db: None) -> Iterator[tuple[int, int, str]]:
    """Yield gunicorn's port, its worker process, and the cookie of a signed-in user."""
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol(slug="one", sources=[])))
    with connection.cursor() as cursor:
        cursor.execute("VACUUM INTO %s", [str(tmp_path / "wetbench.sqlite3")])
    port, own = (
        find_free_port(),
        {"WETBENCH_VAR_DIR": str(tmp_path), "SECRET_KEY": site.SECRET_KEY, "TMPDIR": str(tmp_path)},
    )
    command = ["gunicorn", "wetbench_site.wsgi", "-c", "python:wetbench_site.gunicorn_conf", "-b", f"127.0.0.1:{port}"]
    told = {name: value for name, value in os.environ.items() if not name.startswith(("WETBENCH_", "DATABASE_"))}
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "-w", "1"], cwd=site.BASE_DIR, env=told | own, stdout=log, stderr=log
        )
    try:
        until = time.monotonic() + 60
        while not answers(port):
            assert time.monotonic() < until and process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield port, int(children[0]), client.cookies["wb_session"].value
    finally:
        process.terminate()
        process.wait(40)


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as line:
            line.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            return line.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False


def most_memory(pid: int) -> int:
    """Return the peak memory of the process in bytes."""
    return int(re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[0]) << 10


def test_upload_that_is_far_too_large_is_rejected_by_a_live_server_at_once_and_not_stored(
    served: tuple[int, int, str], tmp_path: Path
) -> None:
    port, pid, session = served
    assert upload(port, session, b"x" * 1000, "Content-Length: 1000")[0] == 422  # read, and no file in it
    before, on_disk = most_memory(pid), sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    for length, status in ((f"Content-Length: {300 * MIB}", 413), ("Transfer-Encoding: chunked", 422)):
        begun = time.monotonic()
        answer, taken = upload(port, session, CHUNK if "chunked" in length else bytes(MIB), length, 300)
        assert answer == status and time.monotonic() - begun < 10, (length, answer)
        assert taken < 20 or "chunked" in length
    assert most_memory(pid) - before < 20 * MIB
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) - on_disk < MIB


CHUNK = b"100000\r\n" + bytes(MIB) + b"\r\n"


def upload(port: int, session: str, part: bytes, length: str, times: int = 1) -> tuple[int, int]:
    """Return the status, and how many of the parts were sent before the server answered."""
    token, sent = "a" * 32, 0
    head = (
        f"POST /studies/one/import/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{length}\r\n"
        f"Content-Type: {MULTIPART_CONTENT}\r\nCookie: wb_session={session}; wb_csrf={token}\r\nX-CSRFToken: {token}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), 30) as line:
        line.sendall(head.encode())
        try:
            while sent < times and not select.select([line], [], [], 0)[0]:
                line.sendall(part)
                sent += 1
        except OSError:  # the server closed the connection while we were sending
            pass
        return int(line.recv(12)[9:]), sent
