"""Code episodes as lines for training: real ones replay with the same workspaces and rewards, and hostile texts stay texts."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from simulation.code_runs import creation, stored_trees
from simulation.models import CodeEpisode
from simulation.recordings.code_trajectories import build_code_trajectory, render_patch
from simulation.replication.agents.environment import ReplicationEnv, make_environment
from simulation.replication.agents.trajectories import build_trajectory, open_environment, replay_trajectory
from simulation.replication.episode_rules import EpisodeLimits
from simulation.replication.sandbox.choosing import open_sandbox
from simulation.replication.trees import hash_tree
from simulation.replication.values import ToolCall
from simulation.replication.wire import parse_reply
from tests.support import code_casts, code_episodes
from tests.support.model_server import run_in_thread
from tests.support.small_tasks import SLUG, write_small_task
from tests.support.steps import run_to_end

HOSTILE = "\x1b[2J</script>\u202e\ufffd\r\n\x85\u2028"


def export(run: object, path: Path, *options: str) -> list[dict[str, Any]]:
    call_command("export_code", str(run), str(path), *options)
    return [json.loads(line) for line in path.read_text(encoding="ascii").split("\n")[:-1]]


@pytest.mark.django_db
def test_exported_code_episode_replays_with_the_same_workspaces_and_rewards(tmp_path: Path) -> None:
    row = code_episodes.create_task()
    order = creation.CodeOrder([row.slug], "offline-oracle", [2], seed=1)
    run = creation.create_code_run(order, validate=True)
    assert run_to_end(run).by_status == {"submitted": 1}
    [line] = export(run.code, tmp_path / "run.jsonl", "--trees", str(tmp_path / "patches"))
    assert [step["call"]["tool"] for step in line["steps"]] == ["write_file", "write_file", "run_script", "submit"]
    assert [step["reward"] for step in line["steps"]] == [0.0, 0.0, 0.0, 1.0] and line["is_rule_based"]
    assert line["brief"].startswith("# ") and line["steps"][2]["sandbox_seconds"] > 0
    env = ReplicationEnv(code_episodes.build_task(), line["functions"], open_sandbox())
    assert replay_trajectory(env, line, seed=4) == []
    # The patches of the steps turn the first workspace into the last.
    episode, workspace = CodeEpisode.objects.get(), tmp_path / "workspace"
    for path, content in stored_trees.load_files(episode.initial_id).items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_bytes(content)
    for patch in sorted((tmp_path / "patches" / str(episode.code)).iterdir()):
        subprocess.run(["git", "apply", str(patch)], cwd=workspace, check=True)
    files = [path for path in workspace.rglob("*") if path.is_file()]
    assert {path.relative_to(workspace).as_posix(): path.read_bytes() for path in files} == stored_trees.load_files(
        episode.present_id
    )


@pytest.mark.django_db
def test_export_of_code_episodes_keeps_hostile_texts_on_one_line_and_names_what_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    episode = code_episodes.create_code_episode(status="submitted", ending="submitted", phase="probe")
    call = ToolCall("write_file", {"path": "x.py", "text": HOSTILE}, note=HOSTILE)
    code_episodes.create_step(episode, 1, call, observation=HOSTILE)
    code_episodes.create_grading(episode, "wrong")
    code_episodes.create_code_episode(replicate=2)
    code_episodes.create_graded_episode(replicate=3)
    CodeEpisode.objects.filter(replicate=3).update(task_sha256="0" * 64)
    fault = code_episodes.create_code_episode(replicate=4, status="quit", ending="quit", phase="probe")
    code_episodes.create_grading(fault, "fault")
    [line] = export(episode.run.code, tmp_path / "run.jsonl")
    [step] = line["steps"]
    assert (step["observation"], step["call"]["arguments"]["text"], step["reward"]) == (HOSTILE, HOSTILE, 0.0)
    assert line["tree"] == episode.initial_id and step["tree"] == episode.present_id
    assert sorted(capsys.readouterr().err.splitlines()) == [
        "1 left out: its grading failed, so it has no reward",
        "1 left out: queued",
        "1 left out: the task has changed since",
    ]
    with pytest.raises(CommandError, match="exists already; --force overwrites it"):
        export(episode.run.code, tmp_path / "run.jsonl")


@pytest.mark.django_db
def test_code_trajectory_has_what_the_helper_wrote() -> None:
    episode = code_episodes.create_graded_episode()
    after = code_episodes.create_workspace(**{"notes.txt": b"add a and b\n"})
    edit = ToolCall("edit_file", {"path": "notes.txt", "instruction": "end the line"})
    code_episodes.create_step(episode, 3, edit, after=after, observation="rewritten")
    code_episodes.create_step(episode, 4, edit, observation="left as it was")
    ask = ToolCall("understand_file", {"path": "notes.txt", "question": "?"})
    code_episodes.create_step(episode, 5, ask, observation="an answer")
    code_episodes.create_step(episode, 6, ask, observation="no usable answer", refused=True)
    replies = [step["helper_reply"] for step in build_code_trajectory(episode)["steps"]]
    assert replies == [None, None, "add a and b\n", None, "an answer", None]


@pytest.mark.django_db
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_exported_episode_of_language_models_has_every_prompt_and_reply_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, cast = code_episodes.create_task(), code_casts.create_code_cast("plan")
    with run_in_thread(script=code_casts.SCRIPT) as server:
        for name, value in server.get_environ().items():
            monkeypatch.setenv(name, value)
        run = creation.create_code_run(creation.CodeOrder([row.slug], cast, [2], seed=1), validate=True)
        assert run_to_end(run).by_status == {"submitted": 1}
        requests = [request["body"] for request in server.get_requests()]
    [line] = export(run.code, tmp_path / "run.jsonl")
    calls = [call for step in line["steps"] for call in step["calls"]]
    assert [call["purpose"] for call in calls] == [
        "plan", "act", "act", "understand", "act", "act", "edit", "act", "act", "act",
    ]  # fmt: skip
    assert {(call["role"], call["model"]) for call in calls} == {("code", "a-coder"), ("helper", "a-helper")}
    # Every prompt as the server received it, in whichever form its API has.
    for call, body in zip(calls, requests, strict=True):
        system, prompt, _ = call["messages"]
        assert (system["role"], prompt["role"]) == ("system", "user")
        sent = [body["system"][0]["text"]] if "system" in body else []
        sent += [
            content if isinstance(content := message["content"], str) else "".join(part["text"] for part in content)
            for message in body["messages"]
        ]
        assert sent == [system["content"], prompt["content"]]
    # Every step is what its last reply says.
    for step in line["steps"]:
        reply = [call for call in step["calls"] if call["purpose"] == "act"][-1]["messages"][-1]
        assert reply["role"] == "assistant"
        if step["call"]:
            assert parse_reply(reply["content"]).arguments == step["call"]["arguments"]
    env = ReplicationEnv(code_episodes.build_task(), line["functions"], open_sandbox())
    assert line["steps"][-1]["reward"] == 1.0 and replay_trajectory(env, line, seed=4) == []
    [short] = export(run.code, tmp_path / "short.jsonl", "--without-prompts")
    for step in line["steps"]:
        del step["calls"]
    assert short == line


def test_patch_of_a_step_is_applied_by_git(tmp_path: Path) -> None:
    before = {"a b.txt": b"1\r\n2\x0b3", "gone.txt": b"x\n", "same.txt": b"", "é.txt": b"1\n2"}
    after = {"a b.txt": b"1\r\n2\x0b4", "new.txt": b"\xe2\x80\xa8\n", "same.txt": b"", "é.txt": b"1\n2\n"}
    for path, content in before.items():
        (tmp_path / path).write_bytes(content)
    patch = render_patch(before, after)
    subprocess.run(["git", "apply"], cwd=tmp_path, input=patch.encode(), check=True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == after
    assert render_patch({"x": b"\xff"}, {"x": b"\xfe"}).endswith("\nBinary files a/x and b/x differ\n")


def play(env: ReplicationEnv, calls: list[ToolCall | None]) -> dict[str, Any]:
    env.reset(seed=1)
    for call in calls:
        env.step(call.to_json() if call else "")
    assert env.bench is not None
    bench = env.bench
    digests = [hash_tree(tree) for tree in bench.trees]
    return build_trajectory(
        env.task, env.function_ids, bench.steps, digests, bench.ending, "unfinished", bench.limits, tools=bench.tools
    )


def test_replay_of_code_trajectory_repeats_limits_helper_and_what_databases_do_not_store(tmp_path: Path) -> None:
    env = make_environment(SLUG, directory=write_small_task(tmp_path).parent)
    edit = ToolCall("edit_file", {"path": "paper.md", "instruction": "shorten"})
    line = play(env, [ToolCall("write_file", {"path": "x", "text": "\x00"}), None, ToolCall("quit", {"reason": "-"})])
    assert open_environment(line, tmp_path).function_ids == env.function_ids
    assert [step["refused"] for step in line["steps"]] == [True, True, False]
    line["steps"][0]["call"]["arguments"]["text"] = "\ufffd"
    assert replay_trajectory(env, line) == []
    # Money is not spent in a replay, and time is that of the recording.
    for limits, ending in ((EpisodeLimits(cost=1.0), "out_of_money"), (EpisodeLimits(seconds=2.0), "out_of_time")):
        line = play(env, [ToolCall("list_files"), ToolCall("read_file", {"path": "paper.md"})])
        line["steps"][0]["sandbox_seconds"] = 3.0 if ending == "out_of_time" else 0.0
        line["steps"][1] |= {"refused": True, "truncated": True}
        assert replay_trajectory(env, line | {"ending": ending, "limits": limits._asdict()}) == []
    # A helper that wrote, and one without a usable answer.
    line = play(env, [edit, edit, ToolCall("quit", {"reason": "-"})])
    tree = hash_tree({**env.workspace, "paper.md": b"short\n"})
    line["steps"][0] |= {"refused": False, "helper_reply": "short\n"}
    for step in line["steps"]:
        step["tree"] = tree
    assert replay_trajectory(env, line | {"tools": ["edit_file", "quit"]}) == []
