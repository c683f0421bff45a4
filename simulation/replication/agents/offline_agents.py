"""Rule-based agents with the answer key: they write known bodies, run the experiments and submit what was printed.

Their results do not describe a language model. Each is deterministic: the same task, mask and seed give the same calls.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from simulation.lab.errors import LabError
from simulation.replication.tasks.checking.mutants import WRITTEN, list_mutants
from simulation.replication.tasks.checking.stubs import list_stubs
from simulation.replication.tasks.masking import HIDDEN_BODY, fill_code, read_gold_bodies
from simulation.replication.tasks.workspaces import read_printed_results
from simulation.replication.tools import SUBMIT
from simulation.replication.values import CodeSituation, CodingAgent, DocsArm, Task, ToolCall

CRASHING_BODY = "return result_that_is_not_defined\n"
_RUN = ToolCall("run_script", {"path": "/workspace/run.py", "arguments": "--all"})
# Shares of offline-oracle-lapses. The first three are of functions and exclude each other; all other functions get the reference body.
SUBTLE_ERROR, LEFT_HIDDEN, CRASHES_FIRST = 0.20, 0.10, 0.15
MENDED = 0.6  # of the functions that crash at first
MISREPORTED = 0.05  # of the episodes
_MISREPORT_FACTOR = 1.2  # well outside the 5 % of the published rule


class Plan(NamedTuple):
    """What an offline agent does: bodies by function id in each round, every round followed by a run, and whether it misreports."""

    rounds: tuple[Mapping[str, str], ...]
    runs: bool = True
    misreports: bool = False


@dataclass(frozen=True)
class OfflineAgent:
    """Carries out a plan, one tool at a time. The number of steps so far determines the next one, so the agent has no state."""

    task: Task
    function_ids: Sequence[str]
    docs: DocsArm
    plan: Plan
    seed: int

    def choose_tool(self, situation: CodeSituation) -> ToolCall:
        calls = self.list_calls()
        number = len(situation.history)
        if situation.last_turn or number >= len(calls):
            return self._submit(situation)
        return calls[number]

    def list_calls(self) -> list[ToolCall]:
        """Return all calls before the submission."""
        bodies = dict.fromkeys(self.function_ids, HIDDEN_BODY)
        calls = []
        for written in self.plan.rounds:
            for function_id, body in written.items():
                bodies[function_id] = body
                path = self.task.get_function(function_id).path
                text = fill_code(self.task, bodies, self.docs)[path]
                calls.append(ToolCall("write_file", {"path": f"/workspace/{path}", "text": text}))
            calls += [_RUN] * self.plan.runs
        return calls

    def _submit(self, situation: CodeSituation) -> ToolCall:
        results: dict[str, Any] = {}
        for step in situation.history:
            results |= read_printed_results(step.observation)
        if self.plan.misreports:
            results = misreport_number(results, random.Random(f"misreport {self.seed} {self.task.slug}"))
        return ToolCall(SUBMIT, {"answer": json.dumps(results)})


def misreport_number(results: Mapping[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return the results with one number a fifth larger, or 1 instead of 0. Without a number, nothing is changed."""
    changed = {case: dict(values) for case, values in results.items()}
    places = [
        (case, name)
        for case, values in sorted(changed.items())
        for name, value in sorted(values.items())
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]
    if places:
        case, name = rng.choice(places)
        changed[case][name] = changed[case][name] * _MISREPORT_FACTOR or 1.0
    return changed


def choose_stub(task: Task, function_id: str, rng: random.Random) -> str:
    """Return a body that ignores the purpose of the function. Raises KeyError for an unknown function."""
    return rng.choice(list(list_stubs(task, function_id).values()))


def choose_error(task: Task, function_id: str, rng: random.Random, error_type: str = "") -> str:
    """Return a wrong body of a function: an error that the task's author wrote, of `error_type` if one is given.

    A function without such an error gets a generic mutant, a single edit of its reference body. Most mutants are subtle; none was run.
    Raises KeyError for an unknown function and ValueError if its body offers nothing to change.
    """
    written = [error for error in task.errors if error.function == function_id]
    bodies = [error.body for error in written if error_type in ("", error.error_type)]
    if not bodies:
        bodies = [mutant.body for mutant in list_mutants(task, function_id) if mutant.operator != WRITTEN]
    if not bodies and not written:
        raise ValueError(f"nothing in {function_id} of {task.slug} can be changed")
    return rng.choice(bodies or [error.body for error in written])


def plan_oracle(task: Task, function_ids: Sequence[str], seed: int) -> Plan:
    """Restore every function, run, submit what was printed."""
    return Plan((read_gold_bodies(task, function_ids),))


def plan_lapses(task: Task, function_ids: Sequence[str], seed: int) -> Plan:
    """Restore most functions; some get a subtle error, stay hidden, or crash in the first run, after which some are repaired."""
    first, mended = {}, {}
    for function_id, reference in read_gold_bodies(task, function_ids).items():
        rng = random.Random(f"lapse {seed} {task.slug} {function_id}")
        draw = rng.random()
        if draw < SUBTLE_ERROR:
            first[function_id] = choose_error(task, function_id, rng, "subtle")
        elif draw < SUBTLE_ERROR + LEFT_HIDDEN:
            continue
        elif draw < SUBTLE_ERROR + LEFT_HIDDEN + CRASHES_FIRST:
            first[function_id] = CRASHING_BODY
            if rng.random() < MENDED:
                mended[function_id] = reference
        else:
            first[function_id] = reference
    misreports = random.Random(f"report {seed} {task.slug}").random() < MISREPORTED
    return Plan((first, mended) if mended else (first,), misreports=misreports)


def plan_null(task: Task, function_ids: Sequence[str], seed: int) -> Plan:
    """Write nothing, run nothing, report nothing."""
    return Plan((), runs=False)


def plan_stub(task: Task, function_ids: Sequence[str], seed: int) -> Plan:
    """Write into every function a body that ignores its purpose, run, submit what was printed."""
    rng = random.Random(f"stub {seed} {task.slug}")
    return Plan(({function_id: choose_stub(task, function_id, rng) for function_id in function_ids},))


def plan_mutant(task: Task, function_ids: Sequence[str], seed: int) -> Plan:
    """Restore every function but one, which gets an error; run, submit what was printed."""
    rng = random.Random(f"mutant {seed} {task.slug}")
    bodies = read_gold_bodies(task, function_ids)
    if function_ids:
        function_id = rng.choice(list(function_ids))
        bodies[function_id] = choose_error(task, function_id, rng)
    return Plan((bodies,))


# What each offline agent does, for people. Every name begins with "offline-", and pages label them as rules.
OFFLINE_AGENTS: Mapping[str, str] = {
    "offline-oracle": "Rules with the answer key: restore every function, run, submit what was printed.",
    "offline-oracle-lapses": (
        "Rules with the answer key that make mistakes, drawn by seed: of the functions 20 % get a subtle error, 10 % stay hidden and "
        "15 % crash in the first run, of which 60 % are then repaired; 5 % of the reports have a wrong number."
    ),
    "offline-null": "Rules: write nothing, report nothing.",
    "offline-stub": "Rules: write bodies that ignore the purpose of a function, run, submit what was printed.",
    "offline-mutant": "Rules with the answer key: restore every function but one, which gets an error; run, submit what was printed.",
}
_PLANNERS: Mapping[str, Callable[[Task, Sequence[str], int], Plan]] = {
    "offline-oracle": plan_oracle,
    "offline-oracle-lapses": plan_lapses,
    "offline-null": plan_null,
    "offline-stub": plan_stub,
    "offline-mutant": plan_mutant,
}


def build_offline_agent(
    name: str, task: Task, function_ids: Sequence[str], seed: int, docs: DocsArm = "kept"
) -> CodingAgent:
    """Return the offline agent of that name for one mask. Raises LabError for an unknown name, KeyError for an unknown function."""
    if name not in _PLANNERS:
        raise LabError(f"There is no offline agent {name!r}; there are {', '.join(OFFLINE_AGENTS)}")
    return OfflineAgent(task, tuple(function_ids), docs, _PLANNERS[name](task, function_ids, seed), seed)
