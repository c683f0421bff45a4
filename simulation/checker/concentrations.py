"""L04: moving and mixing neither creates nor destroys a substance, and no output is stronger than the strongest input."""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from simulation.checker import chemistry
from simulation.checker.findings import Findings, compare, undecided_finding
from simulation.checker.reading import flows, units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.lab import quantities

ZERO = Decimal(0)
_TOLERANCE = Decimal("0.05")  # share of a concentration: error of pipetting
_MEASURED_TOLERANCE = Decimal("0.2")  # a measurement may replace a nominal concentration by the measured one
_TOTAL_TOLERANCE = Decimal("0.06")  # share of a total amount
_EVAPORATION_TOLERANCE = Decimal("0.15")
_EVAPORATION_GAIN = Decimal("0.3")  # share by which evaporation during a reaction may concentrate a reagent
# Components that may react when mixed: precipitants, acids, bases, oxidisers.
_REACTIVE = word_set(
    "silver agno3 chloride barium lead acid hcl hydrochloric nitric hno3 sulfuric naoh koh hydroxide base ammonia "
    "peroxide iodine permanganate thiosulfate bicarbonate carbonate dithiothreitol dtt tcep"
)
_CONCENTRATED = word_set("stock concentrate concentrated conc 10x 20x 50x 100x")
# Components that a material may contain without mentioning them: cells contain DNA and protein.
UNMENTIONED = word_set("cell dna rna protein nucleic acid plasmid particle")
# Ready-made reagents that cells may also produce during a step.
_PRODUCED_BY_CELLS = word_set("gfp mcherry lentivirus aav hek293t hek293 cho hela antibody")


def check_component_amounts(transition: Transition) -> Findings:
    """L04: check every component's total amount, highest concentration, and concentrations that must not change."""
    if transition.family in (words.MAKE, words.CONTROL, words.UNKNOWN):
        return
    for component in sorted({name for view in transition.usable_outputs for name in view.concentrations}):
        yield from _check_total(transition, component)
        yield from _check_maximum(transition, component)
    yield from _check_eluted(transition)
    if transition.family != words.COMBINE:
        for source, _, remainder, _ in flows.trace_liquids(transition).withdrawals:
            if remainder is not None and not remainder.is_used_up and not source.is_unlimited:
                yield from _check_unchanged_concentrations(transition, source, remainder)
    # Reactions go on while waiting; a magnet pulls beads out of the liquid.
    keeps_concentrations = transition.family in (words.INERT, *words.MEASUREMENTS)
    if keeps_concentrations and transition.action not in ("Wait", "ApplyMagnet"):
        for before, after in transition.list_kept_pairs():
            yield from _check_unchanged_concentrations(transition, before, after)


def _check_eluted(transition: Transition) -> Findings:
    """Yield an error if more of a component came off a cartridge or filter than the portion that was drawn had."""
    new_outputs = [
        view for view in transition.usable_outputs if transition.find_input(view) is None and view.liquid_volume
    ]
    for before, after in transition.list_kept_pairs() if transition.action == "SolidPhaseExtraction" else ():
        if transition.parameters.has_named(before) or before.liquid_volume is None or after.liquid_volume is None:
            continue
        drawn = before.liquid_volume - after.liquid_volume
        for component, amount in before.concentrations.items():
            eluted = [
                v for v in new_outputs if getattr(v.concentrations.get(component), "dimension", "") == amount.dimension
            ]
            total = sum(((v.liquid_volume or ZERO) * v.concentrations[component].value for v in eluted), ZERO)
            loaded = drawn * amount.value
            if eluted and drawn > 0 and amount.dimension != "ratio":
                change = f"multiplied by {quantities.format_number(total / loaded)}" if loaded else "created"
                text = f"the loaded amount of {component or 'the component'} was {change} in the elution"
                yield from compare("L04", after.name, loaded, total, "", text, above=loaded * _TOTAL_TOLERANCE)


def find_concentration(view: MaterialView, component: str, dimension: str) -> Decimal | None:
    """Return the concentration of a component in base units: zero if the material cannot have it, None if unknown."""
    component_words = set(component.split())
    amount = view.concentrations.get(component)
    # "conc: 20 µM" of a solution made with "HBSS, 20 mM HEPES" is not that of the HEPES in the name.
    if (
        not component
        and view.has_named_concentration
        and words.SOLVENTS & set(words.tokenize(view.name.split(" in ")[0]))
    ):
        return ZERO
    # A concentration without a component's name is that of the only component, whichever side omits the name.
    if amount is None and len(view.concentrations) == 1:
        [(only_component, only_amount)] = view.concentrations.items()
        is_named = only_component == "" and component_words & view.all_words and only_amount.dimension == dimension
        # A solvent whose only component is counted in another unit does not have the unnamed one.
        if not component and only_amount.dimension != dimension and words.SOLVENTS & set(view.name_words):
            return ZERO
        if not component or is_named:
            amount = only_amount
    # "puro" is puromycin: records shorten the names of what they add.
    if amount is None and len(component) > 3 and component.isalpha():
        longer = [
            a for name, a in view.concentrations.items() if name.startswith(component) and a.dimension == dimension
        ]
        amount = longer[0] if len(longer) == 1 else None
    if amount is not None:
        return amount.value if amount.dimension == dimension else None
    if component and is_denied(view, component):
        return ZERO
    if ion := chemistry.find_ion(component):
        return _find_ion_concentration(view, ion, dimension)
    if view.is_empty_vessel or (view.liquid_volume == 0 and view.phase not in (words.SOLID, words.PELLET)):
        return ZERO
    is_mentioned = bool(component_words & words.add_reagents(view.all_words))
    if component and not view.is_unlimited and not is_mentioned:
        # A component that its text does not mention is absent if the composition is listed or the substance is
        # ready-made.
        lists_composition = (
            bool(view.concentrations) and not view.has_named_concentration and not component_words & UNMENTIONED
        )
        if lists_composition or component_words <= words.REAGENTS - _PRODUCED_BY_CELLS:
            return ZERO
    # "10 mM in DMSO" is DMSO for the most part.
    if (
        dimension == "ratio"
        and component
        and words.content_words(view.name) - {"pure", "absolute", "neat"} == component_words
    ):
        return Decimal(100)
    if dimension == "ratio" and re.search(rf"\bin (?:pure |dry |neat )?{re.escape(component)}\b", _join_texts(view)):
        return Decimal(100)
    is_pure = words.SOLVENTS & set(view.name_words) and not view.concentrations
    return ZERO if is_pure and not is_mentioned else None


_DENIED = re.compile(
    r"\b(?:no|without|free of|lacks?|lacking|ohne|kein|keine|sin|sans|senza)\s(?:added\s)?([A-Za-z][\w+-]{0,20})|([A-Za-z][\w+]{0,20})-free\b"
)


def is_denied(view: MaterialView, component: str) -> bool:
    """Return whether a material says that it lacks a component: "no K", "Mg-free", or "puromycin present: false"."""
    component_words = set(component.split())
    substance = chemistry.find_substance(frozenset(component_words))
    ions = set(substance.ions) if substance else set()
    texts = (view.name, *(leaf.value_text for leaf in view.leaves))
    denied = {
        word for text in texts for match in _DENIED.findall(text[:300]) for word in words.tokenize(" ".join(match))
    }
    for leaf in view.leaves:
        if leaf.value is False or leaf.value_text.strip().lower() in ("none", "no", "absent"):
            denied |= leaf.word_set
    return bool(denied & component_words) or bool(ions & {word.strip("+-0123456789") for word in denied})


def _join_texts(view: MaterialView) -> str:
    return " ; ".join((view.name, *(leaf.value_text for leaf in view.leaves))).lower()


def _find_ion_concentration(view: MaterialView, ion: str, dimension: str) -> Decimal | None:
    """Return what the salts listed for a material bring of an ion, in µM, or None if it may have other sources."""
    if view.is_empty_vessel or view.liquid_volume == 0:
        return ZERO if view.is_empty_vessel else None
    total, listed_words = ZERO, set()
    for component, amount in view.concentrations.items():
        substance = chemistry.find_substance(frozenset(component.split()))
        if substance is None:
            continue
        listed_words |= set(component.split())
        if (count := substance.ions.get(ion)) is not None:
            if amount.dimension == "mass_concentration":
                # µg/mL over g/mol is mmol/L, and the base unit is µmol/L.
                total += count * amount.value / substance.molar_mass * 1000
            elif amount.dimension == "molar_concentration":
                total += count * amount.value
            else:
                return None
    has_other_source = chemistry.has_source(ion, view.source_words - listed_words)
    return None if has_other_source or dimension != "molar_concentration" else total


def share_component(component: str, views: Iterable[MaterialView]) -> bool:
    """Return whether a component is the same in all materials: without a name, only if their names have a word in common."""
    if component:
        return True
    names = [words.content_words(view.name) for view in views if "" in view.concentrations and view.liquid_volume != 0]
    return len(names) < 2 or bool(frozenset.intersection(*names))


def can_persist(component: str, others: Iterable[MaterialView]) -> bool:
    """Return whether no other material can use up a component. If a reaction is conceivable, the answer is False."""
    is_titrant = {"hcl", "naoh", "koh", "h2so4", "acid", "hydroxide"} & set(component.split())
    if is_titrant and any({"tris", "hepe", "buffer", "phosphate"} & view.all_words for view in others):
        return False
    return not set(component.split()) & _REACTIVE or all(
        view.is_empty_vessel
        or view.liquid_volume == 0
        or component in view.concentrations
        or words.SOLVENTS & set(view.name_words)
        for view in others
    )


def may_be_product(component: str, views: Sequence[MaterialView]) -> bool:
    """Return whether no material mentions the component, and it is an ion or some material is reactive."""
    component_words = set(component.split()) - {"excess"}
    if not component_words or any(component_words & words.add_reagents(view.all_words) for view in views):
        return False
    is_ion = any(word.endswith(("+", "-")) for word in component_words)
    return is_ion or any(view.all_words & _REACTIVE for view in views)


def _check_total(transition: Transition, component: str) -> Findings:
    """Compare a component's total amount (C V summed over all materials) before and after, if all amounts are known."""
    if transition.family == words.COMBINE and may_be_product(component, transition.inputs):
        return
    if not share_component(component, transition.inputs):
        return
    outputs = transition.usable_outputs
    dimension = next(view.concentrations[component].dimension for view in outputs if component in view.concentrations)
    # Evaporation removes solvent only, so a dissolved component is conserved; other removals may take it along.
    is_evaporation = transition.action == "Evaporate" and not set(component.split()) & words.SOLVENTS
    may_change = transition.family in (words.HEAT, words.TAKE) and not is_evaporation
    if dimension in ("ratio", "fold") or may_change or transition.action == "Wait":
        return
    # A measurement may write its result into a material of which the concentration was not known.
    is_new = not any(component in view.concentrations for view in transition.inputs)
    if is_new and transition.family in words.MEASUREMENTS:
        return
    total_in = _compute_total(transition.inputs, component, dimension)
    total_out = _compute_total(outputs, component, dimension)
    if total_in is None or total_out is None:
        yield undecided_finding(
            "L04", transition.action, f"not every amount of {component or 'the component'} is known"
        )
        return
    # A loss is an error only if every wet input has an output: a discarded source takes its amount with it.
    wet_inputs = [view for view in transition.limited_inputs if view.liquid_volume and not view.is_empty_vessel]
    is_conserved = (
        can_persist(component, transition.inputs)
        and (is_evaporation or transition.family in (words.MOVE, words.ADD, words.COMBINE))
        and all(transition.find_output(view) is not None for view in wet_inputs)
    )
    allowed = max(total_in, total_out) * (_EVAPORATION_TOLERANCE if is_evaporation else _TOTAL_TOLERANCE)
    change = f"multiplied by {quantities.format_number(total_out / total_in)}" if total_in else "created"
    text = f"the amount of {component or 'the component'} was {change} in this step"
    subject, below = describe_component(component), allowed if is_conserved else None
    yield from compare("L04", subject, total_in, total_out, "", text, allowed, below, limit="")


def _compute_total(views: Iterable[MaterialView], component: str, dimension: str) -> Decimal | None:
    """Return the sum of concentration times volume, in a unit used only in this check, or None if one is unknown."""
    total = ZERO
    for view in views:
        concentration = find_concentration(view, component, dimension)
        if concentration == 0:
            continue
        if concentration is None or view.is_unlimited or view.liquid_volume is None:
            return None
        total += concentration * view.liquid_volume / 1000
    return total


def _check_maximum(transition: Transition, component: str) -> Findings:
    """Yield an error if an output is more concentrated than every input, unless the action can concentrate it."""
    if transition.action in (*words.CONCENTRATES, "Thermocycler", "CellCounter", "qPCR"):
        return
    if transition.family in words.MEASUREMENTS:
        return
    # Cells grow and reactions form products; only ready-made reagents have a limit then.
    may_grow = transition.family == words.HEAT or transition.action == "Wait"
    if may_grow and (component == "cell" or not set(component.split()) & words.REAGENTS):
        return
    for output in transition.usable_outputs:
        got = output.concentrations.get(component)
        is_attached = transition.family == words.TAKE and got is not None and got.dimension == "number_density"
        if got is None or is_attached or got.dimension == "ratio":
            continue
        known = [find_concentration(view, component, got.dimension) for view in transition.inputs]
        concentrations = [amount for amount in known if amount is not None]
        # A working buffer may contain the component, but not ten times as much as the strongest stock.
        unknown = [view for view, amount in zip(transition.inputs, known, strict=True) if amount is None]
        is_working = all(words.SOLVENTS & v.all_words and not _CONCENTRATED & v.all_words for v in unknown)
        if not concentrations or (unknown and not is_working):
            continue
        highest = max(concentrations) * (10 if unknown else 1)
        allowed = highest * (_EVAPORATION_GAIN if may_grow else _TOLERANCE) + rounding_margin(got)
        shown = units.format_value(highest, got.dimension)
        text = f"{describe_amount(component, output, got)}; no input has more than {shown}"
        # If no input has the component, its origin is left to check L01.
        above = allowed if highest else None
        yield from compare("L04", output.name, highest, got.value, got.dimension, text, above, limit="at most")


def _check_unchanged_concentrations(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a concentration changes in an action that only moves, spins, stores or measures."""
    for component, old, new in iter_shared_concentrations(before, after):
        # A compound that was added while reading is checked with its dose.
        if any(
            component in view.concentrations for view in transition.list_compounds()
        ) and not transition.parameters.has_named(before):
            continue
        # Cells sediment or die in these actions.
        if component == "cell" and transition.action in ("Centrifuge", "Storage", "FlashFreeze"):
            continue
        tolerance = _MEASURED_TOLERANCE if transition.family in words.MEASUREMENTS else _TOLERANCE
        allowed = old.value * tolerance + rounding_margin(new) + rounding_margin(old)
        had, has = (units.format_value(amount.value, amount.dimension) for amount in (old, new))
        text = f"{describe_component(component)} in {after.name} went from {had} to {has}; "
        text += f"{transition.action} does not change concentrations"
        yield from compare("L04", after.name, old.value, new.value, old.dimension, text, allowed, allowed)


def iter_shared_concentrations(before: MaterialView, after: MaterialView) -> Iterator[tuple[str, Amount, Amount]]:
    """Yield (component, concentration before, concentration after) if both concentrations have the same dimension."""
    for component, amount_before in before.concentrations.items():
        amount_after = after.concentrations.get(component)
        if amount_after is not None and amount_after.dimension == amount_before.dimension:
            yield component, amount_before, amount_after


def tolerance_margin(got: Amount, expected: Decimal) -> Decimal:
    return abs(expected) * _TOLERANCE + rounding_margin(got)


def rounding_margin(amount: Amount) -> Decimal:
    # "1 mg/mL" may be rounded from 1.4; without a cap that would let every error pass.
    return min(amount.step, abs(amount.value) * _TOLERANCE)


def describe_component(component: str) -> str:
    return f"{component} concentration".strip()


def describe_amount(component: str, view: MaterialView, got: Amount) -> str:
    return f"{describe_component(component)} in {view.name} is {units.format_value(got.value, got.dimension)}"
