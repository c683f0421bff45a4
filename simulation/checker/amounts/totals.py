"""L02 over all materials together: no more liquid comes out than went in."""

from collections.abc import Iterable
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding
from simulation.checker.reading import families, units
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition

ZERO = Decimal(0)
_HANDLING = Decimal("0.02")  # share of the total volume: film on the walls, evaporation
_GAIN = Decimal("0.01")  # share of the total volume: rounding
_DROPLET = Decimal("0.5")  # µL; for totals so small that a relative tolerance is too strict


def check_total_volume(transition: Transition) -> Findings:
    """Compare the total volume of the outputs with that of the inputs, unless an unknown volume may have been added."""
    # A gel is cast from reagents that are not among the materials.
    outputs = [view for view in transition.usable_outputs if view.phase != "gel"]
    volumes_before, volumes_after = transition.list_input_volumes(), [view.liquid_volume for view in outputs]
    if transition.family in (families.MAKE, families.CONTROL) or transition.action in families.ADDS_FROM_PARAMETERS:
        return
    # An unlimited supply adds an unknown volume.
    if any(view.is_unlimited and not view.is_empty_vessel for view in transition.inputs):
        return
    if not outputs or all(held in (None, ZERO) for held in volumes_after):
        return
    if any(held is None for held in volumes_before):
        yield undecided_finding("L02", transition.action, "not every volume that went in is known")
        return
    total_in = sum((held for held in volumes_before if held is not None), ZERO)
    total_out = sum((held for held in volumes_after if held is not None), ZERO)
    yield Decided("L02", quantity=True)
    allowed = total_in * _GAIN + total_rounding_slack([*transition.limited_inputs, *outputs]) + _DROPLET
    if total_out > total_in + allowed:
        yield error_finding("L02", transition.action, f"at most {format_volume(total_in)}", format_volume(total_out),
                    f"{format_volume(total_out)} came out, but only {format_volume(total_in)} went in", "1 %")  # fmt: skip
    elif transition.family in (families.MOVE, families.COMBINE, families.SERIAL, families.ADD):
        yield from _check_lost_volume(transition, total_in, total_out, volumes_after)


def _check_lost_volume(
    transition: Transition, total_in: Decimal, total_out: Decimal, volumes_after: list[Decimal | None]
) -> Findings:
    """Yield an error if volume is missing after pipetting. A source that is not handed back is left to check L18."""
    is_complete = all(held is not None for held in volumes_after)
    all_handed_back = (
        all(transition.find_output(v) is not None for v in transition.limited_inputs if v.liquid_volume)
        or transition.family == families.COMBINE
    )
    # 5 µL for each vessel: what a pipette leaves behind.
    allowed = (
        total_in * _HANDLING
        + total_rounding_slack(transition.limited_inputs)
        + total_rounding_slack(transition.usable_outputs)
        + 5 * len(volumes_after)
    )
    if is_complete and all_handed_back and total_out < total_in - allowed:
        yield error_finding("L02", transition.action, f"about {format_volume(total_in)}", format_volume(total_out),
                    f"{format_volume(total_in - total_out)} of {format_volume(total_in)} is missing afterwards", "2 %")  # fmt: skip


def rounding_slack(view: MaterialView) -> Decimal:
    """Return the largest difference in µL between a written volume and the true one that rounding may explain."""
    if view.volume is None:
        return ZERO
    # Capped at 0.5 %: "1 L" may be rounded from 1.4 L, which would hide every error.
    return min(view.volume.step, abs(view.volume.value) / 200)


def total_rounding_slack(views: Iterable[MaterialView]) -> Decimal:
    return sum((rounding_slack(view) for view in views), ZERO)


def format_volume(volume: Decimal) -> str:
    return units.format_value(volume, "volume")
