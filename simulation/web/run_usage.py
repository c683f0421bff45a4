"""Tokens, cost and time of a run for its page."""

from decimal import Decimal
from typing import NamedTuple

from django.utils import timezone

from simulation.calls import run_usage
from simulation.models import ModelCall, Run
from simulation.web.transcript import format_duration

_ROLES = dict(ModelCall.ROLES)
_STATE_WORDS = {"started": "in progress", "lost": "lost", "fenced": "too late"}


class TimeUsed(NamedTuple):
    """Time since the first call, and its limit."""

    passed: str
    most: str


class RoleUsage(NamedTuple):
    role: str
    name: str
    totals: run_usage.UsageTotals
    written: int


class RunUsage(NamedTuple):
    """Sums of the call log. `cached` is the percentage of input tokens that were read from a cache."""

    totals: run_usage.UsageTotals
    cached: int
    states: list[tuple[str, int]]
    rate: run_usage.UsageRate | None
    players: list[RoleUsage]
    clock: TimeUsed | None
    held_cost: Decimal  # with a budget: reserved in addition to what is spent
    held_tokens: int


def get_run_usage(run: Run) -> RunUsage | None:
    """Return the usage with a fixed number of queries; None, without a query, if no language model takes part."""
    # Rule-based runs make no calls, so nothing is queried for them.
    if not run.setup.get("models"):
        return None
    totals = run_usage.sum_usage(run)
    return RunUsage(
        totals=totals,
        cached=_cached_percent(totals),
        states=[(_STATE_WORDS.get(state, state), n) for state, _ in ModelCall.STATES if (n := getattr(totals, state))],
        rate=run_usage.compute_usage_rate(run),
        players=[_make_role_usage(one) for one in run_usage.sum_usage_by_speaker(run)],
        clock=_time_used(run),
        # Reserved means held and not yet spent: a call in progress at its maximum cost.
        held_cost=max(run.held_cost - totals.cost, Decimal(0)) if run.max_cost is not None else Decimal(0),
        held_tokens=max(run.held_tokens - totals.tokens, 0) if run.max_tokens is not None else 0,
    )


def _make_role_usage(one: run_usage.SpeakerUsage) -> RoleUsage:
    cache_written = one.totals.cache_write_5m + one.totals.cache_write_1h
    return RoleUsage(_ROLES.get(one.role, one.role), one.speaker, one.totals, cache_written)


def _cached_percent(totals: run_usage.UsageTotals) -> int:
    inputs = totals.tokens - totals.output
    # Cache reads as a share of input tokens; output is never cached.
    return round(100 * totals.cache_read / inputs) if inputs else 0


def _time_used(run: Run) -> TimeUsed | None:
    if run.max_seconds is None:
        return None
    passed = 0 if run.first_call_at is None else int((timezone.now() - run.first_call_at).total_seconds())
    return TimeUsed(format_duration(passed) or "0 s", format_duration(run.max_seconds))  # a duration of 0 gives ""
