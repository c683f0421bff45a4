"""What is said to language models: written down before it leaves, completed when the answer came, never said twice.

A role speaks as if it had a telephone. Behind it, a turn that was answered before is given back from the ledger; the
first one that was not is sent; and a further one in the same unit ends the unit, so that a unit is one call.
"""

import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from random import random
from typing import Any, NamedTuple

from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import F, Q
from django.utils import timezone

from simulation import gates, idle, leases, pace, pricing, shelf, spending
from simulation.lab.errors import LabError
from simulation.leases import Lease
from simulation.models import ModelCall, Run
from simulation.providers import connections, retrying
from simulation.providers.base import (
    Completion,
    Connection,
    Endpoint,
    ErrorClass,
    Prompt,
    ProviderError,
    Reply,
    Speaker,
    Stop,
    Usage,
    WireRequest,
)
from simulation.providers.connections import MissingKey
from simulation.setups import Player, Setup

log = logging.getLogger("wetbench.journal")
_ANSWERED = ("answered", "refused")
# What was not accepted is not charged; what broke off may have been.
_FREE = (
    ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED, ErrorClass.CREDENTIALS, ErrorClass.CREDITS, ErrorClass.CONTEXT,
    ErrorClass.BAD_REQUEST,
)  # fmt: skip
_QUIET = timedelta(minutes=10)  # tries further apart than this do not belong together
_TRIES = 20  # to store an answer while the database is away: it was paid for


class UnitSpent(Exception):  # noqa: N818  # not an error: the unit is over, the next one goes on
    """The unit's one call was made and answered; what follows is the next unit's."""


class Fenced(Exception):  # noqa: N818  # as above
    """Another worker has taken the row over: what came too late is kept in the ledger and used by nobody."""


class Wait(Exception):  # noqa: N818  # as above
    """The call cannot be made now, or failed in a way that passes."""

    def __init__(self, seconds: float, reason: str, error: str = "") -> None:
        super().__init__(error or reason)
        self.seconds, self.reason, self.error = seconds, reason, error


class Held(Exception):  # noqa: N818  # as above
    """Somebody must do something before the call can be made: a key, a budget, a request that is not accepted."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason, self.error = reason, error


class GaveUp(LabError):  # noqa: N818  # as above
    """The call was tried as often as is worth it."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason


class Line(NamedTuple):
    """A model's endpoint and what sends to it."""

    endpoint: Endpoint
    connection: Connection


Dial = Callable[[Setup, Player], Line]


def dial(setup: Setup, player: Player) -> Line:
    """The real thing: over the wire, with the keys of this process's environment."""
    endpoint = setup.endpoint(player)
    return Line(endpoint, connections.connect(endpoint))


@dataclass
class Journal:
    """The telephone of one unit of one row."""

    lease: Lease[Any]
    setup: Setup
    role: str
    number: int
    dial: Dial
    spent: bool = False

    def speaker(self, player: Player) -> Speaker:
        """Says prompts to this player's model; the n-th one it is asked is the n-th turn of the unit."""
        turns = itertools.count()
        return lambda prompt: self._say(player, prompt, next(turns))

    def _say(self, player: Player, prompt: Prompt, turn: int) -> Completion:
        try:
            endpoint, line = self.dial(self.setup, player)
        except MissingKey as error:
            raise Held("credentials", str(error)) from error
        request = line.prepare(prompt, player.params)
        tries = self._tries(player, turn)
        for call in tries:
            if call.state in _ANSWERED and call.request_sha256 == request.sha256:
                return _again(call, endpoint)
        if self.spent:
            raise UnitSpent
        self.spent = True
        opened = self._open(player, endpoint, prompt, request, turn, len(tries) + 1)
        idle.let_go()  # no connection is held while a model thinks
        said = _send(line, request)
        if not _kept(opened, self.lease, said):
            raise Fenced
        if isinstance(said.outcome, Completion):
            return said.outcome
        raise self._after(said.outcome, [*tries, opened.call])

    def _tries(self, player: Player, turn: int) -> list[ModelCall]:
        """Every time this turn was sent before. What an earlier holder left under way is lost."""
        if self.lease.fresh and not self.spent:
            return []
        calls = ModelCall.objects.filter(
            **self._subject(), number=self.number, role=self.role, speaker=player.name, turn=turn
        )
        found = list(calls.defer("request").order_by("attempt"))
        if any(call.state == "started" for call in found):
            calls.filter(state="started", fence__lt=self.lease.fence).update(state="lost", ended_at=timezone.now())
        return found

    def _open(
        self, player: Player, endpoint: Endpoint, prompt: Prompt, request: WireRequest, turn: int, attempt: int
    ) -> "_Open":
        """Everything that must hold before a request may leave, in one transaction with the call itself."""
        model = self.setup.models[player.model]
        gate = gates.name_of(endpoint)
        price, told = spending.recent_price(player.model, timezone.now().date())
        most = pricing.worst_case(prompt, player.params.max_tokens, price)
        with transaction.atomic():
            if not self.lease.held():
                raise Fenced
            entered = _enter(gate)  # before the run: everyone takes these rows in one order
            _reserve(self.lease.row.run, most)
            kept = shelf.put(request.body, prompt.system)
            call = ModelCall.objects.create(
                **self._subject(),
                run_id=self.lease.row.run_id,
                role=self.role,
                speaker=player.name,
                purpose=prompt.purpose,
                number=self.number,
                turn=turn,
                attempt=attempt,
                fence=self.lease.fence,
                gate=gate,
                model_name=player.model,
                provider=model["provider"],
                requested_model=endpoint.model_id,
                prompt_set=prompt.prompt_set,
                request_sha256=request.sha256,
                request=kept,
                effective_params=dict(request.effective),
                dropped_params=dict(request.dropped),
                reserved_tokens=most.tokens,
                reserved_cost=most.cost,
                price=told,
            )
        shelf.remember(kept)
        return _Open(call, entered.calm)

    def _after(self, error: ProviderError, tries: list[ModelCall]) -> Exception:
        """What follows from a failed try: wait, be held, or give up."""
        failed = _in_a_row(tries)
        since = (timezone.now() - failed[0].started_at).total_seconds()
        policy = pace.retry_policy()
        follows = retrying.reaction(error.error_class, len(failed), since, error.retry_after, random(), policy)
        match follows:
            case retrying.Again():
                return Wait(follows.seconds, follows.reason, _short(error))
            case retrying.Block():
                return Held(follows.reason, _short(error))
            case retrying.GiveUp():
                return GaveUp(follows.reason, f"after {len(failed)} tries: {_short(error)}")

    def _subject(self) -> dict[str, Any]:
        kind = "twin" if self.role == "twin" else "episode"
        return {f"{kind}_id": self.lease.row.pk}


class _Open(NamedTuple):
    """A call under way, and whether its gate has nothing to learn from an answer."""

    call: ModelCall
    calm: bool


@dataclass(frozen=True)
class _Said:
    outcome: Completion | ProviderError
    seconds: float


def _send(line: Connection, request: WireRequest) -> _Said:
    began = time.monotonic()
    try:
        outcome: Completion | ProviderError = line.send(request, settings.CALL_SECONDS)
    except ProviderError as error:
        outcome = error
    return _Said(outcome, time.monotonic() - began)


def _again(call: ModelCall, endpoint: Endpoint) -> Completion:
    """A stored answer, read from its bytes as it was the first time."""
    return connections.read(endpoint, Reply(call.http_status or 0, call.reply_headers, bytes(call.reply or b"")))


def _enter(gate: str) -> gates.Answer:
    answer = gates.enter(gate)
    if answer.blocked:
        raise Held("credentials", answer.blocked)
    if not answer.open:
        raise Wait(answer.wait, answer.reason)
    return answer


def _reserve(run: Run, most: pricing.WorstCase) -> None:
    """Take the call's worst case out of the run's budget, or hold the row. A run without a budget costs no query.

    `run` was read when the row was claimed: whether it has a cap at all does not change under a lease.
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
        raise Held("budget", f"the next call could come to {most.tokens} tokens{_money(most.cost)}: more than is left")


def _money(cost: Decimal | None) -> str:
    return "" if cost is None else f" and {cost} US dollars"


def _kept(opened: _Open, lease: Lease[Any], said: _Said) -> bool:
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


def _store(opened: _Open, lease: Lease[Any], said: _Said) -> bool:
    call, outcome = opened.call, said.outcome
    changes = _answer(call, outcome) if isinstance(outcome, Completion) else _fault(outcome)
    changes |= {"ended_at": timezone.now(), "milliseconds": int(said.seconds * 1000)}
    with transaction.atomic():
        mine = lease.renew()
        if not mine and changes["state"] in _ANSWERED:
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
    cost, used = changes["cost"], spending.tokens(changes)
    back = {}
    if cost is not None:
        back["held_cost"] = F("held_cost") + cost - (call.reserved_cost or Decimal(0))
    if used is not None:
        back["held_tokens"] = F("held_tokens") + used - call.reserved_tokens
    if back and (run.max_cost is not None or run.max_tokens is not None):
        Run.objects.filter(pk=run.pk).update(**back)


def _answer(call: ModelCall, completion: Completion) -> dict[str, Any]:
    usage, cost = _countable(completion.usage), completion.cost
    if cost is None and usage is not None:
        cost = pricing.cost(usage, pricing.from_snapshot(call.price))
    return {
        "state": "refused" if completion.stop is Stop.REFUSAL else "answered",
        "stop": str(completion.stop),
        "served_model": _plain(completion.served_model, 200),
        "served_provider": _plain(completion.served_provider, 120),
        "request_id": _plain(completion.request_id, 200),
        "cost": cost,
        **_wire(completion.reply),
        **(usage._asdict() if usage else {}),
    }


def _fault(error: ProviderError) -> dict[str, Any]:
    free = error.error_class in _FREE
    nothing = dict.fromkeys(("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output"), 0)
    return {
        "state": "failed",
        "error_class": str(error.error_class),
        "error": _short(error),
        "request_id": _plain(error.request_id, 200),
        "cost": Decimal(0) if free else None,
        **(nothing if free else {}),
        **_wire(error.reply),
    }


def _wire(reply: Reply | None) -> dict[str, Any]:
    if reply is None:
        return {}
    headers = {_plain(name, 100): _plain(value, 1000) for name, value in reply.headers.items()}
    return {"http_status": reply.status or None, "reply": reply.body, "reply_headers": headers}


def _countable(usage: Usage | None) -> Usage | None:
    """Counts that no call can have come to are no counts."""
    return usage if usage is not None and all(0 <= count < 2**31 for count in usage) else None


def _plain(text: str, most: int) -> str:
    """What a provider says, as any database keeps it: no NUL, no half surrogate."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()[:most]


def _in_a_row(tries: list[ModelCall]) -> list[ModelCall]:
    """The failed tries that belong together: none answered between them, none long after the one before."""
    chain = [tries[-1]]
    for call in reversed(tries[:-1]):
        if call.state in _ANSWERED or chain[0].started_at - call.started_at > _QUIET + timedelta(
            seconds=retrying.LONGEST_WAIT
        ):
            break
        if call.state == "failed":
            chain.insert(0, call)
    return chain


def _short(error: Exception) -> str:
    return _plain(str(error), 2000)


def sweep() -> int:
    """Calls whose row is held by nobody under their fence any more: lost with their worker, and counted as such."""
    now = timezone.now()
    under_way = ModelCall.objects.filter(state="started")
    count = 0
    for kind in ("episode", "twin"):
        gone = under_way.filter(**{f"{kind}__isnull": False}).filter(
            Q(**{f"{kind}__lease_until__isnull": True})
            | Q(**{f"{kind}__lease_until__lt": now})
            | Q(**{f"{kind}__fence__gt": F("fence")})
        )
        keys = list(gone.values_list("pk", flat=True)[:1000])
        count += under_way.filter(pk__in=keys).update(state="lost", ended_at=now)
    return count
