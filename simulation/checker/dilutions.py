"""L03: C1 V1 = C2 V2 in every vessel with known parts, the medium after a wash, and dilution series."""

from decimal import Decimal

from simulation.checker import chemistry, weights
from simulation.checker.concentrations import (
    UNMENTIONED,
    can_persist,
    describe_amount,
    describe_component,
    find_concentration,
    is_denied,
    iter_shared_concentrations,
    may_be_product,
    rounding_margin,
    share_component,
    tolerance_margin,
)
from simulation.checker.findings import Findings, compare, undecided_finding
from simulation.checker.reading import claims, flows, properties, units, words
from simulation.checker.reading.flows import DilutionSeries, FilledOutput
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

ZERO = Decimal(0)
_WASH_TOLERANCE = Decimal("0.2")  # some of the old medium may remain on the cells
# Words in the name of the parameter that gives the medium after a wash.
_REPLACEMENT = word_set("replacement fresh")
# Liquids whose components are not known from their names.
_UNKNOWN_MIXTURES = word_set(
    "medium media serum culture lysate extract broth drink juice tea coffee milk blood unknown sample digest leachate supernatant filtrate mix "
    "master kit cocktail supplement reagent cell dmem rpmi neurobasal plasma soil effluent"
)


def check_dilutions(transition: Transition) -> Findings:
    """L03: check C1 V1 = C2 V2 in every vessel with known parts, the medium after a wash, and dilution series."""
    for fill in flows.trace_liquids(transition).fills:
        for component, got in fill.output.concentrations.items():
            yield from _check_mixture(transition, fill, component, got)
    if transition.action == "Wash":
        yield from _check_wash(transition)
        yield from _check_washed_out(transition)
    if transition.family == words.SERIAL and (series := flows.find_dilution_series(transition)):
        yield from _check_series(transition, series)


def _check_mixture(transition: Transition, fill: FilledOutput, component: str, got: Amount) -> Findings:
    sources = [part.source for part in fill.parts]
    strengths = [source.concentrations.get(component) for source in sources]
    # A text like "1X PBS" usually stays when diluting, so a part must be a concentrate (2X or more).
    has_concentrate = any(a is not None and a.dimension == "fold" and a.value >= 2 for a in strengths)
    # A ratio may be by volume or by mass; only if it says so does it follow from volumes.
    is_ratio = got.dimension == "ratio" and not properties.SHARE.search(got.text)
    is_excluded = is_ratio or (got.dimension == "fold" and not has_concentrate)
    if is_excluded or may_be_product(component, sources) or not share_component(component, sources):
        return
    total_volume = fill.output.liquid_volume or fill.total_volume
    known_amount, is_complete = ZERO, True
    for source, volume in fill.parts:
        if volume == 0:
            amount = _find_dissolved_amount(source, component, got)
        else:
            concentration = find_concentration(source, component, got.dimension)
            # A concentration under another name, or without one, may be that of the component.
            is_unnamed = any(
                claim.dimension == got.dimension and not words.content_words(claim.label) - {"q"}
                for claim in claims.list_claims(transition, [source])
            )
            if concentration is None and not is_unnamed and _lacks_component(source, component):
                concentration = ZERO
            amount = None if concentration is None or volume is None else concentration * volume
        known_amount, is_complete = known_amount + (amount or ZERO), is_complete and amount is not None
    # The known parts alone give a lower limit, which can be violated even if other parts are unknown.
    if not total_volume or (not is_complete and known_amount == 0):
        text = f"the inputs of its {describe_component(component)} are not known"
        yield undecided_finding("L03", fill.output.name, text)
        return
    expected = known_amount / total_volume
    limit, allowed = "" if is_complete else "at least", tolerance_margin(got, expected)
    shown = f"{limit} {units.format_value(expected, got.dimension)}".strip()
    text = f"{describe_amount(component, fill.output, got)}; its parts give {shown}"
    above, below = allowed if is_complete else None, allowed if can_persist(component, sources) else None
    yield from compare("L03", fill.output.name, expected, got.value, got.dimension, text, above, below, limit)


def _lacks_component(view: MaterialView, component: str) -> bool:
    """Return whether a material is a plain solution, of other things than the component as far as it says."""
    component_words = set(component.split()) - UNMENTIONED
    if not component_words or chemistry.find_ion(component) or view.all_words & _UNKNOWN_MIXTURES:
        return False
    if _has_abbreviated(view, component_words):
        return False
    return not component_words & words.add_reagents(view.all_words)


def _has_abbreviated(view: MaterialView, component_words: set[str]) -> bool:
    """Return whether a material has a component under a longer word, as "puro" is short for puromycin."""
    return any(
        word.startswith(short) and word != short
        for short in component_words
        if len(short) > 3
        for word in view.all_words
    )


def _find_dissolved_amount(source: MaterialView, component: str, got: Amount) -> Decimal | None:
    """Return what a solid or pellet (else zero) contributes, as concentration times µL, or None if unknown."""
    if source.is_empty_vessel or source.phase not in (words.SOLID, words.PELLET):
        return ZERO
    cells = weights.find_counted_amounts(source).get("cell")
    if component == "cell" and cells is not None and got.dimension == "number_density":
        # Number density is in cells per mL, so cells per mL times µL.
        return cells.value * 1000
    if got.dimension == "molar_concentration" and not source.concentrations:
        moles = {a.value for leaf in source.leaves if (a := leaf.parse_amount("amount"))}
        # nmol over mL is µmol/L, so nmol per µL a thousand of them.
        return moles.pop() * 1000 if len(moles) == 1 and not component else None
    if got.dimension == "ratio" and source.mass is not None and not source.concentrations and "w" in got.text:
        # 1 mg/mL is 0.1 % (w/v).
        return source.mass.value / 10 if set(component.split()) <= words.add_reagents(source.all_words) else None
    if source.mass is None or got.dimension != "mass_concentration" or source.concentrations:
        return None
    return source.mass.value * 1000 if set(component.split()) <= words.add_reagents(source.all_words) else None


def _check_wash(transition: Transition) -> Findings:
    """Yield an error unless the medium after a wash is the replacement. A little of the old medium may remain."""
    replacement = transition.parameters.find_material(_REPLACEMENT)
    for before, after in transition.list_kept_pairs() if replacement is not None else ():
        if replacement is None or transition.parameters.has_named(before):
            continue
        for component, expected, got in iter_shared_concentrations(replacement, after):
            # Cells are what was washed, not part of the medium.
            if component != "cell":
                allowed = expected.value * _WASH_TOLERANCE + rounding_margin(got)
                shown = units.format_value(expected.value, got.dimension)
                text = f"{describe_amount(component, after, got)}; the replacement medium has {shown}"
                yield from compare("L03", after.name, expected.value, got.value, got.dimension, text, allowed, allowed)


def _check_washed_out(transition: Transition) -> Findings:
    """Yield an error if a reagent has its old concentration after a wash, although the new medium lacks it."""
    replacement = transition.parameters.find_material(_REPLACEMENT)
    for before, after in transition.list_kept_pairs() if replacement is not None else ():
        if replacement is None or transition.parameters.has_named(before):
            continue
        for component, old, new in iter_shared_concentrations(before, after):
            names = set(component.split()) & words.REAGENTS
            is_absent = is_denied(replacement, component) or (
                names and not names & words.add_reagents(replacement.all_words)
            )
            if component not in replacement.concentrations and is_absent and old.value > 0:
                limit = old.value / 2
                shown = units.format_value(new.value, new.dimension)
                text = f"{describe_component(component)} in {after.name} is still {shown} after the wash; the new medium has none"
                yield from compare(
                    "L03", after.name, limit, new.value, new.dimension, text, above=ZERO, limit="at most"
                )


def _check_series(transition: Transition, series: DilutionSeries) -> Findings:
    """Yield an error unless the dilutions have the sample's concentration over the factor, its square and so on."""
    dilutions = list(flows.iter_new_outputs(transition))
    for component in sorted({name for view in dilutions for name in view.concentrations}):
        # Sorted by concentration, because neither the order nor the names of the outputs reliably show their step.
        amounts = [view.concentrations[component] for view in dilutions if component in view.concentrations]
        amounts.sort(key=lambda amount: -amount.value)
        start = find_concentration(series.sample, component, amounts[0].dimension)
        in_diluent = find_concentration(series.diluent, component, amounts[0].dimension)
        is_mentioned = set(component.split()) & words.add_reagents(series.diluent.all_words)
        if in_diluent is None and not is_mentioned and not chemistry.find_ion(component):
            in_diluent = ZERO
        if not start or series.factor is None or in_diluent != 0:
            text = f"factor or starting concentration of {describe_component(component)} is not known"
            yield undecided_finding("L03", transition.action, text)
            continue
        # A series may begin with the undiluted sample.
        first = 0 if abs(amounts[0].value - start) <= tolerance_margin(amounts[0], start) else 1
        for number, got in enumerate(amounts, start=1):
            expected = start / series.factor ** (first + number - 1)
            found, shown = (units.format_value(value, got.dimension) for value in (got.value, expected))
            text = f"{describe_component(component)} in dilution {number} of the series is {found} instead of {shown}"
            allowed = tolerance_margin(got, expected)
            subject = f"dilution {number}"
            yield from compare("L03", subject, expected, got.value, got.dimension, text, allowed, allowed)
