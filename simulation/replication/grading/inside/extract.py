"""Read an agent's files as text, and return the bodies of the hidden functions, with what they use, as clean modules.

Runs inside a sandbox, without any code of the agent being run. Input: /input/request.json, the reference modules with the
hidden functions masked under /input/reference, the agent's under /input/agent. Output: one JSON object on the result descriptor.
"""

import ast
import builtins
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from simulation.replication.grading.inside.code_names import (
    drop_docstring,
    find_bound_names,
    find_import_names,
    find_used_names,
    split_imports,
)
from simulation.replication.grading.inside.module_parts import (
    find_function,
    find_new_methods,
    is_constant,
    is_hidden_body,
    list_parameters,
    list_parts,
)
from simulation.replication.grading.inside.screen import MAX_FINDINGS, Finding, ModuleNames, screen_part

MAX_BODY_BYTES, MAX_PATCH_BYTES = 64 * 1024, 80 * 1024
MAX_ANSWER_BYTES = 256 * 1024  # the part of a result that a sandbox stores
MAX_LITERALS, MAX_OUTSIDE = 2_000, 100
MAX_TEXT = 300  # characters of a finding or of a change without effect, whose names may be as long as the file
# With a higher limit, recursion in ast.unparse could overflow the stack of the process instead of raising RecursionError.
RECURSION_LIMIT = 3_000
_NUMBER = re.compile(r"\d+\.?\d*(?:[eE][+-]?\d{1,3})?")


class ModuleExtraction:
    """The hidden functions of one module, as the agent left them."""

    def __init__(
        self, path: str, reference: str, content: bytes | None, functions: Mapping[str, str], own: list[str]
    ) -> None:
        self.path, self.own = path, own
        self.reference = ast.parse(reference)
        self.functions = {name: {"status": "missing", "reason": "", "body": "", "line": 0} for name in functions}
        self.nodes: dict[
            str, ast.FunctionDef
        ] = {}  # filled hidden functions: the reference's header with the agent's body
        self.carried: list[tuple[int, ast.stmt]] = []  # position in the reference, statement
        self.methods: dict[str, dict[str, ast.stmt]] = {}  # new methods by class
        self.outside: list[str] = []
        self.text = ""
        tree = self._parse(content)
        if tree is not None:
            try:
                self._read_functions(tree)
                self._carry_what_is_used(tree)
                self._list_other_changes(tree)
                self._write_module()
            except (RecursionError, MemoryError):
                self._reject_all("too large", "is too deeply nested to be read")
            except (SyntaxError, ValueError) as error:
                self._reject_all("unreadable", describe_syntax(error))

    def _reject_all(self, status: str, reason: str) -> None:
        for function in self.functions.values():
            function.update(status=status, reason=reason, body="")
        self.nodes, self.carried, self.methods, self.text = {}, [], {}, ""

    def _parse(self, content: bytes | None) -> ast.Module | None:
        if content is None:
            self._reject_all("missing", f"{self.path} was removed")
            return None
        try:
            compile(content, self.path, "exec", dont_inherit=True)  # finds what parsing does not, with the agent's line
            return ast.parse(content)
        except (RecursionError, MemoryError):
            self._reject_all("too large", "is too deeply nested to be read")
        except (SyntaxError, ValueError) as error:
            self._reject_all("unreadable", describe_syntax(error))
        return None

    def _read_functions(self, tree: ast.Module) -> None:
        for name, function in self.functions.items():
            found = find_function(tree, name)
            reference = find_function(self.reference, name).node
            assert reference is not None
            if found.node is None:
                function["reason"] = found.reason
                continue
            function["line"] = found.node.lineno
            body = drop_docstring(found.node.body)
            if is_hidden_body(body):
                function.update(status="hidden", reason="is still hidden")
            elif list_parameters(found.node.args) != list_parameters(reference.args):
                function["reason"] = f"has other parameters: ({ast.unparse(found.node.args)[:200]})"
            else:
                node = deepcopy(reference)
                node.body = [part for part in body if not is_constant(part)]  # texts that stand alone are comments
                text = "\n".join(map(ast.unparse, node.body))
                if len(text.encode()) > MAX_BODY_BYTES:
                    function.update(status="too large", reason=f"has more than {MAX_BODY_BYTES // 1024} KiB")
                    continue
                function.update(status="filled", body=text)
                self.nodes[name] = node
                if found.definitions > 1:
                    self.outside.append(
                        f"{self.path}: {name} is defined {found.definitions} times; the last one counts"
                    )

    def _carry_what_is_used(self, tree: ast.Module) -> None:
        """Collect new statements that bind a name which hidden functions use, directly or through others."""
        known = set().union(*map(find_bound_names, self.reference.body)) if self.reference.body else set()
        new: list[tuple[int, ast.stmt, set[str]]] = []
        position = count_header(self.reference)
        anchors = {name: index + 1 for index, node in enumerate(self.reference.body) for name in find_bound_names(node)}
        stars = []
        for node in split_imports(tree.body):
            names = find_bound_names(node)
            if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                if not names <= known:
                    self.carried.append((count_docstring(self.reference), node))
            elif names & known:
                position = max(position, *(anchors[name] for name in names & known))
            elif names:
                new.append((position, node, names))
            elif isinstance(node, ast.ImportFrom):
                stars.append((position, node))
        used, attributes = set[str](), set[str]()
        pending: list[ast.stmt] = [strip_header(node) for node in self.nodes.values()]
        classes = {name.partition(".")[0] for name in self.nodes if "." in name}
        methods = {name: find_new_methods(tree, self.reference, name) for name in classes}
        chosen: set[int] = set()
        while pending:
            for node in pending:
                used |= find_used_names(node)
                attributes |= {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}
            pending = [node for _, node, names in new if names & used and id(node) not in chosen]
            for class_name, members in methods.items():
                reached = {name: node for name, node in members.items() if name in attributes}
                self.methods.setdefault(class_name, {}).update(reached)
                pending += [node for node in reached.values() if id(node) not in chosen]
            chosen.update(map(id, pending))
        self.carried += [(position, node) for position, node, _ in new if id(node) in chosen]
        defined = known.union(*(names for _, node, names in new if id(node) in chosen))
        if used - defined - set(dir(builtins)):
            self.carried += stars

    def _list_other_changes(self, tree: ast.Module) -> None:
        """Name the parts of the module that were changed, added or removed, and are not carried over."""
        before, after = (index_parts(module, list(self.functions)) for module in (self.reference, tree))
        carried = {id(node) for _, node in self.carried} | {
            id(node) for found in self.methods.values() for node in found.values()
        }
        carried_lines = {node.lineno for _, node in self.carried if isinstance(node, ast.Import | ast.ImportFrom)}
        classes = {node.name for _, node in self.carried if isinstance(node, ast.ClassDef)}
        for name, (nodes, contents) in after.items():
            if name.partition(".")[0] in classes or all(id(node) in carried for node in nodes):
                continue
            if all(isinstance(node, ast.Import | ast.ImportFrom) and node.lineno in carried_lines for node in nodes):
                continue
            if name not in before:
                self.outside.append(f"{self.path}:{nodes[0].lineno}: {name} is new and not used by a hidden function")
            elif contents != before[name][1]:
                part = "the header of " if name in self.functions else ""
                self.outside.append(f"{self.path}:{nodes[0].lineno}: {part}{name} was changed")
        self.outside += [
            f"{self.path}: {name} was removed" for name in before if name not in after and name not in self.functions
        ]

    def _write_module(self) -> None:
        """Build the reference module with the agent's bodies and helpers. Raises SyntaxError if it does not compile."""
        if not self.nodes:
            return
        module = deepcopy(self.reference)
        for name, filled in self.nodes.items():
            node = find_function(module, name).node
            assert node is not None
            docstring = node.body[: len(node.body) - len(drop_docstring(node.body))]
            node.body = [*docstring, *filled.body]
        for class_name, members in self.methods.items():
            owners = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == class_name]
            owners[-1].body += members.values()
        for position, statement in reversed(self.carried):
            module.body.insert(position, statement)
        text = ast.unparse(ast.fix_missing_locations(module)) + "\n"
        if len(text.encode()) > len(ast.unparse(self.reference).encode()) + MAX_PATCH_BYTES:
            self._reject_all("too large", f"has more than {MAX_PATCH_BYTES // 1024} KiB with what it uses")
            return
        compile(text, self.path, "exec", dont_inherit=True)
        self.text = text

    def list_helpers(self) -> list[str]:
        members = [node for found in self.methods.values() for node in found.values()]
        return [ast.unparse(node) for node in [*(node for _, node in self.carried), *members]]

    def screen(self) -> Iterator[Finding]:
        """Yield the findings of all parts that are carried over."""
        reference = list(self.reference.body)
        carried = [node for _, node in self.carried]
        known = set().union(*map(find_bound_names, reference)) if reference else set()
        defined = known.union(*map(find_bound_names, carried)) if carried else known
        names = ModuleNames(
            frozenset(known),
            frozenset(defined),
            frozenset(find_import_names([*reference, *carried])),
            frozenset(self.own),
        )
        for name, part in self.list_parts():
            yield from screen_part(part, name, names)

    def list_parts(self) -> list[tuple[str, ast.stmt]]:
        """Return what is carried over, each with the name it is reported under."""
        parts: list[tuple[str, ast.stmt]] = [(name, strip_header(node)) for name, node in self.nodes.items()]
        parts += [(", ".join(sorted(find_bound_names(node))) or "import", node) for _, node in self.carried]
        return parts + [
            (f"{owner}.{name}", node) for owner, found in self.methods.items() for name, node in found.items()
        ]


def strip_header(node: ast.FunctionDef) -> ast.FunctionDef:
    """Return a function without annotations, defaults and decorators, which are the reference's."""
    node = ast.FunctionDef(node.name, deepcopy(node.args), node.body, [], None)
    node.lineno = node.body[0].lineno
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in [*named, arguments.vararg, arguments.kwarg]:
        if argument is not None:
            argument.annotation = None
    arguments.defaults = []
    arguments.kw_defaults = [None] * len(arguments.kwonlyargs)
    return node


def count_docstring(tree: ast.Module) -> int:
    return len(tree.body) - len(drop_docstring(tree.body))


def count_header(tree: ast.Module) -> int:
    """Return the number of first statements that must stay first: docstring and `from __future__` imports."""
    number = count_docstring(tree)
    while number < len(tree.body):
        node = tree.body[number]
        if not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        number += 1
    return number


def index_parts(tree: ast.Module, hidden: list[str]) -> dict[str, tuple[list[ast.stmt], list[str]]]:
    """Return the statements and contents of each part by name; a name may be bound several times."""
    parts: dict[str, tuple[list[ast.stmt], list[str]]] = {}
    for name, node, content in list_parts(tree, hidden):
        nodes, contents = parts.setdefault(name, ([], []))
        nodes.append(node)
        contents.append(content)
    return parts


def describe_syntax(error: Exception) -> str:
    line = getattr(error, "lineno", None)
    return f"cannot be compiled: {getattr(error, 'msg', None) or error}{f', line {line}' if line else ''}"[:300]


def find_literals(nodes: list[ast.stmt]) -> list[float]:
    """Return the numbers that are written in code, also inside texts."""
    numbers: list[float] = []
    for node in nodes:
        for part in ast.walk(node):
            value = part.value if isinstance(part, ast.Constant) else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                numbers.append(value)
            elif isinstance(value, str | bytes):
                text = value if isinstance(value, str) else value.decode("latin-1")
                numbers += [float(match[0]) for match in _NUMBER.finditer(text[:20_000])]
            if len(numbers) >= MAX_LITERALS:
                return numbers
    return numbers


def extract(request: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the answer to a request. `root` has the folders `reference` and `agent`."""
    by_path: dict[str, dict[str, str]] = {}
    for function in request["functions"]:
        by_path.setdefault(function["path"], {})[function["name"]] = function["id"]
    answer: dict[str, Any] = {
        "functions": {},
        "helpers": {},
        "modules": {},
        "outside": [],
        "findings": [],
        "literals": [],
    }
    for path, functions in by_path.items():
        agent = root / "agent" / path
        content = agent.read_bytes() if agent.is_file() else None
        module = ModuleExtraction(
            path, (root / "reference" / path).read_text("utf-8"), content, functions, request["own"]
        )
        try:
            findings = list(module.screen())[:MAX_FINDINGS]
            helpers = module.list_helpers()
        except (RecursionError, MemoryError):
            module._reject_all("too large", "is too deeply nested to be read")
            findings, helpers = [], []
        answer["functions"] |= {functions[name]: entry for name, entry in module.functions.items()}
        answer["outside"] += [text[:MAX_TEXT] for text in module.outside[:MAX_OUTSIDE]]
        answer["findings"] += [
            {**finding._asdict(), "where": finding.where[:MAX_TEXT], "what": finding.what[:MAX_TEXT], "path": path}
            for finding in findings
        ]
        answer["literals"] += find_literals([node for _, node in module.list_parts()])
        if helpers:
            answer["helpers"][path] = helpers
        if module.text:
            answer["modules"][path] = module.text
    # Integers may be too large for a float, and floats infinite; such numbers cannot be gold values.
    answer["literals"] = [number for number in answer["literals"] if abs(number) < 1e300][:MAX_LITERALS]
    return answer


def refuse_all(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer in which every function is too large: several modules can be, although none of them is."""
    reason = f"has more than {MAX_ANSWER_BYTES // 1024} KiB with the other functions and all that they use"
    entry = {"status": "too large", "reason": reason, "body": "", "line": 0}
    empty: dict[str, Any] = {"helpers": {}, "modules": {}, "outside": [], "findings": [], "literals": []}
    return {"functions": {function["id"]: entry for function in request["functions"]}, **empty}


def main() -> None:
    sys.setrecursionlimit(RECURSION_LIMIT)
    warnings.simplefilter("ignore")  # of the compiler, on the agent's text
    root = Path("/input")
    request = json.loads((root / "request.json").read_text("utf-8"))
    data = json.dumps(extract(request, root), allow_nan=False).encode()
    if len(data) > MAX_ANSWER_BYTES:
        data = json.dumps(refuse_all(request)).encode()
    number = int(os.environ["RESULT_FD"])
    while data:
        data = data[os.write(number, data) :]
