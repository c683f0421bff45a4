"""L16: settings that the outcome mentions have the values that the action set."""

from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.amounts import balance, totals
from simulation.checker.findings import Decided, Findings
from simulation.checker.reading import flows, property_meaning, units, vocabulary, words
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.checker.records import optics, sentences, setting_names

# Words for materials of a wash or elution that are not the washed sample.
_WASH_AGENTS = words.SOLVENTS | word_set("wash washing elution eluent eluant replacement")
# Actions that keep a material at the temperature they set.
_TEMPERED_ACTIONS = word_set("Incubate CellCultureIncubate Wait")
# In a property with one of these words, "300 g" is a force.
_CENTRIFUGE_WORDS = word_set("spin spun centrifugation centrifuged centrifuge rcf force speed")
_SET_DIMENSIONS = ("centrifugal_force", "rotation")
# Only these keys give the duration of the action; others may be an age or a doubling time.
_DURATION_KEYS = (frozenset({"duration"}), frozenset({"incubation", "time"}), frozenset({"incubation", "duration"}), frozenset({"spin", "time"}),
                  frozenset({"mixing", "time"}), frozenset({"centrifugation", "time"}), frozenset({"treatment", "time"}))  # fmt: skip


def check_settings(transition: Transition) -> Findings:
    """L16: check volumes, temperatures, optics, other amounts, and all settings that the outcome names."""
    if not transition.is_success:
        return
    yield from _check_volumes(transition)
    yield from _check_temperatures(transition)
    yield from optics.check_optics(transition)
    yield from _check_by_dimension(transition)
    for name, value in setting_names.iter_settings(transition):
        for seen in transition.observations:
            yield from setting_names.check_recorded_setting(transition, name, value, seen)
        for view in transition.usable_outputs:
            yield from setting_names.check_property_setting(transition, name, value, view)
            yield from setting_names.check_chosen_option(transition, name, value, view)


def _check_volumes(transition: Transition) -> Findings:
    """Yield an error if the volume in a vessel is not the one that the parameters determine."""
    for fill in flows.trace_liquids(transition).fills:
        if not fill.is_stated or fill.total_volume is None or fill.output.volume is None:
            continue
        yield Decided("L16", quantity=True)
        volume_before = fill.parts[0].volume if len(fill.parts) > 1 else Decimal(0)
        added_volume = fill.total_volume - (volume_before or 0)
        tolerance = (
            added_volume * balance.PIPETTING + fill.total_volume * Decimal("0.02") + totals.rounding_slack(fill.output)
        )
        if abs(fill.output.volume.value - fill.total_volume) > tolerance:
            yield optics.setting_error(
                "L16",
                fill.output.name,
                totals.format_volume(fill.total_volume),
                totals.format_volume(fill.output.volume.value),
            )
    # For these actions: the word in the name of the parameter that states the final volume of the sample.
    volume_word = {"Wash": "replacement", "AttemptDNAExtraction": "elution", "SolidPhaseExtraction": "elution"}.get(
        transition.action, ""
    )
    set_volumes = [a for leaf, a in transition.parameters.list_amounts("volume") if volume_word in leaf.words]
    for before, after in transition.list_pairs() if len(set_volumes) == 1 else ():
        is_agent = any(before is view for view in transition.parameters.materials_by_key.values()) or (
            before.liquid_volume is not None
            and after.liquid_volume is not None
            and bool(_WASH_AGENTS & set(before.name_words))
        )
        if after.volume is None or is_agent or before.is_unlimited or after.is_used_up:
            continue
        yield Decided("L16", quantity=True)
        if abs(after.volume.value - set_volumes[0].value) > set_volumes[
            0
        ].value * balance.PIPETTING + totals.rounding_slack(after):
            yield optics.setting_error(
                "L16", after.name, totals.format_volume(set_volumes[0].value), totals.format_volume(after.volume.value)
            )


def _check_temperatures(transition: Transition) -> Findings:
    """Yield an error if an incubated material has, or this step writes, a temperature that was not set."""
    set_values = [amount.value for _, amount in optics.list_settings(transition, "temperature")]
    if not set_values:
        return
    for before, after in transition.list_pairs():
        if after.temperature is None or after.is_used_up:
            continue
        is_changed = before.temperature is None or before.temperature.value != after.temperature.value
        is_tempered = transition.action in _TEMPERED_ACTIONS and after.condition in (
            "incubating_conditions",
            "cell_culture_conditions",
        )
        # A material that is back in storage, or at 15 to 26 °C, has cooled down or warmed up since the action.
        low, high = vocabulary.TEMPERATURES.get(after.condition, (0, 0))
        fits_storage = (
            not is_tempered
            and after.condition not in vocabulary.INCUBATORS
            and low <= after.temperature.value <= min(high, 26)
        )
        if not (is_changed or is_tempered) or fits_storage or (not is_tempered and 15 <= after.temperature.value <= 26):
            continue
        yield Decided("L16", quantity=True)
        if all(abs(value - after.temperature.value) > 1 for value in set_values):
            yield optics.setting_error(
                "L16",
                after.name,
                units.format_value(set_values[0], "temperature"),
                units.format_value(after.temperature.value, "temperature"),
            )


def _check_by_dimension(transition: Transition) -> Findings:
    """Yield an error if a material or record mentions a force, speed, pore size or duration that was not set."""
    for dimension in _SET_DIMENSIONS:
        set_values = {a.value for _, a in optics.list_settings(transition, dimension)}
        if dimension == "centrifugal_force" and transition.action == "Centrifuge":
            set_values |= {
                a.value for leaf in transition.parameters.leaves for a in sentences.find_forces(leaf.value_text)
            }
        for subject, amount in _iter_mentions(transition, dimension) if set_values else ():
            yield Decided("L16", quantity=True)
            if all(abs(amount.value - value) > value / 50 for value in set_values):
                yield optics.setting_error(
                    "L16",
                    subject,
                    units.format_value(min(set_values), dimension),
                    units.format_value(amount.value, dimension),
                )
    if transition.action == "Filter":
        # Pores are smaller than 1 mm; larger lengths are those of membranes and columns.
        set_values = {a.value for _, a in optics.list_settings(transition, "length") if a.value < 1}
        for subject, amount in _iter_mentions(transition, "length") if set_values else ():
            yield Decided("L16", quantity=True)
            if amount.value < 1 and amount.value not in set_values:
                yield optics.setting_error(
                    "L16",
                    subject,
                    units.format_value(min(set_values), "length"),
                    units.format_value(amount.value, "length"),
                )
    yield from _check_durations(transition)


def _check_durations(transition: Transition) -> Findings:
    set_values = {a.value for _, a in transition.parameters.list_amounts("duration")}
    if not set_values:
        return
    properties_before = {(leaf.key, leaf.value_text) for view in transition.inputs for leaf in view.leaves}
    for view in transition.usable_outputs:
        for leaf in view.leaves:
            duration = leaf.parse_amount("duration") if any(set(leaf.words) == key for key in _DURATION_KEYS) else None
            if duration is None or (leaf.key, leaf.value_text) in properties_before:
                continue
            yield Decided("L16", quantity=True)
            if all(abs(duration.value - value) > value / 20 for value in set_values):
                yield optics.setting_error(
                    "L16",
                    view.name,
                    units.format_value(min(set_values), "duration"),
                    units.format_value(duration.value, "duration"),
                )


def _iter_mentions(transition: Transition, dimension: str) -> Iterator[tuple[str, Amount]]:
    """Yield (subject, amount) of every amount of a dimension in properties and observations that this step wrote."""
    input_texts = transition.input_texts
    for view in transition.usable_outputs:
        for leaf in view.leaves:
            if (
                leaf.value_text not in input_texts
                and dimension == "centrifugal_force"
                and set(leaf.words) & _CENTRIFUGE_WORDS
            ):
                yield from ((view.name, amount) for amount in sentences.find_forces(leaf.value_text))
            if leaf.value_text not in input_texts and not property_meaning.is_temperature(leaf):
                for amount in (
                    [leaf.parse_amount(dimension)]
                    if leaf.parse_amount(dimension)
                    else sentences.find_amounts(leaf.value_text, dimension)
                ):
                    if amount:
                        yield view.name, amount
    # An observation may repeat amounts of the inputs, which are no settings of this step.
    known_values = {amount.value for text in input_texts for amount in sentences.find_amounts(text, dimension)}
    for seen in transition.observations:
        for amount in sentences.find_amounts(seen.full_text, dimension):
            if amount.value not in known_values:
                yield seen.path, amount
