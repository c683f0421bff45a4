"""L03: what was measured in a dilution, times the dilution factor, is what the record gives for the undiluted sample.

Which of the numbers was measured and which of the factors applies is often open, so a stated result is wrong only if no
pair of them gives it.
"""

import re
from collections.abc import Iterable
from decimal import Decimal

from simulation.checker.findings import Findings, error_finding
from simulation.checker.reading import claims, units
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compile_label

_DIMENSIONS = ("mass_concentration", "molar_concentration", "number_density")
_ORIGINAL = compile_label(
    r"\bundiluted\b|\bnon[- ]?dilue\w*|\bunverdunnt\w*|\bsin diluir\b|\boriginal\b|\bstock\b|\bneat\b|\bback[- ]?calc\w*|\b(?:dilution[- ])?corrected\b"
    r"|\bbefore (?:the )?dilution\b|\bin (?:the |a )?(?:cup|drink|beverage|bottle|can|coffee|tea|juice|cola|lysate|undiluted \w+)\b|\bas bought\b|\bhochgerechnet\b"
    r"|\bcalculated back\b|\bin the original\b|\bx d\b|\bx df\b|\bfor the (?:drink|sample|stock|culture|undiluted \w+)\b"
)
_NOT_RESULTS = compile_label(
    r"\blod\b|\bloq\b|\blimit\b|\bstandards?\b|\bcalibra(?:tor|nt)s?\b|\bexpected\b|\bnominal\b|\btarget\b|\brange\b|\bblank\b|\bspike\w*|\bqc\b|\bon the label\b|\bdeclared\b|\bsd\b|\bdead\b"
)
_NUMBER = r"([0-9]{1,7}(?:\.[0-9]{1,4})?(?:e[0-9]{1,2})?)"
_WORDS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "ten": 10, "twenty": 20, "hundred": 100}
_FACTORS = (
    re.compile(rf"(?<![\w.]){_NUMBER}\s?-?\s?(?:fold\b|times\b|fach\b|x dilut|x\b(?! ?10))", re.IGNORECASE),
    re.compile(
        rf"\b(?:D|DF|VF|F|dil(?:ution|\.)?(?: factor)?|factor|faktor|fold)\s?(?:of|=|:|x)?\s?{_NUMBER}(?![\w.]|\s?%)"
    ),
    re.compile(rf"(?<![\w.)])[x×]\s?{_NUMBER}(?![\w.]|\s?(?:g|mm|µm|min)\b)"),
)
_WORD_FACTOR = re.compile(rf"\b({'|'.join(_WORDS)})[- ]?fold\b", re.IGNORECASE)
_PARTS = re.compile(rf"(?<![\w.:/])1\s?([:/+])\s?{_NUMBER}(?![\w:/])")
_QUOTIENT = re.compile(rf"(?<![\w.:/]){_NUMBER}\s?/\s?{_NUMBER}(?![\w:/])")
_POWER = re.compile(r"(?<![\w.])(?:10\^-|1e-)0?([1-9])\b")
_TOLERANCE = Decimal("0.04")
_MAX_MEASURED = 6


def check_dilution_factors(transition: Transition) -> Findings:
    """L03: yield an error if no measured number times a dilution factor of the record is the one for the undiluted sample."""
    if transition.family not in ("read", "consume"):
        return
    samples = [
        view
        for view in transition.limited_inputs
        if not view.is_empty_vessel and not transition.parameters.has_named(view)
    ]
    observed = [(seen, claim) for seen, found in claims.list_observed(transition) for claim in found]
    common = read_factors(" ; ".join(f"{seen.description} {seen.value}"[:1500] for seen in transition.observations))
    common |= _read_settings(transition)
    for view in samples if len(samples) == 1 else ():
        common |= read_factors(f"{view.name} ; " + " ; ".join(f"{leaf.key}: {leaf.value_text}" for leaf in view.leaves))
    for seen, result in observed:
        if result.dimension not in _DIMENSIONS or result.value <= 0 or not _is_original(result):
            continue
        others = [c for _, c in observed if c.dimension == result.dimension and c.value > 0 and not _is_original(c)]
        others = [c for c in others if not _NOT_RESULTS.search(f"{c.label} {c.context}")]
        in_row = [c for c in others if c.group and c.group == result.group]
        if not in_row and len(samples) != 1:
            continue
        measured = in_row or others
        own = read_factors(result.group) if in_row else set()
        if _NOT_RESULTS.search(result.label) or not 0 < len(measured) <= _MAX_MEASURED:
            continue
        yield from _compare_results(seen.path, result, measured, own or common)


def _is_original(claim: Claim) -> bool:
    return _ORIGINAL.search(f"{claim.label} ; {claim.context}") is not None


def _read_settings(transition: Transition) -> set[Decimal]:
    """Return the dilution factors that the parameters set."""
    leaves = [leaf for leaf in transition.parameters.leaves if leaf.word_set & {"dilution", "factor", "fold"}]
    found = {transition.parameters.find_dilution_factor()} | {units.parse_number(leaf.value) for leaf in leaves}
    return {value for value in found if value is not None and value > 1}


def read_factors(text: str) -> set[Decimal]:
    """Return all numbers of a text that may be dilution factors."""
    found = {Decimal(number) for pattern in _FACTORS for number in pattern.findall(text[:3000])}
    found |= {Decimal(_WORDS[word.lower()]) for word in _WORD_FACTOR.findall(text[:3000])}
    for sign, number in _PARTS.findall(text[:3000]):
        # "1:4" is one part in four for some and one part with four for others.
        found |= {Decimal(number) + 1} if sign == "+" else {Decimal(number), Decimal(number) + 1}
    found |= {Decimal(10) ** int(power) for power in _POWER.findall(text[:3000])}
    # "factor = 20.02/0.020": total volume over sample.
    found |= {Decimal(total) / Decimal(part) for total, part in _QUOTIENT.findall(text[:3000]) if Decimal(part)}
    return {value for value in found if 1 < value <= 10**9}


def _compare_results(subject: str, result: Claim, measured: Iterable[Claim], factors: set[Decimal]) -> Findings:
    if not factors or len(factors) > 12:
        return
    # A sample may have been diluted twice.
    possible = {Decimal(1), *factors, *(first * second for first in factors for second in factors)}
    nearest = min(
        (claim.value * factor for claim in measured for factor in possible), key=lambda value: abs(value - result.value)
    )
    tolerance = _TOLERANCE + result.relative_step * 2 + max(claim.relative_step for claim in measured)
    if result.is_approximate:
        tolerance += Decimal("0.1")
    if abs(nearest - result.value) > result.value * min(tolerance, Decimal("0.3")):
        expected = sorted({claim.value * factor for claim in measured for factor in factors})[:3]
        shown = [units.format_value(value, result.dimension) for value in expected]
        got = units.format_value(result.value, result.dimension)
        text = f"the measured concentration times the dilution factor is {' or '.join(shown)}, not {got}"
        yield error_finding("L03", subject, " or ".join(shown), got, text)
