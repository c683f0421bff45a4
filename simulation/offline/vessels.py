"""Working copies of materials. Handlers draw from them and pour into them, and each is returned as a new material."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.lab.materials import AVAILABLE, NOT_AVAILABLE, UNLIMITED, Material, NewMaterial
from simulation.offline import damage
from simulation.offline.ledger import (
    ATTACHED,
    CELLS,
    ONE,
    PARTICLES,
    ZERO,
    Contents,
    Sources,
    drop_component_properties,
    load_contents,
)
from simulation.offline.phases import INCUBATORS, TEMPERATURES, THAWING_TIMES
from simulation.offline.phases import PHASES as PHASES
from simulation.offline.phases import Phase as Phase
from simulation.offline.volumetric import DeliveryErrors

SMALLEST_DRAW = Decimal("0.5")  # µL, the least that a pipette delivers

# Properties of a vessel and its contents after drying. They end when something is put in.
_DRY_STATES = ("condition", "dried", "moisture")
# Properties of the container. They do not move with the contents.
_CONTAINER_PROPERTIES = ("container", "container_capacity", "dead_volume", "insert")
# Properties of a liquid that no longer apply once something is added to it.
LIQUID_PROPERTIES = (
    "appearance", "pH", "purity", "density", "osmolality", "conductivity", "viscosity", "refractive index",
    "surface tension", "freezing point", "viability", "dissolved gas", "filtered through", "sterility",
)  # fmt: skip
# Properties that describe where a material is. They are removed when it moves.
_SURROUNDINGS = ("temperature", "carbon dioxide", "humidity")


class RefusalError(Exception):
    """Raised if the action cannot be done. The message becomes the reason for the rejection."""


@dataclass
class Vessel:
    """One material while a handler works on it.

    `sources` records how much of each material was poured in, by barcode: in µL, for a solid in µg, None if unknown.
    `tare` is the mass of the empty container in µg. `wells` lists the wells of a plate that has not been separated. `elapsed`
    has seconds that add up over steps: of light, and of conditions under which something is made after a lag.
    """

    name: str
    properties: dict[str, Any]
    contents: Contents
    phase: str
    condition: str = "room_temp"
    material_type: str = "static"
    barcode: str = ""
    key: str = ""
    unlimited: bool = False
    used_up: bool = False
    sources: Sources = field(default_factory=Sources)
    tare: Decimal | None = None
    wells: Sequence[Mapping[str, Any]] = ()
    elapsed: dict[str, Decimal] = field(default_factory=dict)
    drawn: list[Decimal] = field(default_factory=list)  # volumes drawn in this step, in µL, as set on the pipette
    weighed: list[Decimal] = field(default_factory=list)  # masses weighed out of it in this step, in µg
    errors: DeliveryErrors | None = None  # of the volumes drawn; without them, what is set is delivered

    @classmethod
    def from_material(cls, material: Material, now: int) -> "Vessel":
        """Return a working copy of a material as it is now: thawed if it was frozen and has been warm for long enough."""
        contents, ledger = load_contents(material), material.ledger
        vessel = cls(
            name=material.name,
            properties=drop_component_properties(material.properties, contents),
            contents=contents,
            phase=str(material.properties.get("phase", "")),
            condition=material.environmental_condition,
            material_type=material.material_type,
            barcode=material.barcode,
            key=str(ledger.get("key", "")),
            unlimited=material.available_for_use == UNLIMITED,
            tare=Decimal(ledger["tare"]) if ledger.get("tare") else None,
            wells=ledger.get("wells", ()),
            elapsed={name: Decimal(seconds) for name, seconds in ledger.get("elapsed", {}).items()},
        )
        # Time that passed in earlier steps counts as well, although no action was done to this material.
        vessel.thaw_if_warm(vessel.get_temperature(), Decimal(now - material.last_modified))
        return vessel

    @classmethod
    def from_supply(cls, supply: "Vessel", name: str) -> "Vessel":
        """Return a new empty container taken from a supply."""
        properties = {key: supply.properties[key] for key in _CONTAINER_PROPERTIES if key in supply.properties}
        return cls(name[:120], properties, Contents(), Phase.EMPTY, tare=supply.tare, errors=supply.errors)

    @property
    def is_supply(self) -> bool:
        """Whether this is an unlimited supply of containers or consumables, which is not itself measured or changed."""
        return self.unlimited and self.phase in (Phase.EMPTY, Phase.CONSUMABLE)

    @property
    def container(self) -> str:
        """The description of the container, or "" if it is unknown."""
        return str(self.properties.get("container", ""))

    @property
    def settled_components(self) -> tuple[str, ...]:
        """The components that stay when liquid is removed: in a pellet, attached to a dish or bound to the vessel."""
        loose = {Phase.SEDIMENTED: (CELLS, PARTICLES), Phase.PELLET: (CELLS, PARTICLES), Phase.ADHERENT: (CELLS,)}
        return self.contents.list_components_of_kind(ATTACHED, *loose.get(self.phase, ()))

    def build_new_material(self) -> NewMaterial:
        attached = self.contents.list_components_of_kind(ATTACHED)
        # Only now: while the step goes on, what was drawn still has the phase of its source.
        if self.contents.volume == 0 and self.phase in (Phase.LIQUID, Phase.SUSPENSION):
            self.phase = self.phase if set(self.contents.components) - set(attached) else Phase.EMPTY
        ledger = self.contents.to_ledger(self.key)
        if self.tare is not None:
            ledger["tare"] = format(self.tare, "f")
        if self.wells:
            ledger["wells"] = list(self.wells)
        if self.elapsed:
            ledger["elapsed"] = {name: format(seconds.normalize(), "f") for name, seconds in self.elapsed.items()}
        return NewMaterial(
            name=self.name,
            properties=self._build_visible_properties(),
            available_for_use=NOT_AVAILABLE if self.used_up else AVAILABLE,
            material_type=self.material_type,
            environmental_condition=self.condition,
            replaces=self.barcode,
            derived_from=tuple(self.sources),
            taken=self.sources.format_amounts(),
            ledger=ledger,
        )

    def compute_net_mass(self) -> Decimal | None:
        """Return the mass of the contents in µg, or None if unknown.

        It is the bulk mass if there is one, else the sum of dry components, else volume times a known density.
        """
        contents = self.contents.as_delivered()
        volume, mass = contents.volume, contents.mass
        if mass is not None:
            return mass
        if not volume:
            is_dry = volume is not None and (self.phase == Phase.EMPTY or contents.components)
            return contents.compute_dry_mass() if is_dry else None
        if "density" not in self.properties:
            return None
        # 1 g/mL is 1000 µg/µL.
        return volume * quantities.parse_quantity(self.properties["density"], "density").value * 1000

    def get_temperature(self) -> Decimal:
        """Return the temperature of the surroundings in °C."""
        written = self.properties.get("temperature")
        # Only incubators are set to a temperature; elsewhere the condition determines it.
        if written and self.condition in INCUBATORS:
            return quantities.parse_quantity(written, "temperature").value
        return Decimal(TEMPERATURES[self.condition])

    def thaw_if_warm(self, temperature: Decimal, seconds: Decimal) -> None:
        """Thaw a frozen material if it has been at this temperature for long enough."""
        volume = self.contents.volume
        if self.phase != Phase.FROZEN or volume is None or temperature <= self._get_freezing_point():
            return
        # Rounded up by integer division of the negative number.
        millilitres = -(-volume // 1000)
        needed = next((millilitres * time for above, time in THAWING_TIMES if temperature > above), None)
        if needed is not None and seconds >= needed:
            self.phase = Phase.SUSPENSION if self.contents.list_components_of_kind(CELLS) else Phase.LIQUID

    def freeze_if_cold(self, temperature: Decimal, was_frozen: bool = False) -> None:
        """Freeze the contents if the temperature is more than 5 °C below their freezing point.

        What `was_frozen` before, such as the wells of a frozen plate, is not damaged again.
        """
        if temperature < self._get_freezing_point() - 5 and self.phase in (*Phase.LIQUIDS, Phase.ADHERENT):
            self.phase = Phase.FROZEN
            if not was_frozen:
                medium = f"{self.properties.get('medium', '')} {self.properties.get('cryoprotectant', 'none')}"
                protected = "cryoprotectant" in self.properties and not medium.endswith(" none")
                protected = protected or damage.has_cryoprotectant(self.contents, medium)
                self.contents = damage.freeze(self.contents, protected)

    def _get_freezing_point(self) -> Decimal:
        """Return the freezing point in °C. A liquid without a known one is treated as water."""
        written = self.properties.get("freezing point")
        return quantities.parse_quantity(written, "temperature").value if written else ZERO

    def leave_incubator(self) -> None:
        """Move the vessel to the bench if it is in an incubator."""
        if self.condition in INCUBATORS:
            self.move_to_condition("room_temp")

    def move_to_condition(self, condition: str, **surroundings: str) -> None:
        """Move the vessel to another condition and replace the properties that describe its surroundings."""
        self.condition = condition
        self.drop_properties(*_SURROUNDINGS)
        self.properties |= {name.replace("_", " "): value for name, value in surroundings.items()}

    def get_volume(self) -> Decimal:
        if self.contents.volume is None:
            raise RefusalError(f"critically unclear: the volume of {self.name} is not known")
        return self.contents.volume

    def get_capacity(self) -> Decimal:
        written = self.properties.get("container_capacity")
        if not written:
            raise RefusalError(f"critically unclear: how much the container of {self.name} holds is not known")
        return quantities.parse_quantity(written, "volume").value

    def require_liquid(self, doing: str = "pipetted") -> None:
        """Raise RefusalError unless the contents are a liquid or a suspension."""
        if self.phase == Phase.FROZEN:
            raise RefusalError(f"frozen: thaw it first ({self.name})")
        if self.phase == Phase.ADHERENT:
            raise RefusalError(f"wrong phase: the cells of {self.name} are attached; they cannot be {doing}")
        if self.phase not in Phase.LIQUIDS:
            phase = self.phase or "of unknown phase"
            raise RefusalError(f"wrong phase: {self.name} is {phase}, which cannot be {doing}")

    def require_volume(self, volume: Decimal) -> None:
        """Raise RefusalError if the volume is unknown or less than this."""
        if volume > self.get_volume():
            raise RefusalError(describe_shortage(volume, self.get_volume(), self))

    def require_capacity(self, volume: Decimal) -> None:
        """Raise RefusalError if the capacity is unknown or less than this volume."""
        if volume > (capacity := self.get_capacity()):
            raise RefusalError(
                f"too small a container: {format_volume(capacity)} capacity, {format_volume(volume)} would be in it ({self.name})"
            )

    def drop_properties(self, *names: str) -> None:
        """Remove these properties, as far as the vessel has them."""
        for name in names:
            self.properties.pop(name, None)

    def drop_liquid_properties(self) -> None:
        """Remove the properties of the liquid and all concentrations."""
        self.drop_properties(*LIQUID_PROPERTIES, *[key for key in self.properties if key.endswith(" concentration")])

    def draw_volume(self, volume: Decimal, minimum: Decimal = SMALLEST_DRAW, ratio: Decimal | None = None) -> Contents:
        """Remove and return a volume. A pellet stays. Raises RefusalError if this is not possible.

        `ratio` is the volume really delivered divided by this one; without it, the error of a pipette is drawn.
        """
        self.require_liquid()
        if volume < minimum:
            least, asked = format_volume(minimum), format_volume(volume)
            raise RefusalError(f"below the instrument's minimum of {least}: {asked} of {self.name}")
        ratio = self._draw_ratio(volume, acoustic=minimum < SMALLEST_DRAW) if ratio is None else ratio
        self.drawn.append(volume)
        if not self.unlimited:
            self.require_volume(volume)
            moved = self._remove_volume(volume, ratio)
            if self.contents.volume == 0:
                # Components that stayed behind keep the vessel in use.
                self.used_up = not self.contents.components
                self.phase = Phase.PELLET if self.phase == Phase.SEDIMENTED else self.phase
            return moved
        if self.contents.volume:
            share = volume / self.contents.volume
            return replace(self.contents.split_share(share)[0], volume=volume).scale_delivery(ratio)
        if self.contents.components:
            # Without a volume, amounts give no concentration, and any share would be a guess.
            raise RefusalError(f"critically unclear: the concentrations in {self.name} are not known")
        return Contents({}, self.contents.origins, volume).scale_delivery(ratio)

    def _draw_ratio(self, volume: Decimal, acoustic: bool = False) -> Decimal:
        source = self.barcode or self.name
        return self.errors.compute_ratio(volume, source, len(self.drawn), acoustic) if self.errors else ONE

    def draw_mass(self, mass: Decimal | None) -> Contents:
        """Remove and return this mass of a solid; all of it if None. Raises RefusalError if that is not possible."""
        if self.phase not in Phase.SOLIDS or self.unlimited:
            raise RefusalError(f"wrong phase: {self.name} is {self.phase}; only a limited solid is moved by mass")
        if mass is None:
            share = ONE
        elif self.contents.mass is None:
            raise RefusalError(f"critically unclear: the mass of {self.name} is not known")
        elif mass > self.contents.mass:
            needed, available = (quantities.format_quantity(part, "mass") for part in (mass, self.contents.mass))
            raise RefusalError(f"short of mass: needs {needed}, {available} usable in {self.name}")
        else:
            share = mass / self.contents.mass
        moved, self.contents = self.contents.split_share(share, self.settled_components)
        self.sources.scale_amounts(1 - share)
        self.used_up = share == 1
        return moved

    def take_supernatant(self, volume: Decimal | None = None) -> Contents:
        """Remove and return liquid over what is settled or bound; all if None. Raises RefusalError if impossible."""
        loose = self.phase in (Phase.LIQUID, Phase.SUSPENSION, Phase.EMPTY)
        has_attached = loose and self.contents.list_components_of_kind(ATTACHED)
        if self.phase not in (Phase.SEDIMENTED, Phase.PELLET, Phase.ADHERENT) and not has_attached:
            reason = "there is no supernatant over cells or a pellet"
            raise RefusalError(f"wrong phase: {self.name} is {self.phase}; {reason}")
        if self.unlimited:
            raise RefusalError(f"unlimited: {self.name} cannot be changed")
        requested = self.get_volume() if volume is None else volume
        self.require_volume(requested)
        if requested == 0:
            return Contents()
        ratio = self._draw_ratio(requested)
        self.drawn.append(requested)
        moved = self._remove_volume(requested, ratio)
        if self.contents.volume == 0:
            self.phase = Phase.PELLET if self.phase == Phase.SEDIMENTED else self.phase
            self.drop_properties("medium")
        return moved

    def _remove_volume(self, volume: Decimal, ratio: Decimal) -> Contents:
        """Remove and return a volume, and reduce the amounts recorded in `sources` in proportion."""
        before = self.get_volume()
        moved, self.contents = self.contents.take_volume(volume, self.settled_components, ratio)
        self.sources.scale_amounts(1 - volume / before)
        return moved

    def pour_in(self, contents: Contents, source: "Vessel") -> None:
        """Add contents that were removed from `source`. Raises RefusalError if they do not fit or cannot be added."""
        self._require_room(contents)
        self.drop_properties(*_DRY_STATES)
        if self.contents.volume == 0:
            # The liquid was removed before, so none of it is in the new mixture.
            self.sources.clear_liquids()
        if self.phase == Phase.EMPTY:
            self.phase = source.phase if source.phase != Phase.SEDIMENTED else Phase.LIQUID
            if not contents.volume and source.phase not in Phase.SOLIDS:
                self.phase = Phase.LIQUID
            left_behind = (*_CONTAINER_PROPERTIES, *_SURROUNDINGS, "condition", "volume", "mass", "phase")
            self.properties |= {key: value for key, value in source.properties.items() if key not in left_behind}
            self.material_type = source.material_type
        else:
            self._update_after_mixing(source)
        # The mass of empty contents is None; adding them would make a known mass unknown.
        void = self.contents.volume == 0 and not self.contents.components and not self.contents.origins
        self.contents = contents if void else self.contents + contents
        self.sources.add_from_vessel(source, contents)

    def _require_room(self, contents: Contents) -> None:
        if self.unlimited:
            raise RefusalError(f"unlimited: {self.name} cannot be changed; pour into a container or a limited material")
        if self.phase == Phase.FROZEN:
            raise RefusalError(f"frozen: thaw it first ({self.name})")
        if self.phase in (Phase.GEL, Phase.CONSUMABLE):
            raise RefusalError(f"wrong phase: {self.name} is {self.phase}; nothing can be poured into it")
        if contents.volume is None:
            raise RefusalError(f"critically unclear: the volume to pour into {self.name} is not known")
        after = self.get_volume() + contents.volume
        if contents.volume:
            self.require_capacity(after)

    def _update_after_mixing(self, source: "Vessel") -> None:
        medium, added = self.properties.get("medium", ""), str(source.properties.get("medium") or source.name)
        if medium or (not self.contents.volume and self.contents.list_components_of_kind(CELLS)):
            # Cut, so that the text does not grow without end in a long series of additions.
            old_parts = str(medium).split(" + ") if self.contents.volume else ()
            self.properties["medium"] = " + ".join(dict.fromkeys([*old_parts, *added.split(" + ")]))[:300]
        self.drop_liquid_properties()
        if self.phase == Phase.PELLET:
            self.phase = Phase.SEDIMENTED
        elif self.phase in ("solid", "powder"):
            # Named components that are neither cells nor particles dissolve. Anything else may not dissolve.
            dissolves = self.contents.components and not self.contents.list_components_of_kind(CELLS, PARTICLES)
            self.phase = Phase.LIQUID if dissolves else Phase.SUSPENSION
        elif self.phase == Phase.LIQUID and source.phase == Phase.SUSPENSION:
            self.phase = Phase.SUSPENSION

    def _build_visible_properties(self) -> dict[str, Any]:
        """Return the properties that people see, with the current phase, volume, mass and known concentrations."""
        visible: dict[str, Any] = {"phase": self.phase}
        if self.phase == Phase.GEL:
            # The volume of a gel's slab is not that of what was loaded into its lanes.
            return visible | self.properties
        volume, mass = self.contents.volume, self.contents.mass
        if volume is not None and (volume > 0 or self.phase not in (*Phase.SOLIDS, Phase.EMPTY)):
            visible["volume"] = format_volume(volume)
        if mass is not None and (mass > 0 or self.phase in Phase.SOLIDS):
            visible["mass"] = quantities.format_quantity(mass, "mass")
        others = {key: value for key, value in self.properties.items() if key not in ("phase", "volume", "mass")}
        return {**visible, **others, **self.contents.format_known_components(self.settled_components)}


def format_volume(volume: Decimal) -> str:
    return quantities.format_quantity(volume, "volume")


def describe_shortage(needed: Decimal, usable: Decimal, vessel: Vessel) -> str:
    return f"short of volume: needs {format_volume(needed)}, {format_volume(usable)} usable in {vessel.name}"
