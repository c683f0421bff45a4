"""L04 and L20: relations within one row of a table, one sentence or one list of components.

Several numbers of a row may be meant, so a stated result is wrong only if no choice of them gives it: a molar concentration from a
mass concentration, a mean of listed readings, a total of listed parts.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from itertools import combinations

from simulation.checker import chemistry
from simulation.checker.findings import Findings, error_finding
from simulation.checker.reading import claims, properties, units, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.relations.arithmetic import compile_label

ZERO = Decimal(0)
_TOLERANCE = Decimal("0.03")
_MAX_PARTS = 8  # of a sum; all combinations of them are tried
_BY_MASS, _BY_NUMBER = ("mass_concentration", "mass"), ("molar_concentration", "amount")
_NOT_CONCENTRATION = compile_label(r"\bdensity\b|\brho\b|\blod\b|\bloq\b|\blimit\b|\bsd\b|\bper\b")
# Symbols that stand alone: "Ca:", "| P |", "Mg 8.02 mg/L".
_ELEMENT = re.compile(
    r"(?<![A-Za-z0-9])(Na|Mg|Al|Si|P|S|Cl|K|Ca|Mn|Fe|Co|Ni|Cu|Zn|Br|Sr|Ag|Cd|Ba|Pb|Li)(?:2\+|3\+|\+|-)?(?![A-Za-z0-9(])"
)
ELEMENT_NAMES = {
    "sodium": "Na", "magnesium": "Mg", "aluminium": "Al", "aluminum": "Al", "silicon": "Si", "phosphorus": "P", "sulfur": "S", "chloride": "Cl",
    "potassium": "K", "calcium": "Ca", "manganese": "Mn", "iron": "Fe", "copper": "Cu", "zinc": "Zn", "silver": "Ag", "lithium": "Li", "phosphate": "PO4",
    "sulfate": "SO4", "nitrate": "NO3", "ammonium": "NH4", "strontium": "Sr", "barium": "Ba", "lead": "Pb",
}  # fmt: skip


def check_records(transition: Transition) -> Findings:
    """L04: check molar against mass concentrations in every row, and totals against the parts that a material lists."""
    for seen, found in claims.list_observed(transition):
        for group, members in _group(found):
            text = f"{group} ; {seen.description}"
            weights = _list_molar_masses(members) or _list_molar_masses(found) or _list_molar_masses_of(transition)
            yield from _compare_molar(seen.path, members, weights | _list_named_molar_masses(text, transition))
            if "|" in group:
                yield from _check_row_total(seen.path, members)
        yield from _check_mean_of_list(seen)
        yield from _check_listed_sum(seen.path, seen.full_text)
        yield from _check_equal_amounts(seen.path, seen.full_text)
    yield from _check_fragments(transition)
    for view in transition.usable_outputs:
        yield from _check_components(transition, view)
        yield from _check_parts(transition, view)
        yield from _check_own_density(transition, view)
        for leaf in view.leaves:
            if leaf.value_text and leaf.value_text not in transition.input_texts:
                yield from _check_listed_sum(view.name, leaf.value_text)
                yield from _check_equal_amounts(view.name, leaf.value_text)
        yield from _check_equal_amounts(view.name, view.name)


def _group(found: Iterable[Claim]) -> Iterator[tuple[str, list[Claim]]]:
    """Yield the claims of each row or sentence."""
    groups: dict[str, list[Claim]] = {}
    for claim in found:
        groups.setdefault(claim.group, []).append(claim)
    yield from groups.items()


def _list_molar_masses(found: Iterable[Claim]) -> set[Decimal]:
    """Return the molar masses in g/mol that claims state."""
    return {
        claim.value * 1000
        for claim in found
        if claim.value > 0 and claim.dimension == "molecular_mass" and not claim.matches(_NOT_CONCENTRATION)
    }


def _list_molar_masses_of(transition: Transition) -> set[Decimal]:
    """Return the molar masses that the materials state."""
    return _list_molar_masses(claims.list_claims(transition, (*transition.inputs, *transition.outputs)))


def _list_named_molar_masses(text: str, transition: Transition | None = None) -> set[Decimal]:
    """Return the molar masses of the substances and elements that a text names, in g/mol."""
    text_words = set(words.tokenize(text[:300]))
    found = {chemistry.compute_molar_mass(symbol) for symbol in _ELEMENT.findall(text[:400])}
    found |= {chemistry.compute_molar_mass(ELEMENT_NAMES[word]) for word in text_words if word in ELEMENT_NAMES}
    found |= {substance.molar_mass for substance in chemistry.list_substances(text_words)}
    if not found and transition is not None:
        named = {word for view in transition.inputs for word in view.all_words}
        found = {substance.molar_mass for substance in chemistry.list_substances(named)}
    return found


def _compare_molar(subject: str, found: list[Claim], molar_masses: set[Decimal]) -> Findings:
    """Yield an error unless some mass, or mass concentration, and molar mass give a stated molar amount."""
    for by_mass, by_number in zip(_BY_MASS, _BY_NUMBER, strict=True):
        masses = [c for c in found if c.dimension == by_mass and c.value > 0 and not c.matches(_NOT_CONCENTRATION)]
        numbers = [c for c in found if c.dimension == by_number and c.value > 0 and not c.matches(_NOT_CONCENTRATION)]
        if not masses or len(numbers) != 1 or not 0 < len(molar_masses) <= 6 or len(masses) > 4:
            continue
        stated = numbers[0]
        # µg over g/mol is µmol, and the base unit is nmol; µg/mL over g/mol is mmol/L.
        possible = {mass.value / weight * 1000: mass for mass in masses for weight in molar_masses}
        nearest = min(possible, key=lambda value: abs(value - stated.value))
        tolerance = _TOLERANCE + possible[nearest].relative_step + stated.relative_step
        tolerance += Decimal("0.1") if stated.is_approximate or possible[nearest].is_approximate else ZERO
        if abs(nearest - stated.value) > nearest * tolerance:
            shown = units.format_value(nearest, by_number), units.format_value(stated.value, by_number)
            mass = units.format_value(possible[nearest].value, by_mass)
            text = f"{mass} are {shown[0]} with the molar mass of the record, not {shown[1]}"
            yield error_finding("L04", subject, shown[0], shown[1], text)


_PER_VOLUME = {"mass": "mass_concentration", "amount": "molar_concentration", "count": "number_density"}


def _check_row_total(subject: str, members: list[Claim]) -> Findings:
    """Yield an error unless some concentration times some volume of a row give its total."""
    for dimension, by_volume in _PER_VOLUME.items():
        totals = [c for c in members if c.dimension == dimension and c.value > 0]
        densities = [c for c in members if c.dimension == by_volume and c.value > 0]
        volumes = [c for c in members if c.dimension == "volume" and c.value > 0]
        if len(totals) != 1 or not 0 < len(densities) <= 2 or not 0 < len(volumes) <= 3:
            continue
        possible = [density.value * volume.value / 1000 for density in densities for volume in volumes]
        nearest = min(possible, key=lambda value: abs(value - totals[0].value))
        rounding = totals[0].relative_step + max(c.relative_step for c in (*densities, *volumes))
        # A portion of one column may have been used for the total of another.
        if abs(nearest - totals[0].value) > nearest * (_TOLERANCE * 2 + rounding):
            shown = units.format_value(nearest, dimension), units.format_value(totals[0].value, dimension)
            text = f"{densities[0].text} in {volumes[0].text} are {shown[0]}, not {shown[1]}"
            yield error_finding("L04", subject, shown[0], shown[1], text)


def _check_components(transition: Transition, view: MaterialView) -> Findings:
    """Yield an error if the mass and molar concentration of one component contradict each other."""
    by_component: dict[str, list[Claim]] = {}
    for leaf in view.leaves:
        amount = leaf.parse_amount(*units.CONCENTRATIONS)
        component = properties.find_component(leaf)
        if amount is not None and component is not None and amount.dimension in (*_BY_MASS, *_BY_NUMBER):
            claim = Claim("", amount.value, amount.dimension, amount.step, amount.text)
            by_component.setdefault(component, []).append(claim)
    members = claims.read_text(view.name)
    if {"mass_concentration", "molar_concentration"} <= {claim.dimension for claim in members}:
        yield from _compare_molar(view.name, members, _list_named_molar_masses(view.name))
    for leaf in view.leaves:
        # "glucose: 18 g/L (100 mM)" has both in one text.
        members = claims.read_text(leaf.value_text) if isinstance(leaf.value, str) else []
        if {"mass_concentration", "molar_concentration"} <= {claim.dimension for claim in members}:
            yield from _compare_molar(
                view.name, members, _list_named_molar_masses(f"{leaf.path_text} {leaf.value_text}")
            )
    for component, found in by_component.items():
        named = {s.molar_mass for s in chemistry.list_substances(set(component.split()))}
        if not named and len(by_component) == 1:
            named = _list_named_molar_masses(view.name) or _list_molar_masses_of(transition)
        if len({claim.dimension for claim in found}) == 2:
            yield from _compare_molar(view.name, found, named)


_KIND = re.compile(r"\b(?:minicell|particle|virus|viral|cfu|tu|vg|bead|spore|bacteri\w*|dead)", re.IGNORECASE)
_OF_CELLS = compile_label(r"\bcells?\b|\bdensity\b|^c\b|^concentration\b")
_NUMBER_OF = compile_label(r"^n$|\bn\b|\bnumber\b|\btotal\b|\bcells?\b|\bcount\b")
_NOT_NUMBER = compile_label(
    r"\bper\b|/|\bpassage\b|\bseed\w*|\btarget\b|\bplated\b|\bevents?\b|\bdiv\b|\bmax\w*|\bdead\b|\bbefore\b|\bstart\w*"
)


def _check_own_density(transition: Transition, view: MaterialView) -> Findings:
    """Yield an error if the number of cells of a material over none of its volumes gives the density that it states."""
    own = claims.list_claims(transition, [view])
    # "titer: 5e7 per mL" is the number of something else.
    densities = [c for c in own if c.dimension == "number_density" and c.value > 0]
    if not all(c.matches(_OF_CELLS) for c in densities):
        return
    numbers = [
        c
        for c in own
        if c.dimension in ("count", "") and c.value >= 1000 and c.matches(_NUMBER_OF) and not c.matches(_NOT_NUMBER)
    ]
    volumes = [c.value for c in own if c.dimension == "volume" and c.value > 0]
    volumes += [view.volume.value] if view.volume and view.volume.value > 0 else []
    if len({c.value for c in densities}) != 1 or not numbers or not volumes:
        return
    density = densities[0]
    kinds = [set(map(str.lower, _KIND.findall(c.label))) for c in (density, *numbers)]
    shares = [Decimal(1), *(c.value / 100 for c in own if c.dimension == "ratio" and 0 < c.value < 100)]
    possible = [n.value * share / volume * 1000 for n in numbers for volume in volumes for share in shares]
    nearest = min(possible, key=lambda value: abs(value - density.value))
    tolerance = Decimal("0.06") + density.relative_step + max(c.relative_step for c in numbers)
    tolerance += Decimal("0.2") if any(c.is_approximate for c in (density, *numbers)) else ZERO
    if all(kind == kinds[0] for kind in kinds) and abs(nearest - density.value) > nearest * tolerance:
        shown = [units.format_value(value, "number_density") for value in (possible[-1], density.value)]
        text = f"{numbers[0].text} in {view.name} are {shown[0]}, not {shown[1]}"
        yield error_finding("L04", view.name, shown[0], shown[1], text)


_MEAN_OF_LIST = re.compile(
    r"(?P<list>(?:(?<![\w.:/-])-?[0-9]{1,7}\.?[0-9]{0,6}(?:\s?[A-Za-zµ°/%]{1,6})?\s?(?:[,;/|&+]|\band\b)\s?){2,14}-?[0-9]{1,7}\.?[0-9]{0,6}(?![\w:/.]*[0-9]))"
    r"[^0-9]{0,25}?(?:\b(?:mean|average|avg|mittelwert|mittel|moyenne|media|promedio|mw)\b|Ø|x̄)[^0-9(\[]{0,25}?(?P<mean>-?[0-9]{1,7}(?:\.[0-9]{1,6})?)(?![0-9]|\.[0-9]|\s?%)",
    re.IGNORECASE,
)


def _check_mean_of_list(seen: ObservationView) -> Findings:
    """Yield an error if a mean is not that of the readings listed before it: "2.10, 1.99, 2.23 | mean 2.46".

    The readings may be the name of a row, of which no claims are made, so `formulas` does not see them.
    """
    for line in seen.full_text[:3000].splitlines():
        for match in _MEAN_OF_LIST.finditer(line):
            readings = [Decimal(number) for number in re.findall(r"-?[0-9]+(?:\.[0-9]+)?", match["list"])]
            stated, low, high = Decimal(match["mean"]), min(readings), max(readings)
            # Numbers of another size are no readings of the quantity.
            if len(readings) < 3 or low <= 0 or high > low * 3:
                continue
            step = Decimal(10) ** -len(match["mean"].partition(".")[2])
            # An outlier may have been left out.
            means = [sum(readings, ZERO) / len(readings)]
            means += [(sum(readings, ZERO) - reading) / (len(readings) - 1) for reading in readings]
            nearest = min(means, key=lambda value: abs(value - stated))
            if abs(nearest - stated) > step * 2 + nearest * Decimal("0.01") and low / 3 < stated < high * 3:
                text = f"the mean of {match['list'].strip()[:60]} is {means[0]:.4g}, not {stated}"
                yield error_finding("L20", seen.path, f"{means[0]:.4g}", str(stated), text)


_RESULT = re.compile(
    r"(?:=|\b(?:total(?:ling)?|in all|altogether|sum|makes?|gives?|insgesamt|gesamt|summe|au total|en total)\b)[^0-9]{0,12}(?=[0-9])",
    re.IGNORECASE,
)
_NOT_PARTS = re.compile(
    r"\s[x×*/-]\s|\bof which\b|\bper\b|\beach\b|\bfrom\b|\bleft\b|\bminus\b|\bless\b|[0-9]\s?[x×]\s?[0-9]|->",
    re.IGNORECASE,
)


def _check_listed_sum(subject: str, text: str) -> Findings:
    """Yield an error unless "250 µL mix, 50 µL primers, 200 µL water; total 500 µL" adds up."""
    for sentence in re.split(r"\.\s+(?=[A-Z])|\n", text[:1500]):
        results = list(_RESULT.finditer(sentence))
        if len(results) != 1 or _NOT_PARTS.search(sentence):
            continue
        head, tail = sentence[: results[0].start()], sentence[results[0].end() :]
        total = units.parse_amount(tail)
        if total is None or total.dimension not in ("volume", "mass", "amount"):
            continue
        parts = [amount.value for amount in units.find_amounts(head, total.dimension) if amount.value > 0]
        if not 2 <= len(parts) <= _MAX_PARTS or total.value <= max(parts):
            continue
        sums = [sum(chosen, ZERO) for size in range(2, len(parts) + 1) for chosen in combinations(parts, size)]
        nearest = min(sums, key=lambda value: abs(value - total.value))
        if abs(nearest - total.value) > total.value * _TOLERANCE + min(total.step * 2, total.value / 20):
            shown = units.format_value(sums[-1], total.dimension), units.format_value(total.value, total.dimension)
            yield error_finding(
                "L04", subject, shown[0], shown[1], f"{head.strip()[:80]} add up to {shown[0]}, not {shown[1]}"
            )


_TOTAL = compile_label(r"\btotal\w*\b|\bsum\b|\bin all\b|\baltogether\b|\boverall\b")
_NOT_TOTAL = compile_label(
    r"\bper\b|/|\bcapacity\b|\bprotein\b|\bcells?\b|\bmax\w*\b|\btarget\b|\bbefore\b|\bload\w*\b"
)


_EQUAL = re.compile(
    r"(?<![\w.^/x×*+·(-])(?<![-+x×*/·=]\s)([0-9]{1,9}(?:\.[0-9]{1,6})?(?:e[+-]?[0-9]{1,2})?\s?[A-Za-zµ%]{1,6}(?:/[A-Za-zµ]{1,3})?)"
    r"\s?(?:=|\bi\.e\.,?|\bcorresponds to|\bentspricht|\bequals)\s?"
    r"([0-9]{1,9}(?:\.[0-9]{1,6})?(?:e[+-]?[0-9]{1,2})?\s?[A-Za-zµ%]{1,6}(?:/[A-Za-zµ]{1,3})?)(?![\w/]|\s?[x×*/+÷]\s?[0-9]|\s-\s)"
)
_CONVERTED = (
    "mass_concentration",
    "molar_concentration",
    "volume",
    "mass",
    "amount",
    "length",
    "voltage",
    "number_density",
)


def _check_equal_amounts(subject: str, text: str) -> Findings:
    """Yield an error unless both sides of "0.194 mg/mL = 194 µg/mL" are the same amount."""
    for match in _EQUAL.finditer(text[:1500]):
        left, right = (units.parse_amount(part) for part in match.groups())
        if left is None or right is None or left.dimension != right.dimension or left.dimension not in _CONVERTED:
            continue
        rounding = min(left.step, abs(left.value) / 10) + min(right.step, abs(right.value) / 10)
        if right.value > 0 and abs(left.value - right.value) > rounding + left.value * _TOLERANCE:
            text = f"{match[1]} are {units.format_value(left.value, left.dimension)}, not {match[2]}"
            yield error_finding("L12", subject, match[1], match[2], text)


def _check_parts(transition: Transition, view: MaterialView) -> Findings:
    """Yield an error if a total is no sum of the parts that the material, or the step that combines them, lists."""
    own = claims.list_claims(transition, [view])
    for dimension in ("mass", "amount", "volume"):
        totals = [c for c in own if c.dimension == dimension and c.matches(_TOTAL) and not c.matches(_NOT_TOTAL)]
        if len({claim.value for claim in totals}) != 1 or totals[0].value <= 0:
            continue
        total = totals[0]
        listed = [leaf for leaf in view.leaves if _is_listed(leaf.words) and leaf.parse_amount(dimension)]
        parts = [amount.value for leaf in listed if (amount := leaf.parse_amount(dimension)) is not None]
        parts = [value for value in parts if value > 0]
        if not 2 <= len(parts) <= _MAX_PARTS:
            continue
        sums = [sum(chosen, ZERO) for size in range(1, len(parts) + 1) for chosen in combinations(parts, size)]
        # Small parts hide in the tolerance of a sum, so all but one of them may be missing.
        nearest = min(sums, key=lambda value: abs(value - total.value))
        if abs(nearest - total.value) > total.value * _TOLERANCE + total.step and total.value > max(parts):
            shown = units.format_value(sums[-1], dimension), units.format_value(total.value, dimension)
            text = f"the parts listed for {view.name} add up to {shown[0]}, not {shown[1]}"
            yield error_finding("L04", view.name, shown[0], shown[1], text)


_CUT = compile_label(r"\bdigest\w*\b|\bcut\b|\bcleav\w*\b|\brestriction\b")
_WHOLE = compile_label(r"\bamplicon\b|\bpcr product\b|\blinear\b|\buncut\b|\bfull[- ]length\b")
_GELS = ("AgaroseGelElectrophoresis", "PAGE", "CapillaryElectrophoresis")


def _check_fragments(transition: Transition) -> Findings:
    """Yield an error if the fragments of a digested amplicon do not add up to its length."""
    if transition.action not in _GELS:
        return
    names = " ; ".join(
        " ; ".join((view.name, *(leaf.value_text for leaf in view.leaves)))
        for view in transition.inputs
        if not transition.parameters.has_named(view)
    )
    lengths = {a.value for a in units.find_amounts(names, "base_pairs")}
    if len(lengths) != 1 or not _CUT.search(names) or not _WHOLE.search(names) or "plasmid" in names.lower():
        return
    length = lengths.pop()
    for seen in transition.observations:
        bands = {a.value for a in units.find_amounts(seen.full_text, "base_pairs")} - {length}
        # A partial digest shows the amplicon beside its fragments; a ladder has many bands.
        if 2 <= len(bands) <= 3 and all(band < length for band in bands) and "ladder" not in seen.full_text.lower():
            sums = [sum(chosen, ZERO) for size in (2, 3) for chosen in combinations(sorted(bands), size)]
            nearest = min(sums, key=lambda value: abs(value - length))
            if abs(nearest - length) > length * Decimal("0.06"):
                text = f"the fragments add up to {nearest} bp, but the amplicon has {length} bp"
                yield error_finding("L20", seen.path, f"{length} bp", f"{nearest} bp", text)


_LISTS = properties.CONTENTS | words.word_set("provenance made from part plasmid portion mix recipe input source")


def _is_listed(key_words: tuple[str, ...]) -> bool:
    """Return whether a leaf belongs to a list of what a material was made of."""
    return len(key_words) > 2 and bool(set(key_words[:2]) & _LISTS)
