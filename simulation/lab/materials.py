"""What is on the bench."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

UNLIMITED = "unlimited"
AVAILABLE = "available_for_further_use"
NOT_AVAILABLE = "not_available_for_further_use"
AVAILABILITY = (UNLIMITED, AVAILABLE, NOT_AVAILABLE)

MATERIAL_TYPES = ("static", "dynamic")
CONDITIONS = (
    "room_temp",
    "4C",
    "-20C",
    "-80C",
    "-196C",
    "incubating_conditions",
    "cell_culture_conditions",
    "ice",
    "dry_ice",
)

# Where a component of a material is: in solution, settling and held back by filters, or bound to the vessel.
CONTENT_KINDS = ("dissolved", "cells", "particles", "attached")

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True)
class Draft:
    """A material as a transition model hands it over: the environment gives it barcode and times.

    `replaces` is the barcode of the material this one continues (it keeps that barcode); `derived_from` are the
    barcodes it came from, and `taken` how much of them ("" where nobody knows). `ledger` is the simulator's own account of what is inside: nobody else ever sees it.
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

    def problem(self) -> str:
        """What no bench could hold about it; "" if nothing."""
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
        return {
            "name": self.name,
            "properties": dict(self.properties),
            "available_for_use": self.available_for_use,
            "material_type": self.material_type,
            "environmental_condition": self.environmental_condition,
            "replaces": self.replaces,
            "derived_from": list(self.derived_from),
            "taken": dict(self.taken),
            "ledger": dict(self.ledger),
        }

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
    def usable(self) -> bool:
        return self.available_for_use != NOT_AVAILABLE

    def seen(self) -> dict[str, Any]:
        """What anyone in the laboratory may see of it: everything but the simulator's ledger."""
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
        return {**self.seen(), "ledger": dict(self.ledger)}

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
        found = self.get(barcode)
        if found is None:
            raise KeyError(barcode)
        return found

    def usable(self) -> list[Material]:
        return [m for m in self.materials if m.usable]

    def changed(self, drafts: Sequence[Draft], barcodes: Sequence[str], touched: Iterable[str], now: int) -> Self:
        """The inventory after a step: drafts placed under their barcodes, touched inputs not handed back retired.

        `barcodes[i]` is the barcode of `drafts[i]`. A touched material that is neither unlimited nor handed back has
        been used up: the transition model had to return what was left of it.
        """
        placed = dict(zip(barcodes, drafts, strict=True))
        touched = set(touched)
        kept = []
        for material in self.materials:
            if draft := placed.pop(material.barcode, None):
                kept.append(_placed(draft, material.barcode, material.created_at, now))
            elif material.barcode in touched and material.available_for_use != UNLIMITED:
                kept.append(replace(material, available_for_use=NOT_AVAILABLE, last_modified=now))
            else:
                kept.append(material)
        kept += [_placed(draft, barcode, now, now) for barcode, draft in placed.items()]
        return type(self)(tuple(kept))

    def to_json(self) -> list[dict[str, Any]]:
        return [m.to_json() for m in self.materials]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]]) -> Self:
        return cls(tuple(Material.from_json(m) for m in data))


def barcode(seed: int, *place: object) -> str:
    """A barcode `MAT-XXXXXXXX` that depends on the episode's seed and the place it is made for, and on nothing else."""
    number = int.from_bytes(hashlib.sha256(repr((seed, *place)).encode()).digest()[:8])
    letters = ""
    for _ in range(8):
        number, digit = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[digit]
    return f"MAT-{letters}"


def place_all(drafts: Iterable[Draft], seed: int) -> Inventory:
    """The bench as an episode finds it, each material under a barcode of this episode."""
    placed: list[Material] = []
    taken: set[str] = set()
    for index, draft in enumerate(drafts):
        code = fresh_barcode(seed, 0, index, taken)
        taken.add(code)
        placed.append(_placed(draft, code, 0, 0))
    return Inventory(tuple(placed))


def fresh_barcode(seed: int, step: int, index: int, taken: Iterable[str]) -> str:
    """A barcode not in `taken`; the same inputs give the same barcode, so a repeated step changes nothing."""
    taken, salt = set(taken), 0
    while (code := barcode(seed, step, index, salt)) in taken:
        salt += 1
    return code


def _placed(draft: Draft, code: str, created_at: int, now: int) -> Material:
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
