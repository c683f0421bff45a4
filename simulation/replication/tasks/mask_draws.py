"""Draw masks of a task: the same seed always gives the same masks, and more masks never change earlier ones."""

import hashlib
import re
from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import NamedTuple

from simulation.lab.errors import LabError
from simulation.replication.tasks.call_graph import find_neighbours, find_related
from simulation.replication.values import MaskDraw, MaskMode, Task

MODES: tuple[MaskMode, ...] = ("uniform", "nested", "connected", "scattered")
MAX_COMBINATIONS = 5000  # if there are more combinations, this many are drawn, and sorted
DEFAULT_SEED = 1  # the same for all casts, so that they are compared on the same masks
MAX_SEED = 2**31 - 1
_KEY = re.compile(r"([a-z])(\d{1,3})-(\d{1,4})(?:-s(\d{1,10}))?")

Functions = tuple[str, ...]


class MaskDrawError(LabError):
    """There is no such mask: n, the mode or the key is wrong. The message states what is allowed."""


def draw_masks(task: Task, n: int, per_n: int, mode: MaskMode = "uniform", seed: int = DEFAULT_SEED) -> list[MaskDraw]:
    """Return up to `per_n` masks that hide n functions of the task, with keys like "u3-004" (uniform, n = 3, the fourth).

    uniform: any functions. nested: the k-th mask hides the first n functions of the k-th order, so that it contains the k-th masks with a
    smaller n; the orders are the rotations of a single one, so there are as many as functions. connected: from each hidden function, every
    other one can be reached through hidden neighbours in the call graph. scattered: no hidden function calls another, directly or through others.

    Masks are ordered by a SHA-256 of seed, task, mode, n and functions. Fewer are returned if fewer exist. Raises MaskDrawError.
    """
    _check(task, n, mode)
    chosen = _list_masks(task, n, mode, seed)[:per_n]
    order = [function.id for function in task.functions]
    return [
        MaskDraw(task.slug, n, mode, index, f"{mode[0]}{n}-{index:03}", tuple(sorted(functions, key=order.index)))
        for index, functions in enumerate(chosen, 1)
    ]


def format_key(key: str, seed: int) -> str:
    """Return the key of a drawn mask with its seed, which is omitted if it is the default."""
    return key if seed == DEFAULT_SEED else f"{key}-s{seed}"


class MaskKey(NamedTuple):
    """The parts of a key of `format_key`."""

    mode: MaskMode
    n: int
    number: int  # among the masks of this n and mode, from 1
    seed: int


def parse_key(key: str) -> MaskKey:
    """Return the parts of a key such as "u3-004" or "u3-004-s7". Raises MaskDrawError."""
    match = _KEY.fullmatch(key)
    mode = next((mode for mode in MODES if match and mode[0] == match[1]), None)
    if match is None or mode is None:
        initials = ", ".join(f"{mode[0]} ({mode})" for mode in MODES)
        raise MaskDrawError(
            f"{key[:40]!r} is not the key of a mask; allowed: {initials}, then n, a hyphen and a number, as in u3-004"
        )
    return MaskKey(mode, int(match[2]), int(match[3]), int(match[4] or DEFAULT_SEED))


def find_mask(task: Task, key: str) -> MaskDraw:
    """Return the mask that a key of `format_key` names. Raises MaskDrawError."""
    mode, n, index, seed = parse_key(key)
    if n > len(task.functions):
        raise MaskDrawError(f"{task.slug} has no mask {key}; allowed: 0 to {len(task.functions)} hidden functions")
    # All of them, because the message names the largest number.
    draws = draw_masks(task, n, MAX_COMBINATIONS, mode, seed)
    if not 1 <= index <= len(draws):
        raise MaskDrawError(f"{task.slug} has no mask {key}; allowed: 001 to {len(draws):03}")
    return draws[index - 1]


def count_masks(task: Task, n: int, mode: MaskMode = "uniform") -> int:
    """Return how many masks of this mode hide n functions; of many combinations, at most the 5,000 that are drawn. Raises MaskDrawError."""
    _check(task, n, mode)
    return comb(len(task.functions), n) if mode == "uniform" else len(_list_masks(task, n, mode, seed=1))


def _check(task: Task, n: int, mode: str) -> None:
    if mode not in MODES:
        raise MaskDrawError(f"mode: is {mode!r}; allowed: {', '.join(MODES)}")
    if not 0 <= n <= len(task.functions):
        raise MaskDrawError(f"n: is {n}; allowed for {task.slug}: 0 to {len(task.functions)}")


def _list_masks(task: Task, n: int, mode: MaskMode, seed: int) -> list[Functions]:
    ids = tuple(function.id for function in task.functions)
    if mode == "nested":
        order = sorted(ids, key=lambda identifier: _digest(seed, task.slug, mode, identifier))
        rotations = [(order[start:] + order[:start])[:n] for start in range(len(order))]
        return [tuple(functions) for functions in rotations[: 1 if n in (0, len(order)) else None]]
    candidates = list(_iter_combinations(ids, n, f"{seed}/{task.slug}/{mode}/{n}"))
    if mode == "connected":
        neighbours = find_neighbours(task)
        candidates = [functions for functions in candidates if _is_connected(functions, neighbours)]
    elif mode == "scattered":
        related = find_related(task)
        candidates = [
            functions for functions in candidates if not any(b in related[a] for a, b in combinations(functions, 2))
        ]
    return sorted(candidates, key=lambda functions: _digest(seed, task.slug, mode, n, ",".join(functions)))


def _digest(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


def _iter_combinations(ids: Functions, n: int, seed: str) -> Iterator[Functions]:
    """Yield all combinations of n ids; if there are more than 5,000, that many drawn ones."""
    if comb(len(ids), n) <= MAX_COMBINATIONS:
        yield from combinations(ids, n)
        return
    seen: set[Functions] = set()
    number = 0
    while len(seen) < MAX_COMBINATIONS:
        ranked = sorted(ids, key=lambda identifier: _digest(seed, number, identifier))
        functions = tuple(sorted(ranked[:n], key=ids.index))
        number += 1
        if functions not in seen:
            seen.add(functions)
            yield functions


def _is_connected(functions: Functions, neighbours: dict[str, frozenset[str]]) -> bool:
    if not functions:
        return True
    reached, pending = {functions[0]}, [functions[0]]
    while pending:
        new = (neighbours[pending.pop()] & set(functions)) - reached
        reached |= new
        pending += new
    return len(reached) == len(functions)
