"""Which steps a prompt shows in full, in one line, or in a summary. The rule is the same for laboratory steps and code steps."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from simulation.lab.errors import LabError

HISTORY_KINDS = ("full", "window", "summary")
MAX_HISTORY_STEPS = 100
StepT = TypeVar("StepT")


class GrowingText(NamedTuple):
    """A text that later prompts repeat and continue. They begin with the same text up to each of `ends`."""

    text: str
    ends: tuple[int, ...] = ()

    @classmethod
    def join(cls, parts: Sequence[str], separator: str) -> "GrowingText":
        """Return the parts as one text that ends after each of them."""
        ends, position = [], -len(separator)
        for part in parts:
            position += len(separator) + len(part)
            ends.append(position)
        return cls(separator.join(parts), tuple(ends))

    def with_rest(self, rest: str) -> "GrowingText":
        """Return the text with a part at the end that later prompts do not repeat."""
        return self._replace(text=self.text + rest)

    def shift_ends(self, by: int) -> tuple[int, ...]:
        return tuple(end + by for end in self.ends)


class History(NamedTuple):
    """What an agent reads of its steps.

    `full`: every step. `window`: the last `k` in full, one line for each older one. `summary`: see `count_summarised`.
    """

    kind: str = "full"
    k: int = 0

    def count_summarised(self, done: int) -> int:
        """Return how many steps the summary covers after `done` steps. It is renewed every k steps, so k to 2k-1 stay in full."""
        return max(0, (done // self.k - 1) * self.k) if self.kind == "summary" else 0


def parse_history(data: Mapping[str, Any]) -> History:
    """Return the history that a cast defines. Raises LabError if it is invalid."""
    kind, k = data.get("kind", "full"), data.get("k", 0)
    if kind not in HISTORY_KINDS:
        raise LabError(f"history.kind is {kind!r}; allowed: {', '.join(HISTORY_KINDS)}")
    # Booleans are integers in Python.
    if kind != "full" and not (isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= MAX_HISTORY_STEPS):
        raise LabError(f"history.k is {k!r}; it must be a whole number from 1 to {MAX_HISTORY_STEPS}")
    return History(kind, 0 if kind == "full" else k)


def render_history(
    history: History,
    steps: Sequence[StepT],
    render_paragraphs: Callable[[Sequence[StepT]], list[str]],
    render_brief: Callable[[StepT], str],
    summary: str = "",
) -> GrowingText:
    """Return the history as an agent reads it.

    `render_paragraphs` returns one text for each step that is shown in full, `render_brief` one line for an older step, and
    `summary` describes the summarised steps.
    """
    if not steps:
        return GrowingText("Nothing has been done yet.")
    if history.kind == "window":
        # The steps in the window move on with every step, so only the lines before them stay the same.
        lines = GrowingText.join(list(map(render_brief, steps[: -history.k])), "\n")
        window = "\n\n".join(render_paragraphs(steps[-history.k :]))
        return lines.with_rest(f"\n\n{window}" if lines.text else window)
    parts = []
    if n_summarised := history.count_summarised(len(steps)):
        parts.append(f"STEPS 1 TO {n_summarised}, SUMMARISED\n{summary}")
        steps = steps[n_summarised:]
    return GrowingText.join([*parts, *render_paragraphs(steps)], "\n\n")


def count_left_out(lengths: Sequence[int], most: int, kept: int) -> int:
    """Return how many of the oldest entries are left out, so that the others have at most `most` characters.

    More are left out than necessary, down to `kept` characters, so that the text begins alike for several steps before more
    have to go.
    """
    first, total = 0, 0
    for at, length in enumerate(lengths):
        total += length
        if total > most:
            while first < at and total > kept:
                total, first = total - lengths[first], first + 1
    # A single entry that is too long is left out as well.
    return first + (total > most)
