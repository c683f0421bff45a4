"""Check a whole task in sandboxes, rule by rule."""

import platform
import time
from collections.abc import Callable
from typing import Any

from simulation.replication.sandbox.base import Sandbox
from simulation.replication.sandbox.packages import describe_environment
from simulation.replication.tasks.call_graph import find_called
from simulation.replication.tasks.checking.claims import compare_claims
from simulation.replication.tasks.checking.extraction_checks import extract_reference
from simulation.replication.tasks.checking.function_checks import check_masked_alone, check_mutants, check_stubs
from simulation.replication.tasks.checking.gold_checks import GENERATOR, generate_twice, measure_strength, run_gold
from simulation.replication.tasks.checking.leak_checks import check_leaks
from simulation.replication.tasks.checking.mask_checks import check_masks, check_profiles
from simulation.replication.tasks.checking.proofs import CheckOptions, Fault, TaskProof
from simulation.replication.tasks.checking.task_runs import TaskRuns, list_check_variants
from simulation.replication.tasks.mask_draws import draw_masks
from simulation.replication.tasks.running import TaskRunError, run_cases, trace_runs
from simulation.replication.tasks.task_files import hash_task
from simulation.replication.values import BASE_VARIANT, Task
from wetbench_site.text import format_count


def describe_proof_environment(task: Task, sandbox: Sandbox) -> dict[str, str]:
    """Return what a proof depends on besides the task: sandbox, this machine, Python, and the versions of the packages."""
    environment = describe_environment({"numpy", *task.packages})
    return {**environment, "sandbox": sandbox.name, "machine": f"{platform.node()} {environment['machine']}"}


def check_task(
    task: Task,
    sandbox: Sandbox,
    options: CheckOptions = CheckOptions(),  # noqa: B008  # immutable
    report_progress: Callable[[str], None] = lambda text: None,
    workers: int = 2,
) -> TaskProof:
    """Return what holds for a task and every fault.

    The rules, in order: reference code gives the same finite numbers twice on 16 variants; every test case has a strong metric; hiding a function
    raises where it is called and nowhere else; no stub passes; nothing leaks; wrong versions are caught; drawn masks can be solved and are not solved
    by stubs; the quick profile agrees with the full one. Later rules are left out if an earlier one makes them meaningless. Raises SandboxFault.
    """
    begin = time.monotonic()
    faults, parts = _check(task, sandbox, options, report_progress, workers)
    return TaskProof(
        slug=task.slug,
        task_sha256=hash_task(task),
        environment=describe_proof_environment(task, sandbox),
        options=options,
        seconds=round(time.monotonic() - begin, 2),
        faults=tuple(faults),
        **parts,
    )


def _check(
    task: Task,
    sandbox: Sandbox,
    options: CheckOptions,
    report_progress: Callable[[str], None],
    workers: int,
) -> tuple[list[Fault], dict[str, Any]]:
    """Return the faults, and the other fields of the proof as far as they were measured."""
    faults: list[Fault] = []
    parts: dict[str, Any] = {}
    if task.origin and task.origin.missing:
        return [Fault("gold", "task.json: imported.missing", f"needs {'; '.join(task.origin.missing)}")], parts
    variants = list_check_variants(task.slug) if task.has_variants else [BASE_VARIANT]
    report_progress(f"data of {format_count(len(variants), 'variant')}, twice")
    try:
        data, unstable = generate_twice(task, variants, sandbox)
    except TaskRunError as error:
        faults.append(Fault("gold", GENERATOR, str(error)))
        return faults, parts
    faults += unstable
    runs = TaskRuns(task, data, sandbox, workers)
    report_progress("reference code, twice")
    faults += run_gold(runs)
    if faults:
        return faults, parts
    parts["case_seconds"] = {
        case.id: max(outcome.seconds for run, outcome in runs.gold["full"].items() if run.case == case.id)
        for case in task.test_cases
    }
    parts["resident_mib"] = run_cases(task, task.code, {BASE_VARIANT: data[BASE_VARIANT]}, sandbox).resident_mib
    parts["claims"] = tuple(compare_claims(task, runs.gold["full"]))
    if task.has_variants:
        metrics, weak = measure_strength(runs)
        faults += weak
    else:
        metrics = []
        parts["untested"] = (
            "strong: there is one data set, so code cannot be tested on others and no episode is solved",
        )
    parts["metrics"] = tuple(metrics)
    report_progress("hidden functions and stubs")
    calls = trace_runs(task, data[BASE_VARIANT], sandbox)
    proofs, unneeded = check_masked_alone(runs, calls)
    proofs, passing = check_stubs(runs, proofs)
    faults += [*unneeded, *passing, *check_leaks(runs)]
    if not options.quick:
        report_progress("wrong versions")
        proofs, errors, unnoticed = check_mutants(runs, proofs, options.mutants)
        faults += unnoticed
        parts["errors"] = tuple(errors)
        report_progress("masks")
        numbers = range(len(task.functions) + 1)
        draws = [draw for n in numbers for draw in draw_masks(task, n, options.per_n, options.mode, options.seed)]
        bodies, refused = extract_reference(task, sandbox)
        masks = check_masks(runs, draws, find_called(task, calls), bodies)
        faults += refused
        faults += [Fault("masks", f"mask {mask.key}", mask.problem) for mask in masks if mask.problem]
        parts["masks"] = tuple(masks)
    if options.profiles and task.profiles:
        report_progress("profiles")
        faults += run_gold(runs, "quick")
        parts["profiles"], disagreeing = check_profiles(runs, proofs, options.mutants)
        faults += disagreeing
    parts["functions"] = tuple(proofs)
    return faults, parts
