"""The settings that pace calls, read in this one place: how the limiter moves, and how long a turn is tried."""

from typing import NamedTuple

from django.conf import settings

from simulation.providers.retrying import Policy


class GateRules(NamedTuple):
    """How simulation.calls.gates rises, falls, closes and reopens. Seconds, but for the counts."""

    start: int  # calls at once with a key that was never used
    most: int
    lower_every: float  # the limit falls once in so long: one burst of 429 is one sign
    pause: float  # after a 429 or an overload without Retry-After, doubling with each
    pause_cap: float
    faults: int  # so many in a row open the circuit
    circuit_pause: float  # doubling with each further fault
    circuit_cap: float
    retry_after_cap: float
    slot_wait: float  # about how soon to ask again where all slots are taken


def gate_rules() -> GateRules:
    return GateRules(
        start=min(settings.PROVIDER_CALLS_START, settings.PROVIDER_CALLS_MAX),
        most=settings.PROVIDER_CALLS_MAX,
        lower_every=settings.GATE_LOWER_SECONDS,
        pause=settings.GATE_PAUSE_SECONDS,
        pause_cap=settings.GATE_PAUSE_MAX_SECONDS,
        faults=settings.CIRCUIT_FAULTS,
        circuit_pause=settings.CIRCUIT_PAUSE_SECONDS,
        circuit_cap=settings.CIRCUIT_PAUSE_MAX_SECONDS,
        retry_after_cap=settings.RETRY_AFTER_MAX_SECONDS,
        slot_wait=settings.SLOT_WAIT_SECONDS,
    )


def retry_policy() -> Policy:
    return Policy(
        base=settings.RETRY_SECONDS,
        cap=settings.RETRY_MAX_SECONDS,
        retry_after_cap=settings.RETRY_AFTER_MAX_SECONDS,
        attempts=settings.RETRY_ATTEMPTS,
        window=settings.RETRY_WINDOW_SECONDS,
    )
