"""The handlers: a map from the name in an action file's `handler` to the function that carries out the action."""

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
    """Change nothing. Submit and Quit end the attempt in the environment."""
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
