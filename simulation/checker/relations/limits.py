"""L05, L17 and L23: limits of tubes, wells, gels, stains and detectors, and how densely cells can be packed.

Limits are set beyond what any product of the kind reaches, because a record names the kind and rarely the product.
"""

import re
from decimal import Decimal
from typing import NamedTuple

from simulation.checker.findings import Findings, error_finding, require
from simulation.checker.reading import claims, units, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set
from simulation.checker.relations.arithmetic import compile_label

ZERO = Decimal(0)


class VesselForce(NamedTuple):
    """The largest centrifugal force in x g that any vessel of this kind is sold for."""

    name: str
    words: frozenset[str]
    maximum: int


# Manufacturers' ratings: conical polypropylene tubes of 15 and 50 mL 3,000 to 17,000 x g (Corning, Greiner, Thermo), high-speed
# versions up to 20,000; microtubes 30,000 (Eppendorf); deep-well and PCR plates up to 6,000; polystyrene tubes 1,400 to 3,000.
_VESSEL_FORCES = (
    VesselForce("a polystyrene tube", word_set("polystyrene ps facs"), 4_000),
    VesselForce("a plate", word_set("plate microplate"), 6_500),
    VesselForce("a culture flask or dish", word_set("t25 t75 t175 dish petri erlenmeyer"), 3_000),
    VesselForce("a conical tube", word_set("conical falcon"), 21_000),
    VesselForce("a microtube", word_set("microtube microcentrifuge eppendorf"), 31_000),
)
_RATED = compile_label(
    r"\brated\b|\bmax(?:imum|\.)?(?: (?:rcf|force|speed))?\b|\brcf (?:max|limit|rated)\b|\blimit\b|\bup to\b"
)
# Volume of one well up to the rim in µL, the largest of the usual products (not deep-well).
_WELL_VOLUMES = {"6": 17_000, "12": 7_000, "24": 3_700, "48": 1_800, "96": 450, "384": 145, "1536": 14}
_WELL_FORMAT = re.compile(r"\b(1536|384|96|48|24|12|6)[- ]?well", re.IGNORECASE)
_RIM = compile_label(r"\brim\b|\bbrim\b|\bmax(?:imum|imal|\.)?\b|\bcapacity\b|\bat most\b|\bup to\b")
# A detector that receives a millionth of the light is at its limit; benchtop instruments end at 3 to 4.
_MAX_ABSORBANCE = Decimal("4.5")
_ABSORBANCE = compile_label(r"\babsorbance\b|\ba ?[2-9][0-9]{2}\b|\bod ?(?:[2-9][0-9]{2})?\b|\boptical density\b")
_COMPUTED = compile_label(
    r"/|\bratio\b|\bcorrect\w*\b|\bcalculat\w*\b|\bequivalent\b|\bundiluted (?:sample|culture|suspension)\b|\btimes\b|\bx dilution\b|\bback\b|\bper\b|\bslope\b|\bsum\b"
)
# Stain -> smallest mass of a band in ng that any protocol reports: colloidal Coomassie 5, silver 0.1, fluorescent DNA stains 0.05.
_STAIN_LIMITS = (
    ("coomassie", "2"),
    ("silver", "0.03"),
    ("sypro", "0.2"),
    ("sybr", "0.02"),
    ("gelgreen", "0.05"),
    ("gelred", "0.03"),
    ("ethidium", "0.2"),
)
_BAND_SEEN = compile_label(
    r"\b(?:strong|sharp|clear|intense|bright|distinct|thick|prominent|visible|dark|heavy)\b[^.;]{0,40}\bband|\bband[^.;]{0,30}\b(?:strong|sharp|clear|intense|bright|visible|seen)\b"
)
_NO_BAND = compile_label(r"\bno\b|\bnot\b|\bfaint\b|\bnone\b|\bweak\b|\bbarely\b|\babsent\b")
# A part of a cell's own volume in pL, below the smallest of the kind: HEK293T and HeLa have 1.5 to 3, yeast 0.03, E. coli 0.0006.
_CELL_VOLUMES = (
    (word_set("minicell"), "0.00002"), (word_set("coli bacteria bacterial bacterium bacillus pseudomonas isolate dh5 bl21"), "0.0002"),
    (word_set("yeast cerevisiae pichia"), "0.015"), (word_set("hek293t hek293 hek hela cho fibroblast cos7 u2os a549 mammalian vero"), "0.7"),
)  # fmt: skip
_PELLET = compile_label(r"\bpellet\b")
_CELL_COUNT = compile_label(r"\bcells?\b|\bmini-?cells?\b|\bn minicell")
_NOT_COUNT = compile_label(r"/|\bper\b|\bsize\b|\bdiameter\b|\bdensity\b|\bviab\w*|\bml\b|\bline\b|\bpassage\b")
_DIAMETER = compile_label(r"\bdiameter\b|\bcell size\b|\bmean size\b")
_EACH = compile_label(r"\beach\b|\bper cell\b|\bcell volume\b")
_PI_SIXTH = Decimal("0.5236")
_CT = compile_label(r"\bc[tqp]\b|\bthreshold cycle\b|\bquantification cycle\b")


def check_equipment(transition: Transition) -> Findings:
    """L05: yield an error if a vessel is spun above its rating or a well overflows."""
    if transition.action == "Centrifuge":
        yield from _check_force(transition)
    for view in transition.usable_outputs:
        yield from _check_well(transition, view)


def _check_force(transition: Transition) -> Findings:
    forces = transition.parameters.list_values("centrifugal_force")
    samples = [view for view in transition.inputs if not view.is_empty_vessel]
    # "swing-out rotor, max 4500 x g": what the rotor stands.
    stated = [a.value for leaf, a in _list_rotor_forces(transition)]
    if forces and stated:
        shown, got = (units.format_value(value, "centrifugal_force") for value in (max(stated), max(forces)))
        text = f"{got} was set, but the rotor tolerates at most {shown}"
        holds = max(forces) <= max(stated) * Decimal("1.02")
        yield from require("L05", holds, transition.action, f"at most {shown}", got, text)
    for view in samples if forces else ():
        force = max(forces)
        rated = [
            c.value
            for c in claims.list_claims(transition, [view])
            if c.dimension == "centrifugal_force" and c.matches(_RATED)
        ]
        container_words = set(words.tokenize(view.container)) | (view.all_words & word_set("t25 t75 t175"))
        kinds = [kind for kind in _VESSEL_FORCES if kind.words & container_words]
        # The rating on the label counts; "high-speed" tubes exceed what is usual for their kind.
        maximum = max(rated) if rated else Decimal(min((kind.maximum for kind in kinds), default=0))
        if maximum > 0 and not {"speed", "ridge"} & container_words:
            what = "it is rated for" if rated else f"{kinds[0].name} withstands"
            shown, got = (
                units.format_value(maximum, "centrifugal_force"),
                units.format_value(force, "centrifugal_force"),
            )
            text = f"{view.name} was spun at {got}, but {what} at most {shown}"
            yield from require("L05", force <= maximum * Decimal("1.02"), view.name, f"at most {shown}", got, text)


def _list_rotor_forces(transition: Transition) -> list[tuple[Leaf, units.Amount]]:
    """Return the largest forces that parameters state for the rotor or the centrifuge, not those that were set."""
    leaves = [
        leaf for leaf in transition.parameters.leaves if leaf.word_set & {"rotor", "centrifuge", "bucket", "adapter"}
    ]
    return [
        (leaf, amount)
        for leaf in leaves
        if _RATED.search(leaf.value_text)
        for amount in units.find_amounts(leaf.value_text, "centrifugal_force")
    ]


def _check_well(transition: Transition, view: MaterialView) -> Findings:
    """Yield an error if one well holds more than fits below its rim."""
    if view.volume is None or view.liquid_volume is None or not {"well"} & view.all_words:
        return
    described = f"{view.name} {' '.join(leaf.value_text for leaf in view.leaves)} {view.container}"
    is_plate = (
        {"wells", "used"} & set(described.lower().split()) or "plate" in view.name_words or view.capacity is not None
    )
    rims = [
        c.value
        for c in claims.list_claims(transition, [view])
        if c.dimension == "volume" and c.matches(_RIM) and "well" in c.label
    ]
    formats = set(_WELL_FORMAT.findall(described))
    if rims:
        maximum = max(rims) * Decimal("1.05")
    elif (
        len(formats) == 1 and any(map(words.is_well, view.name_words)) and not is_plate and "deep" not in view.all_words
    ):
        maximum = Decimal(_WELL_VOLUMES[formats.pop()])
    else:
        return
    shown, got = units.format_value(maximum, "volume"), units.format_value(view.liquid_volume, "volume")
    yield from require(
        "L05",
        view.liquid_volume <= maximum,
        view.name,
        f"at most {shown}",
        got,
        f"{view.name} is one well and holds {got}",
    )


def check_detection(transition: Transition) -> Findings:
    """L17: yield an error if a reading is outside what a detector, a stain or a gel can show."""
    action = transition.action
    for seen, found in claims.list_observed(transition):
        if action in ("UsePhotospectrometer", "UsePlateReader"):
            for claim in found:
                # A value without words of its own is what the description announces.
                is_unnamed = set(claim.label.split()) <= set(claim.context.split())
                is_absorbance = claim.matches(_ABSORBANCE) or (is_unnamed and _ABSORBANCE.search(claim.context))
                if claim.dimension == "" and is_absorbance and not claim.matches(_COMPUTED) and claim.value < 100:
                    shown = f"{claim.value:.3g}"
                    text = f"an absorbance of {shown} lets less light through than a photometer can detect"
                    yield from require(
                        "L17", claim.value <= _MAX_ABSORBANCE, seen.path, f"at most {_MAX_ABSORBANCE}", shown, text
                    )
        if action == "qPCR":
            yield from _check_threshold_cycles(transition, seen.path, found)
        if action in words.GELS:
            yield from _check_stain(transition, seen.path, seen.full_text[:1500])


_RANGE = re.compile(
    r"([0-9]{1,4}(?:\.[0-9])?)\s?(?:-|–|to)\s?([0-9]{1,4}(?:\.[0-9])?)\s?(kDa|bp|kb|m/z)", re.IGNORECASE
)
_SIZE = compile_label(r"\bsize\b|\bdiameter\b|\bmode\b|\bmedian\b|\bmean\b|\bpeak\b")
_MAX_LOAD = {"AgaroseGelElectrophoresis": 150, "PAGE": 120}  # µL; the largest combs hold 100 and 70


def check_ranges_set(transition: Transition) -> Findings:
    """L17: yield an error if a size is reported outside the range that the instrument was set to."""
    low, high, dimension = _find_range(transition)
    for seen, found in claims.list_observed(transition) if high else ():
        for claim in found:
            is_reading = claim.dimension == dimension and (
                dimension != "length" or claim.matches(_SIZE) or _SIZE.search(claim.context)
            )
            if is_reading and claim.value > 0 and not _NO_SIZE.search(claim.label):
                holds = low * Decimal("0.8") <= claim.value <= high * Decimal("1.2")
                shown = [units.format_value(value, dimension) for value in (low, high, claim.value)]
                text = f"{shown[2]} was reported, but the instrument was set to {shown[0]} to {shown[1]}"
                yield from require("L17", holds, seen.path, f"{shown[0]} to {shown[1]}", shown[2], text)
    loads = [a.value for leaf, a in transition.parameters.list_amounts("volume") if leaf.word_set == {"load", "volume"}]
    if transition.action in _MAX_LOAD and len(loads) == 1:
        got, most = units.format_value(loads[0], "volume"), _MAX_LOAD[transition.action]
        yield from require(
            "L17", loads[0] <= most, transition.action, f"at most {most} µL", got, f"no lane takes {got}"
        )


_NO_SIZE = compile_label(r"\b(?:aperture|ladder|marker|none|below|above|range|expected|filter|between)\b")


def _find_range(transition: Transition) -> tuple[Decimal, Decimal, str]:
    """Return (lowest, highest, dimension) of the sizes that the parameters let an instrument see, or zeros."""
    if match := _RANGE.search(str(transition.parameters.raw.get("separation_range") or "")):
        amounts = [units.parse_amount(f"{number} {match[3]}") for number in (match[1], match[2])]
        if amounts[0] and amounts[1]:
            return amounts[0].value, amounts[1].value, amounts[0].dimension
    bounds: dict[str, Decimal] = {}
    for leaf in transition.parameters.leaves:
        if leaf.word_set & {"size", "diameter"} and (amount := leaf.parse_amount("length")):
            side = next((side for side in ("minimum", "maximum") if side in leaf.word_set), "")
            bounds[side] = amount.value
    if (
        "minimum" in bounds
        and "maximum" in bounds
        and transition.action in ("CoulterCount", "CountLiquidParticles", "QuantifyColonies")
    ):
        return bounds["minimum"], bounds["maximum"], "length"
    return ZERO, ZERO, ""


_NO_CYCLE = compile_label(
    r"\beff\w*|\bslope\b|\btm?\b|\bmelt\w*|\bcop(?:y|ies)\b|\bng\b|\bconc\w*|\br2\b|\brfu\b|\bintercept\b|\bdelta\b|Δ|\bthreshold (?:at|line|rfu)|\bn\b|\bcycles\b"
)


def _is_cycle(claim: Claim) -> bool:
    """Return whether a number is a threshold cycle by its own words, or by those of the description and none of its own."""
    return claim.matches(_CT) or (
        bool(_CT.search(claim.context))
        and len(claim.own_label.split()) <= 2
        and not _NO_CYCLE.search(f"{claim.own_label} {claim.context}")
    )


def _check_threshold_cycles(transition: Transition, subject: str, found: list[Claim]) -> Findings:
    leaves = (leaf for leaf in transition.parameters.leaves if leaf.word_set == {"cycle"})
    cycles = next((number for leaf in leaves if (number := units.parse_number(leaf.value))), None)
    for claim in found if cycles else ():
        if cycles and claim.dimension == "" and _is_cycle(claim) and claim.value < 100:
            text = f"a threshold cycle of {claim.value} is above the {cycles} cycles that were run"
            yield from require("L17", claim.value <= cycles, subject, f"at most {cycles}", str(claim.value), text)


def _check_stain(transition: Transition, subject: str, text: str) -> Findings:
    """Yield an error if a clear band contains less than the stain can show."""
    stain = str(transition.parameters.raw.get("stain", "")).lower()
    limit = next((Decimal(least) for name, least in _STAIN_LIMITS if name in stain), None)
    loaded = [
        amount.value
        for leaf, amount in transition.parameters.list_amounts("volume")
        if {"load", "sample"} & leaf.word_set and "ladder" not in leaf.word_set
    ]
    samples = [
        view for view in transition.inputs if not transition.parameters.has_named(view) and not view.is_empty_vessel
    ]
    if limit is None or len(loaded) != 1 or len(samples) != 1 or not _BAND_SEEN.search(text) or _NO_BAND.search(text):
        return
    amounts = [a for a in samples[0].concentrations.values() if a.dimension == "mass_concentration"]
    if len(amounts) == 1 and len(samples[0].concentrations) == 1:
        # µg/mL times µL is ng.
        mass = amounts[0].value * loaded[0]
        shown = units.format_value(mass / 1000, "mass")
        message = f"{shown} of {samples[0].name} were loaded, less than {stain} can show"
        yield from require("L17", mass >= limit, subject, f"at least {limit} ng", shown, message)


def check_packing(transition: Transition) -> Findings:
    """L23: yield an error if cells fill more than the volume that they are in."""
    for view in transition.usable_outputs:
        before = transition.find_input(view)
        found = claims.list_claims(transition, [view, *([before] if before else [])])
        own = claims.list_claims(transition, [view])
        cell_volume = _find_cell_volume(view, found)
        if cell_volume is None:
            continue
        count, volume = _find_pelleted(own)
        if count is None or volume is None:
            density = next(
                (
                    a
                    for name, a in view.concentrations.items()
                    if a.dimension == "number_density" and "cell" in name.split()
                ),
                None,
            )
            count, volume = (density.value, Decimal(1000)) if density else (None, None)
        if count is not None and volume:
            # pL to µL.
            filled = count * cell_volume / 1_000_000
            if filled > volume:
                shown, got = units.format_value(filled, "volume"), units.format_value(volume, "volume")
                text = f"the cells of {view.name} fill {shown} by themselves and cannot be in {got}"
                yield error_finding("L23", view.name, f"at least {shown}", got, text)


def _find_cell_volume(view: MaterialView, found: list[Claim]) -> Decimal | None:
    """Return the volume of one cell in pL: stated, from its diameter, or the smallest of its kind."""
    each = [
        claim.value
        for claim in found
        if claim.dimension == "volume" and claim.matches(_EACH) and claim.value < Decimal("0.001")
    ]
    if each:
        return min(each) * 1_000_000
    diameters = [
        c.value * 1000 for c in found if c.dimension == "length" and c.matches(_DIAMETER) and c.value < Decimal("0.1")
    ]
    if diameters:
        # µm cubed is fL. Half of it: cells are squeezed in a pellet but keep most of their volume.
        return min(diameters) ** 3 * _PI_SIXTH / 1000 * Decimal("0.6")
    return next((Decimal(volume) for kind, volume in _CELL_VOLUMES if kind & view.all_words), None)


def _find_pelleted(own: list[Claim]) -> tuple[Decimal | None, Decimal | None]:
    """Return (cells, volume in µL) of the pellet that a material describes, or None for what is unclear."""
    volumes = {
        claim.value
        for claim in own
        if claim.dimension == "volume" and claim.matches(_PELLET) and not claim.matches(_EACH)
    }
    counts = [
        c
        for c in own
        if c.dimension in ("", "count") and c.matches(_CELL_COUNT) and not c.matches(_NOT_COUNT) and c.value > 1000
    ]
    in_pellet = {claim.value for claim in counts if claim.matches(_PELLET)} or {claim.value for claim in counts}
    if len(volumes) != 1 or len(in_pellet) != 1:
        return None, None
    return in_pellet.pop(), volumes.pop()


_OSMOLES_OF_IONS = Decimal("0.5")  # share of the listed ions that a reading must reach
_MAX_OSMOLALITY = 12_000  # mOsm/kg; saturated NaCl has 11,000
_COSOLVENTS = word_set("glycerol dmso ethanol methanol glycol brine saturated")


def check_osmolality(transition: Transition) -> Findings:
    """L12: yield an error if an osmolality is a thousand times too high or too low for the material."""
    for view in transition.usable_outputs if transition.action == "MeasureOsmolality" else ():
        before = transition.find_input(view) or view
        ions = [
            a.value
            for name, a in before.concentrations.items()
            if a.dimension == "molar_concentration" and set(name.split()) & _STRONG_IONS
        ]
        least = sum(ions, ZERO) / 1000 * _OSMOLES_OF_IONS
        if len(transition.usable_outputs) != 1:
            return
        for seen, found in claims.list_observed(transition):
            for claim in found:
                if claim.dimension == "osmolality" and not claim.matches(
                    compile_label(r"\bstandard|\bcalibrat|\bsd\b|\btarget")
                ):
                    shown = units.format_value(claim.value, "osmolality")
                    high = before.all_words & _COSOLVENTS or claim.value <= _MAX_OSMOLALITY
                    yield from require(
                        "L12",
                        bool(high),
                        seen.path,
                        f"at most {_MAX_OSMOLALITY} mOsm/kg",
                        shown,
                        f"{shown} is more than a saturated salt solution has",
                    )
                    text = f"{shown} is less than the ions of {view.name} give"
                    yield from require(
                        "L12", claim.value >= least, seen.path, f"at least {least:.3g} mOsm/kg", shown, text
                    )


_STRONG_IONS = word_set("na sodium k potassium nacl kcl cl chloride")
