"""Decide what follows a failed HTTP attempt: try again, give up, or wait for a person. No other layer retries."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from simulation.providers.base import ErrorClass

RATE_LIMIT, UNAVAILABLE = "rate_limit", "provider_unavailable"


class Retry(NamedTuple):
    """Send the same request again after this many seconds; `reason` is shown while the row waits."""

    seconds: float
    reason: str = UNAVAILABLE


class GiveUp(NamedTuple):
    """The unit ends without an answer, for this reason."""

    reason: str


class Block(NamedTuple):
    """Only a person can help: the row is blocked for this reason until somebody tries it again."""

    reason: str


Reaction = Retry | GiveUp | Block


class RetryPolicy(NamedTuple):
    """How long and how often one turn is tried, in seconds except `attempts`."""

    base: float = 2.0  # upper limit of the first wait; each further limit is twice the previous
    cap: float = 120.0
    retry_after_cap: float = 600.0  # the longest accepted Retry-After
    attempts: int = 10
    window: float = 1800.0  # since the first attempt; after that, no further attempt is made


POLICY: Final = RetryPolicy()
MAX_WAIT: Final = POLICY.retry_after_cap

# The consequence of each class of error: wait with a reason, or end. Every class must have an entry.
REACTIONS: Final[Mapping[ErrorClass, Reaction]] = {
    ErrorClass.RATE_LIMIT: Retry(0, RATE_LIMIT),
    ErrorClass.OVERLOADED: Retry(0, RATE_LIMIT),
    ErrorClass.SERVER: Retry(0),
    ErrorClass.CONNECTION: Retry(0),
    ErrorClass.TIMEOUT: Retry(0),
    ErrorClass.GARBLED: Retry(0),
    ErrorClass.CREDENTIALS: Block("credentials"),
    ErrorClass.CREDITS: Block("credentials"),
    ErrorClass.CONTEXT: GiveUp("context"),
    ErrorClass.BAD_REQUEST: Block("bad_request"),
}


def choose_reaction(
    error_class: ErrorClass,
    attempt: int,
    seconds_since_first: float,
    retry_after: float | None,
    jitter: float,
    policy: RetryPolicy = POLICY,
) -> Reaction:
    """Return what to do after the `attempt`-th attempt (from 1) of a turn failed; `jitter` is in [0, 1).

    The wait is a random part of a pause that doubles with each attempt (full jitter), and never shorter than the
    provider requested.
    """
    settled = REACTIONS[error_class]
    if not isinstance(settled, Retry):
        return settled
    if attempt >= policy.attempts or seconds_since_first >= policy.window:
        return GiveUp(UNAVAILABLE)
    backoff = jitter * double_capped(policy.base, attempt - 1, policy.cap)
    return Retry(max(backoff, requested_wait(retry_after, policy.retry_after_cap)), settled.reason)


def double_capped(base: float, times: int, cap: float) -> float:
    """Return `base` doubled this many times, at most `cap`."""
    return min(cap, base * 2.0 ** min(max(times, 0), 64))  # 64 doublings exceed every cap


def requested_wait(retry_after: float | None, cap: float) -> float:
    """Return the provider's Retry-After in seconds, at most `cap`; 0 if missing or invalid."""
    if retry_after is None or math.isnan(retry_after):
        return 0.0
    return min(max(retry_after, 0.0), cap)
