"""Run one unit of a leased row, and turn every fault into a state of the row. No other module does that."""

import logging
from collections.abc import Callable
from typing import Any

from django.conf import settings

from simulation.casts.casting import UnknownCastError
from simulation.lab.errors import ExperimentChanged, LabError
from simulation.leases import leases
from simulation.leases.leases import Lease
from simulation.llm import NoUsableAnswer, Refusal, TooLong
from simulation.models import Job, Run

log = logging.getLogger("wetbench.units")

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


# Faults of a model or its provider. Each has a reason in the closed list simulation.models.REASONS.
MODEL_FAULTS = (Refusal, NoUsableAnswer, TooLong, RetriesExhausted)


def run_unit(lease: Lease[Any], unit: Callable[[], bool]) -> bool:
    """Run a unit while its lease is renewed. Return True if its result is committed and the row may have more to do."""
    try:
        with lease.keep_renewed():
            return unit()
    except CallDone:
        return lease.commit_changes(begun=True)
    except LeaseLost:
        return False
    except RetryLater as retry:
        lease.schedule_retry(retry.seconds, retry.reason, retry.error)
        return False
    except Blocked as block:
        if block.reason == "budget" and _have_limits_changed(lease.row.run):
            # The budget was raised after the call was refused: blocking the row now would miss that.
            lease.schedule_retry(settings.POLL_SECONDS, block.reason)
        elif isinstance(lease.row, Job):
            # No page lists blocked jobs. A failed one can be requested again and continues where this one stopped.
            lease.finish_row("failed", reason=block.reason, error=block.error)
        else:
            lease.commit_changes(status="blocked", begun=True, reason=block.reason, error=block.error)
        return False
    except leases.DATABASE_UNAVAILABLE:
        lease.release_after_fault()
        raise
    except LabError as error:
        # not the message: it may quote a model's reply
        log.warning("%s failed: %s", lease.row.code, type(error).__name__)
        return lease.finish_row("failed", reason=classify_fault(error), error=f"{type(error).__name__}: {error}"[:4000])
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # A bug in this program must end the row: otherwise the row would use up lease after lease. BaseException,
        # because a panic in a library written in Rust is not an Exception and would end the thread.
        log.exception("%s failed", lease.row.code)
        message = f"internal error: {type(error).__name__}: {error}".replace("\x00", "\ufffd")
        storable = message.encode(errors="backslashreplace").decode()  # unpaired surrogates are not valid UTF-8
        return lease.finish_row("failed", reason="internal", error=storable[:4000])


def _have_limits_changed(run: Run) -> bool:
    """Return whether the run's limits differ from those under which the call was refused."""
    limits = ("max_cost", "max_tokens", "max_seconds")
    current = Run.objects.values_list(*limits).get(pk=run.pk)
    return bool(current != tuple(getattr(run, name) for name in limits))


def classify_fault(error: Exception) -> str:
    """Return the fault's reason from the closed list `simulation.models.REASONS`."""
    match error:
        case Refusal():
            return "refused"
        case TooLong():
            return "context"
        case NoUsableAnswer(reason=said) | RetriesExhausted(reason=said) | Blocked(reason=said):
            return str(said)
        case ExperimentChanged():
            return "experiment_changed"
        case UnknownCastError():
            return "internal"
    return "cannot_be"
