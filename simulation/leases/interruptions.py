"""Exceptions that end a unit before it has a result. The agent causes none of them."""

from simulation.lab.errors import LabError


class CallDone(Exception):  # noqa: N818  # not an error: the next unit continues from the call log
    """The unit's one new call was answered; further calls belong to the next unit."""


class LeaseLost(Exception):  # noqa: N818  # as above
    """Another worker took over the row. The late answer is stored in the call log and is not used."""


class RetryLater(Exception):  # noqa: N818  # as above
    """The call cannot be made now, or failed with a transient error."""

    def __init__(self, seconds: float, reason: str, error: str = "") -> None:
        super().__init__(error or reason)
        self.seconds, self.reason, self.error = seconds, reason, error


class Blocked(Exception):  # noqa: N818  # as above
    """A person must act before the call can be made: add a key, raise a budget, or change a request that was refused."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason, self.error = reason, error


class RetriesExhausted(LabError):  # noqa: N818  # as above
    """The call failed as often as the retry policy allows."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason
