"""L02 over all materials together: what comes out is not more than what went in."""

from collections.abc import Iterable
from decimal import Decimal

from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.reading import families, units
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition

ZERO = Decimal(0)


_HANDLING = Decimal("0.02")  # of what is there


_GAIN = Decimal("0.01")


_DROPLET = Decimal("0.5")  # µL


def all_together(transition: Transition) -> Said:
    """All that is there afterwards is not more than all limited liquid that went in, unless a supply gave the rest."""
    outputs = [view for view in transition.kept if view.phase != "gel"]
    before, after = transition.held_before(), [view.held for view in outputs]
    if transition.family in (families.MAKE, families.CONTROL) or transition.action in families.ADDS_FROM_PARAMETERS:
        return
    if any(view.unlimited and not view.supply for view in transition.inputs):
        return
    if not outputs or all(held in (None, ZERO) for held in after):
        return
    if any(held is None for held in before):
        yield undecided("L02", transition.action, "not every volume that went in is known")
        return
    total_in = sum((held for held in before if held is not None), ZERO)
    total_out = sum((held for held in after if held is not None), ZERO)
    yield Ran("L02", quantity=True)
    allowed = total_in * _GAIN + slacks([*transition.limited, *outputs]) + _DROPLET
    if total_out > total_in + allowed:
        yield error("L02", transition.action, f"at most {show(total_in)}", show(total_out),
                    f"{show(total_out)} came out of {show(total_in)}", "1 %")  # fmt: skip
    elif transition.family in (families.MOVE, families.COMBINE, families.SERIAL, families.ADD):
        yield from _lost(transition, total_in, total_out, after)


def _lost(transition: Transition, total_in: Decimal, total_out: Decimal, after: list[Decimal | None]) -> Said:
    """Pipetting loses next to nothing; a source that is not handed back may have been thrown away, which L18 looks at."""
    complete = all(held is not None for held in after)
    handed_back = (
        all(transition.after(v) is not None for v in transition.limited if v.held)
        or transition.family == families.COMBINE
    )
    allowed = total_in * _HANDLING + slacks(transition.limited) + slacks(transition.kept) + 5 * len(after)
    if complete and handed_back and total_out < total_in - allowed:
        yield error("L02", transition.action, f"about {show(total_in)}", show(total_out),
                    f"{show(total_in - total_out)} of {show(total_in)} are nowhere afterwards", "2 %")  # fmt: skip


def slack(view: View) -> Decimal:
    """How far a written volume may be from the true one by rounding alone."""
    if view.volume is None:
        return ZERO
    return min(view.volume.step, abs(view.volume.value) / 200)


def slacks(views: Iterable[View]) -> Decimal:
    return sum((slack(view) for view in views), ZERO)


def show(volume: Decimal) -> str:
    return units.show(volume, "volume")
