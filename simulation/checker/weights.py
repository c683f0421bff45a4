"""L04 for weighed materials and counted amounts."""

from collections.abc import Mapping
from decimal import Decimal

from simulation.checker.findings import Decided, Finding, Findings, error_finding
from simulation.checker.reading import families, flows, units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

# Families of actions that may add matter to a material.
_ADDS_MATTER = (families.ADD, families.COMBINE, families.SERIAL, families.MAKE, families.CONTROL, families.UNKNOWN)
_DRY = ("solid", "pellet", "")
_DRYING = ("Lyophilize", "Evaporate", "DryingOven", "Desiccate")
# Words in the name of a solution that do not name a second ingredient.
_NOT_INGREDIENTS = word_set("stock clear diluted pure")
# Solvents and mixtures that leave a residue when dried, so the dry mass is not that of one component.
_LEAVES_RESIDUE = word_set("buffer pbs saline medium media tris hepes salt lysate extract dmem rpmi broth lb glycerol dmso matrix "
                "sucrose trehalose residue part")  # fmt: skip
_GAIN, _LOSS = Decimal("1.02"), Decimal("0.95")  # factors of the mass before; powder sticks to vessels


def check_masses(transition: Transition) -> Findings:
    """L04: compare the mass of each material before and after or, for a move, the masses of source and destinations."""
    if not transition.is_success or transition.family in _ADDS_MATTER:
        return
    if transition.family == families.MOVE:
        yield from _check_moved_mass(transition)
        return
    for before, after in transition.list_pairs():
        if transition.action in _DRYING:
            yield from _check_dried_mass(before, after)
        if before.mass is None or after.mass is None or before.is_unlimited or after.is_used_up:
            continue
        yield Decided("L04", quantity=True)
        mass_before, mass_after = before.mass, after.mass
        if mass_after.value > mass_before.value * _GAIN + mass_after.step / 10 and transition.action not in (
            "CellCultureIncubate",
            "Wash",
        ):
            yield _mass_error(after, mass_before.value, mass_after.value, "nothing was added to it")
        elif mass_after.value < mass_before.value * _LOSS - mass_after.step and transition.family in (
            families.INERT,
            families.READ,
        ):
            yield _mass_error(after, mass_before.value, mass_after.value, "nothing was removed from it")


def _check_dried_mass(before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error unless a dried solution of one component weighs about as much as was dissolved."""
    if len(before.concentrations) != 1 or before.liquid_volume is None or after.mass is None or after.is_used_up:
        return
    component, amount = next(iter(before.concentrations.items()))
    other_words = words.content_words(before.name) - set(component.split()) - _NOT_INGREDIENTS
    if amount.dimension != "mass_concentration" or not component or other_words or before.all_words & _LEAVES_RESIDUE:
        return
    yield Decided("L04", quantity=True)
    dissolved = amount.value * before.liquid_volume / 1000
    # Wide, because residual moisture and losses on the wall are realistic.
    if not dissolved * Decimal("0.7") <= after.mass.value <= dissolved * Decimal("1.4"):
        yield _mass_error(after, dissolved, after.mass.value, "the first amount was dissolved")


def _check_moved_mass(transition: Transition) -> Findings:
    """Yield an error unless a weighed portion is subtracted from its source and added to its destination."""
    requested = [amount for _, amount in transition.parameters.list_amounts("mass")]
    source = flows.find_source(transition)
    if source is None or source.is_unlimited or source.mass is None or source.phase not in _DRY:
        return
    remainder = transition.find_output(source)
    filled_outputs = [view for view in transition.usable_outputs if view is not remainder]
    if len(requested) == 1:
        yield from _check_portions(transition, source, requested[0], filled_outputs)
    total_in = [view.mass for view in transition.limited_inputs if view.mass is not None]
    total_out = [view.mass for view in transition.usable_outputs if view.mass is not None]
    if (
        total_in
        and total_out
        and all(view.is_empty_vessel or view.mass is not None for view in transition.limited_inputs)
    ):
        yield Decided("L04", quantity=True)
        before, after = sum((a.value for a in total_in), Decimal(0)), sum((a.value for a in total_out), Decimal(0))
        if after > before * _GAIN:
            yield error_finding(
                "L04",
                transition.action,
                f"at most {_format_mass(before)}",
                _format_mass(after),
                f"{_format_mass(after)} came out, but only {_format_mass(before)} went in",
                "2 %",
            )


def _check_portions(
    transition: Transition, source: MaterialView, requested: Amount, filled_outputs: list[MaterialView]
) -> Findings:
    assert source.mass is not None
    total = requested.value * max(1, len(filled_outputs))
    yield Decided("L07", quantity=True)
    if total > source.mass.value * _GAIN:
        yield error_finding(
            "L07",
            source.name,
            f"at most {_format_mass(source.mass.value)}",
            _format_mass(total),
            f"{_format_mass(total)} was taken from {source.name}, which held {_format_mass(source.mass.value)}",
        )
        return
    remainder = transition.find_output(source)
    expected_rest = source.mass.value - total
    if remainder is not None and remainder.mass is not None and not remainder.is_used_up:
        yield Decided("L04", quantity=True)
        if abs(remainder.mass.value - expected_rest) > total * Decimal("0.05") + min(
            remainder.mass.step, source.mass.value / 200
        ):
            yield error_finding(
                "L04",
                remainder.name,
                _format_mass(expected_rest),
                _format_mass(remainder.mass.value),
                f"{_format_mass(total)} was taken from {_format_mass(source.mass.value)} and {_format_mass(remainder.mass.value)} is left",
                "5 %",
            )
    for view in filled_outputs:
        input_before = transition.find_input(view)
        mass_before = (
            input_before.mass.value if input_before is not None and input_before.mass is not None else Decimal(0)
        )
        if (
            view.mass is not None
            and view.phase in _DRY
            and (input_before is None or input_before.is_empty_vessel or input_before.mass is not None)
        ):
            # Reported as L16, because the source is right and the destination differs from the setting.
            yield Decided("L16", quantity=True)
            if abs(view.mass.value - mass_before - requested.value) > (requested.value + mass_before) * Decimal("0.05"):
                yield error_finding(
                    "L16",
                    view.name,
                    _format_mass(mass_before + requested.value),
                    _format_mass(view.mass.value),
                    f"{_format_mass(requested.value)} was moved into {view.name}, which now holds {_format_mass(view.mass.value)}",
                    "5 %",
                )


def _mass_error(after: MaterialView, mass_before: Decimal, mass_after: Decimal, reason: str) -> Finding:
    return error_finding(
        "L04",
        after.name,
        _format_mass(mass_before),
        _format_mass(mass_after),
        f"{after.name} weighed {_format_mass(mass_before)} and now weighs {_format_mass(mass_after)}, although {reason}",
        "2 %",
    )


def _format_mass(mass: Decimal) -> str:
    return units.format_value(mass, "mass")


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
