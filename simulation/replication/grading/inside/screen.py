"""Find names, attributes and imports that a hidden function must not use.

Secret data is what protects a grade: a patch cannot hold the numbers of data it has not seen. The screen
only makes clumsy attempts visible, and is not complete.
"""

import ast
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from simulation.replication.grading.inside.code_names import (
    find_import_names,
    find_used_names,
    get_root_name,
)


def split_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ALLOWED_MODULES = split_words(
    "__future__ abc array bisect cmath collections contextlib copy dataclasses decimal enum fractions functools heapq itertools "
    "math numbers numpy operator random re scipy sklearn statistics string textwrap typing warnings"
)
FORBIDDEN_MODULES = split_words(
    "sys os _os _sys gc inspect ctypes builtins importlib subprocess socket threading multiprocessing atexit signal pathlib io pickle "
    "shutil tempfile json marshal types traceback asyncio joblib datasets externals"
)
FORBIDDEN_BUILTINS = split_words(
    "exec eval compile open input globals locals vars dir __import__ breakpoint exit quit help"
)
ATTRIBUTE_BUILTINS = split_words("getattr setattr delattr hasattr")
# Attributes of modules that read or write files, or take attributes by computed names.
FILE_ATTRIBUTES = split_words(
    "load save savez savez_compressed savetxt loadtxt genfromtxt fromfile tofile memmap fromregex DataSource open_memmap "
    "ctypeslib f2py distutils attrgetter methodcaller"
)
# Methods of any object that read or write files, and attributes that lead from a function to its callers.
ANY_ATTRIBUTES = split_words(
    "read_text write_text read_bytes write_bytes tofile f_back f_globals f_locals f_builtins f_code gi_frame cr_frame ag_frame "
    "tb_frame tb_next func_globals"
)
ALLOWED_DUNDERS = split_words(
    "__class__ __init__ __post_init__ __len__ __getitem__ __name__ __doc__ __iter__ __next__ __call__"
)
_DUNDER = re.compile(r"__\w+__")
MAX_FINDINGS = 100


class Finding(NamedTuple):
    """Something that a hidden function must not use: its kind, the function or helper, its name, and the line in the file."""

    kind: str  # "import", "name", "attribute", "computed attribute", "rebinding"
    where: str
    what: str
    line: int


class ModuleNames(NamedTuple):
    """The names of the module that parts are in."""

    reference: frozenset[str]  # names of the reference module that no part may rebind
    defined: frozenset[str]  # all names at the top level, with those of new helpers
    imported: frozenset[str]  # names of modules and of what is imported from them
    own: frozenset[str]  # packages of the task


def screen_part(node: ast.stmt, where: str, names: ModuleNames) -> Iterator[Finding]:
    """Yield what a function, a helper or a constant must not use."""
    imported = find_import_names([node], names.imported)
    used = find_used_names(node)
    suspicious = {name for name in used - names.defined if name in FORBIDDEN_BUILTINS or _DUNDER.fullmatch(name)}
    suspicious |= {name for name in used & names.imported if name in FORBIDDEN_MODULES}
    called = {id(part.func) for part in ast.walk(node) if isinstance(part, ast.Call)}
    for part in ast.walk(node):
        line = getattr(part, "lineno", 0)
        if isinstance(part, ast.Import | ast.ImportFrom):
            yield from (Finding("import", where, name, line) for name in find_forbidden_imports(part, names.own))
        elif isinstance(part, ast.Name):
            if part.id in suspicious or (part.id in ATTRIBUTE_BUILTINS - names.defined and id(part) not in called):
                yield Finding("name", where, part.id, line)
        elif isinstance(part, ast.Global):
            rebound = [name for name in part.names if name in names.reference]
            yield from (Finding("rebinding", where, name, line) for name in rebound)
        elif isinstance(part, ast.Attribute):
            yield from _screen_attribute(part, part.attr, isinstance(part.ctx, ast.Load), where, names, imported, used)
        elif isinstance(part, ast.Subscript) and not isinstance(part.ctx, ast.Load):
            if get_root_name(part) in imported:
                yield Finding("rebinding", where, ast.unparse(part)[:100], line)
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in ATTRIBUTE_BUILTINS:
            yield from _screen_attribute_call(part, where, names, imported, used)


def _screen_attribute(
    node: ast.expr,
    attribute: str,
    reads: bool,
    where: str,
    names: ModuleNames,
    imported: Collection[str],
    used: set[str],
) -> Iterator[Finding]:
    """Yield what is wrong with `node`, an access to `attribute` of something."""
    line = getattr(node, "lineno", 0)
    root = get_root_name(node)
    dunder = bool(_DUNDER.fullmatch(attribute))
    if attribute in ANY_ATTRIBUTES or (dunder and (attribute not in ALLOWED_DUNDERS or not reads)):
        yield Finding("attribute", where, attribute, line)
    elif root in imported and (
        attribute in FORBIDDEN_MODULES or attribute in FILE_ATTRIBUTES or (attribute.startswith("_") and not dunder)
    ):
        yield Finding("attribute", where, f"{root}...{attribute}", line)
    elif not reads and (root in imported or root in used & names.reference):
        yield Finding("rebinding", where, f"{root}...{attribute}", line)


def _screen_attribute_call(
    node: ast.Call, where: str, names: ModuleNames, imported: Collection[str], used: set[str]
) -> Iterator[Finding]:
    """Yield what is wrong with a call such as `getattr(np, "mean")`: it is read as `np.mean`."""
    assert isinstance(node.func, ast.Name)
    function = node.func.id
    attribute = node.args[1] if len(node.args) > 1 else None
    if isinstance(attribute, ast.Constant) and isinstance(attribute.value, str):
        reads = function in ("getattr", "hasattr")
        access = ast.copy_location(ast.Attribute(node.args[0], attribute.value, ast.Load()), node)
        yield from _screen_attribute(access, attribute.value, reads, where, names, imported, used)
    else:
        yield Finding("computed attribute", where, function, node.lineno)


def find_forbidden_imports(node: ast.Import | ast.ImportFrom, own: Collection[str]) -> list[str]:
    """Return the modules and names of an import that are not on the allow-list."""
    forbidden = []
    for alias in node.names:
        module = alias.name if isinstance(node, ast.Import) else node.module or ""
        parts = [part for part in module.split(".") if part]
        names = parts if isinstance(node, ast.Import) else [*parts, alias.name]
        is_relative = isinstance(node, ast.ImportFrom) and node.level > 0
        is_known = is_relative or (parts and (parts[0] in ALLOWED_MODULES or parts[0] in own))
        is_private = any(name.startswith("_") for name in names) and parts[:1] != ["__future__"] and not is_relative
        inner = names if is_relative or (parts and parts[0] in own) else names[1:]
        if (
            not is_known
            or (is_private and parts[0] not in own)
            or any(name in FORBIDDEN_MODULES | FILE_ATTRIBUTES for name in inner)
        ):
            forbidden.append(".".join(names))
    return forbidden
