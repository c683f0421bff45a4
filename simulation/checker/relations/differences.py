"""L04: masses by difference: net from gross and tare, loss on drying, moisture in percent, an element found by weighing.

Records name their weighings in many ways. A stated mass is called wrong only if the weighings that it follows from are
known and no difference between any masses of the same object gives it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple

from simulation.checker import chemistry
from simulation.checker.findings import Findings, compare
from simulation.checker.reading import claims, segments, units, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compile_label

_TARE, _GROSS, _NET, _LOSS, _WHOLE = "tare", "gross", "net", "loss", "whole"
_EARLY, _LATE, _ANY = "early", "late", ""
_VESSEL = r"(?:vial|boat|crucible|beaker|tube|flask|bottle|dish|paper|foil|watch glass|pan|cup|vessel|container|cylinder|filter|membrane|capsule|ampoule|insert|slide|chip|pycnometer|cuvette|bag|tray)"
# The first pattern that a label matches gives its role.
_ROLES = (
    ("", compile_label(r"\bmolar\b|\bg/mol\b|\bper\b|\bdensity\b|\bcapacity\b|\breadability\b|\blimit\b|\bmax\w*\b|\bstandard\b|\bcalibrat\w*|\bcheck (?:weight|mass of)\b|\bsd\b|\bdrift\b")),
    (_NET, compile_label(rf"\b(?:gross|full|total|filled)\b\s*(?:-|minus|less)\s*(?:the )?(?:tare|empty|{_VESSEL})|\bby diff\w*|^net\b|\bm ?[0-9a-z]? ?- ?m ?[0-9a-z]?\b|\b(?:subtract\w*|difference)\b")),
    (_LOSS, compile_label(
        r"\bloss\b|\blost\b|\blod\b|\bgiven (?:off|up)\b|\bdriven (?:off|out)\b|\bevaporated\b|\bremoved\b|\breleased\b|\bescaped\b|\bsublimed\b|\bexpelled\b|\bevolved\b|\blighter\b|\bshrink\w*\b|\bburnt off\b|\bdecrease\b|\bweight change\b|\bmass change\b"
        r"|\bvapou?r\b|\bmoisture\b|^[^+]*\bwater\b(?!.*\bvolume\b)|\bh2o\b|\boff\b(?! the)|\b(?:Δ|delta |d)m\b"
    )),
    (_GROSS, compile_label(
        rf"\bgross\b|\bm1\b|\bloaded\b|\bfull\b|\bfilled\b|\b{_VESSEL}\b[^,;]{{0,15}}?(?:\+|\bplus\b|\bwith\b|\band\b)|(?:\+|\bplus\b) ?\w+"
        r"|\bwith (?:the )?(?:precipitate|content|sample|powder|agcl|liquid|acid|salt|cake|solid)\b"
    )),
    (_TARE, compile_label(
        rf"^minus\b|\btare\b|\bempty\b|\bbare\b|\bm0\b|\b{_VESSEL} (?:alone|only|blank|before filtration)\b|^(?:desc |m |mass |weight )?(?:of (?:the )?)?(?:the )?(?:dry |dried |clean |new |filter )*{_VESSEL}(?: mass| weight)?(?: m?g)*$"
    )),
    (_NET, compile_label(r"\bnet\w*\b|\bprecipitate\b|\bliquid\b|\bsubstance\b|\bsediment\b|\byield\b(?!.*%)|\btss\b|\bsediments?\b|\bfill\b|\bcake\b|\bsolid\b|\bpowder\b|\bcrystals?\b|\bproduct\b|\bcontents?\b(?! \w+ from)|\bresidue\b")),
)  # fmt: skip
_EARLIER = compile_label(
    r"\bwet\b|\bmoist\b|\bair-?\s?dr(?:y|ied)\b|\bdamp\b|\bbefore\b|\binitial\b|\bfirst\b|\bfresh\b|\bas received\b|\bprevious\b"
)
_LATER = compile_label(r"\bdry\b|\bdried\b|\bafter\b|\bfinal\b|\bcooled\b|\bsec\b")
_FILLER = words.word_set(
    "m mass weight g mg kg µg the of in a w weighing value result mean reading final dry wet moist data so thus hence therefore is alone before after "
    "initial out"
)
_SHARE = compile_label(
    r"\bloss\b|\blost\b|\blod\b|\bmoisture\b|\bwater\b|\bh2o\b|\boff\b|\bof (?:the |its )?(?:wet|dry|moist|damp|fresh|initial|original)\b|\b(?:dry|wet) basis\b|\b[wd]b\b"
)
_DRY_SHARE = compile_label(
    r"\bdry (?:matter|substance|residue|solids?)(?: content)?\b(?! basis)|\bsolids? content\b|\btotal solids\b|\btrocken(?:substanz|ruckstand|gehalt)\b|\bsiccite\b|\bmatiere (?:seche|dry)\b|\bmateria (?:seca|dry)\b"
)
_NO_SHARE = compile_label(
    r"\brecover\w*\b|\byield\b|\bhumidity\b|\brh\b|\bpurity\b|\bspec\w*\b|\blimit\b|\btarget\b|\bexpected\b|\bretain\w*\b|\bleft\b|\bremain\w*\b|\bethanol\b|\bsolution\b|\bloss of ignition\b"
)
_DRY_TO_WET = compile_label(r"\bdry ?(?:to|/|:|over|-) ?(?:wet|fresh|moist)\b|\bdw ?/ ?[fw]w\b")
_RECOVERY = compile_label(r"\brecover\w*\b|\bmass yield\b")
_DRY_BASE = compile_label(r"\bof (?:the )?(?:oven-?)?(?:dry|dried)\b|\bdry (?:mass|weight|basis|matter)\b|\bd\.?b\.?\b")
_WET_BASE = compile_label(
    r"\bof (?:the |its )?(?:wet|moist|damp|fresh|initial|original)\b|\b(?:wet|fresh|moist|initial) (?:mass|weight|basis)\b|\bwb\b"
)
_DRYING = words.word_set("DryingOven Desiccate Lyophilize Evaporate Incubate Wait Autoclave Microwave Storage")
_WEIGHING = _DRYING | {"MeasureWeight", "Filter", "Transfer", "Grind"}
# "3.4127 -> 3.3986 g": the mass before and the mass after.
_ARROW = re.compile(
    r"([A-Za-z][^;,/|0-9]{0,30})?(?<![\w.])([0-9]{1,6}\.[0-9]{1,6})\s?(mg|g|kg)?\s?(?:->|→|=>|to)\s?([0-9]{1,6}\.[0-9]{1,6})\s?(mg|g|kg)\b"
)
_SAMPLE = compile_label(
    r"\bunknown\b|\bsample\b|\bfrom\b|\btaken\b|\bweighed in\b|\btest portion\b|\baliquot\b|\bspecimen\b|\bstarting\b|\bu[0-9]\b"
)


# In "AgCl by difference from the crucible tare 18.6421 g" the words next to the amount say which one it is.
_ENDS_WITH_TARE = compile_label(
    rf"\b(?:from|minus|less|against|with|and|to) (?:the )?(?:\w+ ){{0,2}}(?:tare|empty {_VESSEL})(?: mass| weight)?(?: m?g)?$"
)
_UNIT_BRACKET = re.compile(r"\s?[(\[](?:m|k|µ)?g[)\]]")


class Mass(NamedTuple):
    """A mass in µg with its role, the state of the object that it is of, and half a unit of its last digit."""

    role: str
    state: str
    value: Decimal
    step: Decimal
    is_stated: bool = True
    is_named: bool = True  # False if only the words of the substance make it a net mass


def check_differences(transition: Transition) -> Findings:
    """L04: yield an error if a net mass, a loss or a moisture is no difference of the weighings that the record has."""
    if transition.action not in _WEIGHING:
        return
    for subject in segments.list_subjects(transition):
        before = claims.list_claims(transition, [subject.before] if subject.before else [])
        after = claims.list_claims(transition, [subject.after] if subject.after else [])
        observed = [claim for part in subject.parts for claim in _read_part(part)]
        own_words = _collect_words(subject.before, subject.after)
        pool = list(_iter_masses(before, _EARLY, own_words, transition))
        pool += _iter_masses([*after, *observed], _LATE, own_words, transition)
        pool = _drop_repeated(pool)
        pool += _iter_implied_nets(pool)
        for role in (_NET, _LOSS):
            if role == _NET or transition.action in _DRYING:
                yield from _check_role(subject.name, pool, role)
        if transition.action in _DRYING:
            yield from _check_moisture(subject.name, pool, [*after, *observed])
            yield from _check_recovery(transition, subject, pool, [*after, *observed])
        yield from _check_items(subject.name, observed, " ".join(part.text for part in subject.parts))
        yield from _check_weighed_mean(subject.name, observed)
        yield from _check_found_element(transition, subject.name, pool, [*before, *after], observed)


def _read_part(part: segments.Part) -> list[Claim]:
    """Return the claims of a part of a record, with those that an arrow joins named before and after."""
    found = part.claims
    for label, first, first_unit, second, unit in _ARROW.findall(part.text):
        for number, number_unit, state in ((first, first_unit or unit, "before"), (second, unit, "after")):
            read = claims.read_text(f"{label.strip()} {state} {number} {number_unit}")
            values = {claim.value for claim in read}
            found = [*(claim for claim in found if claim.dimension != "mass" or claim.value not in values), *read]
    return found


def _collect_words(*views: MaterialView | None) -> frozenset[str]:
    """Return the words of a substance's name: the names of its materials without those of vessels and numbers."""
    names = {word for view in views if view is not None for word in view.name_words}
    return frozenset(word for word in names if not re.fullmatch(_VESSEL, word) and not word[:1].isdigit())


def _find_role(claim: Claim, own_words: frozenset[str]) -> str:
    claim = replace(claim, label=_UNIT_BRACKET.sub("", claim.label))
    label = claim.label.rpartition("=")[0].strip() or claim.label if "=" in claim.label else claim.label
    if _ENDS_WITH_TARE.search(label):
        return _TARE
    for role, pattern in _ROLES:
        if pattern.search(claim.label if role == _NET and "-" in claim.label else label):
            return role
    label_words = set(words.tokenize(label)) - _FILLER
    return _NET if label_words and label_words <= own_words else ""


def _iter_masses(
    found: Iterable[Claim], state: str, own_words: frozenset[str], transition: Transition
) -> Iterator[Mass]:
    for claim in found:
        role = _find_role(claim, own_words) if claim.dimension == "mass" else ""
        # A change of mass may have its sign: "Δm -5.50 g".
        claim = replace(claim, value=abs(claim.value)) if role == _LOSS else claim
        if claim.dimension != "mass" or claim.value <= 0 or claim.is_approximate:
            continue
        text = f"{claim.label} {claim.context}" if not role else claim.label
        if not role and claim.context:
            role = next((name for name, pattern in _ROLES[1:] if pattern.search(claim.context)), "")
        if role == _TARE:
            claim_state = _ANY
        elif state == _EARLY or _EARLIER.search(text):
            claim_state = _EARLY
        else:
            claim_state = _LATE if _LATER.search(text) else state
        # A mass that only its state names ("wet 25.5 g") is that of the substance.
        if not role and set(words.tokenize(claim.label)) <= _FILLER and (_EARLIER.search(text) or _LATER.search(text)):
            role = _NET
        # "weight before 25.4 g" may be gross or net; its difference to the weight after is the loss in both cases.
        if not role and re.search(r"\bmass\b|\bweigh\w*\b|\breading\b", text):
            role = _WHOLE
        is_named = any(pattern.search(text) for name, pattern in _ROLES if name == role)
        yield Mass(role, claim_state, claim.value, claim.step, is_named=is_named)


def _drop_repeated(pool: list[Mass]) -> list[Mass]:
    """Return the masses without a net mass that repeats a gross one: "beaker with acid 56.2 g".

    A mass without a role is the net mass if no vessel was weighed, and the gross mass if it is more than the tare.
    """
    tare = _find_only(pool, _TARE, _ANY)
    if not any(mass.role in (_TARE, _GROSS, _NET) for mass in pool):
        pool = [mass._replace(role=_NET) if mass.role == _WHOLE else mass for mass in pool]
    elif tare and not any(mass.role == _GROSS for mass in pool):
        pool = [
            mass._replace(role=_GROSS) if mass.role == _WHOLE and mass.value > tare.value else mass for mass in pool
        ]
    gross = {mass.value for mass in pool if mass.role == _GROSS}
    return [mass for mass in pool if mass.is_named or mass.role != _NET or mass.value not in gross]


def _find_only(pool: Iterable[Mass], role: str, state: str) -> Mass | None:
    """Return the mass with this role and state, or None if there is none or the record gives several."""
    matches = [mass for mass in pool if mass.role == role and mass.state in (state, _ANY)]
    first = matches[0] if matches else None
    if first is None or any(abs(mass.value - first.value) > 2 * (mass.step + first.step) for mass in matches):
        return None
    return first


def _iter_implied_nets(pool: list[Mass]) -> Iterator[Mass]:
    """Yield gross minus tare of each state of which the record has both."""
    tare = _find_only(pool, _TARE, _ANY)
    for state in (_EARLY, _LATE):
        gross = _find_only(pool, _GROSS, state)
        if tare and gross and gross.value > tare.value:
            yield Mass(_NET, state, gross.value - tare.value, gross.step + tare.step, is_stated=False)


def _list_differences(pool: list[Mass], stated: Mass) -> list[Decimal]:
    """Return the differences of other masses of the object that can mean something: before and after, full and empty."""
    others = [m for m in pool if m is not stated and (m.role != stated.role or not m.is_stated)]
    meaningful = ({_GROSS, _TARE}, {_WHOLE, _TARE}, {_WHOLE, _NET})
    return [
        abs(first.value - second.value)
        for first, second in combinations(others, 2)
        if first.role == second.role or "" in (first.role, second.role) or {first.role, second.role} in meaningful
    ]


def _check_role(subject: str, pool: list[Mass], role: str) -> Findings:
    """Yield an error if a stated net mass or loss is none of the differences of the object's weighings."""
    for stated in [mass for mass in pool if mass.role == role and mass.is_stated]:
        expected: Decimal | None
        if role == _NET:
            implied = [m for m in pool if not m.is_stated and m.state == stated.state]
            expected, step = (implied[0].value, implied[0].step) if implied else (None, Decimal(0))
        else:
            expected, step = _find_loss([mass for mass in pool if mass is not stated])
        if expected is None or expected <= 0:
            continue
        allowed = step * 2 + stated.step * 2 + expected / 200
        # What the object had before, or the difference of two other weighings, may be what the words mean.
        possible = [expected, *_list_differences(pool, stated)]
        possible += [m.value for m in pool if not m.is_stated or (m.state == _EARLY and m is not stated)]
        if role == _LOSS:
            possible = [expected, *_list_differences(pool, stated)]
        nearest = min(possible, key=lambda value: abs(value - stated.value))
        expected = nearest if abs(nearest - stated.value) <= allowed else expected
        shown = units.format_value(expected, "mass"), units.format_value(stated.value, "mass")
        what = "gross minus tare" if role == _NET else "the loss of mass"
        text = f"{what} is {shown[0]}, but {shown[1]} is stated"
        yield from compare("L04", subject, expected, stated.value, "mass", text, allowed, allowed, shown=shown)


def _find_loss(pool: list[Mass]) -> tuple[Decimal | None, Decimal]:
    """Return (what was lost, its rounding) from the weighings before and after, or (None, 0)."""
    for role in (_GROSS, _NET, _WHOLE):
        early, late = _find_only(pool, role, _EARLY), _find_only(pool, role, _LATE)
        if early and late and early.value > late.value:
            return early.value - late.value, early.step + late.step
    return None, Decimal(0)


def _check_moisture(subject: str, pool: list[Mass], found: list[Claim]) -> Findings:
    """Yield an error unless a moisture or loss in percent is the loss over the wet or the dry mass."""
    wet, dry = _find_only(pool, _NET, _EARLY), _find_only(pool, _NET, _LATE)
    lost, _ = _find_loss(pool)
    stated_loss = _find_only(pool, _LOSS, _EARLY) or _find_only(pool, _LOSS, _LATE)
    losses = [loss for loss in (lost, stated_loss.value if stated_loss else None) if loss]
    if not losses or (wet is None and dry is None):
        return
    for claim in found:
        text = f"{claim.label} {claim.context}"
        if wet and dry and claim.dimension == "" and _DRY_TO_WET.search(text) and 0 < claim.value < 1:
            expected, allowed = dry.value / wet.value, claim.step * 2 + dry.value / wet.value / 50
            shown = f"{expected:.3g}", f"{claim.value:f}"
            message = f"the ratio of dry to wet mass is {shown[0]}, not {shown[1]}"
            yield from compare("L04", subject, expected, claim.value, "", message, allowed, allowed, shown=shown)
        if (
            claim.dimension != "ratio"
            or "%" not in claim.text
            or not (_SHARE.search(text) or _DRY_SHARE.search(text))
            or _NO_SHARE.search(text)
        ):
            continue
        wet_value = wet.value if wet else dry.value + losses[0] if dry else None
        dry_value = dry.value if dry else wet.value - losses[0] if wet else None
        is_dry, is_wet = bool(_DRY_BASE.search(claim.label)), bool(_WET_BASE.search(claim.label))
        if re.search(r"\bgross\b", claim.label):
            continue
        bases = (
            [wet_value] if is_wet and not is_dry else [dry_value] if is_dry and not is_wet else [wet_value, dry_value]
        )
        possible = [loss / base * 100 for loss in losses for base in bases if base]
        if _DRY_SHARE.search(text):
            possible = [dry_value / wet_value * 100] if dry_value and wet_value else []
        if not possible:
            continue
        expected = min(possible, key=lambda value: abs(value - claim.value))
        allowed = claim.step * 2 + expected / 50
        shown = f"{expected:.3g} %", f"{claim.value:f} %"
        message = f"the loss is {shown[0]} of the mass, not {shown[1]}"
        yield from compare("L04", subject, expected, claim.value, "ratio", message, allowed, allowed, shown=shown)


_ITEMS = re.compile(
    r"(?<![\w.])([0-9]{1,4}) (?:\w+ )?(?:tablets|capsules|seeds|chips|pieces|beads|crystals|grains|fish|larvae|leaves|coupons|discs|filters|plants|pills)\b"
)
_POOLED = compile_label(r"\b(?:total|pooled|together|all|combined|sum)\b")
_MEAN = compile_label(r"\b(?:mean|average|avg|mittel\w*|moyenne|promedio|x̄)\b")


def _check_items(subject: str, observed: list[Claim], text: str) -> Findings:
    """Yield an error unless the average mass of counted items is their mass over their number."""
    numbers = {Decimal(number) for number in _ITEMS.findall(text)}
    masses = [claim for claim in observed if claim.dimension == "mass"]
    means = [claim for claim in masses if re.search(r"\b(?:per|each)\b", claim.label)]
    pooled = {claim.value for claim in masses if claim not in means} if _POOLED.search(text) else set()
    if len(numbers) == len(pooled) == len({claim.value for claim in means}) == 1:
        expected, stated = pooled.pop() / numbers.pop(), means[0]
        allowed = expected / 50 + stated.step * 2
        shown = units.format_value(expected, "mass"), units.format_value(stated.value, "mass")
        message = f"the average mass is {shown[0]}, not {shown[1]}"
        yield from compare("L04", subject, expected, stated.value, "mass", message, allowed, allowed, shown=shown)


def _check_weighed_mean(subject: str, observed: list[Claim]) -> Findings:
    """Yield an error if the mean of repeated weighings is outside them."""
    masses = [claim for claim in observed if claim.dimension == "mass" and claim.value > 0]
    means = [claim for claim in masses if claim.matches(_MEAN) and not claim.is_approximate]
    readings = [claim for claim in masses if not claim.matches(_MEAN)]
    if len({claim.value for claim in means}) != 1 or len(readings) < 2:
        return
    lowest, highest = (pick(readings, key=lambda claim: claim.value) for pick in (min, max))
    # Weighings of one object agree within a part in a thousand; other masses are not its readings.
    if highest.value - lowest.value > lowest.value / 1000 or not lowest.value / 2 < means[0].value < highest.value * 2:
        return
    allowed = highest.value - lowest.value + 2 * (means[0].step + highest.step)
    shown = units.format_value(highest.value, "mass"), units.format_value(means[0].value, "mass")
    message = f"the mean of the weighings is near {shown[0]}, not {shown[1]}"
    yield from compare("L20", subject, highest.value, means[0].value, "mass", message, allowed, allowed, shown=shown)


def _check_recovery(
    transition: Transition, subject: segments.Subject, pool: list[Mass], found: list[Claim]
) -> Findings:
    """Yield an error unless a recovery in percent is the mass after over the mass before."""
    wet, dry = _find_only(pool, _NET, _EARLY), _find_only(pool, _NET, _LATE)
    shares = {c.value: c for c in found if c.dimension == "ratio" and c.matches(_RECOVERY)}
    has_other_part = any(view.mass is not None and view is not subject.after for view in transition.usable_outputs)
    if wet and dry and len(shares) == 1 and not has_other_part:
        [stated], expected = shares.values(), dry.value / wet.value * 100
        allowed = Decimal(1) + stated.step
        text = f"{expected:.3g} % of the mass is left, not {stated.value:f} %"
        yield from compare("L04", subject.name, expected, stated.value, "ratio", text, allowed, allowed)


_ELEMENT_SHARE = re.compile(r"\b(?:w )?(cl|chloride|chlorine|ag|silver|br|bromide|ca|calcium|so4|sulfate|sulphate)\b")
_FORMULA = re.compile(r"\b(?:[A-Z][a-z]?[0-9]?|\([A-Z][A-Za-z0-9]+\)[0-9]?){2,6}\b")


def _check_found_element(
    transition: Transition, subject: str, pool: list[Mass], own: list[Claim], observed: list[Claim]
) -> Findings:
    """Yield an error unless an element's share of a sample follows from the weighed precipitate and its formula."""
    texts = " ".join(transition.input_texts) + " ".join(seen.full_text[:500] for seen in transition.observations)
    formulas = {f for f in _FORMULA.findall(texts[:3000]) if f in ("AgCl", "AgBr", "BaSO4", "CaCO3", "CaO", "AgI")}
    # The sample that the precipitate was made from is weighed earlier, so only materials and their labels have its mass.
    samples = {
        c.value
        for c in [*own, *observed]
        if c.dimension == "mass" and _SAMPLE.search(c.label) and not re.search(r"\bgross|\btare", c.label)
    }
    nets = {mass.value for mass in pool if mass.role == _NET and mass.state == _LATE and mass.value not in samples}
    if len(formulas) != 1 or not samples or not nets:
        return
    formula = formulas.pop()
    for claim in observed:
        match = _ELEMENT_SHARE.search(claim.label)
        if claim.dimension != "ratio" and not re.search(r"\bpercent\b|%", claim.label):
            continue
        ion = chemistry.find_ion(match[1]) if match else ""
        share = _find_share(formula, ion)
        if share is None or not 0 < claim.value <= 100:
            continue
        possible = [net * factor / sample * 100 for net in nets for sample in samples for factor in (share, Decimal(1))]
        expected = min(possible, key=lambda value: abs(value - claim.value))
        allowed = claim.step * 2 + expected / 50
        if expected > 100 and claim.value < 100:
            expected = next((value for value in possible if value <= 100), expected)
        shown = f"{expected:.3g} %", f"{claim.value:f} %"
        message = f"the weighed {formula} corresponds to {shown[0]} in the sample, not {shown[1]}"
        yield from compare("L04", subject, expected, claim.value, "ratio", message, allowed, allowed, shown=shown)


def _find_share(formula: str, ion: str) -> Decimal | None:
    """Return the mass of an ion in a mass of a compound as a share, or None if the compound does not have it."""
    symbol = chemistry.get_ion_formula(ion) if ion else ""
    if not symbol or symbol not in formula:
        return None
    return chemistry.compute_molar_mass(symbol) / chemistry.compute_molar_mass(formula)
