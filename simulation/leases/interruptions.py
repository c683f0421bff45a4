"""How a unit can stop short of its result. None of these is the agent's doing."""

from simulation.lab.errors import LabError


class UnitSpent(Exception):  # noqa: N818  # not an error: the unit is over, the next one goes on
    """The unit's one call was made and answered; what follows is the next unit's."""


class Fenced(Exception):  # noqa: N818  # as above
    """Another worker has taken the row over: what came too late is kept in the ledger and used by nobody."""


class Wait(Exception):  # noqa: N818  # as above
    """The call cannot be made now, or failed in a way that passes."""

    def __init__(self, seconds: float, reason: str, error: str = "") -> None:
        super().__init__(error or reason)
        self.seconds, self.reason, self.error = seconds, reason, error


class Held(Exception):  # noqa: N818  # as above
    """Somebody must do something before the call can be made: a key, a budget, a request that is not accepted."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason, self.error = reason, error


class GaveUp(LabError):  # noqa: N818  # as above
    """The call was tried as often as is worth it."""

    def __init__(self, reason: str, error: str) -> None:
        super().__init__(error)
        self.reason = reason
