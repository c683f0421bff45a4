"""The content of a request, independent of its API: questions, answers, tokens and prompt caches."""

import hashlib
import json
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

BYTES_PER_TOKEN = 4
MIN_CACHED = 1024  # tokens: no provider caches a shorter prefix
STEP = 128  # tokens: granularity of OpenAI's cache
LOOK_BACK = 20  # blocks before a breakpoint in which Anthropic searches for an older entry
_SECONDS = {"5m": 300, "1h": 3600}


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
    """One prompt. `hidden` is the number of thinking tokens; `shows_thinking` is whether they are returned.

    `schema` is the JSON schema of the reply, which is also the first of the `blocks`: providers charge it as input.
    """

    flavour: ProviderApi
    model: str
    system: str
    turns: tuple[Turn, ...]
    blocks: tuple[Block, ...]
    max_tokens: int
    hidden: int = 0
    shows_thinking: bool = False
    schema: Mapping[str, Any] | None = None

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


class RefusedError(Exception):
    """Raised for a rejected request, with the HTTP status, the provider's error code and the reason."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


def build_schema_blocks(schema: Mapping[str, Any] | None) -> tuple[Block, ...]:
    """Return the schema of the reply as a part of the prompt: a change of it makes what was cached behind it useless."""
    return (Block(json.dumps(schema, separators=(",", ":"))),) if schema else ()


def bad_request(message: str) -> RefusedError:
    return RefusedError(400, "invalid_request_error", message)


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


class PromptCaches:
    """The prompt prefixes that are cached for each model, so that replies report cached tokens as the providers do."""

    def __init__(self) -> None:
        # Entries expire like those of the provider, so that the full price is charged again after a long pause.
        self._until: dict[str, dict[int, tuple[float, str]]] = defaultdict(dict)  # prefix -> (valid until, ttl)
        self._seen: dict[str, set[int]] = defaultdict(set)

    def count_tokens(self, question: Question) -> Tokens:
        """Return the prompt's numbers of uncached, read and written tokens, and add its prefixes to the cache."""
        by_breakpoint = question.flavour.dialect == "anthropic"
        return self._count_by_breakpoint(question) if by_breakpoint else self._count_by_prefix(question)

    def _count_by_breakpoint(self, question: Question) -> Tokens:
        """Count tokens as Anthropic: cached up to the longest known prefix, written from there to the last breakpoint."""
        sizes, prefixes, total = [], [], 0
        prefix = 0
        for block in question.blocks:
            data = encode_text(block.text)
            # The hashes are chained, so each identifies all blocks up to its own.
            total, prefix = total + len(data), hash((prefix, data))
            sizes.append(bytes_to_tokens(total))
            prefixes.append(prefix)
        # Below the minimum size, the provider ignores a breakpoint.
        marks = [at for at, block in enumerate(question.blocks) if block.ttl and sizes[at] >= MIN_CACHED]
        everything = bytes_to_tokens(total)
        if not marks:
            return Tokens(input_uncached=everything)
        entries, now, last = self._until[question.model], time.monotonic(), marks[-1]
        # Anthropic looks back a limited number of blocks from a breakpoint.
        cached = [
            at for at in range(max(0, last - LOOK_BACK), last + 1) if entries.get(prefixes[at], (0.0, ""))[0] > now
        ]
        read = sizes[cached[-1]] if cached else 0
        # Reading extends the life of an entry, as it does at the provider.
        for at in {*marks, *cached[-1:]}:
            ttl = question.blocks[at].ttl or entries[prefixes[at]][1]
            entries[prefixes[at]] = (now + _SECONDS[ttl], ttl)
        n_written = sizes[last] - read
        long = question.blocks[last].ttl == "1h"
        return Tokens(everything - read - n_written, read, 0 if long else n_written, n_written if long else 0)

    def _count_by_prefix(self, question: Question) -> Tokens:
        """Count tokens as OpenAI does: the longest prefix seen before is read, in steps of 128 from 1024 tokens on."""
        data = encode_text("".join(block.text for block in question.blocks))
        seen, step = self._seen[question.model], STEP * 4  # 128 tokens of four bytes
        prefix, steps, running = 0, 0, True
        for start in range(0, len(data) - step + 1, step):
            prefix = hash((prefix, data[start : start + step]))
            # Only an unbroken run from the beginning counts: a cache stores prefixes.
            running = running and prefix in seen
            steps += running
            seen.add(prefix)
        cached = steps * STEP if steps * STEP >= MIN_CACHED else 0
        return Tokens(bytes_to_tokens(len(data)) - cached, cached)
