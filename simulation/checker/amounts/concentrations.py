"""L04: moving a substance neither creates nor destroys it."""

from collections.abc import Iterable, Iterator
from decimal import Decimal

from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.reading import families, flows, units, words
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed
from simulation.lab import quantities

ZERO = Decimal(0)
TOLERANCE = Decimal("0.05")  # of a concentration: error of pipetting
# Components that may react when mixed: precipitants, acids, bases, oxidisers.
_REACTIVE = listed("silver agno3 chloride barium lead acid hcl hydrochloric nitric hno3 sulfuric naoh koh hydroxide base ammonia "
                   "peroxide iodine permanganate thiosulfate bicarbonate carbonate dithiothreitol dtt tcep")  # fmt: skip
# May be in a material whose text does not mention them: cells contain DNA and protein.
_HIDDEN = listed("cell dna rna protein nucleic acid plasmid particle")
# Ready-made by name, but produced by cells of a step.
_ALIVE = listed("gfp mcherry lentivirus aav hek293t hek293 cho hela antibody")
_MEASURED = Decimal("0.2")  # a measurement may replace a nominal concentration by the measured one


def amounts(transition: Transition) -> Said:
    """L04: no more of a component comes out than went in, and no less if nothing can remove it."""
    if not transition.success or transition.family in (families.MAKE, families.CONTROL, families.UNKNOWN):
        return
    components = {name for view in transition.kept for name in view.concentrations}
    for component in sorted(components):
        yield from _total(transition, component)
        yield from _highest(transition, component)
    for draw in flows.of(transition).draws:
        if (
            draw.left is not None
            and not draw.left.gone
            and not draw.source.unlimited
            and transition.family != families.COMBINE
        ):
            yield from _same(transition, draw.source, draw.left)
    for before, after in transition.pairs():
        if still(transition) and not after.gone and not before.unlimited:
            yield from _same(transition, before, after)


def still(transition: Transition) -> bool:
    """Return whether the action leaves every concentration unchanged."""
    # Reactions go on while waiting; a magnet pulls beads out of the liquid.
    if transition.action in ("Wait", "ApplyMagnet"):
        return False
    return transition.family in (families.INERT, *families.MEASUREMENTS)


def holds(view: View, component: str, dimension: str) -> Decimal | None:
    """Return the concentration of a component in a material, in the base unit of the dimension.

    It is zero in what cannot contain the component, and None if unknown.
    """
    amount = view.concentrations.get(component)
    # A bare "concentration" is that of the only component, in either direction.
    if amount is None and not component and len(view.concentrations) == 1:
        amount = next(iter(view.concentrations.values()))
    if amount is None and component and "" in view.concentrations and len(view.concentrations) == 1:
        amount = view.concentrations[""] if set(component.split()) & view.mentions else None
    if amount is not None:
        return amount.value if amount.dimension == dimension else None
    if view.supply or (view.held == 0 and view.phase not in ("solid", "pellet")):
        return ZERO
    if component and not view.unlimited and not set(component.split()) & words.resolved(view.mentions):
        # A component that its text does not mention is absent if the composition is listed or the substance is ready-made.
        lists_composition = any(view.concentrations.values()) and not set(component.split()) & _HIDDEN
        if lists_composition or _brought_only(component):
            return ZERO
    is_pure = words.SOLVENTS & set(view.words) and not view.concentrations
    return ZERO if is_pure and not (set(component.split()) & words.resolved(view.mentions)) and component else (
        ZERO if is_pure and not component else None
    )  # fmt: skip


def lasting(component: str, others: Iterable[View]) -> bool:
    """Return whether nothing that it is mixed with can use it up: reaction chemistry is not decided here."""
    if not set(component.split()) & _REACTIVE:
        return True
    return all(
        view.supply or view.held == 0 or component in view.concentrations or words.SOLVENTS & set(view.words)
        for view in others
    )


def formed(component: str, views: Iterable[View]) -> bool:
    """Return whether a component may be a reaction product: no input mentions it, and something there reacts."""
    views = list(views)
    component_words = set(component.split()) - {"excess"}
    if not component_words or any(component_words & words.resolved(view.mentions) for view in views):
        return False
    return any(word.endswith(("+", "-")) for word in component_words) or any(
        view.mentions & _REACTIVE for view in views
    )


def _brought_only(component: str) -> bool:
    """Return whether a component is a ready-made reagent: a material that does not mention it has none."""
    return all(word in words.REAGENTS and word not in _ALIVE for word in component.split())


def _total(transition: Transition, component: str) -> Said:
    """Compare the amount (C V summed over all materials), only if every material with the component has a known amount."""
    if transition.family == families.COMBINE and formed(component, transition.inputs):
        return
    outputs = [view for view in transition.kept if component in view.concentrations]
    dimension = next(view.concentrations[component].dimension for view in outputs)
    totals = []
    for views in (list(transition.inputs), transition.kept):
        amounts_by_view = [_amount(view, component, dimension) for view in views]
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
        yield undecided("L04", transition.action, f"not every amount of {component or 'the component'} is known")
        return
    yield Ran("L04", quantity=True)
    tolerance = max(total_in, total_out) * Decimal("0.15" if is_evaporation else "0.06")
    persists = lasting(component, transition.inputs)
    # A loss is an error only if every wet input has an output: a discarded source takes its amount with it.
    conserves = (
        persists
        and (is_evaporation or transition.family in (families.MOVE, families.ADD, families.COMBINE))
        and all(transition.after(view) is not None for view in transition.limited if view.held and not view.supply)
    )
    if total_out > total_in + tolerance or (conserves and total_out < total_in - tolerance):
        yield error("L04", named(component), f"{quantities.plain(total_in)}", f"{quantities.plain(total_out)}",
                    f"the amount of {component or 'the component'} was {_times(total_out, total_in)} in this step", "6 %")  # fmt: skip


def _amount(view: View, component: str, dimension: str) -> Decimal | None:
    """Return concentration times volume in a unit that only this check uses, or None if unknown."""
    concentration = holds(view, component, dimension)
    if view.unlimited:
        return ZERO if concentration == 0 else None
    return (
        ZERO
        if concentration == 0
        else None
        if concentration is None or view.held is None
        else concentration * view.held / 1000
    )


def _highest(transition: Transition, component: str) -> Said:
    """No output is more concentrated than the strongest input, unless the action removes liquid."""
    if transition.action in families.CONCENTRATES or transition.action in ("Thermocycler", "CellCounter", "qPCR"):
        return
    # Cells grow and reactions form products; only ready-made reagents have a limit then, with a margin for
    # evaporation.
    may_grow = transition.family == families.HEAT or transition.action == "Wait"
    if may_grow and (component == "cell" or not set(component.split()) & set(words.REAGENTS)):
        return
    for output in transition.kept:
        got = output.concentrations.get(component)
        is_attached = transition.family == families.TAKE and got is not None and got.dimension == "number_density"
        if got is None or is_attached or got.dimension == "ratio" or transition.family in families.MEASUREMENTS:
            continue
        concentrations = [holds(view, component, got.dimension) for view in transition.inputs]
        if any(amount is None for amount in concentrations) or not concentrations:
            continue
        highest = max(amount for amount in concentrations if amount is not None)
        yield Ran("L04", quantity=True)
        if (
            highest
            and got.value
            > highest * (Decimal("1.3") if may_grow else 1 + TOLERANCE) + margin(got, highest) - highest * TOLERANCE
        ):
            yield error("L04", output.name, f"at most {show(highest, got)}", show(got.value, got),
                        f"{named(component)} in {output.name} is {show(got.value, got)}; no input has more than {show(highest, got)}",
                        "5 %")  # fmt: skip


def _same(transition: Transition, before: View, after: View) -> Said:
    """An action that only moves, spins, stores or measures leaves concentrations unchanged."""
    for component, amount_before, amount_after in shared(before, after):
        # Cells sediment or die in these.
        if component == "cell" and transition.action in ("Centrifuge", "Storage", "FlashFreeze"):
            continue
        yield Ran("L04", quantity=True)
        tolerance = _MEASURED if transition.family in families.MEASUREMENTS else TOLERANCE
        if abs(amount_after.value - amount_before.value) > amount_before.value * tolerance + rounding(
            amount_after
        ) + rounding(amount_before):
            yield error("L04", after.name, show(amount_before.value, amount_before), show(amount_after.value, amount_after),
                        f"{named(component)} in {after.name} went from {show(amount_before.value, amount_before)} to {show(amount_after.value, amount_after)}; "
                        f"{transition.action} does not change concentrations", "5 %")  # fmt: skip


def shared(before: View, after: View) -> Iterator[tuple[str, Amount, Amount]]:
    """Yield (component, before, after) of the concentrations that both materials have in one dimension."""
    for component, amount_before in before.concentrations.items():
        amount_after = after.concentrations.get(component)
        if amount_after is not None and amount_after.dimension == amount_before.dimension:
            yield component, amount_before, amount_after


def margin(got: Amount, expected: Decimal) -> Decimal:
    return abs(expected) * TOLERANCE + rounding(got)


def rounding(amount: Amount) -> Decimal:
    # "1 mg/mL" may be rounded from 1.4; without a cap that would let every error pass.
    return min(amount.step, abs(amount.value) * TOLERANCE)


def named(component: str) -> str:
    return f"{component} concentration".strip()


def show(value: Decimal, like: Amount) -> str:
    return units.show(value, like.dimension)


def _times(after: Decimal, before: Decimal) -> str:
    return "created" if not before else f"multiplied by {quantities.plain(after / before)}"
