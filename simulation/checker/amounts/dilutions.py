"""L03: concentrations follow from the volumes and concentrations that were combined."""

from decimal import Decimal

from simulation.checker.amounts import counted_amounts
from simulation.checker.amounts.concentrations import (
    can_persist,
    describe_component,
    find_concentration,
    format_concentration,
    may_be_product,
    rounding_margin,
    tolerance_margin,
)
from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding
from simulation.checker.reading import dilution_series, families, flows
from simulation.checker.reading.dilution_series import DilutionSeries
from simulation.checker.reading.flows import FilledOutput
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

ZERO = Decimal(0)
_WASH_TOLERANCE = Decimal("0.2")  # some of the old medium may remain on the cells
# Words in the name of the parameter that gives the medium after a wash.
_REPLACEMENT = word_set("replacement fresh")


def check_dilutions(transition: Transition) -> Findings:
    """L03: check C1 V1 = C2 V2 in every vessel with known parts, the medium after a wash, and dilution series."""
    if not transition.is_success:
        return
    for fill in flows.trace_liquids(transition).fills:
        for component, got in fill.output.concentrations.items():
            yield from _check_mixture(fill, component, got)
    if transition.action == "Wash":
        yield from _check_wash(transition)
    if transition.family == families.SERIAL and (series := dilution_series.find_dilution_series(transition)):
        yield from _check_series(transition, series)


def _check_mixture(fill: FilledOutput, component: str, got: Amount) -> Findings:
    # A ratio may be by volume or by mass; only one of them follows from volumes.
    if got.dimension == "ratio" or may_be_product(component, (part.source for part in fill.parts)):
        return
    if got.dimension == "fold" and not _has_concentrate(fill, component):
        return
    total_volume = fill.output.liquid_volume or fill.total_volume
    known_amount, is_complete = ZERO, True
    for part in fill.parts:
        if part.volume == 0:
            solid_amount = _find_dissolved_amount(part.source, component, got)
            known_amount, is_complete = known_amount + (solid_amount or ZERO), is_complete and solid_amount is not None
            continue
        concentration = find_concentration(part.source, component, got.dimension)
        if concentration is None or part.volume is None:
            is_complete = False
        else:
            known_amount += concentration * part.volume
    # The known parts alone give a lower limit, which can be violated even if other parts are unknown.
    if not total_volume or (not is_complete and known_amount == 0):
        yield undecided_finding(
            "L03", fill.output.name, f"the inputs of its {describe_component(component)} are not known"
        )
        return
    expected = known_amount / total_volume
    yield Decided("L03", quantity=True)
    is_below = can_persist(component, (part.source for part in fill.parts)) and got.value < expected - tolerance_margin(
        got, expected
    )
    is_above = is_complete and got.value > expected + tolerance_margin(got, expected)
    if is_below or is_above:
        prefix = "" if is_complete else "at least "
        yield error_finding("L03", fill.output.name, f"{prefix}{format_concentration(expected, got)}", format_concentration(got.value, got),
                    f"{describe_component(component)} in {fill.output.name} is {format_concentration(got.value, got)}; its parts give "
                    f"{prefix}{format_concentration(expected, got)}", "5 %")  # fmt: skip


def _has_concentrate(fill: FilledOutput, component: str) -> bool:
    """Return whether a part is a concentrate (2X or more). Text like "1X PBS" usually stays when diluting."""
    strengths = [part.source.concentrations.get(component) for part in fill.parts]
    return any(amount is not None and amount.dimension == "fold" and amount.value >= 2 for amount in strengths)


def _find_dissolved_amount(source: MaterialView, component: str, got: Amount) -> Decimal | None:
    """Return the amount that a dry solid contributes, as concentration times µL, or None if unknown.

    It is zero for a source that is neither a solid nor a pellet.
    """
    if source.is_empty_vessel or source.phase not in ("solid", "pellet"):
        return ZERO
    cells = counted_amounts.find_counted_amounts(source).get("cell")
    if component == "cell" and cells is not None and got.dimension == "number_density":
        # Number density is in cells per mL, so cells per mL times µL.
        return cells.value * 1000
    is_component = not component or set(component.split()) <= source.all_words
    if source.mass is None or got.dimension != "mass_concentration" or source.concentrations:
        return None
    return source.mass.value * 1000 if is_component else None


def _check_wash(transition: Transition) -> Findings:
    """Yield an error unless the medium after a wash is the replacement. A little of the old medium may remain."""
    replacement = transition.parameters.find_material(_REPLACEMENT)
    for before, after in transition.list_pairs() if replacement is not None else ():
        if (
            before.is_unlimited
            or after.is_used_up
            or replacement is None
            or any(before is v for v in transition.parameters.materials_by_key.values())
        ):
            continue
        for component, got in after.concentrations.items():
            expected = replacement.concentrations.get(component)
            # Cells are what was washed, not part of the medium.
            if component == "cell" or expected is None or expected.dimension != got.dimension:
                continue
            yield Decided("L03", quantity=True)
            if abs(got.value - expected.value) > expected.value * _WASH_TOLERANCE + rounding_margin(got):
                yield error_finding("L03", after.name, format_concentration(expected.value, got), format_concentration(got.value, got),
                            f"{describe_component(component)} in {after.name} is {format_concentration(got.value, got)}; the replacement medium has {format_concentration(expected.value, got)}", "20 %")  # fmt: skip


def _check_series(transition: Transition, series: DilutionSeries) -> Findings:
    """Yield an error unless the dilutions have the sample's concentration over the factor, its square and so on."""
    dilutions_made = list(dilution_series.iter_dilutions(transition))
    for component in sorted({name for view in dilutions_made for name in view.concentrations}):
        # Sorted by concentration, because neither the order nor the names of the outputs reliably show their step.
        amounts = sorted(
            (v.concentrations[component] for v in dilutions_made if component in v.concentrations),
            key=lambda a: -a.value,
        )
        start = find_concentration(series.sample, component, amounts[0].dimension)
        if (
            not start
            or series.factor is None
            or find_concentration(series.diluent, component, amounts[0].dimension) != 0
        ):
            yield undecided_finding(
                "L03",
                transition.action,
                f"factor or starting concentration of {describe_component(component)} is not known",
            )
            continue
        yield Decided("L03", quantity=True)
        yield from _compare_series(component, amounts, _compute_series(start, series.factor, amounts))


def _compute_series(start: Decimal, factor: Decimal, amounts: list[Amount]) -> list[Decimal]:
    """Return the expected concentrations of a series, which may begin with the undiluted sample."""
    first = 0 if abs(amounts[0].value - start) <= tolerance_margin(amounts[0], start) else 1
    return [start / factor ** (first + step) for step in range(len(amounts))]


def _compare_series(component: str, amounts: list[Amount], expected: list[Decimal]) -> Findings:
    for number, (got, expected_value) in enumerate(zip(amounts, expected, strict=True), start=1):
        if abs(got.value - expected_value) > tolerance_margin(got, expected_value):
            yield error_finding("L03", f"dilution {number}", format_concentration(expected_value, got), format_concentration(got.value, got),
                        f"{describe_component(component)} in dilution {number} of the series is {format_concentration(got.value, got)} instead of {format_concentration(expected_value, got)}",
                        "5 %")  # fmt: skip
