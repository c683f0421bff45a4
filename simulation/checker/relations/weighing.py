"""L04: weighed amounts: gross, tare and net, loss on drying, totals, molarities and the share of an element in a mass."""

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
_SUBSTANCE = (
    r"(?:powder|salt|precipitate|agcl|acid|liquid|solid|product|substance|caffeine|ferrocene|content|crystals|pellet)s?"
)
_NET = compile_label(
    rf"\bnet\w*\b|\bby diff(?:erence|\.)?|\b{_SUBSTANCE} alone\b|\bof (?:agcl|precipitate) by\b|\bprecipitate mass\b|\bmass of (?:the )?(?:precipitate|agcl)\b"
    rf"|^(?:mass of |weight of )?(?:the )?{_SUBSTANCE}(?: mass| weight)?(?: value)?(?: m?g)?$"
)
# A weighing of an earlier time, of which the record may give the mass beside the present one.
_EARLIER = compile_label(
    r"\bfirst\b|\bbefore\b|\bmoist\b|\bwet\b|\bdamp\b|\bprevious\b|\binitial\b|\bearlier\b|\bstart\b|\bsample\b|\baliquot\b"
)
_LOSS = compile_label(
    r"\bloss\b|\blost\b|\bgiven up\b|\bevaporated\b|\bwater removed\b|\bmoisture\b|\bvapou?r\b|\bdecrease\b|\bloses\b"
)
_WHOLE_MASS = compile_label(r"\bmass\b|\bweight\b|\bgross\b|\bdry\b|\bwet\b|\bdamp\b")
_DRYING = ("DryingOven", "Desiccate", "Lyophilize", "Evaporate", "Grind", "Incubate", "Wait", "Autoclave", "Microwave")
_TOTAL = compile_label(
    r"\btotal\w*\b|\bin all\b|\ball(?: in)?\b|\baltogether\b|\bremaining\b|\bleft\b|\bstill\b|\bholds?\b|\bcontains?\b|\bamounts? to\b|\bn (?:mini)?cells?\b|\byield\b"
)
_ALL_CELLS = compile_label(
    r"(?:number of |total |viable |live )?(?:cells?|mini-?cells?|particles)(?: number| count)?(?: in (?:total|all|suspension))?"
)
# Each output is one vessel, so what is "per tube" is the total of it.
_PER_VESSEL = compile_label(r"\bper (?:tube|vial|aliquot|portion|cryovial)\b|\bdose\b")
_NOT_TOTAL = compile_label(
    r"\bper\b|\bused\b|\btaken\b|\bloaded\b|\bmax\w*\b|\bcapacity\b|\bbefore\b|\binput\b|\bof [0-9.]+\b|\brecover\w*\b|\badded\b|\bmolar\b|/|\btarget\b|\bdead\b|\blive\b"
)
_PER_VOLUME = {"mass": "mass_concentration", "count": "number_density", "amount": "molar_concentration"}
MOLAR_MASS = compile_label(r"\bmolar\b|\bmolecular\b|^m\b|\bmw\b|\bg/mol\b|^.*\bformula weight\b")
_WEIGHED = compile_label(r"\bmass\b|\bweigh\w*\b|\bamount\b|\bportion\b|\bpowder\b|\bsolid\b")


def check_weighing(transition: Transition) -> Findings:
    """L04: check net against gross and tare, loss on drying, totals, molarities and masses of elements."""
    observed = [claim for _, found in claims.list_observed(transition) for claim in found]
    outputs = transition.usable_outputs
    for view in outputs:
        own = claims.list_claims(transition, [view])
        # What is observed is that of the only material.
        extra = observed if len(transition.limited_inputs) == 1 and len(outputs) == 1 else []
        yield from _check_net(view.name, [*own, *extra])
        yield from _check_totals(transition, view, own)
        before = transition.find_input(view)
        if before is not None and transition.action in _DRYING:
            yield from _check_loss(
                view, outputs, claims.list_claims(transition, [before]), own, observed if extra else []
            )
    for seen, found in claims.list_observed(transition):
        yield from _check_net(seen.path, found)
        yield from _check_density(transition, seen.path, found)
        yield from _check_recorded_total(seen.path, found)
    if transition.action in ("Evaporate", "Lyophilize"):
        yield from _check_condensate(transition)


def _check_net(subject: str, found: list[Claim]) -> Findings:
    """Yield an error unless the net mass is the gross mass minus the tare."""
    present = [claim for claim in found if not claim.matches(_EARLIER) or claim.matches(TARE)]
    roles = ((TARE, (GROSS, _NET)), (GROSS, (TARE, _NET)), (_NET, (TARE, GROSS)))
    terms = []
    for pattern, others in roles:
        single = [c for c in present if not any(c.matches(other) for other in others)]
        terms.append(find_term(single, pattern, _MASS))
    tare, gross, net = terms
    if tare and gross and net and gross.value > tare.value:
        expected, allowed = gross.value - tare.value, tare.step + gross.step + net.step * 2
        allowed += expected / 200
        text = f"gross minus tare is {units.format_value(expected, 'mass')}, but the net mass is {units.format_value(net.value, 'mass')}"
        yield from compare("L04", subject, expected, net.value, "mass", text, allowed, allowed)


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


def _check_recovery(view: MaterialView, old: Claim, new: Claim, found: list[Claim]) -> Findings:
    """Yield an error unless a recovery in percent is the mass after over the mass before."""
    shares = {
        c.value: c
        for c in found
        if c.dimension == "ratio" and c.matches(compile_label(r"\brecover\w*\b|\bmass yield\b"))
    }
    if len(shares) == 1 and old.value > 0:
        stated, expected = next(iter(shares.values())), new.value / old.value * 100
        allowed = Decimal(1) + stated.step
        text = f"{expected:.3g} % of the mass are left, not {stated.value} %"
        yield from compare("L04", view.name, expected, stated.value, "ratio", text, allowed, allowed)


def _check_loss(
    view: MaterialView, outputs: list[MaterialView], before: list[Claim], own: list[Claim], observed: list[Claim]
) -> Findings:
    """Yield an error unless what was lost is the mass before minus the mass after."""
    excluded = (TARE, _LOSS, MOLAR_MASS)
    lost = find_term([*own, *observed], _LOSS, _MASS)
    old, new = None, None
    for pattern in (_NET, GROSS, _WHOLE_MASS):
        pools = [[c for c in found if not any(c.matches(other) for other in excluded)] for found in (before, own)]
        pools[1] = [c for c in pools[1] if not c.matches(_EARLIER)]
        old, new = (find_term(pool, pattern, _MASS) for pool in pools)
        if old and new:
            break
    if old and new:
        yield from _check_loss_share(view, old, new, [*own, *observed])
        if all(v.mass is None or v is view for v in outputs):
            yield from _check_recovery(view, old, new, [*own, *observed])
    if old and new and lost and old.value > new.value:
        expected, allowed = old.value - new.value, old.step + new.step + lost.step * 2
        allowed += expected * Decimal("0.03")
        text = f"the mass fell by {units.format_value(expected, 'mass')}, but a loss of {units.format_value(lost.value, 'mass')} is stated"
        yield from compare("L04", view.name, expected, lost.value, "mass", text, allowed, allowed)


def _check_dry_mass(view: MaterialView, before: list[Claim], own: list[Claim]) -> Findings:
    """Yield an error if a gross mass, or the total mass of a solid, is higher after drying than before."""
    for pattern in (GROSS, compile_label(r"\b(?:total|damp|wet|dry|moist)?\s?mass\b")):
        old, new = (
            find_term(
                [c for c in found if not c.matches(TARE) and not c.matches(_NET) and not c.matches(_LOSS)],
                pattern,
                _MASS,
            )
            for found in (before, own)
        )
        if old and new and old.value > 0:
            allowed = old.value / 200 + old.step + new.step
            shown = units.format_value(old.value, "mass"), units.format_value(new.value, "mass")
            text = f"{view.name} weighed {shown[0]} before drying and weighs {shown[1]}"
            yield from compare("L04", view.name, old.value, new.value, "mass", text, above=allowed)
            return


_LOSS_SHARE = compile_label(
    r"\bloss\b|\blost\b|\bmoisture\b|\bwater content\b|\bgiven up\b|\bof the (?:damp|wet|moist|initial) mass\b"
)


def _check_loss_share(view: MaterialView, old: Claim, new: Claim, found: list[Claim]) -> Findings:
    """Yield an error unless a loss in percent is that of the mass before, or of the dry mass."""
    shares = {claim.value: claim for claim in found if claim.dimension == "ratio" and (claim.matches(_LOSS_SHARE))}
    if len(shares) == 1 and old.value > new.value > 0:
        stated, lost = next(iter(shares.values())), old.value - new.value
        possible = [lost / old.value * 100, lost / new.value * 100]
        expected = min(possible, key=lambda value: abs(value - stated.value))
        uncertainty = (old.step + new.step) / old.value * 100
        allowed = stated.step * 2 + uncertainty + expected / 20
        text = f"the loss is {expected:.3g} % of the mass, not {stated.value} %"
        yield from compare("L04", view.name, expected, stated.value, "ratio", text, allowed, allowed)


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
        named = {name: a for name, a in fitting.items() if set(name.split()) & set(words.tokenize(claim.label))}
        amounts = list((named or fitting).values())
        if len(amounts) != 1:
            continue
        expected = amounts[0].value * view.liquid_volume / 1000
        terms = (claim_amount(amounts[0]), claim_amount(view.volume))
        text = f"{units.format_value(amounts[0].value, dimension)} in {units.format_value(view.liquid_volume, 'volume')} is"
        yield from compare_computed("L04", view.name, expected, terms, claim, text, tolerance=Decimal("0.05"))


def claim_amount(amount: Amount) -> Claim:
    return Claim("", amount.value, amount.dimension, min(amount.step, abs(amount.value) / 20), amount.text)
