"""Which names a statement binds, and which names of its module it uses."""

import ast
import symtable
from collections.abc import Iterable, Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def find_bound_names(node: ast.AST) -> set[str]:
    """Return the names that a statement binds in its own scope: assignments, definitions, imports, loops, captures."""
    names: set[str] = set()
    for part in walk_scope(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            names.add(part.id)
        elif isinstance(part, FunctionNode | ast.ClassDef):
            names.add(part.name)
        elif isinstance(part, ast.Import | ast.ImportFrom):
            names.update(name for name in map(get_import_name, part.names) if name != "*")
        elif isinstance(part, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and part.name:
            names.add(part.name)
        elif isinstance(part, ast.MatchMapping) and part.rest:
            names.add(part.rest)
    return names


def walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and what is below it, without the inside of functions, classes and lambdas."""
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from walk_scope(child)


def get_import_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def split_imports(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements, with each import of several names split into one import per name."""
    for node in statements:
        if isinstance(node, ast.Import | ast.ImportFrom) and len(node.names) > 1:
            for alias in node.names:
                single = (
                    ast.Import([alias])
                    if isinstance(node, ast.Import)
                    else ast.ImportFrom(node.module, [alias], node.level)
                )
                yield ast.copy_location(single, node)
        else:
            yield node


def find_used_names(node: ast.stmt) -> set[str]:
    """Return the names that a statement of a module, and every scope inside it, takes from the module or from the built-ins.

    Scopes are those of the compiler, so a parameter or a local variable called `open` is not the built-in. Raises SyntaxError.
    """
    table = symtable.symtable(ast.unparse(node), "part", "exec")
    names = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    pending = list(table.get_children())
    while pending:
        scope = pending.pop()
        names.update(symbol.get_name() for symbol in scope.get_symbols() if symbol.is_global())
        pending += scope.get_children()
    return names


def find_import_names(nodes: Iterable[ast.AST], known: Iterable[str] = ()) -> set[str]:
    """Return the names under which these nodes import modules or parts of modules, and further names given to them.

    `known` are such names from elsewhere. `m = np` makes `m` such a name too, wherever it is assigned: scopes are ignored, which may name too many.
    """
    nodes = list(nodes)
    names = set(known) | {
        get_import_name(alias)
        for node in nodes
        for part in ast.walk(node)
        if isinstance(part, ast.Import | ast.ImportFrom)
        for alias in part.names
    }
    assigned = [
        (target.id, get_root_name(value))
        for node in nodes
        for part in ast.walk(node)
        for target, value in _iter_assignments(part)
        if isinstance(value, ast.Name | ast.Attribute)
    ]
    while new := {name for name, root in assigned if root in names and name not in names}:
        names |= new
    return names


def _iter_assignments(node: ast.AST) -> Iterator[tuple[ast.Name, ast.expr]]:
    """Yield names and the values that are assigned to them, `a, b = c, d` pair by pair."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple | ast.List) and isinstance(node.value, ast.Tuple | ast.List):
                pairs = zip(target.elts, node.value.elts, strict=False)
                yield from ((name, value) for name, value in pairs if isinstance(name, ast.Name))
            elif isinstance(target, ast.Name):
                yield target, node.value
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and isinstance(node.target, ast.Name) and node.value:
        yield node.target, node.value


def get_root_name(node: ast.AST) -> str:
    """Return the name at the start of `a.b[c].d`, or "" if it starts with something else."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def drop_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements after a docstring."""
    first = body[0] if body else None
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if is_text else body
