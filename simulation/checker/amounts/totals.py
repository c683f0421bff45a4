"""L02 over all materials together: no more liquid comes out than went in."""

from collections.abc import Iterable
from decimal import Decimal

from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.reading import families, units
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition

ZERO = Decimal(0)
_HANDLING = Decimal("0.02")  # of the total volume: film on the walls, evaporation
_GAIN = Decimal("0.01")  # of the total volume: rounding
_DROPLET = Decimal("0.5")  # µL; for totals so small that a share of them is nothing


def all_together(transition: Transition) -> Said:
    """Compare the liquid of all outputs with that of all limited inputs, unless an unlimited supply may have been added."""
    # A gel is cast from reagents that are not among the materials.
    outputs = [view for view in transition.kept if view.phase != "gel"]
    volumes_before, volumes_after = transition.held_before(), [view.held for view in outputs]
    if transition.family in (families.MAKE, families.CONTROL) or transition.action in families.ADDS_FROM_PARAMETERS:
        return
    # An unlimited supply adds an unknown volume.
    if any(view.unlimited and not view.supply for view in transition.inputs):
        return
    if not outputs or all(held in (None, ZERO) for held in volumes_after):
        return
    if any(held is None for held in volumes_before):
        yield undecided("L02", transition.action, "not every volume that went in is known")
        return
    total_in = sum((held for held in volumes_before if held is not None), ZERO)
    total_out = sum((held for held in volumes_after if held is not None), ZERO)
    yield Ran("L02", quantity=True)
    allowed = total_in * _GAIN + slacks([*transition.limited, *outputs]) + _DROPLET
    if total_out > total_in + allowed:
        yield error("L02", transition.action, f"at most {show(total_in)}", show(total_out),
                    f"{show(total_out)} came out, but only {show(total_in)} went in", "1 %")  # fmt: skip
    elif transition.family in (families.MOVE, families.COMBINE, families.SERIAL, families.ADD):
        yield from _lost(transition, total_in, total_out, volumes_after)


def _lost(transition: Transition, total_in: Decimal, total_out: Decimal, after: list[Decimal | None]) -> Said:
    """Pipetting loses almost nothing. A source that is not handed back may have been discarded; L18 checks that."""
    is_complete = all(held is not None for held in after)
    all_handed_back = (
        all(transition.after(v) is not None for v in transition.limited if v.held)
        or transition.family == families.COMBINE
    )
    # 5 µL for each vessel: what a pipette leaves behind.
    allowed = total_in * _HANDLING + slacks(transition.limited) + slacks(transition.kept) + 5 * len(after)
    if is_complete and all_handed_back and total_out < total_in - allowed:
        yield error("L02", transition.action, f"about {show(total_in)}", show(total_out),
                    f"{show(total_in - total_out)} of {show(total_in)} is missing afterwards", "2 %")  # fmt: skip


def slack(view: View) -> Decimal:
    """Return how far a written volume may be from the true one by rounding alone, in µL."""
    if view.volume is None:
        return ZERO
    # Capped at 0.5 %: "1 L" may be rounded from 1.4 L, which would hide every error.
    return min(view.volume.step, abs(view.volume.value) / 200)


def slacks(views: Iterable[View]) -> Decimal:
    return sum((slack(view) for view in views), ZERO)


def show(volume: Decimal) -> str:
    return units.show(volume, "volume")
