"""Episodes as lines of JSON: observations, actions and rewards. They can be replayed in the Gymnasium environment.

Reading them requires neither Django nor a database. A line has nothing that the agent could not see: the simulator's
ledger and the transition model's reasoning are left out.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import gymnasium

from simulation.lab import telling
from simulation.lab.actions import Action
from simulation.lab.bench import Bench, Ending, Step
from simulation.lab.environment.env import Players, WetLabEnv
from simulation.lab.errors import LabError
from simulation.lab.materials import place_all
from simulation.lab.outcomes import Outcome, RejectedBy, Verdict
from simulation.lab.roles import Situation, TranscriptStep

SCHEMA = "wetbench-trajectory/1"
_HIDDEN = "ledger"


class TrajectoryError(LabError):
    """A trajectory does not fit its environment. The message says at which step and in what they differ."""


class Moment(NamedTuple):
    """The environment's response to one action: the tuple of Gymnasium's `step`."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def steps(bench: Bench, done: Iterable[Step], verdict: Verdict | None, thoughts: Mapping[str, str]) -> list[Any]:
    """Return each step as a dict, with the observation before it.

    `bench` must be in its initial state, and is left in its final state.
    """
    lines = []
    for step in done:
        observation = telling.situation(bench.situation())
        bench.replay([step])
        truncated = bench.ending is Ending.TRUNCATED
        succeeded = bench.ending is Ending.SUBMITTED and verdict is not None and verdict.sufficient
        lines.append(
            {
                "number": step.number,
                "observation": observation,
                "thought": thoughts.get(str(step.number), ""),
                "action": None if _unreadable(step.outcome) else step.action.to_json(),
                "outcome": _shown(step.outcome),
                "reward": 1.0 if succeeded else 0.0,
                "terminated": bench.ending is not None and not truncated,
                "truncated": truncated,
            }
        )
    return lines


def replay(env: "gymnasium.Env[Any, Any]", line: Mapping[str, Any]) -> list[Moment]:
    """Run the actions of a trajectory with its recorded outcomes and verdict, and return the result of each step.

    `env` must be an environment of the trajectory's experiment, created with its `manifest`. Raises TrajectoryError at the
    first difference.
    """
    lab_env = _fitting(env, line)
    _set_up(env, lab_env, line)
    observation, results = telling.situation(_bench(lab_env).situation()), []
    for step in line["steps"]:
        _need_same(step["number"], "observation", step["observation"], observation)
        result = _step(env, lab_env, step)
        for name in ("reward", "terminated", "truncated"):
            _need_same(step["number"], name, step[name], getattr(result, name))
        observation = result.observation
        results.append(result)
    _need_same("last", "observation", line["final_observation"], observation)
    return results


@dataclass(frozen=True)
class RecordedTransitionModel:
    """Return the recorded outcome of each step."""

    outcomes: Mapping[int, Outcome]

    def predict(self, action: Action, situation: Situation) -> Outcome:
        number = len(situation.history) + 1
        if number not in self.outcomes:
            raise TrajectoryError(f"step {number}: no outcome is recorded")
        return self.outcomes[number]


@dataclass(frozen=True)
class RecordedClassifier:
    """Return the recorded verdict."""

    verdict: Verdict | None

    def judge(self, goal: str, transcript: Iterable[TranscriptStep]) -> Verdict:
        if self.verdict is None:
            raise TrajectoryError("no verdict is recorded")
        return self.verdict


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    return Verdict(**{**data, "lines": tuple(data["lines"])})


def _unreadable(outcome: Outcome) -> bool:
    return outcome.rejected_by == RejectedBy.PARSER


def _shown(outcome: Outcome) -> dict[str, Any]:
    """Return the outcome as JSON without what no agent sees."""
    visible = outcome.to_json() | {"reasoning": ""}
    materials = [{key: value for key, value in draft.items() if key != _HIDDEN} for draft in visible["new_materials"]]
    return visible | {"new_materials": materials}


def _fitting(env: "gymnasium.Env[Any, Any]", line: Mapping[str, Any]) -> WetLabEnv:
    """Return the unwrapped environment. Raise TrajectoryError if it does not match the trajectory."""
    if line.get("schema") != SCHEMA:
        raise TrajectoryError(f"schema is {line.get('schema')!r}; it must be {SCHEMA!r}")
    lab_env = env.unwrapped
    if not isinstance(lab_env, WetLabEnv):
        raise TrajectoryError(f"env is a {type(lab_env).__name__}; it must be a WetLabEnv")
    for name, expected, actual in (
        ("experiment", line["experiment"], lab_env.experiment.slug),
        ("manifest", line["manifest"], lab_env.manifest is not None),
    ):
        if expected != actual:
            raise TrajectoryError(f"{name} is {expected!r} in the trajectory, {actual!r} in the environment")
    return lab_env


def _set_up(env: "gymnasium.Env[Any, Any]", inner: WetLabEnv, line: Mapping[str, Any]) -> None:
    """Put the environment into the initial state of the trajectory."""
    env.reset(seed=0)
    seed, verdict = line["seed"], line["verdict"]
    # Barcodes follow from the seed. Gymnasium derives its own seed, so the bench is set here and not by reset().
    inventory = place_all(inner.experiment.drafts(), seed)
    inner.bench = replace(_bench(inner), seed=seed, inventory=inventory, history=[])
    outcomes = {step["number"]: Outcome.from_json(step["outcome"]) for step in line["steps"]}
    recorded_verdict = verdict_from_json(verdict) if verdict else None
    inner.players = Players(RecordedTransitionModel(outcomes), RecordedClassifier(recorded_verdict))


def _step(env: "gymnasium.Env[Any, Any]", inner: WetLabEnv, step: Mapping[str, Any]) -> Moment:
    """Run one recorded action."""
    if step["action"] is not None:
        observation, reward, terminated, truncated, info = env.step(step["action"])
        return Moment(observation, float(reward), terminated, truncated, info)
    bench = _bench(inner)
    # The agent's reply could not be parsed and its text is not stored, so it is recorded directly as a rejected
    # step.
    bench.record(Action("(unreadable)"), Outcome.from_json(step["outcome"]))
    truncated = bench.ending is Ending.TRUNCATED
    ended = bench.ending is not None and not truncated
    return Moment(telling.situation(bench.situation()), 0.0, ended, truncated, {})


def _bench(inner: WetLabEnv) -> Bench:
    assert inner.bench is not None, "the environment was reset"
    return inner.bench


def _need_same(number: object, name: str, recorded: object, played: object) -> None:
    if recorded != played:
        raise TrajectoryError(
            f"step {number}: {name} differs from the recording; the experiment or the action catalogue has changed"
        )
