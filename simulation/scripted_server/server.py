"""The server: parse a request, recognise the role, answer. And how to run it as a separate process."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

from simulation.scripted_server import answers, anthropic_api, openai_api
from simulation.scripted_server.answers import AnswerOptions
from simulation.scripted_server.questions import FLAVOURS, PromptCaches, RefusedError, bad_request

APIS: Mapping[str, ModuleType] = {"anthropic": anthropic_api, "openai": openai_api}  # by dialect
_ROOT = Path(__file__).parents[2]
_PATHS = {"ANTHROPIC": "", "OPENAI": "/v1", "GEMINI": "/v1beta/openai/", "OPENROUTER": "/api/v1", "LOCAL": "/local/v1"}


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str

    def get_environ(self) -> dict[str, str]:
        """Return environment variables with a base URL and a dummy key for every provider."""
        urls = {f"{name}_BASE_URL": self.url + path for name, path in _PATHS.items()}
        return urls | {f"{name}_API_KEY": f"dummy-{name.lower()}" for name in _PATHS}


class AnsweringServer(ThreadingHTTPServer):
    """An HTTP server on the loopback address only, because it accepts any key."""

    daemon_threads = True
    request_queue_size = 1024  # connections waiting to be accepted

    def __init__(self, port: int, options: AnswerOptions = AnswerOptions()) -> None:  # noqa: B008  # immutable
        super().__init__(("127.0.0.1", port), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.options = options
        self._caches, self._number, self._lock = PromptCaches(), 0, threading.Lock()

    def answer_request(self, path: str, headers: Mapping[str, str], content: bytes) -> tuple[int, Any, int]:
        """Return the status, the envelope and the number of the reply to a request. Header names are in lower case."""
        flavour = FLAVOURS.get(path)
        if flavour is None:
            return 404, {"error": {"message": f"there is no POST {path}"}}, 0
        api = APIS[flavour.dialect]
        with self._lock:
            self._number += 1
            number = self._number
        try:
            question = api.parse_request(parse_body(content), headers, flavour)
        except RefusedError as refused:
            return refused.status, api.build_error(flavour, refused.status, refused.kind, str(refused)), number
        with self._lock:
            tokens = self._caches.count_tokens(question)
        text = answers.write_answer(question, answers.find_role(question), self.options)
        return 200, api.build_response(question, answers.make_answer(question, text, tokens), number), number


class _Handler(BaseHTTPRequestHandler):
    server: AnsweringServer
    protocol_version = "HTTP/1.1"  # keeps connections open
    wbufsize = -1  # head and body in one packet: two would wait for the client's acknowledgement

    def do_POST(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        content = self.rfile.read(int(headers.get("content-length", 0)))
        status, envelope, number = self.server.answer_request(self.path.partition("?")[0], headers, content)
        body = encode_json(envelope)
        self.send_response_only(status)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", "application/json")
        for name in ("request-id", "x-request-id"):  # of both APIs
            self.send_header(name, f"req_{number:08d}")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: a run sends thousands of requests."""


def parse_body(content: bytes) -> dict[str, Any]:
    """Return the JSON object of a request. Raises RefusedError."""
    try:
        body = json.loads(content)
    except ValueError:
        raise bad_request("the body is not JSON") from None
    if not isinstance(body, dict):
        raise bad_request("the body is not a JSON object")
    return body


def encode_json(data: Any) -> bytes:
    """Return JSON as providers send it: UTF-8, with unpaired surrogates escaped."""
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        # Surrogates cannot be encoded as UTF-8; escaped, they reach the client, as they do from real models.
        return json.dumps(data, separators=(",", ":")).encode()


def exit_with_parent() -> None:
    """End this process when its standard input closes. This also happens if the parent was killed."""

    def wait_for_end() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=wait_for_end, daemon=True).start()


@contextmanager
def run_in_process(script: Path | None = None) -> Iterator[Server]:
    """Run the server in a separate process, so that it does not slow this one. `script` is what agents that edit code answer."""
    arguments = ["--script", str(script)] if script else []
    with run_module("simulation.scripted_server", *arguments) as url:
        yield Server(url)


@contextmanager
def run_module(name: str, *arguments: str) -> Iterator[str]:
    """Run a server's module in a separate process, and return its URL.

    The server ends when this process ends, even if this process is killed. Ctrl-C reaches only this process, which
    stops the server at the end of the `with` block.
    """
    command = [sys.executable, "-m", name, "--port", "0", "--with-parent", *arguments]
    pipe = subprocess.PIPE
    # The server has its own session, so that Ctrl-C in the terminal does not reach it before its parent stops it.
    process = subprocess.Popen(command, cwd=_ROOT, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        if not url:
            raise RuntimeError(f"the model server did not start (exit status {process.wait()})")
        yield url
    finally:
        # The pipes are closed last, so that the server can first close its connections.
        process.terminate()
        process.wait()
        process.stdin.close()
        process.stdout.close()
