"""Rate limit per provider and key, in the database, shared by all workers.

Answers raise the limit; 429 responses and overloads lower it. The limiter closes for as long as the provider requests.
After several infrastructure faults with no answer in between, it closes for a pause that doubles each time. After each
pause it admits one call at a time, as a probe. A key that the provider does not accept blocks the limiter until a
person reopens it.
"""

import hashlib
import logging
import random
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Case, F, FloatField, Q, QuerySet, Value, When
from django.db.models.functions import Least
from django.db.transaction import TransactionManagementError
from django.utils import timezone

from simulation.models import ModelCall, ProviderGate
from simulation.providers import Endpoint, ErrorClass, ProviderError
from simulation.providers.base import PROVIDERS
from simulation.providers.errors import RetryPolicy, double_capped, requested_wait
from wetbench_site.prepared_queries import Statement, insert_if_found

log = logging.getLogger("wetbench.gates")
# Lock order: the limiter's row may stay locked until the transaction of `request_slot`, `record_answer` or
# `record_fault` ends. A transaction that also changes a Run must lock the limiter first, as
# simulation.calls.replay does: with two orders, two transactions could wait for each other.
SHARED_FAULTS = (ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED)  # they concern every call with the key
PROVIDER_FAULTS = (*SHARED_FAULTS, ErrorClass.SERVER, ErrorClass.CONNECTION, ErrorClass.TIMEOUT, ErrorClass.GARBLED)
KEY_FAULTS = {
    ErrorClass.CREDENTIALS: "The provider does not accept the key",
    ErrorClass.CREDITS: "The provider reports that no credit is left for the key",
}
# Upper bound on the workers that have counted the calls and not yet stored theirs: four processes with ten connections
# each.
MAX_CONNECTIONS = 40
# CASE: LEAST has another name on SQLite.
_ADMISSION = """
    SELECT "limit" >= %s AND faults_running = 0 AS is_at_maximum FROM simulation_providergate
    WHERE name = %s AND blocked = '' AND faults_running < %s AND (closed_until IS NULL OR closed_until <= %s)
        AND CASE WHEN "limit" < %s THEN "limit" ELSE %s END - %s > (
            SELECT COUNT(*) FROM simulation_modelcall WHERE gate = simulation_providergate.name AND state = 'started'
        )"""


class Admission(NamedTuple):
    """Whether one more call may be sent now. If not, when to try again, or why a person must act."""

    is_open: bool
    wait_seconds: float = 0.0
    block_message: str = ""
    is_at_maximum: bool = False  # at its maximum and without faults, so an answer would change nothing
    reason: str = ""  # rate_limit, provider_unavailable or no_slot; credentials if a person must act


def format_limiter_name(endpoint: Endpoint) -> str:
    """Return the limiter's name, "provider:fingerprint of the key". The key itself is never stored."""
    return f"{endpoint.provider}:{hashlib.sha256(endpoint.key.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def get_retry_policy() -> RetryPolicy:
    return RetryPolicy(
        base=settings.RETRY_SECONDS,
        cap=settings.RETRY_MAX_SECONDS,
        retry_after_cap=settings.RETRY_AFTER_MAX_SECONDS,
        attempts=settings.RETRY_ATTEMPTS,
        window=settings.RETRY_WINDOW_SECONDS,
    )


def store_if_admitted(call: ModelCall) -> Admission | None:
    """Store a call if far fewer are under way than the limit allows. Return None if it was not stored."""
    if settings.PROVIDER_CALLS_MAX <= MAX_CONNECTIONS:
        return None
    for [is_at_maximum] in insert_if_found(call, _build_admission(call.gate)):
        return Admission(True, is_at_maximum=is_at_maximum)
    return None


def request_slot(name: str) -> Admission:
    """Return whether one more call may be sent now. Call this inside the transaction that stores the call."""
    if not connection.in_atomic_block:
        raise TransactionManagementError(
            "rate_limit.request_slot must be called inside the transaction that stores the call"
        )
    if settings.PROVIDER_CALLS_MAX > MAX_CONNECTIONS:
        for [is_at_maximum] in _build_admission(name).fetch_rows():
            return Admission(True, is_at_maximum=bool(is_at_maximum))
    return _request_locked(name)


def _build_admission(name: str) -> Statement:
    """Return the query for whether an admitting limiter is at its maximum. It has no row near the limit, and after faults.

    It locks nothing. That is safe because even if every connection were admitted at once, the calls would not exceed the
    limit.
    """
    now = connection.ops.adapt_datetimefield_value(timezone.now())
    most = settings.PROVIDER_CALLS_MAX
    return Statement(_ADMISSION, [most, name, settings.CIRCUIT_FAULTS, now, most, most, MAX_CONNECTIONS])


def _request_locked(name: str) -> Admission:
    now = timezone.now()
    # Near the limit, its row stays locked until the call is stored: two workers must not both take the last slot.
    gate = _lock_limiter(name)
    if gate.blocked:
        return Admission(False, block_message=gate.blocked, reason="credentials")
    is_tripped = gate.faults_running >= settings.CIRCUIT_FAULTS
    if gate.closed_until and gate.closed_until > now:
        seconds_left = (gate.closed_until - now).total_seconds()
        return Admission(False, seconds_left, reason="provider_unavailable" if is_tripped else "rate_limit")
    under_way = _calls_under_way(name)
    # Jitter spreads the retries: otherwise all rows that wait for a slot would try again at the same moment.
    wait_seconds = settings.SLOT_WAIT_SECONDS * (0.5 + random.random())
    # A call sent after the last pause is the probe; other calls wait for its answer.
    if is_tripped and gate.closed_until and under_way.filter(started_at__gte=gate.closed_until).exists():
        return Admission(False, wait_seconds, reason="provider_unavailable")
    if under_way.count() >= max(1, int(min(gate.limit, settings.PROVIDER_CALLS_MAX))):
        return Admission(False, wait_seconds, reason="no_slot")
    return Admission(True)


def record_answer(name: str) -> None:
    """Record that the provider answered: raise the limit, and reset the count of faults."""
    max_calls = float(settings.PROVIDER_CALLS_MAX)
    # A limit that was never lowered doubles with every full round of answers; any other rises by one call per round.
    gain = Case(When(lowered_at=None, then=Value(1.0)), default=1.0 / F("limit"), output_field=FloatField())
    # One UPDATE for every answer, which matches no row while the limit is at its maximum without faults.
    changed = ProviderGate.objects.filter(Q(limit__lt=max_calls) | Q(faults_running__gt=0), name=name)
    changed.update(limit=Least(Value(max_calls), F("limit") + gain), faults_running=0)


@transaction.atomic
def record_fault(name: str, error: ProviderError) -> None:
    """Record a failed attempt: lower the limit, close the limiter for a while, or block it, depending on the error."""
    gate, kind = _lock_limiter(name), error.error_class
    if kind in KEY_FAULTS:
        provider = name.partition(":")[0]
        variable = PROVIDERS[provider].key_variable if provider in PROVIDERS else "its environment variable"
        # Never the provider's message: it may repeat the key.
        reason = f"{KEY_FAULTS[kind]} in {variable} (rate limiter {name})."
        gate.blocked = f"{reason} Fix this, then press Try again on the run."
        log.error("%s: %s", name, gate.blocked)
    elif kind in PROVIDER_FAULTS:
        if gate.faults_running and _has_answer_since_fault(gate):
            gate.faults_running = 0  # answers at the maximum are not recorded, so they did not reset it
        now = timezone.now()
        if kind in SHARED_FAULTS:
            _lower_limit(gate, now)
        is_closed = gate.closed_until is not None and gate.closed_until > now
        # Calls that left before the limiter closed and fail while it is closed are no new evidence.
        gate.faults_running += not is_closed
        closed_until = now + timedelta(seconds=_compute_pause(gate.faults_running, error, is_closed))
        if closed_until > now and (gate.closed_until is None or closed_until > gate.closed_until):
            gate.closed_until = closed_until
            until = closed_until.isoformat(timespec="seconds")
            log.warning("%s closed until %s after %s", gate.name, until, error.error_class)
        gate.faulted_at = timezone.now()
    else:
        gate.faults_running = 0  # the provider answered, only not with a completion
    gate.save()


def reopen_limiter(name: str) -> bool:
    """Admit calls again after a person has fixed the key. Return False if there is no such limiter."""
    changes = {"blocked": "", "closed_until": None, "faults_running": 0}
    return ProviderGate.objects.filter(name=name).update(**changes) == 1


def _lock_limiter(name: str) -> ProviderGate:
    """Return the limiter's row, locked for this transaction. Create it on first use."""
    limiters = ProviderGate.objects.select_for_update()
    gate = limiters.filter(name=name).first()
    if gate is None:
        ProviderGate.objects.get_or_create(name=name, defaults={"limit": float(_start_calls())})
        gate = limiters.get(name=name)
    return gate


def _lower_limit(gate: ProviderGate, now: datetime) -> None:
    # At least this long between two cuts: a burst of 429 is one signal.
    if gate.lowered_at and now - gate.lowered_at < timedelta(seconds=settings.GATE_LOWER_SECONDS):
        return
    # Start from the number of calls under way: lowering a limit far above it would have no effect.
    under_way = max(_calls_under_way(gate.name).count(), _start_calls())
    gate.limit = max(1.0, 0.8 * min(gate.limit, settings.PROVIDER_CALLS_MAX, under_way))
    gate.lowered_at = now


def _compute_pause(faults: int, error: ProviderError, is_closed: bool) -> float:
    """Return the seconds to stay closed after these faults: as the provider or the circuit breaker requires, the longer."""
    is_shared = error.error_class in SHARED_FAULTS
    requested = requested_wait(error.retry_after, settings.RETRY_AFTER_MAX_SECONDS) if is_shared else 0.0
    if is_closed:
        return requested
    if is_shared and error.retry_after is None:
        requested = double_capped(settings.GATE_PAUSE_SECONDS, faults - 1, settings.GATE_PAUSE_MAX_SECONDS)
    extra_faults = faults - settings.CIRCUIT_FAULTS
    if extra_faults < 0:
        return requested
    circuit_pause = double_capped(settings.CIRCUIT_PAUSE_SECONDS, extra_faults, settings.CIRCUIT_PAUSE_MAX_SECONDS)
    return max(requested, circuit_pause)


def _start_calls() -> int:
    """Return the limit of a key that was never used."""
    return min(settings.PROVIDER_CALLS_START, settings.PROVIDER_CALLS_MAX)


def _calls_under_way(name: str) -> QuerySet[ModelCall]:
    return ModelCall.objects.filter(gate=name, state="started")


def _has_answer_since_fault(gate: ProviderGate) -> bool:
    """Return whether any call was answered after the last counted fault."""
    answers = ModelCall.objects.filter(gate=gate.name, state="answered").order_by("-pk")
    last = answers.values_list("ended_at", flat=True).first()
    return last is not None and gate.faulted_at is not None and last > gate.faulted_at
