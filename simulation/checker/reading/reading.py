"""A material of any simulator as a structured view: its properties by word and unit. What is unknown is None."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from simulation.checker.reading import leaves, meaning, terms, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed
from simulation.lab.materials import NOT_AVAILABLE


@dataclass(frozen=True)
class View:
    """One material before or after the step. `place` is its path in the transition, for findings."""

    place: str
    raw: Mapping[str, Any]
    name: str
    barcode: str
    availability: str
    condition: str
    leaves: tuple[Leaf, ...]
    volume: Amount | None
    mass: Amount | None
    capacity: Amount | None
    dead: Amount | None
    minimum: Amount | None
    temperature: Amount | None
    container: str
    phase: str
    concentrations: Mapping[str, Amount]

    @property
    def unlimited(self) -> bool:
        return self.availability == "unlimited"

    @property
    def gone(self) -> bool:
        return self.availability == NOT_AVAILABLE

    @cached_property
    def words(self) -> tuple[str, ...]:
        return words.cut(self.name)

    @property
    def supply(self) -> bool:
        """Whether it is a vessel or tool without content."""
        return self.phase in (terms.EMPTY, terms.CONSUMABLE)

    @property
    def held(self) -> Decimal | None:
        """Liquid in it in µL: zero in an empty vessel or a dry solid, None if unknown."""
        if self.volume is not None:
            return self.volume.value
        return Decimal(0) if self.supply or self.phase in (terms.SOLID, terms.GEL, terms.PELLET) else None

    @cached_property
    def mentions(self) -> frozenset[str]:
        """All words of its name and properties, keys and values."""
        all_words = set(words.cut(self.name))
        for leaf in self.leaves:
            all_words.update(leaf.words, words.cut(leaf.text))
        return frozenset(all_words)

    @property
    def frozen(self) -> bool | None:
        """Whether it is frozen now; None if storage condition and phase leave it open."""
        is_cold = self.condition in terms.FROZEN_CONDITIONS
        if self.phase == terms.FROZEN:
            # Written as frozen but stored warm: it may have thawed.
            return True if is_cold else None
        if self.phase or self.supply:
            return None if is_cold else False
        if not is_cold or self.volume is None:
            return None if is_cold else False
        # At -20 °C some solutions stay liquid; those with antifreeze or enzymes do so at lower temperatures, too.
        return None if self.condition == "-20C" or self.mentions & _ANTIFREEZE else True


_ANTIFREEZE = listed(
    "glycerol ethanol methanol acetone isopropanol acetonitrile enzyme polymerase ligase hexane chloroform glycol"
)


def view(data: Mapping[str, Any], place: str) -> View:
    """Return the view of one material. Does not raise, whatever the data holds."""
    found = leaves.flatten(data.get("properties"))
    name = data.get("name") if isinstance(data.get("name"), str) else ""
    volume_amounts = [a for leaf in found if meaning.is_volume(leaf) and (a := leaf.amount("volume"))]
    # Of a plate, "well volume" is the volume of every well; of one well it is its own.
    if not volume_amounts and meaning.is_one_well(found):
        volume_amounts = [a for leaf in found if set(leaf.words) == {"well", "volume"} and (a := leaf.amount("volume"))]
    return View(
        place=place,
        raw=data,
        # Cut: names and barcodes are copied into findings, and foreign ones may have any length.
        name=str(name)[:400],
        barcode=str(data.get("barcode") or "")[:60],
        availability=terms.availability(data.get("available_for_use")),
        condition=terms.condition(data.get("environmental_condition")),
        leaves=found,
        volume=meaning.one(volume_amounts),
        mass=meaning.one(a for leaf in found if meaning.is_mass(leaf) and (a := leaf.amount("mass"))),
        capacity=meaning.one(a for leaf in found if meaning.is_capacity(leaf) and (a := leaf.amount("volume"))),
        dead=meaning.one(a for leaf in found if words.DEAD & set(leaf.words) and (a := leaf.amount("volume"))),
        minimum=meaning.one(a for leaf in found if meaning.is_minimum(leaf) and (a := leaf.amount("volume"))),
        temperature=meaning.one(
            a for leaf in found if meaning.is_temperature(leaf) and (a := leaf.amount("temperature"))
        ),
        container=meaning.container(found),
        phase=meaning.phase(found, str(name), bool(volume_amounts)),
        concentrations=meaning.concentrations(found),
    )
