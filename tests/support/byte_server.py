"""A server that sends exactly the given bytes, and connections to it through the real SDKs."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from simulation.providers import Message, Prompt, connections
from simulation.providers.base import Connection, Params, WireOptions

WriteResponse = Callable[[socket.socket], None]
PROMPT = Prompt("You are a laboratory.", (Message("user", "What is in the tube?"),), "act")
PARAMS = Params(max_tokens=4096)


class ReceivedRequest(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.body)


class ByteServer:
    """Read one request per connection, then call `answer` to write the response."""

    def __init__(self) -> None:
        self.requests: list[ReceivedRequest] = []
        self.answer: WriteResponse = lambda _: None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def respond_with(self, status: int, data: object, headers: dict[str, str] | None = None) -> None:
        """Answer every request with this status and body (JSON unless bytes)."""
        body = data if isinstance(data, bytes) else encode_json(data)
        fields = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Connection": "close"}
        header_lines = [
            f"HTTP/1.1 {status} Status",
            *(f"{name}: {value}" for name, value in (fields | (headers or {})).items()),
        ]
        response = "\r\n".join(header_lines).encode("latin-1") + b"\r\n\r\n" + body
        self.answer = lambda wire: wire.sendall(response)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                wire, _ = self.listener.accept()
                threading.Thread(target=self._handle_connection, args=(wire,), daemon=True).start()

    def _handle_connection(self, wire: socket.socket) -> None:
        with contextlib.suppress(OSError), wire:
            received = b""
            while b"\r\n\r\n" not in received:
                received += wire.recv(65536)
            head, _, body = received.partition(b"\r\n\r\n")
            first, *lines = head.decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            while len(body) < int(headers["content-length"]):
                body += wire.recv(65536)
            self.requests.append(ReceivedRequest(first.split()[1], headers, body))
            self.answer(wire)


def build_chat_completion(text: object = "A clear liquid.", reason: object = "stop", **more: Any) -> dict[str, Any]:
    """Return a chat completion as OpenAI sends it: 1000 prompt tokens, 800 of them cached; 50 output tokens, 20 of them reasoning."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    usage = {
        "prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050,
        "prompt_tokens_details": {"cached_tokens": 800}, "completion_tokens_details": {"reasoning_tokens": 20},
    }  # fmt: skip
    return {"id": "chatcmpl-1", "model": "gpt-served", "choices": [choice], "usage": usage} | more


def build_anthropic_message(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a message as Anthropic sends it: 200 uncached tokens, 700 read from the cache, 100 written to it (40 for an hour), 50 output tokens, 20 of them thinking."""
    usage = {
        "input_tokens": 200, "cache_read_input_tokens": 700, "cache_creation_input_tokens": 100,
        "cache_creation": {"ephemeral_5m_input_tokens": 60, "ephemeral_1h_input_tokens": 40},
        "output_tokens": 50, "output_tokens_details": {"thinking_tokens": 20},
    }  # fmt: skip
    blocks = list(content) or [{"type": "text", "text": "A clear liquid."}]
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-served", "content": blocks,
            "stop_reason": "end_turn", "usage": usage} | more  # fmt: skip


def encode_json(data: object) -> bytes:
    return json.dumps(data).encode()


def connect_to(
    server: ByteServer, provider: str = "openai", key: str = "sk-very-secret-1", **options: Any
) -> Connection:
    """Return a connection to the server, made as from the environment."""
    base = server.url if provider == "anthropic" else server.url + "/v1"
    environ = {f"{provider.upper()}_API_KEY": key, f"{provider.upper()}_BASE_URL": base}
    return connections.open_connection(connections.make_endpoint(provider, "model-1", WireOptions(**options), environ))
