"""L17: sizes and concentrations that an instrument cannot resolve, and bands that a gel cannot separate."""

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations

from simulation.checker.findings import Findings, error_finding, require
from simulation.checker.reading import claims, units
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compile_label

# A Coulter counter sizes particles of 2 to 60 % of its aperture (Beckman); a little more is accepted.
_APERTURE = Decimal("0.015"), Decimal("0.85")
# Setting -> smallest and largest size in µm that the kind of instrument reports, beyond what any product of the kind reaches.
_SIZES = {
    ("CountLiquidParticles", "light obscuration"): ("0.4", "2000"), ("CountLiquidParticles", "particle tracking"): ("0.008", "5"),
    ("CountLiquidParticles", "flow imaging"): ("0.6", "6000"), ("CellCounter", "automated image counter"): ("1.5", "250"),
    # Half of what light can resolve with the largest aperture of the objective, and twice the width of its field.
    ("UseMicroscope", "4x"): ("1.2", "12000"), ("UseMicroscope", "10x"): ("0.5", "4500"), ("UseMicroscope", "20x"): ("0.25", "2200"),
    ("UseMicroscope", "40x"): ("0.15", "1100"), ("UseMicroscope", "63x"): ("0.1", "700"), ("UseMicroscope", "100x"): ("0.1", "450"),
}  # fmt: skip
_SIZE = compile_label(
    r"\bsizes?\b|\bdiameters?\b|\bmodes?\b|\bmedian\b|\bpeak at\b|\bd ?(?:50|10|90|v|n)?\b|\bwide\b|\bwidth\b|\blong\b|\blength\b|\bdurchmesser\b|\bgrosse\b|\bdiametre\b|\btaille\b|\bdiametro\b|\btamano\b|ø"
)
_NO_SIZE = compile_label(
    r"\b(?:aperture|filter\w*|pore|window|range|gate|threshold|set|expected|earlier|nominal|calibrat\w*|below|above|under|less|more|between|excit\w*|emis\w*|laser|wavelength|pixel|step|path|depth|scale|"
    r"bar|distance|layer|beads?|standard|tem|cryo\w*|dls|sem|lens|steps?|shift|resolution|limit|field|edge|thick\w*|no|not|none|chip|slide|well|dish|tube|band|ex|em|nta)\b|[<>≤≥]"
)
_SUPER = compile_label(
    r"super-?resol|\bsted\b|\bstorm\b|\bpalm\b|\belectron\b|\bstitch|\btile[sd]?\b|\bmosaic\b|\bpanorama\b"
)
# ng/µL below which the absorbance of a drop is noise (0.4 ng/µL is 0.008 at 10 mm), and above which it is opaque.
_MICROVOLUME = Decimal("0.4"), Decimal(40_000)
# µg/mL below which no dye assay of protein differs from its blank.
_PROTEIN = Decimal("0.2")
_BLANK = compile_label(
    r"\bblank\b|\bwater\b|\bbelow\b|\bundetect\w*|\bno\b|\bnot\b|\blimit\b|\bbuffer\b|\bnegative\b|<|\bntc\b|\bsd\b|\bprecision\b"
)
_TWO_BANDS = compile_label(
    r"\b(?:two|2|three|3|both)\b[^.;]{0,40}\bbands?\b|\bseparate\w*\b|\bresolved?\b|\bdistinct\b|\bdoublet\b|\bupper\b[^.;]{0,40}\blower\b"
)
_ONE_BAND = compile_label(
    r"\bhetero-?duplex\w*\b|\bnot\b|\bone band\b|\bsingle band\b|\bunresolved\b|\bmerge\w*\b|\bexpected\b"
)


def check_instrument_ranges(transition: Transition) -> Findings:
    """L17: yield an error if a size or a concentration is reported that the instrument cannot see."""
    for low, high, name in _iter_size_ranges(transition):
        for seen, found in claims.list_observed(transition):
            if not _SUPER.search(seen.full_text[:1500]):
                for claim in found:
                    yield from _check_size(seen.path, claim, low, high, name)
        largest = [
            a.value for leaf, a in transition.parameters.list_amounts("length") if {"size", "maximum"} <= leaf.word_set
        ]
        if largest and largest[0] * 1000 < low and transition.observations:
            text = f"sizes up to {units.format_value(largest[0], 'length')} were counted, which {name} cannot detect"
            yield error_finding(
                "L17", transition.action, f"{low} µm or more", units.format_value(largest[0], "length"), text
            )
    yield from _check_concentrations(transition)
    if transition.action == "AgaroseGelElectrophoresis":
        for seen, found in claims.list_observed(transition):
            yield from _check_resolution(transition, seen.path, seen.full_text[:1500], found)


def _iter_size_ranges(transition: Transition) -> Iterator[tuple[Decimal, Decimal, str]]:
    """Yield (smallest size in µm, largest size in µm, name of the instrument) that the settings determine."""
    if transition.action == "CoulterCount":
        for leaf, amount in transition.parameters.list_amounts("length"):
            if "aperture" in leaf.word_set and "current" not in leaf.word_set:
                width = amount.value * 1000
                yield width * _APERTURE[0], width * _APERTURE[1], f"an aperture of {width.normalize():f} µm"
    texts = {leaf.value_text.strip().lower().replace("×", "x") for leaf in transition.parameters.leaves}
    for (action, setting), (low, high) in _SIZES.items():
        if action == transition.action and any(re.search(rf"(?<![\w.]){setting}(?!\w)", text) for text in texts):
            yield Decimal(low), Decimal(high), f"{setting} in {action}"


def _check_size(subject: str, claim: Claim, low: Decimal, high: Decimal, name: str) -> Findings:
    label = f"{claim.label} {claim.context}"
    # Words of the description, such as the aperture, are in front of the first number.
    own = claim.label.replace(claim.context, "") if claim.context else claim.label
    if (
        claim.dimension != "length"
        or not _SIZE.search(label)
        or _NO_SIZE.search(f"{own} {claim.text}")
        or claim.value <= 0
    ):
        return
    size = claim.value * 1000
    shown = units.format_value(claim.value, "length")
    text = f"a size of {shown} was reported, which {name} cannot detect"
    yield from require("L17", low <= size <= high, subject, f"{low:.3g} to {high:.3g} µm", shown, text)


def _check_concentrations(transition: Transition) -> Findings:
    settings = " ".join(leaf.value_text.lower() for leaf in transition.parameters.leaves)
    low, high = Decimal(0), Decimal(10) ** 12
    if transition.action == "NucleicAcidQuantification" and re.search(r"microvolume|nanodrop|spectrophoto", settings):
        low, high = _MICROVOLUME
    elif transition.action == "TotalProteinQuantification" and re.search(
        r"bradford|bicinchoninic|\bbca\b|lowry", settings
    ):
        low = _PROTEIN
    for seen, found in claims.list_observed(transition) if low else ():
        for claim in found:
            if (
                claim.dimension == "mass_concentration"
                and claim.value > 0
                and not _BLANK.search(f"{claim.label} {claim.text}")
            ):
                shown = units.format_value(claim.value, "mass_concentration")
                text = f"{shown} was read, outside the range of the instrument"
                yield from require("L17", low <= claim.value <= high, seen.path, f"at least {low} µg/mL", shown, text)


def _check_resolution(transition: Transition, subject: str, text: str, found: list[Claim]) -> Findings:
    """Yield an error if bands are reported as separate that differ by less than agarose can separate."""
    sizes = sorted({claim.value for claim in found if claim.dimension == "base_pairs" and claim.value > 0})
    # Agarose separates fragments that differ by about 5 %; gels of 3 % and more, and fine-sieving ones, by 2 %.
    percent = next(
        (
            number
            for key in ("agarose", "gel_percent")
            if (number := units.parse_number(transition.parameters.raw.get(key)))
        ),
        None,
    )
    least = Decimal("0.035") if percent is not None and percent <= Decimal("2") else Decimal("0.02")
    if not 2 <= len(sizes) <= 4 or not _TWO_BANDS.search(text) or _ONE_BAND.search(text):
        return
    smaller, larger = min(combinations(sizes, 2), key=lambda pair: (pair[1] - pair[0]) / pair[1])
    difference = (larger - smaller) / larger
    message = f"bands of {smaller:f} and {larger:f} bp are reported as separate, which agarose cannot separate"
    expected, got = f"bands that differ by {least * 100:.1f} % or more", f"{difference * 100:.1f} %"
    yield from require("L17", difference >= least, subject, expected, got, message)
