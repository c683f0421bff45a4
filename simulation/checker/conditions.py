"""L06, L13 and L14: physical states, times, growth and storage conditions."""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from simulation.checker import weights
from simulation.checker.findings import Decided, Findings, error_finding, require, undecided_finding, warning_finding
from simulation.checker.reading import flows, properties, units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import ADHERENT, FLUID, FROZEN, FROZEN_CONDITIONS, SOLID, word_set

# Actions that may put a material into another storage condition than its own or that of the bench.
_CHANGES_CONDITION = word_set(
    "Storage Incubate CellCultureIncubate FlashFreeze FreezeCells Lyophilize Thermocycler Wait Autoclave Microwave DryingOven "
    "Desiccate Evaporate Dialysis ManifestMaterials SubmitMaterialsObservationsForReview Quit Discard"
)
# Conditions in which a material can be after these actions.
_FREEZING = {"FlashFreeze": ("-196C", "-80C", "dry_ice"), "FreezeCells": ("-196C", "-80C", "dry_ice", "-20C")}
_CONDITIONS_BY_TEMPERATURE = {"4": "4C", "-20": "-20C", "-80": "-80C", "-196": "-196C"}
_DURATION_WORDS = word_set("duration incubated elapsed incubation")
_DURATION_TOLERANCE = Decimal("1.02")  # factor of the duration set: rounding of hours and minutes
# Shortest plausible doubling times in seconds.
_MIN_DOUBLING_TIME = Decimal(900)  # 15 min: the fastest bacteria
_MIN_ANIMAL_DOUBLING_TIME = Decimal(28800)  # 8 h
_ANIMAL = word_set(
    "hek293t hek293 hek hela cho neuron mammalian fibroblast nih3t3 cos7 u2os jurkat astrocyte human mouse"
)
_MIN_GROWTH = Decimal("1.05")  # factor of the cells before; less is no growth
_COUNTING = Decimal("1.15")  # factor of the cells possible: error of counting
_MAX_GENERATIONS = Decimal(60)  # keeps the power within Decimal; 2^60 cells weigh more than any vessel holds
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")
_Moment = Decimal | datetime | None
# Actions that accept a frozen material.
_ACCEPTS_FROZEN = word_set(
    "Storage Wait Incubate CellCultureIncubate Lyophilize FlashFreeze FreezeCells Discard ImageSample VisualInspection MeasureWeight "
    "Thermocycler Microwave Autoclave SeparateWells ManifestMaterials Grind Desiccate DryingOven"
)
_NEEDS_LIQUID = word_set(
    "MeasurepH MeasureConductivity MeasureDissolvedOxygen MeasureOsmolality MeasureSurfaceTension MeasureViscosity HPLC "
    "MeasureRefractiveIndex DynamicFoamAnalysis CyclicVoltammetry FlowCytometry CellCounter CoulterCount "
    "CountLiquidParticles NucleicAcidQuantification Degas"
)
_NEEDS_SOLID = word_set("Grind MeasureMeltingPoint MeasureCount")
# Actions that need cells in suspension, not attached to their vessel.
_NEEDS_SUSPENSION = word_set("FlowCytometry CellCounter CoulterCount Aliquot SerialDilute")
# Actions that may melt or freeze a material, dry it, or dissolve it.
_MELTS = word_set(
    "Incubate Thermocycler Autoclave Microwave Wait Storage DryingOven MeasureMeltingPoint CellCultureIncubate"
)
_DRIES = _MELTS | word_set(
    "Lyophilize Desiccate Evaporate Filter Aspirate Combine ApplyMagnet SolidPhaseExtraction Grind FlashFreeze"
)
_DISSOLVES = _MELTS | word_set(
    "Resuspend Dilute FillToVolume Transfer Aliquot Combine AcousticLiquidHandling AdjustpH Dialysis AttemptDNAExtraction Wash Mix "
    "SolidPhaseExtraction SerialDilute"
)
_DRAWS_LIQUID = (words.MOVE, words.ADD, words.CONSUME, words.COMBINE, words.SERIAL)
# Solvents that do not freeze at -80 °C.
_STAYS_LIQUID = word_set("ethanol methanol acetone isopropanol hexane chloroform toluene ether acetonitrile")


_TEMPERATURE = re.compile(r"(?<![\w.])-?[0-9]{1,3}(?:\.[0-9])?\s?°?C\b|\bT\s?=?\s?[0-9]{2}\b")


def check_times(transition: Transition) -> Findings:
    """L13: check creation and modification times, durations and growth."""
    for view in (*transition.inputs, *transition.outputs):
        created, modified = _parse_time(view.raw, "created_at"), _parse_time(view.raw, "last_modified")
        text = f"{view.name} was last changed before it was created"
        yield from _require_order(view.name, created, modified, "changed after it was created", "before", text)
    for before, after in transition.list_pairs():
        for key, prefix, suffix in (("created_at", "creation", ""), ("last_modified", "modification", " or later")):
            old, new = _parse_time(before.raw, key), _parse_time(after.raw, key)
            text = f"{after.name} has an earlier {prefix} time than before this step"
            yield from _require_order(after.name, old, new, f"{old}{suffix}", str(new), text)
    times = [_parse_time(view.raw, "last_modified") for view in transition.inputs]
    last_change = max((time for time in times if isinstance(time, datetime)), default=None)
    for seen in transition.observations:
        timestamp = _parse_time(seen.raw, "timestamp")
        text = f"{seen.path} was recorded before its materials were last changed"
        recorded = str(timestamp)[:19]
        yield from _require_order(seen.path, last_change, timestamp, "after the previous step", recorded, text)
    if transition.is_success:
        yield from _check_durations(transition)
        yield from _check_growth(transition)


def _require_order(subject: str, first: _Moment, second: _Moment, expected: str, got: str, text: str) -> Findings:
    """Yield an error if the second time is before the first; nothing if they cannot be compared."""
    is_ordered: bool | None = None
    if isinstance(first, Decimal) and isinstance(second, Decimal):
        is_ordered = first <= second
    if isinstance(first, datetime) and isinstance(second, datetime):
        is_ordered = first <= second
    if is_ordered is not None:
        yield from require("L13", is_ordered, subject, expected, got, text)


def _check_durations(transition: Transition) -> Findings:
    """Yield an error if this step writes a duration that is longer than the action lasted."""
    total = sum(transition.parameters.list_values("duration"), Decimal(0))
    properties_before = {(leaf.key, leaf.value_text) for view in transition.inputs for leaf in view.leaves}
    for view in transition.usable_outputs if transition.parameters.list_values("duration") else ():
        for leaf in view.leaves:
            key_words, duration = leaf.word_set, leaf.parse_amount("duration")
            is_new = (leaf.key, leaf.value_text) not in properties_before
            if duration is not None and is_new and key_words & _DURATION_WORDS:
                holds = duration.value <= total * _DURATION_TOLERANCE or bool(key_words & {"total", "cumulative"})
                expected, got = (units.format_value(value, "duration") for value in (total, duration.value))
                text = f"{leaf.key} of {view.name} is longer than the action lasted"
                yield from require("L13", holds, view.name, f"at most {expected}", got, text)


def _check_growth(transition: Transition) -> Findings:
    """Yield an error if cells grow faster than their declared, or else the shortest plausible, doubling time allows."""
    grows = transition.family in (words.HEAT, words.INERT)
    if not grows or transition.action in ("Centrifuge", "Thermocycler", "Autoclave"):
        return
    amounts = transition.parameters.list_amounts("duration")
    durations = [amount.value for leaf, amount in amounts if not {"lag", "interval"} & leaf.word_set]
    for before, after in transition.list_pairs():
        old, new = _find_cell_amount(before), _find_cell_amount(after)
        if old is None or new is None or old.dimension != new.dimension:
            continue
        if old.value <= 0 or new.value <= old.value * _MIN_GROWTH:
            continue
        if not durations:
            yield undecided_finding("L13", after.name, "its time of growth is not stated")
            continue
        doubling = [leaf for leaf in before.leaves if {"doubling", "generation"} & leaf.word_set]
        times = (leaf.parse_amount("duration") for leaf in doubling)
        declared = next((time.value for time in times if time and time.value > 0), None)
        shortest = _MIN_ANIMAL_DOUBLING_TIME if before.all_words & _ANIMAL else _MIN_DOUBLING_TIME
        generations = min(_MAX_GENERATIONS, max(durations) / (declared or shortest))
        maximum = old.value * Decimal(2) ** generations * _COUNTING
        limit = "at the declared doubling time" if declared else "at the fastest growth possible"
        text = f"{after.name} grew more than it can in {units.format_value(max(durations), 'duration')} {limit}"
        expected = f"at most {units.format_value(maximum, 'number_density')}"
        got = units.format_value(new.value, old.dimension)
        yield from require("L13", new.value <= maximum, after.name, expected, got, text)


def _find_cell_amount(view: MaterialView) -> Amount | None:
    return view.concentrations.get("cell") or weights.find_counted_amounts(view).get("cell")


def _parse_time(raw: Mapping[str, Any], key: str) -> _Moment:
    """Return a time in seconds or as a date with a time of day, or None for anything that cannot be compared."""
    value = raw.get(key)
    if isinstance(value, str) and _ISO.match(value):
        try:
            # Without the zone: Python cannot compare a date that has one with a date that has none.
            return datetime.fromisoformat(value[:32].replace("Z", "")).replace(tzinfo=None)
        except ValueError:
            return None
    if isinstance(value, bool) or key == "timestamp":
        return None
    if isinstance(value, int | float):
        return units.parse_number(value)
    amount = units.parse_amount(value) if isinstance(value, str) else None
    return amount.value if amount and amount.dimension == "duration" else None


def check_storage_conditions(transition: Transition) -> Findings:
    """L14: check the storage condition of every output that is available for further use."""
    for output in transition.usable_outputs:
        if output.condition:
            yield Decided("L14")
            if output.condition in words.INCUBATORS:
                yield from _check_required_properties(transition, output)
            if output.temperature is not None:
                low, high = words.TEMPERATURES[output.condition]
                shown = units.format_value(output.temperature.value, "temperature")
                text = f"{output.name} is at {shown} in {output.condition}"
                holds = low <= output.temperature.value <= high or _is_adjusting(transition, output, high)
                yield from require("L14", holds, output.name, f"{low} to {high} °C", shown, text)
            yield from _check_unexpected_move(transition, output)
            yield from _check_target_condition(transition, output)


def _is_adjusting(transition: Transition, output: MaterialView, high: Decimal | int) -> bool:
    """Return whether a material on the bench is still hot, or cold, from this step or from before it."""
    if output.condition != "room_temp" or output.temperature is None:
        return False
    got, before = output.temperature.value, transition.find_input(output)
    settings = [amount.value for _, amount in transition.list_settings("temperature")]
    if before is not None and before.temperature is not None:
        settings.append(before.temperature.value)
    if before is not None and before.condition in words.TEMPERATURES:
        settings.append(Decimal(words.TEMPERATURES[before.condition][0]))
    return high < got <= max(settings, default=got - 1) or min(settings, default=got + 1) <= got < 0


_CARBON_DIOXIDE = words.word_set("co2 carbon")


def _check_required_properties(transition: Transition, output: MaterialView) -> Findings:
    """Yield a finding if a material in an incubator has no temperature or, in cell culture, no CO2 as a property."""
    missing = []
    # Some records state the temperature as the condition ("37C"), or in the notes of the step.
    notes = " ; ".join([output.name, *(seen.full_text[:600] for seen in transition.observations)])
    is_stated = _TEMPERATURE.search(str(output.raw.get("environmental_condition"))) or _TEMPERATURE.search(notes)
    if not is_stated and not any(
        leaf.parse_amount("temperature") or properties.is_temperature(leaf) for leaf in output.leaves
    ):
        missing.append("temperature")
    if output.condition == "cell_culture_conditions" and not output.all_words & _CARBON_DIOXIDE:
        missing.append("CO2")
    before = transition.find_input(output)
    if before is None and transition.action not in _CHANGES_CONDITION:
        # The parts of a plate stay in its incubator.
        before = next((view for view in transition.limited_inputs if view.condition == output.condition), None)
    # If the temperature was missing before this step, the step did not cause the fault.
    was_missing = (
        before is not None
        and before.condition == output.condition
        and before.temperature is None
        and transition.action not in _CHANGES_CONDITION
    )
    # A record without temperatures and conditions of the incubation leaves them to the settings of the incubator.
    was_missing |= (
        output.condition == "incubating_conditions"
        and not output.all_words & {"incubation", "incubated", "shaking", "humidity"}
        and bool(transition.parameters.list_values("temperature"))
        and not any(view.temperature for view in (*transition.inputs, *transition.outputs))
    )
    # A material that stays in its incubator need not repeat what that is set to.
    stays = before is not None and before.condition == output.condition
    # A statement that the material had before the step must not be dropped.
    was_stated = {
        "temperature": before is not None and before.temperature is not None,
        "CO2": before is not None and bool(before.all_words & _CARBON_DIOXIDE),
    }
    for quantity in missing:
        text = f"{output.name} is in {output.condition}, but its properties have no {quantity}"
        is_excused = (was_missing and quantity == "temperature") or (stays and not was_stated[quantity])
        build_finding = warning_finding if is_excused else error_finding
        yield build_finding("L14", output.name, f"a {quantity}", "none", text)


def _check_unexpected_move(transition: Transition, output: MaterialView) -> Findings:
    """Yield an error if a material is in the deep cold or an incubator after an action that puts nothing there."""
    needs_action = output.condition in (*words.FROZEN_CONDITIONS, *words.INCUBATORS)
    if not needs_action or transition.action in _CHANGES_CONDITION:
        return
    if transition.family in (words.MAKE, words.UNKNOWN):
        return
    before, leaves = transition.find_input(output), transition.parameters.leaves
    has_condition = before is not None and before.condition
    allowed = {before.condition} if before and has_condition else {view.condition for view in transition.inputs}
    is_heated = output.condition == "incubating_conditions" and any(map(properties.is_temperature, leaves))
    is_requested = any(words.parse_condition(leaf.value) == output.condition for leaf in leaves)
    if output.condition not in allowed and not is_heated and not is_requested and "" not in allowed:
        text = f"{output.name} is in {output.condition}, but {transition.action} does not put materials there"
        expected = " or ".join(sorted(allowed | {"room_temp"}))
        yield error_finding("L14", output.name, expected, output.condition, text)


def _check_target_condition(transition: Transition, output: MaterialView) -> Findings:
    """Yield a finding unless a stored, frozen or incubated material is where the action puts it."""
    before = transition.find_input(output)
    # What is left of a reagent that a parameter names stays where it was.
    if before is None or transition.parameters.has_named(before):
        return
    name, action, condition = output.name, transition.action, output.condition
    text = f"{name} is in {condition} after {action}"
    if action == "Storage" and (requested := _find_requested_condition(transition)):
        if condition != requested:
            yield error_finding("L14", name, requested, condition, f"{text} at {requested}")
    elif action in _FREEZING and condition not in _FREEZING[action]:
        yield error_finding("L14", name, " or ".join(_FREEZING[action]), condition, text)
    elif action in ("Incubate", "CellCultureIncubate"):
        temperatures = transition.parameters.list_values("temperature")
        if not temperatures and action == "Incubate":
            yield undecided_finding("L14", name, "no temperature is given")
        elif condition in words.FROZEN_CONDITIONS and all(value > 0 for value in temperatures):
            yield error_finding("L14", name, "an incubator or the bench", condition, text)


def _find_requested_condition(transition: Transition) -> str:
    """Return the storage condition that the parameters name or else imply by a temperature, or "" if it is unclear."""
    leaves = [leaf for leaf in transition.parameters.leaves if not leaf.word_set & {"before", "initial"}]
    conditions = {words.parse_condition(leaf.value) for leaf in leaves} - {""}
    if not conditions:
        shown = (f"{value.normalize():f}" for value in transition.parameters.list_values("temperature"))
        conditions = {_CONDITIONS_BY_TEMPERATURE[text] for text in shown if text in _CONDITIONS_BY_TEMPERATURE}
    return conditions.pop() if len(conditions) == 1 else ""


def check_physical_states(transition: Transition) -> Findings:
    """L06: yield an error if a material's state does not fit the action, or if a material changes state by itself."""
    source = flows.find_source(transition) if transition.family == words.MOVE else None
    # What the action pipettes, stirs or measures, without vessels and destinations.
    handled = [source] if source is not None else []
    if transition.family != words.MOVE and transition.action not in _ACCEPTS_FROZEN:
        handled = [view for view in transition.inputs if not view.is_empty_vessel]
    for view in handled:
        yield from _check_state(transition, view)
    for before, after in transition.list_kept_pairs():
        if before.phase and after.phase:
            yield from _check_phase_change(transition.action, before, after)
    for output in transition.usable_outputs:
        yield from _check_freezing(transition, output)
    for fill in flows.trace_liquids(transition).fills:
        contents = [part.source.phase for part in fill.parts if not part.source.is_empty_vessel]
        if fill.output.phase == SOLID and contents and all(phase in FLUID for phase in contents):
            text = f"{fill.output.name} is a solid, but it was made of liquids only"
            yield error_finding("L06", fill.output.name, "a liquid", "a solid", text)
    # A portion or the remainder of a dry solid is dry as well.
    for view in transition.usable_outputs if source is not None and source.phase == SOLID else ():
        input_view = transition.find_input(view)
        if source and (input_view is None or input_view is source or input_view.is_empty_vessel):
            text = f"{view.name} is {view.phase}, but {source.name} is solid and nothing dissolved it"
            yield from require("L06", view.phase not in FLUID, view.name, "a solid", view.phase, text)
    for output in flows.iter_new_outputs(transition) if transition.family == words.SERIAL else ():
        if output.phase in (SOLID, FROZEN):
            text = f"{output.name} is {output.phase} immediately after dilution"
            yield error_finding("L06", output.name, "a liquid", output.phase, text)


_ATTACHED = re.compile(r"\b(?:attached|adherent|monolayer)\b", re.IGNORECASE)
_DETACHED = re.compile(r"\b(?:detach\w*|trypsini[sz]ed|scraped|loosened|lifted|dislodged|suspension)\b", re.IGNORECASE)
_NOT_DETACHED = re.compile(
    r"\b(?:not|never|without|no|non)[- ](?:been )?(?:detach\w*|trypsin\w*|scrap\w*|lift\w*)", re.IGNORECASE
)
_IN_SUSPENSION = re.compile(r"\bin suspension\b|\bsingle cells\b|\bsuspended\b|\bcell suspension\b", re.IGNORECASE)


def check_attached_cells(transition: Transition) -> Findings:
    """L06: yield an error if attached cells that nothing detached are pipetted out of their vessel as a suspension."""
    source = flows.find_source(transition) if transition.family == words.MOVE else None
    if source is None or transition.parameters.find_moved_volume() is None:
        return
    text = _NOT_DETACHED.sub(
        "", f"{source.name} {' '.join(f'{leaf.key} {leaf.value_text}' for leaf in source.leaves)}"[:3000]
    )
    if not _ATTACHED.search(text) or _DETACHED.search(text):
        return
    for output in transition.usable_outputs:
        if transition.find_input(output) is None:
            described = f"{output.name} {' '.join(f'{leaf.key} {leaf.value_text}' for leaf in output.leaves)}"[:3000]
            holds = not _IN_SUSPENSION.search(described)
            message = f"the cells of {source.name} are attached, but {output.name} has them in suspension"
            yield from require("L06", holds, output.name, "cells that stay attached", "cells in suspension", message)


def _check_state(transition: Transition, view: MaterialView) -> Findings:
    name, phase, action = view.name, view.phase, transition.action
    if view.is_frozen is None:
        yield undecided_finding("L06", name, "whether it is frozen is not known")
    elif action not in _ACCEPTS_FROZEN:
        text = f"{name} is frozen at {view.condition} and was used without thawing"
        yield from require("L06", not view.is_frozen, name, "thawed", f"frozen at {view.condition}", text)
    draws_volume = transition.family == words.MOVE and transition.parameters.find_moved_volume() is not None
    if phase == ADHERENT and (action in _NEEDS_SUSPENSION or (action == "Transfer" and draws_volume)):
        text = f"the cells of {name} are attached, but {action} needs them in suspension"
        yield error_finding("L06", name, "cells in suspension", "attached cells", text)
    if phase == SOLID and (action in _NEEDS_LIQUID or draws_volume):
        yield error_finding("L06", name, "a liquid", "a solid", f"{name} is solid, but {action} needs a liquid")
    if phase in FLUID and action in _NEEDS_SOLID:
        yield error_finding("L06", name, "a solid", f"a {phase}", f"{name} is {phase}, but {action} needs a solid")


def _check_phase_change(action: str, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a liquid becomes solid, or a solid becomes liquid, in an action that cannot cause this."""
    yield Decided("L06")
    wet = (*FLUID, ADHERENT)
    if before.phase in wet and after.phase == SOLID and action not in _DRIES:
        text = f"{after.name} was {before.phase} and is {after.phase} after {action}, which cannot dry it"
        yield error_finding("L06", after.name, before.phase, after.phase, text)
    if before.phase == SOLID and after.phase in wet and action not in _DISSOLVES:
        text = f"{after.name} was solid and is {after.phase} after {action}, which cannot dissolve it"
        yield error_finding("L06", after.name, before.phase, after.phase, text)


def _check_freezing(transition: Transition, output: MaterialView) -> Findings:
    """Yield an error if a material cannot be frozen, or if a watery liquid stays liquid when put into the deep cold."""
    name, before = output.name, transition.find_input(output)
    if output.phase == FROZEN:
        was_frozen = before is not None and (before.phase == FROZEN or before.condition in FROZEN_CONDITIONS)
        # On ice or in the fridge a material may be frozen if it was not liquid there before.
        was_liquid_there = before is not None and before.condition == output.condition and before.phase in FLUID
        may_be_frozen = output.condition in ("ice", "4C") and not was_liquid_there
        is_warm = output.condition and output.condition not in FROZEN_CONDITIONS
        if is_warm and not was_frozen and not may_be_frozen:
            text = f"{name} is frozen at {output.condition}, but nothing froze it"
            yield error_finding("L06", name, "liquid", "frozen", text)
        if before is not None and flows.has_shrunk(before, output) and transition.family in _DRAWS_LIQUID:
            text = f"{name} is frozen, although a liquid was drawn from it in this step"
            yield error_finding("L06", name, "liquid", "frozen", text)
    # An input that was already liquid in the cold is an error of an earlier step.
    was_there = before is not None and before.condition == output.condition
    stays_liquid = was_there or output.all_words & _STAYS_LIQUID
    if output.phase in FLUID and output.condition in ("-80C", "-196C", "dry_ice") and not stays_liquid:
        yield error_finding("L06", name, "frozen", output.phase, f"{name} is {output.phase} at {output.condition}")
