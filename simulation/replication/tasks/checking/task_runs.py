"""Run many changed versions of a task's code in few sandboxes, and compare them with the reference code."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from simulation.replication.comparing import GoldValueError, compare_case, passes
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.tasks.masking import fill_code
from simulation.replication.tasks.running import CaseOutcome, Run, run_trees
from simulation.replication.trees import Files
from simulation.replication.values import BASE_VARIANT, CaseValues, Task

Bodies = Mapping[str, str]  # function id -> body
GOLD: Bodies = {}
_MAX_RUNS = 240  # in one sandbox
_MAX_RESULT_BYTES = 150_000  # in one sandbox, which returns at most 256 KiB
_SLOWEST = 20  # times the reference code; a mutant that takes longer is stopped


def list_check_variants(slug: str, count: int = 15) -> list[int]:
    """Return the numbers of the variants that checks use, base first. They differ from those of any grading, whose salt is random."""
    numbers = [int(hashlib.sha256(f"check/{slug}/{index}".encode()).hexdigest()[:12], 16) for index in range(count)]
    return [BASE_VARIANT, *numbers]


class TaskRuns:
    """Runs versions of a task's code on the variants of its checks. `gold` must be set before values are compared."""

    def __init__(self, task: Task, data: Mapping[int, Files], sandbox: Sandbox, workers: int = 2) -> None:
        self.task = task
        self.data = data
        self.gold: dict[str, dict[Run, CaseOutcome]] = {}  # by profile
        self._cases = {case.id: case for case in task.test_cases}
        self._sandbox = sandbox
        self._workers = workers

    def run(self, versions: Sequence[Bodies], runs: Iterable[Run], profile: str = "full") -> dict[Run, CaseOutcome]:
        """Return the outcome of each run. `Run.tree` is the index in `versions`, each of which replaces some bodies. Raises SandboxFault."""
        chunks = self._split_runs(list(runs), profile)
        changed: dict[int, dict[str, str]] = {}
        for tree in {run.tree for chunk in chunks for run in chunk}:
            code = fill_code(self.task, versions[tree]) if versions[tree] else self.task.code
            changed[tree] = {path: text for path, text in code.items() if text != self.task.code[path]}
        outcomes: dict[Run, CaseOutcome] = {}
        with ThreadPoolExecutor(self._workers) as pool:
            for part in pool.map(lambda chunk: self._run_chunk(changed, chunk, profile), chunks):
                outcomes.update(part)
        return outcomes

    def _split_runs(self, runs: list[Run], profile: str) -> list[list[Run]]:
        gold = self.gold.get(profile, {})
        sizes = [len(json.dumps(outcome.values)) * 2 + 200 for outcome in gold.values()] or [1000]
        size = max(1, min(_MAX_RUNS, _MAX_RESULT_BYTES // max(sizes), -(-len(runs) // self._workers)))
        return [runs[start : start + size] for start in range(0, len(runs), size)]

    def _run_chunk(
        self, changed: Mapping[int, Mapping[str, str]], chunk: list[Run], profile: str
    ) -> dict[Run, CaseOutcome]:
        trees = sorted({run.tree for run in chunk})
        data = {number: self.data[number] for number in {run.variant for run in chunk}}
        inner = {run._replace(tree=trees.index(run.tree)): run for run in chunk}
        slowest = max((outcome.seconds for outcome in self.gold.get(profile, {}).values()), default=self.task.seconds)
        seconds = min(self.task.seconds, max(2.0, _SLOWEST * slowest))
        texts = [changed[tree] for tree in trees]
        outcomes = run_trees(self.task, texts, list(inner), data, self._sandbox, profile, seconds)
        return {inner[run]: outcome for run, outcome in outcomes.items()}

    def get_gold(self, variant: int, case: str, profile: str = "full") -> CaseValues:
        """Return the values of the reference code. Raises KeyError."""
        return self.gold[profile][Run(0, variant, case)].values or {}

    def is_near(self, run: Run, outcome: CaseOutcome, profile: str = "full", rel: float | None = None) -> bool:
        """Return whether every metric of an outcome is near the reference value; with `rel`, within this tolerance."""
        if outcome.values is None:
            return False
        gold = self.get_gold(run.variant, run.case, profile)
        try:
            return passes(compare_case(self._cases[run.case], gold, outcome.values, rel))
        except GoldValueError:
            return False
