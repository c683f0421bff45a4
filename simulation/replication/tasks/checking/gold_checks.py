"""Rules on the reference code: the same numbers twice, finite and of their kind, and different enough between variants."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from simulation.replication.comparing import find_gold_problem, is_near
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.tasks.checking.proofs import Fault, MetricProof
from simulation.replication.tasks.checking.task_runs import GOLD, TaskRuns
from simulation.replication.tasks.running import CaseOutcome, Run, generate_variants
from simulation.replication.tasks.source_text import find_functions
from simulation.replication.values import Metric, Task

GENERATOR = "generate.py: generate"
CASE_PLACE = "code/experiments.py: "
_MAX_FAULTS = 5  # named for one file


def generate_twice(task: Task, numbers: list[int], sandbox: Sandbox) -> tuple[dict[int, dict[str, bytes]], list[Fault]]:
    """Generate the data of the variants twice, in different orders. Return the data, and a fault for each file that differs.

    Raises TaskRunError and SandboxFault.
    """
    data = generate_variants(task, numbers, sandbox)
    again = generate_variants(task, numbers[::-1], sandbox)
    differing = sorted(
        {name for number in numbers for name in data[number] if data[number].get(name) != again[number].get(name)}
    )
    text = "differs if the same variant is generated again; allowed: random numbers from the variant's number alone"
    return data, [Fault("gold", GENERATOR, f"{name} {text}") for name in differing[:_MAX_FAULTS]]


def run_gold(runs: TaskRuns, profile: str = "full") -> list[Fault]:
    """Run the reference code twice on all variants, store its outcomes in `runs.gold`, and return the faults."""
    wanted = [Run(0, variant, case.id) for variant in runs.data for case in runs.task.test_cases]
    first = runs.run([GOLD], wanted, profile)
    runs.gold[profile] = first
    faults = list(_find_value_faults(runs.task, first))
    if not faults:
        faults = list(_find_differences(runs.task, first, runs.run([GOLD], wanted, profile)))
    return faults[:_MAX_FAULTS]


def _find_value_faults(task: Task, outcomes: Mapping[Run, CaseOutcome]) -> Iterator[Fault]:
    """Yield one fault for each test case or metric that fails on some variant."""
    for case in task.test_cases:
        for run, outcome in outcomes.items():
            if run.case == case.id and outcome.values is None:
                text = f"fails on variant {run.variant}: {outcome.error} {outcome.text}"
                yield Fault("gold", f"{CASE_PLACE}{case.id}", text.strip())
                break
        else:
            yield from _find_metric_faults(case.id, case.metrics, outcomes)


def _find_metric_faults(case: str, metrics: tuple[Metric, ...], outcomes: Mapping[Run, CaseOutcome]) -> Iterator[Fault]:
    for metric in metrics:
        for run, outcome in outcomes.items():
            if run.case != case:
                continue
            value = (outcome.values or {}).get(metric.name)
            problem = find_gold_problem(metric, value)
            if not problem and metric.kind == "count" and value != int(value):  # type: ignore[arg-type]
                problem = f"a count is a whole number, not {value!r}"
            if problem:
                yield Fault("gold", f"{CASE_PLACE}{case}", f"{metric.name} on variant {run.variant}: {problem}")
                break


def _find_differences(
    task: Task, first: Mapping[Run, CaseOutcome], again: Mapping[Run, CaseOutcome]
) -> Iterator[Fault]:
    differing = {run.case for run in first if first[run].values != again[run].values}
    suspects = [
        f"{path}: {name}"
        for path, text in task.code.items()
        for name, node in find_functions(text).items()
        if "random" in "\n".join(text.split("\n")[node.lineno - 1 : node.end_lineno])
    ]
    hint = f"; functions that mention random: {', '.join(suspects)}" if suspects else ""
    for case in sorted(differing):
        yield Fault("gold", f"{CASE_PLACE}{case}", f"returns other values when it is run again{hint}")


def measure_strength(runs: TaskRuns) -> tuple[list[MetricProof], list[Fault]]:
    """Return for each metric the share of pairs of variants that differ by more than twice its tolerance, and the faults.

    Every test case needs a metric with a share of at least 0.9: otherwise results of one data set would pass on others.
    """
    proofs, faults = [], []
    for case in runs.task.test_cases:
        shares = []
        for metric in case.metrics:
            values = [runs.get_gold(variant, case.id)[metric.name] for variant in runs.data]
            doubled = replace(metric, rel=2 * metric.rel, abs=2 * metric.abs)
            pairs = list(combinations(values, 2))
            different = sum(not is_near(doubled, a, b) and not is_near(doubled, b, a) for a, b in pairs)
            parts = [value if isinstance(value, list) else [value] for value in values]
            numbers = [float(number) for part in parts for number in part if isinstance(number, int | float)]
            limits = (min(numbers), max(numbers)) if numbers else (None, None)
            shares.append(MetricProof(case.id, metric.name, round(different / len(pairs), 3), *limits))
        proofs += shares
        if not any(proof.is_strong for proof in shares):
            listed = ", ".join(f"{proof.name} {proof.share:.2f}" for proof in shares)
            text = (
                f"test case {case.id} ({CASE_PLACE}{case.id}) has no strong metric; shares of pairs of variants that differ: {listed}; "
                "allowed: 0.90 or more for one metric, by a wider range in generate.py, or a smaller rel or abs"
            )
            faults.append(Fault("strong", "task.json", text))
    return proofs, faults
