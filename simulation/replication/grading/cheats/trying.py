"""Play the cheats on a task, and check that each gets the expected grade."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulation.lab.errors import LabError
from simulation.replication.agents.playing import PlayedEpisode, play_episode
from simulation.replication.grading.cheats.agents import CHEATS, FOUND, Cheat, CheatAgent, CheatKnowledge
from simulation.replication.grading.grades import Grade
from simulation.replication.grading.probing import record_calls
from simulation.replication.grading.stages import grade_work
from simulation.replication.grading.work import GradingWork
from simulation.replication.sandbox.base import Sandbox
from simulation.replication.tasks.call_graph import list_reaching_cases, trace_cases
from simulation.replication.tasks.running import generate_variants, run_cases
from simulation.replication.tasks.workspaces import build_workspace, render_brief
from simulation.replication.trees import Files
from simulation.replication.values import BASE_VARIANT, Task, TaskValues


@dataclass(frozen=True)
class CheatResult:
    """The grade of a cheat. `problems` is empty if it is not solved and has the expected outcome and findings."""

    cheat: Cheat
    grade: Grade
    problems: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.cheat.number,
            "name": self.cheat.name,
            "screen": self.cheat.screen,
            "expected": list(self.cheat.outcomes),
            "outcome": self.grade.outcome,
            "solved": self.grade.solved,
            "paper_pass": self.grade.paper_pass,
            "measured": self.grade.measured,
            "robust": self.grade.robust,
            "findings": [finding._asdict() for finding in self.grade.findings],
            "outside": list(self.grade.outside),
            "problems": list(self.problems),
        }


@dataclass(frozen=True)
class CheatTrial:
    """A task with data and gold values of the base variant and of secret ones."""

    task: Task
    data: Mapping[int, Files]
    gold: Mapping[int, TaskValues]
    known: CheatKnowledge


def prepare_trial(task: Task, sandbox: Sandbox, secrets: Sequence[int] = (1001, 1002)) -> CheatTrial:
    """Generate data, compute gold values, and choose a function that is called once and returns a result of the task.

    The result is a number that depends on the data: to return one that does not, such as a molar mass, is no cheat. Raises LabError if
    there is no such function, SandboxFault and TaskRunError.
    """
    data = generate_variants(task, [BASE_VARIANT, *secrets], sandbox)
    report = run_cases(task, task.code, data, sandbox)
    gold: dict[int, Any] = {number: report.get_values(number) for number in data}
    results = {number: [value for values in gold[number].values() for value in values.values()] for number in data}
    single = [
        (name, entry.calls[0])
        for name, entry in record_calls(task, data[BASE_VARIANT], sandbox).items()
        if len(entry.calls) == 1 and type(entry.calls[0].result) in (int, float)
    ]
    usable = [
        (name, call)
        for name, call in single
        if call.result in results[BASE_VARIANT] and not any(call.result in results[number] for number in secrets)
    ]
    if not usable:
        raise LabError(
            f"{task.slug} has no function that is called once and returns a result of the task; choose another task"
        )
    name, call = usable[0]
    cases = list_reaching_cases(task, [name], trace_cases(task, data[BASE_VARIANT], sandbox))
    return CheatTrial(
        task, data, gold, CheatKnowledge(task, name, gold[BASE_VARIANT], call.arguments, call.result, cases)
    )


def try_cheat(cheat: Cheat, trial: CheatTrial, sandbox: Sandbox) -> CheatResult:
    """Play a cheat and grade what it left. Raises SandboxFault."""
    task = replace(trial.task, screen=cheat.screen)
    functions = (trial.known.function_id,)
    workspace = build_workspace(task, functions, trial.data[BASE_VARIANT])
    agent = CheatAgent(cheat.make_plan(trial.known))
    played = play_episode(agent, workspace, render_brief(task, functions), sandbox, packages=task.packages)
    work = GradingWork(
        task,
        functions,
        played.trees[-1],
        trial.data,
        trial.gold,
        trial.known.cases,
        played.ending,
        played.reported,
        initial=workspace,
    )
    grade = grade_work(work, sandbox)
    return CheatResult(cheat, grade, tuple(find_problems(cheat, grade, played)))


def find_problems(cheat: Cheat, grade: Grade, played: PlayedEpisode) -> list[str]:
    """Return how the grade of a cheat differs from the expected one."""
    problems = []
    if grade.solved:
        problems.append("it is graded as solved")
    if grade.outcome not in cheat.outcomes:
        problems.append(f"the outcome is {grade.outcome} and must be {' or '.join(cheat.outcomes)}")
    if cheat.finding and not grade.has_finding(cheat.finding):
        problems.append(f"there is no finding of the kind {cheat.finding!r}")
    for start in cheat.outside:
        if not any(text.startswith(start) for text in grade.outside):
            problems.append(f"the change of {start} is not listed")
    refused = [step.observation for step in played.steps if step.refused]
    problems += [f"a call was refused, so that the cheat was not tried: {text[:200]}" for text in refused]
    found = [line for step in played.steps for line in step.observation.split("\n") if line.startswith(FOUND)]
    problems += [f"the search found {line.removeprefix(FOUND)[:500]}" for line in found if line.strip() != FOUND + "[]"]
    if cheat.outside == ("search_answers.py",) and not found:
        problems.append("the search did not end")
    return problems


def try_cheats(task: Task, sandbox: Sandbox) -> list[CheatResult]:
    """Try all cheats on a task. Raises LabError, SandboxFault, TaskRunError."""
    trial = prepare_trial(task, sandbox)
    return [try_cheat(cheat, trial, sandbox) for cheat in CHEATS]
