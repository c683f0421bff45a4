"""Materials, and the inventory of the bench."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from wetbench_site.text import hash_text

UNLIMITED = "unlimited"
AVAILABLE = "available_for_further_use"
NOT_AVAILABLE = "not_available_for_further_use"
AVAILABILITY = (UNLIMITED, AVAILABLE, NOT_AVAILABLE)

MATERIAL_TYPES = ("static", "dynamic")
# Where a material is kept, and how people read it.
CONDITION_NAMES = {
    "room_temp": "room temperature",
    "4C": "4 °C",
    "-20C": "−20 °C",
    "-80C": "−80 °C",
    "-196C": "−196 °C, liquid nitrogen",
    "incubating_conditions": "incubator",
    "cell_culture_conditions": "cell culture incubator",
    "ice": "on ice",
    "dry_ice": "on dry ice",
}
CONDITIONS = tuple(CONDITION_NAMES)
_PREPOSITIONS = {
    "incubating_conditions": "in an ", "cell_culture_conditions": "in a ", "ice": "", "dry_ice": "",
}  # fmt: skip

# States of a component: in solution; cells or particles, which settle and are retained by filters; bound to the vessel.
CONTENT_KINDS = ("dissolved", "cells", "particles", "attached")

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class NewMaterial:
    """A material returned by a transition model, before the environment assigns its barcode and times.

    `replaces` is the barcode of the material that this one continues; it keeps that barcode. `derived_from` are the
    barcodes of the materials it was made from, and `taken` is how much of each was used ("" if unknown). `ledger` is
    the simulator's hidden account of the contents.
    """

    name: str
    properties: Mapping[str, Any]
    available_for_use: str = AVAILABLE
    material_type: str = "static"
    environmental_condition: str = "room_temp"
    replaces: str = ""
    derived_from: tuple[str, ...] = ()
    taken: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, Any] = field(default_factory=dict)

    def find_problem(self) -> str:
        """Return why this material is invalid on any bench, or "" if it is valid."""
        if not self.name.strip():
            return "a material has no name"
        for word, allowed in (
            (self.available_for_use, AVAILABILITY),
            (self.material_type, MATERIAL_TYPES),
            (self.environmental_condition, CONDITIONS),
        ):
            if word not in allowed:
                return f"{self.name} is {word!r}; allowed: {', '.join(allowed)}"
        return ""

    def to_json(self) -> dict[str, Any]:
        copies = {name: dict(getattr(self, name)) for name in ("properties", "taken", "ledger")}
        return vars(self) | copies | {"derived_from": list(self.derived_from)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**{**data, "derived_from": tuple(data.get("derived_from", ()))})


@dataclass(frozen=True)
class Material:
    """One thing on the bench. Times are seconds since the episode began."""

    barcode: str
    name: str
    properties: Mapping[str, Any]
    available_for_use: str
    material_type: str
    environmental_condition: str
    created_at: int
    last_modified: int
    ledger: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_usable(self) -> bool:
        return self.available_for_use != NOT_AVAILABLE

    def to_visible(self) -> dict[str, Any]:
        """Return everything that agents and raters may see of this material: all fields but the hidden ledger."""
        return {
            "barcode": self.barcode,
            "name": self.name,
            "properties": dict(self.properties),
            "available_for_use": self.available_for_use,
            "material_type": self.material_type,
            "environmental_condition": self.environmental_condition,
            "created_at": self.created_at,
            "last_modified": self.last_modified,
        }

    def to_json(self) -> dict[str, Any]:
        return {**self.to_visible(), "ledger": dict(self.ledger)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(**data)


@dataclass(frozen=True)
class Inventory:
    """All materials of an episode in the order they came onto the bench, used-up ones included."""

    materials: tuple[Material, ...] = ()

    def __iter__(self) -> Iterator[Material]:
        return iter(self.materials)

    def __len__(self) -> int:
        return len(self.materials)

    def get(self, barcode: str) -> Material | None:
        return next((m for m in self.materials if m.barcode == barcode), None)

    def __getitem__(self, barcode: str) -> Material:
        if material := self.get(barcode):
            return material
        raise KeyError(barcode)

    def list_usable(self) -> list[Material]:
        return [m for m in self.materials if m.is_usable]

    def after_step(
        self, new_materials: Sequence[NewMaterial], barcodes: Sequence[str], processed: Iterable[str], now: int
    ) -> Self:
        """Return the inventory after a step, with the new materials under their barcodes.

        `barcodes[i]` belongs to `new_materials[i]`. A processed material that is neither unlimited nor returned is
        marked as used up, because the transition model must return what remains of it.
        """
        by_barcode = dict(zip(barcodes, new_materials, strict=True))
        processed = set(processed)
        materials = []
        for material in self.materials:
            # Removed from `by_barcode`, so that only new materials remain, which are appended at the end.
            if draft := by_barcode.pop(material.barcode, None):
                materials.append(_with_barcode(draft, material.barcode, material.created_at, now))
            # The model must return what is left; what it does not return no longer exists.
            elif material.barcode in processed and material.available_for_use != UNLIMITED:
                materials.append(replace(material, available_for_use=NOT_AVAILABLE, last_modified=now))
            else:
                materials.append(material)
        materials += [_with_barcode(draft, barcode, now, now) for barcode, draft in by_barcode.items()]
        return type(self)(tuple(materials))

    def to_json(self) -> list[dict[str, Any]]:
        return [m.to_json() for m in self.materials]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]]) -> Self:
        return cls(tuple(Material.from_json(m) for m in data))


def describe_whereabouts(condition: str) -> str:
    """Return where a material in this condition is, for a sentence: "at 4 °C", "in an incubator", "on ice"."""
    return f"{_PREPOSITIONS.get(condition, 'at ')}{CONDITION_NAMES.get(condition, condition)}"


def make_barcode(seed: int, *place: object) -> str:
    """Return a barcode `MAT-XXXXXXXX` that depends only on the episode's seed and on `place`, like step and index."""
    # `repr` of a tuple separates the parts; joined digits would give (1, 12) and (11, 2) the same code.
    number = int(hash_text(repr((seed, *place)))[:16], 16)
    letters = ""
    for _ in range(8):
        number, digit = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[digit]
    return f"MAT-{letters}"


def build_inventory(drafts: Iterable[NewMaterial], seed: int) -> Inventory:
    """Return the initial bench of an episode, each material with a barcode of this episode."""
    materials: list[Material] = []
    used: set[str] = set()
    for index, draft in enumerate(drafts):
        code = make_unused_barcode(seed, 0, index, used)
        used.add(code)
        materials.append(_with_barcode(draft, code, 0, 0))
    return Inventory(tuple(materials))


def make_unused_barcode(seed: int, step: int, index: int, used: Iterable[str]) -> str:
    """Return a barcode not in `used`. The same arguments give the same barcode, so a repeated step changes nothing."""
    used, salt = set(used), 0
    # Collisions are rare but possible; the salt makes the choice reproducible.
    while (code := make_barcode(seed, step, index, salt)) in used:
        salt += 1
    return code


def _with_barcode(draft: NewMaterial, code: str, created_at: int, now: int) -> Material:
    return Material(
        barcode=code,
        name=draft.name,
        properties=draft.properties,
        available_for_use=draft.available_for_use,
        material_type=draft.material_type,
        environmental_condition=draft.environmental_condition,
        created_at=created_at,
        last_modified=now,
        ledger=draft.ledger,
    )
