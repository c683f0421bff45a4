"""Run one unit of a leased row, and turn every fault into a state of the row. No other module does that."""

import logging
from collections.abc import Callable
from typing import Any

from django.conf import settings

from simulation.casts.casting import UnknownCastError
from simulation.lab.errors import ExperimentChanged, LabError
from simulation.leases import interruptions, leases
from simulation.leases.leases import Lease
from simulation.llm import NoUsableAnswer, Refusal, TooLong
from simulation.models import Job, Run

log = logging.getLogger("wetbench.units")
# Faults of a model or its provider. Each has a reason in the closed list simulation.models.REASONS.
FAULTS = (Refusal, NoUsableAnswer, TooLong, interruptions.GaveUp)


def played(lease: Lease[Any], play: Callable[[], bool]) -> bool:
    """Run a unit while its lease is renewed. Return True if its result is committed and the row may have more to do."""
    try:
        with lease.kept():
            return play()
    except interruptions.UnitSpent:
        return lease.commit(begun=True)
    except interruptions.Fenced:
        return False
    except interruptions.Wait as retry:
        lease.wait(retry.seconds, retry.reason, retry.error)
        return False
    except interruptions.Held as block:
        if block.reason == "budget" and _continued(lease.row.run):
            # The budget was raised after the call was refused and before this line: blocking the row now would
            # miss that.
            lease.wait(settings.POLL_SECONDS, block.reason)
        elif isinstance(lease.row, Job):
            # No page lists blocked jobs. A failed one can be requested again and continues where this one stopped.
            lease.finish("failed", reason=block.reason, error=block.error)
        else:
            lease.commit(status="blocked", begun=True, reason=block.reason, error=block.error)
        return False
    except leases.DATABASE_AWAY:
        lease.release()
        raise
    except LabError as error:
        log.warning(
            "%s failed: %s", lease.row.code, type(error).__name__
        )  # not the message: it may quote a model's reply
        return lease.finish("failed", reason=reason(error), error=f"{type(error).__name__}: {error}"[:4000])
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # A bug in this program must end the row with its name: otherwise the row would use up lease after lease.
        # BaseException, because a panic in a library written in Rust is not an Exception and would end the thread.
        log.exception("%s failed", lease.row.code)
        message = f"internal error: {type(error).__name__}: {error}".replace("\x00", "\ufffd")
        storable = message.encode(errors="backslashreplace").decode()  # unpaired surrogates are not valid UTF-8
        return lease.finish("failed", reason="internal", error=storable[:4000])


def _continued(run: Run) -> bool:
    """Return whether the run's limits differ from those under which the call was refused."""
    limits = ("max_cost", "max_tokens", "max_seconds")
    current = Run.objects.values_list(*limits).get(pk=run.pk)
    return bool(current != tuple(getattr(run, name) for name in limits))


def reason(error: Exception) -> str:
    """Return the fault's reason from the closed list `simulation.models.REASONS`."""
    match error:
        case Refusal():
            return "refused"
        case TooLong():
            return "context"
        case NoUsableAnswer(reason=said) | interruptions.GaveUp(reason=said) | interruptions.Held(reason=said):
            return str(said)
        case ExperimentChanged():
            return "experiment_changed"
        case UnknownCastError():
            return "internal"
    return "cannot_be"
