"""Code episodes as lines of JSON, `wetbench-code-trajectory/1`, and their replay in the Gymnasium environment.

A line has what the agent could see and do: no reference code, no gold value and no secret data.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium

from simulation.lab.errors import LabError
from simulation.replication.agents.environment import FIXTURES, ReplicationEnv, make_environment
from simulation.replication.episode_rules import EpisodeLimits, Spent, is_truncated
from simulation.replication.tasks.task_files import hash_task
from simulation.replication.tasks.workspaces import render_brief
from simulation.replication.tools import TOOLS
from simulation.replication.trees import hash_tree
from simulation.replication.values import CodeStepRecord, Task, ToolCall
from simulation.replication.workspace_edits import ToolRefused

SCHEMA = "wetbench-code-trajectory/1"
_NOT_TEXT = "\x00"  # every tool refuses it


class CodeTrajectoryError(LabError):
    """A trajectory belongs to another environment, or is malformed. The message states the field and both values."""


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
    seconds: Mapping[int, float] | None = None,
    tools: Collection[str] = tuple(TOOLS),
) -> dict[str, Any]:
    """Return an episode as a line. `trees[k]` is the digest of the workspace after k steps.

    `helper_replies` has by step the text of a file that the helper rewrote, or its answer; `seconds` those of the step's sandbox. `tools` are
    those that the agent was allowed. The reward is that of the environment: 1.0 with the last step of an episode that is solved, else 0.
    """
    conditions = dict(conditions or {})
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
                "sandbox_seconds": (seconds or {}).get(step.number, 0.0),
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
        "conditions": conditions,
        "limits": limits._asdict(),
        "tools": list(tools),
        "brief": render_brief(task, function_ids, conditions.get("paper", "full")),  # type: ignore[arg-type]  # an arm
        "tree": trees[0],
        "steps": lines,
        "ending": ending,
        "outcome": outcome,
    }


@dataclass
class RecordedHelper:
    """A helper that returns the reply of the recorded step, which `replay_trajectory` sets before each step."""

    step: Mapping[str, Any] = field(default_factory=dict)

    def edit(self, path: str, text: str, instruction: str) -> str:
        return self._reply(text)

    def answer(self, path: str, text: str, question: str) -> str:
        return self._reply("")

    def _reply(self, unchanged: str) -> str:
        if self.step["refused"]:
            raise ToolRefused("the helper gave no usable answer")
        reply = self.step.get("helper_reply")
        return unchanged if reply is None else str(reply)


def open_environment(trajectory: Mapping[str, Any], directory: Path = FIXTURES) -> ReplicationEnv:
    """Return the environment of a trajectory: its task, mask and conditions.

    Raises CodeTrajectoryError for another form, and as `make_environment`: SandboxUnavailable, TaskFileError, LabError.
    """
    if trajectory.get("schema") != SCHEMA:
        raise CodeTrajectoryError(f"schema is {trajectory.get('schema')!r}; expected {SCHEMA!r}")
    conditions = trajectory["conditions"]
    return make_environment(
        trajectory["task"],
        functions=trajectory["functions"],
        docs=conditions.get("docs", "kept"),
        paper=conditions.get("paper", "full"),
        profile=conditions.get("profile", "full"),
        directory=directory,
    )


def replay_trajectory(env: "gymnasium.Env[Any, Any]", trajectory: Mapping[str, Any], seed: int = 1) -> list[str]:
    """Run the calls of a trajectory again, sandboxes included, and return every difference in trees, rewards and endings.

    Observations are not compared, because they have times. Used seconds and money are those of the trajectory, so that its limits are reached
    at the same step. `seed` draws the secret data sets of the grading; the reward must not depend on it.
    Raises CodeTrajectoryError if the trajectory is of another task, mask or workspace.
    """
    code_env = _check_environment(env, trajectory)
    env.reset(seed=seed)
    bench = code_env.bench
    assert bench is not None  # set by reset
    helper, seconds = RecordedHelper(), 0.0
    bench.helper, bench.tools, bench.limits = helper, trajectory["tools"], EpisodeLimits(**trajectory["limits"])
    differences: list[str] = []
    for step in trajectory["steps"]:
        if bench.ending:
            return [*differences, f"step {step['number']}: the replay ended before it: {bench.ending}"]
        helper.step, bench.spent = step, Spent(len(bench.steps), seconds)
        if step is trajectory["steps"][-1] and trajectory["ending"] == "out_of_money":
            bench.limits = bench.limits._replace(cost=0.0)
        seconds += step["sandbox_seconds"]
        # The recorded reply could not be read; neither can an empty one.
        _, reward, terminated, truncated, info = env.step(_restore_call(step) or "")
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


def _restore_call(step: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the call of a step, or None if it could not be read."""
    if step["call"] is None:
        return None
    call = ToolCall.from_json(step["call"]).to_json()
    if step["refused"]:
        # Databases store U+FFFD in place of characters that are not text, for which the call was refused.
        call["arguments"] = {name: text.replace("\ufffd", _NOT_TEXT) for name, text in call["arguments"].items()}
    return call


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
