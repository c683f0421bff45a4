"""Runs of code episodes: what is refused before anything is queued, what is created, and one episode in real sandboxes."""

import json
from typing import Any

import pytest

from simulation.code_runs import creation, gold, masks, sandboxes, stored_trees
from simulation.code_runs.conditions import read_conditions
from simulation.lab.errors import LabError
from simulation.models import CodeEpisode, GoldResult, Mask, ReplicationTask, Run, SandboxRun, Worker
from simulation.replication.sandbox.base import SandboxUnavailable
from simulation.runs import control, create
from tests.support import code_episodes
from tests.support.scripted_sandbox import ScriptedSandbox, build_result
from tests.support.steps import run_to_end

pytestmark = pytest.mark.django_db


@pytest.fixture
def sandbox(monkeypatch: pytest.MonkeyPatch) -> ScriptedSandbox:
    scripted = ScriptedSandbox(lambda stop: build_result())
    monkeypatch.setattr(sandboxes, "get_sandbox", lambda: scripted)
    return scripted


def create_validated_masks() -> list[Mask]:
    row = code_episodes.create_task()
    drawn = masks.draw_and_store(row, [1, 2], 2, "uniform")
    Mask.objects.update(validated_with=gold.hash_environment(row), test_cases=["e1"])
    data = stored_trees.store_tree({"numbers.txt": b"3\n4\n"})
    for number in (0, *gold.list_secret_variants(row)):
        GoldResult.objects.create(
            task=row, task_sha256=row.sha256, variant=number, profile="full", data=data, values={}, made_with={}
        )
    return [Mask.objects.select_related("task").get(pk=mask.pk) for mask in drawn]


def order(validate: bool = False, submission_id: str = "", **changes: Any) -> Run:
    values: dict[str, Any] = {
        "task_names": ["small-sums"], "ns": [1, 2], "per_n": 2, "cast": "offline-null", "attempts": 2, "seed": 5,
    }  # fmt: skip
    changes["conditions"] = read_conditions(changes.get("conditions", {}))
    return creation.create_code_run(creation.CodeOrder(**{**values, **changes}), validate, submission_id=submission_id)


@pytest.mark.both_databases
def test_code_run_has_the_next_replicates_of_each_mask(sandbox: ScriptedSandbox) -> None:
    create_validated_masks()
    first, second = order(), order(conditions={"docs": "signature"})
    third = order()
    numbers = [sorted(run.code_episodes.values_list("replicate", flat=True)) for run in (first, second, third)]
    assert numbers == [[1, 1, 1, 2, 2, 2], [1, 1, 1, 2, 2, 2], [3, 3, 3, 4, 4, 4]]
    # Replicate n has the same seed under every condition.
    seeds = [set(run.code_episodes.values_list("mask", "replicate", "seed")) for run in (first, second)]
    assert seeds[0] == seeds[1] and len(seeds[0]) == 6
    files = stored_trees.load_files(first.code_episodes.earliest("pk").initial_id)
    assert files["data/numbers.txt"] == b"3\n4\n" and "TASK.md" in files
    assert create.get_progress(first).by_status == {"queued": 6}


@pytest.mark.both_databases
def test_code_run_of_the_same_submission_is_created_once(sandbox: ScriptedSandbox) -> None:
    create_validated_masks()
    assert order(submission_id="once") == order(submission_id="once")
    assert (Run.objects.count(), CodeEpisode.objects.count()) == (1, 6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task_names": ["big-sums"]}, "no task 'big-sums'. Known tasks: small-sums"),
        ({"cast": "offline"}, "no code cast 'offline'"),
        ({"attempts": 0}, "attempts: is 0; allowed: 1 to 1000"),
        ({"ns": [3]}, "allowed for small-sums: 0 to 2"),
        ({"seed": -1}, "must be from 0 to"),
        (
            {"conditions": {"paper": "half", "steps": 0.5, "cost": True}},
            "paper: is 'half'.*steps: is 0.5.*cost: is True",
        ),
        ({"conditions": {"speed": 1}}, "speed: unknown condition"),
        ({"per_n": 1, "ns": [0]}, "not validated on this kind of machine: small-sums u0-001"),
    ],
)
def test_order_of_code_episodes_is_refused_as_a_whole(
    sandbox: ScriptedSandbox, changes: dict[str, Any], message: str
) -> None:
    create_validated_masks()
    with pytest.raises(LabError, match=message):
        order(**changes)
    assert not Run.objects.exists() and not CodeEpisode.objects.exists()


def test_order_of_code_episodes_needs_a_sandbox_here_or_at_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise SandboxUnavailable("install bubblewrap")

    monkeypatch.setattr(sandboxes, "get_sandbox", refuse)
    create_validated_masks()
    with pytest.raises(creation.NoSandboxError, match="install bubblewrap"):
        order()
    assert not Run.objects.exists()
    Worker.objects.create(owner="elsewhere:1:x", kind="celery", sandbox="bubblewrap/user")
    assert order().code_episodes.count() == 6


def test_order_is_refused_if_a_task_changes_after_its_masks_were_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def change_the_task() -> ScriptedSandbox:
        ReplicationTask.objects.update(sha256="1" * 64)
        return ScriptedSandbox(lambda stop: build_result())

    create_validated_masks()
    # Because of this worker, the first need for a sandbox of this process is the validation of the masks.
    Worker.objects.create(owner="elsewhere:1:x", kind="celery", sandbox="bubblewrap/user")
    monkeypatch.setattr(sandboxes, "get_sandbox", change_the_task)
    with pytest.raises(LabError, match="small-sums: the task was changed just now"):
        order(validate=True)
    assert not Run.objects.exists()


@pytest.mark.both_databases
def test_stopped_code_episode_can_be_retried_once(sandbox: ScriptedSandbox) -> None:
    create_validated_masks()
    run = order()
    assert control.stop_run(run) == 6
    first = run.code_episodes.earliest("pk")
    retried = creation.retry_code_episode(first)
    assert (retried.replicate, retried.seed, retried.retry_of) == (first.replicate, first.seed, first)
    with pytest.raises(ValueError, match="only once"):
        creation.retry_code_episode(first)


def test_variants_of_a_grading_follow_from_salt_and_episode() -> None:
    row = code_episodes.create_task()
    numbers = gold.list_secret_variants(row)
    assert len(set(numbers)) == 16 and min(numbers) > 0
    chosen = gold.choose_variants(row, "episode-1")
    assert len(set(chosen)) == 2 and set(chosen) <= set(numbers) and chosen == gold.choose_variants(row, "episode-1")
    assert len({gold.choose_variants(row, f"episode-{n}") for n in range(20)}) > 5
    row.salt = "0" * 64
    assert gold.list_secret_variants(row) != numbers


def test_code_episode_is_played_and_graded_in_real_sandboxes() -> None:
    code_episodes.create_task()
    shown: list[str] = []
    run = creation.create_code_run(
        creation.CodeOrder(["all"], "offline-oracle", [2]), validate=True, report_progress=shown.append
    )
    assert shown == ["task 1 of 1, small-sums: validating 1 mask"]
    assert run_to_end(run).by_status == {"submitted": 1}
    episode = run.code_episodes.get()
    assert (episode.grading.outcome, episode.grading.solved) == ("solved", True)
    assert set(episode.sandbox_runs.values_list("state", flat=True)) == {"done"}
    assert set(SandboxRun.objects.values_list("purpose", flat=True)) == {
        "tool",
        "extract",
        "measure",
        "perturb",
        "probe",
    }
    assert json.loads(episode.reported)["e1"] == {"total": 7.0}
    # Neither a reference body nor the generator is in what the agent was given.
    given = b"\n".join(stored_trees.load_files(episode.initial_id).values())
    assert b"return a + b" not in given and b"number * 7" not in given
    assert set(gold.choose_variants(episode.mask.task, episode.code)) == set(episode.grading.variants)
