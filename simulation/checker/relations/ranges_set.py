"""L15 and L17: readings outside the range, the limits or the list that the settings or the record itself state."""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.findings import Findings, require
from simulation.checker.reading import claims, units, words
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.relations.arithmetic import compile_label, is_count

_SIZED = ("CoulterCount", "CountLiquidParticles")
_EDGE = Decimal("1.03")  # factor: rounding of a class at the edge of the window
# Lengths that are no size of a particle, beside those that were set.
_NO_SIZE = compile_label(
    r"\b(?:aperture|apertura|offnung|ouverture|filter\w*|pore|below|above|under|over|less|more|smaller|larger|outside|expected|microscop\w*|micro|tem|dls|earlier|nominal|cell depth|path|step|resolution|"
    r"limit|beads?|standard|calibrat\w*|laser|wavelength|bin width|sd|std|span|sigma)\b|[<>≤≥±]"
)
_SPAN = re.compile(
    r"(?<![\w.-])([0-9]{1,4}(?:\.[0-9]{1,3})?)\s?(?:[nµu]m)?\s?(?:-|–|to|bis|a|until)\s?([0-9]{1,4}(?:\.[0-9]{1,3})?)\s?(nm|µm|um|micromet\w+|nanomet\w+)(?![\w])",
    re.IGNORECASE,
)
_NUMBER = r"([0-9]{1,7}(?:\.[0-9]{1,6})?(?:e[+-]?[0-9]{1,2})?)"
_UNIT = r"\s?([A-Za-zµ]{1,5}(?:/[A-Za-zµ]{1,4})?)"
_LOWER = re.compile(
    rf"\b(?:LLOQ|LOQ|LLD|LOD|lower limit(?: of [a-z ]{{3,20}})?|quantifi[a-z]+ (?:limit|from)|detection limit|limit of (?:detection|quantification|quantitation)|nachweisgrenze|bestimmungsgrenze)\b[^0-9;.]{{0,20}}{_NUMBER}{_UNIT}",
    re.IGNORECASE,
)
_UPPER = re.compile(
    rf"\b(?:ULOQ|upper limit(?: of [a-z ]{{3,20}})?|quantifi[a-z]+ up to|linear (?:range )?up to|top standard|highest standard)\b[^0-9;.]{{0,20}}{_NUMBER}{_UNIT}",
    re.IGNORECASE,
)
_FROM_TO = re.compile(
    rf"\b(?:range|curve|calibrat\w+|standards?|quantifi\w+|linear|bereich)\b[^0-9;.]{{0,40}}{_NUMBER}{_UNIT}?\s?(?:-|–|to|bis)\s?{_NUMBER}{_UNIT}",
    re.IGNORECASE,
)
# A reading beside one of these words is no quantified value of what was measured.
_NOT_QUANTIFIED = compile_label(
    r"\b(?:below|above|under|over|beyond|outside|not|no|n\.?d\.?|bdl|blq|undetect\w*|estimat\w*|extrapol\w*|approx\w*|dilut\w*|undiluted|original|stock|back|blank|spike\w*|limit|lloq|loq|lod|uloq|standards?|range|curve|x [0-9]+)\b|[<>≤≥~≈]"
)
_CONCENTRATIONS = ("mass_concentration", "molar_concentration", "number_density")
_COLONIES = compile_label(r"\bcolon\w*|\bcounted\b|\bkolonien\b|\bcolonias\b")
_UNCOUNTABLE = compile_label(
    r"\btntc\b|\btoo (?:many|crowded|numerous|dense)\b|\buncountable\b|\bcrowded:? true\b|\bovercrowded\b|\bestimat\w*|\bnot counted\b|\bconfluent\b|\babove the\b|\bexceeds?\b|>"
)
# Elements that argon plasma ionises, and fluorine, which it does not.
_SYMBOLS = "Li B Na Mg Al Si P S K Ca Ti Cr Mn Fe Co Ni Cu Zn As Se Br Sr Mo Ag Cd Sn Ba La Ce Au Hg Pb F Cl"
_SYMBOL = re.compile(
    rf"(?<![A-Za-z0-9])[0-9]{{0,3}}({'|'.join(_SYMBOLS.split())})-?[0-9]{{0,3}}(?:[+-]|2\+|3\+)?(?![A-Za-z0-9])"
)
_ELEMENT_NAMES = {
    "lithium": "Li", "boron": "B", "sodium": "Na", "magnesium": "Mg", "aluminium": "Al", "aluminum": "Al", "silicon": "Si", "phosphorus": "P", "sulfur": "S", "sulphur": "S",
    "potassium": "K", "calcium": "Ca", "titanium": "Ti", "chromium": "Cr", "manganese": "Mn", "iron": "Fe", "cobalt": "Co", "nickel": "Ni", "copper": "Cu", "zinc": "Zn", "arsenic": "As",
    "selenium": "Se", "bromine": "Br", "strontium": "Sr", "molybdenum": "Mo", "silver": "Ag", "cadmium": "Cd", "tin": "Sn", "barium": "Ba", "gold": "Au", "mercury": "Hg", "lead": "Pb",
    "fluorine": "F", "fluoride": "F", "chlorine": "Cl", "chloride": "Cl",
}  # fmt: skip
_NO_ANALYTE = compile_label(
    r"\binternal\b|\bstandard\b|\brecover\w*|\bblank\b|\bspike\w*|\bnot (?:measured|detected|determined|asked)\b|\bcalculat\w*|\bfrom (?:the )?(?:formula|stoichio\w*)\b|\bexpected\b|\bnominal\b|\blabel\b|\bas [A-Z]"
)


def check_stated_ranges(transition: Transition) -> Findings:
    """L17: yield an error if a size, a concentration or a count is outside the window or limits that apply to it."""
    if transition.action in _SIZED:
        yield from _check_window(transition)
    if transition.action == "QuantifyColonies":
        yield from _check_countable(transition)
    yield from _check_quantified(transition)


def _check_window(transition: Transition) -> Findings:
    """Yield an error if a size, or the end of a size class, is outside the window that was counted."""
    set_lengths = {a.value for _, a in transition.parameters.list_amounts("length")}
    low, high = (
        next(
            (a.value for leaf, a in transition.parameters.list_amounts("length") if {"size", side} <= leaf.word_set),
            None,
        )
        for side in ("minimum", "maximum")
    )
    if low is None or high is None:
        return
    known = {a.value for text in transition.input_texts for a in units.find_amounts(text, "length")}
    for seen, found in claims.list_observed(transition):
        sizes = [
            (claim.value, claim.text)
            for claim in found
            if claim.dimension == "length"
            and claim.value > 0
            and not _NO_SIZE.search(claim.text[:-10] + claim.own_label)
        ]
        for match in _SPAN.finditer(seen.full_text[:1500]):
            ends = [units.parse_amount(f"{number} {match[3]}", "", ("length",)) for number in match.groups()[:2]]
            around = seen.full_text[max(0, match.start() - 25) : match.end() + 15]
            sizes += [(end.value, match[0]) for end in ends if end and end.value and not _NO_SIZE.search(around)]
        for size, text in sizes:
            # A size that the material has already may be told as such; only as the range that was counted is it impossible.
            if size in set_lengths or (
                size in known and not re.search(r"\bat\b|\bpeak\b|\bpico\b|\bmode\b|\bd50\b", text)
            ):
                continue
            shown = [units.format_value(value, "length") for value in (low, high, size)]
            message = f"{text[:60]} is outside {shown[0]} to {shown[1]}, the sizes that were counted"
            yield from require(
                "L17", low / _EDGE <= size <= high * _EDGE, seen.path, f"{shown[0]} to {shown[1]}", shown[2], message
            )


def _check_countable(transition: Transition) -> Findings:
    maximum = units.parse_number(transition.parameters.raw.get("countable_maximum"))
    for seen, found in claims.list_observed(transition) if maximum else ():
        if _UNCOUNTABLE.search(seen.full_text[:1500]):
            continue
        for claim in found:
            is_colonies = is_count(claim) and (claim.matches(_COLONIES) or _COLONIES.search(claim.text))
            if (
                is_colonies
                and maximum
                and not re.search(r"\bper\b|/|\bmax|\bup to\b|\blimit", f"{claim.own_label} {claim.text}")
            ):
                text = f"{claim.text} are given as counted, but plates with more than {maximum} are not countable"
                yield from require(
                    "L17", claim.value <= maximum, seen.path, f"at most {maximum}", str(claim.value), text
                )


def _iter_limits(text: str) -> Iterator[tuple[str, units.Amount]]:
    """Yield ("low" or "high", amount) of the limits of quantification that a text states."""
    for side, pattern in (("low", _LOWER), ("high", _UPPER)):
        for number, unit in pattern.findall(text):
            if (amount := units.parse_amount(f"{number} {unit}", "", _CONCENTRATIONS)) is not None:
                yield side, amount
    for first, first_unit, second, unit in _FROM_TO.findall(text):
        ends = [
            units.parse_amount(f"{n} {u}", "", _CONCENTRATIONS)
            for n, u in ((first, first_unit or unit), (second, unit))
        ]
        if ends[0] and ends[1] and ends[0].value < ends[1].value:
            yield from (("low", ends[0]), ("high", ends[1]))


def _check_quantified(transition: Transition) -> Findings:
    """Yield an error if a concentration is given as quantified outside the limits that the record states for the assay."""
    if transition.family not in words.MEASUREMENTS:
        return
    dilution = transition.parameters.find_dilution_factor()
    settings = " ; ".join(leaf.value_text for leaf in transition.parameters.leaves)
    named = transition.parameters.list_materials(words.word_set("standard calibrator"))
    described = " ; ".join(
        f"standards {view.name} {' '.join(leaf.value_text for leaf in view.leaves)}" for view in named
    )
    texts = [settings, described, *(seen.full_text[:1500] for seen in transition.observations)]
    limits = [(side, amount) for text in texts for side, amount in _iter_limits(text[:3000])]
    stated = {amount.value for _, amount in limits}
    for seen, found in claims.list_observed(transition) if limits and not dilution else ():
        for claim in found:
            if (
                claim.dimension not in _CONCENTRATIONS
                or claim.value <= 0
                or claim.value in stated
                or claim.is_approximate
            ):
                continue
            if _NOT_QUANTIFIED.search(claim.own_label) or _is_unquantified(seen, claim.text):
                continue
            for side, amount in limits:
                if amount.dimension == claim.dimension:
                    holds = (
                        claim.value >= amount.value * Decimal("0.97")
                        if side == "low"
                        else claim.value <= amount.value * Decimal("1.05")
                    )
                    shown = f"{'at least' if side == 'low' else 'at most'} {amount.text}", claim.text[-30:]
                    text = f"{claim.text} is given as quantified, but the {'lower' if side == 'low' else 'upper'} limit is {amount.text}"
                    yield from require("L17", holds, seen.path, *shown, text)


def _is_unquantified(seen: ObservationView, text: str) -> bool:
    """Return whether the words near a reading say that it is not within the limits."""
    position = seen.full_text.find(text)
    around = seen.full_text[max(0, position - 30) : position + len(text) + 40] if position >= 0 else text
    return (
        re.search(
            r"\bbelow\b|\babove\b|\bnot quant|\bn\.?d\.?\b|\bextrapolat|\bout(?:side)? of\b|\boutside\b|\bestimat|\bdilut|\bsemi-?quant|[<>]|\bblank\b|[x×*] ?[0-9]+(?:\.[0-9]+)? ?=",
            around,
            re.IGNORECASE,
        )
        is not None
    )


def check_elements(transition: Transition) -> Findings:
    """L15: yield an error if an ICP measurement reports an element that it was not set to measure."""
    raw = transition.parameters.raw.get("elements")
    asked = set(_find_elements(" ; ".join(map(str, raw)) if isinstance(raw, list) else str(raw or "")))
    if transition.action != "MassSpectrometry" or not asked:
        return
    others = {
        element
        for view in transition.inputs
        if transition.parameters.has_named(view)
        for element in _find_elements(view.name)
    }
    for seen, found in claims.list_observed(transition):
        for claim in found:
            if claim.dimension not in ("mass_concentration", "molar_concentration") or claim.value <= 0:
                continue
            # The symbol next to the number, else the only element that the description names.
            elements = _find_elements(claim.text.rpartition(";")[2]) or _find_elements(seen.description)
            if len(set(elements)) != 1 or _NO_ANALYTE.search(f"{seen.description} {claim.label}"):
                continue
            element = elements[0]
            text = f"{element} is reported, but the elements measured were {', '.join(sorted(asked))}"
            yield from require("L15", element in asked | others, seen.path, ", ".join(sorted(asked)), element, text)


def _find_elements(text: str) -> list[str]:
    named = (_ELEMENT_NAMES[word] for word in words.tokenize(text[:400]) if word in _ELEMENT_NAMES)
    return [*_SYMBOL.findall(text[:400]), *named]
