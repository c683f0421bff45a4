"""The documents of the help, read once, and the search in them."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from wetbench_site.help import contents
from wetbench_site.help.rendering import LinkedDocument, Passage, RenderedDocument, render_document

MAX_RESULTS = 40  # results on the page; all are counted
MAX_WORDS = 8
_CONTEXT = 110  # characters of a long passage on either side of the first word that was found


class Match(NamedTuple):
    """A passage that contains all words. `pieces` are its text, cut where words were found: (text, whether it is a word)."""

    document: str
    title: str
    passage: Passage
    pieces: list[tuple[str, bool]]


class SearchResult(NamedTuple):
    """The first matches, the best ones first, and how many there are."""

    matches: list[Match]
    total: int


@cache
def list_paths() -> dict[str, str]:
    """Return the path of every document in the folder of documents, by its name."""
    decisions = {name: f"{contents.DECISIONS}/{name}.md" for name in contents.list_decisions()}
    return {name: decisions.get(name, f"{name}.md") for name in contents.list_names()}


@cache
def load_document(name: str) -> RenderedDocument | None:
    """Return the document of this name; None if the help has none."""
    # Only names in the list are read: a name from an address is never a path.
    if (path := list_paths().get(name)) is None:
        return None
    text = (contents.FOLDER / path).read_text("utf-8")
    return render_document(text, path.rpartition("/")[0], _list_linked(), has_terms=name == contents.GLOSSARY)


@cache
def _list_linked() -> dict[str, LinkedDocument]:
    """Return every document by its path. Its title is its first line."""
    linked = {}
    for name, path in list_paths().items():
        with (contents.FOLDER / path).open(encoding="utf-8") as file:
            linked[path] = LinkedDocument(name, file.readline().removeprefix("# ").strip())
    return linked


def search_documents(query: str) -> SearchResult:
    """Return the passages that contain every word of the query, each at the beginning of a word. Headings come first, then the glossary."""
    patterns = [_compile_word(word) for word in query.split()[:MAX_WORDS]]
    if not patterns:
        return SearchResult([], 0)
    found = [
        (not passage.is_heading, name != contents.GLOSSARY, number, name, passage)
        for number, (name, passage) in enumerate(_iter_passages())
        if all(pattern.search(passage.text) for pattern in patterns)
    ]
    found.sort(key=lambda match: match[:3])
    matches = [
        Match(name, _get_title(name), passage, cut_at_words(passage.text, patterns))
        for *_, name, passage in found[:MAX_RESULTS]
    ]
    return SearchResult(matches, len(found))


def _compile_word(word: str) -> re.Pattern[str]:
    # Not \b: the underscore separates the words of WETBENCH_URL.
    return re.compile(rf"(?<![^\W_]){re.escape(word)}", re.IGNORECASE)


def _iter_passages() -> Iterator[tuple[str, Passage]]:
    for name in list_paths():
        document = load_document(name)
        assert document
        yield from ((name, passage) for passage in document.passages)


def _get_title(name: str) -> str:
    document = load_document(name)
    assert document
    return document.title


def cut_at_words(text: str, patterns: Sequence[re.Pattern[str]]) -> list[tuple[str, bool]]:
    """Return the text around the first word that was found, in pieces, each with whether it is one of the words."""
    spans = sorted(match.span() for pattern in patterns for match in pattern.finditer(text))
    start, end = max(spans[0][0] - _CONTEXT, 0), min(spans[0][1] + _CONTEXT, len(text))
    # Whole words at both ends.
    start = text.rfind(" ", 0, start) + 1 if start else 0
    end = text.find(" ", end) if text.find(" ", end) != -1 else len(text)
    pieces, position = [("… " if start else "", False)], start
    for first, last in spans:
        if position <= first and last <= end:
            pieces += [(text[position:first], False), (text[first:last], True)]
            position = last
    pieces.append((text[position:end] + (" …" if end < len(text) else ""), False))
    return [piece for piece in pieces if piece[0]]
