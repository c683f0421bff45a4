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
from simulation.lab.materials import build_inventory
from simulation.llm import prompt_sets
from simulation.llm.agent import LLMAgent
from simulation.llm.transition_model import LLMTransitionModel
from simulation.providers import Message, Prompt, connections
from simulation.providers.base import Completion, Connection, Params, Usage, WireOptions

MODELS = ("claude-sonnet-4", "gpt-5")
STEPS, SEED, EXPERIMENT = 30, 1, "caffeine-hplc-analysis"
PARAMS = Params(max_tokens=4096)
DEADLINE = 60.0  # seconds per call
MIN_CACHED_SHARE, MAX_COST_RATIO = 0.5, 0.5


class LayoutResult(NamedTuple):
    """Tokens and cost of an episode with one layout of its prompts."""

    usages: tuple[Usage, ...]
    cost: Decimal  # of the input, in US dollars

    @property
    def input_tokens(self) -> int:
        return sum(u.input_uncached + u.cache_read + u.cache_write_5m + u.cache_write_1h for u in self.usages)

    @property
    def cached_share(self) -> float:
        """The share of the input tokens that was read from the cache."""
        return sum(u.cache_read for u in self.usages) / self.input_tokens


@dataclass
class RecordingSpeaker:
    """Send prompts, and record them with their usage."""

    connection: Connection
    prompts: list[Prompt] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)

    def __call__(self, prompt: Prompt) -> Completion:
        completion = self.connection.send_request(self.connection.prepare_request(prompt, PARAMS), DEADLINE)
        # The local server always reports usage; without it the comparison means nothing.
        assert completion.usage is not None
        self.prompts.append(prompt)
        self.usages.append(completion.usage)
        return completion


def open_connection(model: Mapping[str, object], environ: Mapping[str, str]) -> Connection:
    options = {**model["options"]}  # type: ignore[dict-item]
    if "effort_levels" in options:
        options["effort_levels"] = tuple(options["effort_levels"])
    endpoint = connections.make_endpoint(
        str(model["provider"]), str(model["model_id"]), WireOptions(**options), environ
    )
    return connections.open_connection(endpoint)


def run_episode(connection: Connection) -> tuple[RecordingSpeaker, RecordingSpeaker]:
    """Run the episode; return the recorded calls of the agent and of the transition model."""
    actions, _ = catalogue.load_catalogue(ROOT / "fixtures" / "actions")
    specs = experiments.load_experiments(ROOT / "fixtures" / "experiments", actions)
    spec = next(spec for spec, _ in specs if spec.slug == EXPERIMENT)
    bench = Bench(spec.goal, actions, build_inventory(spec.initial_materials(), SEED), SEED, spec.max_steps)
    agent_speaker, model_speaker, texts = (
        RecordingSpeaker(connection),
        RecordingSpeaker(connection),
        prompt_sets.load_built_in(),
    )
    agent = LLMAgent(agent_speaker, texts, "react", {"kind": "full"}, {})
    while not bench.ending:
        bench.take_step(agent.choose_action(bench.get_situation()), LLMTransitionModel(model_speaker, texts))
    assert len(bench.history) == STEPS + 1, f"{bench.ending} after {len(bench.history)} steps"
    return agent_speaker, model_speaker


def move_static_last(prompt: Prompt) -> Prompt:
    """Return the same text in one message, with the constant part at the end."""
    first, *others = prompt.messages
    joined = Message(first.role, f"{first.text}\n\n{prompt.system}")
    return Prompt("", (joined, *others), prompt.purpose, prompt.prompt_set, prompt.wants_json)


def compute_input_cost(usages: Iterable[Usage], price: Price) -> Decimal:
    """Return the cost of the input. A token class without a price (OpenAI's cache writes) costs nothing extra."""
    costs = (pricing.compute_cost(usage._replace(output=0, reasoning=0), price) for usage in usages)
    return sum((cost for cost in costs if cost is not None), Decimal(0))


def format_table_row(name: str, layout: LayoutResult, baseline: LayoutResult) -> str:
    ratio = f"{layout.cost / baseline.cost:10.2f}"
    return f"{name:>42}  {len(layout.usages):5d}  {layout.input_tokens:9d}  {100 * layout.cached_share:8.1f}  {layout.cost:8.4f}  {ratio}"


def measure_model(model: Mapping[str, object], server: services.ModelServer) -> bool:
    """Print the table rows of a model; return whether our layout reaches both limits."""
    prices = model["prices"][-1]  # type: ignore[index]
    price = Price(*(None if prices[name] is None else Decimal(prices[name]) for name in Price._fields))
    server.reset_server()
    connection = open_connection(model, server.build_environ())
    by_role = dict(zip(("agent", "transition model"), run_episode(connection), strict=True))
    server.reset_server()  # the baseline starts with an empty cache, too
    baseline_speakers = {role: RecordingSpeaker(connection) for role in by_role}
    for role, speaker in by_role.items():
        for prompt in speaker.prompts:
            baseline_speakers[role](move_static_last(prompt))
    for role in by_role:
        ours, baseline = (
            summarise_usages(speaker.usages, price) for speaker in (by_role[role], baseline_speakers[role])
        )
        print(format_table_row(f"{model['name']}, {role}", ours, baseline))
        print(format_table_row("baseline: static part last", baseline, baseline))
    ours = summarise_usages([usage for speaker in by_role.values() for usage in speaker.usages], price)
    baseline = summarise_usages([usage for speaker in baseline_speakers.values() for usage in speaker.usages], price)
    print(format_table_row(f"{model['name']}, whole episode", ours, baseline))
    return ours.cached_share >= MIN_CACHED_SHARE and float(ours.cost / baseline.cost) <= MAX_COST_RATIO


def summarise_usages(usages: Iterable[Usage], price: Price) -> LayoutResult:
    collected = tuple(usages)
    return LayoutResult(collected, compute_input_cost(collected, price))


def main() -> int:
    models = {model["name"]: model for model in json.loads((ROOT / "fixtures" / "models.json").read_text())["models"]}
    print(f"An episode of {STEPS} steps with full history. Baseline: the same prompts with the constant part last.")
    print(f"{'':>42}  {'calls':>5}  {'input tok.':>9} {'cached %':>9}  {'USD':>8}  {'/ baseline':>10}")
    with services.start_model_server("--steps", str(STEPS)) as server:
        good = [measure_model(models[name], server) for name in MODELS]
    print(f"Layout: {'within the limits' if all(good) else 'TOO LITTLE is read from the cache'}.")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
