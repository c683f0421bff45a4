"""Who may call a provider now: one limiter per provider and key, in the database, for all workers together.

The limit is raised by answers and lowered by 429 and overloads. It closes for as long as the provider asks, and, after
several infrastructure faults with no answer between, for a doubling pause with one probe at a time after each. A key
that is not accepted blocks it until a person reopens it.

The gate's row may stay locked until the transaction of `enter`, `answered` or `faulted` ends. One that also changes a
Run passes the gate first, as the journal does: in two orders, two transactions could wait for each other.
"""

import hashlib
import logging
import random
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import connection, transaction
from django.db.models import Case, F, FloatField, IntegerField, Q, QuerySet, Value, When
from django.db.models.expressions import RawSQL
from django.db.models.functions import Least
from django.db.transaction import TransactionManagementError
from django.utils import timezone

from simulation.calls.pace import GateRules, gate_rules
from simulation.models import ModelCall, ProviderGate
from simulation.providers import Endpoint, ErrorClass, ProviderError
from simulation.providers.base import PROVIDERS
from simulation.providers.retrying import asked_wait, doubled

log = logging.getLogger("wetbench.gates")
WIDE = (ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED)  # they close the gate for all at once
FAULTS = (*WIDE, ErrorClass.SERVER, ErrorClass.CONNECTION, ErrorClass.TIMEOUT, ErrorClass.GARBLED)
KEY_FAULTS = {
    ErrorClass.CREDENTIALS: "The provider does not accept the key",
    ErrorClass.CREDITS: "The provider says that the account has no credit left",
}


# So many transactions at most are between counting and committing: four processes with ten connections each.
AT_ONCE = 40


# By hand, because building the same subquery for every call costs more than asking it. No text of anybody's is in it.
_UNDER_WAY = RawSQL(
    "(SELECT COUNT(*) FROM simulation_modelcall AS under_way"
    " WHERE under_way.gate = simulation_providergate.name AND under_way.state = 'started')",
    (),
    output_field=IntegerField(),
)


class Answer(NamedTuple):
    """Whether one more call may leave now; if not, in how many seconds to ask again, or why nobody may."""

    open: bool
    wait: float = 0.0
    blocked: str = ""
    calm: bool = False  # at its most and without a fault: an answer tells it nothing new
    reason: str = ""  # why it waits: rate_limit, provider_unavailable, no_slot; credentials where it is blocked


def name_of(endpoint: Endpoint) -> str:
    """provider:fingerprint of the key, which is never stored."""
    return f"{endpoint.provider}:{hashlib.sha256(endpoint.key.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def enter(name: str) -> Answer:
    """Ask for one call more, inside the transaction that stores the call: near the limit the gate is locked until then."""
    if not connection.in_atomic_block:
        raise TransactionManagementError("gates.enter is asked inside the transaction that stores the call")
    rule, now = gate_rules(), timezone.now()
    free = _free(name, rule, now)
    if free is not None:
        return free
    gate = _locked(name)
    if gate.blocked:
        return Answer(False, blocked=gate.blocked, reason="credentials")
    tripped = gate.faults_running >= rule.faults
    if gate.closed_until and gate.closed_until > now:
        left = (gate.closed_until - now).total_seconds()
        return Answer(False, left, reason="provider_unavailable" if tripped else "rate_limit")
    if tripped and _probing(gate):
        return Answer(False, _about(rule.slot_wait), reason="provider_unavailable")
    if _under_way(name).count() >= max(1, int(min(gate.limit, rule.most))):
        return Answer(False, _about(rule.slot_wait), reason="no_slot")
    return Answer(True)


def answered(name: str) -> None:
    """The provider answered. One UPDATE, which touches no row while all is well and the limit at its most."""
    most = float(gate_rules().most)
    # A key that never met a limit doubles with every full round of answers; one that did gains one call a round.
    gain = Case(When(lowered_at=None, then=Value(1.0)), default=1.0 / F("limit"), output_field=FloatField())
    touched = ProviderGate.objects.filter(Q(limit__lt=most) | Q(faults_running__gt=0), name=name)
    touched.update(limit=Least(Value(most), F("limit") + gain), faults_running=0)


@transaction.atomic
def faulted(name: str, error: ProviderError) -> None:
    """An attempt gave no completion: lower the limit, close for a while, or block, as its class asks."""
    gate, kind = _locked(name), error.error_class
    if kind in KEY_FAULTS:
        gate.blocked = _blocked_text(name, kind)
        log.error("%s: %s", name, gate.blocked)
    elif kind in FAULTS:
        if gate.faults_running and _answered_since(gate):
            gate.faults_running = 0  # calm answers do not say so themselves
        _close(gate, error, gate_rules(), timezone.now())
        gate.faulted_at = timezone.now()
    else:
        gate.faults_running = 0  # it answered, only not what was asked
    gate.save()


def reopen(name: str) -> bool:
    """Let calls through again, after a person has seen to the key; False if there is no such gate."""
    opened = {"blocked": "", "closed_until": None, "faults_running": 0}
    return ProviderGate.objects.filter(name=name).update(**opened) == 1


def _free(name: str, rule: GateRules, now: datetime) -> Answer | None:
    """Open, where the gate is so far from its limit that not even all who come now could pass it; None: look closer.

    One plain read and no lock: every call passes here.
    """
    if rule.most <= AT_ONCE:
        return None
    columns = ("limit", "faults_running", "closed_until", "blocked", _UNDER_WAY)
    for limit, faults, closed_until, blocked, out in ProviderGate.objects.filter(name=name).values_list(*columns):
        if blocked or faults >= rule.faults or (closed_until is not None and closed_until > now):
            return None
        if min(limit, rule.most) - out > AT_ONCE:
            return Answer(True, calm=limit >= rule.most and not faults)
    return None


def _locked(name: str) -> ProviderGate:
    """The gate's row for this transaction alone, made on first use."""
    gates = ProviderGate.objects.select_for_update()
    gate = gates.filter(name=name).first()
    if gate is None:
        ProviderGate.objects.get_or_create(name=name, defaults={"limit": float(gate_rules().start)})
        gate = gates.get(name=name)
    return gate


def _close(gate: ProviderGate, error: ProviderError, rule: GateRules, now: datetime) -> None:
    """Calls that left before the gate closed and fail while it is closed tell nothing new: they are not counted."""
    if error.error_class in WIDE:
        _lower(gate, rule, now)
    closed = gate.closed_until is not None and gate.closed_until > now
    gate.faults_running += not closed
    until = now + timedelta(seconds=_pause(gate.faults_running, error, rule, closed))
    if until > now and (gate.closed_until is None or until > gate.closed_until):
        gate.closed_until = until
        log.warning("%s closed until %s after %s", gate.name, until.isoformat(timespec="seconds"), error.error_class)


def _lower(gate: ProviderGate, rule: GateRules, now: datetime) -> None:
    if gate.lowered_at and now - gate.lowered_at < timedelta(seconds=rule.lower_every):
        return
    # A limit that nobody came near would have to fall many times before it meant anything.
    busy = _under_way(gate.name).count()
    gate.limit = max(1.0, 0.8 * min(gate.limit, rule.most, max(busy, rule.start)))
    gate.lowered_at = now


def _pause(faults: int, error: ProviderError, rule: GateRules, closed: bool) -> float:
    """How long to stay closed after this many faults in a row: what was asked, and the circuit's own pause."""
    asked = asked_wait(error.retry_after, rule.retry_after_cap) if error.error_class in WIDE else 0.0
    if closed:
        return asked
    if error.error_class in WIDE and error.retry_after is None:
        asked = doubled(rule.pause, faults - 1, rule.pause_cap)
    tripped = faults >= rule.faults
    return max(asked, doubled(rule.circuit_pause, faults - rule.faults, rule.circuit_cap) if tripped else 0.0)


def _under_way(name: str) -> QuerySet[ModelCall]:
    return ModelCall.objects.filter(gate=name, state="started")


def _answered_since(gate: ProviderGate) -> bool:
    """Whether any call was answered after the last fault that was counted."""
    answered = ModelCall.objects.filter(gate=gate.name, state="answered").order_by("-pk")
    last = answered.values_list("ended_at", flat=True).first()
    return last is not None and gate.faulted_at is not None and last > gate.faulted_at


def _probing(gate: ProviderGate) -> bool:
    """Whether a call that left after the pause is still out: it is the probe, and the others wait for its answer."""
    since = gate.closed_until
    return since is not None and _under_way(gate.name).filter(started_at__gte=since).exists()


def _about(seconds: float) -> float:
    """Half to one and a half times as long, so that those who wait do not all ask at once."""
    return seconds * (0.5 + random.random())


def _blocked_text(name: str, kind: ErrorClass) -> str:
    """In our own words: what a provider says of a key may repeat it."""
    provider = name.partition(":")[0]
    variable = PROVIDERS[provider].key_variable if provider in PROVIDERS else "its environment variable"
    return f"{KEY_FAULTS[kind]} in {variable} (gate {name}). Put that right, then press Try again on the run."
