"""Read the commands of an experiment's solution: Python programs with arguments. Nothing is passed to a shell."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from simulation.replication.trees import find_path_problem

TEMPLATE = Path(__file__).parent / "inside" / "experiments_template.py"
_SHELL = re.compile(r"[|&;<>`$]|\|\|")
_ASSIGNMENT = re.compile(r"[A-Z][A-Z0-9_]*=[^\s]*")
_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class Command(NamedTuple):
    """A program of the source, with its arguments and environment variables.

    It is either a script, by its path below the code, or a module; the other of the two is "".
    """

    script: str
    module: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        return {
            "script": self.script,
            "module": self.module,
            "arguments": list(self.arguments),
            "environment": dict(self.environment),
        }


def read_commands(solution: str) -> tuple[list[Command], list[str]]:
    """Return the commands of a solution, and what is missing to run its other lines. Lines with `echo` are left out."""
    commands, missing = list[Command](), list[str]()
    for line in solution.replace("\\\n", " ").split("\n"):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = ["?"]
        if not words or words[0] == "echo":
            continue
        command = None if _SHELL.search(line) else _read_command(words)
        if command:
            commands.append(command)
        else:
            missing.append(f"a shell for the command {line.strip()[:100]!r}")
    return commands, missing


def _read_command(words: Sequence[str]) -> Command | None:
    """Return a command, or None if it is not a Python program."""
    environment = {}
    while words and _ASSIGNMENT.fullmatch(words[0]):
        name, _, value = words[0].partition("=")
        environment[name] = value
        words = words[1:]
    if len(words) < 2 or not _PYTHON.fullmatch(words[0]):
        return None
    if words[1] == "-m" and len(words) > 2 and _MODULE.fullmatch(words[2]):
        return Command("", words[2], tuple(words[3:]), environment)
    script = words[1].removeprefix("./")
    if script.endswith(".py") and not find_path_problem(script):
        return Command(script, "", tuple(words[2:]), environment)
    return None


def write_experiments(
    commands: Mapping[str, Sequence[Command]], labels: Mapping[str, Mapping[str, str]], seed_argument: str
) -> str:
    """Return the text of experiments.py. `commands` and `labels`, the name of each metric in the output, are by test case."""
    table = {
        case: {"commands": [command.to_json() for command in commands[case]], "labels": dict(labels[case])}
        for case in commands
    }
    # JSON in a string literal, so that no text of a source becomes Python code.
    constants = f"EXPERIMENTS = json.loads({json.dumps(table)!a})\nSEED_ARGUMENT = {json.dumps(seed_argument)}\n"
    text = TEMPLATE.read_text(encoding="utf-8").replace(
        'EXPERIMENTS: dict[str, Any] = {}\nSEED_ARGUMENT = ""\n', constants
    )
    functions = [
        f'\n\ndef {case}(folder: Path) -> dict[str, Any]:\n    """Return the results of experiment {case}."""\n'
        f'    return run_commands("{case}", folder)\n'
        for case in commands
    ]
    return text + "".join(functions)
