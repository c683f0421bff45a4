"""Create runs of code episodes, and retry single ones. Nothing is queued unless all of it can run."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, Unpack

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from simulation.casts import code_cast_availability, run_config
from simulation.code_runs import gold, masks, sandboxes, stored_trees, tasks
from simulation.code_runs.conditions import Conditions, read_conditions
from simulation.lab.errors import LabError
from simulation.models import CodeEpisode, Mask, ReplicationTask, Run, Worker
from simulation.replication.sandbox.base import SandboxUnavailable
from simulation.replication.tasks.mask_draws import DEFAULT_SEED
from simulation.replication.tasks.workspaces import build_workspace
from simulation.replication.values import MaskMode
from simulation.runs import create
from simulation.runs.create import RunOptions

MAX_ATTEMPTS, MAX_EPISODES = 1000, 100_000
KIND = "code"


class NoSandboxError(LabError):
    """Neither this process nor a worker can run sandboxes. The message states how to get one."""


class UnvalidatedMasksError(LabError):
    """Masks were not validated on this kind of machine, or cannot be solved."""


@dataclass(frozen=True)
class CodeOrder:
    """The code episodes of a run: `attempts` further replicates of each mask, played by a cast under the same conditions.

    For each task and each number of hidden functions in `ns`, up to `per_n` masks are drawn with `mask_seed`, unless `mask_keys` has the
    keys of the masks. `seed` is that of the episodes; None: a random one.
    """

    task_names: Sequence[str]
    cast: str
    ns: Collection[int] = (1,)
    per_n: int = 1
    mode: MaskMode = "uniform"
    mask_seed: int = DEFAULT_SEED
    attempts: int = 1
    seed: int | None = None
    conditions: Conditions = Conditions()  # noqa: RUF009  # immutable
    mask_keys: Sequence[str] = ()


def create_code_run(
    order: CodeOrder,
    validate: bool = False,
    user: AbstractBaseUser | None = None,
    submission_id: str = "",
    report_progress: Callable[[str], None] = lambda text: None,
    **options: Unpack[RunOptions],
) -> Run:
    """Create a run of the ordered code episodes. The same submission id returns the same run.

    With `validate`, masks that were not validated here are validated in sandboxes of this process. Raises LabError, and creates nothing:
    an unknown task or cast, a task that was changed, no sandbox (NoSandboxError), masks without validation (UnvalidatedMasksError).
    """
    if existing := Run.objects.filter(submission_id=submission_id).first() if submission_id else None:
        return existing
    if not 1 <= order.attempts <= MAX_ATTEMPTS:
        raise LabError(f"attempts: is {order.attempts}; allowed: 1 to {MAX_ATTEMPTS}")
    setup = create.freeze_run_config(
        code_cast_availability.freeze_code_cast(order.cast), options.get("prompt_set") or ""
    )
    order = replace(order, conditions=_complete_conditions(order.conditions, setup))
    if order.conditions.cost is not None:
        create.check_prices(setup, Decimal(str(order.conditions.cost)))
    require_sandbox()
    drawn = _draw_masks(order)
    if not drawn:
        raise LabError("No mask fits: the tasks have none with these numbers of hidden functions and this mode")
    if (total := len(drawn) * order.attempts) > MAX_EPISODES:
        raise LabError(f"{total:,} code episodes are more than the {MAX_EPISODES:,} that one run may have")
    check_masks_usable(drawn, validate, report_progress)
    return _store_run(order, drawn, setup, user, submission_id, options)


def _complete_conditions(conditions: Conditions, setup: Mapping[str, Any]) -> Conditions:
    """Return the conditions with the code that prompts show: unless it is given, what the scaffold of the cast needs."""
    scaffold = setup["cast"]["agent"]["scaffold"] if setup else ""
    return replace(conditions, code=conditions.code or run_config.get_default_code_arm(scaffold))


def require_sandbox() -> None:
    """Raise NoSandboxError unless this process or a live worker can run sandboxes."""
    since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    if Worker.objects.filter(seen_at__gte=since).exclude(sandbox="").exists():
        return
    try:
        sandboxes.get_sandbox()
    except SandboxUnavailable as error:
        raise NoSandboxError(f"No sandbox can be used: {error}") from error


def check_masks_usable(
    drawn: Sequence[Mask], validate: bool, report_progress: Callable[[str], None] = lambda text: None
) -> None:
    """Raise LabError unless every mask is validated here. With `validate`, validate the others now."""
    for row in {mask.task_id: mask.task for mask in drawn}.values():
        if row.invalid_reason:
            raise LabError(f"{row.slug} cannot be run: {row.invalid_reason}")
    if validate:
        try:
            masks.validate_masks(drawn, sandboxes.get_sandbox(), report_progress)
        except SandboxUnavailable as error:
            raise NoSandboxError(f"Masks are validated in a sandbox, and none can be used: {error}") from error
    problems = [f"{mask}: {mask.validation['problem']}" for mask in drawn if mask.validation.get("problem")]
    unvalidated = [mask for mask in drawn if not masks.is_validated(mask) and not mask.validation.get("problem")]
    if unvalidated:
        shown = ", ".join(map(str, unvalidated[:5]))
        shown += f" and {len(unvalidated) - 5} more" if len(unvalidated) > 5 else ""
        commands = " and ".join(f"`{command}`" for command in list_validation_commands(unvalidated))
        problems.append(f"not validated on this kind of machine: {shown}. To validate them: {commands}")
    if problems:
        raise UnvalidatedMasksError("; ".join(problems[:20]))


def list_validation_commands(unvalidated: Iterable[Mask]) -> list[str]:
    """Return the commands that validate these masks, one for each mode and seed."""
    groups: dict[tuple[str, int], list[Mask]] = {}
    for mask in unvalidated:
        groups.setdefault((mask.mode, mask.seed), []).append(mask)
    commands = []
    for (mode, seed), group in groups.items():
        slugs, ns = sorted({mask.task.slug for mask in group}), sorted({mask.n for mask in group})
        order = f"--task {','.join(slugs)} --n {','.join(map(str, ns))} --per-n {max(mask.index for mask in group)}"
        commands.append(f"python manage.py draw_masks {order} --mode {mode} --seed {seed} --validate")
    return commands


def _draw_masks(order: CodeOrder) -> list[Mask]:
    rows, numbers = tasks.find_tasks(order.task_names), sorted(set(order.ns))
    if order.mask_keys:
        return [mask for row in rows for mask in masks.store_masks(row, masks.find_masks(row, order.mask_keys))]
    return [
        mask for row in rows for mask in masks.draw_and_store(row, numbers, order.per_n, order.mode, order.mask_seed)
    ]


@transaction.atomic
def _store_run(
    order: CodeOrder,
    drawn: Sequence[Mask],
    setup: Mapping[str, Any],
    user: AbstractBaseUser | None,
    submission_id: str,
    options: RunOptions,
) -> Run:
    terms = order.conditions
    columns: create.RunTerms = {"conditions": terms.to_json()}
    run, created = create.get_or_create_run(KIND, order.cast, order.seed, user, submission_id, columns, options, setup)
    if not created:
        return run
    # Two runs would count the same replicates, and a task must not change in between, so the second one waits here.
    rows = ReplicationTask.objects.select_for_update().defer("data")
    locked = {row.pk: row for row in rows.filter(pk__in={mask.task_id for mask in drawn}).order_by("pk")}
    if changed := sorted({mask.task.slug for mask in drawn if locked[mask.task_id].sha256 != mask.task_sha256}):
        raise LabError(f"{', '.join(changed)}: the task was changed just now. Create the run again")
    episodes = CodeEpisode.objects.filter(mask__in=drawn, cast=order.cast, conditions_key=terms.key).order_by()
    last = dict(episodes.values_list("mask").annotate(last=Max("replicate")))
    base = {pk: gold.find_base_data(row) or {} for pk, row in locked.items()}
    new = []
    for mask in drawn:
        files = build_workspace(
            tasks.get_task(mask.task), tuple(mask.functions), base[mask.task_id], terms.docs, terms.paper
        )
        tree = stored_trees.store_tree(files)
        first = last.get(mask.pk, 0) + 1
        numbers = range(first, first + order.attempts)
        new += [_build_episode(run, mask, order.cast, terms, number, tree.pk) for number in numbers]
    CodeEpisode.objects.bulk_create(new, batch_size=500)
    return run


def _build_episode(run: Run, mask: Mask, cast: str, terms: Conditions, replicate: int, tree: str) -> CodeEpisode:
    # Without the conditions: replicate n has the same seed in every arm, so that arms are compared pair by pair.
    seed = create.derive_seed(run.seed, "code", mask.task.slug, mask.key, cast, replicate)
    return CodeEpisode(
        run=run, mask=mask, task_sha256=mask.task_sha256, cast=cast, conditions=terms.to_json(), conditions_key=terms.key,
        replicate=replicate, seed=seed, initial_id=tree, present_id=tree,
    )  # fmt: skip


@transaction.atomic
def retry_code_episode(episode: CodeEpisode) -> CodeEpisode:
    """Create a new code episode that replaces this replicate. Raise ValueError if it cannot be retried (again)."""
    rows = CodeEpisode.objects.select_for_update(of=("self",)).select_related("mask__task", "run")
    row = rows.defer("mask__task__data", "run__setup").get(pk=episode.pk)
    if row.status not in CodeEpisode.RETRYABLE or not row.counts:
        raise ValueError(
            f"{row} is {row.get_status_display()}; only a failed or stopped one can be retried, and only once"
        )
    if row.task_sha256 != row.mask.task.sha256:
        raise ValueError(f"{row.mask.task.slug} was changed since; create a new run with its masks")
    CodeEpisode.objects.filter(pk=row.pk).update(counts=False)
    terms = read_conditions(row.conditions)
    retried = _build_episode(row.run, row.mask, row.cast, terms, row.replicate, row.initial_id)
    retried.retry_of = row
    retried.save()
    return retried
