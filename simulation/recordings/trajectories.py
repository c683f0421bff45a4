"""Episodes as lines of JSON: observations, actions and rewards. They can be replayed in the Gymnasium environment.

Reading them requires neither Django nor a database. A line has nothing that the agent could not see: the simulator's
ledger and the transition model's reasoning are left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import gymnasium

from simulation.lab import rendering
from simulation.lab.actions import Action
from simulation.lab.bench import Bench, Ending, Step
from simulation.lab.environment.gym_env import SimulatedRoles, WetLabEnv
from simulation.lab.errors import LabError
from simulation.lab.hidden_steps.masks import ProtocolMask
from simulation.lab.hidden_steps.written_protocols import write_protocol
from simulation.lab.materials import build_inventory
from simulation.lab.outcomes import Outcome, RejectedBy, Verdict
from simulation.lab.roles import Situation, TranscriptStep

SCHEMA = "wetbench-trajectory/1"
_HIDDEN_KEY = "ledger"


class TrajectoryError(LabError):
    """A trajectory does not fit its environment. The message states the step and the difference."""


class StepResult(NamedTuple):
    """The environment's response to one action: the tuple of Gymnasium's `step`."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def build_steps(
    bench: Bench, completed: Iterable[Step], verdict: Verdict | None, thoughts: Mapping[str, str]
) -> list[Any]:
    """Return each step as a dict, with the observation before it. `bench` is taken from its initial to its final state."""
    lines = []
    for step in completed:
        observation = rendering.render_situation(bench.get_situation())
        bench.replay_steps([step])
        truncated = bench.ending is Ending.TRUNCATED
        # Without the parts that agents never see.
        visible = step.outcome.to_json() | {"reasoning": ""}
        drafts = [{key: value for key, value in d.items() if key != _HIDDEN_KEY} for d in visible["new_materials"]]
        succeeded = bench.ending is Ending.SUBMITTED and verdict is not None and verdict.sufficient
        lines.append(
            {
                "number": step.number,
                "observation": observation,
                "thought": thoughts.get(str(step.number), ""),
                "action": None if step.outcome.rejected_by == RejectedBy.PARSER else step.action.to_json(),
                "outcome": visible | {"new_materials": drafts},
                "reward": 1.0 if succeeded else 0.0,
                "terminated": bench.ending is not None and not truncated,
                "truncated": truncated,
            }
        )
    return lines


def replay_trajectory(env: "gymnasium.Env[Any, Any]", trajectory: Mapping[str, Any]) -> list[StepResult]:
    """Run the actions of a trajectory with its recorded outcomes and verdict, and return the result of each step.

    `env` must be an environment of the trajectory's experiment, created with its `manifest`. Raises TrajectoryError at the
    first difference.
    """
    lab_env = _get_matching_env(env, trajectory)
    # Trajectories of before the draws have no truth seed; their episodes had the reference truth.
    env.reset(seed=0, options={"truth_seed": trajectory.get("truth_seed")})
    seed, verdict = trajectory["seed"], trajectory["verdict"]
    # Barcodes follow from the seed. Gymnasium derives its own seed, so the bench is set here and not by reset().
    inventory = build_inventory(lab_env.experiment.initial_materials(), seed)
    # Trajectories of before the masks have none.
    mask = ProtocolMask.from_json(trajectory.get("mask", {}))
    protocol = write_protocol(lab_env.experiment, mask.hidden) if mask else ""
    lab_env.bench = replace(_get_bench(lab_env), seed=seed, inventory=inventory, history=[], protocol=protocol)
    outcomes = {step["number"]: Outcome.from_json(step["outcome"]) for step in trajectory["steps"]}
    recorded_verdict = parse_verdict(verdict) if verdict else None
    lab_env.players = SimulatedRoles(RecordedTransitionModel(outcomes), RecordedClassifier(recorded_verdict))
    observation, results = rendering.render_situation(_get_bench(lab_env).get_situation()), []
    for step in trajectory["steps"]:
        _check_same(step["number"], "observation", step["observation"], observation)
        result = _replay_step(env, lab_env, step)
        for name in ("reward", "terminated", "truncated"):
            _check_same(step["number"], name, step[name], getattr(result, name))
        observation = result.observation
        results.append(result)
    _check_same("last", "observation", trajectory["final_observation"], observation)
    return results


@dataclass(frozen=True)
class RecordedTransitionModel:
    """A transition model that returns the recorded outcome of each step."""

    outcomes: Mapping[int, Outcome]

    def predict_outcome(self, action: Action, situation: Situation) -> Outcome:
        number = len(situation.history) + 1
        if number not in self.outcomes:
            raise TrajectoryError(f"step {number}: no outcome is recorded")
        return self.outcomes[number]


@dataclass(frozen=True)
class RecordedClassifier:
    """An evidence classifier that returns the recorded verdict."""

    verdict: Verdict | None

    def judge_evidence(self, goal: str, transcript: Iterable[TranscriptStep]) -> Verdict:
        if self.verdict is None:
            raise TrajectoryError("no verdict is recorded")
        return self.verdict


def parse_verdict(data: Mapping[str, Any]) -> Verdict:
    return Verdict(**{**data, "lines": tuple(data["lines"])})


def _get_matching_env(env: "gymnasium.Env[Any, Any]", trajectory: Mapping[str, Any]) -> WetLabEnv:
    """Return the unwrapped environment. Raise TrajectoryError if it does not match the trajectory."""
    if trajectory.get("schema") != SCHEMA:
        raise TrajectoryError(f"schema is {trajectory.get('schema')!r}; it must be {SCHEMA!r}")
    lab_env = env.unwrapped
    if not isinstance(lab_env, WetLabEnv):
        raise TrajectoryError(f"env is a {type(lab_env).__name__}; it must be a WetLabEnv")
    for name, expected, actual in (
        ("experiment", trajectory["experiment"], lab_env.experiment.slug),
        ("manifest", trajectory["manifest"], lab_env.manifest is not None),
    ):
        if expected != actual:
            raise TrajectoryError(f"{name} is {expected!r} in the trajectory, {actual!r} in the environment")
    return lab_env


def _replay_step(env: "gymnasium.Env[Any, Any]", lab_env: WetLabEnv, step: Mapping[str, Any]) -> StepResult:
    """Run one recorded action."""
    if step["action"] is not None:
        observation, reward, terminated, truncated, info = env.step(step["action"])
        return StepResult(observation, float(reward), terminated, truncated, info)
    bench = _get_bench(lab_env)
    # The agent's reply could not be parsed and is not stored, so it is recorded directly as a rejected step.
    bench.record_outcome(Action("(unreadable)"), Outcome.from_json(step["outcome"]))
    truncated = bench.ending is Ending.TRUNCATED
    ended = bench.ending is not None and not truncated
    return StepResult(rendering.render_situation(bench.get_situation()), 0.0, ended, truncated, {})


def _get_bench(lab_env: WetLabEnv) -> Bench:
    assert lab_env.bench is not None, "the environment was reset"
    return lab_env.bench


def _check_same(number: object, name: str, recorded: object, replayed: object) -> None:
    if recorded != replayed:
        raise TrajectoryError(
            f"step {number}: {name} differs from the recording; the experiment or the action catalogue has changed"
        )
