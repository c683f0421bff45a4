"""What is graded: the value that every stage of a grading reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulation.replication.trees import Files
from simulation.replication.values import BASE_VARIANT, Task, TaskValues, TestCase


@dataclass(frozen=True)
class GradingWork:
    """The files and the report that an episode left, and the data and gold values that they are graded with.

    `data` and `gold` have the base variant (0) and the secret variants by number, and `gold` was computed with the same profile. `cases` are
    the ids of the test cases that reach a hidden function; None: all. `reported` is what was submitted, as text or as parsed JSON.
    `initial` is the workspace that the agent got; without it, only changes of code are listed. Gold values are compared outside the
    sandbox and are never sent into one.
    """

    task: Task
    function_ids: tuple[str, ...]
    files: Files
    data: Mapping[int, Files]
    gold: Mapping[int, TaskValues]
    cases: tuple[str, ...] | None = None
    ending: str = "submitted"
    reported: str | Mapping[str, Any] | None = None
    profile: str = "full"
    initial: Files | None = None

    @property
    def secret_variants(self) -> list[int]:
        return [number for number in self.data if number != BASE_VARIANT]

    @property
    def relevant_cases(self) -> tuple[TestCase, ...]:
        """Return the test cases that decide, in the order of the task."""
        return tuple(case for case in self.task.test_cases if self.cases is None or case.id in self.cases)

    def find_missing_gold(self) -> str:
        """Return how many variants have no gold values, or ""."""
        missing = sum(number not in self.gold for number in self.data)
        return f"no gold values for {missing} of {len(self.data)} variants" if missing else ""
