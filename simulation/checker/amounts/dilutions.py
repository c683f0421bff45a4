"""L03: concentrations follow from the volumes and concentrations that were combined."""

from decimal import Decimal

from simulation.checker.amounts import counted
from simulation.checker.amounts.concentrations import formed, holds, lasting, margin, named, rounding, show
from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.reading import families, flows, ladders
from simulation.checker.reading.flows import Fill
from simulation.checker.reading.ladders import Ladder
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed

ZERO = Decimal(0)
_MEASURED = Decimal("0.2")  # some of the old medium may remain on the cells
# Parameters that name the medium after a wash.
_REPLACEMENT = listed("replacement fresh")


def dilutions(transition: Transition) -> Said:
    """L03: C1 V1 = C2 V2 in every vessel with known parts, and powers of the factor in a series."""
    if not transition.success:
        return
    for fill in flows.of(transition).fills:
        for component, got in fill.output.concentrations.items():
            yield from _mixed(fill, component, got)
    if transition.action == "Wash":
        yield from _washed(transition)
    if transition.family == families.SERIAL and (series := ladders.ladder(transition)):
        yield from _series(transition, series)


def _mixed(fill: Fill, component: str, got: Amount) -> Said:
    # A ratio may be by volume or by mass; only one of them follows from volumes.
    if got.dimension == "ratio" or formed(component, (part.source for part in fill.parts)):
        return
    if got.dimension == "fold" and not _has_concentrate(fill, component):
        return
    total_volume = fill.output.held or fill.volume
    known_amount, is_complete = ZERO, True
    for part in fill.parts:
        if part.volume == 0:
            solid_amount = _dissolved(part.source, component, got)
            known_amount, is_complete = known_amount + (solid_amount or ZERO), is_complete and solid_amount is not None
            continue
        concentration = holds(part.source, component, got.dimension)
        if concentration is None or part.volume is None:
            is_complete = False
        else:
            known_amount += concentration * part.volume
    # The known parts alone give a lower limit, which can be violated even if other parts are unknown.
    if not total_volume or (not is_complete and known_amount == 0):
        yield undecided("L03", fill.output.name, f"the inputs of its {named(component)} are not known")
        return
    expected = known_amount / total_volume
    yield Ran("L03", quantity=True)
    is_below = lasting(component, (part.source for part in fill.parts)) and got.value < expected - margin(got, expected)
    is_above = is_complete and got.value > expected + margin(got, expected)
    if is_below or is_above:
        prefix = "" if is_complete else "at least "
        yield error("L03", fill.output.name, f"{prefix}{show(expected, got)}", show(got.value, got),
                    f"{named(component)} in {fill.output.name} is {show(got.value, got)}; its parts give "
                    f"{prefix}{show(expected, got)}", "5 %")  # fmt: skip


def _has_concentrate(fill: Fill, component: str) -> bool:
    """Return whether a part is a concentrate (2X or more); a component written as "1X PBS" is usually kept through dilutions."""
    strengths = [part.source.concentrations.get(component) for part in fill.parts]
    return any(amount is not None and amount.dimension == "fold" and amount.value >= 2 for amount in strengths)


def _dissolved(source: View, component: str, got: Amount) -> Decimal | None:
    """Return the amount that a dry solid contributes, as concentration times µL, or None if unknown.

    It is zero for an empty vessel.
    """
    if source.supply or source.phase not in ("solid", "pellet"):
        return ZERO
    cells = counted.amounts(source).get("cell")
    if component == "cell" and cells is not None and got.dimension == "number_density":
        # Number density is in cells per mL, so cells per mL times µL.
        return cells.value * 1000
    is_component = not component or set(component.split()) <= source.mentions
    if source.mass is None or got.dimension != "mass_concentration" or source.concentrations:
        return None
    return source.mass.value * 1000 if is_component else None


def _washed(transition: Transition) -> Said:
    """After a wash the medium on the cells is the replacement; a little of the old one may remain."""
    replacement = transition.parameters.material(_REPLACEMENT)
    for before, after in transition.pairs() if replacement is not None else ():
        if (
            before.unlimited
            or after.gone
            or replacement is None
            or any(before is v for v in transition.parameters.named.values())
        ):
            continue
        for component, got in after.concentrations.items():
            expected = replacement.concentrations.get(component)
            # Cells are what was washed, not part of the medium.
            if component == "cell" or expected is None or expected.dimension != got.dimension:
                continue
            yield Ran("L03", quantity=True)
            if abs(got.value - expected.value) > expected.value * _MEASURED + rounding(got):
                yield error("L03", after.name, show(expected.value, got), show(got.value, got),
                            f"{named(component)} in {after.name} is {show(got.value, got)}; the replacement medium has {show(expected.value, got)}", "20 %")  # fmt: skip


def _series(transition: Transition, asked: Ladder) -> Said:
    """The dilutions have the concentration of the sample divided by the factor, its square, its cube and so on."""
    dilutions_made = list(ladders.rungs(transition))
    for component in sorted({name for view in dilutions_made for name in view.concentrations}):
        # By concentration: the order of the outputs and their names are no evidence of their step.
        amounts = sorted(
            (v.concentrations[component] for v in dilutions_made if component in v.concentrations),
            key=lambda a: -a.value,
        )
        start = holds(asked.sample, component, amounts[0].dimension)
        if not start or asked.factor is None or holds(asked.diluent, component, amounts[0].dimension) != 0:
            yield undecided(
                "L03", transition.action, f"factor or starting concentration of {named(component)} is not known"
            )
            continue
        yield Ran("L03", quantity=True)
        yield from _ranked(component, amounts, _powers(start, asked.factor, amounts))


def _powers(start: Decimal, factor: Decimal, found: list[Amount]) -> list[Decimal]:
    """Return the expected concentrations of a series, which may begin with the undiluted sample."""
    first = 0 if abs(found[0].value - start) <= margin(found[0], start) else 1
    return [start / factor ** (first + step) for step in range(len(found))]


def _ranked(component: str, found: list[Amount], expected: list[Decimal]) -> Said:
    for number, (got, expected_value) in enumerate(zip(found, expected, strict=True), start=1):
        if abs(got.value - expected_value) > margin(got, expected_value):
            yield error("L03", f"dilution {number}", show(expected_value, got), show(got.value, got),
                        f"{named(component)} in dilution {number} of the series is {show(got.value, got)} instead of {show(expected_value, got)}",
                        "5 %")  # fmt: skip
