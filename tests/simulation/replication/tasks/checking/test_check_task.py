"""Checks of a whole task: what is measured on a valid one, and that every planted fault is named with file and function."""

import io
import json
import shutil
from dataclasses import replace

import pytest
from django.core.management import CommandError, call_command

from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.checking.check_task import check_task
from simulation.replication.tasks.checking.extraction_checks import extract_reference
from simulation.replication.tasks.checking.gold_checks import generate_twice, measure_strength, run_gold
from simulation.replication.tasks.checking.mask_checks import check_masks, check_profiles
from simulation.replication.tasks.checking.proofs import CheckOptions, FunctionProof, TaskProof
from simulation.replication.tasks.checking.task_runs import TaskRuns, list_check_variants
from simulation.replication.tasks.mask_draws import draw_masks
from simulation.replication.tasks.masking import read_gold_bodies
from simulation.replication.tasks.running import CaseOutcome, Run, generate_data, generate_variants, run_cases
from simulation.replication.tasks.task_files import load_task
from tests.support import small_tasks


@pytest.fixture(scope="module")
def sandbox():
    return open_sandbox()


def run_command(*arguments):
    out, code = io.StringIO(), 0
    try:
        call_command("check_tasks", *arguments, stdout=out, stderr=io.StringIO())
    except CommandError as error:
        code = error.returncode
    return out.getvalue(), code


def test_check_tasks_measures_a_valid_task_once_and_stores_the_proof(tmp_path, settings):
    settings.VAR_DIR = tmp_path / "var"
    small_tasks.write_small_task(tmp_path / "replication")
    arguments = ("--task", "all", "--directory", str(tmp_path / "replication"), "--mutants", "4", "--json")
    output, code = run_command(*arguments)
    report = json.loads(output)
    assert (code, report["faults"]) == (0, [])
    counts = {
        name: report[name] for name in ("tasks", "functions", "essential", "stubs_passing", "masks_refused", "leaks")
    }
    assert counts == {"tasks": 1, "functions": 2, "essential": 2, "stubs_passing": 0, "masks_refused": 0, "leaks": 0}
    proof = TaskProof.from_json(report["proofs"][0])
    first, second = proof.functions
    assert (first.lines, first.calls, first.depth, first.cases) == (2, 1, 1, ("e1",))
    assert (second.name, second.cases, second.depth) == ("Sums.spread", ("e2",), 1)
    # With n instead of n - 1, six readings have a spread that is too small by the factor sqrt(5/6) = 0.91.
    assert [(error.outcome, error.passes_paper) for error in proof.errors] == [
        *(("caught", False), ("caught", False), ("passes", True), ("caught", False)),
    ]
    assert [(mask.key, mask.cases) for mask in proof.masks] == [
        *(("u0-001", ()), ("u1-001", proof.masks[1].cases), ("u2-001", ("e1", "e2"))),
    ]
    assert all(metric.is_strong for metric in proof.metrics)
    assert proof.case_seconds["e1"] > 0 and proof.resident_mib > 0

    again, _ = run_command(*arguments)
    assert json.loads(again)["proofs"] == report["proofs"]  # with the same seconds, so nothing ran
    lines, code = run_command(*arguments[:-1], "--values")
    assert code == 0 and "small-task: valid; 3 masks" in lines
    mean = proof.metrics[0]
    assert f"\n  e1.mean: {mean.low:.4g} to {mean.high:.4g}" in lines


def test_check_tasks_names_faults_of_every_folder_and_exits_with_one(tmp_path, settings):
    settings.VAR_DIR = tmp_path / "var"
    errors = small_tasks.build_errors()
    errors[0]["body"] = "return (values - offset) * 1.02\n"  # declared obvious
    errors[2]["body"] = "return values + offset\n"
    small_tasks.write_small_task(tmp_path, errors=json.dumps(errors))
    broken = tmp_path / "broken-task"
    shutil.copytree(tmp_path / "small-task", broken)
    (broken / "code/generate.py").write_text(small_tasks.GENERATOR)
    arguments = ("--task", "all", "--directory", str(tmp_path), "--mutants", "0", "--profiles")
    output, code = run_command(*arguments, "--json")
    report = json.loads(output)
    assert (code, report["tasks"]) == (1, 1)
    generator, slug, error = report["faults"]
    assert generator.endswith("broken-task/code/generate.py: the generator must not be in code/, which agents see")
    assert "broken-task/task.json" in slug and "allowed: the folder: broken-task" in slug
    assert error.startswith(
        "small-task/mutants.json: [0]: the error in f1 is not obvious: on the base data, every result is within 5 %"
    )
    lines, code = run_command(*arguments)  # from the stored proof
    assert code == 1 and f"FAULT {generator}\n" in lines and "the task has no quick profile" in lines


def test_check_task_names_each_fault_with_its_file_and_function(tmp_path, sandbox):
    module = small_tasks.MODULE + (
        '\n\ndef never(x: float) -> float:\n    """Return x."""\n    return x\n'
        '\n\ndef scale(x: float) -> float:\n    """Return the scale."""\n    return 1.0\n'
    )
    experiments = small_tasks.EXPERIMENTS.replace("import Sums, ", "import Sums, scale, ") + (
        '\n\ndef e3(folder: Path) -> dict[str, float]:\n    """Return a constant."""\n    return {"constant": 7.0 * scale(2.0)}\n'
    )
    data = small_tasks.build_task_json()
    data["functions"] += [
        {"id": f"f{number}", "path": "code/small/sums.py", "name": name}
        for number, name in ((3, "never"), (4, "scale"))
    ]
    data["test_cases"].append(
        {"id": "e3", "title": "Constant", "text": "Report it.", "metrics": [{"name": "constant"}]}
    )
    folder = small_tasks.write_small_task(tmp_path, module=module, experiments=experiments, task=json.dumps(data))
    task = load_task(folder)
    base = generate_data(task, 0, sandbox)
    gold = run_cases(task, task.code, {0: base}, sandbox, cases=["e1"]).get(0, "e1").values
    task = replace(
        task,
        paper=task.paper + f"\nThe mean was {gold['mean']:.4g} in our hands.\n",
        code={**task.code, "code/small/simulate.py": small_tasks.GENERATOR},
    )
    proof = check_task(task, sandbox, CheckOptions(quick=True))
    assert sorted((fault.rule, fault.place) for fault in proof.faults) == [
        ("essential", "code/small/sums.py: never"),
        ("leaks", "code/small/simulate.py"),
        ("leaks", "paper.md:13"),
        ("strong", "task.json"),
        ("stubs", "code/small/sums.py: scale"),
    ]
    texts = {fault.rule: str(fault) for fault in proof.faults}
    assert texts["stubs"] == "code/small/sums.py: scale: the stub 1.0 passes e3"
    assert "code/experiments.py: e3) has no strong metric" in texts["strong"] and "constant 0.00" in texts["strong"]
    assert [function.is_essential(with_mutants=False) for function in proof.functions] == [True, True, False, False]


def test_check_task_names_a_generator_that_is_not_seeded_by_the_number_or_fails(tmp_path, sandbox):
    generator = small_tasks.GENERATOR.replace("np.random.PCG64(number)", "np.random.PCG64()")
    task = load_task(small_tasks.write_small_task(tmp_path, generator=generator))
    _, faults = generate_twice(task, [0, 1], sandbox)
    assert [str(fault) for fault in faults] == [
        "generate.py: generate: readings.json differs if the same variant is generated again; "
        "allowed: random numbers from the variant's number alone"
    ]
    generator = small_tasks.GENERATOR.replace("(folder /", "(folder / 'missing' /")
    task = load_task(small_tasks.write_small_task(tmp_path, generator=generator))
    proof = check_task(task, sandbox)
    assert [(fault.rule, fault.place) for fault in proof.faults] == [("gold", "generate.py: generate")]
    assert "FileNotFoundError" in proof.faults[0].text


def test_check_task_names_results_that_do_not_repeat_or_are_no_numbers(tmp_path, sandbox):
    module = small_tasks.MODULE.replace("centre = np.mean(values)", "centre = np.random.default_rng().normal()")
    task = load_task(small_tasks.write_small_task(tmp_path, module=module))
    data = generate_variants(task, [0, 1], sandbox)
    assert [str(fault) for fault in run_gold(TaskRuns(task, data, sandbox))] == [
        "code/experiments.py: e2: returns other values when it is run again; "
        "functions that mention random: code/small/sums.py: Sums.spread"
    ]
    module = small_tasks.MODULE.replace("return values - offset", "return values * (np.inf if offset < 99 else 1)")
    task = load_task(small_tasks.write_small_task(tmp_path, module=module))
    faults = run_gold(TaskRuns(task, data, sandbox))
    assert [str(fault) for fault in faults] == [
        "code/experiments.py: e1: mean on variant 0: a value is a finite number below 1e300, a text or a list of numbers"
    ]


class FakeRuns(TaskRuns):
    """Runs nothing: reference code returns 1 on every variant, every other version what `values` returns for (bodies, profile)."""

    def __init__(self, task, variants, values=None):
        super().__init__(task, {variant: {} for variant in variants}, None)
        self.values = values
        cases = [(variant, case.id) for variant in variants for case in task.test_cases]
        outcomes = {Run(0, *pair): CaseOutcome(*pair, {"mean": 1.0, "spread": 1.0}) for pair in cases}
        self.gold = {"full": outcomes, "quick": outcomes}

    def run(self, versions, runs, profile="full"):
        return {run: self.values(versions[run.tree], run, profile) for run in runs}


@pytest.fixture
def task(tmp_path):
    return load_task(small_tasks.write_small_task(tmp_path))


def test_strong_share_counts_pairs_that_differ_by_more_than_twice_the_tolerance(task):
    runs = FakeRuns(task, [0, 1, 2, 3])
    for variant, mean in enumerate((1.0, 1.09, 2.0, 3.0)):
        runs.gold["full"][Run(0, variant, "e1")] = CaseOutcome(variant, "e1", {"mean": mean})
    proofs, faults = measure_strength(runs)
    # Of six pairs, 1.0 and 1.09 differ by less than twice 5 %.
    assert [(proof.name, proof.share, proof.low, proof.high) for proof in proofs] == [
        *(("mean", 0.833, 1.0, 3.0), ("spread", 0.0, 1.0, 1.0)),
    ]
    assert len(faults) == 2


def list_proofs(task):
    return [
        FunctionProof(function.id, function.name, 1, 1, 1, (case,), True)
        for function, case in zip(task.functions, ("e1", "e2"), strict=True)
    ]


def return_values(run, number):
    return CaseOutcome(run.variant, run.case, {"mean": number, "spread": number})


def test_profiles_disagree_if_the_quick_one_passes_what_the_full_one_does_not(task):
    runs = FakeRuns(
        task, [0], lambda bodies, run, profile: return_values(run, 1.0 if profile == "quick" or not bodies else 2.0)
    )
    proof, faults = check_profiles(runs, list_proofs(task), limit=0)
    # Reference code, and for each of two functions: hidden, five stubs, two hand-written errors.
    assert (proof.trees, proof.recall, proof.precision) == (17, 1.0, round(1 / 17, 3))
    assert "recall 1.00, precision 0.06" in faults[0].text


def test_masks_are_refused_if_reference_bodies_fail_stubs_pass_or_nothing_raises(task):
    masks = draw_masks(task, 1, 1)

    def answer(hidden, filled, stubbed):
        def values(bodies, run, profile):
            text = "".join(bodies.values())
            if "NotImplementedError" in text:
                return CaseOutcome(run.variant, run.case, None, hidden, "hidden") if hidden else return_values(run, 1.0)
            return return_values(run, stubbed if "return 0.0" in text else filled)

        called = {"e1": frozenset(["f1"]), "e2": frozenset(["f2"])}
        [mask] = check_masks(FakeRuns(task, [0, 1, 2], values), masks, called, read_gold_bodies(task))
        return mask.problem

    assert answer("NotImplementedError", 1.0, 2.0) == ""
    assert "does not raise NotImplementedError: it returns values" in answer("", 1.0, 2.0)
    assert "with the reference bodies does not pass on variant 2" in answer("NotImplementedError", 3.0, 2.0)
    assert answer("NotImplementedError", 1.0, 1.0) == "stubs pass"


def test_reference_code_that_the_screen_refuses_is_named(tmp_path, sandbox):
    module = small_tasks.MODULE.replace(
        "centre = np.mean(values)", "centre = np.mean(values) + 0 * len(open('/etc/hostname').read())"
    )
    task = load_task(small_tasks.write_small_task(tmp_path, module=module))
    bodies, faults = extract_reference(task, sandbox)
    assert bodies["f1"].strip() == "return values - offset"
    assert [str(fault) for fault in faults] == [
        "code/small/sums.py: Sums.spread: the screen of grading finds the name open"
    ]


def test_check_variants_begin_with_the_base_and_are_the_same_for_a_task():
    numbers = list_check_variants("qpcr-titre")
    assert len(set(numbers)) == 16 and numbers[0] == 0 and numbers == list_check_variants("qpcr-titre")
    assert set(numbers[1:]).isdisjoint(list_check_variants("moi-poisson"))


def test_draw_masks_prints_every_mask_and_refuses_a_number_that_no_task_has(tmp_path):
    small_tasks.write_small_task(tmp_path)
    out = io.StringIO()
    call_command("draw_masks", "--task", "small-task", "--directory", str(tmp_path), "--n", "0-2", stdout=out)
    assert out.getvalue().splitlines()[0] == "small-task u0-001: nothing hidden"
    assert out.getvalue().splitlines()[-1] == "4 masks of 4 (n = 0: 1, n = 1: 2, n = 2: 1)"
    with pytest.raises(CommandError, match="--n: 3 is more than the 2 functions of small-task"):
        call_command("draw_masks", "--task", "all", "--directory", str(tmp_path), "--n", "3", stdout=out)
    with pytest.raises(CommandError, match=r"There is no task 'other'\. Tasks: small-task"):
        call_command("draw_masks", "--task", "other", "--directory", str(tmp_path), stdout=out)
