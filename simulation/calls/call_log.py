"""The call log: reserve a call's worst-case cost before it is sent, and store its result."""

import time
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import F, Q
from django.utils import timezone

from simulation.calls import rate_limit, run_usage
from simulation.casts import pricing
from simulation.leases import Blocked, Lease, leases
from simulation.models import ModelCall, Run
from simulation.providers import ErrorClass, ProviderError
from simulation.providers.base import Completion, Reply, Stop, Usage

ANSWERED_STATES = ("answered", "refused")
# Providers do not charge for requests that they did not accept. A call that broke off may have been charged.
_UNCHARGED_ERRORS = (
    ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED, ErrorClass.CREDENTIALS, ErrorClass.CREDITS, ErrorClass.CONTEXT,
    ErrorClass.BAD_REQUEST,
)  # fmt: skip
_MAX_STORE_ATTEMPTS = 20  # to store an answer while the database is unavailable


class PendingCall(NamedTuple):
    """A call under way.

    If `limiter_at_maximum`, its answer would not change the rate limiter and is not recorded there.
    """

    call: ModelCall
    limiter_at_maximum: bool


class CallResult(NamedTuple):
    """The outcome of a call, and its duration in seconds."""

    outcome: Completion | ProviderError
    seconds: float


def reserve_budget(run: Run, worst_case: pricing.MaxUsage) -> None:
    """Reserve the call's maximum cost and tokens in the run's budget.

    Raise Blocked if the run's limits do not allow it.
    """
    now = timezone.now()
    if run.first_call_at is None:
        Run.objects.filter(pk=run.pk, first_call_at__isnull=True).update(first_call_at=now)
    elif run.max_seconds and now > run.first_call_at + timedelta(seconds=run.max_seconds):
        raise Blocked("budget", f"the run's time limit of {run.max_seconds} s has passed")
    # `run` was loaded before, so a run without a budget costs no query here. If the run has received its first limit
    # since then, this call is not counted; recount_live_runs corrects the counters.
    if run.max_cost is None and run.max_tokens is None:
        return
    if run.max_cost is not None and worst_case.cost is None:
        raise Blocked("budget", "the run has a cost limit, and this model has no price")
    cost = worst_case.cost or Decimal(0)
    within_budget = Q(max_cost__isnull=True) | Q(held_cost__lte=F("max_cost") - cost)
    within_budget &= Q(max_tokens__isnull=True) | Q(held_tokens__lte=F("max_tokens") - worst_case.tokens)
    changes = {"held_cost": F("held_cost") + cost, "held_tokens": F("held_tokens") + worst_case.tokens}
    # The condition and the change are one UPDATE: workers that reserve at the same time cannot exceed the limit
    # together.
    if Run.objects.filter(within_budget, pk=run.pk).update(**changes) != 1:
        money = "" if worst_case.cost is None else f" and ${worst_case.cost:,.4f}"
        raise Blocked(
            "budget",
            f"the next call could use up to {worst_case.tokens:,} tokens{money}, more than the run's limits leave",
        )


def log_call_end(pending: PendingCall, lease: Lease[Any], result: CallResult) -> bool:
    """Store the result of a call. Return False if another worker has taken over the leased row."""
    # The answer was paid for: a short absence of the database must not lose it.
    for _ in range(_MAX_STORE_ATTEMPTS):
        try:
            return _store_result(pending, lease, result)
        except leases.DATABASE_UNAVAILABLE:
            close_old_connections()
            time.sleep(settings.POLL_SECONDS / 2)
    return _store_result(pending, lease, result)


def mark_lost_calls() -> int:
    """Mark calls under way as lost if their worker died. Return how many.

    A worker has died if the call's row is no longer leased under the fence of the call.
    """
    now = timezone.now()
    under_way = ModelCall.objects.filter(state="started")
    count = 0
    for kind in ("episode", "twin", "job"):
        orphaned = under_way.filter(**{f"{kind}__isnull": False}).filter(
            Q(**{f"{kind}__lease_until__isnull": True})
            | Q(**{f"{kind}__lease_until__lt": now})
            | Q(**{f"{kind}__fence__gt": F("fence")})
        )
        # At most 1,000 per kind and sweep: a longer UPDATE would hold its locks for too long. The next sweep marks
        # the rest.
        keys = list(orphaned.values_list("pk", flat=True)[:1000])
        count += under_way.filter(pk__in=keys).update(state="lost", ended_at=now)
    return count


def clean_text(text: str, max_length: int) -> str:
    """Return a provider's text in a form that every database can store: no NUL, no unpaired surrogate."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()[:max_length]


def _store_result(pending: PendingCall, lease: Lease[Any], result: CallResult) -> bool:
    call, outcome = pending.call, result.outcome
    changes = _columns_of_completion(call, outcome) if isinstance(outcome, Completion) else _columns_of_error(outcome)
    changes |= {"ended_at": timezone.now(), "milliseconds": int(result.seconds * 1000)}
    with transaction.atomic():
        is_held = lease.is_held()
        if not is_held and changes["state"] in ANSWERED_STATES:
            changes["state"] = "fenced"
        # A call that the sweep marked as lost is completed too: its worker was only slow, and its usage is known now.
        stored = ModelCall.objects.filter(pk=call.pk, state__in=("started", "lost")).update(**changes)
        if isinstance(outcome, ProviderError):
            rate_limit.record_fault(call.gate, outcome)
        elif not pending.limiter_at_maximum:
            rate_limit.record_answer(call.gate)
        if stored:
            _settle_reservation(lease.row.run, call, changes)
    for name, value in changes.items():
        setattr(call, name, value)
    return is_held


def _settle_reservation(run: Run, call: ModelCall, changes: dict[str, Any]) -> None:
    """Replace the call's reservation in the run's budget with its usage.

    An unknown cost or token count stays reserved.
    """
    if run.max_cost is None and run.max_tokens is None:
        return
    cost, tokens_used = changes["cost"], run_usage.sum_tokens(changes)
    corrections = {}
    if cost is not None:
        corrections["held_cost"] = F("held_cost") + cost - (call.reserved_cost or Decimal(0))
    if tokens_used is not None:
        corrections["held_tokens"] = F("held_tokens") + tokens_used - call.reserved_tokens
    if corrections:
        Run.objects.filter(pk=run.pk).update(**corrections)


def _columns_of_completion(call: ModelCall, completion: Completion) -> dict[str, Any]:
    usage, cost = _drop_impossible_usage(completion.usage), completion.cost
    if cost is None and usage is not None:
        cost = pricing.compute_cost(usage, pricing.price_from_json(call.price))
    return {
        "state": "refused" if completion.stop is Stop.REFUSAL else "answered",
        "stop": str(completion.stop),
        "served_model": clean_text(completion.served_model, 200),
        "served_provider": clean_text(completion.served_provider, 120),
        "request_id": clean_text(completion.request_id, 200),
        "cost": cost,
        **_columns_of_reply(completion.reply),
        **(usage._asdict() if usage else {}),
    }


def _columns_of_error(error: ProviderError) -> dict[str, Any]:
    free = error.error_class in _UNCHARGED_ERRORS or (error.reply is not None and error.reply.status >= 400)
    zero_usage = dict.fromkeys(("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output"), 0)
    return {
        "state": "failed",
        "error_class": str(error.error_class),
        "error": clean_text(str(error), 2000),
        "request_id": clean_text(error.request_id, 200),
        "cost": Decimal(0) if free else None,
        **(zero_usage if free else {}),
        **_columns_of_reply(error.reply),
    }


def _columns_of_reply(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {}
    headers = {clean_text(name, 100): clean_text(value, 1000) for name, value in reply.headers.items()}
    return {"http_status": reply.status or None, "reply": reply.body, "reply_headers": headers}


def _drop_impossible_usage(usage: Usage | None) -> Usage | None:
    """Return the usage, or None if a number in it is negative or does not fit its column."""
    return usage if usage is not None and all(0 <= count < 2**31 for count in usage) else None
