"""The history in an agent's prompt: every step, a window of the last ones, or a summary and the steps after it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simulation.lab import rendering
from simulation.lab.bench import Step
from simulation.lab.errors import LabError

KINDS = ("full", "window", "summary")
MAX_STEPS = 100


class History(NamedTuple):
    """`full`: every step. `window`: the last `k` in full, one line for each older one. `summary`: see `count_summarised`."""

    kind: str = "full"
    k: int = 0

    def count_summarised(self, done: int) -> int:
        """Return how many steps the summary covers after `done` steps.

        It is renewed every k steps, so k to 2k-1 steps stay in full.
        """
        # The last k steps always stay in full, because the summary is renewed with a delay of one window.
        return max(0, (done // self.k - 1) * self.k) if self.kind == "summary" else 0


def parse_history(data: Mapping[str, Any]) -> History:
    """Return the history that a cast defines. Raises LabError if it is invalid."""
    kind, k = data.get("kind", "full"), data.get("k", 0)
    if kind not in KINDS:
        raise LabError(f"history.kind is {kind!r}; allowed: {', '.join(KINDS)}")
    # Booleans are integers in Python.
    if kind != "full" and not (isinstance(k, int) and not isinstance(k, bool) and 1 <= k <= MAX_STEPS):
        raise LabError(f"history.k is {k!r}; it must be a whole number from 1 to {MAX_STEPS}")
    return History(kind, 0 if kind == "full" else k)


def render_history(history: History, steps: Sequence[Step], thoughts: Mapping[str, str], summary: str = "") -> str:
    """Return the history as the agent reads it; `summary` describes the summarised steps."""
    if not steps:
        return "Nothing has been done yet."
    if history.kind == "window":
        older, recent = steps[: -history.k], steps[-history.k :]
        return "\n\n".join(
            [*(["\n".join(map(rendering.render_brief, older))] if older else []), render_steps(recent, thoughts)]
        )
    if n_summarised := history.count_summarised(len(steps)):
        return f"STEPS 1 TO {n_summarised}, SUMMARISED\n{summary}\n\n{render_steps(steps[n_summarised:], thoughts)}"
    return render_steps(steps, thoughts)


def render_steps(steps: Sequence[Step], thoughts: Mapping[str, str]) -> str:
    """Return one paragraph per step. It begins with the agent's thought before that step, if there is one."""
    return "\n\n".join(_render_paragraph(step, thoughts.get(str(step.number), "")) for step in steps)


def _render_paragraph(step: Step, thought: str) -> str:
    text = rendering.render_step(step)
    return f"(thought before step {step.number}: {rendering.join_lines(thought)})\n{text}" if thought else text
