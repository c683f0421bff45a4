"""The content of a request, independent of its API."""

import hashlib
from typing import NamedTuple

BYTES_PER_TOKEN = 4


class ProviderApi(NamedTuple):
    """A provider and its kind of API. The path of a request selects it."""

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
    """A part of the prompt. `ttl` is the lifetime "5m" or "1h" if the part ends in a cache breakpoint, else ""."""

    text: str
    ttl: str = ""


class Question(NamedTuple):
    """One prompt. `hidden` is the number of thinking tokens; `shows_thinking` is whether they are returned."""

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
        """The text of all user messages, without the system prompt."""
        return "\n".join(turn.text for turn in self.turns if turn.role == "user")


class Tokens(NamedTuple):
    """Numbers of tokens of one prompt and answer. Each token counts in one class, but `output` includes `reasoning`."""

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
    """The model's answer. `text` is None if there is no content, which some providers write as null.

    `stop` is one of stop, max_tokens, context, refusal, filtered. `reports_usage` is whether the reply has its usage.
    """

    text: str | None
    stop: str
    tokens: Tokens
    served_model: str
    thinking: str = ""
    reports_usage: bool = True


def count_tokens(text: str) -> int:
    """Return the number of tokens by this server's rule: a quarter of the number of bytes, rounded up."""
    return bytes_to_tokens(len(encode_text(text)))


def bytes_to_tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def encode_text(text: str) -> bytes:
    """Return the UTF-8 bytes of a text. An unpaired surrogate does not raise an error: it gives three bytes."""
    return text.encode("utf-8", "surrogatepass")


def draw_number(below: int, *about: object) -> int:
    """Return a pseudorandom integer from 0 to `below` - 1 that depends only on the arguments."""
    # blake2b and not `hash`: Python's hash differs between processes.
    digest = hashlib.blake2b(digest_size=8)
    for part in about:
        # A separator, so that ("a", "bc") and ("ab", "c") are different draws.
        digest.update(encode_text(str(part)) + b"\x00")
    return int.from_bytes(digest.digest()) % below
