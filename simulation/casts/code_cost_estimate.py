"""Estimate the maximum tokens and cost of code episodes before any call.

Every step is used and asks the helper, every answer has its maximum length, and every allowed repeat happens.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from simulation.casts import pricing
from simulation.casts.cost_estimate import Calls, CostEstimate, RoleCalls, sum_estimate
from simulation.casts.pricing import Price
from simulation.casts.run_config import RoleConfig, RunConfig
from simulation.llm.coding.notes import MAX_HISTORY_BYTES, MAX_STORED
from simulation.llm.conversation import TURNS
from simulation.replication.observations import MAX_OBSERVATION
from simulation.replication.tools import TOOLS

# UTF-8 bytes, rounded up from the shipped tasks: system prompt with tools 6,600; TASK.md 3,300; plan 4,000; form of a reply 500.
REST: Final = 16_000
CODE: Final = 14_000  # a whole code base: 12,200
PAPER: Final = 8_000  # 7,200
FILE: Final = 20_000  # of the helper: 4,500 at the start, and what an agent adds
STEP: Final = MAX_OBSERVATION + 2_000  # an observation at its limit, the tool before it and the marks around it
BRIEF_STEP: Final = 350  # a step in one line
_PIPELINE: Final = CODE + PAPER + MAX_STORED["reasoning"] + 4_000  # a prompt of the fixed pipeline, with the functions
_TURNS_OVER_LIMIT: Final = 2  # the turn that reaches the limit of cost, and the last turn after it
ASSUMES: Final = (
    "every step used and every answer at its length limit, the helper asked in every step, every allowed repeat, nothing cached, "
    "one token per two bytes of prompt; lengths of paper, code and task measured in the shipped tasks"
)


def estimate_code_episodes(
    setup: Mapping[str, Any],
    hidden: Iterable[int],
    prices: Mapping[str, Price | None],
    steps: int,
    cost_limit: Decimal | None = None,
) -> CostEstimate:
    """Return the estimate for one code episode for each number of hidden functions.

    `cost_limit` is the limit of one episode in US dollars: an episode can exceed it by what its last two turns cost. A configuration
    without models costs nothing.
    """
    numbers = list(hidden)
    config = RunConfig.from_json(setup) if setup else None
    role_calls = list(_iter_role_calls(config, numbers, steps)) if config and config.agent.model else []
    estimate = sum_estimate(setup, role_calls, prices)._replace(assumes=ASSUMES)
    if cost_limit is None or estimate.cost is None:
        return estimate
    return estimate._replace(cost=min(estimate.cost, len(numbers) * (cost_limit + _sum_turns(role_calls, prices))))


def _iter_role_calls(config: RunConfig, hidden: Sequence[int], steps: int) -> Iterator[RoleCalls]:
    agent = config.agent
    if agent.scaffold == "fixed":
        # One call for files and one that reasons, then one for each function. Nothing hidden: nothing to ask.
        usual = sum(2 + number for number in hidden if number)
        yield RoleCalls(agent, [Calls(_PIPELINE, TURNS * usual)], usual)
        return
    # The last turn after a limit is a further step.
    calls = [call._replace(times=call.times * len(hidden)) for call in _iter_agent_calls(agent, steps + 1)]
    yield RoleCalls(agent, calls, sum(call.times for call in calls) // TURNS)
    if config.helper and any(TOOLS[name].kind == "helper" for name in agent.tools):
        # At most every step asks the helper; usually few do.
        yield RoleCalls(config.helper, [Calls(FILE, TURNS * steps * len(hidden))], 0)


def _iter_agent_calls(agent: RoleConfig, steps: int) -> Iterator[Calls]:
    """Yield the calls of an agent with this scaffold and history over these steps."""
    if agent.scaffold == "plan":
        yield Calls(REST + CODE, TURNS)
    for done in range(steps):
        yield Calls(REST + CODE + _count_history_bytes(agent, done), TURNS)
    kind, k = _read_history(agent)
    if kind == "summary":
        # The summary is renewed every k steps, beginning with the second window.
        renewed = TURNS * max(0, (steps - 1) // k - 1)
        yield Calls(REST + MAX_STORED["summary"] + min(k * _step_bytes(agent), MAX_HISTORY_BYTES), renewed)


def _count_history_bytes(agent: RoleConfig, done: int) -> int:
    """Return the bytes of the history after this many steps. Steps in full have a limit together; older ones take one line each."""
    kind, k = _read_history(agent)
    full, summary = done, 0
    if kind == "window":
        full = min(done, k)
    elif kind == "summary" and done >= 2 * k:
        full, summary = k + done % k, MAX_STORED["summary"]
    return min(full * _step_bytes(agent), MAX_HISTORY_BYTES) + (0 if summary else done * BRIEF_STEP) + summary


def _step_bytes(agent: RoleConfig) -> int:
    return STEP + 2 * agent.params.max_tokens  # two bytes per token, as in the maximum of a call


def _read_history(agent: RoleConfig) -> tuple[str, int]:
    # Never zero, since steps are divided by it.
    return agent.history.get("kind", "full"), max(1, int(agent.history.get("k", 1)))


def _sum_turns(role_calls: Sequence[RoleCalls], prices: Mapping[str, Price | None]) -> Decimal:
    """Return the maximum cost of the turns in which an episode exceeds its cost limit."""
    total = Decimal(0)
    for player, calls, _ in role_calls:
        size = max((call.size for call in calls), default=0)
        worst = pricing.compute_max_usage(size, player.params.max_tokens, prices.get(player.model))
        # An agent makes two different calls in a turn at most: the summary or the plan, and the tool.
        total += _TURNS_OVER_LIMIT * 2 * TURNS * (worst.cost or 0)
    return total
