"""L15 and L17: an observation reports only what the action can sense."""

import re
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding
from simulation.checker.reading import families, units, words
from simulation.checker.reading.transition import ObservationView, Transition

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
    all_words = transition.parameters.collect_words() | set(words.tokenize(seen.full_text))
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
