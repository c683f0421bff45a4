"""Attempts as lines of JSON: what was seen, what was done, what it was worth. They replay in the Gymnasium environment.

Neither Django nor a database is needed to read them. Nothing stands in a line that the agent could not see: the
simulator's ledger and the transition model's reasons stay behind.
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
    """A line does not fit the environment it is played in; the message says where they part."""


class Moment(NamedTuple):
    """What the environment answered to one action: the tuple of Gymnasium's `step`."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


def steps(bench: Bench, done: Iterable[Step], verdict: Verdict | None, thoughts: Mapping[str, str]) -> list[Any]:
    """Each step with what was seen before it. `bench` stands as at the start and is left as at the end."""
    written = []
    for step in done:
        seen = telling.situation(bench.situation())
        bench.replay([step])
        truncated = bench.ending is Ending.TRUNCATED
        good = bench.ending is Ending.SUBMITTED and verdict is not None and verdict.sufficient
        written.append(
            {
                "number": step.number,
                "observation": seen,
                "thought": thoughts.get(str(step.number), ""),
                "action": None if _unreadable(step.outcome) else step.action.to_json(),
                "outcome": _shown(step.outcome),
                "reward": 1.0 if good else 0.0,
                "terminated": bench.ending is not None and not truncated,
                "truncated": truncated,
            }
        )
    return written


def replay(env: "gymnasium.Env[Any, Any]", line: Mapping[str, Any]) -> list[Moment]:
    """Plays a line's actions, its outcomes and verdict given back as they were. TrajectoryError at the first difference.

    `env` is an environment of the line's experiment, made with the line's `manifest`.
    """
    inner = _fitting(env, line)
    _set_up(env, inner, line)
    seen, moments = telling.situation(_bench(inner).situation()), []
    for step in line["steps"]:
        _need_same(step["number"], "observation", step["observation"], seen)
        moment = _step(env, inner, step)
        for name in ("reward", "terminated", "truncated"):
            _need_same(step["number"], name, step[name], getattr(moment, name))
        seen = moment.observation
        moments.append(moment)
    _need_same("last", "observation", line["final_observation"], seen)
    return moments


@dataclass(frozen=True)
class RecordedTransitionModel:
    """Gives each step the outcome it had."""

    outcomes: Mapping[int, Outcome]

    def predict(self, action: Action, situation: Situation) -> Outcome:
        number = len(situation.history) + 1
        if number not in self.outcomes:
            raise TrajectoryError(f"step {number}: no outcome is recorded")
        return self.outcomes[number]


@dataclass(frozen=True)
class RecordedClassifier:
    """Gives the verdict there was."""

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
    """The outcome without what no agent sees."""
    told = outcome.to_json() | {"reasoning": ""}
    drafts = [{key: value for key, value in draft.items() if key != _HIDDEN} for draft in told["new_materials"]]
    return told | {"new_materials": drafts}


def _fitting(env: "gymnasium.Env[Any, Any]", line: Mapping[str, Any]) -> WetLabEnv:
    if line.get("schema") != SCHEMA:
        raise TrajectoryError(f"schema is {line.get('schema')!r}; read is {SCHEMA}")
    inner = env.unwrapped
    if not isinstance(inner, WetLabEnv):
        raise TrajectoryError(f"env is a {type(inner).__name__}; it must be a WetLabEnv")
    for name, wanted, there in (
        ("experiment", line["experiment"], inner.experiment.slug),
        ("manifest", line["manifest"], inner.manifest is not None),
    ):
        if wanted != there:
            raise TrajectoryError(f"{name} is {wanted!r} in the line, {there!r} in the environment")
    return inner


def _set_up(env: "gymnasium.Env[Any, Any]", inner: WetLabEnv, line: Mapping[str, Any]) -> None:
    """The bench as the line found it: its barcodes follow from the seed, which Gymnasium's own could never be."""
    env.reset(seed=0)
    seed, verdict = line["seed"], line["verdict"]
    inventory = place_all(inner.experiment.drafts(), seed)
    inner.bench = replace(_bench(inner), seed=seed, inventory=inventory, history=[])
    outcomes = {step["number"]: Outcome.from_json(step["outcome"]) for step in line["steps"]}
    judged = verdict_from_json(verdict) if verdict else None
    inner.players = Players(RecordedTransitionModel(outcomes), RecordedClassifier(judged))


def _step(env: "gymnasium.Env[Any, Any]", inner: WetLabEnv, step: Mapping[str, Any]) -> Moment:
    """One recorded action. What could not be read is recorded as that: the words it was written in are not kept."""
    if step["action"] is not None:
        seen, reward, terminated, truncated, info = env.step(step["action"])
        return Moment(seen, float(reward), terminated, truncated, info)
    bench = _bench(inner)
    bench.record(Action("(unreadable)"), Outcome.from_json(step["outcome"]))
    truncated = bench.ending is Ending.TRUNCATED
    ended = bench.ending is not None and not truncated
    return Moment(telling.situation(bench.situation()), 0.0, ended, truncated, {})


def _bench(inner: WetLabEnv) -> Bench:
    assert inner.bench is not None, "the environment was reset"
    return inner.bench


def _need_same(number: object, name: str, recorded: object, played: object) -> None:
    if recorded != played:
        raise TrajectoryError(f"step {number}: another {name} than recorded; the experiment or the catalogue changed")
