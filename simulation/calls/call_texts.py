"""The texts of logged calls: the messages that were sent, and the model's answer."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from simulation.models import ModelCall
from simulation.providers import Endpoint, ProviderError, connections
from simulation.providers.base import PROVIDERS, Reply


class CallMessage(NamedTuple):
    """A message of a request: system, user or assistant, and its whole text."""

    role: str
    content: str


def read_messages(body: Mapping[str, Any]) -> list[CallMessage]:
    """Return the messages of a request whose texts are restored. Anthropic's system text is beside the messages, OpenAI's among them."""
    system = [CallMessage("system", _join_text(body["system"]))] if body.get("system") else []
    return [
        *system,
        *(CallMessage(str(row.get("role", "")), _join_text(row.get("content"))) for row in body.get("messages") or ()),
    ]


def _join_text(content: Any) -> str:
    if isinstance(content, list):
        # Blocks are parts of one text, which was split only to mark what the provider is to cache.
        return "".join(_join_text(part.get("text", part) if isinstance(part, dict) else part) for part in content)
    return content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)


def read_answer(call: ModelCall) -> str:
    """Return the model's text from the stored bytes of a reply; "" if they contain no completion."""
    if call.reply is None or call.provider not in PROVIDERS:
        return ""
    endpoint = Endpoint(call.provider, call.requested_model)
    try:
        return connections.parse_reply(
            endpoint, Reply(call.http_status or 0, call.reply_headers, bytes(call.reply))
        ).text
    except ProviderError:  # an error page, or half a reply
        return ""
