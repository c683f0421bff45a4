"""The settings of the rate limiter and of retries, read in this one place."""

from typing import NamedTuple

from django.conf import settings

from simulation.providers.retry_policy import RetryPolicy


class LimiterRules(NamedTuple):
    """How simulation.calls.rate_limit raises, lowers, closes and reopens a limit. Times are in seconds."""

    start_calls: int  # the limit of a key that was never used
    max_calls: int
    lower_every: float  # at least this long between two cuts: a burst of 429 is one signal
    pause: float  # after a 429 or an overload without Retry-After; doubles each time
    pause_cap: float
    faults_to_trip: int  # consecutive faults after which the circuit breaker opens
    circuit_pause: float  # doubles with each further fault
    circuit_cap: float
    retry_after_cap: float
    slot_wait: float  # wait before the next try if all slots are taken; jitter is added


def get_limiter_rules() -> LimiterRules:
    return LimiterRules(
        start_calls=min(settings.PROVIDER_CALLS_START, settings.PROVIDER_CALLS_MAX),
        max_calls=settings.PROVIDER_CALLS_MAX,
        lower_every=settings.GATE_LOWER_SECONDS,
        pause=settings.GATE_PAUSE_SECONDS,
        pause_cap=settings.GATE_PAUSE_MAX_SECONDS,
        faults_to_trip=settings.CIRCUIT_FAULTS,
        circuit_pause=settings.CIRCUIT_PAUSE_SECONDS,
        circuit_cap=settings.CIRCUIT_PAUSE_MAX_SECONDS,
        retry_after_cap=settings.RETRY_AFTER_MAX_SECONDS,
        slot_wait=settings.SLOT_WAIT_SECONDS,
    )


def get_retry_policy() -> RetryPolicy:
    return RetryPolicy(
        base=settings.RETRY_SECONDS,
        cap=settings.RETRY_MAX_SECONDS,
        retry_after_cap=settings.RETRY_AFTER_MAX_SECONDS,
        attempts=settings.RETRY_ATTEMPTS,
        window=settings.RETRY_WINDOW_SECONDS,
    )
