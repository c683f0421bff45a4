"""The content of a request, independent of its API."""

import hashlib
from typing import NamedTuple

BYTES_PER_TOKEN = 4


class ProviderApi(NamedTuple):
    """A provider, selected by the path of a request."""

    name: str
    dialect: str  # "openai" or "anthropic"
    needs_key: bool = True


FLAVOURS = {
    "/v1/messages": ProviderApi("anthropic", "anthropic"),
    "/v1/chat/completions": ProviderApi("openai", "openai"),
    "/v1beta/openai/chat/completions": ProviderApi("gemini", "openai"),
    "/api/v1/chat/completions": ProviderApi("openrouter", "openai"),
    "/local/v1/chat/completions": ProviderApi("local", "openai", needs_key=False),
}


class Turn(NamedTuple):
    role: str
    text: str


class Block(NamedTuple):
    """A part of the prompt in caching order. `ttl` is "5m" or "1h" at a breakpoint, else ""."""

    text: str
    ttl: str = ""


class Question(NamedTuple):
    """One prompt. `hidden` is the number of thinking tokens; `shows_thinking` whether they are returned as a block."""

    flavour: ProviderApi
    model: str
    system: str
    turns: tuple[Turn, ...]
    blocks: tuple[Block, ...]
    max_tokens: int
    hidden: int = 0
    shows_thinking: bool = False

    @property
    def user_text(self) -> str:
        """All user messages without the system prompt."""
        return "\n".join(turn.text for turn in self.turns if turn.role == "user")


class Tokens(NamedTuple):
    """Tokens of one answer by class, each counted once; `output` includes `reasoning`."""

    input_uncached: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def prompt_total(self) -> int:
        return self.input_uncached + self.cache_read + self.cache_write_5m + self.cache_write_1h


class Answer(NamedTuple):
    """The model's answer. `text` None: no content, which some providers write as null.

    `stop` is one of stop, max_tokens, context, refusal, filtered; `reports_usage`: whether usage is reported.
    """

    text: str | None
    stop: str
    tokens: Tokens
    served_model: str
    thinking: str = ""
    reports_usage: bool = True


def count_tokens(text: str) -> int:
    """Return the tokens by this server's rule: a quarter of the bytes, rounded up."""
    return bytes_to_tokens(len(encode_text(text)))


def bytes_to_tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def encode_text(text: str) -> bytes:
    """Return the bytes of a text; an unpaired surrogate is encoded alone."""
    return text.encode("utf-8", "surrogatepass")


def draw_number(below: int, *about: object) -> int:
    """Return a number from 0 to below - 1 that depends only on `about`."""
    # blake2b and not `hash`: Python's hash differs between processes.
    digest = hashlib.blake2b(digest_size=8)
    for part in about:
        # A separator, so that ("a", "bc") and ("ab", "c") are different draws.
        digest.update(encode_text(str(part)) + b"\x00")
    return int.from_bytes(digest.digest()) % below
