"""L04 for amounts that are written as such: cells counted, moles, and what a dry material holds of a component."""

from collections.abc import Mapping

from simulation.checker.findings import Ran, Said, error
from simulation.checker.reading import families, units
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed

_OF_ALL = listed("total number count amount of cell viable live quantity")
_NOT_HELD = listed(
    "passage well tube vial replicate plate image lane scale event cycle step viability seeding initial target per"
)
_LIVING = ("CellCounter", "Centrifuge", "FlashFreeze", "Storage", "Wait")


def amounts(view: View) -> Mapping[str, Amount]:
    """Counts and moles by component; "cell" for cells."""
    found: dict[str, Amount] = {}
    for leaf in view.leaves:
        said = set(leaf.words)
        if said & _NOT_HELD or said & {"concentration", "density", "conc"}:
            continue
        amount = leaf.amount("count", "amount")
        number = units.number_and_rest(leaf.value)
        if (
            amount is None
            and "cell" in said
            and said <= _OF_ALL
            and (said & {"total", "count", "number"} or said == {"cell"})
            and number
            and not number[2].strip()
        ):
            amount = Amount(number[0], "count", number[1], leaf.text)
        if amount is not None:
            rest = sorted(said - _OF_ALL - {"#"})
            found[" ".join(rest) if rest else "cell" if amount.dimension == "count" else ""] = amount
    return found


def kept(transition: Transition) -> Said:
    """What only moves, spins or is looked at holds as much of everything afterwards."""
    if not transition.success or transition.family not in (families.INERT, families.READ):
        return
    for before, after in transition.pairs():
        if before.unlimited or after.gone:
            continue
        now = amounts(after)
        for component, had in amounts(before).items():
            has = now.get(component)
            if has is None or has.dimension != had.dimension:
                continue
            yield Ran("L04", quantity=True)
            lost = component == "cell" and (transition.action in _LIVING or transition.family == families.READ)
            more = has.value > had.value * 105 / 100
            if more or (has.value < had.value * 95 / 100 and not lost):
                name = component or "substance"
                yield error(
                    "L04",
                    after.name,
                    had.text,
                    has.text,
                    f"the {name} in {after.name} went from {had.text} to {has.text}",
                    "5 %",
                )
