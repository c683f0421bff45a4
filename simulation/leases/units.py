"""What becomes of a row when its unit does not go as it should. The only place where faults turn into states."""

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
# A model's or its provider's faults, each with a reason of the closed list.
FAULTS = (Refusal, NoUsableAnswer, TooLong, interruptions.GaveUp)


def played(lease: Lease[Any], play: Callable[[], bool]) -> bool:
    """Play a unit while the lease is kept. True if this worker's result stands and the row may have more to do."""
    try:
        with lease.kept():
            return play()
    except interruptions.UnitSpent:
        return lease.commit(begun=True)
    except interruptions.Fenced:
        return False
    except interruptions.Wait as wait:
        lease.wait(wait.seconds, wait.reason, wait.error)
        return False
    except interruptions.Held as held:
        if held.reason == "budget" and _continued(lease.row.run):
            lease.wait(settings.POLL_SECONDS, held.reason)  # somebody gave it a larger one in this very moment
        elif isinstance(
            lease.row, Job
        ):  # nobody would find a held one: asked for again, it goes on where this one stands
            lease.finish("failed", reason=held.reason, error=held.error)
        else:
            lease.commit(status="blocked", begun=True, reason=held.reason, error=held.error)
        return False
    except leases.DATABASE_AWAY:
        lease.release()
        raise
    except LabError as error:
        log.warning("%s failed: %s", lease.row.code, type(error).__name__)  # what it says may quote a reply
        return lease.finish("failed", reason=reason(error), error=f"{type(error).__name__}: {error}"[:4000])
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        # A bug of ours must end the row with its name, not spin through lease after lease. A panic in a library that is
        # written in Rust is no Exception, and would end this worker's thread for good.
        log.exception("%s failed", lease.row.code)
        told = f"internal error: {type(error).__name__}: {error}".replace("\x00", "\ufffd")
        storable = told.encode(errors="backslashreplace").decode()  # halves of surrogate pairs are no UTF-8
        return lease.finish("failed", reason="internal", error=storable[:4000])


def _continued(run: Run) -> bool:
    """Whether the run's limits are others by now than those under which the call was refused."""
    limits = ("max_cost", "max_tokens", "max_seconds")
    now = Run.objects.values_list(*limits).get(pk=run.pk)
    return bool(now != tuple(getattr(run, name) for name in limits))


def reason(error: Exception) -> str:
    """The fault's reason from the closed list of `simulation.models.REASONS`."""
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
