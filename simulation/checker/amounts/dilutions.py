"""L03: concentrations follow from what was put together."""

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


_MEASURED = Decimal("0.2")


# What a measurement found may have replaced what was on the label.
_REPLACEMENT = listed("replacement fresh")


def dilutions(transition: Transition) -> Said:
    """L03: C1 V1 = C2 V2 in every vessel whose parts are known, and the powers of the factor in a series."""
    if not transition.success:
        return
    for fill in flows.of(transition).fills:
        for component, got in fill.output.concentrations.items():
            yield from _mixed(fill, component, got)
    if transition.action == "Wash":
        yield from _washed(transition)
    if transition.family == families.SERIAL and (asked := ladders.ladder(transition)):
        yield from _series(transition, asked)


def _mixed(fill: Fill, component: str, got: Amount) -> Said:
    if got.dimension == "ratio" or formed(component, (part.source for part in fill.parts)):
        return
    if got.dimension == "fold" and not _has_concentrate(fill, component):
        return
    whole = fill.output.held or fill.volume
    least, known = ZERO, True
    for part in fill.parts:
        if part.volume == 0:
            dry = _dissolved(part.source, component, got)
            least, known = least + (dry or ZERO), known and dry is not None
            continue
        inside = holds(part.source, component, got.dimension)
        if inside is None or part.volume is None:
            known = False
        else:
            least += inside * part.volume
    if not whole or (not known and least == 0):
        yield undecided("L03", fill.output.name, f"what went into it of {named(component)} is not known")
        return
    expected = least / whole
    yield Ran("L03", quantity=True)
    below = lasting(component, (part.source for part in fill.parts)) and got.value < expected - margin(got, expected)
    above = known and got.value > expected + margin(got, expected)
    if below or above:
        at_least = "" if known else "at least "
        yield error("L03", fill.output.name, f"{at_least}{show(expected, got)}", show(got.value, got),
                    f"{named(component)} in {fill.output.name} is {show(got.value, got)}; from what was put together it is "
                    f"{at_least}{show(expected, got)}", "5 %")  # fmt: skip


def _has_concentrate(fill: Fill, component: str) -> bool:
    """Only a concentrate is diluted on purpose: people leave "1X PBS" as it is."""
    strengths = [part.source.concentrations.get(component) for part in fill.parts]
    return any(amount is not None and amount.dimension == "fold" and amount.value >= 2 for amount in strengths)


def _dissolved(source: View, component: str, got: Amount) -> Decimal | None:
    """What a dry solid brings along, as concentration times µL; nothing from an empty vessel, None if unknown."""
    if source.supply or source.phase not in ("solid", "pellet"):
        return ZERO
    cells = counted.amounts(source).get("cell")
    if component == "cell" and cells is not None and got.dimension == "number_density":
        return cells.value * 1000
    is_it = not component or set(component.split()) <= source.mentions
    if source.mass is None or got.dimension != "mass_concentration" or source.concentrations:
        return None
    return source.mass.value * 1000 if is_it else None


def _washed(transition: Transition) -> Said:
    """What is on the cells afterwards is the replacement medium; a little of the old may have stayed."""
    fresh = transition.parameters.material(_REPLACEMENT)
    for before, after in transition.pairs() if fresh is not None else ():
        if (
            before.unlimited
            or after.gone
            or fresh is None
            or any(before is v for v in transition.parameters.named.values())
        ):
            continue
        for component, got in after.concentrations.items():
            wanted = fresh.concentrations.get(component)
            if component == "cell" or wanted is None or wanted.dimension != got.dimension:
                continue
            yield Ran("L03", quantity=True)
            if abs(got.value - wanted.value) > wanted.value * _MEASURED + rounding(got):
                yield error("L03", after.name, show(wanted.value, got), show(got.value, got),
                            f"{named(component)} in {after.name} is {show(got.value, got)}; the replacement has {show(wanted.value, got)}", "20 %")  # fmt: skip


def _series(transition: Transition, asked: Ladder) -> Said:
    """The dilutions hold the sample's concentration over the factor, its square, its cube and so on."""
    rungs = list(ladders.rungs(transition))
    for component in sorted({name for view in rungs for name in view.concentrations}):
        found = sorted(
            (v.concentrations[component] for v in rungs if component in v.concentrations), key=lambda a: -a.value
        )
        start = holds(asked.sample, component, found[0].dimension)
        if not start or asked.factor is None or holds(asked.diluent, component, found[0].dimension) != 0:
            yield undecided(
                "L03", transition.action, f"factor or starting concentration of {named(component)} is not known"
            )
            continue
        yield Ran("L03", quantity=True)
        yield from _ranked(component, found, _powers(start, asked.factor, found))


def _powers(start: Decimal, factor: Decimal, found: list[Amount]) -> list[Decimal]:
    """What the dilutions should hold; a series may begin with the undiluted sample."""
    first = 0 if abs(found[0].value - start) <= margin(found[0], start) else 1
    return [start / factor ** (first + step) for step in range(len(found))]


def _ranked(component: str, found: list[Amount], expected: list[Decimal]) -> Said:
    for number, (got, right) in enumerate(zip(found, expected, strict=True), start=1):
        if abs(got.value - right) > margin(got, right):
            yield error("L03", f"dilution {number}", show(right, got), show(got.value, got),
                        f"{named(component)} in dilution {number} of the series is {show(got.value, got)} instead of {show(right, got)}",
                        "5 %")  # fmt: skip
