"""L04 for weighed materials and counted amounts: moving, storing or observing neither creates nor destroys them.

Portions that were weighed are also checked for L07 (not more than there was) and L16 (as much as was set).
"""

from collections.abc import Mapping
from decimal import Decimal

from simulation.checker import chemistry
from simulation.checker.findings import Findings, compare
from simulation.checker.reading import flows, names, units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

ZERO = Decimal(0)
# Families of actions that may add matter to a material.
_ADDS_MATTER = (words.ADD, words.COMBINE, words.SERIAL, words.MAKE, words.CONTROL, words.UNKNOWN)
_DRY = (words.SOLID, words.PELLET, "")
_DRYING = ("Lyophilize", "Evaporate", "DryingOven", "Desiccate")
# Words in the name of a solution that do not name a second ingredient.
_NOT_INGREDIENTS = word_set("stock clear diluted pure")
# Solvents and mixtures that leave a residue when dried, so the dry mass is not that of one component.
_LEAVES_RESIDUE = word_set(
    "buffer pbs saline medium media tris hepes salt lysate extract dmem rpmi broth lb glycerol dmso matrix "
    "sucrose trehalose residue part"
)
# Shares of a mass. Powder sticks to vessels; residual moisture and losses on the wall are realistic when drying.
_GAIN, _LOSS, _DRIED_GAIN, _DRIED_LOSS = Decimal("0.02"), Decimal("0.05"), Decimal("0.4"), Decimal("0.3")
_WEIGHING = Decimal("0.05")  # share of a weighed portion
_COUNTING = Decimal("0.05")  # share of a counted amount
# Words of a key that do not name a component: "total viable cells" is a count of cells.
_TOTAL_WORDS = word_set("total number count amount of cell viable live quantity")
# Words for counts of something other than the content: passages, wells, replicates.
_OTHER_COUNTS = word_set(
    "passage well tube vial replicate plate image lane scale event cycle step viability seeding initial target per "
    "concentration density conc"
)
# Cells may die, settle or be used up in these actions.
_MAY_LOSE_CELLS = ("CellCounter", "Centrifuge", "FlashFreeze", "Storage", "Wait")


def check_masses(transition: Transition) -> Findings:
    """L04: compare the mass of each material before and after or, for a move, the masses of source and destinations."""
    if transition.family in _ADDS_MATTER:
        return
    if transition.family == words.MOVE:
        yield from _check_moved_mass(transition)
        return
    may_gain = transition.action in ("CellCultureIncubate", "Wash")
    may_lose = transition.family not in (words.INERT, words.READ)
    for before, after in transition.list_pairs():
        if transition.action in _DRYING and not after.is_used_up and after.mass is not None:
            yield from _check_dried_mass(before, after, after.mass.value)
    for before, after in transition.list_kept_pairs():
        if before.mass is not None and after.mass is not None:
            had, has = before.mass.value, after.mass.value
            above = None if may_gain else had * _GAIN + after.mass.step / 10
            is_split = any(
                view.mass is not None and transition.find_input(view) is None for view in transition.usable_outputs
            )
            below = None if may_lose or is_split else had * _LOSS + after.mass.step
            reason = "nothing was added to it" if has > had else "nothing was removed from it"
            yield from _compare_masses(after, had, has, reason, above, below)


def _check_dried_mass(before: MaterialView, after: MaterialView, mass: Decimal) -> Findings:
    """Yield an error unless a dried solution of one component weighs about as much as was dissolved."""
    if len(before.concentrations) != 1 or before.liquid_volume is None:
        return
    [(component, amount)] = before.concentrations.items()
    other_words = words.content_words(before.name) - set(component.split()) - _NOT_INGREDIENTS
    other_words = other_words - chemistry.list_words(component)
    if amount.dimension != "mass_concentration" or not component or other_words or before.all_words & _LEAVES_RESIDUE:
        return
    dissolved = amount.value * before.liquid_volume / 1000
    above, below = dissolved * _DRIED_GAIN, dissolved * _DRIED_LOSS
    yield from _compare_masses(after, dissolved, mass, "the first amount was dissolved", above, below)


def _compare_masses(
    after: MaterialView, expected: Decimal, found: Decimal, reason: str, above: Decimal | None, below: Decimal | None
) -> Findings:
    text = f"{after.name} weighed {_format_mass(expected)} and now weighs {_format_mass(found)}, although {reason}"
    yield from compare("L04", after.name, expected, found, "mass", text, above, below, limit="")


def _check_moved_mass(transition: Transition) -> Findings:
    """Yield an error unless a weighed portion is subtracted from its source and added to its destination."""
    source = flows.find_source(transition)
    if source is None or source.is_unlimited or source.mass is None or source.phase not in _DRY:
        return
    requested = transition.parameters.list_values("mass")
    if len(requested) == 1:
        yield from _check_portions(transition, source, source.mass, requested[0])
    masses_in = [view.mass.value for view in transition.limited_inputs if view.mass is not None]
    masses_out = [view.mass.value for view in transition.usable_outputs if view.mass is not None]
    if masses_out and all(view.is_empty_vessel or view.mass is not None for view in transition.limited_inputs):
        before, after = sum(masses_in, ZERO), sum(masses_out, ZERO)
        text = f"{_format_mass(after)} came out, but only {_format_mass(before)} went in"
        yield from compare("L04", transition.action, before, after, "mass", text, above=before * _GAIN)


def _check_portions(transition: Transition, source: MaterialView, held: Amount, requested: Decimal) -> Findings:
    remainder = transition.find_output(source)
    filled_outputs = [view for view in transition.usable_outputs if view is not remainder]
    total = requested * max(1, len(filled_outputs))
    text = f"{_format_mass(total)} was taken from {source.name}, which held {_format_mass(held.value)}"
    allowed = held.value * _GAIN
    yield from compare("L07", source.name, held.value, total, "mass", text, above=allowed)
    if total > held.value + allowed:
        return
    if remainder is not None and remainder.mass is not None and not remainder.is_used_up:
        left, allowed = remainder.mass.value, total * _WEIGHING + min(remainder.mass.step, held.value / 200)
        text = f"{_format_mass(total)} was taken from {_format_mass(held.value)} and {_format_mass(left)} is left"
        yield from compare("L04", remainder.name, held.value - total, left, "mass", text, allowed, allowed)
    for view in filled_outputs:
        before = transition.find_input(view)
        had_mass = before.mass.value if before is not None and before.mass is not None else ZERO
        is_known = before is None or before.is_empty_vessel or before.mass is not None
        if view.mass is not None and view.phase in _DRY and is_known:
            # Reported as L16, because the source is right and the destination differs from the setting.
            expected, found = had_mass + requested, view.mass.value
            text = f"{_format_mass(requested)} was moved into {view.name}, which now holds {_format_mass(found)}"
            allowed = expected * _WEIGHING
            yield from compare("L16", view.name, expected, found, "mass", text, allowed, allowed)


def _format_mass(mass: Decimal) -> str:
    return units.format_value(mass, "mass")


def find_counted_amounts(view: MaterialView) -> Mapping[str, Amount]:
    """Return {component: count or amount of substance} of a material. The component of a cell count is "cell"."""
    amounts_by_component: dict[str, Amount] = {}
    if (count := names.read_name(view.name).number) is not None and "cell" in count.text:
        amounts_by_component["cell"] = count
    for leaf in view.leaves:
        key_words = leaf.word_set
        if key_words & _OTHER_COUNTS:
            continue
        amount = leaf.parse_amount("count", "amount")
        number = units.split_number(leaf.value)
        is_cell_count = key_words == {"cell"} or (
            "cell" in key_words and key_words <= _TOTAL_WORDS and key_words & {"total", "count", "number"}
        )
        if amount is None and is_cell_count and number and not number[2].strip():
            amount = Amount(number[0], "count", number[1], leaf.value_text)
        if amount is not None:
            component = " ".join(sorted(key_words - _TOTAL_WORDS - {"#"}))
            amounts_by_component[component or ("cell" if amount.dimension == "count" else "")] = amount
    return amounts_by_component


def check_counted_amounts(transition: Transition) -> Findings:
    """L04: yield an error if a count or amount changes in an action that only moves, spins or observes the material."""
    if transition.family not in (words.INERT, words.READ):
        return
    may_lose_cells = transition.action in _MAY_LOSE_CELLS or transition.family == words.READ
    for before, after in transition.list_kept_pairs():
        amounts_after = find_counted_amounts(after)
        for component, old in find_counted_amounts(before).items():
            new = amounts_after.get(component)
            if new is not None and new.dimension == old.dimension:
                text = f"the {component or 'substance'} in {after.name} went from {old.text} to {new.text}"
                allowed = old.value * _COUNTING
                below = None if component == "cell" and may_lose_cells else allowed
                shown = (old.text, new.text)
                yield from compare("L04", after.name, old.value, new.value, "", text, allowed, below, "", shown)
