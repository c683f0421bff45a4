"""Rules on what agents see: no result in a text, no line of a hidden body, and no code of the generator."""

import re
from collections.abc import Iterator
from math import isfinite

from simulation.replication.tasks.checking.function_checks import place_function
from simulation.replication.tasks.checking.proofs import Fault
from simulation.replication.tasks.checking.task_runs import TaskRuns
from simulation.replication.tasks.masking import mask_code, read_gold_bodies
from simulation.replication.tasks.workspaces import build_workspace
from simulation.replication.values import BASE_VARIANT, Task

_NUMBER = re.compile(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w])")
MIN_DIGITS = 4  # of a number in a text that is compared with gold values; shorter ones agree by chance
MIN_LINE = 24  # characters of a line that only a hidden body may contain; shorter ones occur everywhere
_MIN_GENERATOR_LINES = 3  # equal ones in a module, for it to count as a copy of the generator


def check_leaks(runs: TaskRuns) -> list[Fault]:
    """Return the faults of everything that agents may see, whatever is hidden."""
    task = runs.task
    return [*_find_values(runs), *_find_body_lines(task), *_find_generator(task)]


def _find_values(runs: TaskRuns) -> Iterator[Fault]:
    """Yield the gold values of the base variant, to the digits that are written, in texts of the workspace outside data/."""
    task = runs.task
    golds = [
        (f"{case.id}.{name}", abs(number))
        for case in task.test_cases
        for name, value in runs.get_gold(BASE_VARIANT, case.id).items()
        for number in (value if isinstance(value, list) else [value])
        if isinstance(number, int | float) and isfinite(number)
    ]
    files = build_workspace(task, [function.id for function in task.functions], {})
    for path, content in files.items():
        for number, line in enumerate(content.decode().split("\n"), 1):
            for match in _NUMBER.finditer(line):
                for label, gold in golds:
                    if _is_same(match[0], gold):
                        text = f"{match[0]!r} is the gold value of {label}; allowed: a slot such as {{{{{label}}}}}"
                        # Line numbers of the paper are those of the file: headings keep their lines.
                        yield Fault("leaks", f"{path}:{number}", text)


def _is_same(text: str, gold: float) -> bool:
    """Return whether a number in a text is a gold value, rounded to the digits that are written. Percentages count too."""
    mantissa = re.split("[eE]", text)[0].replace(",", "")
    digits = len(mantissa.replace(".", "").lstrip("0"))
    if digits < MIN_DIGITS:
        return False
    value = float(text.replace(",", ""))
    return any(value == float(f"{scaled:.{digits}g}") for scaled in (gold, gold * 100))


def _find_body_lines(task: Task) -> Iterator[Fault]:
    """Yield the long lines of each body that occur in code or paper while only this function is hidden."""
    for identifier, body in read_gold_bodies(task).items():
        lines = {line.strip() for line in body.split("\n") if len(line.strip()) > MIN_LINE}
        texts = {**mask_code(task, [identifier]), "paper.md": task.paper}
        for path, text in texts.items():
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip() in lines:
                    message = f"its line {line.strip()!r} is also in {path}:{number}, where agents see it"
                    yield Fault("leaks", place_function(task, identifier), message)


def _find_generator(task: Task) -> Iterator[Fault]:
    """Yield the modules that repeat lines of the generator."""
    plain = ("import ", "from ", '"""', "#", "def ", "class ", "with ", "for ")
    lines = {line.strip() for line in task.generator.split("\n")}
    lines = {line for line in lines if len(line) > MIN_LINE and not line.startswith(plain)}
    for path, text in task.code.items():
        repeated = [line.strip() for line in text.split("\n") if line.strip() in lines]
        if len(repeated) >= _MIN_GENERATOR_LINES:
            yield Fault("leaks", path, f"repeats {len(repeated)} lines of generate.py, such as {repeated[0]!r}")
