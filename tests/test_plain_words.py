"""Names and sentences stay in plain words: short lists of words and phrases that this project no longer uses."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from django.conf import settings

PRODUCT = ("simulation", "ratings", "wetbench_site")
# Metaphors that once were names here. Each comment gives the term to use.
METAPHORS = {
    "bell", "bells", "doorbell", "rung",  # notify, notified_at
    "telephone", "dial",  # replayer, connect
    "shelf", "desk",  # text store, rater home
    "seat", "seats", "seating", "seated",  # rater
    "hand", "hands",  # workload of a rater
    "told", "said", "spoken",  # message, text
    "worlds", "insiders",  # counterfactual, people with a role
    "rehearsal",  # preview, protocol check
}  # fmt: skip
# Function names state an action: `format_count`, not `counted`.
PARTICIPLES = {
    "asked", "begun", "changed", "checked", "claimed", "compared", "counted", "cut", "dealt", "drawn",
    "filled", "found", "gone", "held", "judged", "kept", "listed", "locked", "lost", "made", "marked",
    "measured", "moved", "named", "opened", "ordered", "paired", "placed", "planned", "read", "recorded",
    "said", "sealed", "sent", "settled", "shared", "shown", "signed", "split", "stated", "stored", "taken",
    "told", "tried", "used", "waited", "wanted", "worked", "written",
}  # fmt: skip
# Names so general that a second one says nothing: a search for them finds everything.
MOST_DEFINITIONS = 12
FRAMEWORK_NAMES = {"clean", "handle", "save", "get_queryset", "to_json", "from_json"}
WHERE_FRAMEWORKS_NAME = ("web", "management", "migrations", "api", "middleware")
PHRASES = (
    "whoever", "of which none", "anew", "so many of", "none of ours", "says so", "is told", "are told", "stands in",
    "stand in", "goes by", "per cent", "gives away", "nobody's", "comes to be", "in force again",
    "what it rests on", "as it stands",
)  # fmt: skip


@cache
def parse_product() -> tuple[tuple[Path, ast.Module], ...]:
    """Return the path and syntax tree of every product module. Migrations keep the names they were written with."""
    paths = [path for app in PRODUCT for path in sorted((settings.BASE_DIR / app).rglob("*.py"))]
    return tuple((path, ast.parse(path.read_text())) for path in paths if "migrations" not in path.parts)


def iter_functions() -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the path and node of every function and method."""
    for path, tree in parse_product():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def split_name(name: str) -> list[str]:
    """Return the words of a name in snake case or camel case, in lower case."""
    return [word.lower() for part in name.split("_") for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", part)]


def iter_names() -> Iterator[tuple[str, str]]:
    """Yield the location and name of every module, class, function and parameter."""
    for path, tree in parse_product():
        short = str(path.relative_to(settings.BASE_DIR))
        yield short, path.stem
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield f"{short}:{node.lineno}", node.name
            elif isinstance(node, ast.arg):
                yield f"{short}:{node.lineno}", node.arg


def iter_prose() -> Iterator[tuple[str, str]]:
    """Yield the location and text of every docstring, template, script and page of documentation."""
    for path, tree in parse_product():
        for node in ast.walk(tree):
            has_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            if has_docstring and (text := ast.get_docstring(node)):
                yield f"{path.relative_to(settings.BASE_DIR)}:{getattr(node, 'lineno', 1)}", text
    pages = [
        *settings.BASE_DIR.glob("docs/**/*.md"),
        *settings.BASE_DIR.glob("templates/**/*"),
        settings.BASE_DIR / "README.md",
    ]
    for path in pages:
        if path.suffix in (".md", ".html", ".txt"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                yield f"{path.relative_to(settings.BASE_DIR)}:{number}", line


def test_no_name_is_a_metaphor() -> None:
    assert [f"{location} {name}" for location, name in iter_names() if METAPHORS & set(split_name(name))] == []


def test_no_function_name_is_a_participle_alone() -> None:
    wrong = [(path.name, node.name) for path, node in iter_functions() if node.name.lstrip("_") in PARTICIPLES]
    # httpcore calls this method of its network streams.
    assert wrong == [("transport.py", "read")]


def test_no_function_name_is_defined_too_often() -> None:
    names = Counter(
        node.name
        for path, node in iter_functions()
        if not set(WHERE_FRAMEWORKS_NAME) & set(path.parts) and not node.name.startswith("__")
    )
    often = {name: count for name, count in names.items() if count > MOST_DEFINITIONS and name not in FRAMEWORK_NAMES}
    assert often == {}


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_docstring_template_or_doc_contains_the_phrase(phrase: str) -> None:
    pattern = re.compile(rf"\b{re.escape(phrase)}\b", re.IGNORECASE)
    assert [f"{location} {text.strip()[:90]}" for location, text in iter_prose() if pattern.search(text)] == []


def test_word_lists_recognise_a_metaphor_and_a_participle() -> None:
    assert (
        METAPHORS & set(split_name("_seat_line")) and METAPHORS & set(split_name("DoorBell")) and "told" in PARTICIPLES
    )
    assert split_name("ModelCallLog") == ["model", "call", "log"] and not METAPHORS & set(split_name("sea_temperature"))
