"""L03 and L04: moving and mixing neither creates nor destroys a substance."""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from simulation.checker import weights
from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding
from simulation.checker.reading import families, flows, units, words
from simulation.checker.reading.flows import DilutionSeries, FilledOutput
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.lab import quantities

ZERO = Decimal(0)
TOLERANCE = Decimal("0.05")  # share of a concentration: error of pipetting
# Components that may react when mixed: precipitants, acids, bases, oxidisers.
_REACTIVE = word_set("silver agno3 chloride barium lead acid hcl hydrochloric nitric hno3 sulfuric naoh koh hydroxide base ammonia "
                   "peroxide iodine permanganate thiosulfate bicarbonate carbonate dithiothreitol dtt tcep")  # fmt: skip
# Components that a material may contain without mentioning them: cells contain DNA and protein.
_UNMENTIONED = word_set("cell dna rna protein nucleic acid plasmid particle")
# Ready-made reagents that cells may also produce during a step.
_PRODUCED_BY_CELLS = word_set("gfp mcherry lentivirus aav hek293t hek293 cho hela antibody")
_MEASURED_TOLERANCE = Decimal("0.2")  # a measurement may replace a nominal concentration by the measured one


def check_component_amounts(transition: Transition) -> Findings:
    """L04: check every component's total amount, highest concentration, and concentrations that must not change."""
    if not transition.is_success or transition.family in (families.MAKE, families.CONTROL, families.UNKNOWN):
        return
    components = {name for view in transition.usable_outputs for name in view.concentrations}
    for component in sorted(components):
        yield from _check_total(transition, component)
        yield from _check_maximum(transition, component)
    for draw in flows.trace_liquids(transition).withdrawals:
        if (
            draw.remainder is not None
            and not draw.remainder.is_used_up
            and not draw.source.is_unlimited
            and transition.family != families.COMBINE
        ):
            yield from _check_unchanged_concentrations(transition, draw.source, draw.remainder)
    for before, after in transition.list_pairs():
        if keeps_concentrations(transition) and not after.is_used_up and not before.is_unlimited:
            yield from _check_unchanged_concentrations(transition, before, after)


def keeps_concentrations(transition: Transition) -> bool:
    """Return whether the action leaves every concentration unchanged."""
    # Reactions go on while waiting; a magnet pulls beads out of the liquid.
    if transition.action in ("Wait", "ApplyMagnet"):
        return False
    return transition.family in (families.INERT, *families.MEASUREMENTS)


def find_concentration(view: MaterialView, component: str, dimension: str) -> Decimal | None:
    """Return the concentration of a component in a material, in the base unit of the dimension.

    It is zero if the material cannot contain the component, and None if unknown.
    """
    amount = view.concentrations.get(component)
    # A concentration without a component's name is that of the only component, whichever side omits the name.
    if amount is None and not component and len(view.concentrations) == 1:
        amount = next(iter(view.concentrations.values()))
    if amount is None and component and "" in view.concentrations and len(view.concentrations) == 1:
        amount = view.concentrations[""] if set(component.split()) & view.all_words else None
    if amount is not None:
        return amount.value if amount.dimension == dimension else None
    if view.is_empty_vessel or (view.liquid_volume == 0 and view.phase not in ("solid", "pellet")):
        return ZERO
    if component and not view.is_unlimited and not set(component.split()) & words.add_reagents(view.all_words):
        # A component that its text does not mention is absent if the composition is listed or the substance is ready-made.
        lists_composition = any(view.concentrations.values()) and not set(component.split()) & _UNMENTIONED
        if lists_composition or _is_ready_made(component):
            return ZERO
    is_pure = words.SOLVENTS & set(view.name_words) and not view.concentrations
    return ZERO if is_pure and not (set(component.split()) & words.add_reagents(view.all_words)) and component else (
        ZERO if is_pure and not component else None
    )  # fmt: skip


def can_persist(component: str, others: Iterable[MaterialView]) -> bool:
    """Return whether no other material can use up a component. If a reaction is conceivable, the answer is False."""
    if not set(component.split()) & _REACTIVE:
        return True
    return all(
        view.is_empty_vessel
        or view.liquid_volume == 0
        or component in view.concentrations
        or words.SOLVENTS & set(view.name_words)
        for view in others
    )


def may_be_product(component: str, views: Iterable[MaterialView]) -> bool:
    """Return whether a component may be a reaction product.

    It may be one if no material mentions it, and if it is an ion or some material is reactive.
    """
    views = list(views)
    component_words = set(component.split()) - {"excess"}
    if not component_words or any(component_words & words.add_reagents(view.all_words) for view in views):
        return False
    return any(word.endswith(("+", "-")) for word in component_words) or any(
        view.all_words & _REACTIVE for view in views
    )


def _is_ready_made(component: str) -> bool:
    """Return whether a component is a ready-made reagent. A material that does not mention such a reagent has none."""
    return all(word in words.REAGENTS and word not in _PRODUCED_BY_CELLS for word in component.split())


def _check_total(transition: Transition, component: str) -> Findings:
    """Compare a component's total amount (C V summed over all materials) before and after, if all amounts are known."""
    if transition.family == families.COMBINE and may_be_product(component, transition.inputs):
        return
    outputs = [view for view in transition.usable_outputs if component in view.concentrations]
    dimension = next(view.concentrations[component].dimension for view in outputs)
    totals = []
    for views in (list(transition.inputs), transition.usable_outputs):
        amounts_by_view = [_compute_amount(view, component, dimension) for view in views]
        totals.append(
            None
            if any(part is None for part in amounts_by_view)
            else sum((p for p in amounts_by_view if p is not None), ZERO)
        )
    total_in, total_out = totals
    # Evaporation removes solvent only, so a dissolved component is conserved; other removals may take it along.
    is_evaporation = transition.action == "Evaporate" and not set(component.split()) & words.SOLVENTS
    may_change = transition.family in (families.HEAT, families.TAKE) and not is_evaporation
    if dimension in ("ratio", "fold") or may_change or transition.action == "Wait":
        return
    if total_in is None or total_out is None:
        yield undecided_finding(
            "L04", transition.action, f"not every amount of {component or 'the component'} is known"
        )
        return
    yield Decided("L04", quantity=True)
    tolerance = max(total_in, total_out) * Decimal("0.15" if is_evaporation else "0.06")
    persists = can_persist(component, transition.inputs)
    # A loss is an error only if every wet input has an output: a discarded source takes its amount with it.
    conserves = (
        persists
        and (is_evaporation or transition.family in (families.MOVE, families.ADD, families.COMBINE))
        and all(
            transition.find_output(view) is not None
            for view in transition.limited_inputs
            if view.liquid_volume and not view.is_empty_vessel
        )
    )
    if total_out > total_in + tolerance or (conserves and total_out < total_in - tolerance):
        yield error_finding("L04", describe_component(component), f"{quantities.format_number(total_in)}", f"{quantities.format_number(total_out)}",
                    f"the amount of {component or 'the component'} was {_describe_change(total_out, total_in)} in this step", "6 %")  # fmt: skip


def _compute_amount(view: MaterialView, component: str, dimension: str) -> Decimal | None:
    """Return concentration times volume, in a unit that is used only in this check, or None if unknown."""
    concentration = find_concentration(view, component, dimension)
    if view.is_unlimited:
        return ZERO if concentration == 0 else None
    return (
        ZERO
        if concentration == 0
        else None
        if concentration is None or view.liquid_volume is None
        else concentration * view.liquid_volume / 1000
    )


def _check_maximum(transition: Transition, component: str) -> Findings:
    """Yield an error if an output is more concentrated than every input, unless the action can concentrate it."""
    if transition.action in families.CONCENTRATES or transition.action in ("Thermocycler", "CellCounter", "qPCR"):
        return
    # Cells grow and reactions form products; only ready-made reagents have a limit then, with a margin for
    # evaporation.
    may_grow = transition.family == families.HEAT or transition.action == "Wait"
    if may_grow and (component == "cell" or not set(component.split()) & words.REAGENTS):
        return
    for output in transition.usable_outputs:
        got = output.concentrations.get(component)
        is_attached = transition.family == families.TAKE and got is not None and got.dimension == "number_density"
        if got is None or is_attached or got.dimension == "ratio" or transition.family in families.MEASUREMENTS:
            continue
        concentrations = [find_concentration(view, component, got.dimension) for view in transition.inputs]
        if any(amount is None for amount in concentrations) or not concentrations:
            continue
        highest = max(amount for amount in concentrations if amount is not None)
        yield Decided("L04", quantity=True)
        if (
            highest
            and got.value
            > highest * (Decimal("1.3") if may_grow else 1 + TOLERANCE)
            + tolerance_margin(got, highest)
            - highest * TOLERANCE
        ):
            yield error_finding("L04", output.name, f"at most {format_concentration(highest, got)}", format_concentration(got.value, got),
                        f"{describe_component(component)} in {output.name} is {format_concentration(got.value, got)}; no input has more than {format_concentration(highest, got)}",
                        "5 %")  # fmt: skip


def _check_unchanged_concentrations(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a concentration changes in an action that only moves, spins, stores or measures."""
    for component, amount_before, amount_after in iter_shared_concentrations(before, after):
        # Cells sediment or die in these actions.
        if component == "cell" and transition.action in ("Centrifuge", "Storage", "FlashFreeze"):
            continue
        yield Decided("L04", quantity=True)
        tolerance = _MEASURED_TOLERANCE if transition.family in families.MEASUREMENTS else TOLERANCE
        if abs(amount_after.value - amount_before.value) > amount_before.value * tolerance + rounding_margin(
            amount_after
        ) + rounding_margin(amount_before):
            yield error_finding("L04", after.name, format_concentration(amount_before.value, amount_before), format_concentration(amount_after.value, amount_after),
                        f"{describe_component(component)} in {after.name} went from {format_concentration(amount_before.value, amount_before)} to {format_concentration(amount_after.value, amount_after)}; "
                        f"{transition.action} does not change concentrations", "5 %")  # fmt: skip


def iter_shared_concentrations(before: MaterialView, after: MaterialView) -> Iterator[tuple[str, Amount, Amount]]:
    """Yield (component, concentration before, concentration after) if both concentrations have the same dimension."""
    for component, amount_before in before.concentrations.items():
        amount_after = after.concentrations.get(component)
        if amount_after is not None and amount_after.dimension == amount_before.dimension:
            yield component, amount_before, amount_after


def tolerance_margin(got: Amount, expected: Decimal) -> Decimal:
    return abs(expected) * TOLERANCE + rounding_margin(got)


def rounding_margin(amount: Amount) -> Decimal:
    # "1 mg/mL" may be rounded from 1.4; without a cap that would let every error pass.
    return min(amount.step, abs(amount.value) * TOLERANCE)


def describe_component(component: str) -> str:
    return f"{component} concentration".strip()


def format_concentration(value: Decimal, like: Amount) -> str:
    return units.format_value(value, like.dimension)


def _describe_change(after: Decimal, before: Decimal) -> str:
    return "created" if not before else f"multiplied by {quantities.format_number(after / before)}"


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
    if transition.family == families.SERIAL and (series := flows.find_dilution_series(transition)):
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
    cells = weights.find_counted_amounts(source).get("cell")
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
    dilutions_made = list(flows.iter_new_outputs(transition))
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
