"""Find gold values that are written in an agent's code. The comparison is made outside the sandbox."""

import re

from simulation.replication.comparing import as_numbers
from simulation.replication.grading.extracting import Extraction
from simulation.replication.values import Task, TaskValues

DIGITS = 4  # a number with fewer digits may be equal by chance
_NUMBER = re.compile(r"\d+\.?\d*(?:[eE][+-]?\d{1,3})?")


def find_gold_numbers(task: Task, extraction: Extraction, gold: TaskValues) -> list[str]:
    """Return "e1.slope" for each base gold value that equals a number in the agent's code, to four digits and apart from the sign.

    Numbers with fewer digits are left out, and so are numbers that the task itself gives in its code or paper.
    """
    given = {_round(float(match[0])) for text in (task.paper, *task.code.values()) for match in _NUMBER.finditer(text)}
    written = {_round(number) for number in extraction.literals} - given
    found = []
    for case, values in gold.items():
        for name, value in values.items():
            numbers = [] if isinstance(value, str) else as_numbers(value)
            long = [number for number in numbers if float(f"{number:.{DIGITS - 2}e}") != float(f"{number:.12e}")]
            if written.intersection(map(_round, long)):
                found.append(f"{case}.{name}")
    return found


def _round(number: float) -> str:
    return f"{abs(number):.{DIGITS - 1}e}"
