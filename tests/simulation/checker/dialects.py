"""Write the same transition as three other simulators would: other keys, other units, other parameter names."""

import copy
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from simulation.lab import quantities

PARAMETERS = {
    "source": "from", "amount": "transfer_volume", "count": "number_of_aliquots", "total_volume": "final_volume",
    "dilutions": "num_dilutions", "factor": "dilution_factor", "solvent": "diluent", "wash_medium": "wash_buffer",
    "replacement_medium": "fresh_medium", "duration": "incubation_time", "force": "centrifugal_force",
}  # fmt: skip


def write_in_dialect(
    line: dict[str, Any], dialect: Callable[[dict[str, Any]], dict[str, Any]], hints: bool = False
) -> dict[str, Any]:
    """Return the line with all properties rewritten and parameters renamed; without `hints` also without links from outputs to inputs."""
    line = copy.deepcopy(line)
    before = {m["barcode"]: m for m in line["input_materials"]}
    for material in line["outcome"]["new_materials"]:
        source = before.get(material.get("replaces", ""))
        if not hints:
            material.pop("replaces", None)
            material.pop("derived_from", None)
            if source and material["properties"].get("volume") != source["properties"].get("volume"):
                material["name"] = rename_remainder(material["name"], line)
    for material in (*line["input_materials"], *line["outcome"]["new_materials"]):
        material["properties"] = dialect(material["properties"])
    parameters = line["action"]["parameters"]
    line["action"]["parameters"] = {PARAMETERS.get(key, key): value for key, value in parameters.items()}
    return line


def rename_remainder(name: str, line: dict[str, Any]) -> str:
    is_observed = any(name in seen["description"] for seen in line["outcome"]["new_observations"])
    return name if is_observed else f"{name} (remaining)"


def write_microlitres(properties: dict[str, Any]) -> dict[str, Any]:
    """liquid_volume in µL with a unit, max_volume, physical_state."""
    keys = {"volume": "liquid_volume", "container_capacity": "max_volume", "phase": "physical_state"}
    return {keys.get(key, key.replace(" ", "_")): _convert_to_microlitres(value) for key, value in properties.items()}


def nest_quantities(properties: dict[str, Any]) -> dict[str, Any]:
    """Quantities as {"value", "unit"}, the container and the concentrations as objects of their own."""
    rewritten: dict[str, Any] = {}
    for key, value in properties.items():
        if key == "container":
            rewritten.setdefault("container", {})["type"] = value
        elif key == "container_capacity":
            rewritten.setdefault("container", {})["capacity"] = _split_quantity(value)
        elif key.endswith(" concentration"):
            rewritten.setdefault("concentrations", {})[key.removesuffix(" concentration")] = value
        else:
            rewritten[key] = _split_quantity(value) if key in ("volume", "mass") else value
    return rewritten


def put_units_in_keys(properties: dict[str, Any]) -> dict[str, Any]:
    """Bare numbers with the unit in the key: volume_ul, capacity (mL)."""
    rewritten: dict[str, Any] = {}
    for key, value in properties.items():
        if key == "volume":
            rewritten["volume_ul"] = _convert_to_number(value, "volume", "1 µL")
        elif key == "container_capacity":
            rewritten["capacity (mL)"] = _convert_to_number(value, "volume", "1 mL")
        elif key.endswith(" concentration") and " µg/mL" in str(value):
            rewritten[key.replace(" concentration", "_conc_ug_per_ml")] = _convert_to_number(
                value, "mass_concentration", "1 µg/mL"
            )
        else:
            rewritten[key] = value
    return rewritten


DIALECTS = (write_microlitres, nest_quantities, put_units_in_keys)


def _convert_to_number(text: str, dimension: str, unit: str) -> float:
    return float(quantities.parse_quantity(text, dimension).value / quantities.parse_quantity(unit, dimension).value)


def _convert_to_microlitres(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"-?[0-9.]+ (?:mL|L)", value):
        number = quantities.parse_quantity(value, "volume").value
        return f"{format(Decimal(number).normalize(), 'f')} μL"
    return value


def _split_quantity(value: str) -> Any:
    number, _, unit = value.partition(" ")
    return {"value": float(number), "unit": unit}
