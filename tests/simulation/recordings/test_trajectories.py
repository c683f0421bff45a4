"""Exported trajectories replay in the Gymnasium environment with equal observations."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from django.core.management import CommandError, call_command

import simulation.offline.gym
from simulation.lab.actions import Action
from simulation.lab.bench import step_to_json
from simulation.lab.outcomes import Outcome, RejectedBy
from simulation.models import Episode, Experiment, Run, Transition
from simulation.recordings import run_recordings, trajectories
from simulation.recordings.trajectories import TrajectoryError
from simulation.runs import benches, create
from tests.support.steps import run_to_end


@pytest.fixture
def run(caffeine: Experiment) -> Run:
    """A run of one episode that follows the reference protocol and is judged."""
    made = create.create_episode_run([caffeine], "offline", 1, seed=7)
    run_to_end(made)
    return made


@pytest.fixture
def line(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The trajectory of that run, copied for each test; the run itself is executed once."""
    if not _line:
        _line.append(json.dumps(run_recordings.build_trajectory(request.getfixturevalue("run").episodes.get())))
    return dict(json.loads(_line[0]))


_line: list[str] = []


@pytest.fixture
def env() -> Iterator[Any]:
    made = gymnasium.make(simulation.offline.gym.environment_id("caffeine-hplc-analysis"))
    yield made
    made.close()


def exported(run: Run, path: Path, *options: str) -> list[dict[str, Any]]:
    call_command("export_episodes", str(run.code), str(path), *options)
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


@pytest.mark.both_databases  # PostgreSQL does not keep the order of JSON keys
def test_trajectory_replays_with_the_same_observations_and_rewards(run, env, tmp_path):
    [line] = exported(run, tmp_path / "run.jsonl")
    episode = run.episodes.get()
    moments = trajectories.replay_trajectory(env, line)
    # the stored steps, and the submission, which is not stored as a step
    assert len(moments) == len(line["steps"]) == episode.transitions.count() + 1
    assert [moment.observation for moment in moments] == [
        *[step["observation"] for step in line["steps"][1:]],
        line["final_observation"],
    ]
    assert [step["reward"] for step in line["steps"]] == [0.0] * (len(moments) - 1) + [1.0]
    assert [step["terminated"] for step in line["steps"]][-2:] == [False, True]
    assert (line["ending"], line["verdict"]["sufficient"], line["cast"]) == ("submitted", True, "offline")
    assert line["steps"][-1]["action"]["name"] == "SubmitMaterialsObservationsForReview"


def test_trajectory_of_a_random_agent_replays_with_its_rejections(lab, tmp_path):
    zebrafish = Experiment.objects.get(slug="zebrafish-genotyping")
    run = create.create_episode_run([zebrafish], "offline-random", 2, seed=3)
    run_to_end(run)
    lines = exported(run, tmp_path / "run.jsonl")
    rejected = [step for line in lines for step in line["steps"] if not step["outcome"]["success"]]
    assert {step["outcome"]["rejected_by"] for step in rejected} >= {"transition_model"}
    env = gymnasium.make(simulation.offline.gym.environment_id(zebrafish.slug))
    for line in lines:
        trajectories.replay_trajectory(env, line)
    env.close()


def unreadable(caffeine: Experiment) -> Episode:
    """An episode whose agent's replies could not be parsed three times."""
    run = create.create_episode_run([caffeine], "offline", 1, seed=7)
    episode = run.episodes.get()
    bench = benches.build_bench(episode)
    for number in (1, 2, 3):
        step = bench.record_outcome(Action("(unreadable)"), Outcome.make_rejected(f"no. {number}", RejectedBy.PARSER))
        Transition.objects.create(
            episode=episode, number=number, action_name="(unreadable)", accepted=False, rejected_by="parser",
            step=step_to_json(step), content_sha256="0" * 64,
        )  # fmt: skip
    memory = {"plan": "1. wait", "thoughts": {"2": "hm"}}
    Episode.objects.filter(pk=episode.pk).update(status="rejected_out", next_number=4, memory=memory)
    episode.refresh_from_db()
    return episode


def test_trajectory_replays_an_unparsable_reply_as_a_rejected_step_without_the_reply_text(caffeine, env):
    line = run_recordings.build_trajectory(unreadable(caffeine))
    assert [(step["action"], step["thought"], step["terminated"]) for step in line["steps"]] == [
        (None, "", False), (None, "hm", False), (None, "", True),
    ]  # fmt: skip
    moments = trajectories.replay_trajectory(env, line)
    assert "refused by parser: no. 3" in moments[-1].observation and moments[-1].terminated
    assert (line["plan"], line["ending"], line["verdict"]) == ("1. wait", "rejected_out", None)


def test_trajectory_has_no_hidden_information(run):
    episode = run.episodes.get()
    stored = json.dumps(list(episode.transitions.values_list("step", flat=True)))
    assert '"ledger": {"' in stored and '"reasoning": "' in stored
    line = run_recordings.build_trajectory(episode)
    assert "ledger" not in json.dumps(line)
    assert {step["outcome"]["reasoning"] for step in line["steps"]} == {""}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"schema": "wetbench-trajectory/0"}, "it must be 'wetbench-trajectory/1'"),
        ({"experiment": "zebrafish-genotyping"}, "experiment is 'zebrafish-genotyping' in the trajectory"),
        ({"manifest": True}, "manifest is True in the trajectory, False in the environment"),
        ({"seed": 1}, "step 1: observation differs from the recording"),
        ({"final_observation": "gold"}, "step last: observation differs"),
        ({"verdict": None}, "no verdict is recorded"),
    ],
)
def test_trajectory_that_does_not_match_its_environment_is_refused_with_the_difference(line, env, changes, told):
    with pytest.raises(TrajectoryError, match=told):
        trajectories.replay_trajectory(env, line | changes)


def test_trajectory_with_a_wrong_reward_is_refused(line, env):
    line["steps"][-1]["reward"] = 0.5
    with pytest.raises(TrajectoryError, match="reward differs"):
        trajectories.replay_trajectory(env, line)


def test_messages_have_a_call_and_a_result_for_each_step_and_no_hidden_information(run, tmp_path):
    [line] = exported(run, tmp_path / "run.jsonl", "--format", "messages", "--tools")
    episode = run.episodes.get()
    assert (line["schema"], line["ending"], line["reward"]) == ("wetbench-messages/1", "submitted", 1.0)
    assert [message["role"] for message in line["messages"][:2]] == ["system", "user"]
    turns = line["messages"][2:]
    assert len(turns) == 2 * (episode.transitions.count() + 1)  # the submission is a turn too
    for call, result in zip(turns[::2], turns[1::2], strict=True):
        assert call["tool_calls"][0]["id"] == result["tool_call_id"]
        assert isinstance(json.loads(call["tool_calls"][0]["function"]["arguments"]), dict)
    assert "caffeine peak area" in json.dumps(line["messages"])
    written = json.dumps([line["messages"], {**line, "tools": []}], ensure_ascii=False)
    assert not [secret for secret in ("ledger", "reasoning", "0.412 mg/mL", "0.187 mg/mL") if secret in written]
    assert "Transfer" in {tool["function"]["name"] for tool in line["tools"]}
    with pytest.raises(CommandError, match="--tools is for --format messages"):
        exported(run, tmp_path / "other.jsonl", "--tools")


def test_export_leaves_out_and_counts_episodes_that_did_not_end_by_the_rules(run, tmp_path, capsys):
    episode = run.episodes.get()
    more = create.create_episode_run([episode.experiment], "offline", 2, seed=8)
    failed, _queued = more.episodes.order_by("replicate")
    Episode.objects.filter(pk=failed.pk).update(status="failed", reason="internal", error="broke")
    assert exported(more, tmp_path / "more.jsonl") == []
    told = capsys.readouterr()
    assert "0 episodes written" in told.out
    assert "1 left out: failed" in told.err and "1 left out: queued" in told.err


def test_export_leaves_out_episodes_of_a_changed_experiment_or_catalogue(run, tmp_path, capsys):
    Episode.objects.filter(run=run).update(experiment_sha256="1" * 64)
    assert exported(run, tmp_path / "a.jsonl") == []
    Episode.objects.filter(run=run).update(experiment_sha256=run.episodes.get().experiment.sha256, status="truncated")
    assert exported(run, tmp_path / "b.jsonl") == []
    told = capsys.readouterr().err
    assert "1 left out: the experiment has changed since" in told
    assert "1 left out: the action catalogue has changed since" in told


def test_export_overwrites_a_file_only_with_force(run, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_text("mine")
    with pytest.raises(CommandError, match="--force"):
        exported(run, path)
    assert path.read_text() == "mine"
    assert len(exported(run, path, "--force")) == 1
    first = path.read_bytes()
    exported(run, path, "--force")
    assert path.read_bytes() == first and [one.name for one in tmp_path.iterdir()] == ["run.jsonl"]


def test_export_leaves_no_partial_file_after_an_error(run, tmp_path):
    with pytest.raises(CommandError, match="create it first"):
        exported(run, tmp_path / "no" / "run.jsonl")
    Transition.objects.filter(episode__run=run).update(step={})
    with pytest.raises(KeyError):
        exported(run, tmp_path / "run.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_export_of_an_unknown_run_or_a_run_of_twins_is_refused(run, tmp_path):
    twins = Run.objects.create(submission_id="t", kind="twins", cast="offline", seed=1)
    with pytest.raises(CommandError, match="is not a run of episodes"):
        exported(twins, tmp_path / "x.jsonl")
    with pytest.raises(CommandError, match="There is no run"):
        call_command("export_episodes", "nonsense", str(tmp_path / "x.jsonl"))


def test_trajectories_module_works_without_django():
    script = (
        "import sys; sys.modules['django'] = None; import simulation.recordings.trajectories, simulation.offline.gym"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=Path(__file__).parents[3], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
