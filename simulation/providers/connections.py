"""Endpoints from the environment, connections to them, and which parameters of a request a model accepts."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from simulation.providers import anthropic, base, errors, openai, wire

if TYPE_CHECKING:  # loaded at the first call: most processes make none
    import httpx2

RESERVED_FIELDS = {"model", "messages", "system", "stream", "n", "max_tokens", "max_completion_tokens", "temperature"}
_THINKING_REASONS = {
    "none": "the model does not think aloud before it answers",
    "budget": "the model takes a number of tokens (thinking_budget)",
    "adaptive": "the model decides by itself how long it thinks",
    "effort": "the model takes a word (effort)",
    "always": "the model always thinks; it cannot be set",
}


class MissingKey(ValueError):  # noqa: N818  # a state, not an error
    """A key or address is missing in the environment or invalid. The text names the variable."""


class Dialect(NamedTuple):
    """An API: its requests, its replies and its limits."""

    build_body: Callable[[base.Prompt, Mapping[str, Any], base.Endpoint], dict[str, Any]]
    parse_reply: Callable[[base.Reply, str], base.Completion]
    max_temperature: Decimal
    min_thinking_budget: int = 0
    temperature_with_thinking: bool = True  # Claude accepts none while thinking, whatever its options state


DIALECTS = {
    "anthropic": Dialect(anthropic.build_body, anthropic.parse_reply, Decimal(1), 1024, False),
    "openai": Dialect(openai.build_body, openai.parse_reply, Decimal(2)),
}


def make_endpoint(
    provider: str, model_id: str, options: base.WireOptions, environ: Mapping[str, str] | None = None
) -> base.Endpoint:
    """Return the model with its address and key from this environment.

    Raises ValueError for an unknown provider, MissingKey if the key or the address is missing or invalid.
    """
    if provider not in base.PROVIDERS:
        raise ValueError(f"provider: {provider!r} is none of {', '.join(base.PROVIDERS)}")
    info, values = base.PROVIDERS[provider], os.environ if environ is None else environ
    key = get_key(provider, values)
    if info.needs_key and not key:
        raise MissingKey(f"{info.key_variable} is not set: {provider} needs a key")
    if not re.fullmatch(r"[\x21-\x7e]*", key):
        raise MissingKey(f"{info.key_variable} contains spaces or characters that no key has")
    base_url = values.get(info.base_url_variable, "").strip() or info.base_url
    if not _is_address(base_url):
        # Not repeated here, because it may contain a password.
        raise MissingKey(f"{info.base_url_variable} is not an http or https address")
    return base.Endpoint(provider, model_id, options, base_url, key)


def get_key(provider: str, environ: Mapping[str, str]) -> str:
    """Return the provider's key from its variable NAME, or from the file that NAME_FILE names; "" if there is none."""
    # The content of a file is never put into the environment, which every child process receives.
    name = base.PROVIDERS[provider].key_variable
    return (environ.get(name) or _read_key_file(environ.get(f"{name}_FILE", ""))).strip()


@cache
def _read_key_file(file: str) -> str:
    """Return the content of the key file, read once: logs redact the key that the file contained at the start."""
    return Path(file).read_text(encoding="utf-8") if file else ""


def _is_address(base_url: str) -> bool:
    try:
        parts = urlsplit(base_url)
        is_http = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
    return is_http and re.fullmatch(r"[\x21-\x7e]+", base_url) is not None


def open_connection(endpoint: base.Endpoint, transport: "httpx2.BaseTransport | None" = None) -> base.Connection:
    """Return a connection to an endpoint, safe to share between threads.

    Raises ValueError for an extra field that would contradict the call log.
    """
    if reserved := sorted(RESERVED_FIELDS & set(endpoint.options.extra_body)):
        raise ValueError(
            f"options.extra_body must not contain {', '.join(reserved)}: these are set by the configuration"
        )
    return WireConnection(endpoint, transport)


def parse_reply(endpoint: base.Endpoint, reply: base.Reply) -> base.Completion:
    """Return the completion in a reply, new or stored. Raises the matching ProviderError."""
    if not wire.is_success(reply):
        try:
            is_envelope = bool(wire.parse_envelope(reply))
        except base.ProviderError:
            is_envelope = False
        if not is_envelope:
            raise errors.make_error(reply, {})
    return get_dialect(endpoint).parse_reply(reply, endpoint.model_id)


def prepare_request(endpoint: base.Endpoint, prompt: base.Prompt, params: base.Params) -> base.WireRequest:
    """Return the request that every connection to this endpoint sends for a prompt. Equal prompts give equal bytes."""
    effective, dropped = choose_parameters(params, endpoint)
    # The dialects send the schema, and describe it in the system prompt, only if it is among the effective parameters.
    if prompt.schema and endpoint.options.structured_output:
        if prompt.no_schema_reason:
            dropped[wire.REPLY_FORMAT] = prompt.no_schema_reason
        else:
            effective[wire.REPLY_FORMAT] = wire.JSON_SCHEMA
            note = prompt.schema.note
            prompt = replace(prompt, system="\n\n".join(filter(None, (prompt.system, note))))
    body = get_dialect(endpoint).build_body(prompt, effective, endpoint)
    for name, value in endpoint.options.extra_body.items():
        # Objects in both are merged, and other extra values replace those of the body.
        are_objects = isinstance(body.get(name), Mapping) and isinstance(value, Mapping)
        body[name] = {**body[name], **value} if are_objects else value
    version = endpoint.options.api_version
    is_anthropic = base.PROVIDERS[endpoint.provider].dialect == "anthropic"
    headers = {"anthropic-version": version} if version and is_anthropic else {}
    system = wire.make_sendable(prompt.system)
    content, sha256 = wire.dump_body(body, system), wire.hash_request(body, headers, system)
    return base.WireRequest(body, content, headers, effective, dropped, sha256, prompt.system)


def get_dialect(endpoint: base.Endpoint) -> Dialect:
    return DIALECTS[base.PROVIDERS[endpoint.provider].dialect]


class WireConnection:
    """A real connection. Its SDK client is created at the first call, so never before a fork."""

    def __init__(self, endpoint: base.Endpoint, wires: "httpx2.BaseTransport | None") -> None:
        self.endpoint, self.wires = endpoint, wires

    def prepare_request(self, prompt: base.Prompt, params: base.Params) -> base.WireRequest:
        return prepare_request(self.endpoint, prompt, params)

    def send_request(self, request: base.WireRequest, deadline: float) -> base.Completion:
        from simulation.providers import transport

        return parse_reply(self.endpoint, transport.send_once(self.endpoint, request, deadline, self.wires))


def choose_parameters(params: base.Params, endpoint: base.Endpoint) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the parameters that are sent, under the configuration's names, and why the others are dropped."""
    options, limits = endpoint.options, get_dialect(endpoint)
    max_tokens = min(params.max_tokens, options.output_limit or params.max_tokens)
    effective: dict[str, Any] = {"max_tokens": max_tokens}
    dropped: dict[str, str] = {}
    if max_tokens < params.max_tokens:
        dropped["max_tokens"] = f"{params.max_tokens} asked; the model writes at most {options.output_limit}"

    budget, effort, temperature = params.thinking_budget, params.effort, params.temperature
    if budget is not None:
        if options.thinking != "budget":
            dropped["thinking_budget"] = _THINKING_REASONS[options.thinking]
        elif endpoint.provider not in ("anthropic", "gemini", "openrouter"):
            dropped["thinking_budget"] = "this provider's interface has no field for it"
        elif budget < limits.min_thinking_budget:
            dropped["thinking_budget"] = f"{budget} asked; the least is {limits.min_thinking_budget}"
        elif budget >= max_tokens:
            dropped["thinking_budget"] = f"{budget} asked; it must be below max_tokens, {max_tokens}"
        else:
            effective["thinking_budget"] = budget
    if effort:
        if options.thinking not in ("effort", "adaptive"):
            dropped["effort"] = _THINKING_REASONS[options.thinking]
        elif options.effort_levels and effort not in options.effort_levels:
            dropped["effort"] = f"{effort} asked; it takes {', '.join(options.effort_levels)}"
        else:
            effective["effort"] = effort
    if options.thinking == "adaptive" and (budget or effort):
        effective["thinking"] = "adaptive"
    is_thinking = (
        bool(effective.get("thinking_budget"))
        or effective.get("effort") not in (None, "none")
        or "thinking" in effective
        or options.thinking == "always"
    )
    if temperature is not None:
        if not options.temperature:
            dropped["temperature"] = "the model takes none"
        elif is_thinking and not (options.temperature_with_thinking and limits.temperature_with_thinking):
            dropped["temperature"] = "the model takes none while it thinks"
        elif not 0 <= temperature <= limits.max_temperature:
            dropped["temperature"] = f"{temperature} asked; it takes 0 to {limits.max_temperature}"
        else:
            effective["temperature"] = str(temperature)
    return effective, dropped
