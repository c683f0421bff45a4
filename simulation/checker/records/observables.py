"""L15 and L17: an observation reports only what the action can sense."""

import re
from decimal import Decimal

from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.reading import families, units, words
from simulation.checker.reading.transition import Seen, Transition

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
_COMPILED = tuple(
    (name, re.compile(pattern, re.IGNORECASE), frozenset(actions.split())) for name, pattern, actions in _QUANTITIES
)
_FIGURE = re.compile(r"[0-9]+(?:[.,][0-9]+)?(?:\s?[x*]\s?10\^?[0-9]{1,2}|[eE][+-]?[0-9]{1,2})?")
_CONCENTRATION = re.compile(r"(?<![\w.])([0-9]+(?:\.[0-9]+)?)\s?(?:[mµn]M|[mµn]g/[mµ]L|cells/mL)\b")
# Instruments for one physical quantity, which never report a concentration.
_ONE_QUANTITY = words.listed(
    "MeasurepH MeasureWeight MeasureVolume MeasureConductivity MeasureContactAngle MeasureViscosity MeasureOsmolality "
    "MeasureSurfaceTension MeasureMeltingPoint VisualInspection"
)
_NEAR = 40  # characters after the name of a quantity in which its number is expected
# Words of a denial or an expectation: the sentence reports no observation.
_NOT_SEEN = re.compile(
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
# Visible in a microscope only.
_TOO_SMALL_FOR_EYES = re.compile(
    r"\b(?:individual|single) (?:bacteri(?:a|um|al)|cells?|yeast|mammalian|hek293t?|e\. ?coli)|\bnucle(?:i|us)\b|\bmitochondri|\borganelles?\b|\bflagell|\bcell membranes?\b|\bbacterial cells\b|\bintracellular\b",
    re.IGNORECASE,
)  # fmt: skip
_SEES = re.compile(
    r"\b(?:visible|seen|observed|see|visuali[sz]ed|appear|discernible|resolved|distinguish\w*|show\w*|clearly)\b",
    re.IGNORECASE,
)
_EYES = ("VisualInspection", "ImageSample")
# The smallest volume that can be moved, in µL.
_LEAST = {
    "Transfer": "0.1",
    "Aliquot": "0.1",
    "SerialDilute": "0.1",
    "Dilute": "0.1",
    "AcousticLiquidHandling": "0.0024",  # below one droplet of 2.5 nL
}


def measured(transition: Transition) -> Said:
    """L15: no number of a quantity that this action does not measure."""
    if not transition.success or transition.family in (families.UNKNOWN, families.MAKE, families.CONTROL):
        return
    # A number that is already on a label or among the settings is a repetition, not a measurement.
    known_numbers = _known_figures(transition)
    names = sorted(
        {view.name for view in (*transition.inputs, *transition.outputs) if len(view.name) > 3}, key=len, reverse=True
    )
    for seen in transition.seen:
        observation_text = _without(seen.text[:1500], names)
        yield Ran("L15")
        yield from _amounts_told(transition, seen.place, observation_text, known_numbers)
        for name, pattern, actions in _COMPILED:
            if transition.action in actions:
                continue
            match = pattern.search(observation_text)
            number = match and _figure(observation_text, match.end())
            if (
                number
                and match
                and _value(number) not in known_numbers
                and not _NOT_SEEN.search(observation_text[max(0, match.start() - 30) : match.end() + _NEAR])
            ):
                yield error("L15", seen.place, f"what {transition.action} can sense", f"{name} {number}",
                            f"{transition.action} does not measure {name}, but {number} is reported")  # fmt: skip


def _amounts_told(transition: Transition, place: str, said: str, known: set[Decimal]) -> Said:
    """An instrument for one physical quantity reports no concentration."""
    match = _CONCENTRATION.search(units.fold(said)) if transition.action in _ONE_QUANTITY else None
    if match and _value(match[1]) not in known:
        text = f"{transition.action} does not measure concentrations, but {match[0]} is reported"
        yield error("L15", place, f"what {transition.action} can sense", match[0], text)


def limits(transition: Transition) -> Said:
    """L17: nobody sees what is too small, and nothing is pipetted below the smallest volume."""
    if not transition.success:
        return
    for seen in transition.seen:
        # A remark of the experimenter beside another action counts as seen by eye.
        is_visual = (
            str(seen.raw.get("measurement_type")).lower() == "visual" and transition.family not in families.MEASUREMENTS
        )
        if transition.action in _EYES or is_visual:
            yield Ran("L17")
            yield from _naked_eye(transition, seen)
        elif transition.action == "UseMicroscope":
            yield from _microscope(transition, seen)
    moved_volume = transition.parameters.moved() or transition.parameters.added()
    if moved_volume is not None and transition.action in _LEAST:
        yield Ran("L17")
        if moved_volume.value < Decimal(_LEAST[transition.action]):
            yield error("L17", transition.action, f"at least {_LEAST[transition.action]} µL", units.show(moved_volume.value, "volume"),
                        f"{units.show(moved_volume.value, 'volume')} is below what {transition.action} can move")  # fmt: skip


def _naked_eye(transition: Transition, seen: Seen) -> Said:
    # Everything that an inspection reports was seen, unless it is part of a material's name.
    is_inspection = transition.action in _EYES and not any(_TOO_SMALL.search(view.name) for view in transition.inputs)
    claim = _claim(seen.text, _TOO_SMALL, told=is_inspection) or _claim(seen.text, _TOO_SMALL_FOR_EYES)
    if claim:
        yield error(
            "L17", seen.place, "what the naked eye resolves", claim, f"{claim} cannot be seen with the naked eye"
        )


def _microscope(transition: Transition, seen: Seen) -> Said:
    claim = _claim(seen.text, _TOO_SMALL)
    if not claim:
        return
    all_words = transition.parameters.mentions() | set(words.cut(seen.text))
    if all_words & {"fluorescence", "fluorescent", "confocal", "superresolution", "tirf", "electron"}:
        yield undecided("L17", seen.place, f"{claim} may be visible by their fluorescence")
    else:
        yield error(
            "L17",
            seen.place,
            "what light microscopy resolves",
            claim,
            f"{claim} are below the resolution of a light microscope",
        )


def _claim(text: str, pattern: re.Pattern[str], told: bool = False) -> str:
    """Return the thing that a sentence reports as seen, without denying it, or ""."""
    for sentence in re.split(r"[.;!?](?:\s|$)|\bbut\b|\balthough\b", text[:1500]):
        match = pattern.search(sentence)
        if match and (told or _SEES.search(sentence)) and not _NOT_SEEN.search(sentence):
            return match[0]
    return ""


def _without(text: str, names: list[str]) -> str:
    """Return the text without the names of materials: text of a label is not a reading of an instrument."""
    # The caller sorts by length, so that a name within a longer one does not cut it; 100 bound the time.
    for name in names[:100]:
        text = text.replace(name, "it")
    return text


def _figure(text: str, after: int) -> str:
    """Return the number after the name of a quantity, or "" if another clause begins before it."""
    next_text = text[after : after + _NEAR]
    match = _FIGURE.search(next_text)
    if match and not re.search(r"[;]|\band\b|\bby\b", next_text[: match.start()]):
        return match[0].strip()
    return ""


def _known_figures(transition: Transition) -> set[Decimal]:
    """Return the numbers in the parameters, names and properties of the inputs."""
    numbers: set[Decimal] = set()
    for leaf in transition.parameters.leaves:
        numbers |= _values(leaf.text)
    for view in transition.inputs:
        numbers |= _values(view.name)
        for leaf in view.leaves:
            numbers |= _values(leaf.text)
    return numbers


def _values(text: str) -> set[Decimal]:
    return {value for figure in _FIGURE.findall(units.fold(text)) if (value := _value(figure)) is not None}


def _value(figure: str) -> Decimal | None:
    number = units.number(figure)
    return None if number is None else number.normalize()
