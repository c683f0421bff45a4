"""Estimate the maximum tokens and cost of a cast before any call.

Every step is used, every answer has its maximum length, and every allowed repeat happens. Prompt lengths
are those of the eighteen experiments run offline with the built-in prompts, rounded up.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from simulation.casts import pricing
from simulation.casts.pricing import Price
from simulation.casts.run_config import RoleConfig, RunConfig
from simulation.llm.conversation import TURNS

VERDICT_TURNS: Final = 2  # one repair
# UTF-8 bytes, with the JSON schema of the reply. Measured: catalogue 106,000; a step 2,550 on average plus a thought; a
# bench 10,000 at the end of an episode. Rounded up from the measured lengths, because a budget that is too small stops a run.
AGENT_SYSTEM: Final = 118_000
BENCH: Final = 12_000
STEP: Final = 3_200
BRIEF_STEP: Final = 150  # a step in one line
SUMMARY: Final = 8_000
TRANSITION: Final = 18_000
VERDICT: Final = 8_000
PROBLEMS: Final = 2_000  # the list of errors in a repair turn
ASSUMES: Final = (
    "every step used, every answer at its length limit, every allowed repeat, nothing cached, "
    "one token per two bytes of prompt; prompt lengths measured in offline runs of the eighteen experiments"
)


class Calls(NamedTuple):
    """`times` calls with a prompt of `size` UTF-8 bytes each."""

    size: int
    times: int


class CostEstimate(NamedTuple):
    """The maximum calls, tokens and cost of a run. `cost` is None if a model in `unpriced` takes part."""

    calls: int
    usual_calls: int  # every step used, nothing repeated
    tokens: int
    cost: Decimal | None
    unpriced: list[str]  # "model: class, class" without a price
    assumes: str = ASSUMES


class RoleCalls(NamedTuple):
    """The calls of one role; `usual` is their number without repeats."""

    player: RoleConfig
    calls: list[Calls]
    usual: int


def estimate_episodes(
    setup: Mapping[str, Any], steps: Iterable[int], replicates: int, prices: Mapping[str, Price | None]
) -> CostEstimate:
    """Return the estimate for `replicates` episodes of each number of steps.

    A configuration without models costs nothing.
    """
    read = RunConfig.from_json(setup) if setup else None
    role_calls = [
        one._replace(
            calls=[Calls(size, times * count * replicates) for size, times in one.calls],
            usual=one.usual * count * replicates,
        )
        # Experiments with the same number of steps are estimated once and multiplied.
        for most, count in Counter(steps).items()
        for one in (_iter_role_calls(read, most) if read else ())
    ]
    return sum_estimate(setup, role_calls, prices)


def estimate_twins(setup: Mapping[str, Any], count: int, prices: Mapping[str, Price | None]) -> CostEstimate:
    """Return the estimate for `count` twins. Each twin is one outcome, with its repairs."""
    role = RunConfig.from_json(setup).transition_model if setup else None
    role_calls = [RoleCalls(role, list(iter_transition_calls(role, count)), count)] if role and role.model else []
    return sum_estimate(setup, role_calls, prices)


def estimate_ratings(
    setup: Mapping[str, Any], sizes: Iterable[int], prices: Mapping[str, Price | None]
) -> CostEstimate:
    """Return the estimate for one rated item per prompt size (UTF-8 bytes).

    Each prompt is sent, repeated if the reply is truncated, and repaired once.
    """
    rater = RunConfig.from_json(setup).rater if setup else None
    if not rater or not rater.model:
        return sum_estimate(setup, [], prices)
    # A repair repeats the prompt with the reply and the list of problems, so each turn is estimated at that length.
    calls = [Calls(size + _repair_bytes(rater), TURNS) for size in sizes]
    return sum_estimate(setup, [RoleCalls(rater, calls, usual=len(calls))], prices)


def find_unpriced(setup: Mapping[str, Any], prices: Mapping[str, Price | None], names: Iterable[str]) -> list[str]:
    """Return each model that bills classes of tokens for which it has no price, as "model: class, class"."""
    models = setup.get("models", {})
    # A model may have a price for tokens in and out and none for cached ones, which it bills as well.
    caching = {name: models[name].get("options", {}).get("caching", "none") for name in names}
    missing = {name: pricing.missing_classes(prices.get(name), kind) for name, kind in caching.items()}
    return [f"{name}: {', '.join(classes)}" for name, classes in missing.items() if classes]


def _iter_role_calls(setup: RunConfig, steps: int) -> Iterator[RoleCalls]:
    if setup.agent.model:
        calls = list(iter_agent_calls(setup.agent, steps))
        yield RoleCalls(setup.agent, calls, sum(call.times for call in calls) // TURNS)
    if setup.transition_model.model:
        yield RoleCalls(setup.transition_model, list(iter_transition_calls(setup.transition_model, steps)), steps)
    for classifier in setup.classifiers:
        if classifier.model:
            calls = list(iter_verdict_calls(classifier, steps, setup.get_context_limit(classifier)))
            yield RoleCalls(classifier, calls, 1 + (len(calls) > VERDICT_TURNS))


def sum_estimate(
    setup: Mapping[str, Any], role_calls: list[RoleCalls], prices: Mapping[str, Price | None]
) -> CostEstimate:
    """Return the sum of the calls at these prices."""
    missing = find_unpriced(setup, prices, dict.fromkeys(one.player.model for one in role_calls))
    tokens, cost = 0, Decimal(0)
    for player, calls, _ in role_calls:
        for size, times in calls:
            worst = pricing.compute_max_usage(size, player.params.max_tokens, prices.get(player.model))
            # A missing price counts as zero here, and the total is then reported as unknown.
            tokens, cost = tokens + times * worst.tokens, cost + times * (worst.cost or 0)
    number = sum(call.times for one in role_calls for call in one.calls)
    return CostEstimate(number, sum(one.usual for one in role_calls), tokens, None if missing else cost, missing)


def iter_agent_calls(player: RoleConfig, steps: int) -> Iterator[Calls]:
    """Yield the calls of an agent with this scaffold and history over these steps."""
    if player.scaffold == "plan":
        yield Calls(AGENT_SYSTEM + BENCH, TURNS)
    for done in range(steps):
        yield Calls(AGENT_SYSTEM + BENCH + _history_bytes(player, done), TURNS)
    kind, k = _history_kind(player)
    if kind == "summary":
        # The summary is renewed every k steps, beginning with the second window.
        yield Calls(AGENT_SYSTEM + SUMMARY + k * STEP, TURNS * max(0, (steps - 1) // k - 1))


def iter_transition_calls(player: RoleConfig, steps: int) -> Iterator[Calls]:
    """Yield the calls for one outcome per step, with its repairs. Each repair repeats the conversation so far."""
    for repairs in range(TURNS):
        yield Calls(TRANSITION + repairs * _repair_bytes(player), steps)


def iter_verdict_calls(player: RoleConfig, steps: int, context_limit: int | None) -> Iterator[Calls]:
    """Yield the calls for one verdict with its repair.

    A record that exceeds the model's context is summarised first.
    """
    record = VERDICT + steps * STEP
    # A text has at most one token per two bytes. Only a record that could exceed the context is summarised.
    if context_limit is not None and record // 2 + player.params.max_tokens > context_limit:
        yield Calls(2 * context_limit, TURNS)
        record = VERDICT + SUMMARY
    for repairs in range(VERDICT_TURNS):
        yield Calls(record + repairs * _repair_bytes(player), 1)


def _history_bytes(player: RoleConfig, done: int) -> int:
    """Return the bytes of the history after this many steps."""
    kind, k = _history_kind(player)
    if kind == "window":
        return min(done, k) * STEP + max(0, done - k) * BRIEF_STEP
    if kind == "summary" and done >= 2 * k:
        return SUMMARY + (k + done % k) * STEP
    return done * STEP


def _history_kind(player: RoleConfig) -> tuple[str, int]:
    # Never zero, since steps are divided by it.
    return player.history.get("kind", "full"), max(1, int(player.history.get("k", 1)))


def _repair_bytes(player: RoleConfig) -> int:
    return 2 * player.params.max_tokens + PROBLEMS  # two bytes per token, as in the maximum of a call
