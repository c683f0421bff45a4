"""Reactions to a failed HTTP attempt."""

import math

import pytest

from simulation.providers import ErrorClass
from simulation.providers.errors import REACTIONS, Block, GiveUp, Retry, RetryPolicy, choose_reaction

ALMOST_ONE = 0.999999
TRANSIENT_ERRORS = [error for error, settled in REACTIONS.items() if isinstance(settled, Retry)]


def test_every_error_class_has_a_defined_reaction_such_as_retrying() -> None:
    assert set(REACTIONS) == set(ErrorClass)


@pytest.mark.parametrize(
    ("error", "what"),
    [
        (ErrorClass.CREDENTIALS, Block("credentials")),
        (ErrorClass.CREDITS, Block("credentials")),
        (ErrorClass.BAD_REQUEST, Block("bad_request")),
        (ErrorClass.CONTEXT, GiveUp("context")),
    ],
)
def test_permanent_error_is_not_retried(error: ErrorClass, what: Block | GiveUp) -> None:
    assert choose_reaction(error, 1, 0, None, 0.5) == what
    assert choose_reaction(error, 1, 0, 30, 0.5) == what  # even if the provider sends Retry-After


# full jitter over 2 s x 2^n: half of 2, 4, 8, ... and of the cap of 120 s from the seventh on (2 x 2^6 = 128)
@pytest.mark.parametrize(("attempt", "wait"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 32), (7, 60), (9, 60)])
def test_retry_wait_doubles_up_to_two_minutes(attempt: int, wait: float) -> None:
    assert choose_reaction(ErrorClass.SERVER, attempt, 0, None, 0.5) == Retry(wait, "provider_unavailable")


@pytest.mark.parametrize("error", TRANSIENT_ERRORS)
def test_retry_wait_is_drawn_between_zero_and_the_full_pause(error: ErrorClass) -> None:
    least, most = choose_reaction(error, 3, 0, None, 0.0), choose_reaction(error, 3, 0, None, ALMOST_ONE)
    assert isinstance(least, Retry) and isinstance(most, Retry)
    assert least.seconds == 0 and 7.9 < most.seconds < 8


def test_retry_wait_is_never_shorter_than_retry_after() -> None:
    assert choose_reaction(ErrorClass.RATE_LIMIT, 1, 0, 20, 0.5) == Retry(20, "rate_limit")
    assert choose_reaction(ErrorClass.RATE_LIMIT, 6, 0, 20, 0.5) == Retry(32, "rate_limit")  # 2 x 2^5 / 2


def test_retry_after_of_49_days_is_capped_at_ten_minutes() -> None:
    assert choose_reaction(ErrorClass.OVERLOADED, 1, 0, 49 * 86400, 0.5) == Retry(600, "rate_limit")


@pytest.mark.parametrize("nonsense", [-5.0, math.nan, -math.inf])
def test_invalid_retry_after_is_ignored(nonsense: float) -> None:
    assert choose_reaction(ErrorClass.RATE_LIMIT, 1, 0, nonsense, 0.5) == Retry(1, "rate_limit")


def test_infinite_retry_after_is_capped() -> None:
    assert choose_reaction(ErrorClass.RATE_LIMIT, 1, 0, math.inf, 0.5) == Retry(600, "rate_limit")


@pytest.mark.parametrize("error", TRANSIENT_ERRORS)
def test_retrying_stops_after_the_tenth_attempt(error: ErrorClass) -> None:
    assert isinstance(choose_reaction(error, 9, 0, None, 0.5), Retry)
    assert choose_reaction(error, 10, 0, 1, 0.5) == GiveUp("provider_unavailable")
    assert choose_reaction(error, 10**9, 0, None, 0.5) == GiveUp("provider_unavailable")


@pytest.mark.parametrize("error", TRANSIENT_ERRORS)
def test_retrying_stops_after_half_an_hour(error: ErrorClass) -> None:
    assert isinstance(choose_reaction(error, 2, 1799, None, 0.5), Retry)
    assert choose_reaction(error, 2, 1800, None, 0.5) == GiveUp("provider_unavailable")


def test_custom_retry_policy_sets_its_own_waits_and_limits() -> None:
    quick = RetryPolicy(base=0.1, cap=0.4, retry_after_cap=5, attempts=3, window=9)
    assert choose_reaction(ErrorClass.SERVER, 2, 0, None, 0.5, quick) == Retry(
        0.1, "provider_unavailable"
    )  # 0.1 x 2 / 2
    assert choose_reaction(ErrorClass.SERVER, 2, 0, 60, 0.5, quick) == Retry(5, "provider_unavailable")
    assert choose_reaction(ErrorClass.SERVER, 3, 0, None, 0.5, quick) == GiveUp("provider_unavailable")
    assert choose_reaction(ErrorClass.SERVER, 2, 9, None, 0.5, quick) == GiveUp("provider_unavailable")
