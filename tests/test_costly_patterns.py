"""Every regular expression of ours against texts made to be slow for it: none takes longer than a page may.

The texts come from the pattern itself: what its repeats repeat, thousands of times, and then a sign that fits nowhere.
"""

import ast
import importlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # how Python itself reads a pattern
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
FUNCTIONS = {"match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
LENGTHS = (200, 2_000)  # and 50,000 in the thorough round, where the ones before were quick
SECONDS = 1.0
PUMPS = (" ", "\n", "1", "a", "A", "1.", "a ", "MAT-", "<", "<a", "(", "1 of ", "\u202e")
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


def modules() -> Iterator[Path]:
    for room in ("ratings", "simulation", "wetbench_site"):
        for path in sorted((ROOT / room).rglob("*.py")):
            if "migrations" not in path.parts and path.name not in ("settings.py", "gunicorn_conf.py", "wsgi.py"):
                yield path


def compiled(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """The patterns that a module holds by name, in lists and records too."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (list, tuple, frozenset, dict)) and depth < 3:
        for one in value.values() if isinstance(value, dict) else value:
            yield from compiled(one, depth + 1)


def written_out(path: Path) -> Iterator[re.Pattern[Any]]:
    """The patterns that stand in calls: `re.search(r"...", text)`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS
        if called and getattr(node.func.value, "id", "") == "re" and isinstance(node.args[0], ast.Constant):
            yield re.compile(node.args[0].value)


def patterns() -> dict[str, re.Pattern[str]]:
    found: dict[str, re.Pattern[str]] = {}
    for path in modules():
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        held = vars(importlib.import_module(name)).values()
        for pattern in [*(one for value in held for one in compiled(value)), *written_out(path)]:
            if isinstance(pattern.pattern, str):
                found.setdefault(pattern.pattern, pattern)
    return found


def sample(tree: Any) -> str:
    """A text that fits a parsed pattern, as good as it goes."""
    return "".join(_sample(code, given) for code, given in tree)


def _sample(code: Any, given: Any) -> str:
    if code is codes.LITERAL:
        return chr(given)
    if code is codes.IN:
        return (
            next((_sample(*one) for one in given if one[0] is not codes.NEGATE), "")[:1]
            if given[0][0] is not codes.NEGATE
            else "~"
        )
    if code is codes.RANGE:
        return chr(given[0])
    if code is codes.CATEGORY:
        return {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " ", codes.CATEGORY_WORD: "a"}.get(given, "-")
    if code in REPEATS:
        return sample(given[2]) * max(given[0], 1)
    if code is codes.SUBPATTERN:
        return sample(given[3])
    if code is codes.ATOMIC_GROUP:
        return sample(given)
    if code is codes.BRANCH:
        return sample(given[1][0])
    return "a" if code in (codes.ANY, codes.NOT_LITERAL) else ""


def pumps(tree: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """What comes before each repeat of a pattern, and what it repeats."""
    for code, given in tree:
        inner = given[2] if code in REPEATS else given[3] if code is codes.SUBPATTERN else None
        if code in REPEATS and given[1] > 20:
            yield before, sample(inner)
        if inner is not None:
            yield from pumps(inner, before)
        for branch in given[1] if code is codes.BRANCH else ():
            yield from pumps(branch, before)
        before += _sample(code, given)


def texts(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    own = set(pumps(parser.parse(pattern.pattern, pattern.flags)))
    whole = sample(parser.parse(pattern.pattern, pattern.flags))
    for before, pump in sorted(
        {*own, *(("", body) for _, body in own), *(("", one) for one in (*PUMPS, before_all(own), whole))}
    ):
        if pump:
            yield (before + pump * (length // len(pump)))[:length] + "\0~"


def before_all(own: set[tuple[str, str]]) -> str:
    return max((before + body for before, body in own), key=len, default="")


def slowest(pattern: re.Pattern[str], lengths: tuple[int, ...] = LENGTHS) -> tuple[float, str]:
    """Seconds of the slowest search in such texts, and how its text begins."""
    found = (0.0, "")
    for length in lengths:
        if found[0] > SECONDS / 20:
            break
        for text in texts(pattern, length):
            begun = time.thread_time()
            for _ in pattern.finditer(text):
                pass
            pattern.fullmatch(text)
            found = max(found, (time.thread_time() - begun, f"{length} signs: {text[:40]!r}"))
            if found[0] > SECONDS:
                return found
    return found


def test_no_pattern_is_slow_on_any_text() -> None:
    every = patterns()
    assert len(every) > 80
    assert {text[:80]: found for text, pattern in every.items() if (found := slowest(pattern))[0] > SECONDS} == {}


@pytest.mark.thorough
def test_no_pattern_is_slow_on_a_text_of_50_kb() -> None:
    found = {text[:80]: slowest(pattern, (*LENGTHS, 50_000)) for text, pattern in patterns().items()}
    assert {text: one for text, one in found.items() if one[0] > 5 * SECONDS} == {}


@pytest.mark.parametrize("pattern", [r"^(\w+[\s,]*)+\?$", r"(a|a)*b", r"(?:\d+)+x"])
def test_the_search_finds_a_pattern_that_explodes(pattern: str) -> None:
    # What explodes doubles with each sign or two: sixteen take a thousandfold of what four do.
    assert slowest(re.compile(pattern), (16,))[0] > 50 * slowest(re.compile(pattern), (4,))[0]
