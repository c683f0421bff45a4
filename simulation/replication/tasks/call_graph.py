"""Which functions of a task's code call which: read from the syntax tree, or traced while the test cases run."""

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from simulation.replication.sandbox.base import Sandbox
from simulation.replication.tasks.running import trace_runs
from simulation.replication.tasks.source_text import find_functions
from simulation.replication.trees import Files
from simulation.replication.values import Task

CODE_ROOT = "code"


class Place(NamedTuple):
    """A function in a code base: path of its module and qualified name."""

    path: str
    name: str


CallGraph = Mapping[Place, frozenset[Place]]


def list_places(task: Task) -> dict[str, Place]:
    """Return the place of every function that a mask may hide, by id."""
    return {function.id: Place(function.path, function.name) for function in task.functions}


def find_static_calls(task: Task) -> dict[Place, frozenset[Place]]:
    """Return the functions that each function of the code refers to, by the syntax tree. Raises SyntaxError.

    Names are resolved in the module and through its imports from the code root. A method of an object whose class is unknown is
    resolved by its name alone, if only one class of the code has such a method.
    """
    functions = {path: find_functions(text) for path, text in task.code.items()}
    methods: dict[str, list[Place]] = {}
    for path, nodes in functions.items():
        for name in nodes:
            if "." in name:
                methods.setdefault(name.rsplit(".", 1)[1], []).append(Place(path, name))
    graph = {}
    for path, nodes in functions.items():
        imports = _find_imports(ast.parse(task.code[path]), task)
        known = {**imports, **{name: Place(path, name) for name in nodes if "." not in name}}
        for name, node in nodes.items():
            callees = set(_iter_references(node, path, name, known, methods, functions))
            graph[Place(path, name)] = frozenset(callees - {Place(path, name)})
    return graph


def _find_imports(tree: ast.Module, task: Task) -> dict[str, Place]:
    """Return the place that each imported name refers to. The place of a module has the name ""."""
    names: dict[str, Place] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                module = _find_module(f"{node.module}.{alias.name}", task)
                place = Place(module, "") if module else Place(_find_module(node.module, task), alias.name)
                names[alias.asname or alias.name] = place
        elif isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name] = Place(_find_module(alias.name, task), "")
    return {name: place for name, place in names.items() if place.path}


def _find_module(dotted: str, task: Task) -> str:
    """Return the path of a module of the code root, or ""."""
    stem = f"{CODE_ROOT}/{dotted.replace('.', '/')}"
    return next((path for path in (f"{stem}.py", f"{stem}/__init__.py") if path in task.code), "")


def _iter_references(
    node: ast.AST,
    path: str,
    owner: str,
    known: Mapping[str, Place],
    methods: Mapping[str, list[Place]],
    functions: Mapping[str, Mapping[str, ast.AST]],
) -> Iterator[Place]:
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id in known:
            place = known[part.id]
            if place.name in functions[place.path]:
                yield place
            elif f"{place.name}.__init__" in functions[place.path]:
                yield Place(place.path, f"{place.name}.__init__")
        elif isinstance(part, ast.Attribute):
            module = known.get(ast.unparse(part.value))
            if module and not module.name and part.attr in functions[module.path]:
                yield Place(module.path, part.attr)
            elif isinstance(part.value, ast.Name) and part.value.id == "self" and "." in owner:
                method = f"{owner.rsplit('.', 1)[0]}.{part.attr}"
                if method in functions[path]:
                    yield Place(path, method)
            elif len(methods.get(part.attr, ())) == 1:
                yield methods[part.attr][0]


def trace_cases(task: Task, data: Files, sandbox: Sandbox) -> dict[str, frozenset[str]]:
    """Return for each test case the ids of the functions that it calls with the data of the base variant, as traced in a sandbox.

    A mask concerns the test cases that call one of its functions. Raises TaskRunError and SandboxFault.
    """
    return find_called(task, trace_runs(task, data, sandbox))


def find_called(task: Task, calls: Mapping[str, Mapping[str, int]]) -> dict[str, frozenset[str]]:
    """Return for each test case the ids of the functions that it calls, from the calls of `trace_runs`."""
    return {case: frozenset(count_calls(task, counts)) for case, counts in calls.items()}


def list_reaching_cases(
    task: Task, function_ids: Collection[str], reached: Mapping[str, frozenset[str]]
) -> tuple[str, ...]:
    """Return the test cases that call one of these functions, in the order of the task; all of them without functions.

    `reached` is the result of `trace_cases`.
    """
    hidden = set(function_ids)
    return tuple(case.id for case in task.test_cases if not hidden or hidden & reached[case.id])


def count_calls(task: Task, counts: Mapping[str, int]) -> dict[str, int]:
    """Return how often each function that a mask may hide is called, from the calls of `trace_runs`. Uncalled ones are left out."""
    keys = {
        f"{place.path.removeprefix('code/')}:{place.name}": identifier
        for identifier, place in list_places(task).items()
    }
    return {keys[key]: count for key, count in counts.items() if key in keys}


def find_reached(graph: CallGraph, start: Place) -> frozenset[Place]:
    """Return the functions that `start` calls, directly or through others."""
    reached: set[Place] = set()
    pending = [start]
    while pending:
        new = graph.get(pending.pop(), frozenset()) - reached
        reached |= new
        pending += new
    return frozenset(reached)


def find_neighbours(task: Task) -> dict[str, frozenset[str]]:
    """Return for each function that a mask may hide the ids of its neighbours: it calls them, is called by them, or one function calls both.

    Functions that no mask hides count as part of their callers.
    """
    graph, places = find_static_calls(task), list_places(task)
    ids = {place: identifier for identifier, place in places.items()}
    hidden_below = {place: _find_nearest(graph, place, frozenset(ids)) for place in graph}
    neighbours: dict[str, set[str]] = {identifier: set() for identifier in places}
    for place, below in hidden_below.items():
        group = {ids[callee] for callee in below} | ({ids[place]} if place in ids else set())
        for identifier in group:
            neighbours[identifier] |= group - {identifier}
    return {identifier: frozenset(others) for identifier, others in neighbours.items()}


def _find_nearest(graph: CallGraph, start: Place, wanted: frozenset[Place]) -> frozenset[Place]:
    """Return the places of `wanted` that `start` reaches through functions that are not in `wanted`."""
    nearest, seen, pending = set[Place](), {start}, [start]
    while pending:
        for callee in graph.get(pending.pop(), frozenset()) - seen:
            seen.add(callee)
            if callee in wanted:
                nearest.add(callee)
            else:
                pending.append(callee)
    return frozenset(nearest)


def find_related(task: Task) -> dict[str, frozenset[str]]:
    """Return for each function that a mask may hide the ids of those that it reaches through calls, and of those that reach it."""
    graph, places = find_static_calls(task), list_places(task)
    below = {identifier: find_reached(graph, place) for identifier, place in places.items()}
    return {
        identifier: frozenset(
            other
            for other, other_place in places.items()
            if other != identifier and (other_place in below[identifier] or place in below[other])
        )
        for identifier, place in places.items()
    }
