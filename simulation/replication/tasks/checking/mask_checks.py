"""Rules on drawn masks and on the quick profile."""

from collections.abc import Mapping, Sequence

from simulation.replication.tasks.checking.function_checks import describe
from simulation.replication.tasks.checking.mutants import list_mutants
from simulation.replication.tasks.checking.proofs import PROFILE_SHARE, Fault, FunctionProof, MaskProof, ProfileProof
from simulation.replication.tasks.checking.stubs import fill_stubs, list_stubs
from simulation.replication.tasks.checking.task_runs import GOLD, Bodies, TaskRuns
from simulation.replication.tasks.masking import HIDDEN_BODY
from simulation.replication.tasks.running import Run
from simulation.replication.values import BASE_VARIANT, MaskDraw

_HIDDEN, _FILLED, _STUBS = range(3)


def check_masks(
    runs: TaskRuns, masks: Sequence[MaskDraw], called: Mapping[str, frozenset[str]], bodies: Bodies
) -> list[MaskProof]:
    """Check each mask: hidden, all its test cases raise; filled with the reference bodies, all pass; with stubs, not all do.

    `called` has the ids of the functions that each test case calls. `bodies` are the reference bodies as grading extracts them.
    """
    cases = {
        mask.key: tuple(case.id for case in runs.task.test_cases if called[case.id].intersection(mask.functions))
        for mask in masks
    }
    versions: list[Bodies] = []
    wanted: list[Run] = []
    variants = list(runs.data)[:3]
    for mask in masks:
        first = len(versions)
        reference = {identifier: bodies[identifier] for identifier in mask.functions}
        versions += [dict.fromkeys(mask.functions, HIDDEN_BODY), reference, fill_stubs(mask.functions)]
        for case in cases[mask.key]:
            wanted += [Run(first + _HIDDEN, BASE_VARIANT, case), Run(first + _STUBS, BASE_VARIANT, case)]
            wanted += [Run(first + _FILLED, variant, case) for variant in variants]
    outcomes = runs.run(versions, wanted)
    results = []
    for index, mask in enumerate(masks):
        mask_outcomes = {run: outcome for run, outcome in outcomes.items() if run.tree // 3 == index}
        problem = ""
        for run, outcome in mask_outcomes.items():
            kind = run.tree % 3
            if kind == _HIDDEN and outcome.error != "NotImplementedError":
                problem = f"{run.case} does not raise NotImplementedError: {describe(outcome)}"
            elif kind == _FILLED and not runs.is_near(run, outcome):
                problem = (
                    f"{run.case} with the reference bodies does not pass on variant {run.variant}: {describe(outcome)}"
                )
        stubbed = [runs.is_near(run, outcome) for run, outcome in mask_outcomes.items() if run.tree % 3 == _STUBS]
        if not problem and mask.functions and (not stubbed or all(stubbed)):
            problem = "stubs pass" if stubbed else "no test case calls its functions"
        results.append(MaskProof(mask.key, mask.functions, cases[mask.key], problem))
    return results


def check_profiles(
    runs: TaskRuns, proofs: Sequence[FunctionProof], limit: int | None
) -> tuple[ProfileProof, list[Fault]]:
    """Compare the quick profile with the full one: which of reference code, masked code, stubs and mutants pass on the base variant.

    recall: of the trees that pass under full, the share that passes under quick. precision: of those that pass under quick, the
    share that passes under full. `runs.gold` must have both profiles.
    """
    versions: list[tuple[Bodies, Sequence[str]]] = [(GOLD, [case.id for case in runs.task.test_cases])]
    for proof in proofs:
        bodies = [HIDDEN_BODY, *list_stubs(runs.task, proof.id).values()]
        bodies += [mutant.body for mutant in list_mutants(runs.task, proof.id, limit)]
        versions += [({proof.id: body}, proof.cases) for body in bodies]
    wanted = [Run(tree, BASE_VARIANT, case) for tree, (_, cases) in enumerate(versions) for case in cases]
    passing: dict[str, set[int]] = {}
    for profile in ("full", "quick"):
        outcomes = runs.run([bodies for bodies, _ in versions], wanted, profile)
        failing = {run.tree for run, outcome in outcomes.items() if not runs.is_near(run, outcome, profile)}
        passing[profile] = {run.tree for run in wanted} - failing
    both = len(passing["full"] & passing["quick"])
    recall, precision = both / max(1, len(passing["full"])), both / max(1, len(passing["quick"]))
    result = ProfileProof(len(versions), round(recall, 3), round(precision, 3))
    if min(recall, precision) >= PROFILE_SHARE:
        return result, []
    text = f"quick agrees too little with full: recall {recall:.2f}, precision {precision:.2f}; allowed: {PROFILE_SHARE} or more"
    return result, [Fault("profiles", "task.json: profiles", text)]
