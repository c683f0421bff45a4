"""Endpoints from the environment, and connections to them."""

import os
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx2

from simulation.providers import anthropic, clients, errors, openai, options, wire
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


class MissingKey(ValueError):  # noqa: N818  # a state, not an error
    """A key or address is missing in the environment or invalid. The text names the variable."""


class Dialect(NamedTuple):
    choose_options: Callable[[Params, Endpoint], options.ChosenOptions]
    build_body: Callable[[Prompt, Mapping[str, Any], Endpoint], dict[str, Any]]
    parse_reply: Callable[[Reply, str], Completion]


DIALECTS = {
    "anthropic": Dialect(anthropic.choose_options, anthropic.build_body, anthropic.parse_reply),
    "openai": Dialect(openai.choose_options, openai.build_body, openai.parse_reply),
}


def make_endpoint(
    provider: str, model_id: str, options: WireOptions, environ: Mapping[str, str] | None = None
) -> Endpoint:
    """Return the model with its address and key from this environment.

    Raises ValueError for an unknown provider, MissingKey if the key or the address is missing or invalid.
    """
    if provider not in PROVIDERS:
        raise ValueError(f"provider: {provider!r} is none of {', '.join(PROVIDERS)}")
    info, values = PROVIDERS[provider], os.environ if environ is None else environ
    key = get_key(provider, values)
    if info.needs_key and not key:
        raise MissingKey(f"{info.key_variable} is not set: {provider} needs a key")
    if not re.fullmatch(r"[\x21-\x7e]*", key):
        raise MissingKey(f"{info.key_variable} contains spaces or characters that no key has")
    base_url = values.get(info.base_url_variable, "").strip() or info.base_url
    return Endpoint(provider, model_id, options, _validate_address(base_url, info.base_url_variable), key)


def get_key(provider: str, environ: Mapping[str, str]) -> str:
    """Return the provider's key from its variable NAME, or from the file that NAME_FILE names; "" if there is none."""
    # The content of a file is never put into the environment, which every child process receives.
    name = PROVIDERS[provider].key_variable
    return (environ.get(name) or _read_key_file(environ.get(f"{name}_FILE", ""))).strip()


@cache
def _read_key_file(file: str) -> str:
    """Return the content of the key file, read once: logs redact the key that the file contained at the start."""
    return Path(file).read_text(encoding="utf-8") if file else ""


def open_connection(endpoint: Endpoint, transport: httpx2.BaseTransport | None = None) -> Connection:
    """Return a connection to an endpoint, safe to share between threads. Raises ValueError for contradictory options."""
    options.check_options(endpoint.options)
    return WireConnection(endpoint, transport)


def parse_reply(endpoint: Endpoint, reply: Reply) -> Completion:
    """Return the completion in a reply, new or stored. Raises the matching ProviderError."""
    if not wire.is_success(reply) and not _is_envelope(reply):
        raise errors.make_error(reply, {})
    return get_dialect(endpoint).parse_reply(reply, endpoint.model_id)


def prepare_request(endpoint: Endpoint, prompt: Prompt, params: Params) -> WireRequest:
    """Return the request that every connection to this endpoint sends for a prompt. Equal prompts give equal bytes."""
    api = get_dialect(endpoint)
    choice = api.choose_options(params, endpoint)
    body = _merge_fields(api.build_body(prompt, choice.effective, endpoint), endpoint.options.extra_body)
    version = endpoint.options.api_version
    headers = {"anthropic-version": version} if version and _is_anthropic(endpoint) else {}
    return WireRequest(body, headers, choice.effective, choice.dropped, wire.hash_request(body, headers))


def get_dialect(endpoint: Endpoint) -> Dialect:
    return DIALECTS[PROVIDERS[endpoint.provider].dialect]


class WireConnection:
    """A real connection. Its SDK client is created at the first call, so never before a fork."""

    def __init__(self, endpoint: Endpoint, transport: httpx2.BaseTransport | None) -> None:
        self.endpoint, self.transport = endpoint, transport

    def prepare_request(self, prompt: Prompt, params: Params) -> WireRequest:
        return prepare_request(self.endpoint, prompt, params)

    def send_request(self, request: WireRequest, deadline: float) -> Completion:
        return parse_reply(self.endpoint, clients.send_once(self.endpoint, request, deadline, self.transport))


def _validate_address(base_url: str, variable: str) -> str:
    try:
        parts = urlsplit(base_url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid or not re.fullmatch(r"[\x21-\x7e]+", base_url):
        raise MissingKey(
            f"{variable} is not an http or https address"
        )  # not repeated here, because it may contain a password
    return base_url


def _is_envelope(reply: Reply) -> bool:
    try:
        return bool(wire.parse_envelope(reply))
    except ProviderError:
        return False


def _is_anthropic(endpoint: Endpoint) -> bool:
    return PROVIDERS[endpoint.provider].dialect == "anthropic"


def _merge_fields(body: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body with the extra fields. Objects in both are merged, and extra values replace those of the body."""
    merged = {name: {**body[name], **value} for name, value in extra.items() if _are_objects(body.get(name), value)}
    return {**body, **extra, **merged}


def _are_objects(*values: object) -> bool:
    return all(isinstance(value, Mapping) for value in values)
