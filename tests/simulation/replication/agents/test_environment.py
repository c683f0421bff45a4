"""Replication tasks as Gymnasium environments: rewards by grading, wrong actions, limits, and trajectories that replay."""

import json
import re
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from django.conf import settings
from gymnasium.utils.env_checker import check_env

from simulation.lab.errors import LabError
from simulation.replication.agents import build_offline_agent
from simulation.replication.agents.environment import ReplicationEnv, environment_id, make_environment
from simulation.replication.agents.trajectories import CodeTrajectoryError, build_trajectory, replay_trajectory
from simulation.replication.trees import hash_tree
from simulation.replication.values import ToolCall
from simulation.replication.wire import format_call
from tests.support.small_tasks import SLUG, write_small_task

QUIT = "TOOL: quit\nreason: none"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_task(tmp_path_factory.mktemp("tasks")).parent


def make(folder: Path, **options: Any) -> ReplicationEnv:
    return make_environment(SLUG, directory=folder, render_mode="ansi", **options)


def play(env: ReplicationEnv, name: str) -> tuple[float, dict[str, Any]]:
    """Play an offline agent in the environment and return the last reward and info."""
    env.reset(seed=3)
    agent, ended, reward, info = build_offline_agent(name, env.task, env.function_ids, 1), False, 0.0, {}
    while not ended:
        assert env.bench is not None
        call = agent.choose_tool(env.bench.get_situation())
        _, reward, terminated, truncated, info = env.step(format_call(call))
        ended = terminated or truncated
    return reward, info


def record(env: ReplicationEnv, outcome: str) -> dict[str, Any]:
    """Return the episode of the environment as a line, written to JSON and read again."""
    assert env.bench is not None
    played = env.bench.get_played()
    trees = [hash_tree(tree) for tree in played.trees]
    line = build_trajectory(env.task, env.function_ids, played.steps, trees, played.ending, outcome, env.limits)
    return json.loads(json.dumps(line))


def test_every_task_is_registered_with_gymnasium() -> None:
    slugs = [path.parent.name for path in (settings.BASE_DIR / "fixtures" / "replication").glob("*/task.json")]
    assert slugs and not [slug for slug in slugs if environment_id(slug) not in gymnasium.registry]


def test_replication_environment_passes_gymnasiums_own_checker(folder: Path) -> None:
    check_env(make(folder), skip_render_check=True)


def test_replication_environment_rewards_a_solved_episode_and_replays_it(folder: Path) -> None:
    env = make(folder, n=2)
    reward, info = play(env, "offline-oracle")
    assert (reward, info["outcome"], info["ending"], info["step"]) == (1.0, "solved", "submitted", 4)
    line = record(env, "solved")
    assert [step["reward"] for step in line["steps"]] == [0.0, 0.0, 0.0, 1.0] and line["steps"][3]["terminated"]
    assert replay_trajectory(env, line, seed=8) == []
    line["steps"][1]["tree"] = "0" * 64
    (difference, *_) = replay_trajectory(env, {**line, "steps": line["steps"][:2], "ending": ""})
    assert re.fullmatch(r"step 2: tree is '[0-9a-f]{64}' in the replay and '0{64}' in the trajectory", difference)


def test_replication_environment_gives_no_reward_for_a_hidden_function(folder: Path) -> None:
    reward, info = play(make(folder, functions=["f1"]), "offline-null")
    assert (reward, info["outcome"]) == (0.0, "hidden_left")


def test_replication_environment_reads_objects_and_counts_unreadable_replies(folder: Path) -> None:
    env = make(folder)
    observation, _ = env.reset(seed=1)
    assert "## Hidden functions" in observation and observation.endswith("Left: 50 steps, 1800 seconds of commands.")
    observation, *_, info = env.step({"tool": "change_folder", "arguments": {"folder": "code"}})
    assert info["folder"] == "code" and observation.startswith("the current folder is code/")
    assert env.step({"tool": "read_file", "arguments": {"path": "../run.py", "first": 3}})[0].startswith(
        "run.py, lines 3 to"
    )
    assert env.step({"tool": "quit", "arguments": {}})[4]["refused"]
    results = [env.step(action) for action in ({"tool": 1}, "nothing", {"tool": "quit", "arguments": {"reason": []}})]
    assert [result[2] for result in results] == [False, False, True] and results[2][4]["ending"] == "unreadable_out"
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(QUIT)
    assert "(unreadable)" in (env.render() or "") and "TOOL: change_folder\nfolder: code" in (env.render() or "")


def test_replication_environment_is_truncated_by_a_limit_after_a_last_turn(folder: Path) -> None:
    env = make(folder, steps=1)
    env.reset(seed=1)
    observation = env.step(format_call(ToolCall("list_files")))[0]
    assert observation.endswith("This is the last turn: only submit and quit are possible.")
    _, reward, terminated, truncated, info = env.step(format_call(ToolCall("list_files")))
    assert (reward, terminated, truncated, info["ending"]) == (0.0, False, True, "out_of_steps")
    assert replay_trajectory(env, record(env, "unfinished")) == []


def test_replication_environment_draws_the_mask_by_number_and_repeats_its_secret_data(folder: Path) -> None:
    masks = {make(folder, n=1, index=index).function_ids for index in (1, 2)}
    assert masks == {("f1",), ("f2",)}
    env = make(folder)
    drawn = [env.reset(seed=seed) and env.secret for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2] and 0 not in drawn[0] and len(set(drawn[0])) == 2
    with pytest.raises(LabError, match=r"index is 3; allowed for small-task with n = 1, uniform: 1 to 2"):
        make(folder, n=1, index=3)
    with pytest.raises(LabError, match="No task 'x'; there are small-task"):
        make_environment("x", directory=folder)


def test_trajectory_of_another_mask_is_refused(folder: Path) -> None:
    env = make(folder, functions=["f1"])
    env.reset(seed=1)
    env.step(QUIT)
    line = record(env, "unfinished")
    assert replay_trajectory(env, line) == []
    with pytest.raises(CodeTrajectoryError, match=r"functions is \['f1'\]; expected \['f2'\]"):
        replay_trajectory(make(folder, functions=["f2"]), line)
