"""The SDKs' clients on our own transport, without their retries.

Both are called through `client.post`, which their typed methods use: it sends our fields in our order, whatever a
release adds or removes, and returns the reply without parsing it.
"""

import os
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import httpx2

from simulation.providers import anthropic, openai, transport, wire
from simulation.providers.base import (
    PROVIDERS,
    Endpoint,
    ErrorClass,
    ProviderError,
    ProviderUnavailable,
    Reply,
    WireRequest,
)

Post = Callable[[Mapping[str, Any], Mapping[str, str], float], httpx2.Response]  # body, headers, deadline
MIN_KEY_LENGTH = 8  # a shorter text is not a real key, and removing it from replies would remove words
_creation_locks: dict[
    int, threading.Lock
] = {}  # by process: a lock held during a fork would never be released in the child


def send_once(endpoint: Endpoint, request: WireRequest, deadline: float, wires: httpx2.BaseTransport | None) -> Reply:
    """Make one HTTP attempt and return the reply, whatever its status, with the key removed from it.

    Raises ProviderUnavailable if no complete reply arrived within `deadline` seconds.
    """
    post = get_client(endpoint.provider, endpoint.base_url, endpoint.key, wires)
    try:
        response = post(request.body, request.headers, deadline)
    except ProviderError as error:
        raise _remove_key_from_error(error, endpoint.key) from None
    return _remove_key(
        Reply(response.status_code, wire.select_headers(response.headers), response.content), endpoint.key
    )


def get_client(provider: str, base_url: str, key: str, wires: httpx2.BaseTransport | None) -> Post:
    """Return the function that posts to this address with this key and transport. Each process creates it once."""
    # Cached per process, because a fork must not share sockets.
    with _creation_locks.setdefault(os.getpid(), threading.Lock()):
        return _create_client(provider, base_url, key, wires, os.getpid())


@lru_cache(maxsize=64)
def _create_client(provider: str, base_url: str, key: str, wires: httpx2.BaseTransport | None, process: int) -> Post:
    http = transport.create_client(wires)
    if PROVIDERS[provider].dialect == "anthropic":
        return _create_anthropic(base_url, key, http)
    return _create_openai(provider, base_url, key, http)


def _create_anthropic(base_url: str, key: str, http: httpx2.Client) -> Post:
    import anthropic as sdk

    auth_headers = {"Authorization": f"Bearer {key}"}
    client = sdk.Anthropic(api_key=key, base_url=base_url, max_retries=0, http_client=http)
    client._custom_headers = (
        auth_headers  # the SDK adds those of ANTHROPIC_CUSTOM_HEADERS, and has no public way to omit them
    )
    return _make_post(client.post, anthropic.PATH, sdk.APIStatusError, sdk.APIConnectionError)


def _create_openai(provider: str, base_url: str, key: str, http: httpx2.Client) -> Post:
    import openai as sdk

    key = key or "none"  # local servers accept any
    auth_headers: dict[str, Any] = {"Authorization": f"Bearer {key}"}
    if provider != "openai":  # the environment's organisation must only be sent to OpenAI
        auth_headers |= {"OpenAI-Organization": sdk.Omit(), "OpenAI-Project": sdk.Omit()}
    client = sdk.OpenAI(api_key=key, base_url=base_url, max_retries=0, http_client=http)
    client._custom_headers = auth_headers  # as above, for anything the environment may define
    return _make_post(client.post, openai.PATH, sdk.APIStatusError, sdk.APIConnectionError)


def _make_post(
    send: Callable[..., httpx2.Response], path: str, answered: type[Exception], unanswered: type[Exception]
) -> Post:
    """Return a function that makes one attempt through an SDK and returns the reply, whatever its status.

    `answered` is the SDK's exception for a reply with an error status, `unanswered` that for an attempt without a
    reply.
    """

    def post_once(body: Mapping[str, Any], headers: Mapping[str, str], deadline: float) -> httpx2.Response:
        options = {"headers": headers, "timeout": transport.make_timeout(deadline)}
        try:
            return send(path, cast_to=httpx2.Response, body=dict(body), options=options)
        except answered as error:
            response: httpx2.Response = getattr(error, "response")  # noqa: B009  # both SDKs' errors have it
            return response
        except unanswered as error:
            raise _unwrap_error(error) from error

    return post_once


def _unwrap_error(error: Exception) -> ProviderError:
    """Return the ProviderError that an SDK's exception wraps, or else a new one for a failed connection."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ProviderError):
            return cause
        cause = cause.__cause__
    return ProviderUnavailable(ErrorClass.CONNECTION, wire.shorten(f"{type(error).__name__}: {error}", 500))


def _remove_key(reply: Reply, key: str) -> Reply:
    if len(key) < MIN_KEY_LENGTH:
        return reply
    headers = {name: value.replace(key, "[key]") for name, value in reply.headers.items()}
    return Reply(reply.status, headers, reply.body.replace(key.encode(), b"[key]"))


def _remove_key_from_error(error: ProviderError, key: str) -> ProviderError:
    if len(key) < MIN_KEY_LENGTH:
        return error
    text, identity = str(error).replace(key, "[key]"), error.request_id.replace(key, "[key]")
    reply = _remove_key(error.reply, key) if error.reply else None
    return type(error)(error.error_class, text, error.retry_after, reply, identity)
