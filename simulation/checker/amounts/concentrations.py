"""L04: no substance gets more or less by being moved."""

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


TOLERANCE = Decimal("0.05")


# These are put together with others to react: precipitants, acids, bases, oxidisers.
_REACTIVE = listed("silver agno3 chloride barium lead acid hcl hydrochloric nitric hno3 sulfuric naoh koh hydroxide base ammonia "
                   "peroxide iodine permanganate thiosulfate bicarbonate carbonate dithiothreitol dtt tcep")  # fmt: skip
_HIDDEN = listed("cell dna rna protein nucleic acid plasmid particle")
_ALIVE = listed("gfp mcherry lentivirus aav hek293t hek293 cho hela antibody")


_MEASURED = Decimal("0.2")


def amounts(transition: Transition) -> Said:
    """L04: of each component no more comes out than went in, and no less where nothing can take it away."""
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
    """Whether the action leaves every concentration as it is."""
    if transition.action in ("Wait", "ApplyMagnet"):
        return False
    return transition.family in (families.INERT, *families.MEASUREMENTS)


def holds(view: View, component: str, dimension: str) -> Decimal | None:
    """The concentration of a component in it: zero in what cannot hold any, None if unknown."""
    found = view.concentrations.get(component)
    if found is None and not component and len(view.concentrations) == 1:
        found = next(iter(view.concentrations.values()))
    if found is None and component and "" in view.concentrations and len(view.concentrations) == 1:
        found = view.concentrations[""] if set(component.split()) & view.mentions else None
    if found is not None:
        return found.value if found.dimension == dimension else None
    if view.supply or (view.held == 0 and view.phase not in ("solid", "pellet")):
        return ZERO
    if component and not view.unlimited and not set(component.split()) & words.resolved(view.mentions):
        # What its own text does not mention is not in it, if the substance is ready-made or its composition is told.
        told = any(view.concentrations.values()) and not set(component.split()) & _HIDDEN
        if told or _brought_only(component):
            return ZERO
    pure = words.SOLVENTS & set(view.words) and not view.concentrations
    return ZERO if pure and not (set(component.split()) & words.resolved(view.mentions)) and component else (
        ZERO if pure and not component else None
    )  # fmt: skip


def lasting(component: str, others: Iterable[View]) -> bool:
    """Whether nothing it is put together with can use it up: reaction chemistry is not decided here."""
    if not set(component.split()) & _REACTIVE:
        return True
    return all(
        view.supply or view.held == 0 or component in view.concentrations or words.SOLVENTS & set(view.words)
        for view in others
    )


def formed(component: str, views: Iterable[View]) -> bool:
    """Whether it may be what a reaction made: nothing that went in mentions it, and something there reacts."""
    views = list(views)
    said = set(component.split()) - {"excess"}
    if not said or any(said & words.resolved(view.mentions) for view in views):
        return False
    return any(word.endswith(("+", "-")) for word in said) or any(view.mentions & _REACTIVE for view in views)


def _brought_only(component: str) -> bool:
    """A ready-made reagent: what does not mention it has none."""
    return all(word in words.REAGENTS and word not in _ALIVE for word in component.split())


def _total(transition: Transition, component: str) -> Said:
    """C V summed over all: only where every material that may hold it says how much."""
    if transition.family == families.COMBINE and formed(component, transition.inputs):
        return
    kept = [view for view in transition.kept if component in view.concentrations]
    dimension = next(view.concentrations[component].dimension for view in kept)
    sides = []
    for views in (list(transition.inputs), transition.kept):
        parts = [_amount(view, component, dimension) for view in views]
        sides.append(None if any(part is None for part in parts) else sum((p for p in parts if p is not None), ZERO))
    total_in, total_out = sides
    boiled_down = transition.action == "Evaporate" and not set(component.split()) & words.SOLVENTS
    taken = transition.family in (families.HEAT, families.TAKE) and not boiled_down
    if dimension in ("ratio", "fold") or taken or transition.action == "Wait":
        return
    if total_in is None or total_out is None:
        yield undecided("L04", transition.action, f"not every amount of {named(component)} is known")
        return
    yield Ran("L04", quantity=True)
    tolerance = max(total_in, total_out) * Decimal("0.15" if boiled_down else "0.06")
    can_last = lasting(component, transition.inputs)
    conserves = (
        can_last
        and (boiled_down or transition.family in (families.MOVE, families.ADD, families.COMBINE))
        and all(transition.after(view) is not None for view in transition.limited if view.held and not view.supply)
    )
    if total_out > total_in + tolerance or (conserves and total_out < total_in - tolerance):
        yield error("L04", named(component), f"{quantities.plain(total_in)}", f"{quantities.plain(total_out)}",
                    f"the amount of {named(component)} was {_times(total_out, total_in)} by this step", "6 %")  # fmt: skip


def _amount(view: View, component: str, dimension: str) -> Decimal | None:
    """Concentration times volume, in units that only this check compares."""
    inside = holds(view, component, dimension)
    if view.unlimited:
        return ZERO if inside == 0 else None
    return ZERO if inside == 0 else None if inside is None or view.held is None else inside * view.held / 1000


def _highest(transition: Transition, component: str) -> Said:
    """Nothing comes out more concentrated than the strongest that went in, where nothing takes the liquid off."""
    if transition.action in families.CONCENTRATES or transition.action in ("Thermocycler", "CellCounter", "qPCR"):
        return
    made = transition.family == families.HEAT or transition.action == "Wait"
    if made and (component == "cell" or not set(component.split()) & set(words.REAGENTS)):
        return
    for output in transition.kept:
        got = output.concentrations.get(component)
        attached = transition.family == families.TAKE and got is not None and got.dimension == "number_density"
        if got is None or attached or got.dimension == "ratio" or transition.family in families.MEASUREMENTS:
            continue
        inside = [holds(view, component, got.dimension) for view in transition.inputs]
        if any(amount is None for amount in inside) or not inside:
            continue
        top = max(amount for amount in inside if amount is not None)
        yield Ran("L04", quantity=True)
        if top and got.value > top * (Decimal("1.3") if made else 1 + TOLERANCE) + margin(got, top) - top * TOLERANCE:
            yield error("L04", output.name, f"at most {show(top, got)}", show(got.value, got),
                        f"{named(component)} in {output.name} is {show(got.value, got)}; nothing that went in held more than {show(top, got)}",
                        "5 %")  # fmt: skip


def _same(transition: Transition, before: View, after: View) -> Said:
    """An action that only moves, spins, stores or measures leaves concentrations alone."""
    for component, had, has in shared(before, after):
        if component == "cell" and transition.action in ("Centrifuge", "Storage", "FlashFreeze"):
            continue
        yield Ran("L04", quantity=True)
        tolerance = _MEASURED if transition.family in families.MEASUREMENTS else TOLERANCE
        if abs(has.value - had.value) > had.value * tolerance + rounding(has) + rounding(had):
            yield error("L04", after.name, show(had.value, had), show(has.value, has),
                        f"{named(component)} in {after.name} went from {show(had.value, had)} to {show(has.value, has)}; "
                        f"{transition.action} changes no amount", "5 %")  # fmt: skip


def shared(before: View, after: View) -> Iterator[tuple[str, Amount, Amount]]:
    """Concentrations that stand on both, in one dimension."""
    for component, had in before.concentrations.items():
        has = after.concentrations.get(component)
        if has is not None and has.dimension == had.dimension:
            yield component, had, has


def margin(got: Amount, expected: Decimal) -> Decimal:
    return abs(expected) * TOLERANCE + rounding(got)


def rounding(amount: Amount) -> Decimal:
    return min(amount.step, abs(amount.value) * TOLERANCE)


def named(component: str) -> str:
    return f"{component} concentration".strip()


def show(value: Decimal, like: Amount) -> str:
    return units.show(value, like.dimension)


def _times(after: Decimal, before: Decimal) -> str:
    return "made from nothing" if not before else f"multiplied by {quantities.plain(after / before)}"
