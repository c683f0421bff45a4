"""Replay the model calls of a unit, and send at most one new call.

A role calls its model as if every call were new. Calls that were answered before are returned from the call log. The
first unanswered call is sent. A second new call ends the unit. So a unit costs at most one call, and no call is paid
for twice.
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
    """A model's endpoint and the connection that sends to it."""

    endpoint: Endpoint
    connection: Connection


Dial = Callable[[Setup, Player], Line]


def dial(setup: Setup, player: Player) -> Line:
    """Return a connection to the player's model, with the keys of this process's environment.

    Raises MissingKey if the run configuration is for the scripted server but this environment leads to real providers.
    """
    # A run that was created for the scripted server must not reach, and pay, a real provider.
    if setup.scripted and not setups.leads_to_scripted_server(setup.models[player.model]["provider"]):
        raise MissingKey(setups.SCRIPTED_ALONE)
    endpoint = setup.endpoint(player)
    return Line(endpoint, connections.connect(endpoint))


@dataclass
class Journal:
    """The model calls of one unit of one leased row."""

    lease: Lease[Any]
    setup: Setup
    role: str
    number: int
    dial: Dial
    spent: bool = False
    # Of ratings: this job and the jobs that it continues. Their answers are replayed, so nothing is paid for twice.
    jobs: tuple[int, ...] = ()

    def speaker(self, player: Player) -> Speaker:
        """Return a function that completes prompts with this player's model. Its n-th call is the n-th turn of the unit."""
        turns = itertools.count()
        return lambda prompt: self._say(player, prompt, next(turns))

    def _say(self, player: Player, prompt: Prompt, turn: int) -> Completion:
        """Return the logged completion of this turn, or send the prompt.

        Raises CallDone after the one new call of the unit, LeaseLost if another worker took over while the model was
        answering, Blocked if a person must act, RetryLater for transient errors, RetriesExhausted after too many of them.
        """
        try:
            endpoint, connection = self.dial(self.setup, player)
        except MissingKey as error:
            raise Held("credentials", str(error)) from error
        request = connection.prepare(prompt, player.params)
        earlier = self._tries(player, turn)
        for call in earlier:
            # The hash of the whole request: an answer to another prompt or with other parameters must not be
            # replayed.
            if call.state in ledger.ANSWERED and call.request_sha256 == request.sha256:
                return _again(call, endpoint)
        if self.spent:
            raise UnitSpent
        self.spent = True
        # Failures of an earlier job, while the provider was unavailable, do not count against the job that continues it.
        attempts = [call for call in earlier if call.job_id in (None, self.lease.row.pk)]
        pending = self._open(player, endpoint, prompt, request, turn, attempts)
        # Models answer after seconds or minutes, and a process has only a few database connections.
        release_connection()
        result = _send(connection, request)
        if not ledger.complete(pending, self.lease, result):
            raise Fenced
        if isinstance(result.outcome, Completion):
            return result.outcome
        raise self._after(result.outcome, [*attempts, pending.call])

    def _tries(self, player: Player, turn: int) -> list[ModelCall]:
        """Return all earlier calls of this turn, and mark those that a former holder of the row left under way as lost."""
        # Nothing was called in this phase before, so the query is spared.
        if self.lease.fresh and not self.spent and len(self.jobs) < 2:
            return []
        turns = ModelCall.objects.filter(number=self.number, role=self.role, speaker=player.name, turn=turn)
        calls = turns.filter(**self._subject())
        relevant = turns.filter(job_id__in=self.jobs) if self.jobs else calls
        # Bodies are large; only the one that is replayed is loaded, below.
        attempts = list(relevant.defer("request", "reply").order_by("pk"))
        if any(call.state == "started" for call in attempts):
            calls.filter(state="started", fence__lt=self.lease.fence).update(state="lost", ended_at=timezone.now())
        return attempts

    def _open(
        self,
        player: Player,
        endpoint: Endpoint,
        prompt: Prompt,
        request: WireRequest,
        turn: int,
        tries: list[ModelCall],
    ) -> Opened:
        """Check every condition for sending the request, and log the call, in one transaction."""
        gate, run = gates.name_of(endpoint), self.lease.row.run
        price, price_record = spending.recent_price(player.model, timezone.now().date())
        worst_case = pricing.worst_case(prompt, player.params.max_tokens, price)
        try:
            with transaction.atomic():
                if not self.lease.held():
                    raise Fenced
                admission = self._enter(gate, tries)  # before the run is locked: see the lock order in rate_limit
                ledger.reserve(run, worst_case)
                stored_request = shelf.put(request.body, prompt.system)
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
                    request=stored_request,
                    effective_params=dict(request.effective),
                    dropped_params=dict(request.dropped),
                    reserved_tokens=worst_case.tokens,
                    reserved_cost=worst_case.cost,
                    price=price_record,
                )
        except IntegrityError as error:
            # A former holder that was presumed dead has logged this attempt in between. Try again, with its call in view.
            raise Wait(settings.POLL_SECONDS, "no_slot") from error
        shelf.remember(stored_request)
        return Opened(call, admission.calm)

    def _enter(self, gate: str, tries: list[ModelCall]) -> gates.Answer:
        admission = gates.enter(gate)
        if admission.blocked:
            raise Held("credentials", admission.blocked)
        if admission.open:
            return admission
        failures = _in_a_row(tries, gate) if admission.reason == retrying.UNAVAILABLE else []
        if failures and _since(failures) >= pace.retry_policy().window:
            message = f"after {len(failures)} attempts, and no other call was answered either: {failures[-1].error}"
            raise GaveUp(retrying.UNAVAILABLE, message)
        raise Wait(admission.wait * _crowd(admission.reason), admission.reason)

    def _after(self, error: ProviderError, tries: list[ModelCall]) -> Exception:
        """Return the exception that follows a failed attempt: retry later, block the row, or fail it."""
        # Faults that do not pass with time are not retried, so only transient ones count towards the number of
        # attempts.
        transient = [call for call in tries if call.error_class in _PASSING] or [tries[-1]]
        in_a_row = _in_a_row(tries, tries[-1].gate) or [tries[-1]]
        policy = pace.retry_policy()
        reaction = retrying.reaction(
            error.error_class, len(transient), _since(in_a_row), error.retry_after, random(), policy
        )
        message = ledger.plain(str(error), 2000)
        match reaction:
            case retrying.Again():
                return Wait(reaction.seconds, reaction.reason, message)
            case retrying.Block():
                return Held(reaction.reason, message)
            case retrying.GiveUp():
                return GaveUp(reaction.reason, f"after {len(transient)} attempts: {message}")

    def _subject(self) -> dict[str, Any]:
        kind = {"twin": "twin", "rating": "job"}.get(self.role, "episode")
        return {f"{kind}_id": self.lease.row.pk}


def _send(line: Connection, request: WireRequest) -> Said:
    started = time.monotonic()
    try:
        outcome: Completion | ProviderError = line.send(request, settings.CALL_SECONDS)
    except ProviderError as error:
        outcome = error
    return Said(outcome, time.monotonic() - started)


def _again(call: ModelCall, endpoint: Endpoint) -> Completion:
    """Return a logged completion, parsed from the stored bytes exactly as at first."""
    return connections.read(endpoint, Reply(call.http_status or 0, call.reply_headers, bytes(call.reply or b"")))


def _in_a_row(tries: list[ModelCall], gate: str) -> list[ModelCall]:
    """Return the transient failures of this turn since any call through this limiter was answered."""
    answered = ModelCall.objects.filter(gate=gate, state="answered").order_by("-pk").values_list("ended_at", flat=True)
    last_answer = answered.first()
    failures = [call for call in tries if call.state == "failed" and call.error_class in _PASSING]
    # While other calls are answered, elapsed time does not show that the provider is unavailable.
    return [call for call in failures if last_answer is None or call.started_at > last_answer]


def _since(failed: list[ModelCall]) -> float:
    return (timezone.now() - failed[0].started_at).total_seconds()


def _crowd(reason: str) -> float:
    """Return how many times longer to wait for a slot, by the number of rows that wait for one."""
    if reason != "no_slot":
        return 1.0
    # Every attempt to get a slot costs a claim and a prompt, so a long queue must try less often.
    waiting = Episode.objects.filter(status="waiting", reason="no_slot").count()
    return min(10.0, 1.0 + waiting / settings.PROVIDER_CALLS_MAX)
