"""What a request asks, whichever dialect it is written in."""

import hashlib
from typing import NamedTuple

BYTES_PER_TOKEN = 4


class Flavour(NamedTuple):
    """A provider as it is told by the path of a request."""

    name: str
    dialect: str  # "openai" or "anthropic"
    needs_key: bool = True


FLAVOURS = {
    "/v1/messages": Flavour("anthropic", "anthropic"),
    "/v1/chat/completions": Flavour("openai", "openai"),
    "/v1beta/openai/chat/completions": Flavour("gemini", "openai"),
    "/api/v1/chat/completions": Flavour("openrouter", "openai"),
    "/local/v1/chat/completions": Flavour("local", "openai", needs_key=False),
}


class Turn(NamedTuple):
    role: str
    text: str


class Block(NamedTuple):
    """A stretch of the prompt in the order in which it is cached. `ttl` is "5m" or "1h" at a breakpoint, else ""."""

    text: str
    ttl: str = ""


class Question(NamedTuple):
    """One prompt. `hidden` is how many tokens of the answer are thinking; `shows_thinking` whether they are told as a block."""

    flavour: Flavour
    model: str
    system: str
    turns: tuple[Turn, ...]
    blocks: tuple[Block, ...]
    max_tokens: int
    hidden: int = 0
    shows_thinking: bool = False

    @property
    def asked(self) -> str:
        """All that was said to the model but the system prompt."""
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
    def prompt(self) -> int:
        return self.input_uncached + self.cache_read + self.cache_write_5m + self.cache_write_1h


class Answer(NamedTuple):
    """What the model says. `text` None: nothing at all, which some providers write as null.

    `stop` is one of stop, max_tokens, context, refusal, filtered; `told` whether the usage is told.
    """

    text: str | None
    stop: str
    tokens: Tokens
    served_model: str
    thinking: str = ""
    told: bool = True


def tokens_of(text: str) -> int:
    """Tokens by this server's rule: a quarter of the bytes, rounded up."""
    return tokens_in(len(encoded(text)))


def tokens_in(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def encoded(text: str) -> bytes:
    """The bytes of a text; half a surrogate pair counts as it would alone."""
    return text.encode("utf-8", "surrogatepass")


def draw(below: int, *about: object) -> int:
    """A number from 0 to below - 1 that depends on `about` and on nothing else."""
    digest = hashlib.blake2b(digest_size=8)
    for part in about:
        digest.update(encoded(str(part)) + b"\x00")
    return int.from_bytes(digest.digest()) % below
