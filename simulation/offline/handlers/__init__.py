"""The handlers: a map from the name in an action file's `handler` to the function that carries out the action."""

from collections.abc import Callable

from simulation.offline.action_context import ActionContext
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


def end_attempt(context: ActionContext) -> None:
    """Change nothing. Submit and Quit end the attempt in the environment."""
    context.reasoning = "The attempt ends; nothing is touched."


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
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
    "end": end_attempt,
}
