"""L20: numbers of one record agree with each other: parts with their sum, shares with counts, ratios and differences.

Every relation needs one claim for each of its terms. A term that is stated twice and differently, or by words with
two meanings, leaves the relation undecided.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import combinations
from typing import NamedTuple

from simulation.checker.findings import Findings, compare, error_finding
from simulation.checker.reading import claims, units
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.transition import ObservationView, Transition

ZERO, ONE = Decimal(0), Decimal(1)
_RELATIVE = Decimal("0.01")  # share of a computed number: rounding in steps of a calculation by hand
_APPROXIMATE = Decimal("0.15")  # share, if the text says "about"
_MIN_DEVIATION = Decimal("0.03")  # share; a smaller difference may come from numbers that the record rounds


def compile_label(pattern: str) -> re.Pattern[str]:
    """Return a pattern for labels of claims, in which case does not matter."""
    return re.compile(pattern, re.IGNORECASE)


def is_count(claim: Claim) -> bool:
    """Return whether a claim is a whole number of things."""
    return claim.dimension in ("", "count") and claim.value == claim.value.to_integral_value() and claim.value >= 0


def find_term(found: Iterable[Claim], pattern: re.Pattern[str], dimensions: Sequence[str] = ("",)) -> Claim | None:
    """Return the only claim with such a label and dimension, or None if there is none or several differ."""
    matches = [claim for claim in found if claim.dimension in dimensions and claim.matches(pattern)]
    first = matches[0] if matches else None
    if first is None or any(abs(claim.value - first.value) > claim.step + first.step for claim in matches):
        return None
    return first


def compare_computed(
    code: str, subject: str, expected: Decimal, terms: Iterable[Claim], stated: Claim, text: str, dimension: str = "",
    tolerance: Decimal = _RELATIVE,
) -> Findings:  # fmt: skip
    """Yield an error unless a stated number is the one computed from other claims, within their rounding.

    `expected` is in the unit of the stated number. The rounding of every term adds to the tolerance of the result.
    """
    terms = list(terms)
    rounding = sum((claim.relative_step for claim in terms), ZERO)
    share = max(rounding + tolerance, _MIN_DEVIATION)
    if stated.is_approximate or any(claim.is_approximate for claim in terms):
        share = max(share, _APPROXIMATE)
    allowed = abs(expected) * share + min(stated.step * 2, abs(expected) / 4)
    shown = tuple(_format(value, dimension or stated.dimension) for value in (expected, stated.value))
    message = f"{text} {shown[0]}, not {shown[1]}"
    yield from compare(
        code,
        subject,
        expected,
        stated.value,
        dimension or stated.dimension,
        message,
        allowed,
        allowed,
        shown=(shown[0], shown[1]),
    )


def _format(value: Decimal, dimension: str) -> str:
    return f"{value:.3g}" if dimension in ("", "count") else units.format_value(value, dimension)


class Ratio(NamedTuple):
    """A number that is one claim divided by another: its name, and the patterns of the three labels."""

    name: str
    result: re.Pattern[str]
    above: re.Pattern[str]
    below: re.Pattern[str]


_RATIOS = (
    Ratio("A260/A280", compile_label(r"260\s?/\s?(?:a\s?)?280"), compile_label(r"^(?!.*280).*\ba ?260\b(?!\s?/)"), compile_label(r"^(?!.*260).*\ba ?280\b(?!\s?/)")),
    Ratio("A260/A230", compile_label(r"260\s?/\s?(?:a\s?)?230"), compile_label(r"^(?!.*230).*\ba ?260\b(?!\s?/)"), compile_label(r"^(?!.*260).*\ba ?230\b(?!\s?/)")),
)  # fmt: skip
_PEAK_ANODIC, _PEAK_CATHODIC = (
    compile_label(r"\be[ _]?p[, ]?a\b|\b(?:anodic|oxidation|oxidative) peak\b(?! current)|\be[ _]?p?[ (]{0,2}ox\b"),
    compile_label(r"\be[ _]?p[, ]?c\b|\b(?:cathodic|reduction|reductive) peak\b(?! current)|\be[ _]?p?[ (]{0,2}red\b"),
)
_PEAK_SEPARATION = compile_label(r"(?:\bd|Δ|delta\s?)ep\b|\bpeak(?:-to-peak)? separation\b|\bseparat\w+\b")
_MIDPOINT = compile_label(r"\be\s?(?:1/2|half|½)|\bhalf[- ]wave\b|\bmid-?point potential\b|\bformal potential\b|\be0'")
_CURRENT_ANODIC, _CURRENT_CATHODIC = (
    compile_label(r"\bi[ _]?p?[, (]{0,2}(?:a|ox)\b(?!\s?/)|\b(?:anodic|oxidation) (?:peak )?current\b"),
    compile_label(r"(?<!/)(?<!/ )\bi[ _]?p?[, (]{0,2}(?:c|red)\b|\b(?:cathodic|reduction) (?:peak )?current\b"),
)
_CURRENT_RATIO = compile_label(r"\bratio\b|ip,?a\s?/\s?\|?ip,?c")
_BASELINE = compile_label(
    r"\b[frs][_ ]?0\b(?!.*/[frs])|\bf_?0\b(?!.*/f)|\bbaseline\b|\bbasal\b|\bbefore\b|\bresting\b|\binitial\b|\bunstimulated\b|\bpre\b"
)
_PEAK = compile_label(
    r"\b[frs][_ ]?(?:peak|max|end|stim|fsk|1|t)\b|\bpeak\b|\bplateau\b|\bmaxim\w+\b|\bmax\b|\bfinal\b|\bafter\b|\bstimulated\b|\bpost\b|\bresponse\b|(?:^|→ ?|-> ?)[frs]$"
)
_RELATIVE_CHANGE = compile_label(
    r"(?:Δ|\bd|delta ?)(?:f|r|s)\s?/\s?(?:f|r|s)[_ ]?0?\b|\b(?:change|increase|rise|decrease|drop)\b.*\b(?:relative|baseline)\b|\brelative (?:change|increase|decrease)\b"
)
_FOLD_CHANGE = compile_label(
    r"(?<![Δd])\bf\s?/\s?f_?0\b|\bfold\b(?!.*(?:dilut|concentrat))|\btimes (?:the|as|higher|more|brighter)\b"
)
_FROM_TO = compile_label(
    r"\bfrom ([0-9]{1,7}(?:\.[0-9]{1,4})?)[^0-9;|]{0,15} to ([0-9]{1,7}(?:\.[0-9]{1,4})?)(?![0-9.]*\s?%)[^0-9;|%]{0,60}?([+-]?[0-9]{1,4}(?:\.[0-9]{1,2})?)\s?%"
)
_DELTA_CT, _CT = compile_label(r"(?:\bdelta|Δ|\bd) ?-?c[tq]\b"), compile_label(r"\bc[tq]\b")


def check_arithmetic(transition: Transition) -> Findings:
    """L20: check ratios, differences, shares, sums and relative changes within every observation."""
    yield from _check_signal_share(transition)
    yield from _check_mean("the readings", [claim for _, found in claims.list_observed(transition) for claim in found])
    gathered = [claim for _, found in claims.list_observed(transition) for claim in found]
    for seen, found in claims.list_observed(transition):
        yield from _check_mean(seen.path, found)
        yield from _check_ratios(seen, found)
        yield from _check_voltammogram(seen, found)
        yield from _check_relative_change(seen, found, gathered)
        yield from _check_area_share(seen, found)
        yield from _check_from_to(seen)
        yield from _check_delta_ct(seen, found)
        yield from _check_replicates_in_brackets(seen)


def _check_ratios(seen: ObservationView, found: list[Claim]) -> Findings:
    for ratio in _RATIOS:
        above, below, stated = (find_term(found, pattern) for pattern in (ratio.above, ratio.below, ratio.result))
        if above and below and stated and below.value:
            expected = above.value / below.value
            yield from compare_computed("L20", seen.path, expected, (above, below), stated, f"{ratio.name} is")


def _check_voltammogram(seen: ObservationView, found: list[Claim]) -> Findings:
    """Yield an error unless peak separation, midpoint and ratio of currents follow from the peaks."""
    anodic, cathodic, separation = (
        find_term(found, pattern, ("voltage",)) for pattern in (_PEAK_ANODIC, _PEAK_CATHODIC, _PEAK_SEPARATION)
    )
    midpoint = find_term(found, _MIDPOINT, ("voltage",))
    for stated, name in ((separation, "the peak separation"), (midpoint, "the midpoint potential")):
        if anodic and cathodic and stated:
            expected = anodic.value - cathodic.value if stated is separation else (anodic.value + cathodic.value) / 2
            # A difference is as uncertain as its terms, however small it is.
            allowed = anodic.step + cathodic.step + stated.step * 2 + Decimal("0.001")
            shown = units.format_value(expected, "voltage"), units.format_value(stated.value, "voltage")
            text = f"{name} is {shown[0]}, not {shown[1]}"
            yield from compare("L20", seen.path, expected, stated.value, "voltage", text, allowed, allowed, shown=shown)
    currents = [find_term(found, pattern, ("current",)) for pattern in (_CURRENT_ANODIC, _CURRENT_CATHODIC)]
    stated = find_term(found, _CURRENT_RATIO)
    if currents[0] and currents[1] and stated and currents[1].value:
        expected = abs(currents[0].value / currents[1].value)
        terms = [claim for claim in currents if claim]
        if abs(stated.value - 1 / expected) > stated.step * 2:
            yield from compare_computed("L20", seen.path, expected, terms, stated, "the ratio of the peak currents is")


def _check_relative_change(seen: ObservationView, found: list[Claim], gathered: list[Claim]) -> Findings:
    """Yield an error unless ΔF/F0, or a change relative to the baseline, follows from baseline and peak."""
    yield from _check_inhibition(seen, found)
    for pattern, name in ((_RELATIVE_CHANGE, "the relative change"), (_FOLD_CHANGE, "F/F0")):
        stated = find_term([c for c in found if pattern.search(c.own_label)], pattern, ("", "ratio"))
        stated = stated or find_term(found, pattern, ("", "ratio"))
        for pool in (found, gathered) if stated else ():
            others = [
                claim
                for claim in pool
                # The description in front of the first number may announce what is computed from it.
                if claim is not stated and not pattern.search(claim.own_label) and claim.dimension == ""
            ]
            baseline = find_term(others, _BASELINE)
            peaks = [claim for claim in others if claim.matches(_PEAK) and not claim.matches(_BASELINE)]
            if stated and baseline and peaks and baseline.value > 0:
                shift, scale = (1 if pattern is _RELATIVE_CHANGE else 0), (100 if stated.dimension == "ratio" else 1)
                # A fall may be written without its sign, and any of several readings may be the one compared.
                possible = [(abs(peak.value / baseline.value - shift) * scale, peak) for peak in peaks]
                expected, peak = min(possible, key=lambda pair: abs(pair[0] - abs(stated.value)))
                yield from compare_computed(
                    "L20",
                    seen.path,
                    expected,
                    (baseline, peak),
                    replace(stated, value=abs(stated.value)),
                    f"{name} is",
                    tolerance=Decimal("0.02"),
                )
                break


_INHIBITION = compile_label(r"\binhibition\b|\bknock-?down\b|\breduction\b|\bquench\w*\b|\bsuppress\w*\b|\bhemmung\b")
_CONTROL, _TREATED = (
    compile_label(r"\bcontrol\b|\buntreated\b|\bvehicle\b|\bmock\b|\bwithout\b|\bkontrolle\b"),
    compile_label(r"\btreated\b(?!.*\bun)|\bwith\b|\binhibit(?:or|ed)\b|\bdrug\b|\bsirna\b"),
)


def _check_inhibition(seen: ObservationView, found: list[Claim]) -> Findings:
    """Yield an error unless an inhibition is 1 - treated / control."""
    stated = find_term([c for c in found if c.dimension == "ratio"], _INHIBITION, ("ratio",))
    plain = [c for c in found if c.dimension == "" and c.value > 0]
    control = find_term(plain, _CONTROL)
    treated = find_term([c for c in plain if not c.matches(_CONTROL)], _TREATED)
    if stated and control and treated and treated.value < control.value:
        expected = (1 - treated.value / control.value) * 100
        yield from compare_computed(
            "L20", seen.path, expected, (), stated, "the inhibition is", tolerance=Decimal("0.04")
        )


def _check_from_to(seen: ObservationView) -> Findings:
    """Yield an error unless "rose from 400 to 600, an increase of 50 %" has the change relative to the start."""
    for start_text, end_text, share_text in _FROM_TO.findall(seen.full_text[:1500]):
        start, end, share = Decimal(start_text), Decimal(end_text), abs(Decimal(share_text))
        if start > 0 and start != end:
            expected = abs(end - start) / start * 100
            # The share of what is left is another way to say it.
            possible = [expected, end / start * 100] if end < start else [expected]
            expected = min(possible, key=lambda value: abs(value - share))
            allowed, shown = Decimal(1) + expected / 25, (f"{expected:.1f} %", f"{share} %")
            message = f"from {start} to {end} is a change of {shown[0]}, not {shown[1]}"
            yield from compare("L20", seen.path, expected, share, "ratio", message, allowed, allowed, shown=shown)


def _check_delta_ct(seen: ObservationView, found: list[Claim]) -> Findings:
    """Yield an error unless a difference of threshold cycles is that of the two cycles of the record."""
    difference = find_term(found, _DELTA_CT)
    cycles = sorted({c.value for c in found if c.dimension == "" and c.matches(_CT) and not c.matches(_DELTA_CT)})
    if difference is not None and len(cycles) == 2:
        expected, allowed = cycles[1] - cycles[0], Decimal("0.15")
        text, shown = (
            f"the threshold cycles differ by {expected}, not {difference.value}",
            (str(expected), str(difference.value)),
        )
        yield from compare("L20", seen.path, expected, abs(difference.value), "", text, allowed, allowed, shown=shown)


_AREA = compile_label(
    r"\b(?:peak )?areas?\b|\bintegrated (?:intensit\w+|densit\w+|signals?)\b|\b(?:band|peak) (?:intensit\w+|signals?|volumes?|densit\w+)\b|\bflachen?\b|\baires?\b"
)
_TOTAL_AREA, _IN_PERCENT = (
    compile_label(r"\btotal\b|\bsum\b|\ball\b|\bs/n\b|\blane\b|\bcap\b"),
    compile_label(r"%|\bpercent\b|\bpct\b"),
)
_SHARE_OF_SIGNAL = compile_label(
    r"\bcleav|\bprocess|\bshare\b|\bfraction\b|\befficien|\bof all\b|\bof (?:the )?total\b"
)
_NOT_SHARE = compile_label(r"\brsd\b|\bcv\b|\berror\b|\brecover|\bpurity\b|\bgel\b|\bacryl|\bstandard\b|\bdiluted?\b")


def _check_area_share(seen: ObservationView, found: list[Claim]) -> Findings:
    """Yield an error if a share of a signal is no share that two or three areas of the record can give."""
    areas = _list_areas(found)
    own_shares = {
        claim.label.replace("%", "").strip(): claim
        for claim in found
        if claim.dimension == "ratio" and claim.matches(_AREA)
    }
    if len(areas) >= 2 and own_shares and all(claim.label in own_shares for claim in areas):
        whole = sum(claim.value for claim in areas)
        for claim in areas:
            share, part = own_shares[claim.label], claim.value / whole * 100
            message = f"{claim.text} is {part:.1f} % of all areas, not {share.value} %"
            shown = f"{part:.1f} %", f"{share.value} %"
            yield from compare(
                "L20", seen.path, part, share.value, "ratio", message, Decimal(1), Decimal(1), shown=shown
            )
        return


def _list_areas(found: list[Claim]) -> list[Claim]:
    return [
        claim
        for claim in found
        if claim.dimension in ("", "count")
        and claim.value > 1
        and _AREA.search(f"{claim.label} {claim.context}")
        and not _TOTAL_AREA.search(claim.label)
    ]


def _check_signal_share(transition: Transition) -> Findings:
    """Yield an error if a share of a signal is no share that two to four areas of the record can give."""
    observed = claims.list_observed(transition)
    areas = [claim for _, found in observed for claim in _list_areas(found)]
    if not 2 <= len({claim.value for claim in areas}) <= 4:
        return
    values = sorted({claim.value for claim in areas})
    total = sum(values, ZERO)
    # The share of any selection of bands may be meant, or of two bands among each other.
    possible = {
        sum(chosen, ZERO) / sum(whole, ZERO) * 100
        for size in range(2, len(values) + 1)
        for whole in combinations(values, size)
        for part in range(1, size)
        for chosen in combinations(whole, part)
    }
    for seen, found in observed:
        for stated in found:
            label = f"{stated.label} {stated.context}"
            is_share = stated.dimension == "ratio" or (stated.dimension == "" and _IN_PERCENT.search(label))
            if (
                not is_share
                or not _SHARE_OF_SIGNAL.search(label)
                or _NOT_SHARE.search(label)
                or not 0 < stated.value <= 100
            ):
                continue
            nearest = min(possible, key=lambda share: abs(share - stated.value))
            allowed, shown = Decimal(1) + stated.step, (f"{nearest:.1f} %", f"{stated.value} %")
            listed = ", ".join(f"{value / total * 100:.1f} %" for value in values)
            text = f"the areas are {listed} of the total, which gives no share of {stated.value} %"
            yield from compare("L20", seen.path, nearest, stated.value, "ratio", text, allowed, allowed, shown=shown)


_REPLICATES = re.compile(
    r"(?<![\w.])([0-9]{1,7}\.[0-9]{1,6})\s?[^0-9(;,]{0,12}\(((?:[0-9]{1,7}\.[0-9]{1,6}(?:\s?[A-Za-zµ/%]{0,6})?(?:\s?[,;/]\s?|\s?\)|\s(?:and|\+)\s)){2,6})"
)


def _check_replicates_in_brackets(seen: ObservationView) -> Findings:
    """Yield an error if a value is outside the readings that follow it in brackets: "28.99 g (28.98, 28.99, 29.00)"."""
    for match in _REPLICATES.finditer(seen.full_text[:1500]):
        value, readings = Decimal(match[1]), [Decimal(number) for number in re.findall(r"[0-9]+\.[0-9]+", match[2])]
        low, high = min(readings), max(readings)
        # Numbers of another size are no readings of this value.
        if len(readings) >= 2 and low > 0 and high < low * Decimal("1.2") and low / 2 < value < high * 2:
            margin = (high - low) / 10 + Decimal(10) ** Decimal(match[1].partition(".")[2].__len__() * -1)
            holds = low - margin <= value <= high + margin
            if not holds:
                text = f"{value} is outside its readings {low} to {high}"
                yield error_finding("L20", seen.path, f"{low} to {high}", str(value), text)


_MEAN = compile_label(r"\bmean\b|\baverage\b|\bavg\b")
_RUN = compile_label(
    r"\b(?:run|reading|repl\w*|trial|repeat|measurement)s?\b ?#? ?(?:[0-9]|one|two|three|four|five)?|\brun[0-9]"
)


def _find_core(label: str) -> str:
    """Return a label without the words of a mean and the number of a row: "mean colonies" and "3 colonies" have one."""
    return " ".join(_MEAN.sub(" ", re.sub(r"\b[0-9]+\b", " ", label)).split())


_RUN_NUMBER = re.compile(r"\b(?:run|reading|repl\w*|trial|repeat|measurement)s?\b ?#? ?[0-9]$", re.IGNORECASE)


def _check_mean(subject: str, found: list[Claim]) -> Findings:
    """Yield an error if a mean lies outside the range of the readings that it was computed from."""
    # "replicate 2" is no reading, but the name of the next number.
    runs = [
        claim
        for claim in found
        if claim.matches(_RUN) and not claim.matches(_MEAN) and not _RUN_NUMBER.search(claim.text)
    ]
    mean = find_term(found, _MEAN, tuple({claim.dimension for claim in runs or found}))
    if mean is not None and len(runs) < 2:
        core = _find_core(mean.label)
        runs = [
            c
            for c in found
            if c is not mean and c.dimension == mean.dimension and _find_core(c.label) == core and not c.matches(_MEAN)
        ]
    if mean is None or len(runs) < 2 or len({claim.dimension for claim in runs}) != 1:
        return
    lowest, highest = min(claim.value for claim in runs), max(claim.value for claim in runs)
    allowed = mean.step * 2 + (highest - lowest) / 10 + abs(highest) / 200
    if not lowest - allowed <= mean.value <= highest + allowed:
        text = f"a mean of {_format(mean.value, mean.dimension)} is outside the readings"
        shown = f"{_format(lowest, mean.dimension)} to {_format(highest, mean.dimension)}"
        yield error_finding("L20", subject, shown, _format(mean.value, mean.dimension), text)
