"""How each action is carried out: the name in an action file's `handler` -> the function."""

from collections.abc import Callable

from simulation.offline.handlers import (
    blots,
    drying,
    imaging,
    liquids,
    measurements,
    plates,
    preparation,
    probes,
    separations,
    synthesis,
    thermal,
    viewing,
)
from simulation.offline.job import Job


def end(context: Job) -> None:
    """Submit and Quit change nothing; the environment ends the attempt."""
    context.how = "The attempt ends; nothing is touched."


HANDLERS: dict[str, Callable[[Job], None]] = {
    **liquids.HANDLERS,
    **separations.HANDLERS,
    **thermal.HANDLERS,
    **drying.HANDLERS,
    **synthesis.HANDLERS,
    **preparation.HANDLERS,
    **plates.HANDLERS,
    **measurements.HANDLERS,
    **probes.HANDLERS,
    **blots.HANDLERS,
    **imaging.HANDLERS,
    **viewing.HANDLERS,
    "end": end,
}
