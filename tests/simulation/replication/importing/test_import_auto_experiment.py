"""Import of the AutoExperiment format: what is read, what is listed and not guessed, and an imported task from import to grade."""

import io
import json
import os
from dataclasses import replace

import pytest
from django.core.management import CommandError, call_command

from simulation.code_runs import tasks as stored_tasks
from simulation.models import ReplicationTask
from simulation.replication.agents.offline_agents import build_offline_agent
from simulation.replication.agents.playing import play_episode
from simulation.replication.grading import GradingWork, grade_work
from simulation.replication.importing.commands import read_commands
from simulation.replication.importing.import_sources import import_auto_experiment
from simulation.replication.importing.reading import ImportFault, select_files
from simulation.replication.importing.results import write_tasks
from simulation.replication.importing.sources import SoughtFunction, check_sources
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.tasks.checking.check_task import check_task
from simulation.replication.tasks.checking.proofs import CheckOptions
from simulation.replication.tasks.running import TaskRunError, generate_data, generate_variants, run_cases
from simulation.replication.tasks.task_files import TaskFileError, load_task, task_from_json, task_to_json
from simulation.replication.tasks.workspaces import build_workspace, render_brief
from tests.support import import_sources


@pytest.fixture(scope="module")
def sandbox():
    return open_sandbox()


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """The folder of task folders, what the command printed as JSON, and its exit status."""
    source = import_sources.write_auto_experiment(tmp_path_factory.mktemp("source"))
    code = source / import_sources.PAPER / "code"
    (code / "linked.py").symlink_to("/etc/hostname")
    os.mkfifo(code / "pipe.csv")
    out, printed = tmp_path_factory.mktemp("out"), io.StringIO()
    with pytest.raises(CommandError) as ended:
        call_command(
            "import_tasks",
            str(source),
            "--format=autoexperiment",
            "--only=1234.56789",
            f"--out={out}",
            "--json",
            stdout=printed,
        )
    return out, json.loads(printed.getvalue()), ended.value.returncode


@pytest.fixture(scope="module")
def task(imported):
    return load_task(imported[0] / import_sources.SLUG)


def list_problems(folder, sandbox):
    with pytest.raises(ImportFault) as caught:
        import_auto_experiment(folder, sandbox)
    return "\n".join(caught.value.problems)


def test_import_finds_functions_by_header_line_and_lists_those_it_does_not(imported, task):
    _, result, status = imported
    assert status == 1  # functions are left out
    assert [(function.id, function.name) for function in task.functions] == [
        *(("f1", "Series.fit_rate"), ("f2", "half_life"), ("f3", "mean_level"))
    ]
    unresolved = result["tasks"][0]["unresolved"]
    assert "line 18 is not in the header of a function half_life" in unresolved["3 half_life"]  # it is in line 17
    assert "there is no module decay/absent.py" in unresolved["4 fit_rate"]
    assert result["samples"]["1"] == {"here": 3, "usable": 2, "in_paper": 85, "mean_experiments": 2.0}
    assert result["samples"]["2"]["usable"] == 1


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--seed-argument=x; rm", "--seed-argument: is 'x; rm'; allowed"),
        ("--out=/etc/hostname", "--out: /etc/hostname; allowed: a folder"),
        ("--only=../../etc", "--only: is '../../etc'; allowed: 1234.56789"),
    ],
)
def test_import_with_wrong_options_exits_with_two(tmp_path, option, message):
    source = import_sources.write_auto_experiment(tmp_path / "source")
    dry_run = [] if option.startswith("--out") else ["--dry-run"]
    with pytest.raises(CommandError) as refused:
        call_command("import_tasks", str(source), "--format=autoexperiment", option, *dry_run, stdout=io.StringIO())
    assert refused.value.returncode == 2 and message in str(refused.value)


def test_dry_run_prints_the_qualified_name_of_each_function_and_writes_nothing(tmp_path):
    source = import_sources.write_auto_experiment(tmp_path / "source")
    printed, before = io.StringIO(), sorted(tmp_path.rglob("*"))
    with pytest.raises(CommandError, match="2 functions of the source are left out"):
        call_command("import_tasks", str(source), "--format=autoexperiment", "--dry-run", stdout=printed)
    assert "  function 0 fit_rate: Series.fit_rate in decay/rates.py\n" in printed.getvalue()
    assert "  function 3 half_life is left out: decay/rates.py:18: line 18 is not in the header" in printed.getvalue()
    assert sorted(tmp_path.rglob("*")) == before


def test_import_follows_no_link_and_opens_no_pipe(imported, task):
    left_out = "\n".join(imported[1]["tasks"][0]["left_out"])
    assert "'linked.py': is a link" in left_out and "'pipe.csv': is a link or not a regular file" in left_out
    assert sorted(task.code) == [
        *("code/decay/__init__.py", "code/decay/rates.py", "code/experiments.py", "code/run.py")
    ]
    assert list(task.data) == ["tables/points.csv"]


def test_import_turns_descriptions_into_docstrings_and_keeps_negative_claims(task):
    assert (
        '        """Fit a rate.\n\n        :param offset: the "zero"\n        """\n' in task.code["code/decay/rates.py"]
    )
    assert task.origin.claims["e1"] == {"rate": -0.3383, "half_life": 2.049, "level": 99.0}
    assert task_from_json(json.loads(json.dumps(task_to_json(task)))) == task
    assert "{{" not in task.paper and "{#sec:abstract}" not in task.paper


def test_imported_task_is_checked_and_its_claims_are_compared_with_computed_values(task, sandbox):
    proof = check_task(task, sandbox, CheckOptions(quick=True))
    assert proof.faults == ()
    near = {(claim.case, claim.name): claim.is_near for claim in proof.claims}
    assert near["e1", "rate"] and near["e1", "half_life"] and not near["e1", "level"]
    [level] = [claim.computed for claim in proof.claims if (claim.case, claim.name) == ("e1", "level")]
    assert level == pytest.approx(61.75 / 21)
    assert "cannot be tested" in proof.untested[0]


def test_episode_of_a_task_without_variants_passes_the_paper_rule_and_is_never_solved(task, sandbox):
    data = {0: generate_data(task, 0, sandbox)}
    workspace = build_workspace(task, ["f2"], data[0])
    agent = build_offline_agent("offline-oracle", task, ["f2"], seed=1)
    played = play_episode(agent, workspace, render_brief(task, ["f2"]), sandbox, packages=task.packages)
    gold = {0: run_cases(task, task.code, data, sandbox).get_values(0)}
    work = GradingWork(task, ("f2",), played.trees[-1], data, gold, ending=played.ending, reported=played.reported)
    grade = grade_work(work, sandbox)
    assert (grade.outcome, grade.paper_pass, grade.measured, grade.robust) == ("reported_only", True, True, None)
    assert grade.robust_text == "cannot be tested" and not grade.solved
    assert "other data of the same form" not in workspace["TASK.md"].decode()


def test_seed_argument_gives_an_imported_task_other_variants(task, sandbox):
    with pytest.raises(TaskRunError, match="only its public data"):
        generate_variants(task, [7], sandbox)
    adapter = task.code["code/experiments.py"].replace('SEED_ARGUMENT = ""', 'SEED_ARGUMENT = "--seed"')
    seeded = replace(task, seed_argument="--seed", code={**task.code, "code/experiments.py": adapter})
    data = generate_variants(seeded, [0, 5, 7], sandbox)
    report = run_cases(seeded, seeded.code, data, sandbox)
    assert seeded.has_variants and "seed.txt" not in data[0]
    # The command of e2 has --seed 5 itself; e1 has no noise, so that its seed changes nothing.
    assert report.get(0, "e2").values == report.get(5, "e2").values != report.get(7, "e2").values
    assert report.get(0, "e1").values == report.get(7, "e1").values


def test_imported_code_that_was_changed_is_not_parsed_again(imported, tmp_path):
    folder = tmp_path / import_sources.SLUG
    write = imported[0] / import_sources.SLUG
    for path in write.rglob("*"):
        if path.is_file():
            target = folder / path.relative_to(write)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    (folder / "code" / "run.py").write_text("(" * 5000)
    with pytest.raises(TaskFileError) as caught:
        load_task(folder)
    assert len(caught.value.problems) == 1 and "change the source, and import it again" in caught.value.problems[0]


def test_import_lists_every_problem_of_the_tables_and_writes_nothing(tmp_path, sandbox):
    hostile, twice, short = (import_sources.build_sample("0") for _ in range(3))
    hostile["func_details"][0]["file"] = "../../etc/passwd"
    hostile["paper_id"] = "../.."
    twice["func_details"][0]["header_line"] = 12
    short["results"] = {"Experiment 1": {"rate": 1e999}}
    short["solution"] = "python run.py"
    samples = {1: [import_sources.build_sample("0"), hostile, twice, short], 2: [import_sources.build_sample("0")]}
    folder = import_sources.write_auto_experiment(tmp_path / "source", samples)
    problems = list_problems(folder, sandbox)
    for text in (
        "mlrc_n=1.jsonl:2: func_details[0].file: is '../../etc/passwd'",
        "mlrc_n=1.jsonl:2: paper_id: is '../..'; allowed: letters, digits and single dots",
        "mlrc_n=1.jsonl:3: func_details: 0 differs from the function of this id in an earlier sample: decay/rates.py:9 fit_rate",
        "mlrc_n=1.jsonl:4: is not JSON",
        "mlrc_n=2.jsonl:1: func_ids: is '0'; allowed: 2 ids",
    ):
        assert text in problems


def test_import_refuses_large_modules_and_a_linked_paper(tmp_path, sandbox):
    folder = import_sources.write_auto_experiment(tmp_path / "source")
    paper = folder / import_sources.PAPER
    (paper / "code" / "big.py").write_text("#" * 200_001)
    (paper / "paper.txt").unlink()
    (paper / "paper.txt").symlink_to("/etc/hostname")
    problems = list_problems(folder, sandbox)
    assert "paper.txt: is a link" in problems and "big.py: has 200,001 bytes" in problems


def test_import_counts_data_that_are_too_large_even_if_the_list_of_files_is_cut():
    links = [(f"link-{number:02}.csv", -1) for number in range(60)]
    selection = select_files([*links, ("readings.csv", 2**20 + 1)])
    assert selection.too_large == 1
    assert selection.left_out[-1] == "11 more files" and not any("readings" in text for text in selection.left_out)


@pytest.mark.django_db
def test_imported_task_without_its_packages_is_stored_as_unvalidated(tmp_path, sandbox):
    folder = import_sources.write_auto_experiment(tmp_path / "source")
    run = folder / import_sources.PAPER / "code" / "run.py"
    run.write_text("import torch\nfrom decay import rates\nprint(torch.ones(1).cuda())\n" + run.read_text())
    (run.parent / "images.npy").write_bytes(bytes(2**20 + 1))
    result = import_auto_experiment(folder, sandbox)
    write_tasks(result.tasks, tmp_path / "out")
    missing = ("the package torch", "a GPU, which run.py uses", "1 data file beyond the limits of size and number")
    assert result.tasks[0].missing == missing
    stored_tasks.load_tasks(tmp_path / "out")
    assert ReplicationTask.objects.get().invalid_reason == f"unvalidated: it needs {'; '.join(missing)}"
    [fault] = check_task(load_task(tmp_path / "out" / import_sources.SLUG), sandbox).faults
    assert "needs the package torch" in fault.text
    with pytest.raises(ImportFault, match="exists; remove it"):
        write_tasks(result.tasks, tmp_path / "out")


def test_parser_in_the_sandbox_survives_hostile_modules_and_names_what_cannot_be_hidden(sandbox):
    modules = {
        "deep.py": "x = " + "-" * 150 + "1\n",
        "broken.py": "def f(:\n",
        "nested.py": "(" * 90_000,
        "cases.py": (
            "import functools\n\n\n@functools.cache\ndef good(x):\n    return x\n\n\nasync def later(x):\n    return x\n\n\n"
            "def short(x): return x\n\n\ndef tabs(x):\n\treturn x\n\n\ndef outer():\n    def inner():\n        return 1\n    return inner\n"
        ),
    }
    lines = {"good": 4, "later": 9, "short": 13, "tabs": 16, "inner": 21}
    sought = [SoughtFunction(name, "cases.py", name, line, "") for name, line in lines.items()]
    checked = check_sources(modules, [*sought, SoughtFunction("gone", "deep.py", "f", 1, "")], sandbox)
    assert set(checked.modules) == {"cases.py"} and set(checked.rejected) == {"deep.py", "broken.py", "nested.py"}
    assert checked.names == {"good": "good"} and '    """See the paper."""\n    return x' in checked.modules["cases.py"]
    reasons = ("it is async", "header and body are on one line", "it is indented with tabs")
    assert [checked.unresolved[name] for name in ("later", "short", "tabs")] == list(reasons)
    assert (
        "not in the header of a function inner" in checked.unresolved["inner"]
        and "levels" in checked.unresolved["gone"]
    )


def test_solution_becomes_python_programs_and_everything_else_is_missing():
    commands, missing = read_commands(
        "echo begin\nSEED=1 python3 ./src/run.py --name 'a b' \\\n  --n 2\npython -m pack.main x\nbash train.sh\npython a.py | tee log\npython ../x.py\n"
    )
    assert [(command.script, command.module, command.arguments) for command in commands] == [
        ("src/run.py", "", ("--name", "a b", "--n", "2")),
        ("", "pack.main", ("x",)),
    ]
    assert commands[0].environment == {"SEED": "1"}
    assert [text.split(" ", 5)[5] for text in missing] == [
        "'bash train.sh'",
        "'python a.py | tee log'",
        "'python ../x.py'",
    ]
