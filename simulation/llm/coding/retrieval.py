"""Find the parts of a paper and a code base that are nearest to a query, by TF-IDF weights and cosine similarity."""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from simulation.replication.tasks.source_text import FunctionNode, find_functions

MOST_PASSAGES, MOST_FUNCTIONS = 5, 5
# Letters alone, so that words of prose match the parts of names in snake_case; a single letter is a symbol, not a word.
_WORDS = r"[A-Za-z]{2,}"
_HEADING = re.compile(r"#{1,6} ")


class CodePiece(NamedTuple):
    """A function of a code base: its file, qualified name, source text with decorators, and the first line of its docstring."""

    path: str
    name: str
    text: str
    doc: str


def list_pieces(code: Mapping[str, str]) -> list[CodePiece]:
    """Return every function of these Python files, in order of path and line. For trusted source only."""
    return [
        CodePiece(path, name, _read_source(text, node), (ast.get_docstring(node) or "").partition("\n")[0])
        for path, text in sorted(code.items())
        if path.endswith(".py")
        for name, node in find_functions(text).items()
    ]


def _read_source(text: str, node: FunctionNode) -> str:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "\n".join(text.split("\n")[first - 1 : node.end_lineno])


def outline_code(code: Mapping[str, str]) -> str:
    """Return the files with the first line of every function and of its docstring."""
    lines = dict[str, list[str]]()
    for piece in list_pieces(code):
        header = next(line for line in piece.text.split("\n") if line.lstrip().startswith(("def ", "async def ")))
        summary = f"  # {piece.doc}" if piece.doc else ""
        lines.setdefault(piece.path, []).append(f"    {header.strip()}{summary}")
    return "\n".join(line for path in lines for line in (path, *lines[path]))


def split_paragraphs(paper: str) -> list[str]:
    """Return the paragraphs of a text. A heading belongs to the paragraph after it, whose subject it names."""
    paragraphs, heading = list[str](), ""
    for part in re.split(r"\n[ \t]*\n", paper.strip()):
        if not part.strip():
            continue
        if _HEADING.match(part) and "\n" not in part.strip():
            heading = f"{heading}{part.strip()}\n"
        else:
            paragraphs.append(heading + part.strip("\n"))
            heading = ""
    return paragraphs


def rank_texts(query: str, texts: Sequence[str], most: int) -> list[int]:
    """Return the positions of at most `most` texts that share words with the query, the nearest first.

    Nearness is the cosine of TF-IDF vectors over these texts; ties keep the order of the texts.
    """
    if not re.search(_WORDS, query) or not any(re.search(_WORDS, text) for text in texts):
        return []
    # Loaded on use: it takes longer to load than all pages together.
    from sklearn.feature_extraction.text import TfidfVectorizer

    # Rows are normalised to length 1, so their product is the cosine.
    vectorizer = TfidfVectorizer(token_pattern=_WORDS, lowercase=True)
    weights = vectorizer.fit_transform(texts)
    similarities = (weights @ vectorizer.transform([query]).T).toarray()[:, 0]
    order = sorted(range(len(texts)), key=lambda position: (-similarities[position], position))
    return [position for position in order[:most] if similarities[position] > 0]
