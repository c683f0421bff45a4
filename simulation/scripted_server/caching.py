"""Simulate the providers' prompt caches, so that replies report cached tokens as the providers do."""

import time
from collections import defaultdict
from collections.abc import Callable

from simulation.scripted_server.questions import Question, Tokens, bytes_to_tokens, encode_text

MIN_CACHED = 1024  # tokens: no provider caches a shorter prefix
STEP = 128  # tokens: granularity of OpenAI's cache
LOOK_BACK = 20  # blocks before a breakpoint in which Anthropic searches for an older entry
_SECONDS = {"5m": 300, "1h": 3600}


class PromptCaches:
    """The prompt prefixes that are cached for each model."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        # Entries expire like those of the provider, so that the full price is charged again after a long pause.
        self._until: dict[str, dict[int, tuple[float, str]]] = defaultdict(dict)  # prefix -> (valid until, ttl)
        self._seen: dict[str, set[int]] = defaultdict(set)

    def count_tokens(self, question: Question) -> Tokens:
        """Return the prompt's numbers of uncached, read and written tokens, and add its prefixes to the cache."""
        by_breakpoint = question.flavour.dialect == "anthropic"
        return self._count_by_breakpoint(question) if by_breakpoint else self._count_by_prefix(question)

    def _count_by_breakpoint(self, question: Question) -> Tokens:
        """Count tokens as Anthropic does.

        Tokens up to the longest cached prefix are read from the cache. Those from there to the last `cache_control` are
        written to it. The rest are uncached.
        """
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
        entries, now, last = self._until[question.model], self.clock(), marks[-1]
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
