"""python -m bench.baselines [--seeds N] [--experiment SLUG ...] [--write]

Play every experiment with rule-based agents in the Gymnasium environment, with truths of the validation split, and print
what a learning agent has to beat. With --write, store the results in bench/results/baselines.json and the table in
docs/training.md.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import gymnasium

from simulation.lab.actions import SUBMIT, Action
from simulation.lab.environment.gym_env import WetLabEnv
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.roles import Agent, Situation
from simulation.lab.truths import truth_seeds
from simulation.offline import gym
from simulation.offline.agents import ProtocolAgent, RandomAgent

ROOT = Path(__file__).resolve().parents[1]
RESULTS, DOCUMENT = ROOT / "bench/results/baselines.json", ROOT / "docs/training.md"
BEGIN, END = "<!-- baselines: python -m bench.baselines --write -->\n", "<!-- end of baselines -->"
SEEDS = 5


class NullAgent:
    """An agent that submits at once. It shows what a classifier accepts without any evidence."""

    def choose_action(self, situation: Situation) -> Action:
        return Action(SUBMIT)


AGENTS: dict[str, tuple[str, Callable[[ExperimentSpec, int], Agent]]] = {
    "protocol": ("follows the reference protocol", lambda spec, seed: ProtocolAgent(spec, seed)),
    "careless": ("follows it with one to three lapses", lambda spec, seed: ProtocolAgent(spec, seed, lapses=True)),
    "random": ("takes allowed actions at random", lambda spec, seed: RandomAgent(seed)),
    "null": ("submits at once", lambda spec, seed: NullAgent()),
}


class Rollout(NamedTuple):
    """One episode of a baseline agent."""

    experiment: str
    agent: str
    number: int  # of the validation seed, from 0
    reward: float  # the binary reward
    evidence: float  # share of evidence lines met at the end: the sum of the shaped rewards before the last step
    steps: int
    ending: str


def roll_out(slug: str, agent_name: str, number: int) -> Rollout:
    """Play one episode with the truth of validation seed `number`, from 0."""
    env = gymnasium.make(gym.environment_id(slug), truths=truth_seeds.VALIDATION).unwrapped
    assert isinstance(env, WetLabEnv)
    truth_seed = truth_seeds.get_truth_seed(truth_seeds.VALIDATION, number)
    env.reset(seed=number, options={"truth_seed": truth_seed})
    agent, reward, ended = AGENTS[agent_name][1](env.experiment, number), 0.0, False
    info: dict[str, Any] = {}
    while not ended:
        assert env.bench is not None
        action = agent.choose_action(env.bench.get_situation())
        _, reward, terminated, truncated, info = env.step(action.to_json())
        ended = terminated or truncated
    return Rollout(slug, agent_name, number, reward, round(env.measure_evidence(), 4), info["step"], info["ending"])


def format_table(rollouts: Sequence[Rollout]) -> str:
    """Return the results of each agent over all experiments as a Markdown table."""
    experiments, seeds = {one.experiment for one in rollouts}, {one.number for one in rollouts}
    lines = [
        f"{len(experiments)} experiments, the first {len(seeds)} validation seeds of each.",
        "",
        "| Agent | What it does | Judged sufficient | Evidence lines met | Steps | Endings |",
        "|---|---|---|---|---|---|",
    ]
    for name, (what, _) in AGENTS.items():
        own = [one for one in rollouts if one.agent == name]
        won, evidence, steps = (
            sum(one.reward == 1 for one in own),
            *(fmean(values) for values in zip(*((one.evidence, one.steps) for one in own), strict=True)),
        )
        endings = ", ".join(f"{ending} {count}" for ending, count in Counter(one.ending for one in own).most_common())
        cells = (name, what, f"{won} of {len(own)} ({won / len(own):.0%})", f"{evidence:.0%}", f"{steps:.1f}", endings)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def load_rollouts() -> list[Rollout]:
    return [Rollout(*row) for row in json.loads(RESULTS.read_text(encoding="utf-8"))]


def write_results(rollouts: Sequence[Rollout]) -> None:
    rows = ",\n".join(json.dumps(list(one)) for one in rollouts)
    RESULTS.write_text(f"[\n{rows}\n]\n", encoding="utf-8")
    text = DOCUMENT.read_text(encoding="utf-8")
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    DOCUMENT.write_text(f"{text[:start]}{format_table(rollouts)}{text[end:]}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="validation seeds of each experiment")
    parser.add_argument("--experiment", action="append", choices=gym.list_slugs(), help="only this; may be repeated")
    parser.add_argument("--write", action="store_true", help="store the results and the table of docs/training.md")
    options = parser.parse_args(arguments)
    rollouts = []
    for slug in options.experiment or gym.list_slugs():
        print(slug, file=sys.stderr)
        rollouts += [roll_out(slug, name, number) for name in AGENTS for number in range(options.seeds)]
    if options.write:
        write_results(rollouts)
    print(format_table(rollouts))


if __name__ == "__main__":
    main()
