"""Who may call a provider now."""

import hashlib
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError
from django.utils import timezone

from simulation.calls import gates
from simulation.calls.gates import Answer
from simulation.models import ModelCall, ProviderGate
from simulation.providers import Endpoint, ErrorClass
from simulation.providers.base import ProviderRefused, ProviderUnavailable
from tests.support import run_factory
from tests.support.ledger import call
from tests.support.steps import race

pytestmark = [pytest.mark.both_databases, pytest.mark.django_db]
NAME = "openai:00000000"


@pytest.fixture(autouse=True)
def rules(settings: Any) -> Any:
    """Seconds long enough to be read off, counts small enough to be counted."""
    settings.PROVIDER_CALLS_START, settings.PROVIDER_CALLS_MAX = 4, 32
    settings.GATE_LOWER_SECONDS, settings.GATE_PAUSE_SECONDS, settings.GATE_PAUSE_MAX_SECONDS = 15, 1, 120
    settings.CIRCUIT_FAULTS, settings.CIRCUIT_PAUSE_SECONDS, settings.CIRCUIT_PAUSE_MAX_SECONDS = 5, 5, 300
    settings.SLOT_WAIT_SECONDS, settings.RETRY_AFTER_MAX_SECONDS = 2, 600
    return settings


def gate(**fields: Any) -> ProviderGate:
    """The gate with these fields; made where there is none."""
    return ProviderGate.objects.update_or_create(name=NAME, defaults={"limit": 4.0, **fields})[0]


def now() -> ProviderGate:
    return ProviderGate.objects.get(name=NAME)


def ask(name: str = NAME) -> Answer:
    with transaction.atomic():
        return gates.enter(name)


def fault(error_class: ErrorClass, retry_after: float | None = None, text: str = "no") -> None:
    gates.faulted(NAME, ProviderUnavailable(error_class, text, retry_after))


def fail(times: int, error_class: ErrorClass = ErrorClass.SERVER) -> None:
    for _ in range(times):
        fault(error_class)


def seconds_closed() -> float:
    until = now().closed_until
    return (until - timezone.now()).total_seconds() if until else 0.0


def pass_pause() -> None:
    """As if the pause had just ended."""
    ProviderGate.objects.filter(name=NAME).update(closed_until=timezone.now() - timedelta(milliseconds=1))


def test_a_gate_is_named_by_provider_and_fingerprint_and_never_by_the_key() -> None:
    name = gates.name_of(Endpoint("openai", "gpt", key="sk-very-secret"))
    assert name == "openai:" + hashlib.sha256(b"sk-very-secret").hexdigest()[:8]
    assert gates.name_of(Endpoint("local", "llama")) == "local:e3b0c442"  # sha256 of nothing
    assert len(gates.name_of(Endpoint("local", "llama", key="\udcff"))) == 14  # a byte that is no text


def test_a_key_that_was_never_used_starts_with_a_modest_limit() -> None:
    assert ask() == Answer(True)
    assert now().limit == 4.0


def test_as_many_calls_go_through_as_the_limit_allows() -> None:
    gate(limit=2.9)  # nine tenths of a call are none
    for _ in range(2):
        assert ask().open
        call(gate=NAME)
    full = ask()
    assert (full.open, full.reason) == (False, "no_slot")
    assert 1 <= full.wait <= 3  # half to one and a half times two seconds
    ModelCall.objects.filter(pk=ModelCall.objects.latest("pk").pk).update(state="answered")
    assert ask().open


def test_calls_that_were_lost_give_their_slots_back() -> None:
    gate(limit=1.0)
    call(gate=NAME)
    assert not ask().open
    ModelCall.objects.update(state="lost")
    assert ask().open


def test_calls_with_another_key_do_not_count() -> None:
    gate(limit=1.0)
    call(gate="openai:ffffffff")
    assert ask().open


def test_a_cap_that_was_lowered_holds_at_once(rules: Any) -> None:
    gate(limit=32.0)
    rules.PROVIDER_CALLS_MAX = 1
    call(gate=NAME)
    assert ask().reason == "no_slot"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("busy", [0, gates.AT_ONCE - 1])
def test_of_many_that_come_at_once_only_as_many_as_the_limit_get_in(rules: Any, busy: int) -> None:
    """The gate does not even exist yet: making it is part of the race."""
    rules.PROVIDER_CALLS_START, rules.PROVIDER_CALLS_MAX = busy + 3, 200
    episode = run_factory.episode()
    for turn in range(busy):
        call(episode, gate=NAME, turn=100 + turn)

    def come(turn: int) -> bool:
        with transaction.atomic():
            answer = gates.enter(NAME)
            if answer.open:
                call(episode, gate=NAME, turn=turn)
        return answer.open

    turns = iter(range(12))
    results = race(lambda: come(next(turns)), 12)
    assert sorted(results) == [False] * 9 + [True] * 3
    assert ProviderGate.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_whoever_would_not_keep_the_gate_locked_is_told() -> None:
    with pytest.raises(TransactionManagementError, match="inside the transaction"):
        gates.enter(NAME)


def test_the_limit_doubles_with_each_round_of_answers_up_to_the_cap() -> None:
    gate(limit=4.0)
    for answers, limit in ((4, 8), (8, 16), (16, 32), (5, 32)):
        for _ in range(answers):
            gates.answered(NAME)
        assert now().limit == limit


def test_a_limit_that_was_lowered_gains_one_call_a_round() -> None:
    gate(limit=10.0, lowered_at=timezone.now())
    for _ in range(10):
        gates.answered(NAME)
    assert 10.9 < now().limit < 11  # 1/10 + 1/10.1 + ... + 1/10.9, a little less than one


@pytest.mark.parametrize("error_class", [ErrorClass.RATE_LIMIT, ErrorClass.OVERLOADED])
def test_a_limited_answer_lowers_the_limit_by_a_fifth_once_in_a_while(error_class: ErrorClass) -> None:
    gate(limit=4.0)
    fault(error_class)
    assert now().limit == pytest.approx(3.2)  # 0.8 x 4
    fail(3, error_class)  # the same burst
    assert now().limit == pytest.approx(3.2)
    ProviderGate.objects.update(lowered_at=timezone.now() - timedelta(seconds=16))
    fault(error_class)
    assert now().limit == pytest.approx(2.56)  # 0.8 x 3.2


def test_the_limit_never_falls_below_one_call() -> None:
    gate(limit=1.1)
    fault(ErrorClass.RATE_LIMIT)
    assert now().limit == 1.0


@pytest.mark.parametrize(("busy", "limit"), [(0, 3.2), (10, 8.0), (40, 25.6)])
def test_a_limit_that_nobody_came_near_falls_from_what_is_in_use(busy: int, limit: float) -> None:
    # 0.8 x the most of four (the start) and those under way, but no more than the limit of 32
    gate(limit=32.0)
    for _ in range(busy):
        call(gate=NAME)
    fault(ErrorClass.RATE_LIMIT)
    assert now().limit == pytest.approx(limit)


def test_faults_of_the_infrastructure_do_not_lower_the_limit() -> None:
    gate(limit=4.0)
    fail(9, ErrorClass.TIMEOUT)
    assert now().limit == 4.0


def test_all_wait_as_long_as_the_provider_asks() -> None:
    fault(ErrorClass.RATE_LIMIT, retry_after=20)
    answer = ask()
    assert (answer.open, answer.reason) == (False, "rate_limit")
    assert 19 < answer.wait <= 20
    fault(ErrorClass.RATE_LIMIT, retry_after=3)  # does not shorten it
    assert 19 < ask().wait <= 20
    fault(ErrorClass.RATE_LIMIT, retry_after=40)
    assert 39 < ask().wait <= 40
    assert ask("openai:ffffffff").open


def test_a_provider_that_asks_for_weeks_is_asked_again_after_ten_minutes() -> None:
    fault(ErrorClass.RATE_LIMIT, retry_after=4_233_600)
    assert 599 < ask().wait <= 600


def test_without_a_time_to_come_back_the_pauses_double_until_an_answer_comes() -> None:
    for pause in (1, 2, 4, 8):
        fault(ErrorClass.RATE_LIMIT)
        assert pause - 0.5 < seconds_closed() <= pause
        pass_pause()
    gates.answered(NAME)
    fault(ErrorClass.RATE_LIMIT)
    assert 0.5 < seconds_closed() <= 1


def test_a_burst_of_limited_answers_is_one_fault() -> None:
    fail(20, ErrorClass.RATE_LIMIT)
    assert now().faults_running == 1
    assert seconds_closed() <= 1


PASSING = [ErrorClass.SERVER, ErrorClass.CONNECTION, ErrorClass.TIMEOUT, ErrorClass.GARBLED]


@pytest.mark.parametrize("error_class", PASSING)
def test_five_faults_in_a_row_close_the_gate(error_class: ErrorClass) -> None:
    fail(4, error_class)
    assert ask().open
    fail(1, error_class)
    answer = ask()
    assert (answer.open, answer.reason) == (False, "provider_unavailable")
    assert 4 < answer.wait <= 5


def test_an_answer_between_faults_keeps_the_gate_open() -> None:
    for _ in range(3):
        fail(4)
        gates.answered(NAME)
    assert ask().open


def test_even_a_refused_request_shows_that_the_provider_is_there() -> None:
    fail(4)
    gates.faulted(NAME, ProviderRefused(ErrorClass.BAD_REQUEST, "no such field"))
    fail(4)
    assert ask().open


def test_after_the_pause_one_probe_goes_at_a_time() -> None:
    fail(5)
    pass_pause()
    assert ask().open
    probe = call(gate=NAME)
    waits = ask()
    assert (waits.open, waits.reason) == (False, "provider_unavailable")
    assert 1 <= waits.wait <= 3
    ModelCall.objects.filter(pk=probe.pk).update(state="answered")
    gates.answered(NAME)
    assert ask().open
    call(gate=NAME)
    assert ask().open  # all may go again


def test_a_call_from_before_the_pause_is_no_probe() -> None:
    call(gate=NAME)
    fail(5)
    pass_pause()
    ModelCall.objects.update(started_at=timezone.now() - timedelta(minutes=2))
    assert ask().open


def test_each_probe_that_fails_doubles_the_pause_up_to_five_minutes() -> None:
    fail(5)
    for pause in (10, 20, 40, 80, 160, 300, 300):
        pass_pause()
        fault(ErrorClass.CONNECTION)
        assert pause - 1 < seconds_closed() <= pause


def test_calls_that_fail_while_the_gate_is_closed_do_not_prolong_the_pause() -> None:
    fail(30)
    assert now().faults_running == 5
    assert seconds_closed() <= 5


@pytest.mark.parametrize("error_class", [ErrorClass.CREDENTIALS, ErrorClass.CREDITS])
def test_a_key_that_is_not_accepted_blocks_until_somebody_reopens(error_class: ErrorClass) -> None:
    gates.faulted(NAME, ProviderRefused(error_class, "Incorrect API key provided: sk-very-secret"))
    answer = ask()
    assert not answer.open and answer.reason == "credentials"
    assert "OPENAI_API_KEY" in answer.blocked and NAME in answer.blocked
    assert "secret" not in answer.blocked  # what the provider says of a key may repeat it
    gates.answered(NAME)  # one that was under way
    assert ask().blocked
    assert ask("openai:ffffffff").open
    assert gates.reopen(NAME)
    assert ask().open


def test_reopening_ends_a_pause_too() -> None:
    fail(7)
    assert gates.reopen(NAME)
    assert ask().open
    assert not gates.reopen("nobody:12345678")


def test_near_its_limit_passing_the_gate_costs_two_queries(django_assert_num_queries: Any) -> None:
    gate(limit=32.0)
    with transaction.atomic(), django_assert_num_queries(2):
        assert gates.enter(NAME).open


@pytest.mark.parametrize(("under_way", "queries"), [(0, 1), (9, 1), (10, 3), (49, 3)])
def test_far_from_its_limit_a_gate_is_passed_without_a_lock(
    rules: Any, under_way: int, queries: int, django_assert_num_queries: Any
) -> None:
    rules.PROVIDER_CALLS_MAX = 100
    gate(limit=50.0)  # so up to nine under way, forty more could come at once
    for _ in range(under_way):
        call(gate=NAME)
    with transaction.atomic(), django_assert_num_queries(queries):
        assert gates.enter(NAME).open


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"blocked": "no key"}, "credentials"),
        ({"closed_until": timezone.now() + timedelta(hours=1)}, "rate_limit"),
        ({"closed_until": timezone.now() + timedelta(hours=1), "faults_running": 5}, "provider_unavailable"),
    ],
)
def test_a_closed_gate_is_closed_however_far_from_its_limit(rules: Any, fields: dict[str, Any], reason: str) -> None:
    rules.PROVIDER_CALLS_MAX = 100
    gate(limit=100.0, **fields)
    assert (ask().open, ask().reason) == (False, reason)


def test_after_a_pause_one_probe_goes_however_far_from_its_limit(rules: Any) -> None:
    rules.PROVIDER_CALLS_MAX = 100
    gate(limit=100.0, closed_until=timezone.now() - timedelta(seconds=1), faults_running=5)
    assert ask().open
    call(gate=NAME)
    assert not ask().open


def test_an_answer_costs_one_query_and_writes_nothing_while_all_is_well(django_assert_num_queries: Any) -> None:
    gate(limit=32.0, closed_until=timezone.now())
    before = ProviderGate.objects.values().get()
    with django_assert_num_queries(1):
        gates.answered(NAME)
    assert ProviderGate.objects.values().get() == before
