"""python -m bench.prompt_caching: what share of an episode's prompts its provider reads from its cache.

One episode of 30 steps with a language model as agent (full history) and as transition model, against the local model
server. The server caches prompts as the providers do: up to a marked block (Anthropic), or the longest prefix that was sent
before, in steps of 128 tokens (OpenAI). Baseline in the same run: the same prompts in one message, with the constant part
last. The result is the ratio of the costs of the input, by the price of each class of tokens in fixtures/models.json. Exits
with 1 if our layout costs more than half of the baseline, or if less than half is read from the cache.
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
DEADLINE = 60.0  # seconds per call
LEAST_SHARE, MOST_COST = 0.5, 0.5


class Layout(NamedTuple):
    """Tokens and cost of an episode with one layout of its prompts."""

    usages: tuple[Usage, ...]
    cost: Decimal  # of the input, in US dollars

    @property
    def tokens(self) -> int:
        return sum(u.input_uncached + u.cache_read + u.cache_write_5m + u.cache_write_1h for u in self.usages)

    @property
    def share(self) -> float:
        """The share of the input tokens that was read from the cache."""
        return sum(u.cache_read for u in self.usages) / self.tokens


@dataclass
class Ear:
    """Send prompts, and record them with their usage."""

    line: Connection
    prompts: list[Prompt] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    def __call__(self, prompt: Prompt) -> Completion:
        completion = self.line.send(self.line.prepare(prompt, PARAMS), DEADLINE)
        # The local server always reports usage; without it the comparison means nothing.
        assert completion.usage is not None
        self.prompts.append(prompt)
        self.usages.append(completion.usage)
        return completion


def connected(model: Mapping[str, object], environ: Mapping[str, str]) -> Connection:
    options = {**model["options"]}  # type: ignore[dict-item]
    if "effort_levels" in options:
        options["effort_levels"] = tuple(options["effort_levels"])
    endpoint = connections.endpoint(str(model["provider"]), str(model["model_id"]), WireOptions(**options), environ)
    return connections.connect(endpoint)


def play(line: Connection) -> tuple[Ear, Ear]:
    """Run the episode; return the recorded calls of the agent and of the transition model."""
    actions, _ = catalogue.read_directory(ROOT / "fixtures" / "actions")
    specs = experiments.read_directory(ROOT / "fixtures" / "experiments", actions)
    spec = next(spec for spec, _ in specs if spec.slug == EXPERIMENT)
    bench = Bench(spec.goal, actions, place_all(spec.drafts(), SEED), SEED, spec.max_steps)
    agent_speaker, model_speaker, texts = Ear(line), Ear(line), prompt_sets.built_in()
    agent = LLMAgent(agent_speaker, texts, "react", {"kind": "full"}, {})
    while not bench.ending:
        bench.step(agent.choose(bench.situation()), LLMTransitionModel(model_speaker, texts))
    assert len(bench.history) == STEPS + 1, f"{bench.ending} after {len(bench.history)} steps"
    return agent_speaker, model_speaker


def static_last(prompt: Prompt) -> Prompt:
    """Return the same text in one message, with the constant part at the end."""
    first, *others = prompt.messages
    joined = Message(first.role, f"{first.text}\n\n{prompt.system}")
    return Prompt("", (joined, *others), prompt.purpose, prompt.prompt_set, prompt.wants_json)


def input_cost(usages: Iterable[Usage], price: Price) -> Decimal:
    """Return the cost of the input. A token class without a price (OpenAI's cache writes) costs nothing extra."""
    costs = (pricing.cost(usage._replace(output=0, reasoning=0), price) for usage in usages)
    return sum((cost for cost in costs if cost is not None), Decimal(0))


def line(name: str, layout: Layout, baseline: Layout) -> str:
    ratio = f"{layout.cost / baseline.cost:10.2f}"
    return f"{name:>42}  {len(layout.usages):5d}  {layout.tokens:9d}  {100 * layout.share:8.1f}  {layout.cost:8.4f}  {ratio}"


def measure(model: Mapping[str, object], server: services.ModelServer) -> bool:
    """Print the table rows of a model; return whether our layout reaches both limits."""
    prices = model["prices"][-1]  # type: ignore[index]
    price = Price(*(None if prices[name] is None else Decimal(prices[name]) for name in Price._fields))
    server.reset()
    connection = connected(model, server.environ())
    by_role = dict(zip(("agent", "transition model"), play(connection), strict=True))
    server.reset()  # the baseline starts with an empty cache, too
    baseline_speakers = {role: Ear(connection) for role in by_role}
    for role, speaker in by_role.items():
        for prompt in speaker.prompts:
            baseline_speakers[role](static_last(prompt))
    for role in by_role:
        ours, baseline = (_layout(speaker.usages, price) for speaker in (by_role[role], baseline_speakers[role]))
        print(line(f"{model['name']}, {role}", ours, baseline))
        print(line("baseline: static part last", baseline, baseline))
    ours = _layout([usage for speaker in by_role.values() for usage in speaker.usages], price)
    baseline = _layout([usage for speaker in baseline_speakers.values() for usage in speaker.usages], price)
    print(line(f"{model['name']}, whole episode", ours, baseline))
    return ours.share >= LEAST_SHARE and float(ours.cost / baseline.cost) <= MOST_COST


def _layout(usages: Iterable[Usage], price: Price) -> Layout:
    collected = tuple(usages)
    return Layout(collected, input_cost(collected, price))


def main() -> int:
    models = {model["name"]: model for model in json.loads((ROOT / "fixtures" / "models.json").read_text())["models"]}
    print(f"An episode of {STEPS} steps with full history. Baseline: the same prompts with the constant part last.")
    print(f"{'':>42}  {'calls':>5}  {'input tok.':>9} {'cached %':>9}  {'USD':>8}  {'/ baseline':>10}")
    with services.model_server("--steps", str(STEPS)) as server:
        good = [measure(models[name], server) for name in MODELS]
    print(f"Layout: {'within the limits' if all(good) else 'TOO LITTLE is read from the cache'}.")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
