"""Words of keys and names, the allowed values of a material's fields in other spellings, and the families of actions."""

import re
from collections.abc import Mapping
from functools import lru_cache

from simulation.checker import chemistry
from simulation.checker.reading import lexicon
from simulation.lab.materials import AVAILABILITY, AVAILABLE, CONDITIONS, MATERIAL_TYPES, NOT_AVAILABLE

_CAMEL = re.compile(r"(?<=[a-z]{3})(?=[A-Z][a-z])")
_SPLIT = re.compile(r"[^a-z0-9µ+%.]+")
# "CaCl2.2H2O" is a salt and its water, as "CaCl2·2H2O" is.
_HYDRATE_POINT = re.compile(r"(?<=[a-z0-9)])\.(?=[0-9]{0,2}h2o)")
_WELL = re.compile(r"[A-Pa-p](?:0?[1-9]|1[0-9]|2[0-4])")
_NAMED_VOLUME = re.compile(r"[,(]\s*[0-9]{1,4}(?:\.[0-9]{1,3})? ?(?:[mµu]?[lL]|litres?|liters?)\b\)?(?=\s*(?:[,(]|$))")
_MAX_TEXT = 300  # maximum number of characters of a key or name; limits the time of the regular expressions


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text, separated by spaces, as a set."""
    return frozenset(text.split())


VOLUME = frozenset({"volume", "vol"})
MASS = frozenset({"mass", "weight"})
CONCENTRATION = frozenset({"concentration", "conc", "molarity", "titer", "titre", "density"})
# A key that consists of these words and "volume" still means the volume that is in the vessel now.
NEUTRAL = word_set(
    "liquid sample current total remaining residual media medium culture solution available actual final content "
    "contents fluid net left bulk of in now present new updated ml ul µl l nl resulting suspension supernatant buffer "
    "material reagent the measured approximate approx filtrate stock"
)
CAPACITY = word_set("capacity max maximum container vessel tube vial bottle flask nominal size holds")
# Words of a name that say that the material is what is left of another.
REMAINDER = word_set("remainder remaining rest left residual leftover")
# In a name, these words only mean that the material is a remainder.
RESIDUAL = word_set(
    "residual remaining remainder leftover left rest unused remains over partially used original source stock "
    "after the of a an in from with and"
)
# Products of actions, vessels and attributes: in a name they are no evidence of a new ingredient.
PRODUCTS = word_set(
    "aliquot aliquots dilution dilutions diluted dilute filtrate supernatant portion fraction waste pool pooled combined "
    "mixture mix mixed extract eluate eluent flowthrough flow through product pellet precipitate residue lysate "
    "retentate permeate wash washed discarded subsample series"
)
GENERIC = PRODUCTS | RESIDUAL | word_set(
    "tube tubes vial vials plate plates well wells flask flasks bottle bottles dish dishes container containers box "
    "beaker cuvette cartridge filter filters column slide slides rack spent used empty new fresh sterile sample samples "
    "solution solutions suspension material treated untreated incubated frozen thawed cold warm hot cooled heated dried dry wet "
    "centrifuged resuspended filtered degassed autoclaved sterilized sterilised stored analyzed analysed measured imaged "
    "labeled labelled stained fixed washed amplified purified concentrated prepared working standard control blank "
    "replicate rep set group batch gel agarose polyacrylamide lane lanes image data file result results report to for on "
    "at by into per no number ml ul µl l mg ug µg g nl mm µm um nm m x c min h hr hours day days step first second third "
    "dna rna protein cells cell culture cultures colony colonies liquid solid powder water separated layer phase upper "
    "lower organic aqueous complete reaction reactions digest digested ligated ligation pcr amplicon insert fragment "
    "serial final initial total volume mass reference electrode evaporated lyophilized lyophilised concentrate cake "
    "residues component components beads bead bound unbound collected after before transformed transfected transduced "
    "infected viable live dead"
)  # fmt: skip
# Ready-made reagents that no step produces from others: an output may only have them if an input had.
REAGENTS = word_set(
    "puromycin blasticidin kanamycin ampicillin carbenicillin chloramphenicol hygromycin g418 geneticin "
    "penicillin streptomycin gentamicin tetracycline doxycycline dapi hoechst trypsin accutase dmso pbs hbss "
    "dmem rpmi fbs glycerol ethanol methanol acetonitrile isopropanol chloroform phenol acetone hexane polybrene "
    "lipofectamine pei forskolin ionomycin taq phusion ecori bamhi hindiii collagenase dnase rnase tween triton "
    "sds edta hepes tris bsa caffeine glucose sucrose ferrocene antibody lentivirus aav hek293t hek293 cho hela "
    "imidazole iptg mtt paraformaldehyde formaldehyde insulin urea rhodamine fluorescein aspirin ibuprofen gfp "
    "mcherry arabinose rapamycin paclitaxel matrigel laminin nacl kcl mgcl2 cacl2 paracetamol acetaminophen polyethylenimine "
    "tbapf6 cnqx tetrodotoxin ttx bicuculline gabazine isoproterenol thapsigargin nocodazole cycloheximide resazurin spermidine "
    "poly-lysine polylysine fibronectin mercaptoethanol theobromine benzoate acesulfame sybr gelgreen coomassie nystatin spectinomycin"
)
# Words that imply reagents, so that the name of an input covers what an output lists. A kit may contain any of them.
SYNONYMS = {
    "phosphate": ("pbs",), "buffered": ("pbs",), "saline": ("pbs", "nacl", "hbss"), "dulbecco": ("dmem",), "fetal": ("fbs",),
    "foetal": ("fbs",), "bovine": ("fbs", "bsa"), "serum": ("fbs",), "sodium": ("nacl", "sds"), "chloride": ("nacl", "kcl", "mgcl2", "cacl2"),
    "potassium": ("kcl",), "magnesium": ("mgcl2",), "calcium": ("cacl2",), "meoh": ("methanol",), "etoh": ("ethanol",),
    "mecn": ("acetonitrile",), "acn": ("acetonitrile",), "alcohol": ("ethanol", "isopropanol", "methanol"),
    "tae": ("tris", "edta"), "tbe": ("tris", "edta"), "te": ("tris", "edta"), "ripa": ("tris", "triton", "sds", "nacl"),
    "pei": ("polyethylenimine",), "polyethylenimine": ("pei",),
    "pen": ("penicillin",), "strep": ("streptomycin",), "dimethyl": ("dmso",), "sulfoxide": ("dmso",), "pfa": ("paraformaldehyde", "formaldehyde"),
    "lentiviral": ("lentivirus",), "virus": ("lentivirus", "aav"), "viral": ("lentivirus", "aav"), "antibodies": ("antibody",),
    "anti": ("antibody",), "igg": ("antibody",), "dextrose": ("glucose",), "medium": ("dmem", "rpmi", "fbs", "glucose", "pbs"),
    "media": ("dmem", "rpmi", "fbs", "glucose", "pbs"), "coffee": ("caffeine",), "tea": ("caffeine",), "drink": ("caffeine",),
    "cola": ("caffeine",), "beverage": ("caffeine",), "lb": ("nacl", "glucose"), "hanks": ("hbss",), "adeno": ("aav",),
    "hek": ("hek293t", "hek293"), "hek293": ("hek293t",), "hek293t": ("hek293",), "plasmid": ("gfp", "mcherry"),
    "puro": ("puromycin",), "egfp": ("gfp",), "reporter": ("gfp", "mcherry"), "kit": tuple(REAGENTS - {"geneticin"}),
    "master": ("taq", "phusion", "mgcl2"), "polymerase": ("taq", "phusion"), "seawater": ("nacl",), "brine": ("nacl",),
    "lysis": ("tris", "edta", "sds", "triton", "rnase", "nacl"), "buffer": ("tris", "edta", "nacl", "kcl", "mgcl2", "hepes", "sds"),
    "dye": ("rhodamine", "fluorescein", "dapi", "hoechst"), "cocktail": ("penicillin", "streptomycin"),
}  # fmt: skip
SOLVENTS = word_set(
    "water h2o pbs buffer saline diluent solvent methanol ethanol acetonitrile isopropanol dmso medium media dmem rpmi hbss "
    "te tris broth lb ddh2o milliq acsf ringer tyrode krebs hexane acetone chloroform opti-mem optimem"
)


@lru_cache(maxsize=8192)
def tokenize(text: str) -> tuple[str, ...]:
    """Return the words of a key or a name in lower case, without a plural s: tubes becomes tube."""
    text = lexicon.remove_accents(_CAMEL.sub(" ", text[:_MAX_TEXT].replace("μ", "µ"))).lower()
    text = _HYDRATE_POINT.sub(" ", text)
    found = (lexicon.translate_word(word.strip(".")) for word in _SPLIT.split(text))
    return tuple(_drop_plural_s(word) for word in found if word)


def content_words(text: str) -> frozenset[str]:
    """Return the words of a name that describe its content."""
    return frozenset(word for word in tokenize(text) if word not in _GENERIC and not is_label(word))


def is_label(word: str) -> bool:
    """Return whether a word is a number or the name of a well."""
    return word.replace(".", "").isdigit() or (len(word) <= 3 and word[:1].isalpha() and word[1:].isdigit())


def is_well(word: str) -> bool:
    """Return whether a word is a well from A1 to P24, in upper or lower case."""
    return _WELL.fullmatch(word.strip()) is not None


@lru_cache(maxsize=4096)
def core_words(text: str) -> tuple[str, ...]:
    """Return the words of a name without those that only mean that the material is a remainder."""
    # If nothing would be left, as of "Stock A", words that may be part of a name are kept.
    # "HBSS, 10 mL" has this name because of its volume before the step.
    text = _NAMED_VOLUME.sub(" ", text[:_MAX_TEXT]) if _NAMED_VOLUME.sub("", text).strip(" ,()") else text
    for dropped in (_RESIDUAL, _RESIDUAL - {"stock", "source", "original", "a"}):
        if kept := tuple(word for word in tokenize(text) if word not in dropped):
            return kept
    return ()


def add_reagents(words: frozenset[str]) -> frozenset[str]:
    """Return the words together with every reagent that they imply."""
    return words | chemistry.list_short_names(words) | {name for word in words for name in SYNONYMS.get(word, ())}


def _drop_plural_s(word: str) -> str:
    # Not "glass", "virus", "analysis", "pbs" or "species".
    is_plural = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "bs", "ies"))
    return word[:-1] if is_plural else word


# The lists above as the tokenizer writes them, without a plural s.
_GENERIC = frozenset(_drop_plural_s(word) for word in GENERIC)
_RESIDUAL = frozenset(_drop_plural_s(word) for word in RESIDUAL)
PRODUCT_WORDS = frozenset(_drop_plural_s(word) for word in PRODUCTS)


EMPTY, CONSUMABLE, FROZEN, ADHERENT, SOLID, GEL, PELLET = (
    "empty", "consumable", "frozen", "adherent", "solid", "gel", "pellet",
)  # fmt: skip
FLUID = ("liquid", "suspension", "sedimented")
FROZEN_CONDITIONS = ("-20C", "-80C", "-196C", "dry_ice")
INCUBATORS = ("incubating_conditions", "cell_culture_conditions")
# Lowest and highest plausible temperature in °C of a material in each storage condition. Wide: a material may just have been moved.
TEMPERATURES = {
    "room_temp": (-5, 60), "4C": (-3, 20), "-20C": (-40, 0), "-80C": (-100, -40), "-196C": (-220, -120),
    "ice": (-8, 15), "dry_ice": (-95, -40), "incubating_conditions": (-3, 130), "cell_culture_conditions": (0, 60),
}  # fmt: skip

_CONDITION_SPELLINGS = {
    "room_temp": "rt roomtemp roomtemperature ambient ambienttemperature 22c 25c 20c bench 18-25c 20-25c",
    "4C": "4c fridge refrigerator refrigerated 2-8c coldroom",
    "-20C": "-20c freezer -20freezer",
    "-80C": "-80c ultralowfreezer -80freezer",
    "-196C": "-196c liquidnitrogen ln2 ln2storage",
    "ice": "ice onice wetice icebath",
    "dry_ice": "dryice ondryice",
    # Spellings are in lower case, without spaces and underscores: see _match_spelling.
    "incubating_conditions": "incubatingconditions incubator 37c incubation incubating",
    "cell_culture_conditions": "cellcultureconditions 37c5%co2 co2incubator cellcultureincubator cellculture",
}
_AVAILABILITY_SPELLINGS = {
    "unlimited": "unlimited",
    AVAILABLE: "available availableforfurtheruse consumable limited",
    NOT_AVAILABLE: "consumed usedup used unavailable notavailable notavailableforfurtheruse depleted discarded",
}
# The first match counts, so specific words precede general ones: "frozen solution" is frozen.
_PHASES = (
    (EMPTY, "empty"), (CONSUMABLE, "consumable"), (FROZEN, "frozen ice"), (ADHERENT, "adherent attached monolayer"),
    ("sedimented", "supernatant sedimented pelleted settled"), (PELLET, "pellet"), (GEL, "gel agar"),
    ("suspension", "suspension slurry suspended"), ("liquid", "liquid solution aqueous fluid emulsion"),
    (SOLID, "solid powder crystal crystalline tablet tissue lyophilized lyophilised dry film granule"),
    ("plate", "plate"), ("gas", "gas gaseous"),
)  # fmt: skip


def parse_condition(value: object) -> str:
    """Return the storage condition that a value means, or "" if it is not recognised."""
    return _match_spelling(value, CONDITIONS, _CONDITION_SPELLINGS)


def parse_availability(value: object) -> str:
    return _match_spelling(value, AVAILABILITY, _AVAILABILITY_SPELLINGS)


def parse_material_type(value: object) -> str:
    return value.lower() if isinstance(value, str) and value.lower() in MATERIAL_TYPES else ""


def parse_phase(words: tuple[str, ...]) -> str:
    """Return the phase that these words name, or "". If they name several, the first one in `_PHASES` counts."""
    # "not frozen" does not determine the phase.
    if "not" in words or "no" in words or "unfrozen" in words:
        return ""
    return next((name for name, spellings in _PHASES if set(spellings.split()) & set(words)), "")


def _match_spelling(value: object, members: tuple[str, ...], spellings: dict[str, str]) -> str:
    if not isinstance(value, str):
        return ""
    if value in members:
        return value
    plain = "".join(c for c in value[:60].lower().replace("−", "-") if c.isalnum() or c in "-%")
    plain = plain if plain.startswith("-") else plain.lstrip("-")
    return next((name for name, spelling_text in spellings.items() if plain in spelling_text.split()), "")


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
