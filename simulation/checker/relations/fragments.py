"""L20: fragments of a digest add up to the length that was cut, a PCR at most doubles, and what a qPCR derives follows from its cycles."""

import re
from decimal import Decimal
from itertools import combinations

from simulation.checker.findings import Findings, error_finding
from simulation.checker.reading import claims, units
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compare_computed, compile_label, find_term

_GELS = frozenset({"AgaroseGelElectrophoresis", "PAGE", "CapillaryElectrophoresis", "ImageSample", "VisualInspection"})
_CUT = compile_label(
    r"\bcut\w*\b|\bdigest\w*|\bcleav\w*|\brestrict\w*|\bd?CAPS\b|\bRFLP\b|\b[A-Z][a-z]{2}[A-Z]?(?:I{1,3}|IV|V)\b|\bverdau\w*|\bcort\w*|\bcoupe\w*"
)
_LENGTH = re.compile(r"(?<![\w.-])([0-9]{2,5}) ?bp\b", re.IGNORECASE)
_LADDER = compile_label(r"\bladder\b|\bmarker\b|\bstandard\b|\bleiter\b")
_BANDS = compile_label(r"\bbands?\b|\bbp\b|\bfragments?\b|\bbanden?\b|\bbandas\b|\bbandes\b|\bpieces\b")
_NUMBER = re.compile(r"(?<![\w.,%-])([0-9]{2,5})(?![\w%]|\.[0-9]|-[A-Za-z]| ?(?:V|min|mA|ng|µL|uL|%|s)\b)")
_ONE_CUT = compile_label(
    r"\b(?:one|single|1|only one|a single) (?:\w+ ){0,2}(?:site|cut)\b|\bcuts? once\b|\bcut once\b|\bonce\b|\bd?CAPS\b|\bcomplete\b"
)
_LEAST = Decimal(30)  # bp; smaller fragments run out of the gel
_SHARE = Decimal("0.08")  # of the length: sizes are read against a ladder


def check_fragments(transition: Transition) -> Findings:
    """L20: yield an error if the fragments of a lane cannot come from the length that was cut, or copies exceed doubling."""
    if transition.action in _GELS:
        yield from _check_digest(transition)
    if transition.action in ("Thermocycler", "qPCR"):
        yield from _check_copies(transition)


def _check_digest(transition: Transition) -> Findings:
    samples = [view for view in transition.inputs if not _LADDER.search(view.name) and not view.is_empty_vessel]
    described = " ; ".join(f"{view.name} {' '.join(leaf.value_text for leaf in view.leaves)}" for view in samples)[
        :4000
    ]
    observed = " ; ".join(seen.full_text[:1500] for seen in transition.observations)
    lengths = {Decimal(number) for number in _LENGTH.findall(described)}
    if len(lengths) != 1 or not _CUT.search(described + observed):
        return
    length = lengths.pop()
    allowed = max(length * _SHARE, Decimal(15))
    is_once = _ONE_CUT.search(described + observed) is not None
    for seen in transition.observations:
        if not _BANDS.search(seen.full_text):
            continue
        for lane in re.split(r"\n|;|\||\blanes? [0-9]+|\s/\s", seen.value[:1500]):
            bands = {Decimal(number) for number in _NUMBER.findall(lane)}
            cut = sorted(band for band in bands if _LEAST <= band < length - allowed)
            if not 2 <= len(cut) <= 5 or max(bands) > length + allowed or _LADDER.search(lane):
                continue
            sums = [sum(chosen, Decimal(0)) for size in range(2, len(cut) + 1) for chosen in combinations(cut, size)]
            if any(abs(total - length) <= allowed for total in sums):
                continue
            # A piece may be too small to be seen, unless there is only one site.
            if min(sums) > length + allowed or (is_once and len(cut) == 2):
                shown = " + ".join(str(band) for band in cut)
                text = f"{shown} bp add up to {sum(cut)} bp, but {length} bp were cut"
                yield error_finding("L20", seen.path, f"{length} bp", f"{sum(cut)} bp", text)


_COPIES = compile_label(r"\bcop(?:y|ies)\b|\bmolecules\b|\bgenomes?\b|\bkopien\b|\bcopias\b|\bcopie\b")
_PER = compile_label(r"\bper\b|/|\bcell\b")
_COUNTING = Decimal("1.5")  # factor: two estimates


def _check_copies(transition: Transition) -> Findings:
    """Yield an error if a PCR has made more copies than one doubling in each cycle."""
    cycles = [
        number for leaf in transition.parameters.leaves
        if leaf.word_set & {"cycle"} and leaf.word_set <= {"cycle", "number", "of", "n"} and (number := units.parse_number(leaf.value))
    ]  # fmt: skip
    if len(cycles) != 1 or not 1 <= cycles[0] <= 60:
        return
    for before, after in transition.list_kept_pairs():
        old, new = (
            {
                c.value
                for c in claims.list_claims(transition, [view])
                if c.dimension in ("", "count") and c.matches(_COPIES) and not c.matches(_PER) and c.value >= 1
            }
            for view in (before, after)
        )
        fresh = new - old
        if old and fresh:
            most = max(old) * Decimal(2) ** int(cycles[0]) * _COUNTING
            if min(fresh) > most:
                text = f"{max(old):.3g} copies become at most {most / _COUNTING:.3g} in {cycles[0]} cycles, not {min(fresh):.3g}"
                yield error_finding("L20", after.name, f"at most {most:.3g}", f"{min(fresh):.3g}", text)


_DOUBLE_DELTA = compile_label(r"(?:ΔΔ|\bdd|delta ?-?delta ?-?)c[tqp]\b")
_RELATIVE_QUANTITY = compile_label(r"\bfold\b|\brq\b|\brelative (?:quantity|expression|amount)\b|2\^\(?-")
_SLOPE, _EFFICIENCY = (
    compile_label(r"\bslope\b|\bsteigung\b|\bpente\b|\bpendiente\b"),
    compile_label(r"\beffi[cz]i\w+\b|\beficien\w+\b"),
)


def check_relative_quantities(transition: Transition) -> Findings:
    """L20: yield an error unless a relative quantity is 2^-ΔΔCt and an efficiency is 10^(-1/slope) - 1."""
    found = [claim for _, claims_of in claims.list_observed(transition) for claim in claims_of]
    cycles = find_term([c for c in found if not _RELATIVE_QUANTITY.search(c.own_label)], _DOUBLE_DELTA)
    quantity = find_term(
        [c for c in found if c.value > 0 and _RELATIVE_QUANTITY.search(c.own_label)], _RELATIVE_QUANTITY
    )
    if transition.action == "qPCR" and cycles and quantity and abs(cycles.value) < 30:
        # A decrease may be written as a factor above 1.
        possible = (
            [Decimal(2) ** -cycles.value, Decimal(2) ** cycles.value]
            if quantity.value > 1
            else [Decimal(2) ** -cycles.value]
        )
        expected = min(possible, key=lambda value: abs(value - quantity.value))
        text = f"a ΔΔCt of {cycles.value} corresponds to a relative quantity of"
        yield from compare_computed(
            "L20", "qPCR", expected, (), quantity, text, tolerance=Decimal("0.05") + cycles.step
        )
    slope, efficiency = find_term(found, _SLOPE), find_term(found, _EFFICIENCY, ("", "ratio"))
    if transition.action == "qPCR" and slope and efficiency and -6 < slope.value < -2:
        base = Decimal(10) ** (-1 / slope.value)
        possible = [(base - 1) * 100] if efficiency.dimension == "ratio" else [base, base - 1]
        expected = min(possible, key=lambda value: abs(value - efficiency.value))
        text = f"a slope of {slope.value} corresponds to an efficiency of"
        yield from compare_computed("L20", "qPCR", expected, (), efficiency, text, tolerance=Decimal("0.04"))
