"""Interpret a property by the words of its key and the unit of its value."""

import re
from collections.abc import Iterable
from decimal import Decimal

from simulation.checker.reading import units, vocabulary, words
from simulation.checker.reading.property_tree import Leaf
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

# Words of a key that describe an amount other than the one in the vessel now.
_OTHER_AMOUNT_WORDS = word_set(
    "initial added injected injection transferred moved original before previous starting start input wash elution drop "
    "aspirated discarded removed target per each loss lost titration consumed used loaded load seeding seeded working"
)
# Words for a molecular mass or the mass of a vessel.
_OTHER_MASS_WORDS = word_set(
    "molecular molar tare container gross empty formula exact mw tube vial flask bottle filter"
)
# In "final salt concentration" only "salt" names the component.
_NOT_COMPONENT_WORDS = word_set(
    "final stock current the in solution sample of total approximate nominal cell component content composition solute"
)
# A material whose name has only these words and the attributes below is an empty vessel: "sterile 2 mL tube".
_VESSEL_NAMES = word_set(
    "tube vial plate flask bottle dish container box beaker cuvette well rack tip slide cartridge strip"
)
_VESSEL_ATTRIBUTES = word_set("ml µl ul l sterile new clean of amber glas plastic polypropylene pcr hplc autosampler cap with microcentrifuge centrifuge "
                       "volumetric class eppendorf falcon conical cryogenic a b c d low bind clear culture multi deep")  # fmt: skip
_SOLID_NAMES = word_set("powder crystal tablet lyophilized lyophilised granule")
_VESSEL_KEYS = word_set("tube vial flask bottle beaker cuvette cryovial dish jar bag plate")
_CONTAINER_KEYS = ({"container"}, {"vessel"})
# "50X TAE" is a strength, "40x objective" is not.
_STRENGTH = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?)\s?[xX×]\s([A-Za-z][A-Za-z0-9 -]{1,40})")
_NOT_STRENGTH = word_set("objective magnification zoom dilution wash lens optic setting")
# "size: 2 mL" of a plate is ambiguous; it is a capacity only with "max".
_BARE_SIZE = word_set("plate format size")
# Keys under which simulators write "adherent".
_CELL_KEYS = ({"cell"}, {"cell", "line"}, {"culture"})


def is_temperature(leaf: Leaf) -> bool:
    """Return whether a leaf is the current temperature of the material, not a storage or melting temperature."""
    key_words = set(leaf.words)
    return bool(key_words & {"temperature", "temp"}) and not key_words & {
        "storage",
        "melting",
        "boiling",
        "annealing",
        "max",
        "min",
    }


def find_component(leaf: Leaf) -> str | None:
    """Return the name of the component whose concentration a leaf gives, or None if it gives no concentration.

    The name is "" if the leaf does not name the component.
    """
    key_words = leaf.words
    if set(key_words) & _OTHER_AMOUNT_WORDS or "stock" in key_words or "range" in key_words or "limit" in key_words:
        return None
    is_named = bool(set(key_words) & words.CONCENTRATION)
    amount = leaf.parse_amount(*units.CONCENTRATIONS)
    if amount is None:
        return find_strength_component(leaf)
    # A percentage may be purity or confluence; it is a concentration only if the key says so.
    if amount.dimension == "ratio" and not is_named:
        return None
    if not is_named and not (len(key_words) >= 1 and set(key_words).isdisjoint(words.VOLUME | words.MASS)):
        return None
    # A density in g/mL is a property of the liquid, not a concentration.
    if "density" in key_words and amount.dimension not in ("number_density",):
        return None
    component_words = [
        w
        for w in key_words
        if w not in words.CONCENTRATION and w not in _NOT_COMPONENT_WORDS and w not in words.CONCENTRATION
    ]
    # Singular forms: the tokenizer drops a plural s, also of "properties".
    component_words = [
        w for w in component_words if w not in ("concentration", "#", "propertie", "component", "molar", "mas")
    ]
    if amount.dimension == "number_density" and not component_words:
        return "cell"
    return " ".join(sorted(set(component_words)))


def find_strength_component(leaf: Leaf) -> str | None:
    """Return the component in a strength like "50X TAE", or None if the leaf has no such value."""
    match = _STRENGTH.fullmatch(leaf.value_text.strip())
    if match is None or set(leaf.words) & _NOT_STRENGTH:
        return None
    return " ".join(sorted(set(words.tokenize(match[2])))) or None


def parse_strength(leaf: Leaf) -> Amount | None:
    """Return the factor in a strength like "50X TAE", that is 50 times the working solution, or None."""
    match = _STRENGTH.fullmatch(leaf.value_text.strip())
    number = Decimal(match[1]) if match else None
    # "fold" is not a dimension of the laboratory; such amounts are only compared with each other.
    return Amount(number, "fold", number / 100, leaf.value_text) if number else None


def is_volume(leaf: Leaf) -> bool:
    key_words = set(leaf.words)
    if key_words & _OTHER_AMOUNT_WORDS or "per" in words.tokenize(leaf.value_text):
        return False
    if key_words & words.VOLUME:
        return key_words <= words.VOLUME | words.NEUTRAL | {"#"}
    return bool(key_words) and key_words <= {"amount", "quantity", "remaining", "content", "liquid", "fluid"}


def is_one_well(leaves: Iterable[Leaf]) -> bool:
    """Return whether the properties are those of a single well, whose well volume is its own volume."""
    return any(set(leaf.words) == {"well"} and words.is_well(leaf.value_text) for leaf in leaves)


def is_mass(leaf: Leaf) -> bool:
    key_words = set(leaf.words)
    if key_words & _OTHER_AMOUNT_WORDS or key_words & _OTHER_MASS_WORDS:
        return False
    if key_words & words.MASS:
        return key_words <= words.MASS | words.NEUTRAL | {"dry", "net", "wet", "powder", "solid"}
    return bool(key_words) and key_words <= {"amount", "quantity", "remaining"}


def is_capacity(leaf: Leaf) -> bool:
    key_words = set(leaf.words)
    if key_words & (words.DEAD | words.MINIMUM) or "working" in key_words or key_words & {"per"}:
        return False
    if key_words and key_words <= _BARE_SIZE and units.split_number(leaf.value) is not None:
        return "max" in words.tokenize(leaf.value_text)
    return "capacity" in key_words or bool(key_words & words.CAPACITY and key_words & words.VOLUME)


def is_minimum(leaf: Leaf) -> bool:
    key_words = set(leaf.words)
    return bool(key_words & words.MINIMUM) and bool(key_words & (words.VOLUME | {"working", "fill"}))


def find_container(leaves: Iterable[Leaf]) -> str:
    """Return the description of the vessel of a material, or "" if there is none.

    It is the value of a key like container, or else a vessel's key with its size, as in "flask": "100 mL".
    """
    container_keys = {"container", "vessel", "labware", "format", "plate"}
    leaves = list(leaves)
    return next((leaf.value_text for leaf in leaves if (set(leaf.own_words) & container_keys and leaf.value_text and not leaf.parse_amount("volume"))
                 or set(leaf.words) == {"container", "type"}), "") or next(
        (leaf.value_text for leaf in leaves if set(leaf.words) in _CONTAINER_KEYS), "") or next(
        (f"{leaf.value_text} {leaf.key}" for leaf in leaves if len(leaf.words) == 1 and leaf.words[0] in _VESSEL_KEYS and leaf.value_text),
        "")  # fmt: skip


def find_phase(leaves: Iterable[Leaf], name: str, wet: bool) -> str:
    for leaf in leaves:
        own_words = set(leaf.own_words)
        if own_words & {"phase", "state", "form"} and (
            phase_found := vocabulary.parse_phase(words.tokenize(leaf.value_text))
        ):
            return phase_found
        if own_words & {"growth", "attachment", "adherence"} and "adherent" in words.tokenize(leaf.value_text):
            return vocabulary.ADHERENT
        if set(leaf.words) in _CELL_KEYS and "adherent" in words.tokenize(leaf.value_text):
            return vocabulary.ADHERENT
        if own_words == {"pellet"} and leaf.value_text and not wet:
            return vocabulary.PELLET
        if own_words == {"content"} and words.tokenize(leaf.value_text) in (("empty",), ("none",), ("nothing",)):
            return vocabulary.EMPTY
        if own_words == {"empty"} and leaf.value is True:
            return vocabulary.EMPTY
    # A material with a volume is no empty vessel and no powder, whatever its name.
    if wet:
        return ""
    name_words = set(words.tokenize(name))
    other_words = {word for word in name_words if word not in _VESSEL_ATTRIBUTES and not words.is_label(word)}
    if "empty" in name_words or (name_words & _VESSEL_NAMES and not other_words - _VESSEL_NAMES):
        return vocabulary.EMPTY
    return vocabulary.SOLID if name_words & _SOLID_NAMES else ""


def collect_concentrations(leaves: Iterable[Leaf]) -> dict[str, Amount]:
    """Return {component: concentration}. A component with contradicting values is left out."""
    amounts_by_component: dict[str, list[Amount]] = {}
    for leaf in leaves:
        name = find_component(leaf)
        if name is not None and (amount := leaf.parse_amount(*units.CONCENTRATIONS) or parse_strength(leaf)):
            amounts_by_component.setdefault(name, []).append(amount)
    return {name: agreed for name, amounts in amounts_by_component.items() if (agreed := find_agreed_amount(amounts))}


def find_agreed_amount(amounts: Iterable[Amount]) -> Amount | None:
    """Return the first amount if all others agree with it within 1 %, otherwise None."""
    all_amounts = list(amounts)
    if not all_amounts or any(
        abs(other.value - all_amounts[0].value) > abs(all_amounts[0].value) / 100 for other in all_amounts
    ):
        return None
    return all_amounts[0]
