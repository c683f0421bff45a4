"""Minimal HTTP/1.1 over asyncio streams: read requests and format replies."""

import asyncio
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

from simulation.scripted_server.server import encode_json

MAX_HEAD_BYTES = 512 * 1024  # also the buffer size of the reader, which usually holds an entire prompt
MAX_BODY_BYTES = 32 * 1024 * 1024
_OVERLOADED = 529


class Request(NamedTuple):
    """One request. Header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Reply(NamedTuple):
    """One reply. The header Content-Length is added when the reply is sent."""

    status: int
    body: bytes
    headers: Mapping[str, str] = {}


class NotHttpError(Exception):
    """Raised if the received bytes are not a valid HTTP request. The message states why."""


def make_json_reply(status: int, data: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a JSON reply as providers send it: UTF-8, with unpaired surrogates escaped."""
    return Reply(status, encode_json(data), {"content-type": "application/json", **(headers or {})})


def format_head(reply: Reply) -> bytes:
    """Return the status line, the headers and the empty line that ends them."""
    # 529 is Anthropic's own status and is not in the standard library.
    is_known = reply.status in set(HTTPStatus)
    phrase = HTTPStatus(reply.status).phrase if is_known else "Overloaded" if reply.status == _OVERLOADED else "Unknown"
    headers = {"content-length": str(len(reply.body)), **reply.headers}
    lines = [f"HTTP/1.1 {reply.status} {phrase}", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")  # the encoding of HTTP headers


async def read_request(reader: asyncio.StreamReader) -> Request | None:
    """Return the next request of a connection, or None if the client has disconnected. Raises NotHttpError."""
    try:
        head_bytes = await reader.readuntil(b"\r\n\r\n")
        method, path, headers = _parse_head(head_bytes)
        return Request(method, path, headers, await reader.readexactly(_content_length(headers)))
    # It is no error if a client disconnects between two requests.
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    except asyncio.LimitOverrunError:
        raise NotHttpError(f"the head of a request has at most {MAX_HEAD_BYTES} bytes") from None


def _parse_head(written: bytes) -> tuple[str, str, dict[str, str]]:
    request_line, *lines = written.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = request_line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise NotHttpError("the first line is not METHOD PATH HTTP/1.1")
    pairs = (line.partition(":") for line in lines)
    return words[0], words[1].partition("?")[0], {name.strip().lower(): value.strip() for name, _, value in pairs}


def _content_length(headers: Mapping[str, str]) -> int:
    """Return the length of the body in bytes.

    Raises NotHttpError for an invalid or excessive length, and for a chunked request, which no SDK sends.
    """
    length_text = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not length_text.isdecimal() or int(length_text) > MAX_BODY_BYTES:
        raise NotHttpError(f"a request must state its Content-Length, at most {MAX_BODY_BYTES}")
    return int(length_text)
