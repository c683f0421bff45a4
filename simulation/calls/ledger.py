"""The call log: reserve a call's worst-case cost before it is sent, and store its result."""

import time
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import F, Q
from django.utils import timezone

from simulation.calls import gates, spending
from simulation.casts import pricing
from simulation.leases import Held, Lease, leases
from simulation.models import ModelCall, Run
from simulation.providers import ErrorClass, ProviderError
from simulation.providers.base import Completion, Reply, Stop, Usage

ANSWERED = ("answered", "refused")
# Providers do not charge for requests that they did not accept. A call that broke off may have been charged.
_FREE = (
    ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED, ErrorClass.CREDENTIALS, ErrorClass.CREDITS, ErrorClass.CONTEXT,
    ErrorClass.BAD_REQUEST,
)  # fmt: skip
_TRIES = 20  # to store an answer while the database is unavailable


class Opened(NamedTuple):
    """A call under way, and whether its rate limiter is at its maximum, so that an answer need not be recorded there."""

    call: ModelCall
    calm: bool


class Said(NamedTuple):
    """The outcome of a call, and its duration in seconds."""

    outcome: Completion | ProviderError
    seconds: float


def reserve(run: Run, most: pricing.WorstCase) -> None:
    """Take the call's worst case out of the run's budget. Raise Blocked if the budget does not allow it."""
    now = timezone.now()
    if run.first_call_at is None:
        Run.objects.filter(pk=run.pk, first_call_at__isnull=True).update(first_call_at=now)
    elif run.max_seconds and now > run.first_call_at + timedelta(seconds=run.max_seconds):
        raise Held("budget", f"the run's time limit of {run.max_seconds} s has passed")
    # `run` was read a moment ago, so that a run without a budget costs no query here. If a live run gets its first
    # limit in that moment, this call is missed; recount_live_runs corrects the counters.
    if run.max_cost is None and run.max_tokens is None:
        return
    if run.max_cost is not None and most.cost is None:
        raise Held("budget", "the run has a cost limit, and this model has no price")
    cost = most.cost or Decimal(0)
    within_budget = Q(max_cost__isnull=True) | Q(held_cost__lte=F("max_cost") - cost)
    within_budget &= Q(max_tokens__isnull=True) | Q(held_tokens__lte=F("max_tokens") - most.tokens)
    changes = {"held_cost": F("held_cost") + cost, "held_tokens": F("held_tokens") + most.tokens}
    # The condition and the change are one UPDATE: workers that reserve at the same time cannot exceed the limit
    # together.
    if Run.objects.filter(within_budget, pk=run.pk).update(**changes) != 1:
        money = "" if most.cost is None else f" and ${most.cost:,.4f}"
        raise Held(
            "budget", f"the next call could use up to {most.tokens:,} tokens{money}, more than the run's limits leave"
        )


def complete(opened: Opened, lease: Lease[Any], said: Said) -> bool:
    """Store the result of a call. Return False if another worker took over the row."""
    # The answer was paid for: a short absence of the database must not lose it.
    for _ in range(_TRIES):
        try:
            return _store(opened, lease, said)
        except leases.DATABASE_AWAY:
            close_old_connections()
            time.sleep(settings.POLL_SECONDS / 2)
    return _store(opened, lease, said)


def sweep() -> int:
    """Mark calls as lost whose row is no longer leased under their fence, because their worker died. Return how many."""
    now = timezone.now()
    under_way = ModelCall.objects.filter(state="started")
    count = 0
    for kind in ("episode", "twin", "job"):
        orphaned = under_way.filter(**{f"{kind}__isnull": False}).filter(
            Q(**{f"{kind}__lease_until__isnull": True})
            | Q(**{f"{kind}__lease_until__lt": now})
            | Q(**{f"{kind}__fence__gt": F("fence")})
        )
        # At most 1,000 a round: a longer UPDATE would hold its locks for too long. The next sweep takes the rest.
        keys = list(orphaned.values_list("pk", flat=True)[:1000])
        count += under_way.filter(pk__in=keys).update(state="lost", ended_at=now)
    return count


def plain(text: str, most: int) -> str:
    """Return a provider's text in a form that every database can store: no NUL, no unpaired surrogate."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()[:most]


def _store(opened: Opened, lease: Lease[Any], said: Said) -> bool:
    call, outcome = opened.call, said.outcome
    changes = _answer(call, outcome) if isinstance(outcome, Completion) else _fault(outcome)
    changes |= {"ended_at": timezone.now(), "milliseconds": int(said.seconds * 1000)}
    with transaction.atomic():
        is_held = lease.held()
        if not is_held and changes["state"] in ANSWERED:
            changes["state"] = "fenced"
        # Also a call that the sweep took for lost: the worker was only slow, and its usage is known now.
        stored = ModelCall.objects.filter(pk=call.pk, state__in=("started", "lost")).update(**changes)
        if isinstance(outcome, ProviderError):
            gates.faulted(call.gate, outcome)
        elif not opened.calm:
            gates.answered(call.gate)
        if stored:
            _settle(lease.row.run, call, changes)
    for name, value in changes.items():
        setattr(call, name, value)
    return is_held


def _settle(run: Run, call: ModelCall, changes: dict[str, Any]) -> None:
    """Return to the run's budget what was reserved beyond what was used. What is unknown stays reserved."""
    if run.max_cost is None and run.max_tokens is None:
        return
    cost, tokens_used = changes["cost"], spending.tokens(changes)
    corrections = {}
    if cost is not None:
        corrections["held_cost"] = F("held_cost") + cost - (call.reserved_cost or Decimal(0))
    if tokens_used is not None:
        corrections["held_tokens"] = F("held_tokens") + tokens_used - call.reserved_tokens
    if corrections:
        Run.objects.filter(pk=run.pk).update(**corrections)


def _answer(call: ModelCall, completion: Completion) -> dict[str, Any]:
    usage, cost = _countable(completion.usage), completion.cost
    if cost is None and usage is not None:
        cost = pricing.cost(usage, pricing.from_snapshot(call.price))
    return {
        "state": "refused" if completion.stop is Stop.REFUSAL else "answered",
        "stop": str(completion.stop),
        "served_model": plain(completion.served_model, 200),
        "served_provider": plain(completion.served_provider, 120),
        "request_id": plain(completion.request_id, 200),
        "cost": cost,
        **_wire(completion.reply),
        **(usage._asdict() if usage else {}),
    }


def _fault(error: ProviderError) -> dict[str, Any]:
    free = error.error_class in _FREE or (error.reply is not None and error.reply.status >= 400)
    zero_usage = dict.fromkeys(("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output"), 0)
    return {
        "state": "failed",
        "error_class": str(error.error_class),
        "error": plain(str(error), 2000),
        "request_id": plain(error.request_id, 200),
        "cost": Decimal(0) if free else None,
        **(zero_usage if free else {}),
        **_wire(error.reply),
    }


def _wire(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {}
    headers = {plain(name, 100): plain(value, 1000) for name, value in reply.headers.items()}
    return {"http_status": reply.status or None, "reply": reply.body, "reply_headers": headers}


def _countable(usage: Usage | None) -> Usage | None:
    """Return the usage, or None if a number in it is negative or does not fit its column."""
    return usage if usage is not None and all(0 <= count < 2**31 for count in usage) else None
