"""L04 and L07 for weighed materials: moving, storing or observing a solid neither creates nor destroys it."""

from decimal import Decimal

from simulation.checker.findings import Finding, Ran, Said, error
from simulation.checker.reading import families, roles, units, words
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed

# These may add matter to a material.
_FED = (families.ADD, families.COMBINE, families.SERIAL, families.MAKE, families.CONTROL, families.UNKNOWN)
_DRY = ("solid", "pellet", "")
_DRYING = ("Lyophilize", "Evaporate", "DryingOven", "Desiccate")
# Words in the name of a solution that are no second ingredient.
_STATES = listed("stock clear diluted pure")
# Solvents and mixtures that leave a residue when dried, so the dry mass is not that of one component.
_SALTY = listed("buffer pbs saline medium media tris hepes salt lysate extract dmem rpmi broth lb glycerol dmso matrix "
                "sucrose trehalose residue part")  # fmt: skip
_GAIN, _LOSS = Decimal("1.02"), Decimal("0.95")  # of the mass before; powder sticks to vessels


def solids(transition: Transition) -> Said:
    """L04: compare the mass of each material, and of all of them together."""
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
        mass_before, mass_after = before.mass, after.mass
        if mass_after.value > mass_before.value * _GAIN + mass_after.step / 10 and transition.action not in (
            "CellCultureIncubate",
            "Wash",
        ):
            yield _wrong(after, mass_before.value, mass_after.value, "nothing was added to it")
        elif mass_after.value < mass_before.value * _LOSS - mass_after.step and transition.family in (
            families.INERT,
            families.READ,
        ):
            yield _wrong(after, mass_before.value, mass_after.value, "nothing was removed from it")


def _dried(before: View, after: View) -> Said:
    """A dried solution of one component weighs as much as was dissolved."""
    if len(before.concentrations) != 1 or before.held is None or after.mass is None or after.gone:
        return
    component, amount = next(iter(before.concentrations.items()))
    other_words = words.content(before.name) - set(component.split()) - _STATES
    if amount.dimension != "mass_concentration" or not component or other_words or before.mentions & _SALTY:
        return
    yield Ran("L04", quantity=True)
    dissolved = amount.value * before.held / 1000
    # Wide, because residual moisture and losses on the wall are realistic.
    if not dissolved * Decimal("0.7") <= after.mass.value <= dissolved * Decimal("1.4"):
        yield _wrong(after, dissolved, after.mass.value, "the first amount was dissolved")


def _moved(transition: Transition) -> Said:
    """A weighed portion is subtracted from its source and added to its destination."""
    requested = [amount for _, amount in transition.parameters.amounts("mass")]
    source = roles.source_of(transition)
    if source is None or source.unlimited or source.mass is None or source.phase not in _DRY:
        return
    remainder = transition.after(source)
    filled_outputs = [view for view in transition.kept if view is not remainder]
    if len(requested) == 1:
        yield from _portions(transition, source, requested[0], filled_outputs)
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
                f"{_show(after)} came out, but only {_show(before)} went in",
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
            f"{_show(total)} was taken from {source.name}, which held {_show(source.mass.value)}",
        )
        return
    remainder = transition.after(source)
    expected_rest = source.mass.value - total
    if remainder is not None and remainder.mass is not None and not remainder.gone:
        yield Ran("L04", quantity=True)
        if abs(remainder.mass.value - expected_rest) > total * Decimal("0.05") + min(
            remainder.mass.step, source.mass.value / 200
        ):
            yield error(
                "L04",
                remainder.name,
                _show(expected_rest),
                _show(remainder.mass.value),
                f"{_show(total)} was taken from {_show(source.mass.value)} and {_show(remainder.mass.value)} is left",
                "5 %",
            )
    for view in filled:
        input_before = transition.before(view)
        mass_before = (
            input_before.mass.value if input_before is not None and input_before.mass is not None else Decimal(0)
        )
        if (
            view.mass is not None
            and view.phase in _DRY
            and (input_before is None or input_before.supply or input_before.mass is not None)
        ):
            # Under L16: the source is right, and the destination differs from the setting.
            yield Ran("L16", quantity=True)
            if abs(view.mass.value - mass_before - asked.value) > (asked.value + mass_before) * Decimal("0.05"):
                yield error(
                    "L16",
                    view.name,
                    _show(mass_before + asked.value),
                    _show(view.mass.value),
                    f"{_show(asked.value)} was moved into {view.name}, which now holds {_show(view.mass.value)}",
                    "5 %",
                )


def _wrong(after: View, had: Decimal, has: Decimal, why: str) -> Finding:
    return error(
        "L04",
        after.name,
        _show(had),
        _show(has),
        f"{after.name} weighed {_show(had)} and now weighs {_show(has)}, although {why}",
        "2 %",
    )


def _show(mass: Decimal) -> str:
    return units.show(mass, "mass")
