"""Code episodes as lines of JSON, `wetbench-code-trajectory/1`, and their replay in the Gymnasium environment.

A line has what the agent could see and do: no reference code, no gold value and no secret data.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium

from simulation.lab.errors import LabError
from simulation.replication.agents.environment import ReplicationEnv
from simulation.replication.episode_rules import EpisodeLimits, is_truncated
from simulation.replication.tasks.task_files import hash_task
from simulation.replication.trees import hash_tree
from simulation.replication.values import CodeStepRecord, Task

SCHEMA = "wetbench-code-trajectory/1"


class CodeTrajectoryError(LabError):
    """A trajectory does not belong to this environment. The message states the field and both values."""


def build_trajectory(
    task: Task,
    function_ids: Sequence[str],
    steps: Sequence[CodeStepRecord],
    trees: Sequence[str],
    ending: str,
    outcome: str,
    limits: EpisodeLimits,
    conditions: Mapping[str, str] | None = None,
    helper_replies: Mapping[int, str] | None = None,
) -> dict[str, Any]:
    """Return an episode as a line. `trees[k]` is the digest of the workspace after k steps, `helper_replies` are by step.

    The reward is that of the environment: 1.0 with the last step of an episode that is solved, else 0.
    """
    lines = []
    for step in steps:
        is_last = step.number == len(steps)
        lines.append(
            {
                "number": step.number,
                "call": step.call.to_json() if step.call else None,
                "observation": step.observation,
                "refused": step.refused,
                "helper_reply": (helper_replies or {}).get(step.number),
                "tree": trees[step.number],
                "reward": 1.0 if is_last and outcome == "solved" else 0.0,
                "terminated": is_last and bool(ending) and not is_truncated(ending),
                "truncated": is_last and is_truncated(ending),
            }
        )
    return {
        "schema": SCHEMA,
        "task": task.slug,
        "task_sha256": hash_task(task),
        "functions": list(function_ids),
        "conditions": dict(conditions or {}),
        "limits": {"steps": limits.steps, "seconds": limits.seconds},
        "tree": trees[0],
        "steps": lines,
        "ending": ending,
        "outcome": outcome,
    }


class RecordedHelper:
    """A helper that gives the recorded replies in their order."""

    def __init__(self, replies: Sequence[str]) -> None:
        self.replies = iter(replies)

    def edit(self, path: str, text: str, instruction: str) -> str:
        return next(self.replies, "")

    def answer(self, path: str, text: str, question: str) -> str:
        return next(self.replies, "")


def replay_trajectory(env: "gymnasium.Env[Any, Any]", trajectory: Mapping[str, Any], seed: int = 1) -> list[str]:
    """Run the calls of a trajectory again, sandboxes included, and return every difference in trees, rewards and endings.

    Observations are not compared, because they have times. `seed` draws the secret data sets of the grading; the reward must not depend on it.
    Raises CodeTrajectoryError if the trajectory is of another task, mask or workspace.
    """
    code_env = _check_environment(env, trajectory)
    env.reset(seed=seed)
    bench = code_env.bench
    assert bench is not None  # set by reset
    replies = [step["helper_reply"] for step in trajectory["steps"] if step["helper_reply"] is not None]
    if replies:
        bench.helper = RecordedHelper(replies)
    differences: list[str] = []
    for step in trajectory["steps"]:
        if bench.ending:
            return [*differences, f"step {step['number']}: the replay ended before it: {bench.ending}"]
        # An empty reply cannot be read, as the recorded one.
        _, reward, terminated, truncated, info = env.step(step["call"] or "")
        replayed = {
            "tree": info["tree"],
            "refused": info["refused"],
            "reward": reward,
            "terminated": terminated,
            "truncated": truncated,
        }
        differences += [
            f"step {step['number']}: {name} is {value!r} in the replay and {step[name]!r} in the trajectory"
            for name, value in replayed.items()
            if value != step[name]
        ]
    if bench.ending != trajectory["ending"]:
        differences.append(f"ending is {bench.ending!r} in the replay and {trajectory['ending']!r} in the trajectory")
    return differences


def _check_environment(env: "gymnasium.Env[Any, Any]", trajectory: Mapping[str, Any]) -> ReplicationEnv:
    code_env = env.unwrapped
    if not isinstance(code_env, ReplicationEnv):
        raise CodeTrajectoryError("the environment is not one of replication tasks")
    expected = {
        "schema": SCHEMA,
        "task_sha256": hash_task(code_env.task),
        "functions": list(code_env.function_ids),
        "tree": hash_tree(code_env.workspace),
    }
    wrong = [
        f"{name} is {trajectory.get(name)!r}; expected {value!r}"
        for name, value in expected.items()
        if trajectory.get(name) != value
    ]
    if wrong:
        raise CodeTrajectoryError("; ".join(wrong))
    return code_env
