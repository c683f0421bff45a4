"""Every regular expression of ours against texts made to be slow for it: none takes longer than a page may.

The texts come from the pattern itself: what its repeats repeat, thousands of times, and then a sign that fits nowhere.
"""

import ast
import importlib
import json
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # how Python itself reads a pattern
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
ROOMS = ("ratings", "simulation", "wetbench_site")
FUNCTIONS = {"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
TAKE_ONE = {"RegexValidator", "RegexField", "re_path"}  # of Django, a pattern first
LENGTHS = (200, 2_000)  # and 10,000 in the thorough round
SECONDS = 1.0
PUMPS = (" ", "\n", "1", "a", "A", "1.", "a ", "MAT-", "<", "<a", "(", "1 of ", "\u202e")
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


def modules() -> Iterator[Path]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "migrations" not in path.parts and path.name not in ("settings.py", "gunicorn_conf.py", "wsgi.py"):
                yield path


def compiled(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """The patterns that a module holds by name, in lists, records and classes too."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and (isinstance(value, (list, tuple, frozenset, set, dict)) or _is_ours(value)):
        inner = vars(value) if isinstance(value, type) else value
        for one in inner.values() if isinstance(inner, Mapping) else inner:
            yield from compiled(one, depth + 1)


def _is_ours(value: Any) -> bool:
    return isinstance(value, type) and value.__module__.split(".")[0] in ROOMS


def written_out(tree: ast.AST, held: Mapping[str, Any]) -> Iterator[re.Pattern[Any] | str]:
    """The patterns that stand in calls, in validators, fields, addresses and their converters; of one that is made of what
    only the call knows, its source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            regexes = [
                one for one in node.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "regex"
            ]
            yield from (_pattern(one.value, [], held) for one in regexes)
        if not isinstance(node, ast.Call):
            continue
        named = [one.value for one in node.keywords if one.arg in ("pattern", "regex")]
        if (_of_re(node.func, held) or ast.unparse(node.func).rpartition(".")[2] in TAKE_ONE) and not named:
            named = node.args[:1]
        flags = [*node.args[1:], *(one.value for one in node.keywords if one.arg == "flags")]
        yield from (_pattern(one, flags, held) for one in named)


def _of_re(called: ast.expr, held: Mapping[str, Any]) -> bool:
    if isinstance(called, ast.Attribute):
        return called.attr in FUNCTIONS and held.get(ast.unparse(called.value)) is re
    return isinstance(called, ast.Name) and any(held.get(called.id) is getattr(re, name) for name in FUNCTIONS)


def _pattern(written: ast.expr, flags: list[ast.expr], held: Mapping[str, Any]) -> re.Pattern[Any] | str:
    try:
        text = eval(ast.unparse(written), dict(held))
    except NameError:
        return ast.unparse(written)
    said = [
        eval(ast.unparse(one), dict(held)) for one in flags if "re." in ast.unparse(one) and "(" not in ast.unparse(one)
    ]
    return (
        text
        if isinstance(text, re.Pattern)
        else re.compile(text, sum(one for one in said if isinstance(one, re.RegexFlag)))
    )


def patterns() -> dict[str, re.Pattern[str]]:
    """Every pattern of the code by its text, those of the data files too."""
    found: dict[str, re.Pattern[str]] = {one: re.compile(one) for one in of_data_files()}
    for path in modules():
        for pattern in of_module(path):
            if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
                found.setdefault(pattern.pattern, pattern)
    return found


def of_module(path: Path) -> list[re.Pattern[Any] | str]:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    held = vars(importlib.import_module(name))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [*(one for value in list(held.values()) for one in compiled(value)), *written_out(tree, held)]


def of_data_files() -> set[str]:
    """What parameters of actions must look like: laboratories write such files too."""
    waiting: list[Any] = [
        json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "fixtures/actions").glob("*.json"))
    ]
    found = set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            found |= {one["pattern"]} if isinstance(one.get("pattern"), str) else set()
        waiting += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
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
        if code in REPEATS and given[1] > 5:
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


class TooSlow(Exception):  # noqa: N818  # ends a search
    pass


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """TooSlow when the time is over: Python looks for signals while it searches, which else would go on for years."""

    def over(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def slowest(pattern: re.Pattern[str], lengths: tuple[int, ...] = LENGTHS, most: float = SECONDS) -> tuple[float, str]:
    """Seconds of the slowest search in such texts, and how its text begins; the first that takes longer than `most`."""
    found = (0.0, "")
    for length in lengths:
        for text in texts(pattern, length):
            begun = time.thread_time()
            with suppress(TooSlow), at_most(4 * most):  # of the clock, on a machine that does other things as well
                for _ in pattern.finditer(text):
                    pass
                pattern.fullmatch(text)
            found = max(found, (time.thread_time() - begun, f"{length} signs: {text[:40]!r}"))
            if found[0] > most:
                return found
    return found


def test_no_pattern_is_slow_on_any_text() -> None:
    every = patterns()
    assert len(every) > 80
    assert {text[:80]: found for text, pattern in every.items() if (found := slowest(pattern))[0] > SECONDS} == {}


# What only the call knows: patterns of lists and data files, which are tried above, and words of ours. What is escaped
# besides repeats nothing.
MADE_IN_CALLS = {
    ("observables.py", "pattern"), ("catalogue.py", "pattern if isinstance(pattern, str) else '('"), ("parameters.py", "self.pattern"),
    ("prompt_files.py", "'\\\\{(' + '|'.join(names) + ')\\\\}' if names else '(?!)()'"), ("tags.py", "tag"), ("tags.py", "f'<{name}>'"),
    ("tags.py", "f'</{name}>'"), ("separations.py", "f'(?<![0-9.]){word}'"), ("changes.py", "word(text)"), ("limits.py", "limit.tells"),
    ("values.py", "f'[\\\\x21-\\\\x7e]{{{fewest},}}'"),
}  # fmt: skip


def test_no_pattern_is_made_out_of_sight() -> None:
    made = {(path.name, one) for path in modules() for one in of_module(path) if isinstance(one, str)}
    assert {(name, one) for name, one in made if "re.escape(" not in one} == MADE_IN_CALLS


@pytest.mark.thorough
def test_no_pattern_is_slow_on_a_text_of_10_000_signs() -> None:
    found = {text[:80]: slowest(pattern, (*LENGTHS, 10_000), 5 * SECONDS) for text, pattern in patterns().items()}
    assert {text: one for text, one in found.items() if one[0] > 5 * SECONDS} == {}


@pytest.mark.parametrize(
    "pattern", [r"(a+)+$", r"^(\w+[\s,]*)+\?$", r"(a|a)*b", r"(?:\d+)+x", r"(ab?)*(ab?)*c", r"x(?:\d{1,15}){1,15}y"]
)
def test_the_search_finds_a_pattern_that_explodes(pattern: str) -> None:
    assert slowest(re.compile(pattern), most=0.2)[0] > 0.2


BAD = "(a+)+$"


@pytest.mark.parametrize(
    "code",
    [
        "X = re.compile(BAD)", "def f(s): return re.compile('(a+)+$').match(s)", "def f(s): return re.search(string=s, pattern='(a+)+$')",
        "def f(s): return search('(a+)+$', s)", "def f(s): return re.search(f'{BAD}', s)", "def f(s): return re.sub(BAD, '', s, flags=re.I)",
        "class A: X = re.compile(BAD)", "X = RegexValidator(BAD)", "X = RegexField(regex=BAD)", "class A: regex = BAD",
        "X = re_path(BAD, None)", "X = {re.compile(BAD)}", "class M: a = Field('', pattern=BAD)",
    ],
)  # fmt: skip
def test_the_search_looks_wherever_a_pattern_may_stand(code: str) -> None:
    held: dict[str, Any] = {"__name__": "ratings.planted", "re": re, "search": re.search, "BAD": BAD}
    held |= dict.fromkeys(("RegexValidator", "RegexField", "re_path", "Field"), lambda *_, **__: None)
    exec(code, held)
    seen = [*(one for value in held.values() for one in compiled(value)), *written_out(ast.parse(code), held)]
    assert BAD in [one.pattern for one in seen if isinstance(one, re.Pattern)]
