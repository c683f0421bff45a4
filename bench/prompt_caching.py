"""python -m bench.prompt_caching: what share of an episode's prompts its provider reads from its cache.

One episode of 30 steps with a language model as agent (full history) and as transition model, against the local model
server, for the paper's models (free form) and for today's (replies by JSON schema, which is part of the prompt). The server
caches prompts as the providers do: up to a marked block (Anthropic), or the longest prefix that was sent before, in steps of
128 tokens (OpenAI). Baselines in the same run: the same prompts in one message, with the constant part last; and, where blocks
are marked, the same prompts with a breakpoint after the system prompt alone. The result is the ratio of the costs of the input, by
the price of each class of tokens in fixtures/models.json. A second table has the history of every reference protocol: with every
state in full (baseline), and as agents read it. Exits with 1 if our layout costs more than half of the first baseline, if less
than half is read from the cache, or if histories are not shorter than with every state in full.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import NamedTuple

from bench import services
from bench.services import ROOT
from simulation.casts import pricing
from simulation.casts.pricing import Price
from simulation.casts.prompt_previews import estimate_tokens
from simulation.lab import catalogue, experiments, rendering
from simulation.lab.actions import Catalogue
from simulation.lab.bench import Bench
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.materials import build_inventory
from simulation.llm import prompt_data, prompt_sets
from simulation.llm.agent import LLMAgent
from simulation.llm.transition_model import LLMTransitionModel
from simulation.offline.agents import ProtocolAgent
from simulation.offline.rules import RuleBasedTransitionModel
from simulation.providers import Message, Prompt, connections
from simulation.providers.base import Completion, Connection, Params, Usage, WireOptions

MODELS = ("claude-sonnet-4", "gpt-5", "claude-sonnet-5.5", "gpt-6.1-sol")
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

    @property
    def cached_share_of_last_step(self) -> float:
        return LayoutResult(self.usages[STEPS - 1 : STEPS], self.cost).cached_share


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


def load_specs() -> tuple[Catalogue, list[ExperimentSpec]]:
    actions, _ = catalogue.load_catalogue(ROOT / "fixtures" / "actions")
    return actions, [spec for spec, _ in experiments.load_experiments(ROOT / "fixtures" / "experiments", actions)]


def open_bench(spec: ExperimentSpec, actions: Catalogue) -> Bench:
    return Bench(spec.goal, actions, build_inventory(spec.initial_materials(), SEED), SEED, spec.max_steps)


def run_episode(connection: Connection) -> tuple[RecordingSpeaker, RecordingSpeaker]:
    """Run the episode; return the recorded calls of the agent and of the transition model."""
    actions, specs = load_specs()
    bench = open_bench(next(spec for spec in specs if spec.slug == EXPERIMENT), actions)
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
    return replace(prompt, system="", messages=(joined, *others))


def mark_system_alone(prompt: Prompt) -> Prompt:
    """Return the same prompt without stable positions in its messages, so that only the system prompt ends in a breakpoint."""
    return replace(prompt, messages=tuple(message._replace(stable_ends=()) for message in prompt.messages))


def compute_input_cost(usages: Iterable[Usage], price: Price) -> Decimal:
    """Return the cost of the input. A token class without a price (OpenAI's cache writes) costs nothing extra."""
    costs = (pricing.compute_cost(usage._replace(output=0, reasoning=0), price) for usage in usages)
    return sum((cost for cost in costs if cost is not None), Decimal(0))


def format_table_row(name: str, layout: LayoutResult, baseline: LayoutResult) -> str:
    ratio = f"{layout.cost / baseline.cost:10.2f}"
    per_step = layout.input_tokens // STEPS
    last = f"{100 * layout.cached_share_of_last_step:8.1f}" if len(layout.usages) <= STEPS + 1 else f"{'':8}"
    shares = f"{100 * layout.cached_share:8.1f}  {last}"
    return f"{name:>42}  {len(layout.usages):5d}  {per_step:9d}  {shares}  {layout.cost:8.4f}  {ratio}"


def measure_model(model: Mapping[str, object], server: services.ModelServer) -> bool:
    """Print the table rows of a model; return whether our layout reaches both limits."""
    prices = model["prices"][-1]  # type: ignore[index]
    price = Price(*(None if prices[name] is None else Decimal(prices[name]) for name in Price._fields))
    server.reset_server()
    connection = open_connection(model, server.build_environ())
    by_role = dict(zip(("agent", "transition model"), run_episode(connection), strict=True))
    layouts: dict[str, Callable[[Prompt], Prompt]] = {"static part last": move_static_last}
    if model["options"]["caching"] == "breakpoint":  # type: ignore[index]
        layouts["one breakpoint"] = mark_system_alone
    baselines = {name: resend_prompts(connection, server, by_role, change) for name, change in layouts.items()}
    for role, speaker in by_role.items():
        results = {name: summarise_usages(speakers[role].usages, price) for name, speakers in baselines.items()}
        print_rows(f"{model['name']}, {role}", summarise_usages(speaker.usages, price), results)
    ours = summarise_all(by_role.values(), price)
    results = {name: summarise_all(speakers.values(), price) for name, speakers in baselines.items()}
    print_rows(f"{model['name']}, whole episode", ours, results)
    ratio = float(ours.cost / results["static part last"].cost)
    return ours.cached_share >= MIN_CACHED_SHARE and ratio <= MAX_COST_RATIO


def resend_prompts(
    connection: Connection,
    server: services.ModelServer,
    by_role: Mapping[str, RecordingSpeaker],
    change: Callable[[Prompt], Prompt],
) -> dict[str, RecordingSpeaker]:
    """Send the recorded prompts in another layout, to a server with an empty cache."""
    server.reset_server()
    speakers = {role: RecordingSpeaker(connection) for role in by_role}
    for role, speaker in by_role.items():
        for prompt in speaker.prompts:
            speakers[role](change(prompt))
    return speakers


def print_rows(name: str, ours: LayoutResult, baselines: Mapping[str, LayoutResult]) -> None:
    first = next(iter(baselines.values()))
    print(format_table_row(name, ours, first))
    for baseline, result in baselines.items():
        print(format_table_row(f"baseline: {baseline}", result, first))


def summarise_all(speakers: Iterable[RecordingSpeaker], price: Price) -> LayoutResult:
    return summarise_usages([usage for speaker in speakers for usage in speaker.usages], price)


def summarise_usages(usages: Iterable[Usage], price: Price) -> LayoutResult:
    collected = tuple(usages)
    return LayoutResult(collected, compute_input_cost(collected, price))


def measure_histories() -> bool:
    """Print the tokens of the history of every reference protocol; return whether changes are shorter than full states."""
    actions, specs = load_specs()
    print(
        f"\n{'History at the end of a reference protocol':>42}  {'steps':>5}  {'in full':>9} {'changes':>9}  {'ratio':>8}"
    )
    totals = [0, 0]
    for spec in specs:
        bench, agent = open_bench(spec, actions), ProtocolAgent(spec, SEED)
        model = RuleBasedTransitionModel(SEED, spec.truth)
        while not bench.ending:
            bench.take_step(agent.choose_action(bench.get_situation()), model)
        in_full = estimate_tokens("\n\n".join(map(rendering.render_step, bench.history)))
        changes = estimate_tokens(prompt_data.render_steps(bench.history, {}))
        totals = [totals[0] + in_full, totals[1] + changes]
        print(f"{spec.slug:>42}  {len(bench.history):5d}  {in_full:9d} {changes:9d}  {changes / in_full:8.2f}")
    print(f"{'all':>42}  {'':5}  {totals[0]:9d} {totals[1]:9d}  {totals[1] / totals[0]:8.2f}")
    return totals[1] < totals[0]


def main() -> int:
    models = {model["name"]: model for model in json.loads((ROOT / "fixtures" / "models.json").read_text())["models"]}
    print(f"An episode of {STEPS} steps with full history; tokens as the server counts them, four bytes each.")
    columns = f"{'calls':>5}  {'tok./step':>9} {'cached %':>9}  {'step 30':>8}  {'USD':>8}  {'/ baseline':>10}"
    print(f"{'':>42}  {columns}")
    with services.start_model_server("--steps", str(STEPS)) as server:
        good = [measure_model(models[name], server) for name in MODELS]
    good.append(measure_histories())
    print(
        f"Layout: {'within the limits' if all(good) else 'TOO LITTLE is read from the cache, or histories are too long'}."
    )
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
