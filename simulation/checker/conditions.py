"""L13 and L14: times, growth and storage conditions."""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from simulation.checker import weights
from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding, warning_finding
from simulation.checker.reading import families, properties, units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

# Actions that may put a material into another storage condition than its own or that of the bench.
_CHANGES_CONDITION = word_set(
    "Storage Incubate CellCultureIncubate FlashFreeze FreezeCells Lyophilize Thermocycler Wait Autoclave Microwave DryingOven "
    "Desiccate Evaporate Dialysis ManifestMaterials SubmitMaterialsObservationsForReview Quit Discard"
)
# Conditions in which a material can be after these actions.
_FREEZING = {"FlashFreeze": ("-196C", "-80C", "dry_ice"), "FreezeCells": ("-196C", "-80C", "dry_ice", "-20C")}
_CARBON_DIOXIDE = frozenset({"co2", "carbon"})


def check_storage_conditions(transition: Transition) -> Findings:
    """L14: check the storage condition of every output that is available for further use."""
    if not transition.is_success:
        return
    for output in transition.usable_outputs:
        if output.condition:
            yield Decided("L14")
            yield from _check_required_properties(transition, output)
            yield from _check_temperature(output)
            yield from _check_unexpected_move(transition, output)
            yield from _check_target_condition(transition, output)


def _check_required_properties(transition: Transition, output: MaterialView) -> Findings:
    """Yield a finding if a material in an incubator has no temperature or, in cell culture, no CO2 as a property."""
    if output.condition not in words.INCUBATORS:
        return
    missing = []
    if not any(leaf.parse_amount("temperature") for leaf in output.leaves) and not any(
        properties.is_temperature(leaf) for leaf in output.leaves
    ):
        missing.append("temperature")
    if output.condition == "cell_culture_conditions" and not output.all_words & _CARBON_DIOXIDE:
        missing.append("CO2")
    before = transition.find_input(output)
    for quantity in missing:
        text = f"{output.name} is in {output.condition}, but its properties have no {quantity}"
        # If the property was missing before this step, the step did not cause the fault.
        was_there_before = (
            before is not None and before.condition == output.condition and transition.action not in _CHANGES_CONDITION
        )
        if was_there_before and before is not None and quantity == "temperature" and before.temperature is None:
            yield warning_finding("L14", output.name, f"a {quantity}", "none", text)
        else:
            yield error_finding("L14", output.name, f"a {quantity}", "none", text)


def _check_temperature(output: MaterialView) -> Findings:
    if output.temperature is None:
        return
    low, high = words.TEMPERATURES[output.condition]
    yield Decided("L14")
    if not low <= output.temperature.value <= high:
        temperature_text = units.format_value(output.temperature.value, "temperature")
        yield error_finding(
            "L14",
            output.name,
            f"{low} to {high} °C",
            temperature_text,
            f"{output.name} is at {temperature_text} in {output.condition}",
        )


def _check_unexpected_move(transition: Transition, output: MaterialView) -> Findings:
    """Yield an error if a material is in the deep cold or an incubator after an action that puts nothing there."""
    if transition.action in _CHANGES_CONDITION or transition.family in (families.MAKE, families.UNKNOWN):
        return
    input_conditions = {view.condition for view in transition.inputs}
    before = transition.find_input(output)
    allowed = {before.condition} if before is not None and before.condition else input_conditions
    is_heated = (
        any(properties.is_temperature(leaf) for leaf in transition.parameters.leaves)
        and output.condition == "incubating_conditions"
    )
    is_requested = any(words.parse_condition(leaf.value) == output.condition for leaf in transition.parameters.leaves)
    needs_action = output.condition in (*words.FROZEN_CONDITIONS, *words.INCUBATORS)
    if needs_action and output.condition not in allowed and not is_heated and not is_requested and "" not in allowed:
        yield error_finding("L14", output.name, " or ".join(sorted(allowed | {"room_temp"})), output.condition,
                    f"{output.name} is in {output.condition}, but {transition.action} does not put materials there")  # fmt: skip


def _check_target_condition(transition: Transition, output: MaterialView) -> Findings:
    """Yield an error unless a stored, frozen or incubated material is where the action puts it."""
    before = transition.find_input(output)
    if before is None:
        return
    statement = f"{output.name} is in {output.condition} after {transition.action}"
    if transition.action == "Storage" and (requested := _find_requested_condition(transition)):
        if output.condition != requested:
            yield error_finding("L14", output.name, requested, output.condition, f"{statement} at {requested}")
    elif transition.action in _FREEZING and output.condition not in _FREEZING[transition.action]:
        yield error_finding("L14", output.name, " or ".join(_FREEZING[transition.action]), output.condition, statement)
    elif transition.action in ("Incubate", "CellCultureIncubate"):
        yield from _check_incubation(transition, output, statement)


def _check_incubation(transition: Transition, output: MaterialView, statement: str) -> Findings:
    temperatures = [amount.value for leaf, amount in transition.parameters.list_amounts("temperature")]
    if not temperatures and transition.action == "Incubate":
        yield undecided_finding("L14", output.name, "no temperature is given")
    elif output.condition in words.FROZEN_CONDITIONS and all(value > 0 for value in temperatures):
        yield error_finding("L14", output.name, "an incubator or the bench", output.condition, statement)


def _find_requested_condition(transition: Transition) -> str:
    """Return the storage condition that the parameters name or else imply by a temperature, or "" if it is unclear."""
    conditions_found = {
        condition_found
        for leaf in transition.parameters.leaves
        if (condition_found := words.parse_condition(leaf.value)) and not set(leaf.words) & {"before", "initial"}
    }
    if not conditions_found:
        conditions_by_temperature = {"4": "4C", "-20": "-20C", "-80": "-80C", "-196": "-196C"}
        conditions_found = {
            conditions_by_temperature[key]
            for _, a in transition.parameters.list_amounts("temperature")
            if (key := f"{a.value.normalize():f}") in conditions_by_temperature
        }
    return conditions_found.pop() if len(conditions_found) == 1 else ""


_DURATION_TOLERANCE = Decimal("1.02")  # factor of the duration set: rounding of hours and minutes
# Shortest plausible doubling times in seconds.
_MIN_DOUBLING_TIME = Decimal(900)  # 15 min: the fastest bacteria
_MIN_ANIMAL_DOUBLING_TIME = Decimal(28800)  # 8 h
_ANIMAL = word_set(
    "hek293t hek293 hek hela cho neuron mammalian fibroblast nih3t3 cos7 u2os jurkat astrocyte human mouse"
)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")


def check_times(transition: Transition) -> Findings:
    """L13: check creation and modification times, durations and growth."""
    for view in (*transition.inputs, *transition.outputs):
        created, modified = _parse_time(view.raw, "created_at"), _parse_time(view.raw, "last_modified")
        if (is_wrong := _is_earlier(modified, created)) is not None:
            yield Decided("L13")
            if is_wrong:
                yield error_finding(
                    "L13",
                    view.name,
                    "changed after it was created",
                    "before",
                    f"{view.name} was last changed before it was created",
                )
    for before, after in transition.list_pairs():
        yield from _check_order(before, after)
    last_changes = [
        time for view in transition.inputs if isinstance(time := _parse_time(view.raw, "last_modified"), datetime)
    ]
    for seen in transition.observations:
        timestamp = _parse_time(seen.raw, "timestamp")
        if isinstance(timestamp, datetime) and last_changes:
            yield Decided("L13")
            if timestamp < max(last_changes):
                yield error_finding(
                    "L13",
                    seen.path,
                    "after the previous step",
                    str(timestamp)[:19],
                    f"{seen.path} was recorded before its materials were last changed",
                )
    if transition.is_success:
        yield from _check_durations(transition)
        yield from _check_growth(transition)


def _check_order(before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if the creation or modification time of a continued material is earlier than before the step."""
    created_before, created_after = _parse_time(before.raw, "created_at"), _parse_time(after.raw, "created_at")
    if (is_earlier := _is_earlier(created_after, created_before)) is not None:
        yield Decided("L13")
        if is_earlier:
            yield error_finding(
                "L13",
                after.name,
                str(created_before),
                str(created_after),
                f"{after.name} has an earlier creation time than before this step",
            )
    modified_before, modified_after = _parse_time(before.raw, "last_modified"), _parse_time(after.raw, "last_modified")
    if (is_earlier_change := _is_earlier(modified_after, modified_before)) is not None:
        yield Decided("L13")
        if is_earlier_change:
            yield error_finding(
                "L13",
                after.name,
                f"{modified_before} or later",
                str(modified_after),
                f"{after.name} has an earlier modification time than before this step",
            )


def _is_earlier(first: Decimal | datetime | None, second: Decimal | datetime | None) -> bool | None:
    """Return whether the first time is before the second, or None if they cannot be compared."""
    if isinstance(first, Decimal) and isinstance(second, Decimal):
        return first < second
    if isinstance(first, datetime) and isinstance(second, datetime):
        return first < second
    return None


def _check_durations(transition: Transition) -> Findings:
    """Yield an error if this step writes a duration that is longer than the action lasted."""
    durations = [a.value for _, a in transition.parameters.list_amounts("duration")]
    properties_before = {(leaf.key, leaf.value_text) for view in transition.inputs for leaf in view.leaves}
    for view in transition.usable_outputs if durations else ():
        for leaf in view.leaves:
            key_words = set(leaf.words)
            duration = leaf.parse_amount("duration")
            if (
                duration is None
                or (leaf.key, leaf.value_text) in properties_before
                or not key_words & {"duration", "incubated", "elapsed", "incubation"}
            ):
                continue
            yield Decided("L13")
            if duration.value > sum(durations) * _DURATION_TOLERANCE and not key_words & {"total", "cumulative"}:
                yield error_finding("L13", view.name, f"at most {units.format_value(sum(durations, Decimal(0)), 'duration')}", units.format_value(duration.value, "duration"),
                            f"{leaf.key} of {view.name} is longer than the action lasted")  # fmt: skip


def _check_growth(transition: Transition) -> Findings:
    """Yield an error if cells grow faster than their declared, or else the shortest plausible, doubling time allows."""
    if transition.family not in (families.HEAT, families.INERT) or transition.action in (
        "Centrifuge",
        "Thermocycler",
        "Autoclave",
    ):
        return
    durations = [
        a.value
        for leaf, a in transition.parameters.list_amounts("duration")
        if not {"lag", "interval"} & set(leaf.words)
    ]
    for before, after in transition.list_pairs():
        cells_before, cells_after = _find_cell_amount(before), _find_cell_amount(after)
        if (
            cells_before is None
            or cells_after is None
            or cells_before.dimension != cells_after.dimension
            or cells_before.value <= 0
            or cells_after.value <= cells_before.value * Decimal("1.05")
        ):
            continue
        if not durations:
            yield undecided_finding("L13", after.name, "its time of growth is not stated")
            continue
        doubling_time, is_declared = _find_doubling_time(before)
        yield Decided("L13")
        # A limit of 60 keeps the power within Decimal; 2^60 cells weigh more than any vessel holds.
        generations = min(Decimal(60), max(durations) / doubling_time)
        maximum = cells_before.value * Decimal(2) ** generations * Decimal("1.15")  # 15 %: error of counting
        if cells_after.value > maximum:
            limit_text = "at the declared doubling time" if is_declared else "at the fastest growth possible"
            yield error_finding("L13", after.name, f"at most {units.format_value(maximum, 'number_density')}", units.format_value(cells_after.value, cells_before.dimension),
                        f"{after.name} grew more than it can in {units.format_value(max(durations), 'duration')} {limit_text}")  # fmt: skip


def _find_cell_amount(view: MaterialView) -> Amount | None:
    return view.concentrations.get("cell") or weights.find_counted_amounts(view).get("cell")


def _find_doubling_time(view: MaterialView) -> tuple[Decimal, bool]:
    """Return (doubling time in seconds, whether the material declares it). The default is the shortest plausible."""
    for leaf in view.leaves:
        if (
            {"doubling", "generation"} & set(leaf.words)
            and (amount := leaf.parse_amount("duration"))
            and amount.value > 0
        ):
            return amount.value, True
    return (_MIN_ANIMAL_DOUBLING_TIME if view.all_words & _ANIMAL else _MIN_DOUBLING_TIME), False


def _parse_time(raw: Mapping[str, Any], key: str) -> Decimal | datetime | None:
    """Return a time in seconds or as a date with a time of day, or None for anything that cannot be compared."""
    value = raw.get(key)
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and _ISO.match(value):
        try:
            # Without the zone: Python cannot compare a date that has one with a date that has none.
            return datetime.fromisoformat(value[:32].replace("Z", "")).replace(tzinfo=None)
        except ValueError:
            return None
    if isinstance(value, int | float) and key != "timestamp":
        return units.parse_number(value)
    amount = units.parse_amount(value) if isinstance(value, str) else None
    return amount.value if amount and amount.dimension == "duration" and key != "timestamp" else None
