"""Commands of code episodes: exit codes, what they print, and that a patch trial stores nothing."""

import io
import json
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from simulation.code_runs import patch_trials, sandboxes, tasks
from simulation.models import CodeEpisode, GoldResult, Grading, Mask, Run, SandboxRun
from simulation.replication.tasks.masking import mask_code
from tests.support import code_episodes, small_tasks

pytestmark = pytest.mark.django_db


def call(name: str, *arguments: str, **options: Any) -> str:
    out = io.StringIO()
    call_command(name, *arguments, stdout=out, stderr=io.StringIO(), **options)
    return out.getvalue()


def call_and_ignore_exit(name: str, *arguments: str) -> str:
    out = io.StringIO()
    with suppress(CommandError):
        call_command(name, *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def get_exit_code(name: str, *arguments: str) -> tuple[int, str]:
    with pytest.raises(CommandError) as ended:
        call(name, *arguments)
    return ended.value.returncode, str(ended.value)


def test_patch_trial_grades_in_real_sandboxes_and_stores_nothing(tmp_path: Path) -> None:
    code_episodes.create_task()
    wrong = tmp_path / "sums.py"
    wrong.write_text(code_episodes.CODE.replace("a + b", "a - b"))
    outcomes = {
        source: json.loads(call("try_patch", "small-sums", "--mask", "u2-001", *source.split(), "--json"))["outcome"]
        for source in ("--gold", "--null", f"--file {wrong}")
    }
    assert list(outcomes.values()) == ["solved", "hidden_left", "wrong"]
    assert not any(model.objects.exists() for model in (Run, CodeEpisode, Mask, GoldResult, SandboxRun, Grading))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("big-sums", "--mask", "u1-001", "--null"), "no task 'big-sums'"),
        (("small-sums", "--mask", "x1-001", "--null"), "as in u3-004"),
        (("small-sums", "--mask", "u1-009", "--null"), "has no mask u1-009; allowed: 001 to 002"),
        (("small-sums", "--mask", "u1-001", "--file", "/nowhere.py"), "No such file"),
    ],
)
def test_patch_trial_with_wrong_arguments_exits_with_two(arguments: tuple[str, ...], message: str) -> None:
    code_episodes.create_task()
    code, text = get_exit_code("try_patch", *arguments)
    assert code == 2 and message in text


def write_diff(path: Path, old: str, new: str, name: str = "code/small/sums.py") -> Path:
    lines = unified_diff(old.splitlines(True), new.splitlines(True), f"a/{name}", f"b/{name}")
    path.write_text("".join(lines))
    return path


def test_patch_trial_applies_a_diff_of_the_masked_code(tmp_path: Path) -> None:
    task = code_episodes.build_task()
    code_episodes.create_task(task)
    masked = mask_code(task, ["f1", "f2"])["code/small/sums.py"]
    arguments = ("small-sums", "--mask", "u2-001", "--json", "--file")
    for text, outcome in ((code_episodes.CODE, "solved"), (code_episodes.CODE.replace("a + b", "a - b"), "wrong")):
        diff = write_diff(tmp_path / "some.diff", masked, text)
        assert json.loads(call("try_patch", *arguments, str(diff)))["outcome"] == outcome


def test_patch_trial_of_a_diff_names_git_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code_episodes.create_task()
    monkeypatch.setattr(patch_trials, "_GIT", "no-such-program")
    diff = write_diff(tmp_path / "some.diff", "a\n", "b\n")
    code, text = get_exit_code("try_patch", "small-sums", "--mask", "u2-001", "--file", str(diff))
    assert code == 2 and "Git applies diffs, and it is not installed" in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (Path("/bin/ls").read_bytes(), "is not text in UTF-8"),
        (b" \n", "is empty or not text"),
        (
            b"root:x:0:0::/root:/bin/sh\n",
            "is no diff, and defines no hidden function of code/small/sums.py: add, scale",
        ),
        (
            b"--- a/code/small/sums.py\n+++ b/code/small/sums.py\n@@ -1 +1 @@\n-x\n+y\n",
            "does not apply to the masked code",
        ),
        (b"--- /dev/null\n+++ b/../x.py\n@@ -0,0 +1 @@\n+y\n", "invalid path '../x.py'"),
        (b"--- /dev/null\n+++ b/code/new.py\n@@ -0,0 +1 @@\n+y\n", "changes or removes code/new.py; allowed"),
        (b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n", "'l': "),
    ],
    ids=["program", "empty", "no function", "stale diff", "path upwards", "other file", "link"],
)
def test_patch_trial_refuses_what_is_no_patch_of_the_hidden_functions(
    tmp_path: Path, content: bytes, message: str
) -> None:
    code_episodes.create_task()
    (tmp_path / "patch").write_bytes(content)
    code, text = get_exit_code("try_patch", "small-sums", "--mask", "u2-001", "--file", str(tmp_path / "patch"))
    assert code == 2 and message in text


def test_draw_masks_validates_masks_so_that_runs_can_use_them(tmp_path: Path) -> None:
    folder = small_tasks.write_small_task(tmp_path)
    order = (
        "--task",
        "small-task",
        "--directory",
        str(tmp_path),
        "--n",
        "1",
        "--per-n",
        "2",
        "--seed",
        "5",
        "--validate",
    )
    code, text = get_exit_code("draw_masks", *order)
    assert code == 2 and "load_lab" in text
    tasks.load_tasks(tmp_path)
    refused = get_exit_code("run_code", "--task", "small-task", "--n", "1", "--per-n", "2", "--mask-seed", "5")
    command = "draw_masks --task small-task --n 1 --per-n 2 --mode uniform --seed 5 --validate"
    assert refused[0] == 2 and command in refused[1]
    masks = json.loads(call("draw_masks", *order, "--json"))["masks"]
    assert [(mask["key"], mask["problem"]) for mask in masks] == [("u1-001-s5", ""), ("u1-002-s5", "")]
    assert "1 code episode queued" in call("run_code", "--task", "small-task", "--n", "1", "--mask-seed", "5")

    paper = folder / "paper.md"
    paper.write_text(paper.read_text() + "\nOne more sentence.\n")
    code, text = get_exit_code("draw_masks", *order)
    assert code == 2 and "small-task: the folder differs from the version in the database" in text


def test_draw_masks_exits_with_one_if_a_mask_could_never_be_solved(tmp_path: Path) -> None:
    module = small_tasks.MODULE.replace("np.mean(values)", "np.mean(values) + 0 * open('/etc/passwd').fileno()")
    experiments = small_tasks.EXPERIMENTS.replace('"spread": Sums().spread(np.array(data["values"]))', '"spread": 1.0')
    small_tasks.write_small_task(tmp_path, module=module, experiments=experiments)
    tasks.load_tasks(tmp_path)
    code, text = get_exit_code("draw_masks", "--task", "all", "--directory", str(tmp_path), "--n", "2", "--validate")
    assert (code, text) == (1, "1 of 1 mask cannot be used")
    assert "Sums.spread: the screen of grading finds the name open" in (
        call_and_ignore_exit("draw_masks", "--task", "all", "--directory", str(tmp_path), "--n", "2", "--validate")
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("draw_masks", ("--task", "qpcr-titre", "--seed")),
        ("check_tasks", ("--task", "qpcr-titre", "--seed")),
        ("run_code", ("--mask-seed",)),
        ("run_code", ("--seed",)),
    ],
)
@pytest.mark.parametrize("seed", ["-1", "2147483648", "1e3", "one"])
def test_seeds_outside_their_bounds_are_refused(name: str, arguments: tuple[str, ...], seed: str) -> None:
    with pytest.raises(CommandError, match="is not a whole number from 0 to 2147483647"):
        call(name, *arguments[:-1], f"{arguments[-1]}={seed}")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("sandbox_check", ()),
        ("sandbox_escapes", ()),
        ("check_tasks", ("--task", "qpcr-titre")),
        ("code_cheats", ()),
        ("draw_masks", ("--task", "qpcr-titre", "--n", "1", "--validate")),
        ("import_tasks", (".", "--format", "git", "--dry-run")),
        ("try_patch", ("small-sums", "--mask", "u1-001", "--gold")),
        ("run_code", ("--task", "small-sums", "--n", "1")),
        ("run_code", ("--task", "small-sums", "--n", "1", "--wait")),
        ("grade_code", ("RUN", "--again")),
    ],
)
def test_commands_refuse_to_work_while_sandboxes_are_switched_off(
    name: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WETBENCH_SANDBOX", "off")
    monkeypatch.setattr(sandboxes, "_unavailable", "")  # restored after the test, so that others ask again
    run = code_episodes.create_graded_episode().run
    rows = [model.objects.count() for model in (Run, CodeEpisode, Mask)]
    code, text = get_exit_code(name, *(str(run.code) if part == "RUN" else part for part in arguments))
    assert code == 2 and "WETBENCH_SANDBOX=off" in text and "apt-get install bubblewrap" in text
    assert [model.objects.count() for model in (Run, CodeEpisode, Mask)] == rows


def test_grade_code_counts_stored_outcomes_and_rejects_other_runs() -> None:
    episode = code_episodes.create_graded_episode()
    assert json.loads(call("grade_code", str(episode.run.code), "--json"))["outcomes"] == {"solved": 1}
    other = Run.objects.create(submission_id="x", kind="twins", cast="offline", seed=1)
    code, text = get_exit_code("grade_code", str(other.code))
    assert code == 2 and "no code episodes" in text


def test_grade_code_again_reports_a_stored_outcome_that_differs() -> None:
    episode = code_episodes.create_graded_episode()  # stored as solved, although its function is still hidden
    code, text = get_exit_code("grade_code", str(episode.run.code), "--again")
    assert code == 1 and "1 of 1 differ or cannot be graded" in text
    assert Grading.objects.get().outcome == "solved"
