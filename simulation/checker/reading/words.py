"""Split keys and names into words, and list words by their meaning, such as those that do not describe a content."""

import re
from functools import lru_cache

_CAMEL = re.compile(r"(?<=[a-z]{3})(?=[A-Z][a-z])")
_SPLIT = re.compile(r"[^a-z0-9µ+%.]+")
_WELL = re.compile(r"[A-Pa-p](?:0?[1-9]|1[0-9]|2[0-4])")
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
DEAD = frozenset({"dead"})
MINIMUM = frozenset({"minimum", "min"})
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
REAGENTS = {
    "puromycin": "puromycin", "blasticidin": "blasticidin", "kanamycin": "kanamycin", "ampicillin": "ampicillin",
    "carbenicillin": "carbenicillin", "chloramphenicol": "chloramphenicol", "hygromycin": "hygromycin", "g418": "g418",
    "geneticin": "g418", "penicillin": "penicillin", "streptomycin": "streptomycin", "gentamicin": "gentamicin",
    "tetracycline": "tetracycline", "doxycycline": "doxycycline", "dapi": "dapi", "hoechst": "hoechst",
    "trypsin": "trypsin", "accutase": "accutase", "dmso": "dmso", "pbs": "pbs", "hbss": "hbss", "dmem": "dmem",
    "rpmi": "rpmi", "fbs": "fbs", "glycerol": "glycerol", "ethanol": "ethanol", "methanol": "methanol",
    "acetonitrile": "acetonitrile", "isopropanol": "isopropanol", "chloroform": "chloroform", "phenol": "phenol",
    "acetone": "acetone", "hexane": "hexane", "polybrene": "polybrene", "lipofectamine": "lipofectamine", "pei": "pei",
    "forskolin": "forskolin", "ionomycin": "ionomycin", "taq": "taq", "phusion": "phusion", "ecori": "ecori",
    "bamhi": "bamhi", "hindiii": "hindiii", "collagenase": "collagenase", "dnase": "dnase", "rnase": "rnase",
    "tween": "tween", "triton": "triton", "sds": "sds", "edta": "edta", "hepes": "hepes", "tris": "tris", "bsa": "bsa",
    "caffeine": "caffeine", "glucose": "glucose", "sucrose": "sucrose", "crystal violet": "crystal violet",
    "ferrocene": "ferrocene", "antibody": "antibody", "lentivirus": "lentivirus", "aav": "aav", "hek293t": "hek293t",
    "hek293": "hek293", "cho": "cho", "hela": "hela", "imidazole": "imidazole", "iptg": "iptg", "mtt": "mtt",
    "paraformaldehyde": "paraformaldehyde", "formaldehyde": "formaldehyde", "insulin": "insulin", "urea": "urea",
    "rhodamine": "rhodamine", "fluorescein": "fluorescein", "aspirin": "aspirin", "ibuprofen": "ibuprofen",
    "gfp": "gfp", "mcherry": "mcherry", "arabinose": "arabinose", "rapamycin": "rapamycin", "paclitaxel": "paclitaxel",
    "matrigel": "matrigel", "laminin": "laminin", "nacl": "nacl", "kcl": "kcl", "mgcl2": "mgcl2", "cacl2": "cacl2",
}  # fmt: skip
# Words that imply reagents, so that the name of an input covers what an output lists. A kit may contain any of them.
SYNONYMS = {
    "phosphate": ("pbs",), "buffered": ("pbs",), "saline": ("pbs", "nacl", "hbss"), "dulbecco": ("dmem",), "fetal": ("fbs",),
    "foetal": ("fbs",), "bovine": ("fbs", "bsa"), "serum": ("fbs",), "sodium": ("nacl", "sds"), "chloride": ("nacl", "kcl", "mgcl2", "cacl2"),
    "potassium": ("kcl",), "magnesium": ("mgcl2",), "calcium": ("cacl2",), "meoh": ("methanol",), "etoh": ("ethanol",),
    "mecn": ("acetonitrile",), "acn": ("acetonitrile",), "alcohol": ("ethanol", "isopropanol", "methanol"),
    "tae": ("tris", "edta"), "tbe": ("tris", "edta"), "te": ("tris", "edta"), "ripa": ("tris", "triton", "sds", "nacl"),
    "pen": ("penicillin",), "strep": ("streptomycin",), "dimethyl": ("dmso",), "sulfoxide": ("dmso",), "pfa": ("paraformaldehyde", "formaldehyde"),
    "lentiviral": ("lentivirus",), "virus": ("lentivirus", "aav"), "viral": ("lentivirus", "aav"), "antibodies": ("antibody",),
    "anti": ("antibody",), "igg": ("antibody",), "dextrose": ("glucose",), "medium": ("dmem", "rpmi", "fbs", "glucose", "pbs"),
    "media": ("dmem", "rpmi", "fbs", "glucose", "pbs"), "coffee": ("caffeine",), "tea": ("caffeine",), "drink": ("caffeine",),
    "cola": ("caffeine",), "beverage": ("caffeine",), "lb": ("nacl", "glucose"), "hanks": ("hbss",), "adeno": ("aav",),
    "hek": ("hek293t", "hek293"), "hek293": ("hek293t",), "hek293t": ("hek293",), "plasmid": ("gfp", "mcherry"),
    "puro": ("puromycin",), "egfp": ("gfp",), "reporter": ("gfp", "mcherry"), "kit": tuple(REAGENTS.values()),
    "master": ("taq", "phusion", "mgcl2"), "polymerase": ("taq", "phusion"), "seawater": ("nacl",), "brine": ("nacl",),
    "lysis": ("tris", "edta", "sds", "triton", "rnase", "nacl"), "buffer": ("tris", "edta", "nacl", "kcl", "mgcl2", "hepes", "sds"),
    "dye": ("rhodamine", "fluorescein", "dapi", "hoechst"), "cocktail": ("penicillin", "streptomycin"),
}  # fmt: skip
SOLVENTS = word_set(
    "water h2o pbs buffer saline diluent solvent methanol ethanol acetonitrile isopropanol dmso medium media dmem rpmi hbss "
    "te tris broth lb ddh2o milliq hexane acetone chloroform opti-mem optimem"
)


@lru_cache(maxsize=8192)
def tokenize(text: str) -> tuple[str, ...]:
    """Return the words of a key or a name in lower case, without a plural s: tubes becomes tube."""
    text = _CAMEL.sub(" ", text[:_MAX_TEXT].replace("μ", "µ")).lower()
    return tuple(_drop_plural_s(word.strip(".")) for word in _SPLIT.split(text) if word.strip("."))


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
    name_words = tokenize(text)
    # If nothing would be left, as of "Stock A", words that may be part of a name are kept.
    return tuple(w for w in name_words if w not in _RESIDUAL) or tuple(
        w for w in name_words if w not in _RESIDUAL - _NAMING
    )


def add_reagents(words: frozenset[str]) -> frozenset[str]:
    """Return the words together with every reagent that they imply."""
    reagents = {name for word in words for name in SYNONYMS.get(word, ())}
    return words | reagents


def _drop_plural_s(word: str) -> str:
    return (
        word[:-1]
        # Not "glass", "virus", "analysis", "pbs" or "species".
        if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "bs", "ies"))
        else word
    )


# The lists above as the tokenizer writes them, without a plural s.
_GENERIC = frozenset(_drop_plural_s(word) for word in GENERIC)
_RESIDUAL = frozenset(_drop_plural_s(word) for word in RESIDUAL)
_NAMING = frozenset({"stock", "source", "original", "a"})
PRODUCT_WORDS = frozenset(_drop_plural_s(word) for word in PRODUCTS)
