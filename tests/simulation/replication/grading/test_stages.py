"""Whole gradings in the sandbox, and stages that are stored and resumed."""

import json
from dataclasses import replace

import pytest

from simulation.replication.grading import (
    Grade,
    GradingStopped,
    GradingWork,
    Stages,
    choose_stage,
    conclude,
    extract_patch,
    measure,
    run_stage,
)
from simulation.replication.grading.probing import record_calls
from simulation.replication.sandbox.base import SandboxFault, SandboxResult
from tests.support.grading_task import TASK, find_cases

CURVES = "code/assay/curves.py"
GOLD_FILES = {path: text.encode() for path, text in TASK.code.items()}


class CountingSandbox:
    """Passes runs on, and keeps everything that went in."""

    def __init__(self, sandbox):
        self.sandbox, self.name, self.inputs = sandbox, sandbox.name, []

    def run(self, command, files, read_only=None, *arguments, **options):
        self.inputs.append({**files, **(read_only or {})})
        return self.sandbox.run(command, files, read_only, *arguments, **options)


def store(stages):
    return Stages.from_json(json.loads(json.dumps(stages.to_json(), allow_nan=False)))


def test_grading_can_be_stored_and_resumed_after_every_stage(room):
    sandbox = CountingSandbox(room.sandbox)
    functions = ("f2", "f3", "f5")
    cases, reported = tuple(find_cases(functions)), json.dumps(room.gold[0])
    work = GradingWork(
        TASK,
        functions,
        GOLD_FILES,
        room.data,
        room.gold,
        cases,
        reported=reported,
        profile="quick",
        initial=room.mask(functions),
    )
    recording = record_calls(TASK, room.data[0], room.sandbox)
    stages, names = Stages(), []
    while stage := choose_stage(work, stages):
        before = len(sandbox.inputs)
        stages = store(run_stage(stage, work, stages, sandbox, recording))
        names.append(stage)
        assert len(sandbox.inputs) == before + 1  # one sandbox a stage
    assert names == ["extract", "measure", "perturb", "probe"]
    grade = conclude(work, stages)
    assert (grade.outcome, grade.paper_pass, grade.measured, grade.robust) == ("solved", True, True, True)
    assert grade.findings == () == grade.outside
    assert {name: (entry.matched, entry.calls) for name, entry in grade.probes.functions.items()} == {
        "f2": (1, 1), "f3": (2, 2), "f5": (1, 1),
    }  # fmt: skip
    assert Grade.from_json(json.loads(json.dumps(grade.to_json(), allow_nan=False))) == grade
    _, _, perturbed, _ = sandbox.inputs
    assert {path.split("/")[1] for path in perturbed if path.startswith("data/")} == {
        "0",
        "1",
    }  # positions, not numbers


def test_grading_sends_neither_reference_bodies_nor_gold_values_into_a_sandbox_of_an_agents_code(room):
    sandbox = CountingSandbox(room.sandbox)
    files = room.mask(["f2"])
    files[CURVES] = files[CURVES].replace(b'raise NotImplementedError("hidden")', b"return 1.25, 2.5", 1)
    work = GradingWork(TASK, ("f2",), files, room.data, room.gold, ("e1", "e3"))
    recording = record_calls(TASK, room.data[0], room.sandbox)
    stages = Stages()
    while stage := choose_stage(work, stages):
        stages = run_stage(stage, work, stages, sandbox, recording)
    assert len(sandbox.inputs) == 4
    numbers = [repr(value) for values in room.gold.values() for case in values.values() for value in case.values()]
    numbers = [number.encode() for number in numbers if len(number) > 6]
    for inputs in sandbox.inputs:
        everything = b"\n".join(inputs.values())
        assert b"slope = (centred *" not in everything
        assert b"def generate(" not in everything
        assert not [number for number in numbers if number in everything and number not in TASK.generator.encode()]


def test_grading_of_no_hidden_function_runs_the_reference_and_compares_the_report(room):
    assert room.grade((), GOLD_FILES).outcome == "solved"
    changed = {**GOLD_FILES, "code/experiments.py": b"def e1(folder): return {}", "notes.txt": b""}
    grade = room.grade((), changed, reported={}, initial=GOLD_FILES)
    assert (grade.outcome, grade.outside) == ("unreported", ("code/experiments.py: was changed", "notes.txt: is new"))


def test_grading_finds_errors_that_cancel_by_probing_each_function(room):
    """The signal is doubled and halved again, so that every result is right and two functions are wrong."""
    files = room.mask(["f1", "f2"])
    hidden = b'raise NotImplementedError("hidden")'
    files[CURVES] = files[CURVES].replace(hidden, b"return 2 * (np.asarray(signal) - np.mean(blank))", 1)
    files[CURVES] = files[CURVES].replace(hidden, b"a, b = np.polyfit(x, y, 1)\n    return a / 2, b / 2", 1)
    grade = room.grade(["f1", "f2"], files, cases=["e1"])
    assert grade.solved
    assert grade.probes.functions["f1"].matched == grade.probes.functions["f2"].matched == 0


def test_measuring_repeats_a_run_that_was_stopped_by_the_clock_once(room):
    sandbox = CountingSandbox(room.sandbox)
    task = replace(TASK, seconds=0.5)
    files = room.mask(["f3"])
    files[CURVES] = files[CURVES].replace(b'raise NotImplementedError("hidden")', b"while True: pass", 1)
    extraction = extract_patch(task, ["f3"], files, room.sandbox)
    measured = measure(GradingWork(task, ("f3",), files, room.data, room.gold, ("e2",)), extraction, [0], sandbox)
    assert len(sandbox.inputs) == 2
    assert measured.errors == {0: {"e2": "no reply: stopped after 0.5 s"}}
    assert not measured.is_usable


def test_grading_passes_on_a_fault_of_the_sandbox_and_a_stop(room):
    class FaultySandbox:
        name = "faulty"

        def __init__(self, killed):
            self.killed = killed

        def run(self, *arguments, **options):
            if not self.killed:
                raise SandboxFault("could not start")
            return SandboxResult(None, 0, 0, 0, "", 0, self.killed, None, (), b"")

    work = GradingWork(TASK, ("f2",), room.mask(["f2"]), room.data, room.gold, ("e1",))
    with pytest.raises(SandboxFault):
        run_stage("extract", work, Stages(), FaultySandbox(""))
    with pytest.raises(GradingStopped):
        run_stage("extract", work, Stages(), FaultySandbox("stop"))
    with pytest.raises(ValueError, match="measure needs the result of extract"):
        run_stage("measure", work, Stages(), FaultySandbox(""))
