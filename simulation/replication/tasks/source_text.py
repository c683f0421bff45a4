"""Find functions in Python source by qualified name, and read or replace their bodies. All other text stays unchanged."""

import ast
import io
import tokenize
from collections.abc import Iterator, Mapping
from typing import NamedTuple

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
# Tokens whose later lines are content: strings and, from Python 3.12 on, the text of f-strings.
_TEXT_TOKENS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}


class BodyLines(NamedTuple):
    """Where a body is: its first and last line, counted from 1, and its indentation. `docstring` is the first line of the docstring."""

    docstring: int
    first: int
    last: int
    indentation: int


def find_functions(source: str) -> dict[str, FunctionNode]:
    """Return every function and method of a module by qualified name ("Class.method"), in order. Nested functions are left out.

    Raises SyntaxError. For trusted source only.
    """
    return dict(_iter_functions(ast.parse(source).body, ""))


def _iter_functions(statements: list[ast.stmt], prefix: str) -> Iterator[tuple[str, FunctionNode]]:
    for node in statements:
        if isinstance(node, FunctionNode):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _iter_functions(node.body, f"{prefix}{node.name}.")


def find_body_problem(node: FunctionNode) -> str:
    """Return why the body of this function cannot be hidden, or ""."""
    if isinstance(node, ast.AsyncFunctionDef):
        return "is async; allowed: a plain function"
    if ast.get_docstring(node) is None:
        return "has no docstring; allowed: a docstring that states what is returned"
    if len(node.body) < 2:
        return "has no statement after its docstring"
    if node.body[0].lineno <= node.lineno or node.body[1].lineno <= (node.body[0].end_lineno or 0):
        return "has docstring and statements on one line; allowed: each on lines of its own"
    return ""


def locate_body(source: str, node: FunctionNode) -> BodyLines:
    """Return the lines of the body after the docstring, with comments before, inside and after the statements."""
    lines = source.split("\n")
    docstring, last = node.body[0], node.body[-1].end_lineno or node.body[-1].lineno
    for number in range(last + 1, len(lines) + 1):
        text = lines[number - 1]
        is_comment = text.lstrip().startswith("#") and len(text) - len(text.lstrip()) >= docstring.col_offset
        if is_comment:
            last = number
        elif text.strip():
            break
    return BodyLines(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1, last, docstring.col_offset)


def read_body(source: str, name: str) -> str:
    """Return the statements of a function after its docstring, dedented, with a line break at the end. Raises KeyError."""
    place = locate_body(source, find_functions(source)[name])
    inside_text = _find_text_lines(source)
    lines = []
    for number, text in enumerate(source.split("\n")[place.first - 1 : place.last], place.first):
        margin = min(place.indentation, len(text) - len(text.lstrip()))
        lines.append(text if number in inside_text else text[margin:])
    return "\n".join(lines).strip("\n") + "\n"


def replace_bodies(source: str, bodies: Mapping[str, str], docs: str = "kept") -> str:
    """Return the source with these bodies, by qualified name, in place of the statements after the docstring.

    `docs` "signature" removes the docstring too. Only `source` is parsed; a body is indented, and may be anything. Raises KeyError
    for an unknown name, and ValueError for a function whose body cannot be hidden (`find_body_problem`).
    """
    nodes = find_functions(source)
    if unknown := [name for name in bodies if name not in nodes]:
        raise KeyError(unknown[0])
    lines = source.split("\n")
    # From the end, so that the positions of earlier functions stay valid.
    for name in sorted(bodies, key=lambda name: nodes[name].lineno, reverse=True):
        if problem := find_body_problem(nodes[name]):
            raise ValueError(f"{name} {problem}")
        place = locate_body(source, nodes[name])
        first = place.first if docs == "kept" else place.docstring
        lines[first - 1 : place.last] = indent_body(bodies[name], place.indentation)
    return "\n".join(lines)


def indent_body(body: str, indentation: int) -> list[str]:
    """Return the lines of a body, indented. Lines that begin inside a string stay as they are, because they are content."""
    body = body.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    inside_text = _find_text_lines(body)
    # Not `splitlines`, which also splits at form feeds and other separators inside strings.
    return [
        text if number in inside_text or not text.strip() else " " * indentation + text
        for number, text in enumerate(body.split("\n"), 1)
    ]


def _find_text_lines(source: str) -> frozenset[int]:
    """Return the numbers of the lines that begin inside a string. Text that is not Python has none."""
    numbers: set[int] = set()
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in _TEXT_TOKENS:
                numbers.update(range(token.start[0] + 1, token.end[0] + 1))
    except (tokenize.TokenError, SyntaxError):
        return frozenset(numbers)
    return frozenset(numbers)
