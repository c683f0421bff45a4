"""What a property means, by the words of its key and the unit of its value."""

import re
from collections.abc import Iterable
from decimal import Decimal

from simulation.checker.reading import terms, units, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed

# Words of a key that make it speak of something else than what is in the vessel now.
_NOT_NOW = listed(
    "initial added injected injection transferred moved original before previous starting start input wash elution drop "
    "aspirated discarded removed target per each loss lost titration consumed used loaded load seeding seeded working"
)


_NOT_MASS = listed("molecular molar tare container gross empty formula exact mw tube vial flask bottle filter")


_NO_COMPONENT = listed(
    "final stock current the in solution sample of total approximate nominal cell component content composition solute"
)


_EMPTY_NAMES = listed(
    "tube vial plate flask bottle dish container box beaker cuvette well rack tip slide cartridge strip"
)


_PLAIN_VESSEL = listed("ml µl ul l sterile new clean of amber glas plastic polypropylene pcr hplc autosampler cap with microcentrifuge centrifuge "
                       "volumetric class eppendorf falcon conical cryogenic a b c d low bind clear culture multi deep")  # fmt: skip


_SOLID_NAMES = listed("powder crystal tablet lyophilized lyophilised granule")


_VESSELS = listed("tube vial flask bottle beaker cuvette cryovial dish jar bag plate")


_HOUSES = ({"container"}, {"vessel"})


_STRENGTH = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?)\s?[xX×]\s([A-Za-z][A-Za-z0-9 -]{1,40})")


_NOT_STRENGTH = listed("objective magnification zoom dilution wash lens optic setting")


_BARE_SIZE = listed("plate format size")


_CELL_KEYS = ({"cell"}, {"cell", "line"}, {"culture"})


def is_temperature(leaf: Leaf) -> bool:
    """The temperature it has, not one it was stored or melts at."""
    said = set(leaf.words)
    return bool(said & {"temperature", "temp"}) and not said & {
        "storage",
        "melting",
        "boiling",
        "annealing",
        "max",
        "min",
    }


def component(leaf: Leaf) -> str | None:
    """The component whose concentration a leaf gives, "" for the one that is not named; None if it gives none."""
    said = leaf.words
    if set(said) & _NOT_NOW or "stock" in said or "range" in said or "limit" in said:
        return None
    named = bool(set(said) & words.CONCENTRATION)
    found = leaf.amount(*units.CONCENTRATIONS)
    if found is None:
        return fold_of(leaf)
    if found.dimension == "ratio" and not named:
        return None
    if not named and not (len(said) >= 1 and set(said).isdisjoint(words.VOLUME | words.MASS)):
        return None
    if "density" in said and found.dimension not in ("number_density",):
        return None
    rest = [w for w in said if w not in words.CONCENTRATION and w not in _NO_COMPONENT and w not in words.CONCENTRATION]
    rest = [w for w in rest if w not in ("concentration", "#", "propertie", "component", "molar", "mas")]
    if found.dimension == "number_density" and not rest:
        return "cell"
    return " ".join(sorted(set(rest)))


def fold_of(leaf: Leaf) -> str | None:
    """What a strength like "50X TAE" is of; None if the leaf gives none."""
    strength = _STRENGTH.fullmatch(leaf.text.strip())
    if strength is None or set(leaf.words) & _NOT_STRENGTH:
        return None
    return " ".join(sorted(set(words.cut(strength[2])))) or None


def strength(leaf: Leaf) -> Amount | None:
    """50 of "50X TAE": how many times stronger than it is used."""
    said = _STRENGTH.fullmatch(leaf.text.strip())
    number = Decimal(said[1]) if said else None
    return Amount(number, "fold", number / 100, leaf.text) if number else None


def is_volume(leaf: Leaf) -> bool:
    said = set(leaf.words)
    if said & _NOT_NOW or "per" in words.cut(leaf.text):
        return False
    if said & words.VOLUME:
        return said <= words.VOLUME | words.NEUTRAL | {"#"}
    return bool(said) and said <= {"amount", "quantity", "remaining", "content", "liquid", "fluid"}


def is_one_well(found: Iterable[Leaf]) -> bool:
    """It says which well it is, so the volume of the well is its own."""
    return any(set(leaf.words) == {"well"} and words.is_well(leaf.text) for leaf in found)


def is_mass(leaf: Leaf) -> bool:
    said = set(leaf.words)
    if said & _NOT_NOW or said & _NOT_MASS:
        return False
    if said & words.MASS:
        return said <= words.MASS | words.NEUTRAL | {"dry", "net", "wet", "powder", "solid"}
    return bool(said) and said <= {"amount", "quantity", "remaining"}


def is_capacity(leaf: Leaf) -> bool:
    said = set(leaf.words)
    if said & (words.DEAD | words.MINIMUM) or "working" in said or said & {"per"}:
        return False
    if said and said <= _BARE_SIZE and units.number_and_rest(leaf.value) is not None:
        return "max" in words.cut(leaf.text)
    return "capacity" in said or bool(said & words.CAPACITY and said & words.VOLUME)


def is_minimum(leaf: Leaf) -> bool:
    said = set(leaf.words)
    return bool(said & words.MINIMUM) and bool(said & (words.VOLUME | {"working", "fill"}))


def container(found: Iterable[Leaf]) -> str:
    """Its vessel: what a key like container says, else a key that is a vessel and its size, "flask": "100 mL"."""
    keys = {"container", "vessel", "labware", "format", "plate"}
    found = list(found)
    return next((leaf.text for leaf in found if (set(leaf.last) & keys and leaf.text and not leaf.amount("volume"))
                 or set(leaf.words) == {"container", "type"}), "") or next(
        (leaf.text for leaf in found if set(leaf.words) in _HOUSES), "") or next(
        (f"{leaf.text} {leaf.key}" for leaf in found if len(leaf.words) == 1 and leaf.words[0] in _VESSELS and leaf.text),
        "")  # fmt: skip


def phase(found: Iterable[Leaf], name: str, wet: bool) -> str:
    for leaf in found:
        said = set(leaf.last)
        if said & {"phase", "state", "form"} and (known := terms.phase(words.cut(leaf.text))):
            return known
        if said & {"growth", "attachment", "adherence"} and "adherent" in words.cut(leaf.text):
            return terms.ADHERENT
        if set(leaf.words) in _CELL_KEYS and "adherent" in words.cut(leaf.text):
            return terms.ADHERENT
        if said == {"pellet"} and leaf.text and not wet:
            return terms.PELLET
        if said == {"content"} and words.cut(leaf.text) in (("empty",), ("none",), ("nothing",)):
            return terms.EMPTY
        if said == {"empty"} and leaf.value is True:
            return terms.EMPTY
    if wet:
        return ""
    said_name = set(words.cut(name))
    plain = {word for word in said_name if word not in _PLAIN_VESSEL and not words.is_label(word)}
    if "empty" in said_name or (said_name & _EMPTY_NAMES and not plain - _EMPTY_NAMES):
        return terms.EMPTY
    return terms.SOLID if said_name & _SOLID_NAMES else ""


def concentrations(found: Iterable[Leaf]) -> dict[str, Amount]:
    """By component; one that is written twice and differently is left out."""
    read: dict[str, list[Amount]] = {}
    for leaf in found:
        name = component(leaf)
        if name is not None and (amount := leaf.amount(*units.CONCENTRATIONS) or strength(leaf)):
            read.setdefault(name, []).append(amount)
    return {name: same for name, amounts in read.items() if (same := one(amounts))}


def one(amounts: Iterable[Amount]) -> Amount | None:
    """The one amount all of these write; None if there is none or they differ."""
    found = list(amounts)
    if not found or any(abs(other.value - found[0].value) > abs(found[0].value) / 100 for other in found):
        return None
    return found[0]
