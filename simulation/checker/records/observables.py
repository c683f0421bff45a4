"""L15 and L17: an observation says only what the action can sense."""

import re
from decimal import Decimal

from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.reading import families, units, words
from simulation.checker.reading.transition import Seen, Transition

# Quantity: the words that name it, and the actions that can read it. Others of the catalogue cannot.
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
_ONE_QUANTITY = words.listed(
    "MeasurepH MeasureWeight MeasureVolume MeasureConductivity MeasureContactAngle MeasureViscosity MeasureOsmolality "
    "MeasureSurfaceTension MeasureMeltingPoint VisualInspection"
)
_NEAR = 40
_NOT_SEEN = re.compile(
    r"\bnot\b|\bno\b|\bnone\b|\bcannot\b|\bcan't\b|\binvisible\b|\btoo small\b|\bunable\b|\bwithout\b|\bneither\b|\bexpected\b|\bdid not\b",
    re.IGNORECASE,
)
_TOO_SMALL = re.compile(
    r"\b(?:viral|virus|aav|lentivir(?:al|us)|phage|nano-?)\s?(?:particles?|capsids?|virions?)|\bvirions?\b|\bcapsids?\b|\bexosomes?\b|"
    r"\bextracellular vesicles\b|\b(?:dna|rna|plasmid|protein|antibody) (?:molecules?|strands?|helix|helices)\b|\bnanoparticles\b|\bribosomes\b|\bdouble helix\b|\bchromosomes\b|\bplasmid rings\b|"
    r"\b(?:individual|single) (?:[a-z]+ )?(?:molecules|proteins|atoms|ions)\b",
    re.IGNORECASE,
)  # fmt: skip
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
    "AcousticLiquidHandling": "0.0024",
}


def measured(transition: Transition) -> Said:
    """L15: no figure of a quantity that this action does not measure."""
    if not transition.success or transition.family in (families.UNKNOWN, families.MAKE, families.CONTROL):
        return
    known = _known_figures(transition)
    names = sorted(
        {view.name for view in (*transition.inputs, *transition.outputs) if len(view.name) > 3}, key=len, reverse=True
    )
    for seen in transition.seen:
        said = _without(seen.text[:1500], names)
        yield Ran("L15")
        yield from _amounts_told(transition, seen.place, said, known)
        for name, pattern, actions in _COMPILED:
            if transition.action in actions:
                continue
            found = pattern.search(said)
            figure = found and _figure(said, found.end())
            if (
                figure
                and found
                and _value(figure) not in known
                and not _NOT_SEEN.search(said[max(0, found.start() - 30) : found.end() + _NEAR])
            ):
                yield error("L15", seen.place, f"what {transition.action} senses", f"{name} {figure}",
                            f"{transition.action} does not measure {name}, and {figure} is reported")  # fmt: skip


def _amounts_told(transition: Transition, place: str, said: str, known: set[Decimal]) -> Said:
    """An instrument for one physical quantity tells no concentration of anything."""
    found = _CONCENTRATION.search(units.fold(said)) if transition.action in _ONE_QUANTITY else None
    if found and _value(found[1]) not in known:
        text = f"{transition.action} measures no concentration, and {found[0]} is reported"
        yield error("L15", place, f"what {transition.action} senses", found[0], text)


def limits(transition: Transition) -> Said:
    """L17: nobody sees what is too small to be seen, and nothing is pipetted below what a pipette can take."""
    if not transition.success:
        return
    for seen in transition.seen:
        visual = (
            str(seen.raw.get("measurement_type")).lower() == "visual" and transition.family not in families.MEASUREMENTS
        )
        if transition.action in _EYES or visual:
            yield Ran("L17")
            yield from _naked_eye(transition, seen)
        elif transition.action == "UseMicroscope":
            yield from _microscope(transition, seen)
    moved = transition.parameters.moved() or transition.parameters.added()
    if moved is not None and transition.action in _LEAST:
        yield Ran("L17")
        if moved.value < Decimal(_LEAST[transition.action]):
            yield error("L17", transition.action, f"at least {_LEAST[transition.action]} µL", units.show(moved.value, "volume"),
                        f"{units.show(moved.value, 'volume')} is below what {transition.action} can move")  # fmt: skip


def _naked_eye(transition: Transition, seen: Seen) -> Said:
    # Whatever an inspection tells of, it tells of as seen; a name on a label is no sight.
    eyes = transition.action in _EYES and not any(_TOO_SMALL.search(view.name) for view in transition.inputs)
    found = _claim(seen.text, _TOO_SMALL, told=eyes) or _claim(seen.text, _TOO_SMALL_FOR_EYES)
    if found:
        yield error(
            "L17", seen.place, "what the naked eye resolves", found, f"{found} cannot be seen with the naked eye"
        )


def _microscope(transition: Transition, seen: Seen) -> Said:
    found = _claim(seen.text, _TOO_SMALL)
    if not found:
        return
    said = transition.parameters.mentions() | set(words.cut(seen.text))
    if said & {"fluorescence", "fluorescent", "confocal", "superresolution", "tirf", "electron"}:
        yield undecided("L17", seen.place, f"{found} may show by their light alone")
    else:
        yield error(
            "L17",
            seen.place,
            "what light microscopy resolves",
            found,
            f"{found} are below the resolution of a light microscope",
        )


def _claim(text: str, pattern: re.Pattern[str], told: bool = False) -> str:
    """The thing said to be seen, where the sentence denies nothing."""
    for sentence in re.split(r"[.;!?](?:\s|$)|\bbut\b|\balthough\b", text[:1500]):
        found = pattern.search(sentence)
        if found and (told or _SEES.search(sentence)) and not _NOT_SEEN.search(sentence):
            return found[0]
    return ""


def _without(text: str, names: list[str]) -> str:
    """The text without the names of materials: what stands on a label is not read off an instrument."""
    for name in names[:100]:
        text = text.replace(name, "it")
    return text


def _figure(text: str, after: int) -> str:
    """The number reported for a quantity: after its name, or the value where the description is about it."""
    tail = text[after : after + _NEAR]
    found = _FIGURE.search(tail)
    if found and not re.search(r"[;]|\band\b|\bby\b", tail[: found.start()]):
        return found[0].strip()
    return ""


def _known_figures(transition: Transition) -> set[Decimal]:
    """Numbers that stand in the parameters, names and properties of what went in: to repeat them is no measurement."""
    found: set[Decimal] = set()
    for leaf in transition.parameters.leaves:
        found |= _values(leaf.text)
    for view in transition.inputs:
        found |= _values(view.name)
        for leaf in view.leaves:
            found |= _values(leaf.text)
    return found


def _values(text: str) -> set[Decimal]:
    return {value for figure in _FIGURE.findall(units.fold(text)) if (value := _value(figure)) is not None}


def _value(figure: str) -> Decimal | None:
    number = units.number(figure)
    return None if number is None else number.normalize()
