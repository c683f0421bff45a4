"""The 82 actions, grouped by what they can do to amounts according to their descriptions in the catalogue."""

from collections.abc import Mapping

MOVE, ADD, COMBINE, SERIAL = "move", "add", "combine", "serial"
INERT, HEAT, TAKE, READ, CONSUME, MAKE, CONTROL, UNKNOWN = (
    "inert", "heat", "take", "read", "consume", "make", "control", "unknown",
)  # fmt: skip

_MEMBERS = {
    MOVE: "Transfer Aliquot AcousticLiquidHandling",
    ADD: "Dilute FillToVolume Resuspend AdjustpH",
    COMBINE: "Combine",
    SERIAL: "SerialDilute",
    # Nothing goes in or out, and nothing reacts.
    INERT: "Mix Centrifuge Degas Wait Storage FlashFreeze ApplyMagnet Grind SeparateWells",
    # Nothing goes in; something may react, grow, die or evaporate.
    HEAT: "Incubate CellCultureIncubate Thermocycler Autoclave Microwave FreezeCells",
    # Something may be taken off or replaced.
    TAKE: "Wash Filter Aspirate Dialysis SolidPhaseExtraction Evaporate Lyophilize Desiccate DryingOven "
    "AttemptDNAExtraction",
    # The sample is not changed.
    READ: "BioLayerInterferometry MeasureOsmolality MeasureConductivity MeasureContactAngle MeasureDensity "
    "MeasureDissolvedOxygen MeasurepH MeasureWeight MeasureVolume MeasureCount ImageSample MeasureSurfaceTension "
    "CyclicVoltammetry VisualInspection ImageColonies QuantifyColonies UsePhotospectrometer UsePlateReader UseMicroscope",
    # Some of the sample is used up.
    CONSUME: "CapillaryElectrophoresis HPLC AgaroseGelElectrophoresis PAGE CapillaryWestern MassSpectrometry "
    "TotalProteinQuantification qPCR CapillaryELISA ELISA DNASequencing NucleicAcidQuantification FlowCytometry "
    "CountLiquidParticles CoulterCount MeasureRefractiveIndex MeasureViscosity DynamicFoamAnalysis "
    "MeasureMeltingPoint CellCounter",
    MAKE: "DNASynthesis RNASynthesis PNASynthesis PeptideSynthesis PrepareReferenceElectrode",
    CONTROL: "SubmitMaterialsObservationsForReview Quit ManifestMaterials Discard",
}  # fmt: skip
# Lower case: simulators capitalise names of actions differently.
_FAMILY: Mapping[str, str] = {name.lower(): family for family, names in _MEMBERS.items() for name in names.split()}
_NAMES: Mapping[str, str] = {name.lower(): name for names in _MEMBERS.values() for name in names.split()}

MEASUREMENTS = (READ, CONSUME)
# For these families the catalogue promises one output per sample.
ONE_TO_ONE = (INERT, HEAT, READ, CONSUME)
# Actions that may add something that only a parameter names (a reagent, a stain), so a gain in volume proves nothing.
ADDS_FROM_PARAMETERS = (
    "AttemptDNAExtraction", "qPCR", "Thermocycler", "UseMicroscope", "UsePlateReader", "SolidPhaseExtraction", "Wash",
    "Microwave", "TotalProteinQuantification", "ELISA", "CapillaryELISA", "CapillaryWestern", "FlowCytometry",
)  # fmt: skip
# Actions that may leave a component at a higher concentration than any input had.
CONCENTRATES = (
    "Evaporate", "Lyophilize", "Desiccate", "DryingOven", "Filter", "Centrifuge", "Dialysis", "SolidPhaseExtraction",
    "AttemptDNAExtraction", "Aspirate", "ApplyMagnet", "Resuspend", "Autoclave", "Microwave",
)  # fmt: skip
GELS = ("AgaroseGelElectrophoresis", "PAGE")


def canonical_name(name: str) -> str:
    """Return the catalogue's name of an action, or the name unchanged if the catalogue has none."""
    short = name.strip().replace("_", "").replace(" ", "").lower().removeprefix("experiment")
    # The catalogue's name is long; other simulators write only its first word.
    if short == "submit":
        return "SubmitMaterialsObservationsForReview"
    return _NAMES.get(short, name)


def find_family(name: str) -> str:
    return _FAMILY.get(name.lower(), UNKNOWN)
