"""What is said to language models: written down before it leaves, completed when the answer came, never said twice.

A role speaks as if it had a telephone. Behind it, a turn that was answered before is given back from the ledger; the
first one that was not is sent; and a further one in the same unit ends the unit, so that a unit is one call.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import random
from typing import Any, NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from simulation.calls import gates, ledger, pace, shelf, spending
from simulation.calls.ledger import Opened, Said
from simulation.casts import Player, Setup, pricing, setups
from simulation.leases import Fenced, GaveUp, Held, Lease, Wait
from simulation.leases.interruptions import UnitSpent
from simulation.models import Episode, ModelCall
from simulation.providers import Endpoint, Prompt, ProviderError, Speaker, connections, retrying
from simulation.providers.base import Completion, Connection, Reply, WireRequest
from simulation.providers.connections import MissingKey
from wetbench_site.database import release_connection

_PASSING = {str(kind) for kind, follows in retrying.REACTIONS.items() if isinstance(follows, retrying.Again)}


class Line(NamedTuple):
    """A model's endpoint and what sends to it."""

    endpoint: Endpoint
    connection: Connection


Dial = Callable[[Setup, Player], Line]


def dial(setup: Setup, player: Player) -> Line:
    """The real thing: over the wire, with the keys of this process's environment. MissingKey where the setup is scripted and
    this environment leads to the providers."""
    if setup.scripted and not setups.leads_to_scripted_server(setup.models[player.model]["provider"]):
        raise MissingKey(setups.SCRIPTED_ALONE)
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
    jobs: tuple[
        int, ...
    ] = ()  # of ratings: this job and those it goes on from; what they were answered is not asked again

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
        before = self._tries(player, turn)
        for call in before:
            if call.state in ledger.ANSWERED and call.request_sha256 == request.sha256:
                return _again(call, endpoint)
        if self.spent:
            raise UnitSpent
        self.spent = True
        # What was tried in vain while the provider was away is not counted against a job that goes on later.
        tries = [call for call in before if call.job_id in (None, self.lease.row.pk)]
        opened = self._open(player, endpoint, prompt, request, turn, tries)
        release_connection()  # no connection is held while a model thinks
        said = _send(line, request)
        if not ledger.complete(opened, self.lease, said):
            raise Fenced
        if isinstance(said.outcome, Completion):
            return said.outcome
        raise self._after(said.outcome, [*tries, opened.call])

    def _tries(self, player: Player, turn: int) -> list[ModelCall]:
        """Every time this turn was sent before. What an earlier holder left under way is lost."""
        if self.lease.fresh and not self.spent and len(self.jobs) < 2:
            return []
        turns = ModelCall.objects.filter(number=self.number, role=self.role, speaker=player.name, turn=turn)
        calls = turns.filter(**self._subject())
        asked = turns.filter(job_id__in=self.jobs) if self.jobs else calls
        found = list(asked.defer("request", "reply").order_by("pk"))
        if any(call.state == "started" for call in found):
            calls.filter(state="started", fence__lt=self.lease.fence).update(state="lost", ended_at=timezone.now())
        return found

    def _open(
        self,
        player: Player,
        endpoint: Endpoint,
        prompt: Prompt,
        request: WireRequest,
        turn: int,
        tries: list[ModelCall],
    ) -> Opened:
        """Everything that must hold before a request may leave, in one transaction with the call itself."""
        gate, run = gates.name_of(endpoint), self.lease.row.run
        price, told = spending.recent_price(player.model, timezone.now().date())
        most = pricing.worst_case(prompt, player.params.max_tokens, price)
        try:
            with transaction.atomic():
                if not self.lease.held():
                    raise Fenced
                entered = self._enter(gate, tries)  # before the run: everyone takes these rows in one order
                ledger.reserve(run, most)
                kept = shelf.put(request.body, prompt.system)
                call = ModelCall.objects.create(
                    **self._subject(),
                    run_id=run.pk,
                    role=self.role,
                    speaker=player.name,
                    purpose=prompt.purpose,
                    number=self.number,
                    turn=turn,
                    attempt=len(tries) + 1,
                    fence=self.lease.fence,
                    gate=gate,
                    model_name=player.model,
                    provider=endpoint.provider,
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
        except IntegrityError as error:
            # A holder that was thought dead has written this attempt in between: look again.
            raise Wait(settings.POLL_SECONDS, "no_slot") from error
        shelf.remember(kept)
        return Opened(call, entered.calm)

    def _enter(self, gate: str, tries: list[ModelCall]) -> gates.Answer:
        answer = gates.enter(gate)
        if answer.blocked:
            raise Held("credentials", answer.blocked)
        if answer.open:
            return answer
        failed = _in_a_row(tries, gate) if answer.reason == retrying.UNAVAILABLE else []
        if failed and _since(failed) >= pace.retry_policy().window:
            told = f"after {len(failed)} tries, and nobody else was answered either: {failed[-1].error}"
            raise GaveUp(retrying.UNAVAILABLE, told)
        raise Wait(answer.wait * _crowd(answer.reason), answer.reason)

    def _after(self, error: ProviderError, tries: list[ModelCall]) -> Exception:
        """What follows from a failed try: wait, be held, or give up."""
        passing = [call for call in tries if call.error_class in _PASSING] or [tries[-1]]
        in_a_row = _in_a_row(tries, tries[-1].gate) or [tries[-1]]
        policy = pace.retry_policy()
        follows = retrying.reaction(
            error.error_class, len(passing), _since(in_a_row), error.retry_after, random(), policy
        )
        told = ledger.plain(str(error), 2000)
        match follows:
            case retrying.Again():
                return Wait(follows.seconds, follows.reason, told)
            case retrying.Block():
                return Held(follows.reason, told)
            case retrying.GiveUp():
                return GaveUp(follows.reason, f"after {len(passing)} tries: {told}")

    def _subject(self) -> dict[str, Any]:
        kind = {"twin": "twin", "rating": "job"}.get(self.role, "episode")
        return {f"{kind}_id": self.lease.row.pk}


def _send(line: Connection, request: WireRequest) -> Said:
    began = time.monotonic()
    try:
        outcome: Completion | ProviderError = line.send(request, settings.CALL_SECONDS)
    except ProviderError as error:
        outcome = error
    return Said(outcome, time.monotonic() - began)


def _again(call: ModelCall, endpoint: Endpoint) -> Completion:
    """A stored answer, read from its bytes as it was the first time."""
    return connections.read(endpoint, Reply(call.http_status or 0, call.reply_headers, bytes(call.reply or b"")))


def _in_a_row(tries: list[ModelCall], gate: str) -> list[ModelCall]:
    """The passing faults of this turn since anybody was last answered through the gate: while one is, time is no proof."""
    answered = ModelCall.objects.filter(gate=gate, state="answered").order_by("-pk").values_list("ended_at", flat=True)
    last = answered.first()
    failed = [call for call in tries if call.state == "failed" and call.error_class in _PASSING]
    return [call for call in failed if last is None or call.started_at > last]


def _since(failed: list[ModelCall]) -> float:
    return (timezone.now() - failed[0].started_at).total_seconds()


def _crowd(reason: str) -> float:
    """How much longer to wait for a slot the more rows wait for one: each question costs a claim and a prompt."""
    if reason != "no_slot":
        return 1.0
    waiting = Episode.objects.filter(status="waiting", reason="no_slot").count()
    return min(10.0, 1.0 + waiting / settings.PROVIDER_CALLS_MAX)
