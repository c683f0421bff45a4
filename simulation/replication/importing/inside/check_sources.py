"""Parse the modules of a source, find functions by file and header line, and write the modules with missing docstrings.

/input/job.json: {"paths": [...], "rows": [{"id", "path", "name", "line", "description"}], "depth": 100}; the modules are below /input/source.
/workspace/report.json: {path: {"problem", "imports", "uses_gpu", "functions": {id: {"name", "problem"}}}}; the modules are below
/workspace/source. Each module is parsed in a process of its own, because a hostile text can crash the parser.
"""

import ast
import json
import os
import resource
from collections import deque
from pathlib import Path
from typing import Any

SECONDS = 10  # of processor time for one module
WITHOUT_DESCRIPTION = "See the paper."


def measure_depth(tree: ast.AST) -> int:
    """Return how deep the syntax tree is."""
    deepest, pending = 0, deque([(tree, 1)])
    while pending:
        node, depth = pending.popleft()
        deepest = max(deepest, depth)
        pending.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return deepest


def list_functions(statements: list[ast.stmt], prefix: str = "") -> list[tuple[str, Any]]:
    """Return qualified names with the functions and methods of a module; those inside functions are left out."""
    functions = []
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            functions.append((prefix + node.name, node))
        elif isinstance(node, ast.ClassDef):
            functions += list_functions(node.body, f"{prefix}{node.name}.")
    return functions


def find_header_end(lines: list[str], node: Any) -> int:
    """Return the last line of a function's header: the last one before its first statement that is neither empty nor a comment."""
    first = node.body[0]
    number: int = min(part.lineno for part in [first, *getattr(first, "decorator_list", [])]) - 1
    while number > node.lineno and (not lines[number - 1].strip() or lines[number - 1].lstrip().startswith("#")):
        number -= 1
    return number


def find_problem(lines: list[str], node: Any, end: int) -> str:
    """Return why a function cannot be hidden, or ""."""
    if isinstance(node, ast.AsyncFunctionDef):
        return "it is async"
    if end < node.lineno or node.body[0].lineno <= end:
        return "header and body are on one line"
    if "\t" in lines[node.body[0].lineno - 1][: node.body[0].col_offset]:
        return "it is indented with tabs"
    if ast.get_docstring(node) is None:
        return ""
    if len(node.body) < 2:
        return "it has no statement after its docstring"
    return "docstring and body are on one line" if node.body[1].lineno <= (node.body[0].end_lineno or 0) else ""


def resolve_row(row: dict[str, Any], functions: list[tuple[str, Any]], lines: list[str]) -> tuple[str, Any, str]:
    """Return (qualified name, function, "") of a row, or ("", None, why it was not found). Nothing is guessed."""
    for name, node in functions:
        first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        end = find_header_end(lines, node)
        if node.name == row["name"] and first <= row["line"] <= max(end, node.lineno):
            problem = find_problem(lines, node, end)
            return ("", None, problem) if problem else (name, node, "")
    named = [f"{name} in line {node.lineno}" for name, node in functions if node.name == row["name"]]
    hint = f"; functions of this name: {', '.join(named[:5])}" if named else ""
    return "", None, f"line {row['line']} is not in the header of a function {row['name']}{hint}"


def write_docstring(text: str, indentation: int) -> list[str]:
    """Return the lines of a docstring with this text."""
    text = (text.strip() or WITHOUT_DESCRIPTION).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    rows = text.split("\n")
    if len(rows) > 1 or rows[-1].endswith('"'):
        rows.append("")
    rows[0] = f'"""{rows[0]}'
    rows[-1] += '"""'
    return [" " * indentation + row.rstrip() if row.strip() else "" for row in rows]


def check_module(path: str, rows: list[dict[str, Any]], most: int) -> tuple[dict[str, Any], str]:
    """Return the report of a module, and its text with docstrings."""
    source = Path("/input/source", path).read_text(encoding="utf-8")
    tree = ast.parse(source)
    depth = measure_depth(tree)
    if depth > most:
        return {"problem": f"its syntax tree has {depth} levels; allowed: {most}"}, ""
    lines, functions = source.split("\n"), list_functions(tree.body)
    report: dict[str, Any] = {"problem": "", "imports": [], "uses_gpu": False, "functions": {}}
    insertions = {}
    for row in rows:
        name, node, problem = resolve_row(row, functions, lines)
        report["functions"][row["id"]] = {"name": name, "problem": problem}
        if node and ast.get_docstring(node) is None:
            insertions[find_header_end(lines, node)] = write_docstring(row["description"], node.body[0].col_offset)
    for number in sorted(insertions, reverse=True):
        lines[number:number] = insertions[number]
    changed = "\n".join(lines)
    if insertions:
        ast.parse(changed)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            report["imports"] += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            dots, module = "." * node.level, node.module or ""
            report["imports"] += [f"{dots}{module}"] + [
                f"{dots}{module}{'.' if module else ''}{alias.name}" for alias in node.names
            ]
        report["uses_gpu"] |= isinstance(node, ast.Attribute) and node.attr == "cuda"
    report["imports"] = sorted(set(report["imports"]))[:500]
    return report, changed


def run_alone(path: str, rows: list[dict[str, Any]], most: int) -> dict[str, Any]:
    """Check a module in a process of its own and return its report."""
    reply = Path("/scratch/reply.json")
    reply.unlink(missing_ok=True)
    if not (child := os.fork()):
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            try:
                report, text = check_module(path, rows, most)
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                report, text = (
                    {
                        "problem": f"is not Python: {getattr(error, 'msg', error)} (line {getattr(error, 'lineno', 0) or 1})"
                    },
                    "",
                )
            if not report["problem"]:
                target = Path("/workspace/source", path)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")
            reply.write_text(json.dumps(report), encoding="utf-8")
            os._exit(0)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    return json.loads(reply.read_text(encoding="utf-8")) if reply.exists() else {"problem": "crashed the parser"}


def check_modules() -> None:
    """Check every module of the job, and write the report."""
    job = json.loads(Path("/input/job.json").read_text(encoding="utf-8"))
    report = {
        path: run_alone(path, [row for row in job["rows"] if row["path"] == path], job["depth"])
        for path in job["paths"]
    }
    Path("/workspace/report.json").write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    check_modules()
