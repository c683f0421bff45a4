"""Run the commands of an imported study, and read the results from what they print."""

import ast
import contextlib
import io
import json
import os
import re
import runpy
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
EXPERIMENTS: dict[str, Any] = {}
SEED_ARGUMENT = ""


def run_commands(name: str, folder: Path) -> dict[str, Any]:
    """Run the commands of an experiment in a copy of the data, and return its results."""
    experiment, printed = EXPERIMENTS[name], io.StringIO()
    previous, work = Path.cwd(), Path(tempfile.mkdtemp())
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            target = work / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    seed_file = work / "seed.txt"
    seed = seed_file.read_text().strip() if SEED_ARGUMENT and seed_file.exists() else ""
    os.chdir(work)
    try:
        with contextlib.redirect_stdout(printed):
            for command in experiment["commands"]:
                run_command(command, seed)
    finally:
        os.chdir(previous)
        shutil.rmtree(work, ignore_errors=True)
        print(printed.getvalue()[-4000:])
    return {metric: find_result(printed.getvalue(), label) for metric, label in experiment["labels"].items()}


def run_command(command: dict[str, Any], seed: str) -> None:
    """Run a program in this process, so that the calls of its functions can be traced."""
    arguments = replace_seed(command["arguments"], seed) if seed else command["arguments"]
    os.environ.update(command["environment"])
    program = str(ROOT / command["script"])
    start = [str(Path(program).parent), str(ROOT)] if command["script"] else [str(ROOT)]
    before = sys.argv, sys.path
    sys.argv, sys.path = [program, *arguments], [*start, *sys.path]
    try:
        if command["script"]:
            runpy.run_path(program, run_name="__main__")
        else:
            runpy.run_module(command["module"], run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise RuntimeError(f"{command['script'] or command['module']} ended with {end.code}") from None
    finally:
        sys.argv, sys.path = before


def replace_seed(arguments: list[str], seed: str) -> list[str]:
    """Return the arguments with this random seed."""
    kept, skip = [], False
    for argument in arguments:
        if skip or argument.startswith(f"{SEED_ARGUMENT}="):
            skip = False
        elif argument == SEED_ARGUMENT:
            skip = True
        else:
            kept.append(argument)
    return [*kept, SEED_ARGUMENT, seed]


def find_result(text: str, label: str) -> Any:
    """Return the last value with this name in the output: in a line with a JSON object or dict, or after "name:" or "name="."""
    for line in reversed(text.splitlines()):
        if "{" in line and "}" in line:
            literal = line[line.index("{") : line.rindex("}") + 1]
            for parse in (json.loads, ast.literal_eval):
                with contextlib.suppress(ValueError, SyntaxError):
                    values = parse(literal)
                    if isinstance(values, dict) and label in values:
                        return values[label]
        matches = re.findall(rf"(?<!\w){re.escape(label)}[\"']?\s*[:=]\s*({NUMBER})", line)
        if matches:
            return float(matches[-1])
    raise ValueError(f"the output has no result {label!r}")
