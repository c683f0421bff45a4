"""The scripted server as `make paper` starts it. Its answers are tested in tests/simulation/providers/test_model_server.py."""

import http.client
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from simulation.scripted_server import Server, run_in_process
from tests.support import model_server

ROOT = Path(__file__).resolve().parents[3]
TO_JUDGE = "Is it so? <verdict>VALID or INVALID</verdict> <reasoning></reasoning> <confidence></confidence>"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with run_in_process() as server:
        yield server


def post_content(server: Server, path: str, content: bytes, **headers: str) -> tuple[int, dict[str, str], Any]:
    """Return the status, the headers and the JSON of the reply."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=20)
    try:
        connection.request("POST", path, content, {"Authorization": "Bearer x", "anthropic-version": "1", **headers})
        reply = connection.getresponse()
        return reply.status, dict(reply.getheaders()), json.loads(reply.read())
    finally:
        connection.close()


def build_content(**more: Any) -> bytes:
    body = {"model": "m", "max_tokens": 4096, "messages": [{"role": "user", "content": TO_JUDGE}], **more}
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/messages", "/v1/chat/completions", "/v1beta/openai/chat/completions", "/api/v1/chat/completions",
        "/local/v1/chat/completions",
    ],
)  # fmt: skip
def test_server_without_faults_sends_the_same_replies_as_the_server_for_tests(server: Server, path: str) -> None:
    with run_in_process() as fresh, model_server.run_in_thread() as other:
        replies = [post_content(one, path, build_content()) for one in (fresh, other)]
    assert replies[0][0] == 200 and replies[0] == replies[1]


def test_server_rejects_invalid_requests_and_continues(server: Server) -> None:
    path = "/v1/messages"
    assert post_content(server, path, b"{")[0] == post_content(server, path, b"[]")[0] == 400
    assert post_content(server, path, build_content(messages=[]))[0] == 400
    assert post_content(server, path, build_content(), Authorization="")[0] == 401
    assert post_content(server, "/nowhere", b"{}")[0] == 404
    status, headers, data = post_content(server, path, build_content())
    assert status == 200 and data["content"] and headers["request-id"] == headers["x-request-id"]


def test_port_in_use_is_reported_by_the_exit_status(server: Server) -> None:
    port = server.url.rpartition(":")[2]
    command = [sys.executable, "-m", "simulation.scripted_server", "--port", port]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30)
    assert ended.returncode != 0 and "in use" in ended.stderr


def test_server_process_ends_with_its_parent_even_after_kill_9() -> None:
    code = "import time\nfrom simulation.scripted_server import run_in_process\nwith run_in_process() as s: print(s.url, flush=True); time.sleep(99)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        port = int(parent.stdout.readline().rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)):
            parent.kill()
    until = time.monotonic() + 10
    while is_port_open(port):
        assert time.monotonic() < until, "the server outlives its parent"
        time.sleep(0.05)


def is_port_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_server_environment_sets_every_base_url_and_a_dummy_key(server: Server) -> None:
    environ = server.get_environ()
    assert environ["ANTHROPIC_BASE_URL"] == server.url and environ["OPENAI_BASE_URL"] == f"{server.url}/v1"
    assert {name for name in environ if name.endswith("_API_KEY")} == {
        f"{name}_API_KEY" for name in ("ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER", "LOCAL")
    }


def test_documented_base_urls_match_the_server(server: Server) -> None:
    page = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
    told = dict(re.findall(r"\| `(\w+_BASE_URL)` \| `http://127\.0\.0\.1:8099(\S*)` \|", page))
    found = {
        name: url.removeprefix(server.url) for name, url in server.get_environ().items() if name.endswith("_BASE_URL")
    }
    assert told == found


def test_server_imports_nothing_else_of_the_project() -> None:
    code = (
        "import sys; import simulation.scripted_server, simulation.scripted_server.server\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('ratings', 'django', 'openai')"
        " or m.startswith('simulation.') and not m.startswith('simulation.scripted_server')]"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
