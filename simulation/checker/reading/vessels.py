"""The vessel of a material as its properties and its name describe it: container, capacity, and whether anything is in it."""

import re
from collections.abc import Iterable

from simulation.checker.reading import units, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

# Words for a molecular mass or the mass of a vessel.
OTHER_MASS_WORDS = word_set("molecular molar tare container gross empty formula exact mw tube vial flask bottle filter")
# A material whose name has only these words and the attributes below is an empty vessel: "sterile 2 mL tube".
_VESSEL_NAMES = word_set(
    "tube vial plate flask bottle dish container box beaker cuvette well rack tip slide cartridge strip cryovial cryotube "
    "microtube tray bag insert crucible jar coverslip"
)
_VESSEL_ATTRIBUTES = word_set(
    "ml µl ul l sterile new clean of amber glas plastic polypropylene pcr hplc autosampler cap with microcentrifuge centrifuge "
    "volumetric class eppendorf falcon conical cryogenic a b c d low bind clear culture multi deep round bottom screw flat pp ps "
    "pet reaction pack of 5 in bulk spare unused amber"
)
_SOLID_NAMES = word_set("powder crystal tablet lyophilized lyophilised granule")
VESSEL_KEYS = word_set("microtube cryotube falcon tube vial flask bottle beaker cuvette cryovial dish jar bag plate")
# Keys under which simulators write "adherent".
_CELL_KEYS = ({"cell"}, {"cell", "line"}, {"culture"})
# Words for the volume up to which a vessel can be filled.
BRIM = word_set("cap brim brimful brimfull overflow")
# "50 mL tube, brim 55 mL" and "cap. 120 mL": what a text says that a vessel can hold.
_HOLDS = re.compile(
    r"\b(?:brim(?:ful)?|cap\.?|capacity|max\.?|maximum|holds(?: up to)?|capacidad|capacity of)\s?:?\s?([0-9.]{1,7}\s?(?:mL|µL|uL|ml|ul|L))(?![\w/])",
    re.IGNORECASE,
)


def find_container(leaves: tuple[Leaf, ...]) -> str:
    """Return the vessel: the value of a key like container, else a key with its size ("flask": "100 mL"), else ""."""
    for leaf in leaves:
        is_named = set(leaf.own_words) & {"container", "vessel", "labware", "format", "plate"}
        if is_named and leaf.value_text and not leaf.parse_amount("volume"):
            return leaf.value_text
        if leaf.word_set == {"container", "type"} and leaf.value_text:
            return leaf.value_text
    for leaf in leaves:
        if leaf.word_set in ({"container"}, {"vessel"}) and leaf.value_text:
            return leaf.value_text
    vessels = (leaf for leaf in leaves if len(leaf.words) == 1 and leaf.words[0] in VESSEL_KEYS and leaf.value_text)
    return next((f"{leaf.value_text} {leaf.key}" for leaf in vessels), "")


def find_phase(leaves: Iterable[Leaf], name: str, wet: bool) -> str:
    """Return the phase of a material, or "" if it is unknown. `wet` is whether a volume of it is stated."""
    for leaf in leaves:
        own_words, value_words = set(leaf.own_words), words.tokenize(leaf.value_text)
        if own_words & {"phase", "state", "form"} and (phase := words.parse_phase(value_words)):
            return phase
        is_about_cells = own_words & {"growth", "attachment", "adherence"} or leaf.word_set in _CELL_KEYS
        if is_about_cells and "adherent" in value_words:
            return words.ADHERENT
        if own_words == {"pellet"} and leaf.value_text and not wet:
            return words.PELLET
        if own_words == {"content"} and value_words in (("empty",), ("none",), ("nothing",)):
            return words.EMPTY
        if own_words == {"empty"} and leaf.value is True:
            return words.EMPTY
    # A material with a volume is no empty vessel and no powder, whatever its name.
    if wet:
        return ""
    name_words = set(words.tokenize(name))
    other_words = {word for word in name_words if word not in _VESSEL_ATTRIBUTES and not words.is_label(word)}
    if "empty" in name_words:
        return words.EMPTY
    if name_words & _VESSEL_NAMES and not other_words - _VESSEL_NAMES:
        # "flask" with a list of solids, or a plate that says how many cells it has, is not empty.
        return "" if any(map(_is_about_content, leaves)) else words.EMPTY
    return words.SOLID if name_words & _SOLID_NAMES else ""


def _is_about_content(leaf: Leaf) -> bool:
    """Return whether a leaf gives an amount of something in a vessel."""
    if leaf.word_set & (OTHER_MASS_WORDS | words.CAPACITY | {"dead", "minimum", "rating", "sterile", "per"}):
        return False
    amount = leaf.parse_amount("mass", "count", "amount", "mass_concentration", "molar_concentration", "number_density")
    has_cells = "cell" in words.tokenize(leaf.value_text) and bool(units.parse_number(leaf.value))
    # "map: B1 200 µL, B2 120 µL"
    lists_volumes = isinstance(leaf.value, str) and _is_map(leaf.value_text)
    return has_cells or lists_volumes or (amount is not None and amount.value > 0)


def _is_map(text: str) -> bool:
    """Return whether a text has the volumes of several wells."""
    is_labelled = any(words.is_well(word) for word in words.tokenize(text))
    return is_labelled and any(amount.value > 0 for amount in units.find_amounts(text, "volume"))


def is_capacity(leaf: Leaf) -> bool:
    """Return whether a leaf is the volume that the vessel can hold."""
    key_words = leaf.word_set
    if key_words & {"dead", "minimum", "min", "working", "per"}:
        return False
    # "size: 2 mL" of a plate is ambiguous; it is a capacity only with "max".
    if key_words and key_words <= {"plate", "format", "size"} and units.split_number(leaf.value) is not None:
        return "max" in words.tokenize(leaf.value_text)
    return bool(key_words & (BRIM | {"capacity"})) or bool(key_words & words.CAPACITY and key_words & words.VOLUME)


def list_stated_capacities(leaves: Iterable[Leaf]) -> list[Amount]:
    """Return the capacities that texts state: "brim 3.4 mL"."""
    texts = [leaf.value_text for leaf in leaves if isinstance(leaf.value, str)]
    stated = [units.parse_amount(match, "", ("volume",)) for text in texts for match in _HOLDS.findall(text)]
    return [amount for amount in stated if amount]
