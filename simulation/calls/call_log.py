"""The call log: reserve a call's worst-case cost before it is sent, and store its result."""

import time
from collections.abc import Iterable, Mapping
from datetime import timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from django.conf import settings
from django.db import close_old_connections, connection
from django.db.models import F, Q
from django.utils import timezone

from simulation import leases
from simulation.calls import rate_limit, run_usage
from simulation.casts import pricing
from simulation.leases import Blocked, Lease
from simulation.models import CallText, ModelCall, Run
from simulation.providers import ErrorClass, ProviderError, wire
from simulation.providers.base import Completion, Reply, Stop
from wetbench_site.database import transaction_if
from wetbench_site.prepared_queries import build_update
from wetbench_site.text import hash_text

ANSWERED_STATES = ("answered", "refused")
# Providers do not charge for requests that they did not accept. A call that broke off may have been charged.
_UNCHARGED_ERRORS = (
    ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED, ErrorClass.CREDENTIALS, ErrorClass.CREDITS, ErrorClass.CONTEXT,
    ErrorClass.BAD_REQUEST,
)  # fmt: skip
_MAX_STORE_ATTEMPTS = 20  # to store an answer while the database is unavailable
_MIN_STORED_LENGTH = 1000  # characters; a shorter text stays in its request
_HASH_KEY = "text_sha256"
_MAX_KNOWN_HASHES = 5000
# Hashes of texts that are committed. Spares an INSERT for almost every call.
_known_hashes: set[str] = set()
_hash_long_text = lru_cache(maxsize=32)(hash_text)


class CallResult(NamedTuple):
    """The outcome of a call."""

    outcome: Completion | ProviderError
    seconds: float
    limiter_at_maximum: bool  # an answer would not change the rate limiter, and is not recorded there


def reserve_budget(run: Run, worst_case: pricing.MaxUsage) -> None:
    """Reserve the call's maximum cost and tokens in the run's budget. Raise Blocked if the run's limits do not allow it."""
    now = timezone.now()
    if run.first_call_at is None:
        Run.objects.filter(pk=run.pk, first_call_at__isnull=True).update(first_call_at=now)
    elif run.max_seconds and now > run.first_call_at + timedelta(seconds=run.max_seconds):
        raise Blocked("budget", f"the run's time limit of {run.max_seconds} s has passed")
    # `run` was loaded before, so a run without a budget costs no query here. If the run has received its first limit
    # since then, this call is not counted; recount_live_runs corrects the counters.
    if not run.has_usage_limit:
        return
    if run.max_cost is not None and worst_case.cost is None:
        raise Blocked("budget", "the run has a cost limit, and this model has no price")
    cost = worst_case.cost or Decimal(0)
    within_budget = Q(max_cost__isnull=True) | Q(held_cost__lte=F("max_cost") - cost)
    within_budget &= Q(max_tokens__isnull=True) | Q(held_tokens__lte=F("max_tokens") - worst_case.tokens)
    changes = {"held_cost": F("held_cost") + cost, "held_tokens": F("held_tokens") + worst_case.tokens}
    # The condition and the change are one UPDATE: workers that reserve at the same time cannot exceed the limit together.
    if Run.objects.filter(within_budget, pk=run.pk).update(**changes) != 1:
        money = "" if worst_case.cost is None else f" and ${worst_case.cost:,.4f}"
        needed = f"the next call could use up to {worst_case.tokens:,} tokens{money}"
        raise Blocked("budget", f"{needed}, more than the run's limits leave")


def log_call_end(call: ModelCall, lease: Lease[Any], result: CallResult) -> bool:
    """Store the result of a call. Return False if another worker has taken over the leased row."""
    # The answer was paid for: a short absence of the database must not lose it.
    for _ in range(_MAX_STORE_ATTEMPTS):
        try:
            return _store_result(call, lease, result)
        except leases.DATABASE_UNAVAILABLE:
            close_old_connections()
            time.sleep(settings.POLL_SECONDS / 2)
    return _store_result(call, lease, result)


def mark_lost_calls() -> int:
    """Mark calls under way as lost if their row is no longer leased under their fence. Return how many."""
    now, count = timezone.now(), 0
    under_way = ModelCall.objects.filter(state="started")
    for kind in ("episode", "code_episode", "twin", "job"):
        dead = Q(**{f"{kind}__lease_until__isnull": True}) | Q(**{f"{kind}__lease_until__lt": now})
        dead |= Q(**{f"{kind}__fence__gt": F("fence")})
        orphaned = under_way.filter(**{f"{kind}__isnull": False}).filter(dead)
        # At most 1,000 per kind and sweep: a longer UPDATE would hold its locks for too long.
        keys = list(orphaned.values_list("pk", flat=True)[:1000])
        count += under_way.filter(pk__in=keys).update(state="lost", ended_at=now)
    return count


def clean_text(text: str, max_length: int) -> str:
    """Return a provider's text in a form that every database can store: no NUL, no unpaired surrogate."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()[:max_length]


def _store_result(call: ModelCall, lease: Lease[Any], result: CallResult) -> bool:
    outcome = result.outcome
    changes = _columns_of_completion(call, outcome) if isinstance(outcome, Completion) else _columns_of_error(outcome)
    changes |= {"ended_at": timezone.now(), "milliseconds": int(result.seconds * 1000)}
    run, is_fault = lease.row.run, isinstance(outcome, ProviderError)
    with transaction_if(is_fault or not result.limiter_at_maximum or run.has_usage_limit):
        is_held = lease.is_held()
        if not is_held and changes["state"] in ANSWERED_STATES:
            changes["state"] = "fenced"
        # A call that the sweep marked as lost is completed too: its worker was only slow, and its usage is known now.
        stored = build_update(ModelCall, changes, id=call.pk, state=("started", "lost")).fetch_rows()
        if isinstance(outcome, ProviderError):
            if outcome.error_class is not ErrorClass.ABANDONED:  # which shows nothing about the provider
                rate_limit.record_fault(call.gate, outcome)
        elif not result.limiter_at_maximum:
            rate_limit.record_answer(call.gate)
        if stored:
            _settle_reservation(run, call, changes)
    for name, value in changes.items():
        setattr(call, name, value)
    return is_held


def _settle_reservation(run: Run, call: ModelCall, changes: dict[str, Any]) -> None:
    """Replace the call's reservation in the run's budget with its usage. An unknown cost or token count stays reserved."""
    if not run.has_usage_limit:
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
    usage, cost = completion.usage, completion.cost
    # A number that is negative or does not fit its column makes the usage unknown.
    if usage is not None and not all(0 <= count < 2**31 for count in usage):
        usage = None
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
    return {
        "state": "failed",
        "error_class": str(error.error_class),
        "error": clean_text(str(error), 2000),
        "request_id": clean_text(error.request_id, 200),
        "cost": Decimal(0) if free else None,
        **(dict.fromkeys(run_usage.TOKEN_CLASSES, 0) if free else {}),
        **_columns_of_reply(error.reply),
    }


def _columns_of_reply(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {}
    headers = {clean_text(name, 100): clean_text(value, 1000) for name, value in reply.headers.items()}
    return {"http_status": reply.status or None, "reply": reply.body, "reply_headers": headers}


def deduplicate_text(body: Any, text: str) -> Any:
    """Return the body with `text` replaced by its hash, and store `text`; a short text stays in the body.

    Call it before the call is stored, which must not refer to a text that is missing.
    """
    if len(text) < _MIN_STORED_LENGTH:
        return body
    sha = _hash_long_text(text)
    if sha not in _known_hashes:
        # Two workers may store the same text at once; the hash is the key, so either row will do.
        CallText.objects.bulk_create([CallText(sha256=sha, text=text)], ignore_conflicts=True)
        if len(_known_hashes) > _MAX_KNOWN_HASHES:
            # A bound on memory; the only cost is that some texts are offered to the database once more.
            _known_hashes.clear()
        if not connection.in_atomic_block:  # a transaction could still be rolled back
            _known_hashes.add(sha)
    return wire.map_parts(body, lambda part: {_HASH_KEY: sha} if part == text else part)


def restore_texts(bodies: Iterable[Any]) -> list[Any]:
    """Return these bodies with every hash replaced by its text, with one query."""
    stored = list(bodies)
    requested = {sha for body in stored for sha in collect_hashes(body)}
    texts = dict(CallText.objects.filter(pk__in=requested).values_list("sha256", "text")) if requested else {}
    return [
        wire.map_parts(body, lambda part: texts.get(_hash_of(part), "") if _hash_of(part) else part) for body in stored
    ]


def collect_hashes(body: Any) -> set[str]:
    """Return the hashes of the texts that were taken out of the body."""
    hashes: set[str] = set()
    wire.map_parts(body, lambda part: hashes.add(sha) if (sha := _hash_of(part)) else part)
    return hashes


def _hash_of(part: Any) -> str:
    """Return the hash that stands for a text in a body, or ""."""
    return str(part[_HASH_KEY]) if isinstance(part, Mapping) and set(part) == {_HASH_KEY} else ""
