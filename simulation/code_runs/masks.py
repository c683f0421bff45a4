"""Store drawn masks as rows, and validate that each can be solved and that its test cases fail while it is masked."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

from django.utils import timezone

from simulation.code_runs import gold, tasks
from simulation.models import Mask, ReplicationTask
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.sandbox.packages import describe_environment
from simulation.replication.tasks.call_graph import trace_cases
from simulation.replication.tasks.checking.extraction_checks import extract_reference
from simulation.replication.tasks.checking.gold_checks import run_gold
from simulation.replication.tasks.checking.mask_checks import check_masks
from simulation.replication.tasks.checking.task_runs import TaskRuns
from simulation.replication.tasks.mask_draws import DEFAULT_SEED as DEFAULT_SEED
from simulation.replication.tasks.mask_draws import MaskDrawError, draw_masks, find_mask, format_key, parse_key
from simulation.replication.values import BASE_VARIANT, MaskDraw, MaskMode
from wetbench_site.text import format_count


def build_masks(row: ReplicationTask, draws: Iterable[MaskDraw], seed: int = DEFAULT_SEED) -> list[Mask]:
    """Return new rows of drawn masks of the task's present version, without storing them."""
    return [
        Mask(
            task=row, task_sha256=row.sha256, n=draw.n, mode=draw.mode, index=draw.index, key=format_key(draw.key, seed),
            seed=seed, functions=list(draw.functions),
        )
        for draw in draws
    ]  # fmt: skip


def find_masks(row: ReplicationTask, keys: Sequence[str]) -> list[Mask]:
    """Return new rows of the masks with these keys, without storing them.

    Raises MaskDrawError, which names every key that is repeated or that no mask of the task has.
    """
    task, problems = tasks.get_task(row), list[str]()
    found: dict[str, Mask] = {}
    for key in keys:
        try:
            [mask] = build_masks(row, [find_mask(task, key)], parse_key(key).seed)
        except MaskDrawError as error:
            problems.append(str(error))
            continue
        if mask.key in found:
            problems.append(f"{key} is given twice")
        found[mask.key] = mask
    if problems:
        raise MaskDrawError("; ".join(problems))
    return list(found.values())


def store_masks(row: ReplicationTask, new: Sequence[Mask]) -> list[Mask]:
    """Return the stored rows of masks of the task's present version, created where they are missing."""
    Mask.objects.bulk_create(new, ignore_conflicts=True)
    keys = [mask.key for mask in new]
    rows = Mask.objects.filter(task=row, task_sha256=row.sha256, key__in=keys)
    stored = {mask.key: mask for mask in rows}
    for mask in stored.values():
        mask.task = row
    return [stored[key] for key in keys]


def draw_and_store(
    row: ReplicationTask, ns: Iterable[int], per_n: int, mode: MaskMode, seed: int = DEFAULT_SEED
) -> list[Mask]:
    """Return up to `per_n` masks of each number of hidden functions. Raises MaskDrawError."""
    task = tasks.get_task(row)
    return store_masks(
        row, build_masks(row, [draw for n in ns for draw in draw_masks(task, n, per_n, mode, seed)], seed)
    )


def find_validated(rows: Sequence[ReplicationTask]) -> set[tuple[int, str]]:
    """Return task and key of every mask of these tasks that is validated here, as `is_validated` decides, with one query."""
    current = {row.pk: (row.sha256, gold.hash_environment(row)) for row in rows}
    columns = ("task", "key", "task_sha256", "validated_with", "validation__problem")
    return {
        (task, key)
        for task, key, sha256, validated_with, problem in Mask.objects.filter(task__in=rows).values_list(*columns)
        if (sha256, validated_with) == current[task] and not problem
    }


def is_validated(mask: Mask) -> bool:
    """Return whether the mask was validated for its task's present version, packages and kind of machine, without a problem."""
    is_present = mask.task_sha256 == mask.task.sha256 and mask.validated_with == gold.hash_environment(mask.task)
    return is_present and not mask.validation.get("problem")


def validate_masks(
    masks: Sequence[Mask], sandbox: Sandbox, report_progress: Callable[[str], None] = lambda text: None
) -> list[Mask]:
    """Validate those of these masks that were not validated here, and store the results. Return the masks with a problem.

    Hidden, every relevant test case raises; filled with the reference bodies as grading extracts them, all pass on the public and two secret
    data sets; filled with stubs, not all pass. Raises GoldError, TaskRunError and SandboxFault.
    """
    rows = {mask.task_id: mask.task for mask in masks}
    for number, row in enumerate(rows.values(), 1):
        environment = gold.hash_environment(row)
        waiting = [mask for mask in masks if mask.task_id == row.pk and mask.validated_with != environment]
        if waiting:
            report_progress(
                f"task {number} of {len(rows)}, {row.slug}: validating {format_count(len(waiting), 'mask')}"
            )
            _validate(row, waiting, sandbox, environment)
    return [mask for mask in masks if mask.validation.get("problem")]


def _validate(row: ReplicationTask, masks: Sequence[Mask], sandbox: Sandbox, environment: str) -> None:
    task = tasks.get_task(row)
    numbers = [BASE_VARIANT, *gold.list_secret_variants(row)[: gold.VARIANTS_PER_GRADING]]
    data = {number: variant.data for number, variant in gold.ensure_gold(row, numbers, "full", sandbox).items()}
    runs = TaskRuns(task, data, sandbox)
    faults = run_gold(runs)
    bodies, refused = extract_reference(task, sandbox)
    if faults := [*faults, *refused]:
        raise gold.GoldError(f"{task.slug}: " + "; ".join(_hide_numbers(str(fault), numbers) for fault in faults))
    draws = [
        MaskDraw(task.slug, mask.n, cast(MaskMode, mask.mode), mask.index, mask.key, tuple(mask.functions))
        for mask in masks
    ]
    results = check_masks(runs, draws, trace_cases(task, data[BASE_VARIANT], sandbox), bodies)
    for mask, proof in zip(masks, results, strict=True):
        mask.test_cases = list(proof.cases) or [case.id for case in task.test_cases]
        mask.validation = {
            "problem": _hide_numbers(proof.problem, numbers),
            "environment": describe_environment(row.packages),
            "sandbox": sandbox.name,
        }
        mask.validated_with, mask.validated_at = environment, timezone.now()
    Mask.objects.bulk_update(masks, ["test_cases", "validation", "validated_with", "validated_at"], batch_size=200)


def _hide_numbers(text: str, numbers: Sequence[int]) -> str:
    """Return a message without the numbers of secret data sets, from which the data can be generated again."""
    for number in numbers:
        if number != BASE_VARIANT:
            text = text.replace(f"variant {number}", "a secret variant")
    return text
