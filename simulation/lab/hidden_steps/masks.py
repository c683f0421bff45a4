"""Masks of protocols: which steps are hidden from an agent, drawn by seed, and how the agent is helped with the others."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, count
from math import comb
from typing import Any, Literal, NamedTuple, get_args

from simulation.lab.errors import LabError
from wetbench_site.validation import format_problem

Mode = Literal["uniform", "nested"]
Help = Literal["text", "prefix"]
MODES: tuple[Mode, ...] = get_args(Mode)
# text: the agent does every step itself. prefix: the steps before the first hidden one are done for it.
HELP_MODES: tuple[Help, ...] = get_args(Help)
UNIFORM, NESTED = MODES
TEXT, PREFIX = HELP_MODES
MAX_LISTED = 5000  # up to this many combinations are listed and sorted; of more, they are drawn one by one

Steps = tuple[int, ...]  # numbers of steps, from 1


@dataclass(frozen=True)
class ProtocolMask:
    """The steps of a reference protocol that an agent is not shown.

    `hidden` are numbers from 1, ascending. `draw` is the position among the masks of this mode, number of steps and
    `seed`, from 1. `lines` are the rubric lines that are missed if the hidden steps are left out and nothing else is.
    """

    hidden: Steps
    mode: Mode = UNIFORM
    help: Help = TEXT
    draw: int = 1
    seed: int = 1
    lines: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        return len(self.hidden)

    @property
    def key(self) -> str:
        """Return a text that is the same for equal tasks, however they were drawn: "3.7/text", "none/text"."""
        return f"{'.'.join(map(str, self.hidden)) or 'none'}/{self.help}"

    @property
    def steps_before(self) -> int | None:
        """Return the number of steps before the first hidden one; None if no step is hidden."""
        return self.hidden[0] - 1 if self.hidden else None

    def to_json(self) -> dict[str, Any]:
        names = ("n", "mode", "help", "draw", "seed")
        facts = {name: getattr(self, name) for name in names}
        return {**facts, "hidden": list(self.hidden), "lines": list(self.lines)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "ProtocolMask | None":
        """Return the mask of a stored episode, or None for an episode without one, which is stored as {}."""
        if not data:
            return None
        facts = {name: data[name] for name in ("mode", "help", "draw", "seed")}
        return cls(hidden=tuple(data["hidden"]), lines=tuple(data["lines"]), **facts)


class Drawing(NamedTuple):
    """Which masks are drawn: how many for each number of hidden steps, how, by which seed, and the help with the others."""

    per_n: int = 1
    mode: Mode = UNIFORM
    help: Help = TEXT
    seed: int = 1


def list_candidates(steps: Sequence[int], n: int, slug: str, mode: Mode = UNIFORM, seed: int = 1) -> Iterator[Steps]:
    """Yield every way to hide n of these steps, in an order that slug, mode, seed and n determine; each once.

    uniform: sorted by the SHA-256 of the combination. nested: the k-th one is the first n of the k-th order of the steps,
    so that the k-th ones of rising n contain each other. Raises LabError if there are fewer than n steps.
    """
    if mode not in MODES:
        raise LabError(f"mode: {format_problem(mode, ', '.join(MODES))}")
    if not 0 <= n <= len(steps):
        raise LabError(f"hidden steps: {format_problem(n, f'0 to {len(steps)}, the essential steps of {slug}')}")
    start = f"{seed}/{slug}/{mode}"
    if mode == UNIFORM and comb(len(steps), n) <= MAX_LISTED:
        yield from sorted(combinations(sorted(steps), n), key=lambda hidden: _digest(start, n, *hidden))
        return
    # Each order is random, and its first n steps are a random combination, so that none need be listed.
    seen: set[Steps] = set()
    rest = 1 if n in (0, len(steps)) else comb(len(steps), n)
    order_name = (start,) if mode == NESTED else (start, n)
    for number in count(1):
        order = sorted(steps, key=lambda step: _digest(*order_name, number, step))
        hidden = tuple(sorted(order[:n]))
        if hidden not in seen:
            seen.add(hidden)
            yield hidden
        if len(seen) == rest:
            return


def _digest(*parts: object) -> bytes:
    return hashlib.sha256("/".join(map(str, parts)).encode()).digest()
