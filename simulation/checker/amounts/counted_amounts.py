"""L04 for absolute amounts: counted cells, moles, and the content of dry materials."""

from collections.abc import Mapping

from simulation.checker.findings import Decided, Findings, error_finding
from simulation.checker.reading import families, units
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

# Words of a key that do not name a component: "total viable cells" is a count of cells.
_TOTAL_WORDS = word_set("total number count amount of cell viable live quantity")
# Words for counts of something other than the content: passages, wells, replicates.
_OTHER_COUNTS = word_set(
    "passage well tube vial replicate plate image lane scale event cycle step viability seeding initial target per"
)
# Cells may die, settle or be used up in these actions.
_MAY_LOSE_CELLS = ("CellCounter", "Centrifuge", "FlashFreeze", "Storage", "Wait")


def find_counted_amounts(view: MaterialView) -> Mapping[str, Amount]:
    """Return {component: count or amount of substance} of a material. The component of a cell count is "cell"."""
    amounts_by_component: dict[str, Amount] = {}
    for leaf in view.leaves:
        key_words = set(leaf.words)
        if key_words & _OTHER_COUNTS or key_words & {"concentration", "density", "conc"}:
            continue
        amount = leaf.parse_amount("count", "amount")
        number = units.split_number(leaf.value)
        if (
            amount is None
            and "cell" in key_words
            and key_words <= _TOTAL_WORDS
            and (key_words & {"total", "count", "number"} or key_words == {"cell"})
            and number
            and not number[2].strip()
        ):
            amount = Amount(number[0], "count", number[1], leaf.value_text)
        if amount is not None:
            component_words = sorted(key_words - _TOTAL_WORDS - {"#"})
            amounts_by_component[
                " ".join(component_words) if component_words else "cell" if amount.dimension == "count" else ""
            ] = amount
    return amounts_by_component


def check_counted_amounts(transition: Transition) -> Findings:
    """L04: yield an error if a count or amount changes in an action that only moves, spins or observes the material."""
    if not transition.is_success or transition.family not in (families.INERT, families.READ):
        return
    for before, after in transition.list_pairs():
        if before.is_unlimited or after.is_used_up:
            continue
        amounts_after = find_counted_amounts(after)
        for component, amount_before in find_counted_amounts(before).items():
            amount_after = amounts_after.get(component)
            if amount_after is None or amount_after.dimension != amount_before.dimension:
                continue
            yield Decided("L04", quantity=True)
            may_lose = component == "cell" and (
                transition.action in _MAY_LOSE_CELLS or transition.family == families.READ
            )
            is_more = amount_after.value > amount_before.value * 105 / 100
            if is_more or (amount_after.value < amount_before.value * 95 / 100 and not may_lose):
                name = component or "substance"
                yield error_finding(
                    "L04",
                    after.name,
                    amount_before.text,
                    amount_after.text,
                    f"the {name} in {after.name} went from {amount_before.text} to {amount_after.text}",
                    "5 %",
                )
