"""Replies of a transition model, and a small bench for them."""

import json
from collections.abc import Iterable
from typing import Any

from simulation.lab.actions import Action
from simulation.lab.bench import Bench
from simulation.lab.materials import AVAILABLE, UNLIMITED, NewMaterial, build_inventory
from tests.support.data_files import CATALOGUE

GOAL = "find out whether the cells live"


def build_draft(name: str, volume: str = "10 mL", available: str = AVAILABLE, **properties: Any) -> NewMaterial:
    shown_properties = {"volume": volume, "container": "50 mL tube", **properties}
    return NewMaterial(name, shown_properties, available, "static", "room_temp")


def build_bench(*drafts: NewMaterial) -> Bench:
    """Return a bench with cells, puromycin and unlimited medium, unless a test passes other materials."""
    placed = drafts or (
        build_draft("Cells"),
        build_draft("Puromycin", "1 mL"),
        build_draft("Medium", "500 mL", UNLIMITED),
    )
    return Bench(GOAL, CATALOGUE, build_inventory(placed, seed=3), seed=3, max_steps=100)


def find_barcodes(on: Bench, *names: str) -> tuple[str, ...]:
    return tuple(material.barcode for name in names for material in on.inventory if material.name == name)


def build_mix(on: Bench, *names: str) -> Action:
    return Action("Mix", find_barcodes(on, *names))


def build_new_material(name: str, replaces: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a material as a reply states it."""
    fields = {
        "name": name,
        "properties": {"volume": "10 mL", "container": "50 mL tube"},
        "available_for_use": AVAILABLE,
        "material_type": "static",
        "environmental_condition": "room_temp",
        **({"replaces": replaces} if replaces else {}),
    }
    return {**fields, **more}


def build_observation(description: str = "A clear liquid", value: str = "clear", **more: Any) -> dict[str, Any]:
    return {"description": description, "measurement_type": "visual", "value": value, **more}


def build_reply(materials: Iterable[Any] = (), observations: Iterable[Any] = (), **more: Any) -> dict[str, Any]:
    """Return a reply as an object; `more` replaces or adds fields."""
    return {
        "new_materials": list(materials),
        "new_observations": list(observations),
        "reasoning": "because it is so",
        "success": True,
        "failure_reason": "",
        **more,
    }


def write_reply(*materials: Any, observations: Iterable[Any] = (), **more: Any) -> str:
    return json.dumps(build_reply(materials, observations, **more))
