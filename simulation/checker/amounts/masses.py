"""L04 and L07 for what is weighed: solids are neither made nor lost by moving, standing or being looked at."""

from decimal import Decimal

from simulation.checker.findings import Finding, Ran, Said, error
from simulation.checker.reading import families, roles, units, words
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed

_FED = (families.ADD, families.COMBINE, families.SERIAL, families.MAKE, families.CONTROL, families.UNKNOWN)
_DRY = ("solid", "pellet", "")
_DRYING = ("Lyophilize", "Evaporate", "DryingOven", "Desiccate")
_STATES = listed("stock clear diluted pure")
# These leave a residue of their own.
_SALTY = listed("buffer pbs saline medium media tris hepes salt lysate extract dmem rpmi broth lb glycerol dmso matrix "
                "sucrose trehalose residue part")  # fmt: skip
_GAIN, _LOSS = Decimal("1.02"), Decimal("0.95")


def solids(transition: Transition) -> Said:
    """L04: mass by mass, and all of them together."""
    if not transition.success or transition.family in _FED:
        return
    if transition.family == families.MOVE:
        yield from _moved(transition)
        return
    for before, after in transition.pairs():
        if transition.action in _DRYING:
            yield from _dried(before, after)
        if before.mass is None or after.mass is None or before.unlimited or after.gone:
            continue
        yield Ran("L04", quantity=True)
        had, has = before.mass, after.mass
        if has.value > had.value * _GAIN + has.step / 10 and transition.action not in ("CellCultureIncubate", "Wash"):
            yield _wrong(after, had.value, has.value, "nothing was added to it")
        elif has.value < had.value * _LOSS - has.step and transition.family in (families.INERT, families.READ):
            yield _wrong(after, had.value, has.value, "nothing was taken off it")


def _dried(before: View, after: View) -> Said:
    """What was the only thing in solution weighs afterwards what was dissolved of it."""
    if len(before.concentrations) != 1 or before.held is None or after.mass is None or after.gone:
        return
    component, amount = next(iter(before.concentrations.items()))
    other = words.content(before.name) - set(component.split()) - _STATES
    if amount.dimension != "mass_concentration" or not component or other or before.mentions & _SALTY:
        return
    yield Ran("L04", quantity=True)
    dissolved = amount.value * before.held / 1000
    if not dissolved * Decimal("0.7") <= after.mass.value <= dissolved * Decimal("1.4"):
        yield _wrong(after, dissolved, after.mass.value, "this much was dissolved")


def _moved(transition: Transition) -> Said:
    """A weighed portion is missing where it came from and there where it went."""
    asked = [amount for _, amount in transition.parameters.amounts("mass")]
    source = roles.source_of(transition)
    if source is None or source.unlimited or source.mass is None or source.phase not in _DRY:
        return
    left = transition.after(source)
    filled = [view for view in transition.kept if view is not left]
    if len(asked) == 1:
        yield from _portions(transition, source, asked[0], filled)
    total_in = [view.mass for view in transition.limited if view.mass is not None]
    total_out = [view.mass for view in transition.kept if view.mass is not None]
    if total_in and total_out and all(view.supply or view.mass is not None for view in transition.limited):
        yield Ran("L04", quantity=True)
        before, after = sum((a.value for a in total_in), Decimal(0)), sum((a.value for a in total_out), Decimal(0))
        if after > before * _GAIN:
            yield error(
                "L04",
                transition.action,
                f"at most {_show(before)}",
                _show(after),
                f"{_show(after)} came out of {_show(before)}",
                "2 %",
            )


def _portions(transition: Transition, source: View, asked: Amount, filled: list[View]) -> Said:
    assert source.mass is not None
    total = asked.value * max(1, len(filled))
    yield Ran("L07", quantity=True)
    if total > source.mass.value * _GAIN:
        yield error(
            "L07",
            source.name,
            f"at most {_show(source.mass.value)}",
            _show(total),
            f"{_show(total)} were taken from {source.name}, which held {_show(source.mass.value)}",
        )
        return
    left = transition.after(source)
    rest = source.mass.value - total
    if left is not None and left.mass is not None and not left.gone:
        yield Ran("L04", quantity=True)
        if abs(left.mass.value - rest) > total * Decimal("0.05") + min(left.mass.step, source.mass.value / 200):
            yield error(
                "L04",
                left.name,
                _show(rest),
                _show(left.mass.value),
                f"{_show(total)} were taken of {_show(source.mass.value)} and {_show(left.mass.value)} are left",
                "5 %",
            )
    for view in filled:
        start = transition.before(view)
        held = start.mass.value if start is not None and start.mass is not None else Decimal(0)
        if view.mass is not None and view.phase in _DRY and (start is None or start.supply or start.mass is not None):
            yield Ran("L16", quantity=True)
            if abs(view.mass.value - held - asked.value) > (asked.value + held) * Decimal("0.05"):
                yield error(
                    "L16",
                    view.name,
                    _show(held + asked.value),
                    _show(view.mass.value),
                    f"{_show(asked.value)} were moved into {view.name}, which holds {_show(view.mass.value)}",
                    "5 %",
                )


def _wrong(after: View, had: Decimal, has: Decimal, why: str) -> Finding:
    return error(
        "L04",
        after.name,
        _show(had),
        _show(has),
        f"{after.name} weighed {_show(had)} and weighs {_show(has)} though {why}",
        "2 %",
    )


def _show(mass: Decimal) -> str:
    return units.show(mass, "mass")
