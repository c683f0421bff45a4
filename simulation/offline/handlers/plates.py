"""Plates and their wells."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulation.offline.action_context import ActionContext
from simulation.offline.ledger import Contents
from simulation.offline.vessels import PLATE, RefusalError, Vessel

_Well = Mapping[str, Any]


def separate_wells(context: ActionContext) -> None:
    """Separate a plate into wells, or into groups of wells with the same treatment, which can be separated again."""
    plate = next(iter(context.vessels.values()))
    if not plate.wells:
        raise RefusalError(
            f"no wells: {plate.name} is {plate.phase or 'of unknown phase'}; there is nothing to separate"
        )
    parts = (
        _separate_each_well(context, plate)
        if context.values["grouping"] == "each well"
        else _separate_by_treatment(context, plate)
    )
    context.new_vessels.extend(parts)
    plate.wells, plate.used_up = (), True
    context.reasoning = f"{len(parts)} materials out of one plate; nothing in them changed and no time passed."


def reject_manifest(context: ActionContext) -> None:
    """Raise RefusalError, because the environment answers requests for materials itself, before any rule is applied."""
    raise RefusalError(f"not here: {context.action_type.name} is answered by the store room")


def _separate_each_well(context: ActionContext, plate: Vessel) -> list[Vessel]:
    return [_build_well(context, plate, well) for well in plate.wells]


def _build_well(context: ActionContext, plate: Vessel, well: _Well) -> Vessel:
    contents = Contents.from_ledger(well["ledger"])
    # These properties are computed again from the ledger of the well.
    component_lines = {f"{name} {what}" for name in contents.components for what in ("concentration", "amount")}
    properties = {name: value for name, value in well["properties"].items() if name not in component_lines}
    part = Vessel(
        name=context.reserve_name(well["name"]),
        properties={**properties, "well": well["well"]},
        contents=contents,
        phase=str(well["properties"].get("phase", "")),
        condition=plate.condition,
        material_type=plate.material_type,
        key=str(well["ledger"].get("key", "")),
    )
    part.sources.add_amount(plate.barcode, contents.volume)
    part.freeze_if_cold(part.get_temperature())  # like the plate, if it is kept in the cold
    return part


def _separate_by_treatment(context: ActionContext, plate: Vessel) -> list[Vessel]:
    groups: dict[str, list[_Well]] = {}
    for well in plate.wells:
        groups.setdefault(str(well["properties"].get("treatment", "")), []).append(well)
    if set(groups) == {""}:
        raise RefusalError(f"no treatments: no well of {plate.name} names one; separate each well")
    return [_build_group(context, plate, treatment, wells) for treatment, wells in groups.items()]


def _build_group(context: ActionContext, plate: Vessel, treatment: str, wells: Sequence[_Well]) -> Vessel:
    label = treatment or "no treatment named"
    group_properties = {"treatment": label, "wells": ", ".join(well["well"] for well in wells)}
    part = Vessel(
        name=context.reserve_name(f"{plate.name}: {label}"),
        properties={**plate.properties, "wells in use": str(len(wells)), **group_properties},
        # The contents of a plate are those of its wells, so its own are unknown.
        contents=Contents(volume=None),
        phase=PLATE,
        condition=plate.condition,
        material_type=plate.material_type,
        wells=wells,
    )
    part.sources.add_amount(plate.barcode)
    return part


HANDLERS: dict[str, Callable[[ActionContext], None]] = {"separate_wells": separate_wells, "manifest": reject_manifest}
