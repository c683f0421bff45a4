"""Endpoints from the environment, and connections to them."""

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2

from simulation.providers import anthropic, clients, faults, openai, options, wire
from simulation.providers.base import (
    PROVIDERS,
    Completion,
    Connection,
    Endpoint,
    Params,
    Prompt,
    ProviderError,
    Reply,
    WireOptions,
    WireRequest,
)


class MissingKey(ValueError):  # noqa: N818  # says what is missing
    """A key or address that the environment lacks or holds in a form that cannot be used. The text names the variable."""


class Dialect(NamedTuple):
    choice: Callable[[Params, Endpoint], options.Choice]
    body: Callable[[Prompt, Mapping[str, Any], Endpoint], dict[str, Any]]
    read: Callable[[Reply, str], Completion]


DIALECTS = {
    "anthropic": Dialect(anthropic.choice, anthropic.body, anthropic.read),
    "openai": Dialect(openai.choice, openai.body, openai.read),
}


def endpoint(provider: str, model_id: str, options: WireOptions, environ: Mapping[str, str] | None = None) -> Endpoint:
    """The model as this environment reaches it. Raises ValueError for an unknown provider, MissingKey otherwise."""
    if provider not in PROVIDERS:
        raise ValueError(f"provider: {provider!r} is none of {', '.join(PROVIDERS)}")
    info, values = PROVIDERS[provider], os.environ if environ is None else environ
    key = key_of(provider, values)
    if info.needs_key and not key:
        raise MissingKey(f"{info.key_variable} is not set: {provider} needs a key")
    if not re.fullmatch(r"[\x21-\x7e]*", key):
        raise MissingKey(f"{info.key_variable} holds blanks or letters that no key has")
    base_url = values.get(info.base_url_variable, "").strip() or info.base_url
    return Endpoint(provider, model_id, options, _address(base_url, info.base_url_variable), key)


def key_of(provider: str, environ: Mapping[str, str]) -> str:
    """The provider's key, from its variable or the file that NAME_FILE names; empty if there is none.

    What stands in a file is never put among the variables, which every child process is given.
    """
    name = PROVIDERS[provider].key_variable
    return (environ.get(name) or _in_file(environ.get(f"{name}_FILE", ""))).strip()


@cache
def _in_file(file: str) -> str:
    """Read once: the log hides the key that stood there at the start."""
    return Path(file).read_text(encoding="utf-8") if file else ""


def connect(endpoint: Endpoint, transport: httpx2.BaseTransport | None = None) -> Connection:
    """A connection to an endpoint; safe to share between threads. Raises ValueError for options that contradict."""
    options.check(endpoint.options)
    return WireConnection(endpoint, transport)


def read(endpoint: Endpoint, reply: Reply) -> Completion:
    """What a reply says, now or when it is read again. Raises the ProviderError that it stands for."""
    if not wire.succeeded(reply) and not _is_envelope(reply):
        raise faults.fault(reply, {})
    return dialect(endpoint).read(reply, endpoint.model_id)


def prepare(endpoint: Endpoint, prompt: Prompt, params: Params) -> WireRequest:
    """The request that every connection to this endpoint sends for a prompt: same prompt, same bytes."""
    speaks = dialect(endpoint)
    choice = speaks.choice(params, endpoint)
    body = _merged(speaks.body(prompt, choice.effective, endpoint), endpoint.options.extra_body)
    version = endpoint.options.api_version
    headers = {"anthropic-version": version} if version and _is_anthropic(endpoint) else {}
    return WireRequest(body, headers, choice.effective, choice.dropped, wire.sha256(body, headers))


def dialect(endpoint: Endpoint) -> Dialect:
    return DIALECTS[PROVIDERS[endpoint.provider].dialect]


class WireConnection:
    """A real connection. Its SDK client is made at the first call, so never before a fork."""

    def __init__(self, endpoint: Endpoint, transport: httpx2.BaseTransport | None) -> None:
        self.endpoint, self.transport = endpoint, transport

    def prepare(self, prompt: Prompt, params: Params) -> WireRequest:
        return prepare(self.endpoint, prompt, params)

    def send(self, request: WireRequest, deadline: float) -> Completion:
        return read(self.endpoint, clients.exchange(self.endpoint, request, deadline, self.transport))


def _address(base_url: str, variable: str) -> str:
    try:
        parts = urlsplit(base_url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good or not re.fullmatch(r"[\x21-\x7e]+", base_url):
        raise MissingKey(f"{variable} holds no http or https address")  # which may hold a password: it is not repeated
    return base_url


def _is_envelope(reply: Reply) -> bool:
    try:
        return bool(wire.envelope(reply))
    except ProviderError:
        return False


def _is_anthropic(endpoint: Endpoint) -> bool:
    return PROVIDERS[endpoint.provider].dialect == "anthropic"


def _merged(body: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the extra fields; where both hold an object, its fields are joined and the extra ones win."""
    both = {name: {**body[name], **value} for name, value in extra.items() if _objects(body.get(name), value)}
    return {**body, **extra, **both}


def _objects(*values: object) -> bool:
    return all(isinstance(value, Mapping) for value in values)
