"""A module as parts: functions, methods, classes without their methods, and other statements at the top level."""

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulation.replication.grading.inside.code_names import (
    FunctionNode,
    drop_docstring,
    find_bound_names,
    split_imports,
)


class FoundFunction(NamedTuple):
    """The definition of a qualified name, or None and the reason why there is none that can be carried over."""

    node: ast.FunctionDef | None
    reason: str
    definitions: int = 1  # the last one counts, as when the module runs


def find_function(tree: ast.Module, name: str) -> FoundFunction:
    """Return the function with this qualified name. Definitions inside other statements do not count."""
    *classes, function = name.split(".")
    statements: Sequence[ast.stmt] = tree.body
    for class_name in classes:
        found = [node for node in statements if isinstance(node, ast.ClassDef) and node.name == class_name]
        if not found:
            return FoundFunction(None, f"the class {class_name} is not in its file")
        statements = found[-1].body
    definitions = [node for node in statements if isinstance(node, FunctionNode) and node.name == function]
    if definitions:
        last = definitions[-1]
        if isinstance(last, ast.AsyncFunctionDef):
            return FoundFunction(None, "is an async function; it must stay a plain one")
        return FoundFunction(last, "", len(definitions))
    for node in statements:
        if function in find_bound_names(node):
            kinds = {
                ast.Import: "is imported",
                ast.ImportFrom: "is imported",
                ast.Assign: "is assigned",
                ast.AnnAssign: "is assigned",
            }
            kind = kinds.get(type(node), f"is in a statement `{type(node).__name__.lower()}`")
            return FoundFunction(None, f"{kind} instead of defined by `def` in its file")
    return FoundFunction(None, "is not in its file")


def list_parameters(arguments: ast.arguments) -> list[tuple[str, str]]:
    """Return kind and name of each parameter, without annotations and defaults."""
    parameters = [("positional only", argument.arg) for argument in arguments.posonlyargs]
    parameters += [("", argument.arg) for argument in arguments.args]
    parameters += [("*", argument.arg) for argument in [arguments.vararg] if argument]
    parameters += [("keyword only", argument.arg) for argument in arguments.kwonlyargs]
    return parameters + [("**", argument.arg) for argument in [arguments.kwarg] if argument]


def is_constant(node: ast.stmt) -> bool:
    """Return whether a statement is a text, a number or an ellipsis alone, which does nothing."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_hidden_body(body: Sequence[ast.stmt]) -> bool:
    """Return whether statements do nothing before they end or raise NotImplementedError."""
    for node in body:
        if isinstance(node, ast.Pass) or is_constant(node):
            continue
        raised = node.exc if isinstance(node, ast.Raise) else None
        raised = raised.func if isinstance(raised, ast.Call) else raised
        return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    return True


def list_parts(tree: ast.Module, hidden: Sequence[str]) -> list[tuple[str, ast.stmt, str]]:
    """Return name, statement and content of each part of a module. The content of a hidden function is its header.

    Two parts with the same name and content compute the same: docstrings, comments and layout are left out.
    """
    return list(_iter_parts(split_imports(tree.body), "", hidden))


def _iter_parts(
    statements: Iterator[ast.stmt], prefix: str, hidden: Sequence[str]
) -> Iterator[tuple[str, ast.stmt, str]]:
    for node in statements:
        if isinstance(node, FunctionNode):
            name = prefix + node.name
            header = [node.args, *node.decorator_list, *([node.returns] if node.returns else [])]
            body = [] if name in hidden else drop_docstring(node.body)
            kind = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
            yield name, node, kind + "".join(map(ast.dump, [*header, *body]))
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name, node, "".join(map(ast.dump, [*node.bases, *node.keywords, *node.decorator_list]))
            yield from _iter_parts(iter(drop_docstring(node.body)), f"{prefix}{node.name}.", hidden)
        elif not is_constant(node):
            names = ", ".join(sorted(prefix + name for name in find_bound_names(node)))
            yield names or f"{prefix}{type(node).__name__.lower()} statement", node, ast.dump(node)


def find_new_methods(tree: ast.Module, reference: ast.Module, class_name: str) -> dict[str, ast.stmt]:
    """Return the methods of a class at the top level that the reference class lacks, by name. Special methods are left out."""

    def list_members(module: ast.Module) -> dict[str, ast.stmt]:
        classes = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == class_name]
        members = classes[-1].body if classes else []
        return {name: node for node in members for name in find_bound_names(node)}

    known = list_members(reference)
    return {
        name: node
        for name, node in list_members(tree).items()
        if name not in known and isinstance(node, ast.FunctionDef) and not name.startswith("__")
    }
