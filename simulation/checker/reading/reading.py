"""A material of any simulator as a structured view: what its properties mean, by word and by unit. Unknown stays None."""

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
    """One material, before or after the step. `place` says where it stands in the transition."""

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
        """A vessel or tool without anything in it."""
        return self.phase in (terms.EMPTY, terms.CONSUMABLE)

    @property
    def held(self) -> Decimal | None:
        """Liquid in it in µL: zero in an empty vessel or a dry solid, None if unknown."""
        if self.volume is not None:
            return self.volume.value
        return Decimal(0) if self.supply or self.phase in (terms.SOLID, terms.GEL, terms.PELLET) else None

    @cached_property
    def mentions(self) -> frozenset[str]:
        """Every word in its name and properties, keys and values."""
        found = set(words.cut(self.name))
        for leaf in self.leaves:
            found.update(leaf.words, words.cut(leaf.text))
        return frozenset(found)

    @property
    def frozen(self) -> bool | None:
        """Whether it is frozen now; None where surroundings and phase leave it open."""
        cold = self.condition in terms.FROZEN_CONDITIONS
        if self.phase == terms.FROZEN:
            return True if cold else None
        if self.phase or self.supply:
            return None if cold else False
        if not cold or self.volume is None:
            return None if cold else False
        return None if self.condition == "-20C" or self.mentions & _ANTIFREEZE else True


_ANTIFREEZE = listed(
    "glycerol ethanol methanol acetone isopropanol acetonitrile enzyme polymerase ligase hexane chloroform glycol"
)


def view(data: Mapping[str, Any], place: str) -> View:
    """Read one material; nothing in it can make this fail."""
    found = leaves.flatten(data.get("properties"))
    name = data.get("name") if isinstance(data.get("name"), str) else ""
    volumes = [a for leaf in found if meaning.is_volume(leaf) and (a := leaf.amount("volume"))]
    if not volumes and meaning.is_one_well(found):
        volumes = [a for leaf in found if set(leaf.words) == {"well", "volume"} and (a := leaf.amount("volume"))]
    return View(
        place=place,
        raw=data,
        name=str(name)[:400],
        barcode=str(data.get("barcode") or "")[:60],
        availability=terms.availability(data.get("available_for_use")),
        condition=terms.condition(data.get("environmental_condition")),
        leaves=found,
        volume=meaning.one(volumes),
        mass=meaning.one(a for leaf in found if meaning.is_mass(leaf) and (a := leaf.amount("mass"))),
        capacity=meaning.one(a for leaf in found if meaning.is_capacity(leaf) and (a := leaf.amount("volume"))),
        dead=meaning.one(a for leaf in found if words.DEAD & set(leaf.words) and (a := leaf.amount("volume"))),
        minimum=meaning.one(a for leaf in found if meaning.is_minimum(leaf) and (a := leaf.amount("volume"))),
        temperature=meaning.one(
            a for leaf in found if meaning.is_temperature(leaf) and (a := leaf.amount("temperature"))
        ),
        container=meaning.container(found),
        phase=meaning.phase(found, str(name), bool(volumes)),
        concentrations=meaning.concentrations(found),
    )
