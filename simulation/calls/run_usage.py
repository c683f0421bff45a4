"""The tokens and cost of runs, as sums over the call log, and the prices that apply."""

import time
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.conf import settings
from django.db import transaction
from django.db.models import BigIntegerField, Count, DecimalField, F, Q, Sum, Value
from django.db.models.expressions import Case, When
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone

from simulation.casts import code_cost_estimate, cost_estimate, pricing
from simulation.casts.cost_estimate import CostEstimate
from simulation.casts.pricing import Price
from simulation.models import CodeEpisode, Experiment, Leased, ModelCall, ModelPrice, Run

TOKEN_CLASSES = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
RATE_WINDOW = timedelta(minutes=5)
_MONEY_FIELD: "DecimalField[Any, Any]" = DecimalField(max_digits=20, decimal_places=6)
_IS_ENDED = Q(state__in=("answered", "refused", "failed", "fenced"))
_IS_COUNTED = Q(input_uncached__isnull=False, output__isnull=False)  # the provider reported token counts
# Cast before the sum: two classes near the top of a column would overflow PostgreSQL's integer.
_TOKENS_USED = sum((Coalesce(Cast(F(name), BigIntegerField()), 0) for name in TOKEN_CLASSES), start=Value(0))


class UsageTotals(NamedTuple):
    """Sums over calls. Money in US dollars; tokens as the providers counted them."""

    calls: int
    started: int
    answered: int
    refused: int
    failed: int
    lost: int
    fenced: int
    input_uncached: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    output: int  # reasoning included
    reasoning: int
    cost: Decimal  # of the calls whose cost is known
    unknown_cost: int  # ended calls that may have cost something unknown
    uncounted: int  # ended calls without token counts from the provider
    lost_tokens: int  # reserved for calls that were lost with their worker, and may be charged
    lost_cost: Decimal

    @property
    def tokens(self) -> int:
        return sum(getattr(self, name) for name in TOKEN_CLASSES)

    @property
    def cache_write(self) -> int:
        return self.cache_write_5m + self.cache_write_1h


class SpeakerUsage(NamedTuple):
    """The usage of one player in one role."""

    role: str
    speaker: str
    model: str
    totals: UsageTotals


class UsageRate(NamedTuple):
    """Ended calls per minute and tokens per minute, over the last `minutes`."""

    calls: float
    tokens: float
    minutes: float


_cached_prices: dict[tuple[str, date], tuple[Price, dict[str, str], float]] = {}  # until when, in monotonic seconds


class BudgetCheck(NamedTuple):
    """The budget counters of a run with limits, and the correct values from the call log (`ledger_...`)."""

    tokens: int
    ledger_tokens: int
    cost: Decimal
    ledger_cost: Decimal

    @property
    def is_consistent(self) -> bool:
        return self.tokens == self.ledger_tokens and self.cost == self.ledger_cost


def get_cached_price(model_name: str, day: date) -> tuple[Price | None, dict[str, str]]:
    """Return the result of `get_price_on`, which this process caches for PRICE_SECONDS."""
    # Every call needs a price. A missing price is not cached: it is usually about to be entered.
    cached = _cached_prices.get((model_name, day))
    if cached is not None and time.monotonic() < cached[2]:
        return cached[:2]
    price, price_record = get_price_on(model_name, day)
    if price is not None:
        _cached_prices[model_name, day] = price, price_record, time.monotonic() + settings.PRICE_SECONDS
    return price, price_record


def get_price_on(model_name: str, day: date) -> tuple[Price | None, dict[str, str]]:
    """Return the model's price on that day and the record that the call log stores, or None and {} if there was none yet."""
    row = ModelPrice.objects.filter(model__name=model_name, effective_from__lte=day).order_by("-effective_from").first()
    if row is None:
        return None, {}
    price = _build_price(row)
    price_record = {"model": model_name, "effective_from": row.effective_from.isoformat(), "source": row.source}
    return price, {**price_record, **pricing.price_to_json(price)}


def sum_tokens(counts: Mapping[str, Any]) -> int | None:
    """Return the sum of a call's token columns, or None if the provider did not report input or output tokens."""
    if counts.get("input_uncached") is None or counts.get("output") is None:
        return None
    return sum(counts.get(name) or 0 for name in TOKEN_CLASSES)


def sum_usage(run: Run) -> UsageTotals:
    """Return the usage of a run with one query, however many calls it has."""
    return _build_totals(run.calls.order_by().aggregate(**_build_aggregates()))


def sum_episode_cost(episode: CodeEpisode, before_step: int | None = None) -> Decimal:
    """Return what the calls of a code episode cost, or only those of the steps before `before_step`.

    A call of unknown cost counts with what was reserved for it.
    """
    calls = episode.calls.order_by() if before_step is None else episode.calls.order_by().filter(number__lt=before_step)
    cost = Coalesce(F("cost"), F("reserved_cost"), Value(Decimal(0)), output_field=_MONEY_FIELD)
    return pricing.round_money(calls.aggregate(cost=Sum(cost, default=Decimal(0)))["cost"])


def sum_usage_by_run(runs: Iterable[int]) -> dict[int, UsageTotals]:
    """Return the usage of many runs by primary key with one query. Runs without calls are left out."""
    rows = ModelCall.objects.filter(run__in=list(runs)).order_by("run").values("run").annotate(**_build_aggregates())
    return {row["run"]: _build_totals(row) for row in rows}


def sum_usage_by_speaker(run: Run) -> list[SpeakerUsage]:
    """Return the usage of each role and player with one query."""
    names = ("role", "speaker", "model_name")
    rows = run.calls.order_by(*names).values(*names).annotate(**_build_aggregates())
    return [SpeakerUsage(row["role"], row["speaker"], row["model_name"], _build_totals(row)) for row in rows]


def compute_usage_rate(run: Run) -> UsageRate | None:
    """Return the rate over the last five minutes, or since the run's first call. Return None if no call ended in that time."""
    now = timezone.now()
    recent = run.calls.order_by().filter(ended_at__gt=now - RATE_WINDOW)
    sums = recent.aggregate(n=Count("pk"), used=Sum(_TOKENS_USED, default=0))
    if not sums["n"]:
        return None
    elapsed = now - run.first_call_at if run.first_call_at else RATE_WINDOW
    # At least one second: the first call may have started at this very moment.
    minutes = max(min(elapsed, RATE_WINDOW), timedelta(seconds=1)).total_seconds() / 60
    return UsageRate(sums["n"] / minutes, sums["used"] / minutes, minutes)


def estimate_episodes(setup: Mapping[str, Any], experiments: Iterable[Experiment], replicates: int) -> CostEstimate:
    """Return the worst-case cost of `replicates` episodes of each experiment at today's prices."""
    steps = [experiment.max_steps for experiment in experiments]
    return cost_estimate.estimate_episodes(setup, steps, replicates, get_todays_prices(setup))


def estimate_twins(setup: Mapping[str, Any], count: int) -> CostEstimate:
    """Return the worst-case cost of `count` twins by the cast's transition model at today's prices."""
    return cost_estimate.estimate_twins(setup, count, get_todays_prices(setup))


def estimate_ratings(setup: Mapping[str, Any], sizes: Iterable[int]) -> CostEstimate:
    """Return the worst-case cost of ratings with prompts of these sizes (UTF-8 bytes) at today's prices."""
    return cost_estimate.estimate_ratings(setup, sizes, get_todays_prices(setup))


def estimate_code_episodes(
    setup: Mapping[str, Any], hidden: Iterable[int], steps: int, cost_limit: Decimal | None = None
) -> CostEstimate:
    """Return the worst-case cost of one code episode for each number of hidden functions, at today's prices."""
    return code_cost_estimate.estimate_code_episodes(setup, hidden, get_todays_prices(setup), steps, cost_limit)


def get_todays_prices(setup: Mapping[str, Any]) -> dict[str, Price | None]:
    """Return today's price of every model of a run configuration, or None for a model without one."""
    names = setup.get("models", {})
    rows = ModelPrice.objects.filter(model__name__in=names, effective_from__lte=timezone.now().date())
    # Oldest first: the dict below keeps the last row of each model, which is the newest.
    by_date = rows.order_by("effective_from").select_related("model")
    return {**dict.fromkeys(names), **{row.model.name: _build_price(row) for row in by_date}}


def check_budget_counters(run: Run) -> BudgetCheck:
    """Return the run's budget counters, which are kept only while it has a limit, beside the sums of the call log."""
    row = Run.objects.get(pk=run.pk)
    logged = _sum_reserved(row)
    return BudgetCheck(row.held_tokens, logged["used"], pricing.round_money(row.held_cost), logged["cost"])


def recount_run(run: Run) -> None:
    """Set the run's budget counters to the sums of the call log. The caller must have locked the run."""
    logged = _sum_reserved(run)
    # Needed when a run without limits gets one: its counters were not kept until then.
    Run.objects.filter(pk=run.pk).update(held_tokens=logged["used"], held_cost=logged["cost"])


def _build_price(row: ModelPrice) -> Price:
    return Price(*(getattr(row, name) for name in Price._fields))


def recount_live_runs() -> None:
    """Correct the budget counters of all runs that have a limit and unfinished rows."""
    # A limit that was set while calls were under way missed those calls.
    limited = Run.objects.filter(Q(max_cost__isnull=False) | Q(max_tokens__isnull=False))
    unfinished = Q(episodes__status__in=Leased.RUNNABLE) | Q(twins__status__in=Leased.RUNNABLE)
    unfinished |= Q(jobs__status__in=Leased.RUNNABLE) | Q(code_episodes__status__in=Leased.RUNNABLE)
    for pk in limited.filter(unfinished).order_by("pk").values_list("pk", flat=True).distinct():
        # One transaction per run, in the order of keys: no run stays locked while the others are counted.
        with transaction.atomic():
            recount_run(Run.objects.select_for_update().get(pk=pk))


def _sum_reserved(run: Run) -> dict[str, Any]:
    """Return the run's tokens and cost. A call of unknown usage counts with the amounts that were reserved for it."""
    counted = When(_IS_COUNTED, then=_TOKENS_USED)
    tokens_used = Case(counted, default=F("reserved_tokens"), output_field=BigIntegerField())
    cost = Coalesce(F("cost"), F("reserved_cost"), Value(Decimal(0)), output_field=_MONEY_FIELD)
    sums = run.calls.order_by().aggregate(used=Sum(tokens_used, default=0), cost=Sum(cost, default=Decimal(0)))
    return {"used": sums["used"], "cost": pricing.round_money(sums["cost"])}


def _build_aggregates() -> dict[str, Any]:
    lost = Q(state="lost")
    return {
        "calls": Count("pk"),
        **{state: Count("pk", filter=Q(state=state)) for state, _ in ModelCall.STATES},
        **{f"sum_{name}": Sum(name, default=0) for name in (*TOKEN_CLASSES, "reasoning")},
        "sum_cost": Sum("cost", default=Decimal(0)),
        "unknown_cost": Count("pk", filter=_IS_ENDED & Q(cost__isnull=True)),
        "uncounted": Count("pk", filter=_IS_ENDED & ~_IS_COUNTED),
        "lost_tokens": Sum("reserved_tokens", filter=lost, default=0),
        "lost_cost": Sum("reserved_cost", filter=lost, default=Decimal(0)),
    }


def _build_totals(row: Mapping[str, Any]) -> UsageTotals:
    values = {name: row.get(f"sum_{name}", row.get(name)) for name in UsageTotals._fields}
    money = {name: pricing.round_money(values[name]) for name in ("cost", "lost_cost")}  # SQLite sums in binary
    return UsageTotals(**{**values, **money})
