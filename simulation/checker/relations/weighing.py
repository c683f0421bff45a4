"""L04: totals from concentration and volume, densities from a pycnometer, and the condensate of an evaporation."""

from decimal import Decimal

from simulation.checker.findings import Findings, compare
from simulation.checker.reading import claims, units, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.relations.arithmetic import compare_computed, compile_label, find_term

ZERO = Decimal(0)
_MASS = ("mass",)


_VESSEL = r"(?:vial|boat|crucible|beaker|tube|flask|bottle|dish|paper|watch glass|pan|cup|vessel|container)"
GROSS = compile_label(
    rf"\bgross\b|\bfull\b|\bfilled\b|\b{_VESSEL}\b[^,;]{{0,15}}?(?:\+|\bplus\b|\bwith\b|\band\b)|\bwith (?:the )?(?:precipitate|content|sample|powder|agcl|liquid|acid|salt)\b"
    r"|\+ ?(?:agcl|precipitate|ppt|sample|powder|salt)\b|\bloaded\b"
)
TARE = compile_label(
    rf"\btare\b|\bempty\b|\b{_VESSEL} alone\b|^(?:mass of (?:the )?|weight of (?:the )?)?(?:the )?{_VESSEL}(?: mass| weight)?(?: m?g)?$"
)
_TOTAL = compile_label(
    r"\btotal\w*\b|\bin all\b|\ball(?: in)?\b|\baltogether\b|\bremaining\b|\bleft\b|\bstill\b|\bholds?\b|\bcontains?\b|\bamounts? to\b|\bn (?:mini)?cells?\b|\byield\b|\bsubstance amount\b|\bstoffmenge\b|\bmoles\b"
)
_ALL_CELLS = compile_label(
    r"(?:number of |total |viable |live )?(?:cells?|mini-?cells?|particles)(?: number| count)?(?: in (?:total|all|suspension))?"
)
_OTHER_COUNTED = compile_label(r"\bmini-?cells?\b|\bparticles?\b|\bphages?\b|\bbeads?\b|\bvirions?\b")
# Each output is one vessel, so what is "per tube" is the total of it.
_PER_VESSEL = compile_label(r"\bper (?:tube|vial|aliquot|portion|cryovial)\b|\bdose\b")
_NOT_TOTAL = compile_label(
    r"\bper\b|\bused\b|\btaken\b|\bloaded\b|\bmax\w*\b|\bcapacity\b|\bbefore\b|\binput\b|\bof [0-9.]+\b|\brecover\w*\b|\badded\b|\bmolar\b|/|\bfrom\b|\bsource\b|\btarget\b|\bdead\b|\blive\b"
)
_ELEMENT_LABEL = compile_label(r"^[a-z]{1,2} total\b|^total (?!of|in|on)[a-z]{1,2}\b")
_PER_VOLUME = {"mass": "mass_concentration", "count": "number_density", "amount": "molar_concentration"}
MOLAR_MASS = compile_label(r"\bmolar\b|\bmolecular\b|^m\b|\bmw\b|\bg/mol\b|^.*\bformula weight\b")
_WEIGHED = compile_label(r"\bmass\b|\bweigh\w*\b|\bamount\b|\bportion\b|\bpowder\b|\bsolid\b")


def check_weighing(transition: Transition) -> Findings:
    """L04: check totals, densities and condensates."""
    outputs = transition.usable_outputs
    for view in outputs:
        own = claims.list_claims(transition, [view])
        yield from _check_totals(transition, view, own)
    for seen, found in claims.list_observed(transition):
        yield from _check_density(transition, seen.path, found)
        yield from _check_recorded_total(seen.path, found)
    if transition.action in ("Evaporate", "Lyophilize"):
        yield from _check_condensate(transition)


_DENSITY = compile_label(r"\bdensity\b")


def _check_density(transition: Transition, subject: str, found: list[Claim]) -> Findings:
    """Yield an error unless a density is the mass of the liquid in a pycnometer over its volume."""
    volumes = [
        amount.value for leaf, amount in transition.parameters.list_amounts("volume") if "sample" in leaf.word_set
    ]
    stated = find_term([c for c in found if c.value > 100_000], _DENSITY, ("mass_concentration", "density"))
    if transition.action != "MeasureDensity" or len(volumes) != 1 or stated is None:
        return
    empty, full = find_term(found, TARE, _MASS), find_term([c for c in found if not c.matches(TARE)], GROSS, _MASS)
    if empty and full and full.value > empty.value and stated.dimension == "mass_concentration":
        # µg over µL is mg/mL.
        expected = (full.value - empty.value) / volumes[0] * 1000
        text = (
            f"{units.format_value(full.value - empty.value, 'mass')} in {units.format_value(volumes[0], 'volume')} are"
        )
        yield from compare_computed("L20", subject, expected, (), stated, text)


def _check_recorded_total(subject: str, found: list[Claim]) -> Findings:
    """Yield an error unless "100 ng/µL; total 4.9 µg in 49 µL" adds up."""
    for dimension, by_volume in _PER_VOLUME.items():
        densities = {c.value: c for c in found if c.dimension == by_volume and c.value > 0}
        volumes = {c.value: c for c in found if c.dimension == "volume" and c.value > 0}
        totals = {
            c.value: c
            for c in found
            if c.dimension == dimension and c.matches(compile_label(r"\btotal\b|\bin all\b|\byield\b"))
        }
        if len(densities) == len(volumes) == len(totals) == 1:
            [density], [volume], [total] = (list(group.values()) for group in (densities, volumes, totals))
            expected = density.value * volume.value / 1000
            # Per millilitre of what is loaded or drawn is not per millilitre of what is left.
            if Decimal("0.2") < total.value / expected < Decimal(5) or total.value > expected:
                text = f"{density.text} in {volume.text} are"
                yield from compare_computed(
                    "L20", subject, expected, (density, volume), total, text, tolerance=Decimal("0.06")
                )


def _check_condensate(transition: Transition) -> Findings:
    """Yield an error if what is left and what was evaporated are more than there was."""
    wet = [view for view in transition.limited_inputs if view.liquid_volume]
    outputs = [view for view in transition.outputs if view.liquid_volume]
    if len(wet) == 1 and len(outputs) > 1:
        had, has = wet[0].liquid_volume or ZERO, sum((view.liquid_volume or ZERO for view in outputs), ZERO)
        text = f"{units.format_value(has, 'volume')} came out of {units.format_value(had, 'volume')}"
        yield from compare("L02", transition.action, had, has, "volume", text, above=had * Decimal("0.03"))


def _check_totals(transition: Transition, view: MaterialView, own: list[Claim]) -> Findings:
    """Yield an error unless a stated total is the concentration times the volume of the material."""
    if not view.liquid_volume or view.volume is None:
        return
    for claim in own:
        is_cells = claim.dimension in ("", "count") and _ALL_CELLS.fullmatch(claim.label) is not None
        dimension = _PER_VOLUME.get("count" if is_cells else claim.dimension)
        if (
            dimension is None
            or not (is_cells or claim.matches(_TOTAL) or claim.matches(_PER_VESSEL))
            or _NOT_TOTAL.search(_PER_VESSEL.sub("", claim.label))
            or claim.value <= 0
        ):
            continue
        fitting = {name: a for name, a in view.concentrations.items() if a.dimension == dimension}
        named = {
            name: a
            for name, a in fitting.items()
            if set(name.split()) & words.add_reagents(frozenset(words.tokenize(claim.label)))
        }
        # "P total" is not the total of what "Ca concentration" gives.
        of_others = bool(_ELEMENT_LABEL.search(claim.label)) and not named and all(fitting)
        # The number of the cells is not that of the minicells, particles or phages that were added to them.
        if dimension == "number_density" and not _OTHER_COUNTED.search(claim.label):
            others = {c.value for c in own if _OTHER_COUNTED.search(c.label)}
            of_others |= any(amount.value in others for amount in fitting.values())
        amounts = [] if of_others else list((named or fitting).values())
        if len(amounts) != 1:
            continue
        expected = amounts[0].value * view.liquid_volume / 1000
        terms = (claim_amount(amounts[0]), claim_amount(view.volume))
        text = f"{units.format_value(amounts[0].value, dimension)} in {units.format_value(view.liquid_volume, 'volume')} is"
        yield from compare_computed("L04", view.name, expected, terms, claim, text, tolerance=Decimal("0.05"))


def claim_amount(amount: Amount) -> Claim:
    return Claim("", amount.value, amount.dimension, min(amount.step, abs(amount.value) / 20), amount.text)
