"""Plates and their wells."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulation.offline.job import Job
from simulation.offline.ledger import Contents
from simulation.offline.vessels import PLATE, RefusalError, Vessel

_Well = Mapping[str, Any]


def separate_wells(context: Job) -> None:
    """Separate a plate into wells, or into plates of wells treated alike, which can be separated again."""
    plate = next(iter(context.vessels.values()))
    if not plate.wells:
        raise RefusalError(
            f"no wells: {plate.name} is {plate.phase or 'of unknown phase'}; there is nothing to separate"
        )
    parts = _one_by_one(context, plate) if context.values["grouping"] == "each well" else _by_treatment(context, plate)
    context.made.extend(parts)
    plate.wells, plate.used_up = (), True
    context.how = f"{len(parts)} materials out of one plate; nothing in them changed and no time passed."


def manifest(context: Job) -> None:
    """Raise RefusalError: the environment answers requests itself before any rule is applied."""
    raise RefusalError(f"not here: {context.kind.name} is answered by the store room")


def _one_by_one(context: Job, plate: Vessel) -> list[Vessel]:
    return [_well(context, plate, well) for well in plate.wells]


def _well(context: Job, plate: Vessel, well: _Well) -> Vessel:
    contents = Contents.read(well["ledger"])
    # These properties are computed again from the ledger of the well.
    component_lines = {f"{name} {what}" for name in contents.components for what in ("concentration", "amount")}
    properties = {name: value for name, value in well["properties"].items() if name not in component_lines}
    part = Vessel(
        name=context.free_name(well["name"]),
        properties={**properties, "well": well["well"]},
        contents=contents,
        phase=str(well["properties"].get("phase", "")),
        condition=plate.condition,
        material_type=plate.material_type,
        key=str(well["ledger"].get("key", "")),
    )
    part.sources.note(plate.barcode, contents.volume)
    part.freeze(part.temperature())  # as the plate is, if it is kept in the cold
    return part


def _by_treatment(context: Job, plate: Vessel) -> list[Vessel]:
    groups: dict[str, list[_Well]] = {}
    for well in plate.wells:
        groups.setdefault(str(well["properties"].get("treatment", "")), []).append(well)
    if set(groups) == {""}:
        raise RefusalError(f"no treatments: no well of {plate.name} names one; separate each well")
    return [_group(context, plate, treatment, wells) for treatment, wells in groups.items()]


def _group(context: Job, plate: Vessel, treatment: str, wells: Sequence[_Well]) -> Vessel:
    label = treatment or "no treatment named"
    group_properties = {"treatment": label, "wells": ", ".join(well["well"] for well in wells)}
    part = Vessel(
        name=context.free_name(f"{plate.name}: {label}"),
        properties={**plate.properties, "wells in use": str(len(wells)), **group_properties},
        # The contents of a plate are those of its wells, so its own are unknown.
        contents=Contents(volume=None),
        phase=PLATE,
        condition=plate.condition,
        material_type=plate.material_type,
        wells=wells,
    )
    part.sources.note(plate.barcode)
    return part


HANDLERS: dict[str, Callable[[Job], None]] = {"separate_wells": separate_wells, "manifest": manifest}
