from typing import NamedTuple

import pytest

from simulation.replication.grading import GradingWork, grade_work
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.masking import mask_code
from simulation.replication.tasks.running import generate_variants, run_cases
from tests.support.grading_task import TASK, find_cases

SECRETS = (71, 72)


class GradingRoom(NamedTuple):
    """A sandbox, and data and gold values of the small task: the base variant and two secret ones."""

    sandbox: Sandbox
    data: dict
    gold: dict

    def mask(self, functions):
        return {path: text.encode() for path, text in mask_code(TASK, functions).items()}

    def grade(self, functions, files, task=TASK, reported=None, ending="submitted", **options):
        """Return the grade of files; by default, the right numbers are reported."""
        options = {"cases": find_cases(functions), "initial": self.mask(functions), **options}
        reported = self.gold[0] if reported is None else reported
        data, gold = options.pop("data", self.data), options.pop("gold", self.gold)
        work = GradingWork(task, tuple(functions), files, data, gold, ending=ending, reported=reported, **options)
        return grade_work(work, self.sandbox)


@pytest.fixture(scope="session")
def room():
    sandbox = open_sandbox()
    data = generate_variants(TASK, [0, *SECRETS], sandbox)
    report = run_cases(TASK, TASK.code, data, sandbox)
    return GradingRoom(sandbox, data, {number: report.get_values(number) for number in data})
