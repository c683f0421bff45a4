"""L04 for absolute amounts: counted cells, moles, and the content of dry materials."""

from collections.abc import Mapping

from simulation.checker.findings import Ran, Said, error
from simulation.checker.reading import families, units
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed

# Words of a key that do not name a component: "total viable cells" is a count of cells.
_OF_ALL = listed("total number count amount of cell viable live quantity")
# Counts of something else than the content: passages, wells, replicates.
_NOT_HELD = listed(
    "passage well tube vial replicate plate image lane scale event cycle step viability seeding initial target per"
)
# Cells may die, settle or be used up in these.
_LIVING = ("CellCounter", "Centrifuge", "FlashFreeze", "Storage", "Wait")


def amounts(view: View) -> Mapping[str, Amount]:
    """Return counts and moles by component; "cell" for cells."""
    amounts_by_component: dict[str, Amount] = {}
    for leaf in view.leaves:
        key_words = set(leaf.words)
        if key_words & _NOT_HELD or key_words & {"concentration", "density", "conc"}:
            continue
        amount = leaf.amount("count", "amount")
        number = units.number_and_rest(leaf.value)
        if (
            amount is None
            and "cell" in key_words
            and key_words <= _OF_ALL
            and (key_words & {"total", "count", "number"} or key_words == {"cell"})
            and number
            and not number[2].strip()
        ):
            amount = Amount(number[0], "count", number[1], leaf.text)
        if amount is not None:
            component_words = sorted(key_words - _OF_ALL - {"#"})
            amounts_by_component[
                " ".join(component_words) if component_words else "cell" if amount.dimension == "count" else ""
            ] = amount
    return amounts_by_component


def kept(transition: Transition) -> Said:
    """L04: a material that is only moved, spun or observed holds as much of everything afterwards."""
    if not transition.success or transition.family not in (families.INERT, families.READ):
        return
    for before, after in transition.pairs():
        if before.unlimited or after.gone:
            continue
        amounts_after = amounts(after)
        for component, amount_before in amounts(before).items():
            amount_after = amounts_after.get(component)
            if amount_after is None or amount_after.dimension != amount_before.dimension:
                continue
            yield Ran("L04", quantity=True)
            may_lose = component == "cell" and (transition.action in _LIVING or transition.family == families.READ)
            is_more = amount_after.value > amount_before.value * 105 / 100
            if is_more or (amount_after.value < amount_before.value * 95 / 100 and not may_lose):
                name = component or "substance"
                yield error(
                    "L04",
                    after.name,
                    amount_before.text,
                    amount_after.text,
                    f"the {name} in {after.name} went from {amount_before.text} to {amount_after.text}",
                    "5 %",
                )
