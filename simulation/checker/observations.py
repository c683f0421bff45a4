"""L15, L17 and L20: an observation reports what the action can sense, and readings agree with the material and each other."""

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations

from simulation.checker.findings import Decided, Findings, compare, error_finding, require, undecided_finding
from simulation.checker.reading import flows, units, words
from simulation.checker.reading.leaves import collect_words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.checker.values import PH
from simulation.lab import quantities

# Words of a denial or an expectation: the sentence reports no observation.
DENIAL = re.compile(
    r"\bnot\b|\bno\b|\bnone\b|\bcannot\b|\bcan't\b|\binvisible\b|\btoo small\b|\bunable\b|\bwithout\b|\bneither\b|\bexpected\b|\bdid not\b",
    re.IGNORECASE,
)
_DENIAL_BEHIND = re.compile(
    r"\bnot\b|\bno longer\b|\bnone\b|\bcannot\b|\bcan't\b|\binvisible\b|\btoo small\b|\bunable\b|\bneither\b|\bexpected\b",
    re.IGNORECASE,
)
# Below the resolution of a light microscope.
_TOO_SMALL = re.compile(
    r"\b(?:viral|virus|aav|lentivir(?:al|us)|phage|nano-?)\s?(?:particles?|capsids?|virions?)|\bvirions?\b|\bcapsids?\b|\bexosomes?\b|"
    r"\bextracellular vesicles\b|\b(?:dna|rna|plasmid|protein|antibody) (?:molecules?|strands?|helix|helices)\b|\bnanoparticles\b|\bribosomes\b|\bdouble helix\b|\bchromosomes\b|\bplasmid rings\b|"
    r"\b(?:individual|single) (?:[a-z]+ )?(?:molecules|proteins|atoms|ions)\b",
    re.IGNORECASE,
)  # fmt: skip
# Visible only in a microscope.
_TOO_SMALL_FOR_EYES = re.compile(
    r"\b(?:individual|single|separate) (?:bacteri(?:a|um|al)|cells?|yeast|mammalian|hek293t?|e\. ?coli|mini-?cells?|spores?|neurons?|astrocytes?|sperm)|\bnucle(?:i|us)\b|\bmitochondri|\borganelles?\b|\bflagell|\bcell membranes?\b|\bbacterial cells\b|\bintracellular\b",
    re.IGNORECASE,
)  # fmt: skip
_SEEING_VERBS = re.compile(
    r"\b(?:visible|seen|observed|see|visuali[sz]ed|appear|discern\w*|resolved|distinguish\w*|show\w*|clearly|count\w*)\b",
    re.IGNORECASE,
)
_NAKED_EYE_ACTIONS = ("VisualInspection", "ImageSample")
# The smallest volume that can be moved, in µL.
_MIN_MOVED_VOLUME = {
    "Transfer": "0.1", "Aliquot": "0.1", "SerialDilute": "0.1", "Dilute": "0.1",
    "AcousticLiquidHandling": "0.0024",  # below one droplet of 2.5 nL
}  # fmt: skip
_FLUORESCENT = word_set("fluorescence fluorescent confocal superresolution tirf electron")
# Share of the known amount. A measurement has noise; a remark on the amount in a vessel has none; counts of cells vary.
_TOLERANCE, _REMARK_TOLERANCE, _DENSITY_TOLERANCE = Decimal("0.08"), Decimal("0.03"), Decimal("0.4")
_PH_TOLERANCE = Decimal("0.5")
# Components that the counting and quantifying instruments measure.
_MEASURED_COMPONENTS = {
    "NucleicAcidQuantification": word_set("dna rna nucleic acid plasmid oligo primer amplicon cdna"),
    "TotalProteinQuantification": word_set("protein bsa albumin lysate antibody"),
    "CellCounter": word_set("cell"),
    "CoulterCount": word_set("cell particle"),
    "CountLiquidParticles": word_set("cell particle"),
}
_MEASURES_AMOUNT = {"volume": "MeasureVolume", "mass": "MeasureWeight"}
# Words for the amount in the vessel, and words for other amounts.
_CURRENT_AMOUNT = re.compile(
    r"\b(?:volume|remaining|remains|left|contains|holds|residual|total|final|mass|weight|net)\b", re.IGNORECASE
)
_OTHER_AMOUNT = re.compile(
    r"\b(?:transferred|added|removed|moved|injected|aspirated|dispensed|loaded|taken|discarded|lost|evaporated|vapou?r|before|initial|original|"
    r"capacity|tare|container|injection|wash(?:ed)?|gross|per|moisture|water|given|up|loss|gain(?:ed)?|difference|share|change|pure)\b",
    re.IGNORECASE,
)
_NOT_NET = re.compile(r"\b(?:gross|tare|with (?:the )?(?:container|tube|vial)|evaporated)\b", re.IGNORECASE)
_SHARE = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,6})?)\s?%\s?\(([0-9]{1,12}) (?:of|/|out of) ([0-9]{1,12})")
_PARTS = re.compile(r"([0-9]{1,12}) (?:of|out of) ([0-9]{1,12})\b")
# These words announce readings of different samples, which may differ tenfold.
_SEVERAL_SAMPLES = re.compile(r"standards\b|dilutions\b|peaks\b|series\b|samples\b|respectively", re.IGNORECASE)
# Instruments whose signal rises with the concentration of the substance they measure.
_RISING_SIGNAL = ("HPLC", "NucleicAcidQuantification", "TotalProteinQuantification", "UsePhotospectrometer")
_MIN_RATIO = Decimal("1.5")  # smallest ratio of concentrations, and of readings, that noise cannot reverse
# Words for readings that fall with the concentration or do not depend on it.
_NOT_RISING = re.compile(r"transmi|quench|internal standard|ratio", re.IGNORECASE)


def check_limits(transition: Transition) -> Findings:
    """L17: yield a finding if something too small is reported as seen, or a volume is too small to be moved."""
    action = transition.action
    for seen in transition.observations:
        # A visual remark on an action that is not a measurement counts as seen with the naked eye.
        is_visual = str(seen.raw.get("measurement_type")).lower() == "visual"
        if action in _NAKED_EYE_ACTIONS or (is_visual and transition.family not in words.MEASUREMENTS):
            # Everything that an inspection reports was seen, unless it is part of a material's name.
            is_in_name = any(_TOO_SMALL.search(view.name) for view in transition.inputs)
            all_seen = action in _NAKED_EYE_ACTIONS and not is_in_name
            claim = _find_claim(seen, _TOO_SMALL, all_seen) or _find_claim(seen, _TOO_SMALL_FOR_EYES)
            text = f"{claim} cannot be seen with the naked eye"
            yield from require("L17", not claim, seen.path, "what the naked eye resolves", claim, text)
        elif action == "UseMicroscope" and (claim := _find_claim(seen, _TOO_SMALL)):
            all_words = collect_words(transition.parameters.leaves) | set(words.tokenize(seen.full_text))
            if all_words & _FLUORESCENT:
                yield undecided_finding("L17", seen.path, f"{claim} may be visible by their fluorescence")
            else:
                text = f"{claim} are below the resolution of a light microscope"
                yield error_finding("L17", seen.path, "what light microscopy resolves", claim, text)
    moved_volume = transition.parameters.find_moved_volume() or transition.parameters.find_added_volume()
    if moved_volume is not None and action in _MIN_MOVED_VOLUME:
        least, moved = _MIN_MOVED_VOLUME[action], units.format_value(moved_volume.value, "volume")
        text = f"{moved} is below what {action} can move"
        yield from require("L17", moved_volume.value >= Decimal(least), action, f"at least {least} µL", moved, text)


def _find_claim(seen: ObservationView, pattern: re.Pattern[str], all_seen: bool = False) -> str:
    """Return the first thing matching `pattern` that a sentence reports as seen and does not deny, or ""."""
    for sentence in re.split(r"[.;!?](?:\s|$)|\bbut\b|\balthough\b", seen.full_text[:1500]):
        match = pattern.search(sentence)
        if match is None or not (all_seen or _SEEING_VERBS.search(sentence)):
            continue
        # "spheres without septum" behind the claim denies the septum, not the spheres.
        rest = sentence[match.end() :]
        if not DENIAL.search(sentence[: match.start()]) and not _DENIAL_BEHIND.search(rest):
            return match[0]
    return ""


def check_readings(transition: Transition) -> Findings:
    """L20: yield a finding if a reading of a sample contradicts the properties of its material or other readings."""
    for seen in transition.observations:
        if (view := _find_observed_material(transition, seen)) is not None:
            tolerance = _TOLERANCE if transition.family in words.MEASUREMENTS else _REMARK_TOLERANCE
            for dimension, known in (("volume", view.volume), ("mass", view.mass)):
                if known is not None and _is_about_current_amount(transition, seen, dimension):
                    allowed = known.value * tolerance + min(known.step, known.value / 100)
                    yield from _compare_readings(
                        seen,
                        view,
                        known,
                        dimension,
                        "holds",
                        allowed,
                        may_be_gross=dimension == "mass" and _is_gross(transition, seen),
                    )
            if transition.action in _MEASURED_COMPONENTS:
                yield from _check_densities(transition, seen, view)
            if transition.action in ("MeasurepH", "AdjustpH"):
                yield from _check_ph(seen, view)
        yield from _check_replicates(transition, seen)
        yield from _check_share(seen)


def _find_longest(views: list[MaterialView]) -> MaterialView | None:
    """Return the only material with the longest name, which is the one meant: "Sample 1" is also in "Sample 10"."""
    longest = max((len(view.name) for view in views), default=0)
    views = [view for view in views if len(view.name) == longest]
    return views[0] if len(views) == 1 else None


def _find_observed_material(transition: Transition, seen: ObservationView) -> MaterialView | None:
    """Return the observed material: that with the longest name in the description, or the only one; None if unclear."""
    description = seen.description.lower()
    if named_views := [view for view in transition.outputs if view.name and view.name.lower() in description]:
        return _find_longest(named_views)
    # "Serum aliquot, 450 µL, in 2 mL tube" is mentioned as "serum aliquot".
    stems = {view.path: re.split(r"[,;(]", view.name)[0].strip().lower() for view in transition.outputs}
    mentioned = [view for view in transition.outputs if len(stems[view.path]) > 5 and stems[view.path] in description]
    if len({stems[view.path] for view in mentioned}) == len(mentioned) > 0:
        return _find_longest(mentioned)
    solvent = flows.find_solvent(transition) if transition.family == words.ADD else None
    solvent_left = transition.find_output(solvent) if solvent is not None else None
    samples = [view for view in transition.outputs if not view.is_empty_vessel and view is not solvent_left]
    return samples[0] if len(samples) == 1 and transition.family != words.MOVE else None


def _check_densities(transition: Transition, seen: ObservationView, view: MaterialView) -> Findings:
    """Yield an error if a count or quantification contradicts the material's known density or concentration."""
    # The measurement may have written its own result into the output; the input has the independent value.
    known_amounts = (transition.find_input(view) or view).concentrations
    components = _MEASURED_COMPONENTS[transition.action]
    suitable = [known for name, known in known_amounts.items() if not name or set(name.split()) & components]
    if len(suitable) == 1:
        known = suitable[0]
        yield from _compare_readings(seen, view, known, known.dimension, "has", known.value * _DENSITY_TOLERANCE)


def _compare_readings(
    seen: ObservationView,
    view: MaterialView,
    known: Amount,
    dimension: str,
    verb: str,
    allowed: Decimal,
    may_be_gross: bool = False,
) -> Findings:
    expected = units.format_value(known.value, dimension)
    for reading in _parse_readings(seen, dimension):
        text = f"{units.format_value(reading.value, dimension)} was read for {view.name}, which {verb} {expected}"
        above = None if may_be_gross and view.container else allowed
        yield from compare("L20", seen.path, known.value, reading.value, dimension, text, above, allowed)


def _is_gross(transition: Transition, seen: ObservationView) -> bool:
    """Return whether a weighing may include the vessel, because the balance was not tared."""
    return transition.parameters.raw.get("tare") is False and "net" not in words.tokenize(seen.full_text[:300])


def _check_ph(seen: ObservationView, view: MaterialView) -> Findings:
    leaves = (leaf for leaf in view.leaves if leaf.word_set == {"ph"})
    known_values = [number for leaf in leaves if (number := units.parse_number(leaf.value)) is not None]
    number_parts, match = units.split_number(seen.value), PH.search(seen.full_text)
    if number_parts and number_parts[2].strip().lower() in ("", "ph", "ph units"):
        got = number_parts[0]
    elif match:
        got = Decimal(match[1])
    else:
        return
    if len(known_values) == 1:
        known = known_values[0]
        # A titration has a pH before, on the way and after; one of them is that of the material.
        stated = [Decimal(number) for number in PH.findall(seen.full_text[:2000])]
        got = min([got, *stated], key=lambda value: abs(value - known)) if len(stated) > 1 else got
        text, shown = f"pH {got} was read for {view.name}, which has pH {known}", (f"pH {known}", f"pH {got}")
        yield from compare("L20", seen.path, known, got, "", text, _PH_TOLERANCE, _PH_TOLERANCE, shown=shown)


def _is_about_current_amount(transition: Transition, seen: ObservationView, dimension: str) -> bool:
    """Return whether a record gives the amount that is in the vessel, not an amount that was moved."""
    if transition.action == _MEASURES_AMOUNT[dimension]:
        return not _NOT_NET.search(seen.description)
    text = seen.description if seen.value else seen.full_text
    return bool(_CURRENT_AMOUNT.search(text)) and not _OTHER_AMOUNT.search(text)


def _parse_readings(seen: ObservationView, dimension: str) -> list[Amount]:
    """Return all readings of this dimension in the value or, without a value, the only one in the description."""
    parts: Iterator[str] = iter(re.split(r"[,;]\s", seen.value[:1000]))
    if not seen.value:
        matches = re.finditer(r"(?<![\w.])[0-9]", seen.description[:600])
        parts = (seen.description[match.start() :][:40] for match in matches)
    amounts = (units.parse_amount(part, "", (dimension,)) for part in parts)
    readings = [amount for amount in amounts if amount and amount.dimension == dimension]
    # A description may list several amounts; only a single one can be the reading.
    return readings if seen.value or len(readings) == 1 else []


def _check_replicates(transition: Transition, seen: ObservationView) -> Findings:
    """Yield a finding if one of several readings of a sample is about tenfold higher or lower than the others."""
    parts = seen.value[:1000].split(", ")
    numbers = [number for part in parts if (number := units.split_number(part))]
    has_one_unit = len({rest.strip() for _, _, rest in numbers} - {""}) <= 2
    values = sorted(number for number, _, _ in numbers)
    if len(parts) < 2 or len(numbers) != len(parts) or not has_one_unit or values[0] <= 0:
        return
    if _SEVERAL_SAMPLES.search(seen.description):
        return
    # "4.1 ng/µL in the tube, 41 ng/µL in the extract": what each is of differs.
    subjects = [" ".join(rest.split()[1:]) for _, _, rest in numbers]
    if all(subjects) and len(set(subjects)) == len(subjects):
        return
    if len(values) == 2:
        # It is unclear which is the outlier; a tenfold difference is an error only if the action set two readings.
        if Decimal("8.5") <= values[1] / values[0] <= Decimal("11.5"):
            if transition.find_replicate_count() == 2:
                text = f"two readings of one sample differ tenfold: {seen.value[:60]}"
                yield error_finding("L20", seen.path, "two similar readings", seen.value[:60], text)
            else:
                text = "two readings differ tenfold; which one is wrong, if any, is not known"
                yield undecided_finding("L20", seen.path, text)
        return
    # The outlier is the lowest value if it is far below the next one, otherwise the highest value.
    others, outlier = (values[1:], values[0]) if values[1] / values[0] > 5 else (values[:-1], values[-1])
    lowest, highest = others[0], others[-1]
    if highest <= lowest * Decimal("1.5"):
        # Tenfold within the scatter of replicates: a slipped decimal point. Other ratios may be real.
        ratios = (outlier / highest / 10, lowest / outlier / 10)
        holds = not any(Decimal("0.75") < ratio < Decimal("1.35") for ratio in ratios)
        text = f"one of {len(values)} readings is {outlier}, the others range from {lowest} to {highest}"
        yield from require("L20", holds, seen.path, f"about {lowest}", str(outlier), text)


def _check_share(seen: ObservationView) -> Findings:
    """Yield an error if the numbers in "45 % (4500 of 10000)" do not agree or the part is larger than the whole."""
    text = seen.full_text[:2000]
    share, parts = _SHARE.search(text), _PARTS.search(text)
    part, total = (Decimal(0), Decimal(0))
    if share:
        percent, part, total = Decimal(share[1]), Decimal(share[2]), Decimal(share[3])
        yield Decided("L20", quantity=True)
        if total and part <= total:
            # 0.6 percentage points for a percentage without decimals, plus 2 % of the percentage for rounded counts.
            allowed, computed = Decimal("0.6") + percent / 50, part / total * 100
            message = f"{part} of {total} is not {percent} %"
            shown = f"{quantities.format_number(computed)} %", f"{percent} %"
            yield from compare("L20", seen.path, computed, percent, "ratio", message, allowed, allowed, shown=shown)
    elif parts and Decimal(parts[2]):
        part, total = Decimal(parts[1]), Decimal(parts[2])
    if part > total:
        message = f"{part} of {total} is more than the whole"
        yield error_finding("L23", seen.path, f"at most {total}", str(part), message)


def check_signal_order(transition: Transition) -> Findings:
    """L20: yield an error if the readings of two samples contradict the order of their known concentrations.

    Only samples that have exactly one component in common are compared.
    """
    if transition.action not in _RISING_SIGNAL:
        return
    readings = []
    for seen in transition.observations:
        view = _find_longest([view for view in transition.outputs if view.name and view.name in seen.description])
        number = units.parse_number(seen.value)
        if view is not None and number is not None and not _NOT_RISING.search(seen.full_text[:1000]):
            # The description without the sample's name says what was read.
            readings.append((seen, view, number, seen.description.replace(view.name, "")))
    for (seen, first, low, signal), (other_seen, second, high, other_signal) in combinations(readings, 2):
        common = first.concentrations.keys() & second.concentrations.keys()
        # Only readings of the same kind are compared, and only if no second component could explain the difference.
        if signal != other_signal or len(common) != 1 or first is second or not signal:
            continue
        [component] = common
        amount, other_amount = first.concentrations[component], second.concentrations[component]
        if amount.dimension != other_amount.dimension or min(amount.value, other_amount.value, low, high) <= 0:
            continue
        known_ratio, found_ratio = amount.value / other_amount.value, low / high
        if known_ratio < 1:
            known_ratio, found_ratio = 1 / known_ratio, 1 / found_ratio
        if known_ratio > _MIN_RATIO:
            yield Decided("L20", quantity=True)
            if found_ratio * _MIN_RATIO < 1:
                expected = "the higher reading with the higher concentration"
                shown = f"{seen.value[:40]} and {other_seen.value[:40]}"
                text = f"the readings of {first.name} and {second.name} are in reverse order: {shown}"
                yield error_finding("L20", seen.path, expected, "the other way round", text)
