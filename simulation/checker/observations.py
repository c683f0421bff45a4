"""L15, L17 and L20: an observation reports what the action can sense, and readings agree with the material and each other."""

import re
from decimal import Decimal
from itertools import combinations

from simulation.checker import concentrations
from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding
from simulation.checker.reading import families, flows, properties, units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.lab import quantities

# Quantity, pattern of its names, and the actions that can measure it. No other action of the catalogue can.
_QUANTITIES: tuple[tuple[str, str, str], ...] = (
    ("pH", r"\bph\b", "MeasurepH AdjustpH"),
    ("titer", r"\btit(?:er|re)s?\b|\bMOI\b", "FlowCytometry qPCR ELISA CapillaryELISA UsePlateReader QuantifyColonies BioLayerInterferometry CountLiquidParticles MassSpectrometry CapillaryElectrophoresis"),
    ("viability", r"\bviabilit(?:y|ies)\b", "CellCounter FlowCytometry UseMicroscope CoulterCount UsePlateReader CountLiquidParticles"),
    ("cell count", r"\bcell (?:count|density|concentration|number)\b|\bcells (?:per ml|counted)\b", "CellCounter FlowCytometry UseMicroscope CoulterCount CountLiquidParticles UsePhotospectrometer UsePlateReader QuantifyColonies"),
    ("optical density", r"\bOD ?_?600\b|\boptical density\b|\babsorbance\b|\bA ?_?2[68]0\b", "UsePhotospectrometer UsePlateReader NucleicAcidQuantification TotalProteinQuantification HPLC ELISA CapillaryElectrophoresis CapillaryELISA"),
    ("conductivity", r"\bconductivity\b", "MeasureConductivity HPLC CapillaryElectrophoresis"),
    ("osmolality", r"\bosmol(?:al|ar)ity\b", "MeasureOsmolality"),
    ("viscosity", r"\bviscosity\b", "MeasureViscosity"),
    ("melting point", r"\bmelting (?:point|range|temperature)\b", "MeasureMeltingPoint qPCR"),
    ("refractive index", r"\brefractive index\b", "MeasureRefractiveIndex HPLC BioLayerInterferometry"),
    ("surface tension", r"\bsurface tension\b", "MeasureSurfaceTension DynamicFoamAnalysis"),
    ("contact angle", r"\bcontact angle\b", "MeasureContactAngle"),
    ("dissolved oxygen", r"\bdissolved oxygen\b", "MeasureDissolvedOxygen"),
    ("Ct value", r"\bC[tq] values?\b|\bC[tq]\s?[=:]|\bthreshold cycle\b", "qPCR"),
    ("nucleic acid concentration", r"\b(?:dna|rna|plasmid|nucleic acid) concentration\b|\b(?:dna|rna) yield\b", "NucleicAcidQuantification qPCR UsePlateReader UsePhotospectrometer CapillaryElectrophoresis HPLC MassSpectrometry"),
    ("protein concentration", r"\bprotein concentration\b|\btotal protein\b", "TotalProteinQuantification UsePhotospectrometer UsePlateReader NucleicAcidQuantification ELISA CapillaryELISA CapillaryWestern HPLC MassSpectrometry PAGE"),
    ("mass spectrum", r"\bm/z\b", "MassSpectrometry"),
    ("retention time", r"\bretention times?\b|\bpeak areas?\b", "HPLC CapillaryElectrophoresis MassSpectrometry CapillaryWestern"),
    ("weight", r"\bweigh(?:t|s|ed)\b", "MeasureWeight DryingOven MeasureDensity MeasureCount"),
    ("fluorescence", r"\bfluorescence intensity\b|\bRFU\b|\bmean fluorescence\b|\bMFI\b", "UsePlateReader UseMicroscope FlowCytometry UsePhotospectrometer qPCR NucleicAcidQuantification HPLC CapillaryElectrophoresis TotalProteinQuantification CapillaryELISA CapillaryWestern ImageColonies QuantifyColonies AgaroseGelElectrophoresis PAGE DNASequencing ELISA ImageSample"),
    ("infected fraction", r"\b(?:transduction|transfection|infection|cleavage) efficiency\b", "FlowCytometry UseMicroscope UsePlateReader CapillaryWestern PAGE qPCR QuantifyColonies"),
    ("peak current", r"\bpeak (?:current|potential)\b|\bformal potential\b", "CyclicVoltammetry"),
    ("base calls", r"\bread length\b|\bbase calls?\b|\bQ30\b", "DNASequencing"),
)  # fmt: skip
_QUANTITY_PATTERNS = tuple(
    (name, re.compile(pattern, re.IGNORECASE), frozenset(actions.split())) for name, pattern, actions in _QUANTITIES
)
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)?(?:\s?[x*]\s?10\^?[0-9]{1,2}|[eE][+-]?[0-9]{1,2})?")
_CONCENTRATION = re.compile(r"(?<![\w.])([0-9]+(?:\.[0-9]+)?)\s?(?:[mµn]M|[mµn]g/[mµ]L|cells/mL)\b")
# Instruments for one physical quantity, which never report a concentration.
_ONE_QUANTITY = words.word_set(
    "MeasurepH MeasureWeight MeasureVolume MeasureConductivity MeasureContactAngle MeasureViscosity MeasureOsmolality "
    "MeasureSurfaceTension MeasureMeltingPoint VisualInspection"
)
_MAX_DISTANCE = 40  # characters after the name of a quantity in which its number is expected
# Words of a denial or an expectation: the sentence reports no observation.
_DENIAL = re.compile(
    r"\bnot\b|\bno\b|\bnone\b|\bcannot\b|\bcan't\b|\binvisible\b|\btoo small\b|\bunable\b|\bwithout\b|\bneither\b|\bexpected\b|\bdid not\b",
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
    r"\b(?:individual|single) (?:bacteri(?:a|um|al)|cells?|yeast|mammalian|hek293t?|e\. ?coli)|\bnucle(?:i|us)\b|\bmitochondri|\borganelles?\b|\bflagell|\bcell membranes?\b|\bbacterial cells\b|\bintracellular\b",
    re.IGNORECASE,
)  # fmt: skip
_SEEING_VERBS = re.compile(
    r"\b(?:visible|seen|observed|see|visuali[sz]ed|appear|discernible|resolved|distinguish\w*|show\w*|clearly)\b",
    re.IGNORECASE,
)
_NAKED_EYE_ACTIONS = ("VisualInspection", "ImageSample")
# The smallest volume that can be moved, in µL.
_MIN_MOVED_VOLUME = {
    "Transfer": "0.1",
    "Aliquot": "0.1",
    "SerialDilute": "0.1",
    "Dilute": "0.1",
    "AcousticLiquidHandling": "0.0024",  # below one droplet of 2.5 nL
}


def check_measured_quantities(transition: Transition) -> Findings:
    """L15: yield an error if an observation reports a number for a quantity that the action does not measure."""
    if not transition.is_success or transition.family in (families.UNKNOWN, families.MAKE, families.CONTROL):
        return
    # A number that is already on a label or among the settings is a repetition, not a measurement.
    known_numbers = _collect_known_numbers(transition)
    names = sorted(
        {view.name for view in (*transition.inputs, *transition.outputs) if len(view.name) > 3}, key=len, reverse=True
    )
    for seen in transition.observations:
        observation_text = _remove_names(seen.full_text[:1500], names)
        yield Decided("L15")
        yield from _check_reported_concentrations(transition, seen.path, observation_text, known_numbers)
        for name, pattern, actions in _QUANTITY_PATTERNS:
            if transition.action in actions:
                continue
            match = pattern.search(observation_text)
            number = match and _find_number(observation_text, match.end())
            if (
                number
                and match
                and _parse_number(number) not in known_numbers
                and not _DENIAL.search(observation_text[max(0, match.start() - 30) : match.end() + _MAX_DISTANCE])
            ):
                yield error_finding("L15", seen.path, f"what {transition.action} can sense", f"{name} {number}",
                            f"{transition.action} does not measure {name}, but {number} is reported")  # fmt: skip


def _check_reported_concentrations(
    transition: Transition, path: str, observation_text: str, known_numbers: set[Decimal]
) -> Findings:
    """Yield an error if an instrument for one physical quantity reports a concentration."""
    match = (
        _CONCENTRATION.search(units.normalise_text(observation_text)) if transition.action in _ONE_QUANTITY else None
    )
    if match and _parse_number(match[1]) not in known_numbers:
        text = f"{transition.action} does not measure concentrations, but {match[0]} is reported"
        yield error_finding("L15", path, f"what {transition.action} can sense", match[0], text)


def check_limits(transition: Transition) -> Findings:
    """L17: yield a finding if something too small is reported as seen, or a volume is too small to be moved."""
    if not transition.is_success:
        return
    for seen in transition.observations:
        # A visual remark on an action that is not a measurement counts as seen with the naked eye.
        is_visual = (
            str(seen.raw.get("measurement_type")).lower() == "visual" and transition.family not in families.MEASUREMENTS
        )
        if transition.action in _NAKED_EYE_ACTIONS or is_visual:
            yield Decided("L17")
            yield from _check_naked_eye(transition, seen)
        elif transition.action == "UseMicroscope":
            yield from _check_microscope(transition, seen)
    moved_volume = transition.parameters.find_moved_volume() or transition.parameters.find_added_volume()
    if moved_volume is not None and transition.action in _MIN_MOVED_VOLUME:
        yield Decided("L17")
        if moved_volume.value < Decimal(_MIN_MOVED_VOLUME[transition.action]):
            yield error_finding("L17", transition.action, f"at least {_MIN_MOVED_VOLUME[transition.action]} µL", units.format_value(moved_volume.value, "volume"),
                        f"{units.format_value(moved_volume.value, 'volume')} is below what {transition.action} can move")  # fmt: skip


def _check_naked_eye(transition: Transition, seen: ObservationView) -> Findings:
    # Everything that an inspection reports was seen, unless it is part of a material's name.
    is_inspection = transition.action in _NAKED_EYE_ACTIONS and not any(
        _TOO_SMALL.search(view.name) for view in transition.inputs
    )
    claim = _find_claim(seen.full_text, _TOO_SMALL, all_seen=is_inspection) or _find_claim(
        seen.full_text, _TOO_SMALL_FOR_EYES
    )
    if claim:
        yield error_finding(
            "L17", seen.path, "what the naked eye resolves", claim, f"{claim} cannot be seen with the naked eye"
        )


def _check_microscope(transition: Transition, seen: ObservationView) -> Findings:
    claim = _find_claim(seen.full_text, _TOO_SMALL)
    if not claim:
        return
    all_words = properties.collect_words(transition.parameters.leaves) | set(words.tokenize(seen.full_text))
    if all_words & {"fluorescence", "fluorescent", "confocal", "superresolution", "tirf", "electron"}:
        yield undecided_finding("L17", seen.path, f"{claim} may be visible by their fluorescence")
    else:
        yield error_finding(
            "L17",
            seen.path,
            "what light microscopy resolves",
            claim,
            f"{claim} are below the resolution of a light microscope",
        )


def _find_claim(text: str, pattern: re.Pattern[str], all_seen: bool = False) -> str:
    """Return the first thing matching `pattern` that a sentence reports as seen and does not deny, or ""."""
    for sentence in re.split(r"[.;!?](?:\s|$)|\bbut\b|\balthough\b", text[:1500]):
        match = pattern.search(sentence)
        if match and (all_seen or _SEEING_VERBS.search(sentence)) and not _DENIAL.search(sentence):
            return match[0]
    return ""


def _remove_names(text: str, names: list[str]) -> str:
    """Return the text with the names of materials replaced, because numbers in a name are not readings."""
    # The names are sorted, longest first, so that no name splits a longer one; 100 names limit the time.
    for name in names[:100]:
        text = text.replace(name, "it")
    return text


def _find_number(text: str, after: int) -> str:
    """Return the number after the name of a quantity, or "" if another clause begins before it."""
    next_text = text[after : after + _MAX_DISTANCE]
    match = _NUMBER.search(next_text)
    if match and not re.search(r"[;]|\band\b|\bby\b", next_text[: match.start()]):
        return match[0].strip()
    return ""


def _collect_known_numbers(transition: Transition) -> set[Decimal]:
    """Return the numbers in the parameters, names and properties of the inputs."""
    numbers: set[Decimal] = set()
    for leaf in transition.parameters.leaves:
        numbers |= _parse_numbers(leaf.value_text)
    for view in transition.inputs:
        numbers |= _parse_numbers(view.name)
        for leaf in view.leaves:
            numbers |= _parse_numbers(leaf.value_text)
    return numbers


def _parse_numbers(text: str) -> set[Decimal]:
    return {
        value for figure in _NUMBER.findall(units.normalise_text(text)) if (value := _parse_number(figure)) is not None
    }


def _parse_number(figure: str) -> Decimal | None:
    number = units.parse_number(figure)
    return None if number is None else number.normalize()


_SHARE = re.compile(r"([0-9]{1,7}(?:\.[0-9]{1,6})?)\s?%\s?\(([0-9]{1,12}) (?:of|/|out of) ([0-9]{1,12})")
_PARTS = re.compile(r"([0-9]{1,12}) (?:of|out of) ([0-9]{1,12})\b")


def check_replicates(transition: Transition, seen: ObservationView) -> Findings:
    """Yield a finding if one of several readings of a sample is about tenfold higher or lower than the others."""
    parts = seen.value[:1000].split(", ")
    numbers = [found for part in parts if (found := units.split_number(part))]
    if (
        len(parts) < 2
        or len(numbers) != len(parts)
        or len({other_values.strip() for _, _, other_values in numbers if other_values.strip()}) > 2
    ):
        return
    values = sorted(number for number, _, _ in numbers)
    # These words announce readings of different samples, which may differ tenfold.
    if values[0] <= 0 or re.search(
        r"standards\b|dilutions\b|peaks\b|series\b|samples\b|respectively", seen.description, re.IGNORECASE
    ):
        return
    # The outlier is the lowest value if it is far below the next one, otherwise the highest value.
    other_values, outlier = (values[1:], values[0]) if values[1] / values[0] > 5 else (values[:-1], values[-1])
    if other_values[-1] > other_values[0] * Decimal("1.5") or len(values) < 3:
        # With two readings it is unclear which is the outlier; a tenfold difference is an error only if the action set
        # two readings per sample.
        if len(values) == 2 and Decimal("8.5") <= values[1] / values[0] <= Decimal("11.5"):
            if transition.find_replicate_count() == 2:
                yield error_finding(
                    "L20",
                    seen.path,
                    "two similar readings",
                    seen.value[:60],
                    f"two readings of one sample differ tenfold: {seen.value[:60]}",
                )
                return
            yield undecided_finding(
                "L20", seen.path, "two readings differ tenfold; which one is wrong, if any, is not known"
            )
        return
    yield Decided("L20")
    # Tenfold within the scatter of replicates: a slipped decimal point. Other ratios may be real.
    if any(
        Decimal("0.75") < ratio / 10 < Decimal("1.35")
        for ratio in (outlier / other_values[-1], other_values[0] / outlier)
    ):
        yield error_finding(
            "L20",
            seen.path,
            f"about {other_values[0]}",
            str(outlier),
            f"one of {len(values)} readings is {outlier}, the others range from {other_values[0]} to {other_values[-1]}",
        )


def check_share(seen: ObservationView) -> Findings:
    """Yield an error if the numbers in "45 % (4500 of 10000)" do not agree or the part is larger than the whole."""
    if found := _SHARE.search(seen.full_text[:2000]):
        percent, part, total = Decimal(found[1]), Decimal(found[2]), Decimal(found[3])
        yield Decided("L20", quantity=True)
        if part > total:
            yield error_finding(
                "L23", seen.path, f"at most {total}", str(part), f"{part} of {total} is more than the whole"
            )
        # 0.6 percentage points for a percentage without decimals, plus 2 % of the percentage for rounded counts.
        elif total and abs(part / total * 100 - percent) > Decimal("0.6") + percent / 50:
            yield error_finding(
                "L20",
                seen.path,
                f"{quantities.format_number(part / total * 100)} %",
                f"{percent} %",
                f"{part} of {total} is not {percent} %",
            )
    elif (found := _PARTS.search(seen.full_text[:2000])) and int(found[1]) > int(found[2]) > 0:
        yield error_finding(
            "L23", seen.path, f"at most {found[2]}", found[1], f"{found[1]} of {found[2]} is more than the whole"
        )


# Share of the known amount. A measurement has noise; a remark on the amount in a vessel has none.
_TOLERANCE, _REMARK_TOLERANCE = Decimal("0.08"), Decimal("0.03")
# Components that the counting and quantifying instruments measure.
_MEASURED_COMPONENTS = {
    "NucleicAcidQuantification": word_set("dna rna nucleic acid plasmid oligo primer amplicon cdna"),
    "TotalProteinQuantification": word_set("protein bsa albumin lysate antibody"),
    "CellCounter": word_set("cell"),
}
_DENSITY_TOLERANCE = Decimal("0.4")  # counts of cells vary that much
# Words for the amount in the vessel, and words for other amounts.
_CURRENT_AMOUNT = re.compile(
    r"\b(?:volume|remaining|remains|left|contains|holds|residual|total|final|mass|weight|net)\b", re.IGNORECASE
)
_OTHER_AMOUNT = re.compile(r"\b(?:transferred|added|removed|moved|injected|aspirated|dispensed|loaded|taken|discarded|lost|evaporated|before|initial|original|"
                      r"capacity|tare|container|injection|wash(?:ed)?|gross|per)\b", re.IGNORECASE)  # fmt: skip
_PH = re.compile(
    r"\bpH\s?(?:of|is|was|=|:|reads?|reading|value)?\s?(-?[0-9]{1,4}(?:\.[0-9]{1,4})?)(?![0-9])", re.IGNORECASE
)


def check_readings(transition: Transition) -> Findings:
    """L20: yield a finding if a reading of a sample contradicts the properties of its material or other readings."""
    if not transition.is_success:
        return
    for seen in transition.observations:
        if (material := _find_observed_material(transition, seen)) is not None:
            yield from _check_amounts(transition, seen, material)
        yield from check_replicates(transition, seen)
        yield from check_share(seen)


def _find_observed_material(transition: Transition, seen: ObservationView) -> MaterialView | None:
    """Return the observed material: that with the longest name in the description, or the only one; None if unclear."""
    named_views = [view for view in transition.outputs if view.name and view.name.lower() in seen.description.lower()]
    if named_views:
        longest = max(len(view.name) for view in named_views)
        best = [view for view in named_views if len(view.name) == longest]
        return best[0] if len(best) == 1 else None
    solvent = flows.find_solvent(transition) if transition.family == families.ADD else None
    solvent_left = transition.find_output(solvent) if solvent is not None else None
    samples = [view for view in transition.outputs if not view.is_empty_vessel and view is not solvent_left]
    return samples[0] if len(samples) == 1 and transition.family != families.MOVE else None


def _check_amounts(transition: Transition, seen: ObservationView, view: MaterialView) -> Findings:
    for dimension, known_amount in (("volume", view.volume), ("mass", view.mass)):
        if known_amount is None or not _is_about_current_amount(transition, seen, dimension):
            continue
        for amount in _parse_readings(seen, dimension):
            yield Decided("L20", quantity=True)
            tolerance = _TOLERANCE if transition.family in families.MEASUREMENTS else _REMARK_TOLERANCE
            if abs(amount.value - known_amount.value) > known_amount.value * tolerance + min(
                known_amount.step, known_amount.value / 100
            ):
                yield error_finding("L20", seen.path, units.format_value(known_amount.value, dimension), units.format_value(amount.value, dimension),
                            f"{units.format_value(amount.value, dimension)} was read for {view.name}, which holds {units.format_value(known_amount.value, dimension)}", "10 %")  # fmt: skip
    yield from _check_densities(transition, seen, view)
    yield from _check_ph(transition, seen, view)


def _check_densities(transition: Transition, seen: ObservationView, view: MaterialView) -> Findings:
    """Yield an error if a count or quantification contradicts the material's known density or concentration."""
    if transition.action not in (
        "CellCounter",
        "NucleicAcidQuantification",
        "TotalProteinQuantification",
        "CoulterCount",
        "CountLiquidParticles",
    ):
        return
    # The measurement may have written its own result into the output; the input has the independent value.
    before = transition.find_input(view) or view
    components = _MEASURED_COMPONENTS.get(transition.action, word_set("cell particle"))
    known_amounts = [
        amount for name, amount in before.concentrations.items() if set(name.split()) & components or not name
    ]
    if len(known_amounts) != 1:
        return
    known_amount = known_amounts[0]
    for amount in _parse_readings(seen, known_amount.dimension):
        yield Decided("L20", quantity=True)
        if abs(amount.value - known_amount.value) > known_amount.value * _DENSITY_TOLERANCE:
            yield error_finding("L20", seen.path, concentrations.format_concentration(known_amount.value, known_amount), concentrations.format_concentration(amount.value, known_amount),
                        f"{concentrations.format_concentration(amount.value, known_amount)} was read for {view.name}, which has {concentrations.format_concentration(known_amount.value, known_amount)}", "40 %")  # fmt: skip


def _check_ph(transition: Transition, seen: ObservationView, view: MaterialView) -> Findings:
    """Yield an error if the pH that was read differs from the pH of the material by more than 0.5."""
    if transition.action not in ("MeasurepH", "AdjustpH"):
        return
    known_values = [
        n for leaf in view.leaves if set(leaf.words) == {"ph"} and (n := units.parse_number(leaf.value)) is not None
    ]
    number_parts = units.split_number(seen.value)
    value_number = (
        number_parts[0] if number_parts and number_parts[2].strip().lower() in ("", "ph", "ph units") else None
    )
    match = _PH.search(seen.full_text)
    got = value_number if value_number is not None else Decimal(match[1]) if match else None
    if len(known_values) == 1 and got is not None:
        yield Decided("L20", quantity=True)
        if abs(got - known_values[0]) > Decimal("0.5"):
            yield error_finding(
                "L20",
                seen.path,
                f"pH {known_values[0]}",
                f"pH {got}",
                f"pH {got} was read for {view.name}, which has pH {known_values[0]}",
                "0.5",
            )


def _is_about_current_amount(transition: Transition, seen: ObservationView, dimension: str) -> bool:
    """Return whether a record gives the amount that is in the vessel, not an amount that was moved."""
    if transition.action == {"volume": "MeasureVolume", "mass": "MeasureWeight"}[dimension]:
        return not re.search(
            r"\b(?:gross|tare|with (?:the )?(?:container|tube|vial)|evaporated)\b", seen.description, re.IGNORECASE
        )
    text = seen.description if seen.value else seen.full_text
    return bool(_CURRENT_AMOUNT.search(text)) and not _OTHER_AMOUNT.search(text)


def _parse_readings(seen: ObservationView, dimension: str) -> list[Amount]:
    """Return all readings of this dimension in the value or, without a value, the only one in the description."""
    parts = re.split(r"[,;]\s", seen.value[:1000]) if seen.value else []
    readings = [a for part in parts if (a := units.parse_amount(part, "", (dimension,))) and a.dimension == dimension]
    if readings or seen.value:
        return readings
    # A description may list several amounts; only a single one can be the reading.
    description_amounts = [
        units.parse_amount(seen.description[match.start() :][:40], "", (dimension,))
        for match in re.finditer(r"(?<![\w.])[0-9]", seen.description[:600])
    ]
    matching = [a for a in description_amounts if a and a.dimension == dimension]
    return matching if len(matching) == 1 else []


# Instruments whose signal rises with the concentration of the substance they measure.
_RISING_SIGNAL = ("HPLC", "NucleicAcidQuantification", "TotalProteinQuantification", "UsePhotospectrometer")
_MIN_RATIO = Decimal("1.5")  # smallest ratio of concentrations, and of readings, that noise cannot reverse
# Words for readings that fall with the concentration or do not depend on it.
_NOT_RISING = re.compile(r"transmi|quench|internal standard|ratio", re.IGNORECASE)


def check_signal_order(transition: Transition) -> Findings:
    """L20: yield an error if the readings of two samples contradict the order of their known concentrations.

    Only samples that have exactly one component in common are compared.
    """
    if not transition.is_success or transition.action not in _RISING_SIGNAL:
        return
    readings = [(seen, *found) for seen in transition.observations if (found := _parse_signal(transition, seen))]
    for (first_seen, first, low, signal), (second_seen, second, high, other_signal) in combinations(readings, 2):
        common = first.concentrations.keys() & second.concentrations.keys()
        # Only readings of the same kind are compared, and only if no second component could explain the difference.
        if signal != other_signal or len(common) != 1 or first is second or not signal:
            continue
        component = next(iter(common))
        first_amount, second_amount = first.concentrations[component], second.concentrations[component]
        if (
            first_amount.dimension != second_amount.dimension
            or min(first_amount.value, second_amount.value, low, high) <= 0
        ):
            continue
        known_ratio, found_ratio = first_amount.value / second_amount.value, low / high
        if known_ratio < 1:
            known_ratio, found_ratio = 1 / known_ratio, 1 / found_ratio
        if known_ratio > _MIN_RATIO:
            yield Decided("L20", quantity=True)
            if found_ratio * _MIN_RATIO < 1:
                yield error_finding("L20", first_seen.path, "the higher reading with the higher concentration", "the other way round",
                            f"the readings of {first.name} and {second.name} are in reverse order: {first_seen.value[:40]} and {second_seen.value[:40]}")  # fmt: skip


def _parse_signal(transition: Transition, seen: ObservationView) -> tuple[MaterialView, Decimal, str] | None:
    """Return (sample, number read, description without the sample's name), or None unless one sample is named."""
    if _NOT_RISING.search(seen.full_text[:1000]):
        return None
    named_views = [view for view in transition.outputs if view.name and view.name in seen.description]
    # The longest name counts: "Sample 1" is also in "Sample 10".
    longest = max((len(view.name) for view in named_views), default=0)
    best = [view for view in named_views if len(view.name) == longest]
    number = units.parse_number(seen.value)
    if len(best) != 1 or number is None:
        return None
    return best[0], number, seen.description.replace(best[0].name, "")
