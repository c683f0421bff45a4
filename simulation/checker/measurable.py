"""L15: an observation reports only what its action can sense."""

import re
from collections.abc import Iterable
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding
from simulation.checker.observations import DENIAL
from simulation.checker.reading import lexicon, units, words
from simulation.checker.reading.transition import Transition

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

# Dimensions of which only these instruments report numbers, whatever the words around them.
_DIMENSIONS_OF_ACTIONS = {
    "conductivity": words.word_set("MeasureConductivity HPLC CapillaryElectrophoresis"),
    "osmolality": words.word_set("MeasureOsmolality"),
}

_NO_BALANCE = words.word_set(
    "MeasurepH MeasureConductivity MeasureOsmolality MeasureDissolvedOxygen MeasureContactAngle MeasureMeltingPoint"
)

_CALIBRATION = re.compile(
    r"\bcalibrat\w*|\bair\b|\bstandards?\b|\btarget\b|\bnominal\b|\blabel\b|\bexpected\b|\bshould\b", re.IGNORECASE
)

_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)?(?:\s?[x*]\s?10\^?[0-9]{1,2}|[eE][+-]?[0-9]{1,2})?")

_CONCENTRATIONS = ("molar_concentration", "mass_concentration", "number_density")

# Instruments for one physical quantity, which never report a concentration.
_ONE_QUANTITY = words.word_set(
    "MeasurepH MeasureWeight MeasureVolume MeasureConductivity MeasureContactAngle MeasureViscosity MeasureOsmolality "
    "MeasureSurfaceTension MeasureMeltingPoint VisualInspection MeasureDensity MeasureDissolvedOxygen"
)
# Concentrations that have the unit of the quantity itself: liquids have at least 0.3 g/mL, and air-saturated water 15 mg/L of oxygen.
_OWN_UNIT = {
    "MeasureDensity": (Decimal(300_000), Decimal(10) ** 9),
    "MeasureWeight": (Decimal(300_000), Decimal(10) ** 9),  # the mass of a known volume
    "MeasureDissolvedOxygen": (Decimal(0), Decimal(60)),
}

_MAX_DISTANCE = 40  # characters after the name of a quantity in which its number is expected


def check_measured_quantities(transition: Transition) -> Findings:
    """L15: yield an error if an observation reports a number for a quantity that the action does not measure."""
    if transition.family in (words.UNKNOWN, words.MAKE, words.CONTROL):
        return
    # A number that is already on a label or among the settings is a repetition, not a measurement.
    parameter_texts = (leaf.value_text for leaf in transition.parameters.leaves)
    known_numbers = _parse_numbers([*parameter_texts, *transition.input_texts])
    names = {view.name for view in (*transition.inputs, *transition.outputs) if len(view.name) > 3}
    action, expected = transition.action, f"what {transition.action} can sense"
    for seen in transition.observations:
        # Numbers in a name are not readings. The longest name first, so that no name splits a longer one; 100 names
        # limit the time.
        text = lexicon.translate_quantities(seen.full_text[:1500])
        for name in sorted(sorted(names), key=len, reverse=True)[:100]:
            text = text.replace(name, "it")
        yield Decided("L15")
        # An instrument for one physical quantity reports no concentration.
        stated = (
            (a for dimension in _CONCENTRATIONS for a in units.find_amounts(text, dimension))
            if action in _ONE_QUANTITY
            else ()
        )
        new_amounts = [
            amount
            for amount in stated
            if not _parse_numbers([amount.text]) & known_numbers and not _is_own_unit(action, amount)
        ]
        if new_amounts and not _CALIBRATION.search(text):
            shown = new_amounts[0].text[:40]
            message = f"{action} does not measure concentrations, but {shown} is reported"
            yield error_finding("L15", seen.path, expected, shown, message)
        if action in _NO_BALANCE and not _CALIBRATION.search(text):
            masses = [
                amount
                for amount in units.find_amounts(text, "mass")
                if not _parse_numbers([amount.text]) & known_numbers
            ]
            if masses:
                message = f"{action} does not weigh, but {masses[0].text[:40]} is reported"
                yield error_finding("L15", seen.path, expected, masses[0].text[:40], message)
        for dimension, actions in _DIMENSIONS_OF_ACTIONS.items():
            found = units.find_amounts(text, dimension) if action not in actions else []
            new = [amount for amount in found if not _parse_numbers([amount.text]) & known_numbers]
            if new and not _CALIBRATION.search(text):
                message = f"{action} does not measure {dimension.replace('_', ' ')}, but {new[0].text[:40]} is reported"
                yield error_finding("L15", seen.path, expected, new[0].text[:40], message)
        for quantity, pattern, actions in _QUANTITY_PATTERNS:
            match = None if action in actions else pattern.search(text)
            number = _find_number(text, match.end(), known_numbers) if match else ""
            if not match or not number:
                continue
            if not DENIAL.search(text[max(0, match.start() - 30) : match.end() + _MAX_DISTANCE]):
                message = f"{action} does not measure {quantity}, but {number} is reported"
                yield error_finding("L15", seen.path, expected, f"{quantity} {number}", message)


def _is_own_unit(action: str, amount: units.Amount) -> bool:
    """Return whether a concentration is what the instrument shows: a density in g/mL, or dissolved oxygen."""
    low, high = _OWN_UNIT.get(action, (Decimal(1), Decimal(0)))
    is_oxygen = action == "MeasureDissolvedOxygen" and amount.dimension == "molar_concentration" and amount.value < 3000
    return (amount.dimension == "mass_concentration" and low <= amount.value <= high) or is_oxygen


def _find_number(text: str, after: int, known_numbers: set[Decimal]) -> str:
    """Return the number after the name of a quantity, or "" if another clause begins before it.

    Known numbers, such as the temperature of a measurement, are passed over.
    """
    next_text = text[after : after + _MAX_DISTANCE]
    for match in _NUMBER.finditer(next_text):
        if re.search(r"[;]|\band\b|\bby\b", next_text[: match.start()]):
            return ""
        if not _parse_numbers([match[0]]) & known_numbers:
            return match[0].strip()
    return ""


def _parse_numbers(texts: Iterable[str]) -> set[Decimal]:
    figures = (figure for text in texts for figure in _NUMBER.findall(units.normalise_text(text)))
    return {number.normalize() for figure in figures if (number := units.parse_number(figure)) is not None}
