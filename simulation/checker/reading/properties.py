"""A structured view of a material: its properties as leaves, interpreted by the words of their keys and their units."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from simulation.checker import chemistry
from simulation.checker.reading import names, units, vessels, words
from simulation.checker.reading.leaves import Leaf, collect_words, flatten_properties
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.lab.materials import NOT_AVAILABLE

# Words of a key that describe an amount other than the one in the vessel now.
_OTHER_AMOUNT_WORDS = word_set(
    "initial added injected injection transferred moved original before previous starting start input wash elution drop "
    "aspirated discarded removed target per each loss lost titration consumed used loaded load seeding seeded working"
)
# "chip_size_mm" is in millimetres.
_LENGTH_WORDS = word_set("size length diameter diam radius thickness pore path depth height width wavelength grain")
# Words of a key that describe what a material was made of, or a yield.
_HISTORY_WORDS = word_set("made from provenance previous recovery yield carryover loss left purity dilution factor")
_NOT_THIS_VOLUME = word_set(
    "apparent aparente apparente sediment settled poured height dead minimum min well ice frozen thawed # void bed cell pellet plate hold up recommended stroke headspace gas head column consumed titrant range fill "
    "reaction specific partial molar flow cut bead chamber counting counted drawn spotted plated pipette dilution diluent inoculum precipitant"
)
_OTHER_TEMPERATURE_WORDS = word_set("storage melting boiling annealing max min")
# In "final salt concentration" only "salt" names the component. Singular: the tokenizer drops a plural s, also of "mass".
NOT_COMPONENT_WORDS = words.CONCENTRATION | word_set(
    "final stock current the in solution sample of total approximate nominal cell component content composition solute "
    "# propertie molar mas after thaw weighted mean average prep preparation now diluted to dilute adjusted set reading calculated nominal measured viable expected "
    "substance amount each minor major ion dissolved added level strength titer titre viral virus functional physical genomic "
    "comp recipe ingredient repeated estimated initial starting original value analyte active count number particle minicell vg tu cfu result and "
    "neutral ionic specie state wt percent mass"
)
# Words of keys under which contents are listed.
CONTENTS = word_set("content composition comp component ingredient solute recipe solid")
# "0.5 % v/v" and "2 % (w/v)" are concentrations and mix like others.
SHARE = re.compile(r"\b[wvm]\s?/\s?v\b|\bvol[.-]?\s?%", re.IGNORECASE)
_QUANTITY_SYMBOLS = word_set("c q x w rho beta gamma β ρ γ")
# Keys of a text about what is in the vessel now.
_NOW = word_set("now contains contain has holds it solutes state current currently")
_LIQUIDS = word_set("medium media buffer liquid bath overlay")
# "50X TAE" is a strength, "40x objective" is not.
_STRENGTH = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,2})?)\s?[xX×]\s([A-Za-z][A-Za-z0-9 -]{1,40})")
_STRENGTH_ALONE = re.compile(
    r"([0-9]{1,3}(?:\.[0-9]{1,2})?)\s?[xX×](?:\s?(?:stock|concentrate|concentrated|working))?()"
)
_STRENGTH_WORDS = word_set("strength concentration conc concentrate stock")
_NOT_STRENGTH = word_set("objective magnification zoom dilution wash lens optic setting")
_HELD = word_set("amount quantity remaining content liquid fluid left available supply inventory now")
_FILLING = word_set("fill filled filling rxn reaction inside holding contains contain")
_IS_FROZEN = re.compile(
    r"(?<!was )(?<!been )\bfrozen (?:solid|hard|through)\b|\bsolid ice\b|\bstill frozen\b", re.IGNORECASE
)
_ANTIFREEZE = word_set(
    "glycerol ethanol methanol acetone isopropanol acetonitrile enzyme polymerase ligase hexane chloroform glycol"
)


@dataclass(frozen=True)
class MaterialView:
    """One material before or after the step. `path` is its location in the transition, for use in findings."""

    path: str
    raw: Mapping[str, Any]
    name: str
    barcode: str
    availability: str
    condition: str
    leaves: tuple[Leaf, ...]
    volume: Amount | None
    mass: Amount | None
    capacity: Amount | None
    dead_volume: Amount | None
    minimum_volume: Amount | None
    temperature: Amount | None
    container: str
    phase: str
    concentrations: Mapping[str, Amount]
    has_named_concentration: bool = False  # the concentration is only in the name, so other contents may be unmentioned

    @property
    def is_unlimited(self) -> bool:
        return self.availability == "unlimited"

    @property
    def is_used_up(self) -> bool:
        return self.availability == NOT_AVAILABLE

    @cached_property
    def name_words(self) -> tuple[str, ...]:
        return words.tokenize(self.name)

    @property
    def is_empty_vessel(self) -> bool:
        """Return whether the material is a vessel or tool without content."""
        return self.phase in (words.EMPTY, words.CONSUMABLE)

    @property
    def liquid_volume(self) -> Decimal | None:
        """Return the volume in µL. If none is stated: zero for an empty vessel, solid, gel or pellet, else None."""
        if self.volume is not None:
            return self.volume.value
        is_dry = self.is_empty_vessel or self.phase in (words.SOLID, words.GEL, words.PELLET)
        return Decimal(0) if is_dry else None

    @cached_property
    def source_words(self) -> frozenset[str]:
        """Return the words of what the material can contain: those of its list of contents, or all if it has none."""
        listed = [leaf for leaf in self.leaves if leaf.word_set & CONTENTS]
        return collect_words(listed) - CONTENTS if listed else self.all_words

    @cached_property
    def all_words(self) -> frozenset[str]:
        """Return all words of the material's name and of the keys and values of its properties."""
        return collect_words(self.leaves) | set(self.name_words)

    @property
    def is_frozen(self) -> bool | None:
        """Return whether the material is frozen now, or None if storage condition and phase do not determine this."""
        if self.condition not in words.FROZEN_CONDITIONS:
            # Described as frozen but stored warm: it may have thawed.
            return None if self.phase == words.FROZEN else False
        if self.phase == words.FROZEN or any(_IS_FROZEN.search(leaf.value_text) for leaf in self.leaves):
            return True
        # At -20 °C some solutions stay liquid; those with antifreeze or enzymes do so at lower temperatures, too.
        is_unclear = self.phase or self.volume is None or self.condition == "-20C" or self.all_words & _ANTIFREEZE
        return None if is_unclear else True


class _Reading(NamedTuple):
    """What the leaves and the name of a material determine of its view."""

    volume: Amount | None
    mass: Amount | None
    capacity: Amount | None
    dead_volume: Amount | None
    minimum_volume: Amount | None
    temperature: Amount | None
    container: str
    phase: str
    concentrations: Mapping[str, Amount]


def build_material_view(data: Mapping[str, Any], path: str) -> MaterialView:
    """Return the view of one material. Invalid values count as unknown and raise no error."""
    leaves = flatten_properties(data.get("properties"))
    # Shortened, because names and barcodes are copied into findings and foreign ones may have any length.
    name = data["name"][:400] if isinstance(data.get("name"), str) else ""
    return MaterialView(
        path=path,
        raw=data,
        name=name,
        barcode=str(data.get("barcode") or "")[:60],
        availability=words.parse_availability(data.get("available_for_use")),
        condition=words.parse_condition(data.get("environmental_condition")),
        leaves=leaves,
        **_read_leaves(leaves, name)._asdict(),
    )


# By identity of the leaves, which are cached: an output is an input of the next step.
@lru_cache(maxsize=1024)
def _read_leaves(leaves: tuple[Leaf, ...], name: str) -> _Reading:
    def find_amount(has_meaning: Callable[[Leaf], bool], dimension: str = "volume") -> Amount | None:
        return _find_agreed_amount(a for leaf in leaves if has_meaning(leaf) and (a := leaf.parse_amount(dimension)))

    has_volume = any(_is_volume(leaf) and leaf.parse_amount("volume") for leaf in leaves)
    is_well = any(leaf.word_set == {"well"} and words.is_well(leaf.value_text) for leaf in leaves)
    if not has_volume and is_well:
        # For a plate, "well volume" is the volume of each well; for a single well, it is the volume of that well.
        volume = find_amount(lambda leaf: leaf.word_set == {"well", "volume"})
        has_volume = any(leaf.word_set == {"well", "volume"} and leaf.parse_amount("volume") for leaf in leaves)
    else:
        volume = find_amount(_is_volume)
        if not has_volume:
            # "solvent: {name, volume}": the only volume that is not that of a vessel or a portion.
            volume = find_amount(_is_only_volume) or find_amount(_is_filling)
            has_volume = volume is not None
    # "20 µL each" is no volume of the material, but it is not empty.
    phase = vessels.find_phase(leaves, name, has_volume or any(map(_has_each, leaves)))
    # A record may have kept the state of the vessel before it was filled.
    phase = "" if phase == words.EMPTY and volume is not None and volume.value > 0 else phase
    return _Reading(
        volume=volume,
        mass=find_amount(_is_mass, "mass"),
        capacity=find_amount(vessels.is_capacity) or _find_agreed_amount(vessels.list_stated_capacities(leaves)),
        dead_volume=find_amount(lambda leaf: "dead" in leaf.words),
        minimum_volume=find_amount(_is_minimum),
        temperature=find_amount(is_temperature, "temperature"),
        container=vessels.find_container(leaves),
        phase=phase,
        concentrations=_collect_concentrations(leaves),
    )


_CONTENT_TEXT = re.compile(
    r"(?<![\w-])([A-Za-z][\w+-]{2,25})\s(?:at )?([0-9]{1,6}(?:\.[0-9]{1,4})?)\s?(nM|µM|uM|mM|M|ng/mL|µg/mL|ug/mL|mg/mL|mg/L|g/L|ng/µL|ng/uL)(?![\w/])"
)


def is_temperature(leaf: Leaf) -> bool:
    """Return whether a leaf is the current temperature of the material, not a storage or melting temperature."""
    key_words = leaf.word_set
    # "T": 37, in upper case; "t" is a time.
    is_named = bool(key_words & {"temperature", "temp"}) or leaf.key.strip() == "T"
    return is_named and not key_words & _OTHER_TEMPERATURE_WORDS


def find_component(leaf: Leaf) -> str | None:
    """Return the name of the component whose concentration a leaf gives, or None if it gives no concentration.

    The name is "" if the leaf does not name the component.
    """
    key_words = leaf.word_set
    # "KCl added: 20 mM" is what the material has then.
    if key_words & ((_OTHER_AMOUNT_WORDS - {"added"}) | _HISTORY_WORDS | _LENGTH_WORDS | {"stock", "range", "limit"}):
        return None
    is_named = bool(key_words & words.CONCENTRATION)
    amount = leaf.parse_amount(*units.CONCENTRATIONS)
    if amount is None:
        match = _match_strength(leaf)
        if match is None:
            return None
        strong = words.content_words(match[2]) or frozenset(words.tokenize(match[2]))
        return chemistry.name_component(strong) if match[2] else ""
    # A percentage may be purity or confluence; it is a concentration only if the key says so.
    has_share = SHARE.search(leaf.value_text) and not key_words & words.CAPACITY
    if not is_named and (
        (amount.dimension == "ratio" and not has_share) or not key_words or key_words & (words.VOLUME | words.MASS)
    ):
        return None
    # A density in g/mL is a property of the liquid, not a concentration.
    if "density" in key_words and amount.dimension != "number_density":
        return None
    # "c_puro" begins with the symbol of a quantity; in "vitamin c" the letter belongs to the name.
    symbol = {leaf.words[0]} & _QUANTITY_SYMBOLS if leaf.words else set()
    component_words = key_words - NOT_COMPONENT_WORDS - symbol
    # A list of "salts" names each salt; "salt" alone is a component.
    component_words = component_words - {"salt", "solid", "liquid", "medium"} or component_words
    return (
        "cell"
        if amount.dimension == "number_density" and not component_words
        else chemistry.name_component(component_words)
    )


def _match_strength(leaf: Leaf) -> re.Match[str] | None:
    """Return the match of a strength like "50X TAE", that is 50 times the working solution, or None."""
    if leaf.word_set & _NOT_STRENGTH:
        return None
    is_strength = leaf.word_set & _STRENGTH_WORDS and _STRENGTH_ALONE.fullmatch(leaf.value_text.strip())
    return is_strength or _STRENGTH.fullmatch(leaf.value_text.strip())


def _is_volume(leaf: Leaf) -> bool:
    key_words = leaf.word_set
    if key_words & _OTHER_AMOUNT_WORDS or {"per", "each"} & set(words.tokenize(leaf.value_text)):
        return False
    # "V_ML": the value has the dimension of a volume.
    if key_words == {"v"}:
        return True
    if key_words & words.VOLUME:
        return key_words <= words.VOLUME | words.NEUTRAL | {"#"}
    # "medium: 1.5 mL of DMEM" gives the volume of what covers the cells.
    has_text = isinstance(leaf.value, str) and len(leaf.value_text.split()) > 1
    if has_text and key_words & _LIQUIDS and key_words <= _LIQUIDS | words.NEUTRAL | {"well", "dish"}:
        return True
    # "medium: {value, unit}" and "supply left: 180 mL".
    return bool(key_words) and key_words <= _HELD | _LIQUIDS


def _is_filling(leaf: Leaf) -> bool:
    """Return whether the key of a volume means what is in the vessel: "fill", "rxn", or a vessel with its size ("eppi 1.5")."""
    key_words = leaf.word_set
    is_sized_vessel = bool(key_words & vessels.VESSEL_KEYS) and any(character.isdigit() for character in leaf.key)
    return key_words <= _FILLING | words.NEUTRAL or (is_sized_vessel and not key_words & _OTHER_AMOUNT_WORDS)


def _has_each(leaf: Leaf) -> bool:
    return bool(leaf.word_set & words.VOLUME and "each" in words.tokenize(leaf.value_text))


def _is_only_volume(leaf: Leaf) -> bool:
    """Return whether a leaf is named a volume, whatever its other words, unless they name a vessel, a portion or a part."""
    key_words = leaf.word_set
    excluded = _OTHER_AMOUNT_WORDS | _HISTORY_WORDS | words.CAPACITY | CONTENTS | _NOT_THIS_VOLUME
    own = set(leaf.own_words) & words.VOLUME or ({"volume"} <= key_words and len(leaf.words) == 2)
    is_each = {"per", "each"} & set(words.tokenize(leaf.value_text))
    return bool(own) and not key_words & excluded and not is_each


def _is_mass(leaf: Leaf) -> bool:
    key_words = leaf.word_set
    if key_words & (_OTHER_AMOUNT_WORDS | vessels.OTHER_MASS_WORDS):
        return False
    if key_words == {"m"}:
        return True
    if key_words & words.MASS:
        return key_words <= words.MASS | words.NEUTRAL | {"dry", "net", "wet", "powder", "solid"}
    return bool(key_words) and key_words <= {"amount", "quantity", "remaining"}


def _is_minimum(leaf: Leaf) -> bool:
    key_words = leaf.word_set
    return bool(key_words & {"minimum", "min"} and key_words & (words.VOLUME | {"working", "fill"}))


def _collect_concentrations(leaves: tuple[Leaf, ...]) -> dict[str, Amount]:
    """Return {component: concentration}. A component with contradicting values is left out."""
    amounts_by_component: dict[str, list[Amount]] = {}
    for leaf in leaves:
        if (name := find_component(leaf)) is None:
            continue
        amount = leaf.parse_amount(*units.CONCENTRATIONS)
        if amount is None and (match := _match_strength(leaf)) and (number := Decimal(match[1])):
            # "fold" is not a dimension of the laboratory; such amounts are only compared with each other.
            amount = Amount(number, "fold", number / 100, leaf.value_text)
        if amount is not None:
            amounts_by_component.setdefault(name, []).append(amount)
    for leaf in leaves:
        # "contents: caffeine 500 µg/mL in water" names its component in the text.
        is_listed = leaf.word_set & CONTENTS or (leaf.words and leaf.word_set <= _NOW)
        if isinstance(leaf.value, str) and is_listed and find_component(leaf) is None:
            for named_words, amount in names.read_name(leaf.value_text).concentrations.items():
                if amount.dimension != "number_density":
                    amounts_by_component.setdefault(chemistry.name_component(named_words), []).append(amount)
            for named, number, unit in _CONTENT_TEXT.findall(leaf.value_text):
                amount = units.parse_amount(f"{number} {unit}", "", units.CONCENTRATIONS)
                component = chemistry.name_component(set(words.tokenize(named)) - NOT_COMPONENT_WORDS)
                if amount is not None and component:
                    amounts_by_component.setdefault(component, []).append(amount)
    return {name: agreed for name, amounts in amounts_by_component.items() if (agreed := _find_agreed_amount(amounts))}


def _find_agreed_amount(amounts: Iterable[Amount]) -> Amount | None:
    """Return the first amount if all others agree with it within 1 %, otherwise None."""
    first: Amount | None = None
    for amount in amounts:
        first = first or amount
        # "20 g/L = 111 mM" gives one concentration in two units, which `relations` compares.
        if amount.dimension != first.dimension:
            continue
        if abs(amount.value - first.value) > abs(first.value) / 100:
            return None
    return first
