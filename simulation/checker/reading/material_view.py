"""A structured view of a material from any simulator, with its properties parsed. Unknown values are None."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from simulation.checker.reading import property_meaning, property_tree, vocabulary, words
from simulation.checker.reading.property_tree import Leaf
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.lab.materials import NOT_AVAILABLE


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
        return self.phase in (vocabulary.EMPTY, vocabulary.CONSUMABLE)

    @property
    def liquid_volume(self) -> Decimal | None:
        """Return the volume in µL. If none is stated: zero for an empty vessel, solid, gel or pellet, else None."""
        if self.volume is not None:
            return self.volume.value
        return (
            Decimal(0)
            if self.is_empty_vessel or self.phase in (vocabulary.SOLID, vocabulary.GEL, vocabulary.PELLET)
            else None
        )

    @cached_property
    def all_words(self) -> frozenset[str]:
        """Return all words of the material's name and of the keys and values of its properties."""
        all_words = set(words.tokenize(self.name))
        for leaf in self.leaves:
            all_words.update(leaf.words, words.tokenize(leaf.value_text))
        return frozenset(all_words)

    @property
    def is_frozen(self) -> bool | None:
        """Return whether the material is frozen now, or None if storage condition and phase do not determine this."""
        is_cold = self.condition in vocabulary.FROZEN_CONDITIONS
        if self.phase == vocabulary.FROZEN:
            # Described as frozen but stored warm: it may have thawed.
            return True if is_cold else None
        if self.phase or self.is_empty_vessel:
            return None if is_cold else False
        if not is_cold or self.volume is None:
            return None if is_cold else False
        # At -20 °C some solutions stay liquid; those with antifreeze or enzymes do so at lower temperatures, too.
        return None if self.condition == "-20C" or self.all_words & _ANTIFREEZE else True


_ANTIFREEZE = word_set(
    "glycerol ethanol methanol acetone isopropanol acetonitrile enzyme polymerase ligase hexane chloroform glycol"
)


def build_material_view(data: Mapping[str, Any], path: str) -> MaterialView:
    """Return the view of one material. Invalid values count as unknown and raise no error."""
    found = property_tree.flatten_properties(data.get("properties"))
    name = data.get("name") if isinstance(data.get("name"), str) else ""
    volume_amounts = [a for leaf in found if property_meaning.is_volume(leaf) and (a := leaf.parse_amount("volume"))]
    # For a plate, "well volume" is the volume of each well; for a single well, it is the volume of that well.
    if not volume_amounts and property_meaning.is_one_well(found):
        volume_amounts = [
            a for leaf in found if set(leaf.words) == {"well", "volume"} and (a := leaf.parse_amount("volume"))
        ]
    return MaterialView(
        path=path,
        raw=data,
        # Shortened, because names and barcodes are copied into findings and foreign ones may have any length.
        name=str(name)[:400],
        barcode=str(data.get("barcode") or "")[:60],
        availability=vocabulary.parse_availability(data.get("available_for_use")),
        condition=vocabulary.parse_condition(data.get("environmental_condition")),
        leaves=found,
        volume=property_meaning.find_agreed_amount(volume_amounts),
        mass=property_meaning.find_agreed_amount(
            a for leaf in found if property_meaning.is_mass(leaf) and (a := leaf.parse_amount("mass"))
        ),
        capacity=property_meaning.find_agreed_amount(
            a for leaf in found if property_meaning.is_capacity(leaf) and (a := leaf.parse_amount("volume"))
        ),
        dead_volume=property_meaning.find_agreed_amount(
            a for leaf in found if words.DEAD & set(leaf.words) and (a := leaf.parse_amount("volume"))
        ),
        minimum_volume=property_meaning.find_agreed_amount(
            a for leaf in found if property_meaning.is_minimum(leaf) and (a := leaf.parse_amount("volume"))
        ),
        temperature=property_meaning.find_agreed_amount(
            a for leaf in found if property_meaning.is_temperature(leaf) and (a := leaf.parse_amount("temperature"))
        ),
        container=property_meaning.find_container(found),
        phase=property_meaning.find_phase(found, str(name), bool(volume_amounts)),
        concentrations=property_meaning.collect_concentrations(found),
    )
