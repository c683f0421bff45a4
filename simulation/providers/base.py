"""Prompts, completions, and every way in which a call can fail."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple, Protocol


class Message(NamedTuple):
    """One message of a conversation. `role` is "user" or "assistant".

    `stable_ends` are positions in `text`, in ascending order: later prompts begin with the same text up to each of them.
    """

    role: str
    text: str
    stable_ends: tuple[int, ...] = ()

    def split_text(self) -> list[str]:
        """Return the text in parts that end at the stable positions. The last part is the rest, unless it is empty."""
        starts = (0, *self.stable_ends)
        parts = [self.text[start:end] for start, end in zip(starts, (*self.stable_ends, None), strict=True)]
        return [part for part in parts if part]


@dataclass(frozen=True)
class ReplySchema:
    """The JSON schema of a reply. `note` describes how it differs from the free form that the prompt asks for, or is ""."""

    name: str
    schema: Mapping[str, Any] = field(hash=False)
    note: str = ""


@dataclass(frozen=True)
class Prompt:
    """One prompt. `system` never changes within an episode and comes first, so that providers can cache it."""

    system: str
    messages: tuple[Message, ...]
    purpose: str  # act, plan, summary, answer, repair, verdict, perturb
    prompt_set: str = ""  # hash of its prompt set
    wants_json: bool = False
    schema: ReplySchema | None = None  # sent to models that accept one
    no_schema_reason: str = ""  # why the schema is not sent although the model's entry declares that it accepts one

    def with_reply(self, reply: str, purpose: str, more: str) -> "Prompt":
        """Return the same conversation with the model's reply and a further message."""
        turns = (*self.messages, Message("assistant", reply), Message("user", more))
        return replace(self, messages=turns, purpose=purpose)

    def without_schema(self, reason: str) -> "Prompt":
        """Return the same prompt for a reply in free form. The call log records the reason."""
        return replace(self, no_schema_reason=reason)


class Usage(NamedTuple):
    """Tokens by class, each counted once; `output` includes `reasoning`."""

    input_uncached: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0


class Stop(StrEnum):
    """Why a model stopped writing. The values are the same for all providers."""

    STOP = "stop"
    MAX_TOKENS = "max_tokens"
    CONTEXT = "context"
    TOOL = "tool"
    REFUSAL = "refusal"


class Reply(NamedTuple):
    """A reply as received (body up to the byte limit)."""

    status: int
    headers: Mapping[str, str]  # lower case; only content-type, request ids, retry-after and limits
    body: bytes


@dataclass(frozen=True)
class Completion:
    """A model's answer. A refusal is a completion too: it may cost money, and it is an answer."""

    text: str
    stop: Stop
    usage: Usage | None  # None: not reported
    served_model: str
    served_provider: str = ""
    request_id: str = ""
    cost: Decimal | None = None  # in US dollars, if the provider reports it
    refusal: str = ""  # its category or text, if `stop` is REFUSAL
    reply: Reply = field(default_factory=lambda: Reply(0, {}, b""))


class ErrorClass(StrEnum):
    """What went wrong with an HTTP attempt. `errors.REACTIONS` defines what follows."""

    RATE_LIMIT = "rate_limit"  # 429
    OVERLOADED = "overloaded"  # 529, 503, an overload inside a 200
    SERVER = "server"  # 408 409 425 and other 5xx
    CONNECTION = "connection"  # refused, reset, closed, name not found
    TIMEOUT = "timeout"  # the total deadline
    ABANDONED = "abandoned"  # this side closed the connection, because a person stopped the work; maybe paid
    GARBLED = "garbled"  # HTML, no JSON, unknown envelope, a body over the byte limit
    CREDENTIALS = "credentials"  # 401 403
    CREDITS = "credits"  # 402
    CONTEXT = "context"  # 400 or 413: the prompt exceeds the model's context
    BAD_REQUEST = "bad_request"  # 400 404 405 413 422


class ProviderError(Exception):
    """An HTTP attempt without a completion."""

    def __init__(
        self,
        error_class: ErrorClass,
        message: str,
        retry_after: float | None = None,
        reply: Reply | None = None,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.error_class, self.retry_after, self.reply, self.request_id = error_class, retry_after, reply, request_id


class ProviderUnavailable(ProviderError):  # noqa: N818  # a state, not an error
    """Try again later."""


class ProviderRefused(ProviderError):  # noqa: N818  # as above
    """Trying again would not help: the key or the request is rejected."""


@dataclass(frozen=True)
class WireOptions:
    """What a model's API accepts. The defaults suit any OpenAI-compatible server."""

    max_tokens_field: str = "max_tokens"  # or max_completion_tokens
    temperature: bool = True  # whether it accepts one
    thinking: str = "none"  # none; budget (a number of tokens); adaptive; effort (a word); always (cannot be set)
    effort_levels: tuple[str, ...] = ()
    temperature_with_thinking: bool = True  # false: no temperature while thinking
    json_mode: bool = False  # accepts response_format json_object
    structured_output: bool = False  # accepts a JSON schema of the reply
    caching: str = "none"  # breakpoint (Anthropic cache_control), automatic, none
    api_version: str = ""  # Anthropic's header
    output_limit: int | None = None  # maximum output tokens
    extra_body: Mapping[str, Any] = field(default_factory=dict)  # fields sent unchanged


@dataclass(frozen=True)
class Endpoint:
    """A model with its address. `key` is secret and excluded from the repr."""

    provider: str  # a name of PROVIDERS
    model_id: str
    options: WireOptions = WireOptions()
    base_url: str = ""
    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class Params:
    """Requested parameters. Those that the model does not accept are dropped, and the drop is recorded."""

    max_tokens: int
    temperature: Decimal | None = None
    thinking_budget: int | None = None
    effort: str = ""


@dataclass(frozen=True)
class WireRequest:
    """One request, ready to be sent any number of times with the same bytes.

    `body` has the JSON fields in sending order, `content` its JSON; `headers` the extra ones, never a key. `system` is the
    system prompt as it is in the body.
    """

    body: Mapping[str, Any]
    content: bytes
    headers: Mapping[str, str]
    effective: Mapping[str, Any]
    dropped: Mapping[str, str]
    sha256: str  # of the canonical body and headers
    system: str = ""


class ProviderInfo(NamedTuple):
    """The address of a provider. Base URLs have the form its SDK expects: OpenAI's include /v1, Anthropic's does not."""

    dialect: str  # "anthropic" or "openai"
    key_variable: str
    base_url_variable: str
    base_url: str
    needs_key: bool = True


PROVIDERS: Mapping[str, ProviderInfo] = {
    "anthropic": ProviderInfo("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    "openai": ProviderInfo("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1"),
    "gemini": ProviderInfo(
        "openai", "GEMINI_API_KEY", "GEMINI_BASE_URL", "https://generativelanguage.googleapis.com/v1beta/openai/"
    ),
    "openrouter": ProviderInfo("openai", "OPENROUTER_API_KEY", "OPENROUTER_BASE_URL", "https://openrouter.ai/api/v1"),
    "local": ProviderInfo("openai", "LOCAL_API_KEY", "LOCAL_BASE_URL", "http://127.0.0.1:8080/v1", needs_key=False),
}


class CompletionFunction(Protocol):
    """Sends a prompt to a model and returns its completion. The only access of a role to the outside world."""

    def __call__(self, prompt: Prompt) -> Completion: ...


class Connection(Protocol):
    """Sends requests to one endpoint. One call is one HTTP attempt, without retries."""

    def prepare_request(self, prompt: Prompt, params: Params) -> WireRequest: ...

    def send_request(self, request: WireRequest, deadline: float) -> Completion:
        """Return the completion within `deadline` seconds. Raises ProviderUnavailable or ProviderRefused otherwise."""
        ...
