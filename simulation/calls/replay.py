"""Replay the model calls of a unit, and send at most one new call.

A role calls its model as if every call were new. Calls that were answered before are returned from the call log. The
first unanswered call is sent. A second new call ends the unit. So a unit costs at most one call, and no call is paid
for twice.
"""

import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import random
from typing import Any, NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from simulation import leases
from simulation.calls import call_log, rate_limit, run_usage
from simulation.calls.call_log import CallResult
from simulation.casts import RoleConfig, RunConfig, pricing, run_config
from simulation.leases import Blocked, CallDone, Lease, LeaseLost, RetriesExhausted, RetryLater
from simulation.models import ModelCall
from simulation.providers import (
    CompletionFunction,
    Endpoint,
    ErrorClass,
    Prompt,
    ProviderError,
    connections,
    errors,
    wire,
)
from simulation.providers.base import Completion, Connection, Reply, WireRequest
from simulation.providers.connections import MissingKey
from wetbench_site.database import release_connection
from wetbench_site.prepared_queries import insert_row

_TRANSIENT_ERRORS = {str(kind) for kind, follows in errors.REACTIONS.items() if isinstance(follows, errors.Retry)}
_TRANSIENT_ERRORS -= {str(ErrorClass.ABANDONED)}  # not a failure of the provider


class ModelConnection(NamedTuple):
    """A model's endpoint and the connection that sends to it."""

    endpoint: Endpoint
    connection: Connection


# The fields of the schema in the requests of both APIs, and how their error messages name it.
_SCHEMA_WORDS = re.compile(
    r"response_format|json_schema|output_config|output_format|structured output|\bschema\b", re.IGNORECASE
)
# Why a model's provider rejects schemas, by run and model: so that a worker process has one request rejected, and not every one.
_schema_refusals: dict[tuple[int, str], str] = {}
_MAX_SCHEMA_REFUSALS = 1000
_SUBJECT_OF_ROLE = {"twin": "twin", "rating": "job", "code": "code_episode", "helper": "code_episode"}

Connector = Callable[[RunConfig, RoleConfig], ModelConnection]


def connect(setup: RunConfig, player: RoleConfig) -> ModelConnection:
    """Return a connection to the model of `player`, with the key from this process's environment, or raise MissingKey."""
    # A run that was created for the scripted server must not reach, and pay, a real provider.
    if setup.scripted and not run_config.uses_scripted_server(setup.models[player.model]["provider"]):
        raise MissingKey(run_config.SCRIPTED_ALONE)
    endpoint = setup.make_endpoint(player)
    return ModelConnection(endpoint, connections.open_connection(endpoint))


@dataclass
class CallReplayer:
    """The model calls of one unit of one leased row."""

    lease: Lease[Any]
    setup: RunConfig
    role: str
    number: int
    connector: Connector
    has_called: bool = False
    job_ids: tuple[int, ...] = ()  # for ratings: this job and those that it continues, whose answers are replayed

    def create_speaker(self, player: RoleConfig) -> CompletionFunction:
        """Return a function that completes prompts with this player's model. Its n-th call is the n-th turn in the unit."""
        turns = itertools.count()
        return lambda prompt: self._complete_prompt(player, prompt, next(turns))

    def _complete_prompt(self, player: RoleConfig, prompt: Prompt, turn: int) -> Completion:
        """Return the logged completion of this turn, or send the prompt. Raises CallDone after the unit's one new call."""
        try:
            endpoint, connection = self.connector(self.setup, player)
        except MissingKey as error:
            raise Blocked("credentials", str(error)) from error
        request = connection.prepare_request(prompt, player.params)
        earlier = self._find_attempts(player, turn)
        if wire.REPLY_FORMAT in request.effective and (reason := self._find_schema_refusal(player, earlier)):
            request = connection.prepare_request(prompt.without_schema(reason), player.params)
        for call in earlier:
            # The hash of the whole request: an answer to another prompt or with other parameters must not be replayed.
            if call.state in call_log.ANSWERED_STATES and call.request_sha256 == request.sha256:
                reply = Reply(call.http_status or 0, call.reply_headers, bytes(call.reply or b""))
                return connections.parse_reply(endpoint, reply)  # in the same way as a new reply
        if self.has_called:
            raise CallDone
        self.has_called = True
        # Failures of an earlier job, while the provider was unavailable, do not count against the job that continues it.
        attempts = [call for call in earlier if call.job_id in (None, self.lease.row.pk)]
        call, at_maximum = self._log_call_start(player, endpoint, prompt, request, turn, attempts)
        from simulation.providers import transport  # loads the HTTP libraries, which most processes never need

        # Models answer after seconds or minutes, and a process has only a few database connections.
        release_connection()
        started = time.monotonic()
        try:
            # A person who stops a run must not wait for a model, which may take minutes, or pay for all that it writes.
            with transport.make_abandonable() as handle, self.lease.watch_for_stop(handle.abandon):
                outcome: Completion | ProviderError = connection.send_request(request, settings.CALL_SECONDS)
        except ProviderError as error:
            outcome = error
        if not call_log.log_call_end(call, self.lease, CallResult(outcome, time.monotonic() - started, at_maximum)):
            raise LeaseLost
        if isinstance(outcome, Completion):
            return outcome
        if outcome.error_class is ErrorClass.ABANDONED:
            # The next unit ends the row, or sends the prompt again if the stop was withdrawn.
            raise CallDone
        if _is_schema_refusal(outcome, request):
            # Providers do not charge for a request that they reject. The next unit sends the same prompt without the schema.
            self._store_schema_refusal(player, outcome)
            raise CallDone
        raise self._choose_reaction(outcome, [*attempts, call])

    def _find_schema_refusal(self, player: RoleConfig, earlier: list[ModelCall]) -> str:
        """Return why this model's provider rejects the JSON schema of a reply, or "" if it has not rejected any in this run."""
        known = _schema_refusals.get((self.lease.row.run.pk, player.model), "")
        # The call log knows what another worker, or this one before a restart, has learned at this turn.
        logged = (
            call.dropped_params.get(wire.REPLY_FORMAT)
            or (call.error if _names_schema(call.error) and call.error_class == ErrorClass.BAD_REQUEST else "")
            for call in earlier
        )
        return known or next(filter(None, logged), "")

    def _store_schema_refusal(self, player: RoleConfig, error: ProviderError) -> None:
        if len(_schema_refusals) >= _MAX_SCHEMA_REFUSALS:
            _schema_refusals.clear()
        _schema_refusals[self.lease.row.run.pk, player.model] = call_log.clean_text(str(error), 300)

    def _find_attempts(self, player: RoleConfig, turn: int) -> list[ModelCall]:
        """Return all earlier calls of this turn. Mark those that a former holder of the row left under way as lost."""
        # No model was called in this phase before, so no query is needed.
        if self.lease.is_first_unit and not self.has_called and len(self.job_ids) < 2:
            return []
        turns = ModelCall.objects.filter(number=self.number, role=self.role, speaker=player.name, turn=turn)
        calls = turns.filter(**self._subject_filter())
        relevant = turns.filter(job_id__in=self.job_ids) if self.job_ids else calls
        # Bodies are large. Only the reply that is replayed is loaded.
        attempts = list(relevant.defer("request", "reply").order_by("pk"))
        if any(call.state == "started" for call in attempts):
            calls.filter(state="started", fence__lt=self.lease.fence).update(state="lost", ended_at=timezone.now())
        return attempts

    def _log_call_start(
        self,
        player: RoleConfig,
        endpoint: Endpoint,
        prompt: Prompt,
        request: WireRequest,
        turn: int,
        attempts: list[ModelCall],
    ) -> tuple[ModelCall, bool]:
        """Log the call if it may be sent. Return it, and whether the limiter is at its maximum."""
        gate, run = rate_limit.format_limiter_name(endpoint), self.lease.row.run
        price, price_record = run_usage.get_cached_price(player.model, timezone.now().date())
        worst_case = pricing.compute_max_usage(
            prompt, player.params.max_tokens, price, sends_schema=wire.REPLY_FORMAT in request.effective
        )
        call = ModelCall(
            **self._subject_filter(),
            run_id=run.pk,
            role=self.role,
            speaker=player.name,
            purpose=prompt.purpose,
            number=self.number,
            turn=turn,
            attempt=len(attempts) + 1,
            fence=self.lease.fence,
            gate=gate,
            model_name=player.model,
            provider=endpoint.provider,
            requested_model=endpoint.model_id,
            prompt_set=prompt.prompt_set,
            request_sha256=request.sha256,
            request=call_log.deduplicate_text(request.body, request.system),
            effective_params=dict(request.effective),
            dropped_params=dict(request.dropped),
            reserved_tokens=worst_case.tokens,
            reserved_cost=worst_case.cost,
            price=price_record,
        )
        try:
            admission = self._store_alone(call, worst_case) or self._store_in_transaction(call, worst_case, attempts)
        except IntegrityError as error:
            # A former holder of the row, presumed dead, has logged this attempt. The next try finds its call.
            raise RetryLater(settings.POLL_SECONDS, "no_slot") from error
        return call, admission.is_at_maximum

    def _store_alone(self, call: ModelCall, worst_case: pricing.MaxUsage) -> rate_limit.Admission | None:
        """Store the call in one statement, the usual case. Return None if something has to be locked or reserved with it."""
        if self.lease.row.run.has_usage_limit:
            return None
        if not self.lease.is_held():
            raise LeaseLost
        call_log.reserve_budget(self.lease.row.run, worst_case)
        return rate_limit.store_if_admitted(call)

    def _store_in_transaction(
        self, call: ModelCall, worst_case: pricing.MaxUsage, attempts: list[ModelCall]
    ) -> rate_limit.Admission:
        with transaction.atomic():
            if not self.lease.is_held():
                raise LeaseLost
            # before the run is locked: see the lock order in rate_limit
            admission = self._request_slot(call.gate, attempts)
            call_log.reserve_budget(self.lease.row.run, worst_case)
            insert_row(call)
        return admission

    def _request_slot(self, gate: str, attempts: list[ModelCall]) -> rate_limit.Admission:
        admission = rate_limit.request_slot(gate)
        if admission.block_message:
            raise Blocked("credentials", admission.block_message)
        if admission.is_open:
            return admission
        failures = _list_recent_failures(attempts, gate) if admission.reason == errors.UNAVAILABLE else []
        if failures and _seconds_since_first(failures) >= rate_limit.get_retry_policy().window:
            message = f"after {len(failures)} attempts, and no other call was answered either: {failures[-1].error}"
            raise RetriesExhausted(errors.UNAVAILABLE, message)
        raise RetryLater(admission.wait_seconds * compute_wait_factor(admission.reason), admission.reason)

    def _choose_reaction(self, error: ProviderError, attempts: list[ModelCall]) -> Exception:
        """Return the exception to raise after a failed attempt: RetryLater, Blocked or RetriesExhausted."""
        # Faults that do not pass with time are not retried, so only transient ones count as attempts.
        transient = [call for call in attempts if call.error_class in _TRANSIENT_ERRORS] or [attempts[-1]]
        in_a_row = _list_recent_failures(attempts, attempts[-1].gate) or [attempts[-1]]
        policy = rate_limit.get_retry_policy()
        reaction = errors.choose_reaction(
            error.error_class, len(transient), _seconds_since_first(in_a_row), error.retry_after, random(), policy
        )
        message = call_log.clean_text(str(error), 2000)
        match reaction:
            case errors.Retry():
                return RetryLater(reaction.seconds, reaction.reason, message)
            case errors.Block():
                return Blocked(reaction.reason, message)
            case errors.GiveUp():
                return RetriesExhausted(reaction.reason, f"after {len(transient)} attempts: {message}")

    def _subject_filter(self) -> dict[str, Any]:
        return {f"{_SUBJECT_OF_ROLE.get(self.role, 'episode')}_id": self.lease.row.pk}


def _is_schema_refusal(error: ProviderError, request: WireRequest) -> bool:
    """Return whether a provider rejected a request because of the JSON schema in it."""
    has_schema = wire.REPLY_FORMAT in request.effective
    return has_schema and error.error_class is ErrorClass.BAD_REQUEST and _names_schema(str(error))


def _names_schema(message: str) -> bool:
    return _SCHEMA_WORDS.search(message) is not None


def _list_recent_failures(attempts: list[ModelCall], gate: str) -> list[ModelCall]:
    """Return this turn's transient failures since the last call through this limiter that was answered."""
    answered = ModelCall.objects.filter(gate=gate, state="answered").order_by("-pk").values_list("ended_at", flat=True)
    last_answer = answered.first()
    failures = [call for call in attempts if call.state == "failed" and call.error_class in _TRANSIENT_ERRORS]
    # While other calls are answered, elapsed time does not show that the provider is unavailable.
    return [call for call in failures if last_answer is None or call.started_at > last_answer]


def _seconds_since_first(failures: list[ModelCall]) -> float:
    return (timezone.now() - failures[0].started_at).total_seconds()


def compute_wait_factor(reason: str) -> float:
    """Return the factor by which to lengthen a wait. It rises with the number of rows that wait for a slot."""
    if reason != "no_slot":
        return 1.0
    # Every attempt to get a slot costs a claim and a prompt, so a long queue must try less often.
    rows = [model.objects.filter(status="waiting", reason="no_slot") for model in leases.LEASED_MODELS]
    return min(10.0, 1.0 + sum(queryset.count() for queryset in rows) / settings.PROVIDER_CALLS_MAX)
