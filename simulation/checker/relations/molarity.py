"""L04: molar masses, molarities, and the share of an element in a mass."""

import re
from collections.abc import Iterable
from decimal import Decimal

from simulation.checker import chemistry
from simulation.checker.chemistry import Substance
from simulation.checker.findings import Findings, compare
from simulation.checker.reading import claims, units, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.relations.arithmetic import compare_computed, compile_label, find_term
from simulation.checker.relations.weighing import GROSS, MOLAR_MASS, TARE, claim_amount

_NAME_CONCENTRATION = re.compile(
    r"(?<![\w.-])([0-9]{1,6}(?:\.[0-9]{1,4})?)\s?(nM|µM|uM|mM|M|mol/L|mmol/L|µmol/L|millimolar|micromolar|ng/mL|µg/mL|mg/mL|mg/L|g/L)\s(?:of )?([A-Za-z][\w-]+)"
)

_FORMULA = re.compile(r"(?<![\w(])(?:[A-Z][a-z]?[0-9]{0,2}|\((?:[A-Z][a-z]?[0-9]{0,2}){1,4}\)[0-9]{0,2}){2,9}(?![\w)])")


def _find_molar_mass(view: MaterialView, found: Iterable[Claim]) -> Decimal | None:
    """Return the molar mass in g/mol that a material states, else that of the only substance in its name, or None."""
    stated = find_term([claim for claim in found if claim.value > 0], MOLAR_MASS, ("molecular_mass",))
    if stated is not None:
        return stated.value * 1000
    substance = chemistry.find_only_substance(view.name_words) or chemistry.find_only_substance(view.all_words)
    return substance.molar_mass if substance else None


def iter_name_concentrations(name: str) -> Iterable[tuple[str, Amount]]:
    """Yield (substance, concentration) of phrases like "5.0 mM ferrocene" in a name."""
    for number, unit, substance in _NAME_CONCENTRATION.findall(units.normalise_text(name[:400])):
        if (amount := units.parse_amount(f"{number} {unit}", "", units.CONCENTRATIONS)) is not None:
            yield substance.lower(), amount


def check_molar_amounts(transition: Transition) -> Findings:
    """L04: check molar masses, amounts and concentrations of weighed substances, and masses of elements."""
    for view in (*transition.inputs, *transition.usable_outputs):
        yield from _check_moles(view, claims.list_claims(transition, [view]))
    yield from _check_molarities(transition)
    yield from _check_element_masses(transition)
    yield from _check_contained(transition)


def _check_molarities(transition: Transition) -> Findings:
    """Yield an error unless a molar concentration follows from the mass weighed in, the molar mass and the volume."""
    solids = [(view, claims.list_claims(transition, [view])) for view in transition.inputs if not view.is_empty_vessel]
    weighed = [(view, own, mass) for view, own in solids if (mass := _find_weighed(view, own)) is not None]
    for view in transition.usable_outputs:
        yield from _check_both_concentrations(view, [own for _, own in solids])
        if (
            len(weighed) != 1
            or transition.family != words.ADD
            or not view.liquid_volume
            or transition.find_input(view) not in (None, weighed[0][0])
        ):
            continue
        source, own, mass = weighed[0]
        molar_mass = _find_molar_mass(source, own)
        volume = view.liquid_volume
        names = words.add_reagents(frozenset(word for word in source.all_words if len(word) > 2))
        if molar_mass is None:
            continue
        stated = [
            (name, amount) for name, amount in view.concentrations.items() if amount.dimension == "molar_concentration"
        ]
        stated += [pair for pair in iter_name_concentrations(view.name) if pair[1].dimension == "molar_concentration"]
        for name, amount in stated:
            if set(name.split()) <= names or not name:
                # µg over g/mol is µmol; over µL it is mol/L, and the base unit is µmol/L.
                expected = mass.value / molar_mass / volume * 1_000_000
                text = f"{mass.text} of {molar_mass:.5g} g/mol in {units.format_value(volume, 'volume')} are"
                yield from compare_computed(
                    "L04", view.name, expected, (mass,), claim_amount(amount), text, tolerance=Decimal("0.03")
                )


_DERIVATIVE = compile_label(
    r"\b\w*hydrate\b|\bhydrochloride\b|\bsalt\b|\bin\b|\bper\b|\bdisodium\b|\bsolution\b|\bbase pair\b"
)


def _check_moles(view: MaterialView, own: list[Claim]) -> Findings:
    """Yield an error if a stated molar mass is not that of the formula, or an amount not that of the mass."""
    own = [*own, *(c for c in claims.read_text(view.name) if c.dimension == "molecular_mass")]
    stated = find_term([claim for claim in own if claim.value > 0], MOLAR_MASS, ("molecular_mass",))
    substance = chemistry.find_only_substance(view.name_words)
    if stated and substance and not _DERIVATIVE.search(view.name) and view.volume is None:
        text = (
            f"{substance.formula} has a molar mass of {substance.molar_mass:.5g} g/mol, not {stated.value * 1000:.5g}"
        )
        expected, got = substance.molar_mass / 1000, stated.value
        allowed = expected * Decimal("0.015") + stated.step
        yield from compare("L04", view.name, expected, got, "molecular_mass", text, allowed, allowed)
    molar_mass = stated.value * 1000 if stated else substance.molar_mass if substance else None
    masses = [c for c in own if c.dimension == "mass" and c.value > 0 and not c.matches(TARE) and not c.matches(GROSS)]
    amounts = [c for c in own if c.dimension == "amount" and c.value > 0]
    if (
        molar_mass
        and len({c.value for c in masses}) == len({c.value for c in amounts}) == 1
        and not view.concentrations
    ):
        expected = masses[0].value / molar_mass * 1000
        text = f"{masses[0].text} of {molar_mass:.5g} g/mol are"
        yield from compare_computed(
            "L04", view.name, expected, (masses[0],), amounts[0], text, tolerance=Decimal("0.02")
        )


def _find_weighed(view: MaterialView, own: list[Claim]) -> Claim | None:
    """Return the mass of a weighed solid of one substance, or None."""
    if view.volume is not None or view.concentrations:
        return None
    masses = [c for c in own if c.dimension == "mass" and not c.matches(TARE) and not c.matches(GROSS) and c.value > 0]
    if not masses and view.mass is not None:
        return claim_amount(view.mass)
    return masses[0] if len({claim.value for claim in masses}) == 1 else None


def _check_both_concentrations(view: MaterialView, sources: list[list[Claim]]) -> Findings:
    """Yield an error unless a mass concentration and a molar concentration of one substance agree."""
    if len(view.concentrations) > 1:
        return
    leaves = [
        (leaf, leaf.parse_amount("mass_concentration"), leaf.parse_amount("molar_concentration"))
        for leaf in view.leaves
    ]
    by_mass = [amount for leaf, amount, _ in leaves if amount and "concentration" in leaf.word_set]
    by_number = [amount for leaf, _, amount in leaves if amount and "concentration" in leaf.word_set]
    stated = [
        claim for own in sources for claim in own if claim.matches(MOLAR_MASS) and claim.dimension == "molecular_mass"
    ]
    # "medium without glucose" names what it does not contain.
    is_negated = {"no", "without", "free", "minus"} & set(view.name_words)
    substance = None if is_negated else chemistry.find_only_substance(view.name_words)
    molar_mass = stated[0].value * 1000 if len(stated) == 1 else substance.molar_mass if substance else None
    if len(by_mass) == len(by_number) == 1 and molar_mass:
        expected = by_mass[0].value / molar_mass * 1000
        text = f"{units.format_value(by_mass[0].value, 'mass_concentration')} of {molar_mass:.5g} g/mol are"
        yield from compare_computed(
            "L04",
            view.name,
            expected,
            (claim_amount(by_mass[0]),),
            claim_amount(by_number[0]),
            text,
            tolerance=Decimal("0.03"),
        )


def _check_element_masses(transition: Transition) -> Findings:
    """Yield an error if a product has more of an element than the only weighed substance of that element brought."""
    solids = []
    for view in transition.inputs:
        mass = view.mass or next(
            (a for leaf in view.leaves if leaf.word_set == {"mas"} and (a := leaf.parse_amount("mass"))), None
        )
        formula = _find_formula(view)
        if mass is not None and formula is not None and view.volume is None:
            solids.append((view, mass, formula))
    if len(solids) != 1:
        return
    _, mass, substance = solids[0]
    elements = chemistry.count_elements(substance.formula)
    for output in transition.usable_outputs:
        for claim in claims.list_claims(transition, [output]):
            symbol = next((e for e in elements if re.search(rf"(?:^|\s){e.lower()}(?:\s|$)", claim.label)), "")
            if claim.dimension != "mass" or not symbol or symbol in ("H", "O", "C", "N"):
                continue
            share = chemistry.compute_molar_mass(symbol) * elements[symbol] / substance.molar_mass
            expected, shown = mass.value * share, units.format_value(mass.value, "mass")
            text = f"{shown} of {substance.formula} have at most {units.format_value(expected, 'mass')} of {symbol}"
            allowed = expected * Decimal("0.03") + claim.step
            yield from compare("L04", output.name, expected, claim.value, "mass", text, above=allowed)


_CONTAINED = compile_label(r"\bcontain\w*\b|\bin it\b|\bcontent\b|\bof which\b|\bcorrespond\w*\b|\bequivalent\b|\bas\b")


def _check_contained(transition: Transition) -> Findings:
    """Yield an error unless "chloride contained in 0.5867 g of AgCl" has the share of the formula."""
    for seen, found in claims.list_observed(transition):
        substance = chemistry.find_only_substance(set(words.tokenize(seen.description)))
        masses = [claim for claim in found if claim.dimension == "mass" and claim.value > 0]
        inside = [claim for claim in masses if claim.context and _CONTAINED.search(claim.label)]
        whole = [claim for claim in masses if not claim.context]
        if substance is None or len(inside) != 1 or len({claim.value for claim in whole}) != 1:
            continue
        named = {chemistry.ION_WORDS[word] for word in words.tokenize(inside[0].label) if word in chemistry.ION_WORDS}
        ions = named & set(substance.ions)
        if len(ions) == 1:
            ion = ions.pop()
            share = (
                chemistry.compute_molar_mass(chemistry.get_ion_formula(ion))
                * substance.ions[ion]
                / substance.molar_mass
            )
            text = f"{whole[0].text} of {substance.formula} contain, of {ion.capitalize()},"
            yield from compare_computed(
                "L04", seen.path, whole[0].value * share, whole, inside[0], text, tolerance=Decimal("0.02")
            )


def _find_formula(view: MaterialView) -> Substance | None:
    """Return the substance whose formula or name a material has, or None."""
    for formula in _FORMULA.findall(view.name):
        try:
            if len(chemistry.count_elements(formula)) > 1:
                return Substance(formula, chemistry.compute_molar_mass(formula), {})
        except KeyError:
            continue
    return chemistry.find_only_substance(view.name_words)
