"""python -m bench.prompt_caching: how much of what a model is told in an episode its provider has in its cache.

One episode of 30 steps by a language model as agent (full history) and as transition model, against the local model
server, which keeps prompt caches as the providers do: up to a marked block (Anthropic), or the longest prefix that it
has seen, in steps of 128 tokens (OpenAI). Baseline in the same run: the very same prompts with what never changes last,
in one message. What counts is the input's cost over the baseline's, by the price of each class of tokens in
fixtures/models.json. Ends with 1 where our layout does not bring that below a half, or less than half is read from the cache.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import NamedTuple

from bench import services
from bench.services import ROOT
from simulation.casts import pricing
from simulation.casts.pricing import Price
from simulation.lab import catalogue, experiments
from simulation.lab.bench import Bench
from simulation.lab.materials import place_all
from simulation.llm.agent import LLMAgent
from simulation.llm.prompts import prompt_sets
from simulation.llm.transition_model import LLMTransitionModel
from simulation.providers import Message, Prompt, connections
from simulation.providers.base import Completion, Connection, Params, Usage, WireOptions

MODELS = ("claude-sonnet-4", "gpt-5")
STEPS, SEED, EXPERIMENT = 30, 1, "caffeine-hplc-analysis"
PARAMS = Params(max_tokens=4096)
DEADLINE = 60.0  # seconds a call may take
LEAST_SHARE, MOST_COST = 0.5, 0.5


class Layout(NamedTuple):
    """What one way of laying out the prompts of an episode came to."""

    usages: tuple[Usage, ...]
    cost: Decimal  # of the input, in US dollars

    @property
    def tokens(self) -> int:
        return sum(u.input_uncached + u.cache_read + u.cache_write_5m + u.cache_write_1h for u in self.usages)

    @property
    def share(self) -> float:
        """Of the input tokens, those read from the cache."""
        return sum(u.cache_read for u in self.usages) / self.tokens


@dataclass
class Ear:
    """A speaker that remembers what was said and what it came to."""

    line: Connection
    prompts: list[Prompt] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    def __call__(self, prompt: Prompt) -> Completion:
        completion = self.line.send(self.line.prepare(prompt, PARAMS), DEADLINE)
        assert completion.usage is not None
        self.prompts.append(prompt)
        self.usages.append(completion.usage)
        return completion


def connected(model: Mapping[str, object], environ: Mapping[str, str]) -> Connection:
    wants = {**model["options"]}  # type: ignore[dict-item]
    if "effort_levels" in wants:
        wants["effort_levels"] = tuple(wants["effort_levels"])
    end = connections.endpoint(str(model["provider"]), str(model["model_id"]), WireOptions(**wants), environ)
    return connections.connect(end)


def play(line: Connection) -> tuple[Ear, Ear]:
    """The episode: what the agent said, and what the transition model was asked."""
    actions, _ = catalogue.read_directory(ROOT / "fixtures" / "actions")
    specs = experiments.read_directory(ROOT / "fixtures" / "experiments", actions)
    spec = next(spec for spec, _ in specs if spec.slug == EXPERIMENT)
    bench = Bench(spec.goal, actions, place_all(spec.drafts(), SEED), SEED, spec.max_steps)
    chooses, answers, texts = Ear(line), Ear(line), prompt_sets.built_in()
    agent = LLMAgent(chooses, texts, "react", {"kind": "full"}, {})
    while not bench.ending:
        bench.step(agent.choose(bench.situation()), LLMTransitionModel(answers, texts))
    assert len(bench.history) == STEPS + 1, f"{bench.ending} after {len(bench.history)} steps"
    return chooses, answers


def static_last(prompt: Prompt) -> Prompt:
    """The same words in one message, what never changes at its end."""
    first, *more = prompt.messages
    joined = Message(first.role, f"{first.text}\n\n{prompt.system}")
    return Prompt("", (joined, *more), prompt.purpose, prompt.prompt_set, prompt.wants_json)


def input_cost(usages: Iterable[Usage], price: Price) -> Decimal:
    """What the input costs. A class without a price of its own (OpenAI's writes) costs nothing extra."""
    costs = (pricing.cost(usage._replace(output=0, reasoning=0), price) for usage in usages)
    return sum((cost for cost in costs if cost is not None), Decimal(0))


def line(name: str, layout: Layout, baseline: Layout) -> str:
    ratio = f"{layout.cost / baseline.cost:10.2f}"
    return f"{name:>42}  {len(layout.usages):5d}  {layout.tokens:9d}  {100 * layout.share:8.1f}  {layout.cost:8.4f}  {ratio}"


def measure(model: Mapping[str, object], server: services.ModelServer) -> bool:
    """Prints a model's lines; whether our layout does what it is for."""
    told = model["prices"][-1]  # type: ignore[index]
    price = Price(*(None if told[name] is None else Decimal(told[name]) for name in Price._fields))
    server.reset()
    speaks = connected(model, server.environ())
    by_role = dict(zip(("agent", "transition model"), play(speaks), strict=True))
    server.reset()  # the baseline begins with an empty cache too
    again = {role: Ear(speaks) for role in by_role}
    for role, ear in by_role.items():
        for prompt in ear.prompts:
            again[role](static_last(prompt))
    for role in by_role:
        ours, last = (_layout(ear.usages, price) for ear in (by_role[role], again[role]))
        print(line(f"{model['name']}, {role}", ours, last))
        print(line("baseline: static part last", last, last))
    ours = _layout([usage for ear in by_role.values() for usage in ear.usages], price)
    last = _layout([usage for ear in again.values() for usage in ear.usages], price)
    print(line(f"{model['name']}, whole episode", ours, last))
    return ours.share >= LEAST_SHARE and float(ours.cost / last.cost) <= MOST_COST


def _layout(usages: Iterable[Usage], price: Price) -> Layout:
    kept = tuple(usages)
    return Layout(kept, input_cost(kept, price))


def main() -> int:
    models = {model["name"]: model for model in json.loads((ROOT / "fixtures" / "models.json").read_text())["models"]}
    print(f"An episode of {STEPS} steps with full history. Baseline: the same prompts, what never changes last.")
    print(f"{'':>42}  {'calls':>5}  {'input tok.':>9} {'cached %':>9}  {'USD':>8}  {'/ baseline':>10}")
    with services.model_server("--steps", str(STEPS)) as server:
        good = [measure(models[name], server) for name in MODELS]
    print(f"Layout: {'as it should be' if all(good) else 'TOO LITTLE is read from the cache'}.")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
