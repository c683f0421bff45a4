"""L20: ratios of named signals, molar ratios of elements, net masses and numbers per cell, with terms from anywhere in the record."""

import re
from collections.abc import Sequence
from decimal import Decimal
from itertools import permutations

from simulation.checker import chemistry
from simulation.checker.findings import Findings
from simulation.checker.reading import words
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compile_label, is_count
from simulation.checker.relations.records import ELEMENT_NAMES
from simulation.checker.results import entries
from simulation.checker.results.entries import Entry

_MAX_TERMS = 40
_MAX_UNQUALIFIED = 3  # numbers of one name; of more, as of a series, one without a name of its own may be any
_RATIO = compile_label(r"\bratio\b|\bquotient\b|\bverh(?:ä|ae)ltnis\b|\brapport\b")
_NO_NAMES = words.word_set("% of the a in for as is are and at pct percent")
_SHARE_OF = compile_label(
    r"\b(?:share|frac(?:tion)?|percent(?:age)?|%|proportion)\b(?: [\w+-]+)? (?:of|in|among) (?:all |the )?([\w+ -]{2,40}?)(?= (?:pct|percent|%)|,|;|$)"
)
_RELATIVE = compile_label(r"\br ?/ ?r_?0\b|\bchange\b|\bnormali[sz]ed\b|Δ|\bdelta\b|\bfold\b")  # a ratio of ratios
_ABSORBANCE = compile_label(r"a ?[0-9]{3}")  # may be at another path length than its ratio's
_PAIR = compile_label(
    r"(?<![\w/])([a-z][\w+α-ω.-]{0,14})\s?(?:/|:| to | over |-to-)\s?([a-z][\w+α-ω.-]{0,14})(?![\w/])"
)
_MOLAR = compile_label(r"\bmolar\b|\bmol\w*\b|\batom\w*\b|\bstoichiometr\w*\b")
_NET = compile_label(r"\bnet(?:to|te)?\b|\bnet weight\b")
_GROSS, _TARE = (
    compile_label(r"\bgross\b|\bbrutto\b|\bbrut\b|\bbruto\b|\bfilled\b|\bfull\b|\bwith\b|\bplus\b|\btotal\b"),
    compile_label(r"\btare\b|\btara\b|\bempty\b|\bleer\w*\b|\bvide\b|\bvac[ií]o\b|\balone\b"),
)


def check_named_ratios(transition: Transition) -> Findings:
    """L20: check ratios of named signals, molar ratios of elements, net masses, and numbers per cell."""
    record = entries.list_entries(transition)
    observed = [entry for entry in record if entry.is_observed]
    if len(observed) > _MAX_TERMS * 5:
        return
    for stated in observed:
        yield from _check_named_ratio(stated, observed)
        yield from _check_gate_share(stated, observed)
        yield from _check_element_ratio(stated, record)
        yield from _check_net_mass(stated, record)
    for stated in record:
        if not stated.is_observed:
            yield from _check_number_per_cell(stated, record)
            yield from _check_named_ratio(stated, [entry for entry in record if entry.subject == stated.subject])


def _check_named_ratio(stated: Entry, others: Sequence[Entry]) -> Findings:
    """Yield an error if a ratio that names its two terms is the quotient of no numbers with these names."""
    claim = stated.claim
    if claim.dimension not in ("", "ratio") or claim.value <= 0 or _RELATIVE.search(stated.label):
        return
    for match in _PAIR.finditer(stated.label[:300]):
        if match[1].lower() == match[2].lower():
            continue
        above, below = (_find_named(name, stated, others) for name in match.groups())
        # "YFP/CFP end: 1.52" is a ratio if there are one YFP and one CFP; "a.u./s" is a unit.
        is_ratio = claim.dimension == "ratio" or _RATIO.search(stated.label)
        is_one_each = len(above) == len(below) == 1 and not _ABSORBANCE.fullmatch(match[1])
        if not is_ratio and not ("/" in match[0] and is_one_each and match[0] in stated.own_label):
            continue
        if not 0 < len(above) <= _MAX_TERMS or not 0 < len(below) <= _MAX_TERMS:
            continue
        scale = Decimal(100) if claim.dimension == "ratio" else entries.ONE
        results = [a / b * scale for a in above for b in below if b]
        yield from entries.compare_results(stated, results, f"ratio of {match[1]} to {match[2]}")


def _check_gate_share(stated: Entry, observed: Sequence[Entry]) -> Findings:
    """Yield an error if a share of a named gate is the share of no other count in the count of that gate."""
    claim = stated.claim
    match = _SHARE_OF.search(stated.own_label) if claim.dimension == "ratio" and 0 < claim.value <= 100 else None
    if match is None:
        return
    whole = set(words.tokenize(match[1])) - _NO_NAMES
    own = set(words.tokenize(_SHARE_OF.sub(" ", stated.own_label))) - _NO_NAMES - whole
    counts = [e for e in observed if e.claim.dimension in ("", "count") and e.claim.value >= 1 and is_count(e.claim)]
    named = [(entry, set(words.tokenize(entry.own_label)) - _NO_NAMES) for entry in counts]
    wholes = [entry.claim.value for entry, names in named if whole and whole <= names]
    # The part has to be there, too: a count that shares a word with the share and is not the whole.
    has_part = any(own & names and not whole <= names for _, names in named) or any(
        own & names and entry.claim.value != max(wholes, default=entry.claim.value) for entry, names in named
    )
    if own and has_part and 0 < len(wholes) <= _MAX_UNQUALIFIED and len(counts) <= _MAX_TERMS:
        results = [
            entry.claim.value / value * 100 for entry in counts for value in wholes if entry.claim.value <= value
        ]
        yield from entries.compare_results(stated, results, f"share of {match[1].strip()}")


def _find_named(name: str, stated: Entry, others: Sequence[Entry]) -> list[Decimal]:
    """Return the numbers that are called `name` and are no ratio."""
    word = re.compile(rf"(?<![\w/]){re.escape(name)}(?![\w/]|\s?/)", re.IGNORECASE)
    found = [
        entry
        for entry in others
        if entry is not stated
        and entry.claim.dimension in ("", "count")
        and entry.claim.value > 0
        and word.search(entry.label)
        and not _RATIO.search(entry.label)
    ]
    # "YFP/CFP end" is of "YFP end" and not of "YFP before"; "C3" is of the well C3.
    rest = set(words.tokenize(_PAIR.sub(" ", _RATIO.sub(" ", stated.own_label)))) - _NO_NAMES
    same = [entry for entry in found if rest and rest <= set(words.tokenize(entry.own_label))]
    if rest:
        return [entry.claim.value for entry in same]
    return [entry.claim.value for entry in found] if len(found) <= _MAX_UNQUALIFIED else []


def _check_element_ratio(stated: Entry, record: Sequence[Entry]) -> Findings:
    """Yield an error if a molar ratio of two elements does not follow from their mass concentrations."""
    claim = stated.claim
    if claim.dimension not in ("", "ratio", "amount") or claim.value <= 0 or not _MOLAR.search(stated.label):
        return
    found: dict[str, set[Decimal]] = {}
    for entry in record:
        if entry.claim.dimension in ("mass_concentration", "mass") and entry.claim.value > 0:
            for symbol in _list_elements(entry.label):
                found.setdefault(symbol, set()).add(entry.claim.value / chemistry.compute_molar_mass(symbol))
    named = [symbol for symbol in _list_elements(stated.label) if symbol in found]
    if (not _RATIO.search(stated.label) and "/" not in stated.label) or len(named) != 2:
        return
    results = [a / b for first, second in permutations(named) for a in found[first] for b in found[second]]
    yield from entries.compare_results(stated, results, f"molar ratio of {named[0]} to {named[1]}")


_SYMBOL = re.compile(r"(?<![A-Za-z])(na|mg|al|si|p|s|cl|k|ca|mn|fe|cu|zn|sr|y)(?![A-Za-z])")


def _list_elements(label: str) -> list[str]:
    """Return the symbols of the elements that a label names, in its order. Labels are in lower case."""
    text = re.sub(r"[0-9.]+ ?[a-zµ]+/[a-zµ]+|/ ?(?:ml|l)\b|\b[mµnk]?g\b", " ", label)
    found = [symbol.capitalize() for symbol in _SYMBOL.findall(text)]
    found += [ELEMENT_NAMES[word] for word in words.tokenize(text) if word in ELEMENT_NAMES]
    return list(dict.fromkeys(found))


def _check_net_mass(stated: Entry, record: Sequence[Entry]) -> Findings:
    """Yield an error if a net mass is the difference of no two masses of a record that has gross and tare."""
    claim = stated.claim
    if claim.dimension != "mass" or not _NET.search(stated.own_label) or claim.value <= 0:
        return
    masses = [entry for entry in record if entry.claim.dimension == "mass" and entry is not stated]
    if not any(_GROSS.search(e.label) for e in masses) or not any(_TARE.search(e.label) for e in masses):
        return
    results = [abs(a.claim.value - b.claim.value) for a in masses for b in masses if a is not b]
    steps = max(entry.claim.step for entry in masses) * 2
    if len(masses) <= _MAX_TERMS and not any(abs(result - claim.value) <= steps for result in results):
        near = [result for result in results if result > 0]
        yield from entries.compare_results(stated, near, "net mass", exact=steps)


_PER_CELL = compile_label(r"(?:/| per )(?:host )?(?:cell|macrophage|neuron)s?\b")
_OF_CELLS = compile_label(r"\bcells?\b|\bmacrophages?\b|\bneurons?\b")


def _check_number_per_cell(stated: Entry, record: Sequence[Entry]) -> Findings:
    """Yield an error if a number of particles for each cell is the ratio of no two numbers of the record."""
    claim = stated.claim
    if claim.dimension or not _PER_CELL.search(claim.label) or claim.value <= 0:
        return
    counts = {
        e.claim.value
        for e in record
        if e.claim.value >= 1000 and e.claim.dimension in ("", "count") and e is not stated
    }
    cells = {e.claim.value for e in record if e.claim.dimension == "count" and _OF_CELLS.search(e.label)}
    densities = {e.claim.value for e in record if e.claim.dimension == "number_density" and e.claim.value > 0}
    volumes = {e.claim.value / 1000 for e in record if e.claim.dimension == "volume" and e.claim.value > 0}
    particles = counts | {density * volume for density in densities for volume in volumes}
    if cells and particles - cells and len(cells) * len(particles) <= 2000:
        results = [a / b for a in particles for b in cells if b > 0 and a != b]
        yield from entries.compare_results(stated, results, "number per cell")
