"""L20: a result that a record states follows from other numbers of the record, wherever they are written.

The terms of a result may be in another observation, in a material or in the settings of the action, and several numbers may be
meant. So a result is wrong only if every term has candidates and no choice of them gives it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, product
from statistics import stdev

from simulation.checker.findings import Findings, compare
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compile_label
from simulation.checker.results import entries
from simulation.checker.results.entries import Entry

_MAX_CANDIDATES = 12  # for one term
_MAX_CHOICES = 2000  # of one formula; bounds the time on hostile input
_MAX_READINGS = 60  # of one mean or standard deviation
_MAX_PARTED = 12  # readings of which a part may have the stated mean


@dataclass(frozen=True)
class Term:
    """What a term of a formula is called (`words`), what it is not called (`without`), and its possible dimensions."""

    words: re.Pattern[str]
    dimensions: tuple[str, ...]
    without: re.Pattern[str] | None = None

    def matches(self, claim: Claim, label: str) -> bool:
        """Return whether a claim with this label may be the term."""
        return (
            claim.dimension in self.dimensions
            and self.words.search(label) is not None
            and (self.without is None or self.without.search(label) is None)
        )


@dataclass(frozen=True)
class Formula:
    """A result and the terms from which `compute` gets it, in base units.

    `has_dilution`: the result is multiplied by the dilution factor of the record. `largest_ratio`: the terms are readings of
    one signal and differ at most by this factor; None allows any terms.
    """

    name: str
    result: Term
    terms: tuple[Term, ...]
    compute: Callable[..., Decimal]
    has_dilution: bool = False
    largest_ratio: Decimal | None = None


_NUMBER = ("", "count")
_COLONIES = Term(
    compile_label(r"\bcolon(?:y|ies)\b|\bcfu\b|\bkolonien\b|\bcounted\b"),
    _NUMBER,
    compile_label(r"/ ?(?:ml|l)\b|\bper m"),
)
_PLATED = Term(compile_label(r"\bplat(?:ed|ing)\b|\bspread\b|\bspot\w*\b|\bausplattiert\b|\bvol\w*\b"), ("volume",))
_CFU = Term(
    compile_label(r"(?:\bcfu\b|\bcolon(?:y|ies)[- ]forming\b|\bkbe\b).*(?:/ ?m|\bper m)"),
    ("number_density", ""),
    compile_label(r"\blog\b|\bratio\b|/ ?cm|\bper chip\b"),
)
_BASELINE = Term(
    compile_label(r"\bbase ?line\b|\bbasal\b|\bbefore\b|\bresting\b|\bpre\b|\b[fr][_ ]?0\b|\binitial\b|\bstart\b"),
    _NUMBER,
    compile_label(r"Δ|delta|\bd[fr]\b|[fr] ?/ ?[fr]|over"),
)
_PEAK = Term(
    compile_label(
        r"\bpeak\b|\bmax\w*\b|\bafter\b|\bplateau\b|\bpost\b|\bstimulated\b|\bend\b|\bf[_ ]?(?:max|peak|1)\b"
    ),
    _NUMBER,
    _BASELINE.without,
)
_CHANGE = Term(compile_label(r"(?:Δ|delta ?|\bd)[fr] ?(?:/|over) ?[fr] ?0?(?!\w)"), ("",))
_RELATIVE_CHANGE = Term(_CHANGE.words, ("ratio",))
# "F0 1 000" may be read as 1; a signal rises less than twentyfold.
_SIGNAL_RATIO = Decimal(20)
FORMULAS = (
    # The base unit of a volume is µL, that of a number density 1/mL.
    Formula("CFU", _CFU, (_COLONIES, _PLATED), lambda n, volume: n / volume * 1000, has_dilution=True),
    Formula(
        "change over baseline",
        _CHANGE,
        (_PEAK, _BASELINE),
        lambda peak, base: (peak - base) / base,
        largest_ratio=_SIGNAL_RATIO,
    ),
    Formula(
        "change over baseline",
        _RELATIVE_CHANGE,
        (_PEAK, _BASELINE),
        lambda peak, base: (peak - base) / base * 100,
        largest_ratio=_SIGNAL_RATIO,
    ),
)


def check_formulas(transition: Transition) -> Findings:
    """L20: check means, standard deviations and the results of `FORMULAS` against the other numbers of the record."""
    record = entries.list_entries(transition)
    observed = [entry for entry in record if entry.is_observed]
    for stated in observed:
        yield from _check_formulas_of(transition, stated, record)
        yield from _check_mean(stated, observed)
        yield from _check_spread(stated, observed)


def _check_formulas_of(transition: Transition, stated: Entry, record: Sequence[Entry]) -> Findings:
    """Yield an error if a stated number is the result of a formula, and no choice of its terms gives it."""
    for formula in FORMULAS:
        if not formula.result.matches(stated.claim, stated.own_label) or stated.claim.value <= 0:
            continue
        others = [entry for entry in record if entry is not stated and entry.claim.value > 0]
        # A number that is itself such a result is no term of another one.
        others = [entry for entry in others if not formula.result.matches(entry.claim, entry.label)]
        choices = _choose(others, formula.terms)
        factors = entries.list_factors(transition) if formula.has_dilution else {entries.ONE}
        if formula.largest_ratio is not None:
            choices = [choice for choice in choices if _is_close(choice, formula.largest_ratio)]
        results = [
            formula.compute(*(claim.value for claim in choice)) * factor for choice in choices for factor in factors
        ]
        yield from entries.compare_results(stated, results, formula.name)


def _choose(candidates: Iterable[Entry], terms: Sequence[Term]) -> list[tuple[Claim, ...]]:
    """Return the choices of one claim for each term, or nothing if a term has no candidate or too many."""
    columns = []
    for term in terms:
        found = {entry.claim.value: entry.claim for entry in candidates if term.matches(entry.claim, entry.label)}
        columns.append(list(found.values()))
    if not all(0 < len(column) <= _MAX_CANDIDATES for column in columns):
        return []
    return [choice for choice in islice(product(*columns), _MAX_CHOICES) if len({id(c) for c in choice}) == len(choice)]


# "mean of 3.40, 3.41, 3.42": readings follow.
_MEAN = compile_label(r"\b(?:means?|average|avg)\b(?! of$)|\bmittel\w*\b|\bmoyenne\b|\bmedia\b|(?<!\w)x̄")
_NO_MEAN = compile_label(
    r"\b(?:sd|stdev|rsd|cv|sem|spread|range|deviation|standard)\b|\bmeans that\b|\bmean of (?:[a-z]+ )?(?:cells|particles|the population)\b|\bmean (?:\w+ ){0,3}(?:fluorescence|intensity|signal)\b|\bmean of (?:the |all )|\bgeometric\b"
)
_SPREADS = (
    (
        "relative standard deviation",
        compile_label(r"\brsd\b|\bcv\b|\bcoefficient of variation\b|\brel(?:ative|\.)? (?:sd|standard deviation)\b"),
        True,
    ),
    (
        "standard deviation",
        compile_label(r"(?<!rel )(?<!relative )\b(?:sd|stdev|s\.d\.|standard deviation|stabw|std)\b"),
        False,
    ),
)


def _list_series(candidates: Iterable[Entry], dimension: str) -> Iterator[list[Claim]]:
    """Yield the readings of each observation: numbers of one dimension that are no mean and no spread, at least two."""
    by_subject: dict[str, list[Claim]] = {}
    for entry in candidates:
        is_reading = not _MEAN.search(entry.own_label) and not any(
            pattern.search(entry.own_label) for _, pattern, _ in _SPREADS
        )
        if entry.claim.dimension == dimension and is_reading:
            by_subject.setdefault(entry.subject, []).append(entry.claim)
    for found in by_subject.values():
        if 2 <= len(found) <= _MAX_READINGS:
            yield found
    # One reading in each observation.
    single = [found[0] for found in by_subject.values() if len(found) == 1]
    if 2 <= len(single) <= _MAX_READINGS:
        yield single


def _check_mean(stated: Entry, observed: Sequence[Entry]) -> Findings:
    """Yield an error if a stated mean is that of no part of the only list of readings near it, in its row or anywhere."""
    claim = stated.claim
    label = stated.own_label
    if claim.dimension == "" and claim.step >= Decimal("0.5") and claim.value < 100:
        return  # "mean (n = 3)"
    if not _MEAN.search(label) or _NO_MEAN.search(label) or claim.value <= 0:
        return
    rest = [entry for entry in observed if entry is not stated and entry.claim is not claim]
    row = [
        entry for entry in rest if claim.group and (entry.subject, entry.claim.group) == (stated.subject, claim.group)
    ]
    # Readings of the same thing are near each other, and a mean of them is, even if it is wrong, not far away.
    lists = [
        found
        for found in list(_list_series(row, claim.dimension)) or _list_series(rest, claim.dimension)
        if _is_close(found, Decimal("1.5")) and _is_close([*found, claim], Decimal(3))
    ]
    if len(lists) != 1 or len(rest) > _MAX_READINGS:
        return
    found = lists[0]
    results = [sum((c.value for c in part), Decimal(0)) / len(part) for part in _list_parts(found)]
    margin = max(c.step for c in found)
    nearest = min(results, key=lambda value: abs(value - claim.value))
    allowed = (
        margin + claim.step * Decimal("1.2") + (nearest * entries.APPROXIMATE if claim.is_approximate else Decimal(0))
    )
    # The first part is the whole list.
    shown = entries.format_number(results[0], claim.dimension), entries.format_number(claim.value, claim.dimension)
    text = f"the mean of the readings is {shown[0]}, not {shown[1]}"
    yield from compare(
        "L20", stated.subject, nearest, claim.value, claim.dimension, text, allowed, allowed, shown=shown
    )


def _list_parts(found: Sequence[Claim]) -> list[Sequence[Claim]]:
    """Return all readings, then all but one and every run of neighbours: an outlier may be left out, a list have two samples."""
    parts: list[Sequence[Claim]] = [found]
    if 2 < len(found) <= _MAX_PARTED:
        runs = ((i, j) for i in range(len(found)) for j in range(i + 2, len(found) + 1))
        parts += [found[i:j] for i, j in runs if j - i < len(found)]
        parts += [[*found[:i], *found[i + 1 :]] for i in range(len(found))]
    return parts


def _is_close(found: Sequence[Claim], factor: Decimal) -> bool:
    """Return whether all values are positive and the largest is at most `factor` times the smallest."""
    values = [claim.value for claim in found]
    return min(values) > 0 and max(values) <= min(values) * factor


def _check_spread(stated: Entry, observed: Sequence[Entry]) -> Findings:
    """Yield an error if a stated standard deviation, absolute or in %, is that of no part of the only list of readings."""
    for name, pattern, is_relative in _SPREADS:
        if not pattern.search(stated.own_label) or stated.claim.value <= 0:
            continue
        if is_relative != (stated.claim.dimension == "ratio"):
            continue
        dimensions = {entry.claim.dimension for entry in observed} if is_relative else {stated.claim.dimension}
        rest = [entry for entry in observed if entry is not stated]
        lists = [found for dimension in sorted(dimensions) for found in _list_series(rest, dimension)]
        lists = [found for found in lists if _is_close(found, Decimal("1.5"))]
        if len(lists) != 1:
            return
        # The standard deviations of the whole list come first, with n - 1 and with n in the denominator.
        results, rounding = [], Decimal(0)
        for part in _list_parts(lists[0]):
            values = [claim.value for claim in part]
            mean, spread = sum(values, Decimal(0)) / len(values), stdev(values)
            n = Decimal(len(values))
            for deviation in (spread, spread * ((n - 1) / n).sqrt()):
                results.append(deviation / mean * 100 if is_relative else deviation)
            rounding = max(rounding, part[0].step / mean * 100 if is_relative else part[0].step)
        nearest = min(results, key=lambda value: abs(value - stated.claim.value))
        allowed = nearest * Decimal("0.08") + stated.claim.step * 2 + rounding * 2
        shown = (
            entries.format_number(results[0], stated.claim.dimension),
            entries.format_number(stated.claim.value, stated.claim.dimension),
        )
        text = f"the {name} of the readings is {shown[0]}, not {shown[1]}"
        yield from compare(
            "L20",
            stated.subject,
            nearest,
            stated.claim.value,
            stated.claim.dimension,
            text,
            allowed,
            allowed,
            shown=shown,
        )
        return
