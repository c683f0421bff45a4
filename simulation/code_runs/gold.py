"""Compute and store the results of a task's unmasked code, and choose the secret data on which an episode is graded."""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from simulation.code_runs import stored_trees, tasks
from simulation.code_runs.storable import make_storable
from simulation.lab.errors import LabError
from simulation.models import GoldResult, ReplicationTask
from simulation.replication.comparing import find_gold_problem
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.sandbox.packages import describe_environment
from simulation.replication.tasks.running import generate_variants, run_cases
from simulation.replication.values import BASE_VARIANT, Task
from wetbench_site.text import hash_json

SECRET_VARIANTS = 16  # data sets of a task besides the public one
VARIANTS_PER_GRADING = 2
_LARGEST_NUMBER = 2**31 - 1


class GoldError(LabError):
    """The unmasked code of a task does not compute what its file declares. It is never the fault of an agent."""


class GoldVariant(NamedTuple):
    """The data files of one variant by name, and the values of each test case on them."""

    data: dict[str, bytes]
    values: Mapping[str, Mapping[str, Any]]


def list_secret_variants(row: ReplicationTask) -> list[int]:
    """Return the numbers of the task's secret data sets, which its salt alone determines. An imported task may have none."""
    if not tasks.get_task(row).has_variants:
        return []
    numbers: list[int] = []
    index = 0
    while len(numbers) < SECRET_VARIANTS:
        number = 1 + int.from_bytes(_sign(row, "variant", index)[:8]) % _LARGEST_NUMBER
        index += 1
        if number not in numbers:
            numbers.append(number)
    return numbers


def choose_variants(row: ReplicationTask, code: object) -> tuple[int, ...]:
    """Return the secret data sets for the episode of this code: always the same two, which cannot be guessed without the salt."""
    ranked = sorted(list_secret_variants(row), key=lambda number: _sign(row, "grading", code, number))
    return tuple(ranked[:VARIANTS_PER_GRADING])


def hash_environment(row: ReplicationTask) -> str:
    """Return the hash of what the task's values may depend on. Masks are validated again where it differs."""
    return hash_json(describe_environment(row.packages))


def compute_gold(task: Task, data: Mapping[int, Mapping[str, bytes]], profile: str, sandbox: Sandbox) -> dict[int, Any]:
    """Return the values of every test case of the unmasked code by variant. Raises GoldError and SandboxFault."""
    report = run_cases(task, task.code, data, sandbox, profile)
    problems = [f"{len(report.tampered)} results that the driver did not write"] if report.tampered else []
    for outcome in report.outcomes:
        place = f"{outcome.case} on {'the public data' if outcome.variant == BASE_VARIANT else 'a secret variant'}"
        if outcome.values is None:
            problems.append(f"{place}: {outcome.error} {outcome.text}".rstrip())
            continue
        [case] = [case for case in task.test_cases if case.id == outcome.case]
        metric_problems = {
            metric.name: find_gold_problem(metric, outcome.values.get(metric.name)) for metric in case.metrics
        }
        problems += [f"{place}: {name}: {problem}" for name, problem in metric_problems.items() if problem]
    if problems:
        raise GoldError(f"{task.slug}: the unmasked code failed. " + "; ".join(dict.fromkeys(problems)))
    return {variant: make_storable(report.get_values(variant)) for variant in data}


def ensure_gold(row: ReplicationTask, numbers: Sequence[int], profile: str, sandbox: Sandbox) -> dict[int, GoldVariant]:
    """Return data and values of these variants, from the database or computed in sandboxes and stored.

    Raises GoldError, TaskRunError and SandboxFault.
    """
    stored = find_gold(row, numbers, profile)
    if missing := [number for number in numbers if number not in stored]:
        task = tasks.get_task(row)
        data = _find_data(row, missing)
        if ungenerated := [number for number in missing if number not in data]:
            data |= generate_variants(task, ungenerated, sandbox)
        values = compute_gold(task, data, profile, sandbox)
        made_with = {**describe_environment(row.packages), "sandbox": sandbox.name}
        # Two workers may compute the same at once; either row will do.
        GoldResult.objects.bulk_create(
            [
                GoldResult(
                    task=row, task_sha256=row.sha256, variant=number, profile=profile, values=values[number],
                    data=stored_trees.store_tree(data[number]), made_with=made_with,
                )
                for number in missing
            ],
            ignore_conflicts=True,
        )  # fmt: skip
        stored = find_gold(row, numbers, profile)
    return stored


def find_gold(row: ReplicationTask, numbers: Iterable[int], profile: str) -> dict[int, GoldVariant]:
    """Return the stored data and values of these variants for the task's present version."""
    rows = GoldResult.objects.filter(task=row, task_sha256=row.sha256, variant__in=list(numbers), profile=profile)
    return {
        variant: GoldVariant(stored_trees.load_files(tree), values)
        for variant, tree, values in rows.order_by("variant").values_list("variant", "data_id", "values")
    }


def find_base_data(row: ReplicationTask) -> dict[str, bytes] | None:
    """Return the public data of the task's present version, or None if they were not generated yet."""
    return _find_data(row, [BASE_VARIANT]).get(BASE_VARIANT)


def _find_data(row: ReplicationTask, numbers: Iterable[int]) -> dict[int, dict[str, bytes]]:
    """Return the stored data of these variants; they are the same for every profile."""
    rows = GoldResult.objects.filter(task=row, task_sha256=row.sha256, variant__in=list(numbers))
    return {variant: stored_trees.load_files(tree) for variant, tree in rows.values_list("variant", "data_id")}


def _sign(row: ReplicationTask, *parts: object) -> bytes:
    return hmac.digest(bytes.fromhex(row.salt), "/".join(map(str, parts)).encode(), hashlib.sha256)
