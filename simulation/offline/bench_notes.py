"""Routine notes: what a careful worker writes down during a step that measures nothing.

`NOTES` declares which kinds of notes each handler's actions have. The kinds do not depend on whether the step was wise, and
everything noted is computed: a volume as it was set on the pipette, a temperature as the instrument displays it, an appearance
where the state or a declared property of the material decides it. Vessels of which the same is noted share one note.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from simulation.lab.name_ranges import group_names
from simulation.lab.outcomes import NOTE
from simulation.offline.action_context import ActionContext
from simulation.offline.appearance import describe_appearance
from simulation.offline.vessels import Vessel, format_volume
from simulation.offline.volumetric import format_delivered_volume, format_weighed_masses

_Note = tuple[str, str]  # description and value
_MOST_GROUPS = 2  # groups of vessels with different volumes; more are noted as one range
_MOST_NAMES = 2  # names in one note


class _Display(NamedTuple):
    """A thermometer built into equipment: how people name it, its decimals, and the scatter of its readings in °C."""

    name: str
    decimals: int
    scatter: Decimal


# Control accuracy as data sheets of common models state it: incubators 0.1 °C, ovens and refrigerators 1 °C, freezers 2 °C.
_INCUBATOR = _Display("Incubator", 1, Decimal("0.1"))
_OVEN = _Display("Oven", 0, Decimal(1))
_STORES = {
    "4C": _Display("Refrigerator", 1, Decimal("0.5")),
    "-20C": _Display("Freezer", 0, Decimal(1)),
    "-80C": _Display("Freezer", 0, Decimal(1)),
    "room_temp": _Display("Room", 1, Decimal("0.3")),
}


def record_notes(context: ActionContext, vessels: Sequence[Vessel]) -> None:
    """Record the routine notes of a step that is complete. `vessels` are all materials that it returns."""
    for write_notes in NOTES.get(context.action_type.handler, ()):
        for description, value in write_notes(context, vessels):
            context.record_observation(description, NOTE, value)


def _note_delivered(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    yield from _note_drawn("Delivered", [*context.vessels.values(), *context.new_vessels])


def _note_filled(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    """Yield to what volume vessels were filled: at a mark, how much solvent that took is not read."""
    solvent = context.get_selected_vessel("solvent")
    filled = [vessel for vessel in vessels if vessel is not solvent]
    if all("volumetric flask" in vessel.container for vessel in filled):
        times = f"{len(filled)} × " if len(filled) > 1 else ""
        total = format_delivered_volume(context.get_number("total_volume"))
        yield f"Filled to the mark with {solvent.name}", f"{times}{total}"
    else:
        yield from _note_delivered(context, vessels)


def _note_media(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    """Yield the volumes of what was poured on, without those that were taken off before."""
    names = ("wash_medium", "replacement_medium")
    media = {context.values[name]: context.get_selected_vessel(name) for name in names}
    yield from _note_drawn("Delivered", list(media.values()))


def _note_taken_off(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    yield from _note_drawn("Taken off", list(context.vessels.values()))


def _note_drawn(verb: str, sources: Sequence[Vessel]) -> Iterator[_Note]:
    """Yield the volumes that were drawn, one note for all sources from which the same was drawn."""
    groups: dict[tuple[Decimal, ...], list[str]] = {}
    for vessel in sources:
        if vessel.drawn:
            groups.setdefault(tuple(vessel.drawn), []).append(vessel.name)
    if len(groups) > _MOST_GROUPS:
        names = [name for group in groups.values() for name in group]
        all_volumes = [volume for drawn, group in groups.items() for volume in drawn * len(group)]
        yield f"{verb} from {_join_names(names)}, in all", _format_range(all_volumes)
        return
    for drawn, names in groups.items():
        each = "each of " if len(names) > 1 else ""
        yield f"{verb} from {each}{_join_names(names)}", _format_volumes(drawn)


def _format_volumes(volumes: Sequence[Decimal]) -> str:
    """Return "3 × 50.0 µL", for two different volumes both, for more their range."""
    times_by_volume = Counter(map(format_delivered_volume, volumes))
    if len(times_by_volume) > _MOST_GROUPS:
        return _format_range(volumes)
    return ", ".join(f"{times} × {text}" if times > 1 else text for text, times in times_by_volume.items())


def _format_range(volumes: Sequence[Decimal]) -> str:
    low, high = format_delivered_volume(min(volumes)), format_delivered_volume(max(volumes))
    return f"{len(volumes)} volumes, {low} to {high}"


def _note_weighed(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    """Yield the masses of the portions, in the order of their destinations, with the digits of the balance."""
    for source in context.vessels.values():
        if source.weighed:
            yield f"Delivered from {source.name}", format_weighed_masses(source.weighed)


def _note_volume(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    """Yield the volumes of what the step produced, with the digits that are displayed for the material."""
    produced = [vessel for vessel in _list_products(context) if vessel.contents.volume]
    by_volume: dict[str, list[str]] = {}
    for vessel in produced:
        by_volume.setdefault(format_volume(vessel.get_volume()), []).append(vessel.name)
    if len(by_volume) > _MOST_GROUPS:
        least, most = (pick(vessel.get_volume() for vessel in produced) for pick in (min, max))
        volumes = f"{format_volume(least)} to {format_volume(most)}"
        by_volume = {volumes: [vessel.name for vessel in produced]}
    for text, names in by_volume.items():
        yield f"Volume of {_join_names(names)}{', each' if len(names) > 1 else ''}", text


def _note_appearance(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    """Yield how the materials look that the step changed or produced, one note for each appearance."""
    yield from _note_looks(context, _list_products(context))


def _note_precipitates(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    """Yield how the materials look in which something came down as soon as two liquids met."""
    yield from _note_looks(context, context.with_precipitate)


def _note_looks(context: ActionContext, noted: Sequence[Vessel]) -> Iterator[_Note]:
    by_appearance: dict[str, list[str]] = {}
    for vessel in noted:
        if appearance := describe_appearance(vessel, context.truth):
            by_appearance.setdefault(appearance, []).append(vessel.name)
    for appearance, names in by_appearance.items():
        yield f"Appearance of {_join_names(names)}", appearance


def _list_products(context: ActionContext) -> list[Vessel]:
    """Return the new vessels that can be used, or, if there are none, the vessels that the step changed."""
    selected = {code for value in context.values.values() for code in (value if isinstance(value, tuple) else (value,))}
    products = [vessel for vessel in context.new_vessels if not vessel.used_up]
    changed = [vessel for code, vessel in context.vessels.items() if code not in selected and not vessel.unlimited]
    return products or [vessel for vessel in changed if not vessel.used_up]


def _note_incubator(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    carbon_dioxide = f", {context.get_number('carbon_dioxide'):.1f} % CO2" if "carbon_dioxide" in context.values else ""
    text = _read_display(context, _INCUBATOR, context.get_number("temperature"))
    yield f"Incubator display after {_format_duration(context, 'duration')}", f"{text}{carbon_dioxide}"


def _note_oven(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    text = _read_display(context, _OVEN, context.get_number("temperature"))
    yield f"Oven display after {_format_duration(context, 'duration')}", text


def _note_digestion(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    display = _Display("Digestion", 0, Decimal(1))
    text = _read_display(context, display, context.get_number("temperature"))
    yield f"Digestion vessels after {_format_duration(context, 'hold_time')}", text


def _note_autoclave(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    # A steriliser holds its set temperature or up to 3 °C more, never less (EN 285).
    deviate = abs(context.compute_deviate(_get_first(context), "display"))
    reached = context.get_number("temperature") + min(deviate, Decimal(3))
    yield f"Autoclave printout, {_format_duration(context, 'duration')}", f"{reached:.1f} °C"


def _note_cycler(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    held = f"program completed, holding at {context.get_number('hold_temperature'):.1f} °C"
    yield f"Thermocycler display{context.format_quoted_settings()}", held


def _note_store(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    """Yield the display of the place where the materials are stored; ice, dry ice and liquid nitrogen have none."""
    if display := _STORES.get(context.values["condition"]):
        temperature = _get_first(context).get_temperature()
        yield f"{display.name} display", _read_display(context, display, temperature)


def _note_room(context: ActionContext, vessels: Sequence[Vessel]) -> Iterator[_Note]:
    at_room = [vessel for vessel in vessels if vessel.condition == "room_temp"]
    if at_room and len(at_room) == len(vessels):
        display = _STORES["room_temp"]
        yield f"{display.name} display", _read_display(context, display, at_room[0].get_temperature())


def _read_display(context: ActionContext, display: _Display, temperature: Decimal) -> str:
    shown = temperature + display.scatter * context.compute_deviate(_get_first(context), "display", display.name)
    return f"{round(shown, display.decimals) + 0:.{display.decimals}f} °C"


def _get_first(context: ActionContext) -> Vessel:
    return next(iter(context.vessels.values()))


def _format_duration(context: ActionContext, parameter: str) -> str:
    """Return a duration as the action wrote it, with the plural of a unit that is a word: "3 days"."""
    return re.sub(r"(?<!^1 )\b(day|week)$", r"\1s", str(context.get_written_setting(parameter)))


def _join_names(names: Sequence[str]) -> str:
    """Return the names, those that differ in one number as one; of more than two only the first."""
    groups = group_names(names)
    if len(groups) <= _MOST_NAMES:
        return " and ".join(group.name for group in groups)
    return f"{groups[0].name} and {len(names) - len(groups[0].positions)} more"


# What is noted of the actions of each handler. Handlers that are not listed measure or record something themselves, or
# only record amounts.
NOTES: dict[str, tuple[Callable[[ActionContext, Sequence[Vessel]], Iterator[_Note]], ...]] = {
    "transfer": (_note_delivered, _note_weighed, _note_precipitates),
    "acoustic_transfer": (_note_delivered,),
    "aliquot": (_note_delivered,),
    "serial_dilute": (_note_delivered,),
    "dilute": (_note_delivered, _note_appearance),
    "fill_to_volume": (_note_filled, _note_appearance),
    "resuspend": (_note_delivered, _note_appearance),
    "combine": (_note_volume, _note_appearance),
    "mix": (_note_appearance,),
    "degas": (_note_appearance,),
    "aspirate": (_note_taken_off,),
    "wash": (_note_media,),
    "extract_dna": (_note_volume, _note_appearance),
    "filter": (_note_volume, _note_appearance),
    "solid_phase_extraction": (_note_volume, _note_appearance),
    "dialyse": (_note_volume, _note_appearance),
    "apply_magnet": (_note_appearance,),
    "incubate": (_note_incubator, _note_appearance),
    "culture": (_note_incubator, _note_appearance),
    "wait": (_note_room, _note_appearance),
    "storage": (_note_store, _note_appearance),
    "autoclave": (_note_autoclave, _note_appearance),
    "thermocycle": (_note_cycler,),
    "flash_freeze": (_note_appearance,),
    "freeze_cells": (_note_appearance,),
    "dry_in_oven": (_note_oven,),
    "grind": (_note_appearance,),
    "digest_by_microwave": (_note_digestion, _note_appearance),
    "synthesize_dna": (_note_appearance,),
    "synthesize_rna": (_note_appearance,),
    "synthesize_pna": (_note_appearance,),
    "synthesize_peptide": (_note_appearance,),
}
