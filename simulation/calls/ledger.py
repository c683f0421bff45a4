"""The rows of calls: what is reserved for one before it leaves, and what is stored of it when it came back."""

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
# What was not accepted, or failed with a status of its own, is not charged; what broke off may have been.
_FREE = (
    ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED, ErrorClass.CREDENTIALS, ErrorClass.CREDITS, ErrorClass.CONTEXT,
    ErrorClass.BAD_REQUEST,
)  # fmt: skip
_TRIES = 20  # to store an answer while the database is away: it was paid for


class Opened(NamedTuple):
    """A call under way, and whether its gate has nothing to learn from an answer."""

    call: ModelCall
    calm: bool


class Said(NamedTuple):
    """What came of a call, and after how many seconds."""

    outcome: Completion | ProviderError
    seconds: float


def reserve(run: Run, most: pricing.WorstCase) -> None:
    """Take the call's worst case out of the run's budget, or hold the row. A run without a budget costs no query.

    `run` was read a moment ago. Where a live run gets its first cap in that moment, the sweep counts what slipped by.
    """
    now = timezone.now()
    if run.first_call_at is None:
        Run.objects.filter(pk=run.pk, first_call_at__isnull=True).update(first_call_at=now)
    elif run.max_seconds and now > run.first_call_at + timedelta(seconds=run.max_seconds):
        raise Held("budget", f"the run's {run.max_seconds} s are over")
    if run.max_cost is None and run.max_tokens is None:
        return
    if run.max_cost is not None and most.cost is None:
        raise Held("budget", "the run has a budget in money, and this model has no price")
    cost = most.cost or Decimal(0)
    room = Q(max_cost__isnull=True) | Q(held_cost__lte=F("max_cost") - cost)
    room &= Q(max_tokens__isnull=True) | Q(held_tokens__lte=F("max_tokens") - most.tokens)
    changes = {"held_cost": F("held_cost") + cost, "held_tokens": F("held_tokens") + most.tokens}
    if Run.objects.filter(room, pk=run.pk).update(**changes) != 1:
        money = "" if most.cost is None else f" and ${most.cost:,.4f}"
        raise Held("budget", f"the next call could come to {most.tokens:,} tokens{money}: more than is left")


def complete(opened: Opened, lease: Lease[Any], said: Said) -> bool:
    """Store what came; False if the row is somebody else's by now.

    An answer was paid for: a short absence of the database must not lose it.
    """
    for _ in range(_TRIES):
        try:
            return _store(opened, lease, said)
        except leases.DATABASE_AWAY:
            close_old_connections()
            time.sleep(settings.POLL_SECONDS / 2)
    return _store(opened, lease, said)


def sweep() -> int:
    """Calls whose row is held by nobody under their fence any more: lost with their worker, and counted as such."""
    now = timezone.now()
    under_way = ModelCall.objects.filter(state="started")
    count = 0
    for kind in ("episode", "twin", "job"):
        gone = under_way.filter(**{f"{kind}__isnull": False}).filter(
            Q(**{f"{kind}__lease_until__isnull": True})
            | Q(**{f"{kind}__lease_until__lt": now})
            | Q(**{f"{kind}__fence__gt": F("fence")})
        )
        keys = list(gone.values_list("pk", flat=True)[:1000])
        count += under_way.filter(pk__in=keys).update(state="lost", ended_at=now)
    return count


def plain(text: str, most: int) -> str:
    """What a provider says, as any database keeps it: no NUL, no half surrogate."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()[:most]


def _store(opened: Opened, lease: Lease[Any], said: Said) -> bool:
    call, outcome = opened.call, said.outcome
    changes = _answer(call, outcome) if isinstance(outcome, Completion) else _fault(outcome)
    changes |= {"ended_at": timezone.now(), "milliseconds": int(said.seconds * 1000)}
    with transaction.atomic():
        mine = lease.held()
        if not mine and changes["state"] in ANSWERED:
            changes["state"] = "fenced"
        stored = ModelCall.objects.filter(pk=call.pk, state__in=("started", "lost")).update(**changes)
        if isinstance(outcome, ProviderError):
            gates.faulted(call.gate, outcome)
        elif not opened.calm:
            gates.answered(call.gate)
        if stored:
            _settle(lease.row.run, call, changes)
    for name, value in changes.items():
        setattr(call, name, value)
    return mine


def _settle(run: Run, call: ModelCall, changes: dict[str, Any]) -> None:
    """Give back what was reserved beyond what it came to. What nobody knows stays reserved."""
    if run.max_cost is None and run.max_tokens is None:
        return
    cost, used = changes["cost"], spending.tokens(changes)
    back = {}
    if cost is not None:
        back["held_cost"] = F("held_cost") + cost - (call.reserved_cost or Decimal(0))
    if used is not None:
        back["held_tokens"] = F("held_tokens") + used - call.reserved_tokens
    if back:
        Run.objects.filter(pk=run.pk).update(**back)


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
    nothing = dict.fromkeys(("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output"), 0)
    return {
        "state": "failed",
        "error_class": str(error.error_class),
        "error": plain(str(error), 2000),
        "request_id": plain(error.request_id, 200),
        "cost": Decimal(0) if free else None,
        **(nothing if free else {}),
        **_wire(error.reply),
    }


def _wire(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {}
    headers = {plain(name, 100): plain(value, 1000) for name, value in reply.headers.items()}
    return {"http_status": reply.status or None, "reply": reply.body, "reply_headers": headers}


def _countable(usage: Usage | None) -> Usage | None:
    """Counts that no call can have come to are no counts."""
    return usage if usage is not None and all(0 <= count < 2**31 for count in usage) else None
