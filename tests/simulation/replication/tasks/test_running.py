"""Runs in sandboxes: data of variants, values and errors of test cases, and code that writes results itself."""

import json
import math
from pathlib import Path

import pytest

from simulation.replication.sandbox.base import SandboxResult
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.masking import fill_code, mask_code
from simulation.replication.tasks.running import (
    BAD_REPLY,
    NO_REPLY,
    NOT_RUN,
    Run,
    TaskRunError,
    generate_data,
    generate_variants,
    run_cases,
    run_trees,
    trace_runs,
)
from simulation.replication.tasks.task_files import load_task
from simulation.replication.tasks.workspaces import build_workspace
from tests.support import small_tasks

FIXTURES = Path(__file__).parents[4] / "fixtures"


@pytest.fixture(scope="module")
def sandbox():
    return open_sandbox()


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return load_task(small_tasks.write_small_task(tmp_path_factory.mktemp("tasks")))


@pytest.fixture(scope="module")
def data(task, sandbox):
    return generate_variants(task, [0, 5], sandbox)


def test_generated_data_depend_on_the_number_alone(task, data, sandbox):
    assert list(data[0]) == ["readings.json"] and data[0] != data[5]
    assert generate_data(task, 5, sandbox) == data[5]


def test_generator_that_fails_is_named_with_its_error(tmp_path, sandbox):
    generator = small_tasks.GENERATOR.replace("centre, spread", "raise OSError('no')\n    centre, spread")
    task = load_task(small_tasks.write_small_task(tmp_path, generator=generator))
    with pytest.raises(TaskRunError, match=r"(?s)small-task: generate.py failed for 0, 3: .*OSError: no"):
        generate_variants(task, [0, 3], sandbox)


def test_run_returns_the_values_of_every_variant_and_test_case(task, data, sandbox):
    report = run_cases(task, task.code, data, sandbox)
    assert [(outcome.variant, outcome.case) for outcome in report.outcomes] == [
        (0, "e1"),
        (0, "e2"),
        (5, "e1"),
        (5, "e2"),
    ]
    content = json.loads(data[5]["readings.json"])
    values = content["values"]
    mean = sum(values) / 6
    assert report.get(5, "e1").values == {"mean": pytest.approx(mean - content["offset"])}
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / 5)
    assert report.get_values(5)["e2"] == {"spread": pytest.approx(spread)}
    assert (report.tampered, report.killed) == ((), "")


def test_run_of_masked_code_raises_where_a_hidden_function_is_reached(task, data, sandbox):
    report = run_cases(task, mask_code(task, ["f2"]), {0: data[0]}, sandbox)
    assert report.get(0, "e1").values is not None
    assert (report.get(0, "e2").error, report.get(0, "e2").text) == ("NotImplementedError", "hidden")


def test_run_survives_code_that_ends_its_process_hangs_or_returns_no_values(task, data, sandbox):
    bodies = [
        *("import os\nos._exit(3)\n", "while True:\n    pass\n", "raise SystemExit\n", "return (\n"),
        "class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E\n",
        "import sys\nsys.setrecursionlimit(10**6)\nx = []\nfor _ in range(9000):\n    x = [x]\nreturn x\n",
        "import os\nif os.fork():\n    os._exit(0)\nimport time\ntime.sleep(60)\n",
        "return float('nan')\n",
    ]
    trees = []
    for body in bodies:
        code = fill_code(task, {"f2": body})
        trees.append({path: text for path, text in code.items() if text != task.code[path]})
    outcomes = run_trees(task, trees, [Run(tree, 0, "e2") for tree in range(len(trees))], data, sandbox, seconds=1)
    errors = [(outcome.error, outcome.text) for outcome in outcomes.values()]
    assert errors[:5] == [
        *((NO_REPLY, "ended with status 3"), (NO_REPLY, "stopped after 1 s"), ("SystemExit", "")),
        *(("SyntaxError", "'(' was never closed (sums.py, line 17)"), ("E", "")),
    ]
    assert outcomes[Run(5, 0, "e2")].values is None
    assert errors[6] == (NO_REPLY, "ended with status 0")
    assert math.isnan(outcomes[Run(7, 0, "e2")].values["spread"])


def test_run_reports_that_the_code_ended_the_driver(task, data, sandbox):
    ended = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nreturn 1.0\n"
    report = run_cases(task, fill_code(task, {"f1": ended}), {0: data[0]}, sandbox)
    assert report.tampered == ("the driver was ended: 2 of 2 results are missing",)
    assert {outcome.error for outcome in report.outcomes} == {NOT_RUN}


class ForgedSandbox:
    """Returns these lines from the result descriptor, whatever runs."""

    name = "forged"

    def __init__(self, *lines, killed=""):
        self.result = b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines)
        self.killed = killed

    def run(self, *args, **options):
        return SandboxResult(0, 1.0, 1.0, 9, "", 0, self.killed, {}, (), self.result)


def build_line(case, reply='{"ok": true, "values": {"mean": 1}}', **changes):
    return {"tree": 0, "variant": 0, "case": case, "reply": reply, "ended": "", "seconds": 0.5, **changes}


def test_run_never_sends_the_number_of_a_secret_variant_into_its_sandbox(task):
    class Recorder(ForgedSandbox):
        def run(self, command, files, read_only, *others, **options):
            self.sent = [*command, *read_only, *(content.decode() for content in read_only.values())]
            return super().run()

    recorder = Recorder(*(build_line(case, variant=position) for position in (0, 1) for case in ("e1", "e2")))
    report = run_cases(task, task.code, {0: {"a": b"x"}, 86_420_971: {"a": b"x"}}, recorder)
    assert report.tampered == () and report.get(86_420_971, "e1").values == {"mean": 1}
    assert "data/1/a" in recorder.sent and not any("86420971" in text for text in recorder.sent)


def test_run_accepts_exactly_one_line_for_each_test_case(task):
    good = [build_line("e1"), build_line("e2")]
    assert run_cases(task, {}, {0: {}}, ForgedSandbox(*good)).tampered == ()
    extra = [
        build_line("e1"),
        build_line("e3"),
        build_line("e2", variant=True),
        b"\xff[[\n",
        b"[" * 9000 + b"\n",
        b"half",
    ]
    report = run_cases(task, {}, {0: {}}, ForgedSandbox(*good, *extra))
    assert len(report.tampered) == 6
    assert report.tampered[0] == "the last line of the results is not complete"
    assert [outcome.values for outcome in report.outcomes] == [{"mean": 1}, {"mean": 1}]
    stopped = run_cases(task, {}, {0: {}}, ForgedSandbox(good[0], b"half", killed="wall"))
    assert (stopped.tampered, stopped.killed) == ((), "wall")
    assert (stopped.outcomes[1].error, stopped.outcomes[1].text) == (NOT_RUN, "the sandbox was stopped: wall")


@pytest.mark.parametrize(
    "reply",
    ["", "[]", "null", '{"ok": true}', '{"ok": 1, "values": {}}', '{"ok": true, "values": {"\\u0000": 1}}', "[" * 9000],
)
def test_run_reads_a_reply_that_is_not_of_its_form_as_an_error(task, reply):
    outcome = run_cases(task, {}, {0: {}}, ForgedSandbox(build_line("e1", reply)), cases=["e1"]).outcomes[0]
    assert (outcome.values, outcome.error) == (None, BAD_REPLY)


def test_run_refuses_results_that_are_no_dict(tmp_path, data, sandbox):
    experiments = small_tasks.EXPERIMENTS.replace('return {"mean":', 'return [1.0] or {"mean":')
    task = load_task(small_tasks.write_small_task(tmp_path, experiments=experiments))
    outcome = run_cases(task, task.code, {0: data[0]}, sandbox, cases=["e1"]).get(0, "e1")
    assert (outcome.error, outcome.text) == (BAD_REPLY, "a test case returns a dict of results by name")


def test_trace_counts_the_calls_of_each_function(task, data, sandbox):
    calls = trace_runs(task, data[0], sandbox)
    assert calls["e1"]["small/sums.py:remove_offset"] == 1 and "small/sums.py:Sums.spread" not in calls["e1"]
    assert calls["e2"]["small/sums.py:Sums.spread"] == 1


def test_run_script_of_the_workspace_prints_results_and_errors(task, data, sandbox):
    files = build_workspace(task, ["f2"], data[0])
    result = sandbox.run(["python3", "run.py", "--all"], files, packages=task.packages)
    assert 'RESULT e1 {"mean": ' in result.output and "NotImplementedError: hidden" in result.output
    assert result.exit == 1
    assert (
        "usage: python run.py e1 | e2 | --all"
        in sandbox.run(["python3", "run.py", "e9"], files, packages=["numpy"]).output
    )
