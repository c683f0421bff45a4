"""L03 and L04: what a step makes from stated amounts: salts dissolved, drugs added, dilutions named, portions that add up."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal

from simulation.checker import chemistry
from simulation.checker.findings import Findings, compare, require
from simulation.checker.reading import claims, flows, units, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.flows import count_vessels
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import COMPOUND, Transition
from simulation.checker.relations.arithmetic import compare_computed
from simulation.checker.relations.weighing import claim_amount

ZERO = Decimal(0)
_RECIPE_TOLERANCE = Decimal("0.04")
_DOSE_TOLERANCE = Decimal("0.06")
_CONCENTRATIONS = ("molar_concentration", "mass_concentration")
_BATH = re.compile(r"\b(?:volume|medium|buffer|liquid|bath|tyrode|hbss|wells?)\b", re.IGNORECASE)
_FOLD_WORDS = {
    word: number
    for number, word in enumerate(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"], 2)
} | {"twenty": 20, "hundred": 100}
_FOLD = re.compile(
    rf"\b(?:([0-9]{{1,4}}(?:\.[0-9])?)|({'|'.join(_FOLD_WORDS)}))[- ]?(?:fold|times)\b|\bdilution factor\s?:?\s?([0-9]{{1,5}}(?:\.[0-9])?)|\bdil[_ ]factor\s?:?\s?([0-9]{{1,5}})",
    re.IGNORECASE,
)
_PARTS = re.compile(r"(?<![\w.:])1\s?\+\s?([0-9]{1,4})(?![\w.])")
_TO = re.compile(r"(?<![\w.:])1\s?[:/]\s?([0-9]{1,5})(?![\w.:])")
_CONSERVED = ("mass", "amount", "count")
_LABEL_OF_AMOUNT = re.compile(
    r"\b(?:total|n|number|amount|cells?|mini-?cells?|particles?|dna|tu|vg|in all|mass)\b", re.IGNORECASE
)
_NOT_CONSERVED = re.compile(
    r"\b(?:per|primers?|molar|size|viab\w*|passage|line|wells?|gross|tare|diameter|loss|net|max|capacity|dead|live)\b|/",
    re.IGNORECASE,
)


def check_recipes(transition: Transition) -> Findings:
    """L03: check concentrations made from weighed salts, from an added compound, and dilutions that a name states."""
    yield from _check_dissolved(transition)
    yield from _check_doses(transition)
    yield from _check_stated_dilution(transition)
    yield from _check_stated_ratio(transition)


_PER_VOLUME = {"count": "number_density", "mass": "mass_concentration", "amount": "molar_concentration"}
_NOT_MOVED = re.compile(
    r"\b(?:per|target|max\w*|capacity|tare|gross|before|left|dead|live|viab\w*|marker|ladder|primers?|vector|insert|molar|total loaded|wells?)\b|/",
    re.IGNORECASE,
)


def check_moved_amounts(transition: Transition) -> Findings:
    """L04: yield an error unless what an empty vessel received is the concentration of the source times the volume moved."""
    if transition.family != words.MOVE:
        return
    for fill in flows.trace_liquids(transition).fills:
        filled = [part for part in fill.parts if part.volume]
        output = fill.output
        if (
            len(filled) != 1
            or output.concentrations
            or filled[0].volume is None
            or count_vessels(output) not in (None, 1)
        ):
            continue
        source, volume = filled[0].source, filled[0].volume
        for dimension, by_volume in _PER_VOLUME.items():
            strengths = [amount for amount in source.concentrations.values() if amount.dimension == by_volume]
            stated = [
                claim
                for claim in claims.list_claims(transition, [output])
                if claim.dimension == dimension and claim.value > 0 and not _NOT_MOVED.search(claim.label)
            ]
            if len(strengths) == 1 and len({claim.value for claim in stated}) == 1 and len(source.concentrations) == 1:
                expected = strengths[0].value * volume / 1000
                text = f"{units.format_value(volume, 'volume')} of {source.name} contains"
                terms = (claim_amount(strengths[0]),)
                yield from compare_computed(
                    "L04", output.name, expected, terms, stated[0], text, tolerance=_DOSE_TOLERANCE
                )


def check_portions(transition: Transition) -> Findings:
    """L04: yield an error unless amounts of the same name add up over all portions of a material."""
    if transition.family not in (words.MOVE, words.COMBINE):
        return
    source = flows.find_source(transition) if transition.family == words.MOVE else None
    inputs = [source] if source else [view for view in transition.limited_inputs if not view.is_empty_vessel]
    if transition.family == words.MOVE and (source is None or source.is_unlimited):
        return
    before, after = _sum_amounts(transition, inputs), _sum_amounts(transition, transition.usable_outputs)
    for label in before.keys() & after.keys():
        (old, complete), (new, complete_after) = before[label], after[label]
        if complete and complete_after and old > 0:
            allowed = old * Decimal("0.06")
            text = f"{label[0][:40]} added up to {old:.4g} before and {new:.4g} after the step"
            yield from compare(
                "L04", transition.action, old, new, "", text, allowed, allowed, shown=(f"{old:.4g}", f"{new:.4g}")
            )


def _sum_amounts(transition: Transition, views: Iterable[MaterialView]) -> dict[tuple[str, str], tuple[Decimal, bool]]:
    """Return {(label, dimension): (sum over the materials, whether all state it)}."""
    sums: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    filled = [view for view in views if not view.is_empty_vessel]
    for view in filled:
        labels: dict[tuple[str, str], set[Decimal]] = defaultdict(set)
        for claim in claims.list_claims(transition, [view]):
            if claim.dimension in _CONSERVED and claim.matches(_LABEL_OF_AMOUNT) and not claim.matches(_NOT_CONSERVED):
                labels[claim.label, claim.dimension].add(claim.value)
        for label, values in labels.items():
            if len(values) == 1:
                sums[label].append(values.pop())
    return {label: (sum(values, ZERO), len(values) == len(filled)) for label, values in sums.items()}


def _iter_dissolved(view: MaterialView) -> Iterator[tuple[chemistry.Substance, Decimal]]:
    """Yield (substance, mass in µg) of every weighed substance that a dry material lists."""
    for leaf in view.leaves:
        mass = leaf.parse_amount("mass")
        names = frozenset(
            word for word in leaf.words if word not in ("composition", "content", "component", "mas", "mass", "g", "mg")
        )
        substance = chemistry.find_substance(names) if mass and names else None
        if mass is not None and substance is not None:
            yield substance, mass.value


def _check_dissolved(transition: Transition) -> Findings:
    """Yield an error unless the concentrations of a solution follow from the salts that were weighed into it."""
    dry = [(view, list(_iter_dissolved(view))) for view in transition.limited_inputs if view.volume is None]
    listed = [(view, parts) for view, parts in dry if len(parts) > 1]
    if (
        len(listed) != 1
        or transition.family != words.ADD
        or len([v for v in transition.limited_inputs if not v.is_empty_vessel]) > 2
    ):
        return
    source, parts = listed[0]
    for output in transition.usable_outputs:
        if transition.find_input(output) not in (None, source) or not output.liquid_volume:
            continue
        for component, got in output.concentrations.items():
            ion, substance = chemistry.find_ion(component), chemistry.find_substance(frozenset(component.split()))
            moles = ZERO
            for part, mass in parts:
                count = (
                    part.ions.get(ion, 0)
                    if ion
                    else int(
                        substance is not None and part.formula.split("(H2O)")[0] == substance.formula.split("(H2O)")[0]
                    )
                )
                moles += mass / part.molar_mass * count
            if moles and got.dimension == "molar_concentration":
                # µmol over µL is mol/L, and the base unit is µmol/L.
                expected = moles / output.liquid_volume * 1_000_000
                allowed = expected * _RECIPE_TOLERANCE + got.step
                shown = units.format_value(expected, got.dimension), units.format_value(got.value, got.dimension)
                text = f"the salts weighed in give {shown[0]} {component}, not {shown[1]}"
                yield from compare("L03", output.name, expected, got.value, got.dimension, text, allowed, allowed)


def _check_doses(transition: Transition) -> Findings:
    """Yield an error unless a compound that was added during a measurement has the concentration that its dose gives."""
    compound = transition.parameters.find_material(COMPOUND)
    doses = [
        a.value for leaf, a in transition.parameters.list_amounts("volume") if {"compound", "drug"} & leaf.word_set
    ]
    if compound is None or len(doses) != 1 or len(compound.concentrations) != 1:
        return
    [(component, stock)] = compound.concentrations.items()
    for before, after in transition.list_kept_pairs():
        # A bath may name the compound without saying how much of it is there.
        present = before.concentrations.get(component)
        is_named = bool(set(component.split()) & words.add_reagents(before.all_words))
        if before is compound or (is_named and (present is None or present.dimension != stock.dimension)):
            continue
        bath = _find_bath(transition, before)
        for claim in _list_doses(transition, after, component, stock.dimension) if bath else ():
            old = present.value * (bath or ZERO) if present is not None else ZERO
            expected = (stock.value * doses[0] + old) / ((bath or ZERO) + doses[0])
            text = f"{units.format_value(doses[0], 'volume')} of {compound.name} in {units.format_value(bath or ZERO, 'volume')} are"
            yield from compare_computed("L03", after.name, expected, (), claim, text, tolerance=_DOSE_TOLERANCE)


def _find_bath(transition: Transition, view: MaterialView) -> Decimal | None:
    """Return the volume above the cells before the addition, or None if it is not stated or several volumes are."""
    if view.liquid_volume:
        return view.liquid_volume
    volumes = {c.value for c in claims.list_claims(transition, [view]) if c.dimension == "volume" and c.matches(_BATH)}
    return volumes.pop() if len(volumes) == 1 else None


def _list_doses(transition: Transition, view: MaterialView, component: str, dimension: str) -> list[Claim]:
    names = set(component.split())
    return [
        c
        for c in claims.list_claims(transition, [view])
        if c.dimension == dimension and names & words.add_reagents(frozenset(words.tokenize(c.label)))
    ]


def _check_stated_dilution(transition: Transition) -> Findings:
    """Yield an error if a name or property states another dilution than the volumes of the step give."""
    for fill in flows.trace_liquids(transition).fills if transition.family == words.ADD else ():
        portion, total = fill.parts[0].volume, fill.output.liquid_volume or fill.total_volume
        if (
            len(fill.parts) != 2
            or not portion
            or not total
            or fill.parts[0].source.phase in (words.SOLID, words.PELLET)
        ):
            continue
        factor = total / portion
        new_texts = [leaf for leaf in fill.output.leaves if leaf.value_text not in transition.input_texts]
        texts = [
            f"{leaf.key}: {leaf.value_text}"
            for leaf in new_texts
            if {"dilution", "dil", "fold", "ratio", "history", "note", "remark", "label"} & leaf.word_set
        ]
        if fill.output.name not in transition.input_texts:
            texts.append(fill.output.name)
        # A dilution may be counted from the sample of this step or from the first one: 10-fold, then 5-fold, are 50-fold.
        earlier = _find_stated_factor(fill.parts[0].source)
        for text in texts:
            yield from _compare_dilution(fill.output.name, text, factor, earlier)


_RATIO = re.compile(
    r"\b([A-Za-z][\w-]{2,20})\s?[/:+]\s?([A-Za-z][\w-]{1,20})[\s,(]{1,3}([0-9]{1,3})\s?[:/+]\s?([0-9]{1,3})(?![\w.:/])"
)


def _check_stated_ratio(transition: Transition) -> Findings:
    """Yield an error if "acetonitrile/water 30:70" was mixed from other volumes, in whichever order they are named."""
    for fill in flows.trace_liquids(transition).fills if transition.family in (words.COMBINE, words.ADD) else ():
        match = _RATIO.search(fill.output.name) if fill.output.name not in transition.input_texts else None
        if match is None or len(fill.parts) != 2:
            continue
        named = [frozenset(words.tokenize(match[1])), frozenset(words.tokenize(match[2]))]
        volumes = [
            part.volume
            for name in named
            for part in fill.parts
            if words.add_reagents(name) & words.add_reagents(frozenset(part.source.name_words))
        ]
        if len(volumes) != 2 or not all(volumes):
            continue
        first, second, stated = volumes[0] or ZERO, volumes[1] or ZERO, (Decimal(match[3]), Decimal(match[4]))
        shares = [Decimal(number) / sum(stated) for number in stated] if sum(stated) else []
        holds = not shares or any(abs(first / (first + second) - share) <= Decimal("0.04") for share in shares)
        got, expected = (
            f"{match[3]}:{match[4]}",
            f"{first / (first + second) * 100:.3g}:{second / (first + second) * 100:.3g}",
        )
        yield from require(
            "L03", holds, fill.output.name, expected, got, f"the volumes are mixed {expected}, not {got}"
        )


def _find_stated_factor(view: MaterialView) -> Decimal:
    """Return by how much a material says that it was diluted before, or 1."""
    numbers = {units.parse_number(leaf.value) for leaf in view.leaves if {"dilution", "factor"} <= leaf.word_set}
    return next((number for number in numbers if number), Decimal(1)) if len(numbers) == 1 else Decimal(1)


def _compare_dilution(subject: str, text: str, factor: Decimal, earlier: Decimal = Decimal(1)) -> Findings:
    if re.search(r"\bconcentrat", text, re.IGNORECASE):
        return
    stated: list[tuple[Decimal, ...]] = []
    for match in _FOLD.finditer(text):
        number = next((group for group in match.groups() if group), "")
        value = Decimal(_FOLD_WORDS[number.lower()]) if number.lower() in _FOLD_WORDS else Decimal(number)
        stated.append((value,))
    stated += [(Decimal(number) + 1,) for number in _PARTS.findall(text)]
    # "1:4" is one part in four for some and one part with four for others.
    stated += [(Decimal(number), Decimal(number) + 1) for number in _TO.findall(text)]
    if len(stated) == 1:
        holds = any(abs(value - f) <= f * Decimal("0.06") for value in stated[0] for f in (factor, factor * earlier))
        shown = f"{factor:.4g}-fold", f"{stated[0][0]}-fold"
        yield from require(
            "L03", holds, subject, shown[0], shown[1], f"the volumes dilute {shown[0]}, but {text[:60]} says {shown[1]}"
        )
