"""Every regular expression of the code is fast on texts designed to make it slow.

The texts are derived from the pattern: what its repeats match, thousands of times, followed by a character that fits nowhere.
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
from re import _constants as codes  # type: ignore[attr-defined]  # Python's own pattern parser
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
ROOMS = ("ratings", "simulation", "wetbench_site")
FUNCTIONS = {"compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer"}
TAKE_ONE = {"RegexValidator", "RegexField", "re_path"}  # of Django; the pattern is the first argument
LENGTHS = (200, 2_000)  # and 10,000 in `make thorough`
SECONDS = 1.0
PUMPS = (" ", "\n", "1", "a", "A", "1.", "a ", "MAT-", "<", "<a", "(", "1 of ", "\u202e")
REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT)


def iter_modules() -> Iterator[Path]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            if "sandbox/inside" in path.as_posix():  # programs that run when they are imported; none has a pattern
                continue
            if "migrations" not in path.parts and path.name not in ("settings.py", "gunicorn_conf.py", "wsgi.py"):
                yield path


def iter_compiled_patterns(value: Any, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """Yield the patterns that a module holds by name, also in lists, records and classes."""
    if isinstance(value, re.Pattern):
        yield value
    elif depth < 3 and (isinstance(value, (list, tuple, frozenset, set, dict)) or _is_ours(value)):
        inner = vars(value) if isinstance(value, type) else value
        for one in inner.values() if isinstance(inner, Mapping) else inner:
            yield from iter_compiled_patterns(one, depth + 1)


def _is_ours(value: Any) -> bool:
    return isinstance(value, type) and value.__module__.split(".")[0] in ROOMS


def iter_written_patterns(tree: ast.AST, held: Mapping[str, Any]) -> Iterator[re.Pattern[Any] | str]:
    """Yield the patterns in calls, validators, fields, addresses and converters. If a pattern depends on values of the call, yield its source."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            regexes = [
                part for part in node.body if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "regex"
            ]
            yield from (_compile_expression(part.value, [], held) for part in regexes)
        if not isinstance(node, ast.Call):
            continue
        patterns_in_call = [part.value for part in node.keywords if part.arg in ("pattern", "regex")]
        if (
            _is_re_function(node.func, held) or ast.unparse(node.func).rpartition(".")[2] in TAKE_ONE
        ) and not patterns_in_call:
            patterns_in_call = node.args[:1]
        flags = [*node.args[1:], *(part.value for part in node.keywords if part.arg == "flags")]
        yield from (_compile_expression(part, flags, held) for part in patterns_in_call)


def _is_re_function(called: ast.expr, held: Mapping[str, Any]) -> bool:
    if isinstance(called, ast.Attribute):
        return called.attr in FUNCTIONS and held.get(ast.unparse(called.value)) is re
    return isinstance(called, ast.Name) and any(held.get(called.id) is getattr(re, name) for name in FUNCTIONS)


def _compile_expression(expression: ast.expr, flags: list[ast.expr], held: Mapping[str, Any]) -> re.Pattern[Any] | str:
    try:
        text = eval(ast.unparse(expression), dict(held))
    except NameError:
        return ast.unparse(expression)
    flag_values = [
        eval(ast.unparse(flag), dict(held))
        for flag in flags
        if "re." in ast.unparse(flag) and "(" not in ast.unparse(flag)
    ]
    return (
        text
        if isinstance(text, re.Pattern)
        else re.compile(text, sum(flag for flag in flag_values if isinstance(flag, re.RegexFlag)))
    )


def collect_patterns() -> dict[str, re.Pattern[str]]:
    """Return every pattern of the code and of the data files by its text."""
    by_text: dict[str, re.Pattern[str]] = {text: re.compile(text) for text in list_data_file_patterns()}
    for path in iter_modules():
        for pattern in list_module_patterns(path):
            if isinstance(pattern, re.Pattern) and isinstance(pattern.pattern, str):
                by_text.setdefault(pattern.pattern, pattern)
    return by_text


def list_module_patterns(path: Path) -> list[re.Pattern[Any] | str]:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    held = vars(importlib.import_module(name))
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        *(pattern for value in list(held.values()) for pattern in iter_compiled_patterns(value)),
        *iter_written_patterns(tree, held),
    ]


def list_data_file_patterns() -> set[str]:
    """Return the patterns of action parameters: laboratories write such files too."""
    waiting: list[Any] = [
        json.loads(path.read_text("utf-8")) for path in sorted((ROOT / "fixtures/actions").glob("*.json"))
    ]
    found_patterns = set()
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found_patterns |= {node["pattern"]} if isinstance(node.get("pattern"), str) else set()
        waiting += node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return found_patterns


def build_sample(tree: Any) -> str:
    """Return a text that matches a parsed pattern, as far as possible."""
    return "".join(_sample_node(code, argument) for code, argument in tree)


def _sample_node(code: Any, argument: Any) -> str:
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.IN:
        return (
            next((_sample_node(*item) for item in argument if item[0] is not codes.NEGATE), "")[:1]
            if argument[0][0] is not codes.NEGATE
            else "~"
        )
    if code is codes.RANGE:
        return chr(argument[0])
    if code is codes.CATEGORY:
        return {codes.CATEGORY_DIGIT: "1", codes.CATEGORY_SPACE: " ", codes.CATEGORY_WORD: "a"}.get(argument, "-")
    if code in REPEATS:
        return build_sample(argument[2]) * max(argument[0], 1)
    if code is codes.SUBPATTERN:
        return build_sample(argument[3])
    if code is codes.ATOMIC_GROUP:
        return build_sample(argument)
    if code is codes.BRANCH:
        return build_sample(argument[1][0])
    return "a" if code in (codes.ANY, codes.NOT_LITERAL) else ""


def iter_pumps(tree: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield, for each repeat of a pattern, the text before it and the text it repeats."""
    for code, argument in tree:
        inner = argument[2] if code in REPEATS else argument[3] if code is codes.SUBPATTERN else None
        if code in REPEATS and argument[1] > 5:
            yield before, build_sample(inner)
        if inner is not None:
            yield from iter_pumps(inner, before)
        for branch in argument[1] if code is codes.BRANCH else ():
            yield from iter_pumps(branch, before)
        before += _sample_node(code, argument)


def iter_texts(pattern: re.Pattern[str], length: int) -> Iterator[str]:
    own_pumps = set(iter_pumps(parser.parse(pattern.pattern, pattern.flags)))
    full_match = build_sample(parser.parse(pattern.pattern, pattern.flags))
    for before, pump in sorted(
        {
            *own_pumps,
            *(("", body) for _, body in own_pumps),
            *(("", pump_text) for pump_text in (*PUMPS, get_longest_prefix(own_pumps), full_match)),
        }
    ):
        if pump:
            yield (before + pump * (length // len(pump)))[:length] + "\0~"


def get_longest_prefix(own_pumps: set[tuple[str, str]]) -> str:
    return max((before + body for before, body in own_pumps), key=len, default="")


class TooSlow(Exception):  # noqa: N818  # a signal that ends the search, not an error
    pass


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Raise TooSlow after so much processor time: Python checks for signals during a search, which otherwise might not end for years."""

    def raise_too_slow(*_: object) -> None:
        raise TooSlow

    previous_handler = signal.signal(signal.SIGVTALRM, raise_too_slow)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous_handler)


def find_slowest_search(
    pattern: re.Pattern[str], lengths: tuple[int, ...] = LENGTHS, most: float = SECONDS
) -> tuple[float, str]:
    """Return the seconds of the slowest search, and how its text begins; stop at the first that takes longer than `most`."""
    slowest_search = (0.0, "")
    for length in lengths:
        for text in iter_texts(pattern, length):
            start = time.thread_time()
            with suppress(TooSlow), limit_time(2 * most):
                for _ in pattern.finditer(text):
                    pass
                pattern.fullmatch(text)
            slowest_search = max(slowest_search, (time.thread_time() - start, f"{length} signs: {text[:40]!r}"))
            if slowest_search[0] > most:
                return slowest_search
    return slowest_search


def test_regular_expressions_are_fast_on_adversarial_texts() -> None:
    all_patterns = collect_patterns()
    assert len(all_patterns) > 80
    assert {
        text[:80]: search
        for text, pattern in all_patterns.items()
        if (search := find_slowest_search(pattern))[0] > SECONDS
    } == {}


# Patterns built in calls: from lists and data files, which are tested above, and from fixed words. Escaped parts contain
# no repeats.
MADE_IN_CALLS = {
    ("arithmetic.py", "pattern"), ("measurable.py", "pattern"), ("chemistry.py", "f'\\\\({symbol}\\\\)([0-9]+)'"), ("molarity.py", "f'(?:^|\\\\s){e.lower()}(?:\\\\s|$)'"),
    ("catalogue.py", "text"), ("item_lines.py", "words"), ("parameters.py", "self.pattern"),
    ("prompt_sets.py", "'\\\\{(' + '|'.join(names) + ')\\\\}' if names else '(?!)()'"), ("evidence_classifier.py", "tag"), ("evidence_classifier.py", "f'<{name}>'"),
    ("evidence_classifier.py", "f'</{name}>'"), ("separations.py", "f'(?<![0-9.]){word}'"), ("edits.py", "_build_word_pattern(text)"), ("instruments.py", "limit.description_pattern"),
    # From the tables of the same modules, a number, and a word that was escaped before.
    ("capacities.py", "f'\\\\b{name}\\\\b'"), ("detection.py", "f'(?<![\\\\w.]){setting}(?!\\\\w)'"), ("names.py", "start"), ("instruments.py", "pattern"),
    ("claims.py", "f'{separator} '"), ("code_answers.py", "f'^{label}:'"),
    ("clocks.py", "f'\\\\b{pulses} (?:of|/|out of) {pulses}\\\\b|\\\\ball (?:{pulses} )?(?:pulses|stimuli|transients|responses)\\\\b'"),
    ("shares.py", "f'(?<![\\\\w.])([0-9]{{1,9}}) {word}(?!\\\\w)|(?<!\\\\w){word}:? ([0-9]{{1,9}})(?![\\\\w.])'"),
    ("environment.py", "f'[\\\\x21-\\\\x7e]{{{min_length},}}'"),
    ("patch_trials.py", "f\"\\\\bdef\\\\s+{function.name.split('.')[-1]}\\\\b\".encode()"),  # a Python name
}  # fmt: skip


def test_regular_expressions_that_are_built_from_variables_are_listed() -> None:
    built = {
        (path.name, source)
        for path in iter_modules()
        for source in list_module_patterns(path)
        if isinstance(source, str)
    }
    assert {(name, source) for name, source in built if "re.escape(" not in source} == MADE_IN_CALLS


@pytest.mark.thorough
def test_regular_expressions_are_fast_on_texts_of_10_000_characters() -> None:
    searches = {
        text[:80]: find_slowest_search(pattern, (*LENGTHS, 10_000), 5 * SECONDS)
        for text, pattern in collect_patterns().items()
    }
    assert {text: search for text, search in searches.items() if search[0] > 5 * SECONDS} == {}


@pytest.mark.parametrize(
    "pattern", [r"(a+)+$", r"^(\w+[\s,]*)+\?$", r"(a|a)*b", r"(?:\d+)+x", r"(ab?)*(ab?)*c", r"x(?:\d{1,15}){1,15}y"]
)
def test_pattern_search_detects_exponential_patterns(pattern: str) -> None:
    assert find_slowest_search(re.compile(pattern), most=0.2)[0] > 0.2


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
def test_pattern_search_covers_every_place_where_a_pattern_can_be(code: str) -> None:
    held: dict[str, Any] = {"__name__": "ratings.planted", "re": re, "search": re.search, "BAD": BAD}
    held |= dict.fromkeys(("RegexValidator", "RegexField", "re_path", "Field"), lambda *_, **__: None)
    exec(code, held)
    patterns_found = [
        *(pattern for value in held.values() for pattern in iter_compiled_patterns(value)),
        *iter_written_patterns(ast.parse(code), held),
    ]
    assert BAD in [pattern.pattern for pattern in patterns_found if isinstance(pattern, re.Pattern)]
