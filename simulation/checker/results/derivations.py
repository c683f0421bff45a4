"""L20: numbers that a record derives from others: differences, net signals, shares, titers and concentrations."""

import re
from collections import defaultdict
from decimal import Decimal
from itertools import permutations

from simulation.checker.findings import Findings, compare, error_finding
from simulation.checker.reading import claims, units
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.relations.arithmetic import compare_computed, compile_label, find_term

ZERO = Decimal(0)


_DIFFERENCE = compile_label(
    r"\b(?:fall|fell|drop(?:ped)?|decreas\w+|rise|rose|increas\w+|differ\w+|shift(?:ed)?|change[ds]?|gain(?:ed)?|lost|loss|minus|lower|higher)\b|Δ|\bdelta\b"
)
_DIFFERENCE_DIMENSIONS = ("mass", "voltage", "volume", "temperature")
_PH = compile_label(r"\bph\b")
_RAW, _NET = (
    compile_label(r"\braw\b|\bgross\b|\bmeasured\b|\buncorrected\b|\bsample\b"),
    compile_label(
        r"\bnet\b|\bcorrected\b|\b(?:blank|background)[- ]subtracted\b|\bminus (?:the )?(?:blank|background)\b|\bsubtracted\b|\bcorr\b|\bdelta\b|Δ"
    ),
)
_BLANK = compile_label(r"\bblanks?\b|\bbackground\b|\bbkg\b|\bleerwert\b|\bblanc\b|\bblanco\b|\bmedium only\b")
_SHARES = compile_label(r"\bshares?\b|\bcomposition\b|\bbreakdown\b|\bof (?:their|the) sum\b|\bdistribution\b")
_PART_OF = re.compile(
    r"([0-9]{1,3}(?:\.[0-9]{1,3})?)\s?% of (?:the )?(?:loaded |applied |input )?([0-9]{1,9}(?:\.[0-9]{1,6})?\s?[A-Za-zµ]{1,4})(?![\w/])"
)
_TITER = compile_label(r"\btit(?:er|re)\b|\btu\b")
_CELLS = compile_label(r"\bcells?\b")
_A260 = compile_label(r"^(?!.*(?:/|ratio)).*\ba ?260\b")
# ng/µL for an absorbance of 1 at 260 nm and 10 mm (Sambrook): double-stranded DNA 50, RNA 40, single-stranded DNA 33.
_MASS_PER_ABSORBANCE = {"dsdna": 50, "rna": 40, "ssdna": 33}
_PATH = compile_label(r"\b(?:1|0\.[0-9]+|2|5) mm\b|\bpath(?:length)?\b")
_TEN_MM = compile_label(r"\b10 ?mm\b|\b1 ?cm\b")
# g/mol of one base pair: 617.96 per pair without and about 660 with counter-ions; protocols use 607 to 660.
_BASE_PAIR = (Decimal(600), Decimal(665))


def check_derivations(transition: Transition) -> Findings:
    """L20: check what observations and materials derive from their own numbers."""
    for seen, found in claims.list_observed(transition):
        yield from _check_difference(seen)
        yield from _check_net_signals(seen, found)
        yield from _check_share_sum(seen, found)
        yield from _check_titer(seen.path, found)
        yield from _check_absorbance(transition, seen, found)
    for view in transition.usable_outputs:
        found = claims.list_claims(transition, [view])
        yield from _check_part(view.name, " ".join(leaf.value_text + ";" for leaf in view.leaves)[:2000], found)
        before = transition.find_input(view)
        yield from _check_molecules(
            view.name, found, claims.list_claims(transition, [before] if before else []), view.name
        )


def _check_difference(seen: ObservationView) -> Findings:
    """Yield an error if a sentence gives two amounts and a difference of them that is another one."""
    text = seen.full_text if len(seen.full_text) < 600 else seen.description
    if not _DIFFERENCE.search(text) or "|" in text:
        return
    found = claims.read_text(seen.description)
    for dimension in _DIFFERENCE_DIMENSIONS if not _PH.search(text) else ():
        yield from _check_three(seen, [c for c in found if c.dimension == dimension], dimension)
    if _PH.search(seen.description):
        yield from _check_three(
            seen, [c for c in found if c.dimension == "" and 0 < c.value <= 14 and c.step < Decimal("0.5")], ""
        )


def _check_three(seen: ObservationView, found: list[Claim], dimension: str) -> Findings:
    values = list({claim.value: claim for claim in found}.values())
    if len(values) != 3 or any(claim.is_approximate for claim in values):
        return
    # Which of the three is the difference is not always clear, so any arrangement that fits is accepted.
    for first, second, third in permutations(values):
        if (
            abs(first.value - second.value - third.value)
            <= first.step + second.step + third.step + abs(third.value) / 50
        ):
            return
    last = values[-1]
    expected = abs(values[0].value - values[1].value)
    shown = [units.format_value(value, dimension) if dimension else f"{value:.3g}" for value in (expected, last.value)]
    # Only a difference that is clearly another one: the three numbers may be independent.
    if Decimal("0.3") < last.value / (expected or 1) < Decimal(3):
        text = f"the difference is {shown[0]}, not {shown[1]}"
        yield error_finding("L20", seen.path, shown[0], shown[1], text)


def _check_net_signals(seen: ObservationView, found: list[Claim]) -> Findings:
    """Yield an error if one blank does not explain the difference between raw and net signal of every sample."""
    pairs: dict[str, dict[str, Claim]] = defaultdict(dict)
    for claim in found:
        for role, pattern in (("raw", _RAW), ("net", _NET)):
            if claim.dimension == "" and claim.matches(pattern):
                pairs[pattern.sub("", claim.label).strip()][role] = claim
    blanks = {name: pair["raw"].value - pair["net"].value for name, pair in pairs.items() if len(pair) == 2}
    if len(blanks) < 3:
        yield from _check_net_signal(seen.path, found)
        return
    usual = sorted(blanks.values())[len(blanks) // 2]
    for name, blank in blanks.items():
        allowed = (pairs[name]["raw"].step + pairs[name]["net"].step) * 2 + abs(usual) / 20
        net, expected = pairs[name]["net"].value, pairs[name]["raw"].value - usual
        text = f"the net signal of {name[:40]} is {expected:.3g} with the blank of the other samples, not {net:.3g}"
        yield from compare(
            "L20", seen.path, usual, blank, "", text, allowed, allowed, shown=(f"{expected:.3g}", f"{net:.3g}")
        )


def _check_net_signal(subject: str, found: list[Claim]) -> Findings:
    """Yield an error unless the only net signal of a record is the raw signal minus the blank."""
    for dimension in {claim.dimension for claim in found}:
        alike = [claim for claim in found if claim.dimension == dimension]
        net = find_term(alike, _NET, (dimension,))
        others = [claim for claim in alike if not claim.matches(_NET)]
        blank = find_term(others, _BLANK, (dimension,))
        raw = find_term([claim for claim in others if not claim.matches(_BLANK)], _RAW, (dimension,))
        if raw and blank and net and raw.value > 0 and dimension != "mass":
            expected, allowed = raw.value - blank.value, (raw.step + blank.step + net.step) * 2 + abs(net.value) / 50
            shown = f"{expected:.4g}", f"{net.value:.4g}"
            text = f"{raw.value} minus a blank of {blank.value} is {shown[0]}, not {shown[1]}"
            yield from compare("L20", subject, expected, net.value, "", text, allowed, allowed, shown=shown)


def _check_share_sum(seen: ObservationView, found: list[Claim]) -> Findings:
    """Yield an error unless the shares of a whole add up to 100 %."""
    shares = [
        claim
        for claim in found
        if claim.dimension == "ratio" and (claim.matches(_SHARES) or _SHARES.search(claim.context))
    ]
    if (
        len(shares) < 3
        or len({claim.label for claim in shares}) != len(shares)
        or any(c.matches(compile_label(r"\ball\b|\btotal\b|\bparent\b|\bmean\b|\bsd\b|\bcv\b")) for c in shares)
    ):
        return
    total, allowed = (
        sum((claim.value for claim in shares), ZERO),
        Decimal("1.5") + sum((claim.step for claim in shares), ZERO),
    )
    yield from compare(
        "L20", seen.path, Decimal(100), total, "ratio", f"the shares add up to {total} %", allowed, allowed
    )


def _check_part(subject: str, text: str, found: list[Claim]) -> Findings:
    """Yield an error unless "97 % of 970 µg" fits the only other amount of that dimension."""
    match = _PART_OF.search(text)
    whole = units.parse_amount(match[2]) if match else None
    if (
        match is None
        or whole is None
        or whole.value <= 0
        or whole.dimension not in ("mass", "volume", "amount", "count")
    ):
        return
    others = {
        c.value
        for c in found
        if c.dimension == whole.dimension and abs(c.value - whole.value) > whole.step and c.value <= whole.value * 2
    }
    if len(others) == 1:
        part, share = others.pop(), Decimal(match[1])
        expected, allowed = part / whole.value * 100, Decimal("1.5") + share / 50
        message = f"{units.format_value(part, whole.dimension)} of {units.format_value(whole.value, whole.dimension)} are {expected:.3g} %, not {share} %"
        yield from compare("L20", subject, expected, share, "ratio", message, allowed, allowed)


def _check_titer(subject: str, found: list[Claim]) -> Findings:
    """Yield an error unless a functional titer is cells times infected share over the volume of virus."""
    titer = find_term(found, _TITER, ("number_density",))
    cells = find_term([c for c in found if not c.matches(compile_label(r"\bgated\b|/|\bper\b"))], _CELLS, ("", "count"))
    volumes = {claim.value for claim in found if claim.dimension == "volume"}
    shares = [claim.value for claim in found if claim.dimension == "ratio" and 0 < claim.value <= 100]
    if titer is None or cells is None or len(volumes) != 1 or not shares or cells.value < 100:
        return
    volume = volumes.pop()
    possible = [cells.value * share / 100 / (volume / 1000) for share in shares]
    expected = min(possible, key=lambda value: abs(value - titer.value))
    text = f"{cells.value:.3g} cells and {units.format_value(volume, 'volume')} of virus give"
    yield from compare_computed("L20", subject, expected, (cells,), titer, text, tolerance=Decimal("0.12"))


def _check_absorbance(transition: Transition, seen: ObservationView, found: list[Claim]) -> Findings:
    """Yield an error unless a concentration follows from the absorbance at 260 nm of the same record."""
    factor = _MASS_PER_ABSORBANCE.get(str(transition.parameters.raw.get("nucleic_acid", "")).lower())
    dilution = transition.parameters.find_dilution_factor() or Decimal(1)
    absorbance = find_term(found, _A260)
    densities = {
        c.value
        for c in found
        if c.dimension == "mass_concentration" and not c.matches(compile_label(r"\bfactor\b|\bper a ?260\b"))
    }
    if (
        factor is None
        or transition.action != "NucleicAcidQuantification"
        or absorbance is None
        or len(densities) != 1
        or absorbance.value <= 0
    ):
        return
    got = densities.pop()
    # An absorbance at 1 mm is a tenth of that at 10 mm, and a record need not say which it gives.
    possible = [absorbance.value * factor * path * extra for path in (1, 10, 20) for extra in {Decimal(1), dilution}]
    expected = min(possible, key=lambda value: abs(value - got))
    if _TEN_MM.search(seen.full_text) and not _PATH.search(_TEN_MM.sub("", seen.full_text)):
        expected = absorbance.value * factor * dilution
    allowed = expected * Decimal("0.06") + Decimal(1)
    text = f"an absorbance of {absorbance.value} means {units.format_value(expected, 'mass_concentration')}"
    yield from compare("L20", seen.path, expected, got, "mass_concentration", text, allowed, allowed)


def _check_molecules(subject: str, own: list[Claim], before: list[Claim], name: str) -> Findings:
    """Yield an error unless a molar amount of DNA follows from its mass and its length in base pairs."""
    lengths = {
        c.value for c in [*own, *before, *claims.read_text(name)] if c.dimension == "base_pairs" and c.value >= 20
    }
    if len(lengths) != 1:
        return
    length = lengths.pop()
    for by_mass, by_number, factor in (
        ("mass", "amount", Decimal(1000)),
        ("mass_concentration", "molar_concentration", Decimal(1000)),
    ):
        masses, numbers = (
            {c.value: c for c in own if c.dimension == dimension and c.value > 0 and _is_about_dna(c)}
            for dimension in (by_mass, by_number)
        )
        if len(masses) == len(numbers) == 1:
            mass, number = next(iter(masses.values())), next(iter(numbers.values()))
            low, high = (mass.value / (length * weight) * factor for weight in reversed(_BASE_PAIR))
            share = Decimal("0.06") + mass.relative_step + number.relative_step
            if not low * (1 - share) <= number.value <= high * (1 + share):
                shown = units.format_value(low, by_number), units.format_value(number.value, by_number)
                text = f"{mass.text} of {length:f} bp are about {shown[0]}, not {shown[1]}"
                yield error_finding("L04", subject, f"about {shown[0]}", shown[1], text)


def _is_about_dna(claim: Claim) -> bool:
    return not claim.matches(
        compile_label(
            r"\btris\b|\bbuffer\b|\bprimers?\b|\bdntps?\b|\bmg(?:cl2|so4)?\b|\bedta\b|\btemplate\b|\bsalt\b|\bleft\b"
        )
    )
