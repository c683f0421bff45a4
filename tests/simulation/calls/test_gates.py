"""The rate limit per provider and key."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError
from django.utils import timezone

from simulation.calls import rate_limit, replay
from simulation.calls.rate_limit import Admission
from simulation.models import Job, ModelCall, ProviderGate
from simulation.providers import Endpoint, ErrorClass
from simulation.providers.base import ProviderRefused, ProviderUnavailable
from tests.support import run_factory
from tests.support.call_rows import create_call
from tests.support.steps import run_concurrently

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]
NAME = "openai:00000000"


@pytest.fixture(autouse=True)
def rules(settings: Any) -> Any:
    """Settings that make pauses measurable and counts small."""
    settings.PROVIDER_CALLS_START, settings.PROVIDER_CALLS_MAX = 4, 32
    settings.GATE_LOWER_SECONDS, settings.GATE_PAUSE_SECONDS, settings.GATE_PAUSE_MAX_SECONDS = 15, 1, 120
    settings.CIRCUIT_FAULTS, settings.CIRCUIT_PAUSE_SECONDS, settings.CIRCUIT_PAUSE_MAX_SECONDS = 5, 5, 300
    settings.SLOT_WAIT_SECONDS, settings.RETRY_AFTER_MAX_SECONDS = 2, 600
    return settings


def store_limiter(**fields: Any) -> ProviderGate:
    """Store the limiter with these fields, and return it."""
    return ProviderGate.objects.update_or_create(name=NAME, defaults={"limit": 4.0, **fields})[0]


def load_limiter() -> ProviderGate:
    return ProviderGate.objects.get(name=NAME)


def request_slot(name: str = NAME) -> Admission:
    with transaction.atomic():
        return rate_limit.request_slot(name)


def record_fault(error_class: ErrorClass, retry_after: float | None = None, text: str = "no") -> None:
    rate_limit.record_fault(NAME, ProviderUnavailable(error_class, text, retry_after))


def record_faults(times: int, error_class: ErrorClass = ErrorClass.SERVER) -> None:
    for _ in range(times):
        record_fault(error_class)


def seconds_closed() -> float:
    until = load_limiter().closed_until
    return (until - timezone.now()).total_seconds() if until else 0.0


def end_pause() -> None:
    """End the pause now."""
    ProviderGate.objects.filter(name=NAME).update(closed_until=timezone.now() - timedelta(milliseconds=1))


def test_limiter_name_has_provider_and_fingerprint_but_not_the_key() -> None:
    name = rate_limit.format_limiter_name(Endpoint("openai", "gpt", key="sk-very-secret"))
    assert name == "openai:" + hashlib.sha256(b"sk-very-secret").hexdigest()[:8]
    assert rate_limit.format_limiter_name(Endpoint("local", "llama")) == "local:e3b0c442"  # sha256 of nothing
    assert (
        len(rate_limit.format_limiter_name(Endpoint("local", "llama", key="\udcff"))) == 14
    )  # a byte that is not valid text


def test_limit_of_an_unused_key_starts_low() -> None:
    assert request_slot() == Admission(True)
    assert load_limiter().limit == 4.0


def test_limit_admits_as_many_calls_as_it_allows() -> None:
    store_limiter(limit=2.9)  # rounded down to two calls
    for _ in range(2):
        assert request_slot().is_open
        create_call(gate=NAME)
    full = request_slot()
    assert (full.is_open, full.reason) == (False, "no_slot")
    assert 1 <= full.wait_seconds <= 3  # half to one and a half times two seconds
    ModelCall.objects.filter(pk=ModelCall.objects.latest("pk").pk).update(state="answered")
    assert request_slot().is_open


def test_limit_does_not_count_lost_calls() -> None:
    store_limiter(limit=1.0)
    create_call(gate=NAME)
    assert not request_slot().is_open
    ModelCall.objects.update(state="lost")
    assert request_slot().is_open


def test_limit_does_not_count_calls_with_another_key() -> None:
    store_limiter(limit=1.0)
    create_call(gate="openai:ffffffff")
    assert request_slot().is_open


def test_limit_follows_a_lowered_setting_at_once(rules: Any) -> None:
    store_limiter(limit=32.0)
    rules.PROVIDER_CALLS_MAX = 1
    create_call(gate=NAME)
    assert request_slot().reason == "no_slot"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("busy", [0, rate_limit.MAX_CONNECTIONS - 1])
def test_limit_is_not_exceeded_by_concurrent_calls(rules: Any, busy: int) -> None:
    """The limiter does not exist yet: creating it is part of the race."""
    rules.PROVIDER_CALLS_START, rules.PROVIDER_CALLS_MAX = busy + 3, 200
    episode = run_factory.create_episode()
    for turn in range(busy):
        create_call(episode, gate=NAME, turn=100 + turn)

    def request_and_call(turn: int) -> bool:
        with transaction.atomic():
            answer = rate_limit.request_slot(NAME)
            if answer.is_open:
                create_call(episode, gate=NAME, turn=turn)
        return answer.is_open

    turns = iter(range(12))
    results = run_concurrently(lambda: request_and_call(next(turns)), 12)
    assert sorted(results) == [False] * 9 + [True] * 3
    assert ProviderGate.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_slot_request_outside_a_transaction_is_refused() -> None:
    with pytest.raises(TransactionManagementError, match="inside the transaction"):
        rate_limit.request_slot(NAME)


def test_limit_doubles_with_each_round_of_answers_up_to_the_maximum() -> None:
    store_limiter(limit=4.0)
    for answers, limit in ((4, 8), (8, 16), (16, 32), (5, 32)):
        for _ in range(answers):
            rate_limit.record_answer(NAME)
        assert load_limiter().limit == limit


def test_limit_that_was_lowered_gains_one_call_per_round() -> None:
    store_limiter(limit=10.0, lowered_at=timezone.now())
    for _ in range(10):
        rate_limit.record_answer(NAME)
    assert 10.9 < load_limiter().limit < 11  # 1/10 + 1/10.1 + ... + 1/10.9, a little less than one


@pytest.mark.parametrize("error_class", [ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED])
def test_limit_is_lowered_by_a_fifth_at_most_once_per_interval(error_class: ErrorClass) -> None:
    store_limiter(limit=4.0)
    record_fault(error_class)
    assert load_limiter().limit == pytest.approx(3.2)  # 0.8 x 4
    record_faults(3, error_class)  # the same burst
    assert load_limiter().limit == pytest.approx(3.2)
    ProviderGate.objects.update(lowered_at=timezone.now() - timedelta(seconds=16))
    record_fault(error_class)
    assert load_limiter().limit == pytest.approx(2.56)  # 0.8 x 3.2


def test_limit_never_falls_below_one_call() -> None:
    store_limiter(limit=1.1)
    record_fault(ErrorClass.RATE_LIMIT)
    assert load_limiter().limit == 1.0


@pytest.mark.parametrize(("busy", "limit"), [(0, 3.2), (10, 8.0), (40, 25.6)])
def test_limit_is_lowered_to_four_fifths_of_the_calls_under_way(busy: int, limit: float) -> None:
    # 0.8 x the most of four (the start) and those under way, but no more than the limit of 32
    store_limiter(limit=32.0)
    for _ in range(busy):
        create_call(gate=NAME)
    record_fault(ErrorClass.RATE_LIMIT)
    assert load_limiter().limit == pytest.approx(limit)


def test_limit_is_not_lowered_by_infrastructure_faults() -> None:
    store_limiter(limit=4.0)
    record_faults(9, ErrorClass.TIMEOUT)
    assert load_limiter().limit == 4.0


def test_limiter_closes_for_as_long_as_the_provider_requests() -> None:
    record_fault(ErrorClass.RATE_LIMIT, retry_after=20)
    answer = request_slot()
    assert (answer.is_open, answer.reason) == (False, "rate_limit")
    assert 19 < answer.wait_seconds <= 20
    record_fault(ErrorClass.RATE_LIMIT, retry_after=3)  # does not shorten it
    assert 19 < request_slot().wait_seconds <= 20
    record_fault(ErrorClass.RATE_LIMIT, retry_after=40)
    assert 39 < request_slot().wait_seconds <= 40
    assert request_slot("openai:ffffffff").is_open


def test_limiter_closes_for_at_most_ten_minutes() -> None:
    record_fault(ErrorClass.RATE_LIMIT, retry_after=4_233_600)
    assert 599 < request_slot().wait_seconds <= 600


def test_limiter_pauses_double_without_retry_after_until_an_answer() -> None:
    for pause in (1, 2, 4, 8):
        record_fault(ErrorClass.RATE_LIMIT)
        assert pause - 0.5 < seconds_closed() <= pause
        end_pause()
    rate_limit.record_answer(NAME)
    record_fault(ErrorClass.RATE_LIMIT)
    assert 0.5 < seconds_closed() <= 1


def test_limiter_counts_a_burst_of_429_as_one_fault() -> None:
    record_faults(20, ErrorClass.RATE_LIMIT)
    assert load_limiter().faults_running == 1
    assert seconds_closed() <= 1


PASSING = [ErrorClass.SERVER, ErrorClass.CONNECTION, ErrorClass.TIMEOUT, ErrorClass.GARBLED]


@pytest.mark.parametrize("error_class", PASSING)
def test_circuit_breaker_opens_after_five_faults_in_a_row(error_class: ErrorClass) -> None:
    record_faults(4, error_class)
    assert request_slot().is_open
    record_faults(1, error_class)
    answer = request_slot()
    assert (answer.is_open, answer.reason) == (False, "provider_unavailable")
    assert 4 < answer.wait_seconds <= 5


def test_circuit_breaker_is_reset_by_an_answer() -> None:
    for _ in range(3):
        record_faults(4)
        rate_limit.record_answer(NAME)
    assert request_slot().is_open


def test_circuit_breaker_is_reset_by_a_rejected_request() -> None:
    record_faults(4)
    rate_limit.record_fault(NAME, ProviderRefused(ErrorClass.BAD_REQUEST, "no such field"))
    record_faults(4)
    assert request_slot().is_open


def test_circuit_breaker_admits_one_probe_at_a_time_after_the_pause() -> None:
    record_faults(5)
    end_pause()
    assert request_slot().is_open
    probe = create_call(gate=NAME)
    waits = request_slot()
    assert (waits.is_open, waits.reason) == (False, "provider_unavailable")
    assert 1 <= waits.wait_seconds <= 3
    ModelCall.objects.filter(pk=probe.pk).update(state="answered")
    rate_limit.record_answer(NAME)
    assert request_slot().is_open
    create_call(gate=NAME)
    assert request_slot().is_open  # all may go again


def test_circuit_breaker_does_not_count_an_older_call_as_its_probe() -> None:
    create_call(gate=NAME)
    record_faults(5)
    end_pause()
    ModelCall.objects.update(started_at=timezone.now() - timedelta(minutes=2))
    assert request_slot().is_open


def test_circuit_breaker_pause_doubles_with_each_failed_probe_up_to_five_minutes() -> None:
    record_faults(5)
    for pause in (10, 20, 40, 80, 160, 300, 300):
        end_pause()
        record_fault(ErrorClass.CONNECTION)
        assert pause - 1 < seconds_closed() <= pause


def test_circuit_breaker_pause_is_not_extended_by_calls_that_fail_during_it() -> None:
    record_faults(30)
    assert load_limiter().faults_running == 5
    assert seconds_closed() <= 5


@pytest.mark.parametrize("error_class", [ErrorClass.CREDENTIALS, ErrorClass.CREDITS])
def test_rejected_key_blocks_the_limiter_until_it_is_reopened(error_class: ErrorClass) -> None:
    rate_limit.record_fault(NAME, ProviderRefused(error_class, "Incorrect API key provided: sk-very-secret"))
    answer = request_slot()
    assert not answer.is_open and answer.reason == "credentials"
    assert "OPENAI_API_KEY" in answer.block_message and NAME in answer.block_message
    assert "secret" not in answer.block_message  # the provider's message may repeat the key
    rate_limit.record_answer(NAME)  # one that was under way
    assert request_slot().block_message
    assert request_slot("openai:ffffffff").is_open
    assert rate_limit.reopen_limiter(NAME)
    assert request_slot().is_open


def test_reopening_a_limiter_ends_its_pause() -> None:
    record_faults(7)
    assert rate_limit.reopen_limiter(NAME)
    assert request_slot().is_open
    assert not rate_limit.reopen_limiter("nobody:12345678")


def test_slot_request_near_the_limit_costs_two_queries(django_assert_num_queries: Any) -> None:
    store_limiter(limit=32.0)
    with transaction.atomic(), django_assert_num_queries(2):
        assert rate_limit.request_slot(NAME).is_open


@pytest.mark.parametrize(("under_way", "queries"), [(0, 1), (9, 1), (10, 3), (49, 3)])
def test_slot_request_far_from_the_limit_takes_no_lock(
    rules: Any, under_way: int, queries: int, django_assert_num_queries: Any
) -> None:
    rules.PROVIDER_CALLS_MAX = 100
    store_limiter(limit=50.0)  # so up to nine under way, forty more could come at once
    for _ in range(under_way):
        create_call(gate=NAME)
    with transaction.atomic(), django_assert_num_queries(queries):
        assert rate_limit.request_slot(NAME).is_open


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"blocked": "no key"}, "credentials"),
        ({"closed_until": timezone.now() + timedelta(hours=1)}, "rate_limit"),
        ({"closed_until": timezone.now() + timedelta(hours=1), "faults_running": 5}, "provider_unavailable"),
    ],
)
def test_closed_limiter_admits_no_call_however_far_from_its_limit(
    rules: Any, fields: dict[str, Any], reason: str
) -> None:
    rules.PROVIDER_CALLS_MAX = 100
    store_limiter(limit=100.0, **fields)
    assert (request_slot().is_open, request_slot().reason) == (False, reason)


def test_circuit_breaker_admits_one_probe_however_far_from_the_limit(rules: Any) -> None:
    rules.PROVIDER_CALLS_MAX = 100
    store_limiter(limit=100.0, closed_until=timezone.now() - timedelta(seconds=1), faults_running=5)
    assert request_slot().is_open
    create_call(gate=NAME)
    assert not request_slot().is_open


def test_answer_without_faults_costs_one_query_and_writes_nothing(django_assert_num_queries: Any) -> None:
    store_limiter(limit=32.0, closed_until=timezone.now())
    before = ProviderGate.objects.values().get()
    with django_assert_num_queries(1):
        rate_limit.record_answer(NAME)
    assert ProviderGate.objects.values().get() == before


def test_waits_for_a_slot_lengthen_with_every_row_that_waits_for_one() -> None:
    episode = run_factory.create_episode(status="waiting")
    twin = run_factory.create_twin(run_factory.create_transition(run_factory.create_episode(replicate=2), 1), "subtle")
    job = Job.objects.create(kind="tested", key="1", status="waiting", reason="no_slot")
    assert replay.compute_wait_factor("no_slot") == 1 + 1 / 32
    for row in (episode, twin):
        type(row).objects.filter(pk=row.pk).update(status="waiting", reason="no_slot", error="")
    assert replay.compute_wait_factor("no_slot") == 1 + 3 / 32
    Job.objects.filter(pk=job.pk).update(reason="rate_limit")
    assert (replay.compute_wait_factor("no_slot"), replay.compute_wait_factor("rate_limit")) == (1 + 2 / 32, 1)
