"""Rules on each function: it is needed, no stub passes in its place, and wrong versions of it are caught."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from simulation.replication.comparing import PAPER_REL
from simulation.replication.tasks.call_graph import CallGraph, Place, count_calls, find_static_calls, list_places
from simulation.replication.tasks.checking.mutants import WRITTEN, Mutant, list_mutants
from simulation.replication.tasks.checking.proofs import ErrorOutcome, ErrorProof, Fault, FunctionProof
from simulation.replication.tasks.checking.stubs import list_stubs
from simulation.replication.tasks.checking.task_runs import TaskRuns
from simulation.replication.tasks.masking import HIDDEN_BODY, read_gold_bodies
from simulation.replication.tasks.running import CaseOutcome, Run
from simulation.replication.values import BASE_VARIANT, Task

MIN_ERRORS = 4  # hand-written ones of a task
_SAME_REL = 1e-6  # values that differ by less count as the same


def place_function(task: Task, function_id: str) -> str:
    """Return the file and name of a function, as faults name it."""
    function = task.get_function(function_id)
    return f"{function.path}: {function.name}"


def check_masked_alone(
    runs: TaskRuns, calls: Mapping[str, Mapping[str, int]]
) -> tuple[list[FunctionProof], list[Fault]]:
    """Hide each function alone: the test cases that call it must raise NotImplementedError, and the others must not change.

    `calls` are the traced calls of each test case.
    """
    task, faults = runs.task, list[Fault]()
    counts = {case: count_calls(task, traced) for case, traced in calls.items()}
    graph, bodies = find_static_calls(task), read_gold_bodies(task)
    cases = [case.id for case in task.test_cases]
    versions = [{function.id: HIDDEN_BODY} for function in task.functions]
    outcomes = runs.run(versions, [Run(tree, BASE_VARIANT, case) for tree in range(len(versions)) for case in cases])
    proofs = []
    for tree, function in enumerate(task.functions):
        place = place_function(task, function.id)
        relevant = tuple(case for case in cases if function.id in counts[case])
        raising = [case for case in relevant if outcomes[Run(tree, BASE_VARIANT, case)].error == "NotImplementedError"]
        proofs.append(
            FunctionProof(
                id=function.id,
                name=function.name,
                lines=sum(bool(line.strip()) for line in bodies[function.id].split("\n")),
                calls=sum(counts[case].get(function.id, 0) for case in cases),
                depth=_find_depth(graph, list_places(task)[function.id], cases),
                cases=relevant,
                raises=bool(relevant) and len(raising) == len(relevant),
            )
        )
        if not relevant:
            faults.append(Fault("essential", place, "no test case calls it"))
        for case in cases:
            outcome = outcomes[Run(tree, BASE_VARIANT, case)]
            if case in relevant and case not in raising:
                text = f"{case} calls it, but does not raise NotImplementedError when it is hidden: {describe(outcome)}"
                faults.append(Fault("essential", place, text))
            elif case not in relevant and outcome.values != runs.get_gold(BASE_VARIANT, case):
                text = f"{case} does not call it, but changes when it is hidden: {describe(outcome)}"
                faults.append(Fault("essential", place, text))
    return proofs, faults


def describe(outcome: CaseOutcome) -> str:
    """Return an outcome as part of a message."""
    return "it returns values" if outcome.values is not None else f"{outcome.error} {outcome.text}".strip()[:200]


def _find_depth(graph: CallGraph, place: Place, cases: Sequence[str]) -> int:
    """Return the least number of calls from a test case to a function by the static call graph; 0 if there is no path."""
    pending = deque((Place("code/experiments.py", case), 0) for case in cases)
    seen = {start for start, _ in pending}
    while pending:
        current, depth = pending.popleft()
        if current == place:
            return depth
        for callee in graph.get(current, frozenset()) - seen:
            seen.add(callee)
            pending.append((callee, depth + 1))
    return 0


def check_stubs(runs: TaskRuns, proofs: Sequence[FunctionProof]) -> tuple[list[FunctionProof], list[Fault]]:
    """Put each stub in place of each function: a test case that calls it must not pass on the base variant and on two others."""
    stubs = [(proof, name, body) for proof in proofs for name, body in list_stubs(runs.task, proof.id).items()]
    versions = [{proof.id: body} for proof, _, body in stubs]
    pairs = [(tree, case) for tree, (proof, _, _) in enumerate(stubs) for case in proof.cases]
    for variant in list(runs.data)[:3]:
        wanted = [Run(tree, variant, case) for tree, case in pairs]
        outcomes = runs.run(versions, wanted)
        pairs = [(run.tree, run.case) for run in wanted if runs.is_near(run, outcomes[run])]
    passing: dict[str, dict[str, list[str]]] = {}
    for tree, case in pairs:
        proof, name, _ = stubs[tree]
        passing.setdefault(proof.id, {}).setdefault(name, []).append(case)
    faults = [
        Fault("stubs", place_function(runs.task, identifier), f"the stub {name} passes {', '.join(cases)}")
        for identifier, by_name in passing.items()
        for name, cases in by_name.items()
    ]
    return [replace(proof, stubs_passing=tuple(passing.get(proof.id, ()))) for proof in proofs], faults


def check_mutants(
    runs: TaskRuns, proofs: Sequence[FunctionProof], limit: int | None
) -> tuple[list[FunctionProof], list[ErrorProof], list[Fault]]:
    """Run wrong versions of each function, at most `limit` generic ones each. One must be caught.

    Hand-written ones must run on the base data and change a result, an obvious one by more than 5 % on the base data.
    """
    cases = {proof.id: proof.cases for proof in proofs}
    mutants = [mutant for proof in proofs for mutant in list_mutants(runs.task, proof.id, limit)]
    outcomes, near_paper = classify_mutants(runs, mutants, cases)
    counts = {proof.id: Counter[str]() for proof in proofs}
    for mutant, outcome in zip(mutants, outcomes, strict=True):
        counts[mutant.function][outcome] += 1
    errors = sorted(
        (
            ErrorProof(mutant.number, mutant.function, runs.task.errors[mutant.number].error_type, outcome, near)
            for mutant, outcome, near in zip(mutants, outcomes, near_paper, strict=True)
            if mutant.operator == WRITTEN
        ),
        key=lambda error: error.index,
    )
    faults = [
        Fault(
            "mutants",
            place_function(runs.task, proof.id),
            "no wrong version of it is caught: "
            + (", ".join(f"{number} {outcome}" for outcome, number in counts[proof.id].items()) or "there is none"),
        )
        for proof in proofs
        if not counts[proof.id]["caught"]
    ]
    reasons = {"crashes": "does not run on the base data", "same": "changes no result on any variant"}
    faults += [
        Fault("mutants", f"mutants.json: [{error.index}]", f"the error in {error.function} {reasons[error.outcome]}")
        for error in errors
        if error.outcome in reasons
    ]
    faults += [
        Fault(
            "mutants",
            f"mutants.json: [{error.index}]",
            f"the error in {error.function} is not obvious: on the base data, every result is within {PAPER_REL * 100:g} % of the reference; "
            "allowed: an obvious error that makes a result wrong by more, or error_type subtle",
        )
        for error in errors
        if error.error_type == "obvious" and error.outcome not in reasons and error.passes_paper
    ]
    types = Counter(error.error_type for error in errors)
    is_short = len(errors) < MIN_ERRORS or not types["obvious"] or not types["subtle"]
    if is_short and not runs.task.origin:  # an imported task has no hand-written errors
        text = f"has {types['obvious']} obvious and {types['subtle']} subtle errors; allowed: {MIN_ERRORS} or more, of both types"
        faults.append(Fault("mutants", "mutants.json", text))
    return [replace(proof, mutants=dict(counts[proof.id])) for proof in proofs], errors, faults


def classify_mutants(
    runs: TaskRuns, mutants: Sequence[Mutant], cases: Mapping[str, Sequence[str]]
) -> tuple[list[ErrorOutcome], list[bool]]:
    """Return what each mutant does, and whether its base results are within 5 % of gold.

    crashes: a test case fails on the base data. caught: a result is not near gold on the base variant or on two others. passes: results change and
    stay near. same: nothing changes, for hand-written errors on any variant.
    """
    versions = [{mutant.function: mutant.body} for mutant in mutants]
    results: list[ErrorOutcome] = ["same"] * len(mutants)
    near_paper = [True] * len(mutants)
    for index, variant in enumerate(runs.data):
        open_trees = [
            tree
            for tree, mutant in enumerate(mutants)
            if (results[tree] in ("same", "passes") and index < 3)
            or (results[tree] == "same" and mutant.operator == WRITTEN)
        ]
        wanted = [Run(tree, variant, case) for tree in open_trees for case in cases[mutants[tree].function]]
        for run, outcome in runs.run(versions, wanted).items():
            if index == 0:
                near_paper[run.tree] &= runs.is_near(run, outcome, rel=PAPER_REL)
            if outcome.values is None:
                # A mutant that runs on the base data may fail on others, which shows it as well as a wrong number.
                results[run.tree] = "crashes" if index == 0 else "caught"
            elif results[run.tree] == "crashes" or results[run.tree] == "caught":
                continue
            elif not runs.is_near(run, outcome):
                results[run.tree] = "caught"
            elif not runs.is_near(run, outcome, rel=_SAME_REL):
                results[run.tree] = "passes"
    return results, near_paper
