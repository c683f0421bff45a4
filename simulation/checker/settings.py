"""L16: settings that the outcome mentions have the values that the action set."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from simulation.checker import volumes
from simulation.checker.findings import Decided, Finding, Findings, error_finding
from simulation.checker.reading import families, flows, properties, units, words
from simulation.checker.reading.properties import Leaf, MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

# A number before a unit; not part of a range, ratio, date or version.
_NUMBER = re.compile(r"(?<![\w.,:/-])-?[0-9]{1,9}(?:\.[0-9]{1,6})?\s?(?=[A-Za-z°µμ%])")
# "300g" of a centrifuge; one digit would be grams.
_G_FORCE = re.compile(r"(?<![\w.,:/-])([0-9]{2,6})\s?g(?![\w/])")
_MOVED = re.compile(r"\b(?:transferred|dispensed|aliquoted|pipetted|moved)\b", re.IGNORECASE)
# "incubated at 37 °C for 2 h": the duration is that of the action.
_DURATION_PHRASE = re.compile(
    r"\b(?:incubated|mixed|spun|centrifuged|waited|heated|stirred|shaken|vortexed|held|incubation|spin|cultured)\b[^.;]{0,20}?\bfor\s",
    re.IGNORECASE,
)
_AFTER_PHRASE = re.compile(r"\bafter\b", re.IGNORECASE)
_CYCLES = re.compile(r"(?<![\w.])([0-9]{1,3}) (?:PCR |thermal |amplification |wash )?cycles\b")
_TIMED_ACTIONS = ("Incubate", "CellCultureIncubate", "Mix", "Centrifuge", "Wait")
_INCUBATING_ACTIONS = ("Incubate", "CellCultureIncubate")


def check_sentences(transition: Transition) -> Findings:
    """L16: yield an error if volumes, cycles, durations or temperatures in sentences are not those that were set."""
    if not transition.is_success:
        return
    for seen in transition.observations:
        yield from _check_moved_volume(transition, seen)
        yield from _check_cycles(transition, seen)
        if transition.action in _TIMED_ACTIONS:
            yield from _check_sentence_duration(transition, seen)
        if transition.action in _INCUBATING_ACTIONS:
            yield from _check_shown_temperature(transition, seen)


def _check_moved_volume(transition: Transition, seen: ObservationView) -> Findings:
    """Yield an error if the only volume in a sentence about moving is neither a setting nor a known volume."""
    moved_volume = transition.parameters.find_moved_volume()
    volumes = units.find_amounts(seen.description, "volume")
    if (
        moved_volume is None
        or transition.family != families.MOVE
        or len(volumes) != 1
        or not _MOVED.search(seen.description)
    ):
        return
    known_volumes = [moved_volume.value, *transition.parameters.list_values("volume")]
    known_volumes += [
        view.liquid_volume for view in (*transition.inputs, *transition.outputs) if view.liquid_volume is not None
    ]
    known_volumes += [draw.volume for draw in flows.trace_liquids(transition).withdrawals if draw.volume is not None]
    yield Decided("L16", quantity=True)
    if all(abs(volumes[0].value - value) > value / 50 for value in known_volumes):
        yield _mismatch_error(seen, moved_volume, volumes[0])


def _check_cycles(transition: Transition, seen: ObservationView) -> Findings:
    set_counts = [
        n
        for leaf in transition.parameters.leaves
        if set(leaf.words) <= {"cycle", "number", "of", "num", "pcr", "n"}
        and "cycle" in leaf.words
        and (n := units.parse_number(leaf.value))
    ]
    recorded_counts = [Decimal(number) for number in _CYCLES.findall(seen.full_text[:1500])]
    if len(set_counts) == 1 and recorded_counts:
        yield Decided("L16", quantity=True)
        if set_counts[0] not in recorded_counts:
            yield error_finding(
                "L16",
                seen.path,
                f"{set_counts[0]} cycles",
                f"{recorded_counts[0]} cycles",
                f"{set_counts[0]} cycles were set, but {recorded_counts[0]} are recorded",
            )


def _check_sentence_duration(transition: Transition, seen: ObservationView) -> Findings:
    """Yield an error if "incubated for" does not give the duration that was set, or "after" gives a longer one."""
    set_durations = [amount for leaf, amount in transition.parameters.list_amounts("duration")]
    if len(set_durations) != 1:
        return
    for pattern, later_only in ((_DURATION_PHRASE, False), (_AFTER_PHRASE, True)):
        found = pattern.search(seen.full_text[:1500])
        recorded = units.find_amounts(seen.full_text[found.end() : found.end() + 60], "duration")[:1] if found else []
        for duration in recorded:
            yield Decided("L16", quantity=True)
            difference = duration.value - set_durations[0].value
            if difference > set_durations[0].value / 20 or (
                not later_only and -difference > set_durations[0].value / 20
            ):
                yield _mismatch_error(seen, set_durations[0], duration)
                return


def _check_shown_temperature(transition: Transition, seen: ObservationView) -> Findings:
    """Yield an error if the temperature shown by an incubator is not the one that was set."""
    set_temperatures = [amount for _, amount in transition.parameters.list_amounts("temperature")]
    recorded = units.parse_amount(seen.value)
    if not set_temperatures or recorded is None or recorded.dimension != "temperature":
        return
    yield Decided("L16", quantity=True)
    # 3 °C: an incubator regulates, and doors are opened.
    if all(abs(recorded.value - amount.value) > 3 for amount in set_temperatures):
        yield _mismatch_error(seen, set_temperatures[0], recorded)


def _mismatch_error(seen: ObservationView, set_amount: Amount, recorded_amount: Amount) -> Finding:
    set_text, recorded_text = (
        units.format_value(set_amount.value, set_amount.dimension),
        units.format_value(recorded_amount.value, recorded_amount.dimension),
    )
    return error_finding(
        "L16", seen.path, set_text, recorded_text, f"the action set {set_text}, but {seen.path} has {recorded_text}"
    )


# "20x" but not "1:20x" or "2x-concentrated".
_MAGNIFICATION = re.compile(r"(?<![\w.:])([0-9]{1,3})\s?[x×X](?![\w-])")
_FILTER_BAND = re.compile(r"(?<![0-9])([2-9][0-9]{2})(?![0-9])")
_MAGNIFIES = ("UseMicroscope", "ImageSample", "ImageColonies")
# Words for lengths in nm that are not settings: peaks of a spectrum, sizes of particles.
_OTHER_LENGTHS = re.compile(
    r"\bpeak(?:s|ing)? (?:at|near|wavelength|absor|emission)|\b(?:maxim\w*|λ|spectr\w*|scan\w*|shift\w*|diameter|size|thick\w*)\b",
    re.IGNORECASE,
)


def check_optics(transition: Transition) -> Findings:
    """L16: yield an error if the recorded objective or wavelengths are not those that were set."""
    input_text = " ".join(
        [
            *(view.name for view in transition.inputs),
            *(leaf.value_text for view in transition.inputs for leaf in view.leaves),
        ]
    )
    if transition.action in _MAGNIFIES:
        set_magnifications = {found for leaf in transition.parameters.leaves for found in _iter_magnifications(leaf)}
        for seen in transition.observations if set_magnifications else ():
            recorded = set(_MAGNIFICATION.findall(seen.full_text[:2000])) - set(_MAGNIFICATION.findall(input_text))
            yield Decided("L16")
            if recorded and not recorded & set_magnifications:
                yield setting_error("L16", seen.path, f"{sorted(set_magnifications)[0]}x", f"{sorted(recorded)[0]}x")
    # Below 2 µm: wavelengths, not path lengths or pore sizes. Lengths are in mm.
    set_lengths = {a.value for leaf, a in transition.list_settings("length") if a.value < Decimal("0.002")}
    for seen in transition.observations if set_lengths and transition.family in families.MEASUREMENTS else ():
        recorded_lengths = {
            a.value
            for a in units.find_amounts(seen.full_text, "length")
            if a.value < Decimal("0.002") and "nm" in a.text
        }
        known_lengths = {a.value for a in units.find_amounts(input_text, "length")} | _find_filter_bands(transition)
        if recorded_lengths and not _OTHER_LENGTHS.search(seen.full_text):
            yield Decided("L16", quantity=True)
            if wrong_lengths := recorded_lengths - set_lengths - known_lengths:
                yield setting_error("L16", seen.path, _format_lengths(set_lengths), _format_lengths(wrong_lengths))


def _find_filter_bands(transition: Transition) -> set[Decimal]:
    """Return, in mm, the wavelengths in the names of filters. The name 530/30 gives the centre and the width in nm."""
    texts = " ".join(leaf.value_text for leaf in transition.parameters.leaves)
    return {Decimal(number) / 1_000_000 for number in _FILTER_BAND.findall(texts)}


def _iter_magnifications(leaf: Leaf) -> Iterator[str]:
    yield from _MAGNIFICATION.findall(leaf.value_text)
    if {"objective", "magnification"} & set(leaf.words) and leaf.value_text.strip().isdigit():
        yield leaf.value_text.strip()


def _format_lengths(lengths: set[Decimal]) -> str:
    return ", ".join(sorted(units.format_value(value, "length") for value in lengths))[:80]


def setting_error(code: str, subject: str, set_value: str, recorded_value: str) -> Any:
    return error_finding(
        code, subject, set_value, recorded_value, f"the action set {set_value}, but {subject} has {recorded_value}"
    )


def check_recorded_setting(transition: Transition, name: str, value: Any, seen: ObservationView) -> Findings:
    """Yield an error if a record names a setting and gives another value than the one that was set."""
    position = seen.description.lower().find(f" {name} ")
    # The name of the setting may be part of a material's name; 100 names limit the time on hostile input.
    if position < 0 or any(name in view.name.lower() for view in transition.inputs[:100]):
        return
    recorded_text = (
        seen.description[position + len(name) + 2 :][:60]
        .lstrip(":= ")
        .removeprefix("of ")
        .removeprefix("was ")
        .removeprefix("is ")
        .removeprefix("set to ")
    )
    set_amount, recorded_amount = units.parse_amount(value), units.parse_amount(recorded_text)
    if set_amount and recorded_amount and set_amount.dimension == recorded_amount.dimension:
        yield Decided("L16", quantity=True)
        # 1 %: a record repeats the setting, it does not measure it.
        if abs(set_amount.value - recorded_amount.value) > abs(set_amount.value) / 100 + set_amount.step / 100:
            yield setting_error("L16", seen.path, f"{name} {str(value)[:40]}", f"{name} {recorded_text[:30]}")
    elif isinstance(value, str) and (other_options := _list_other_options(transition, name, value)):
        yield Decided("L16")
        other_option = next((o for o in other_options if recorded_text.lower().startswith(o.lower())), "")
        if not recorded_text.lower().startswith(value.lower()) and other_option:
            yield setting_error("L16", seen.path, f"{name} {value[:40]}", f"{name} {other_option[:40]}")


def check_property_setting(transition: Transition, name: str, value: Any, view: MaterialView) -> Findings:
    """Yield an error if a property that this step wrote has the name of a setting but another value."""
    key_words = frozenset(words.tokenize(name))
    # These names are common to settings and materials and mean different things there.
    if key_words & {
        "volume",
        "amount",
        "mass",
        "temperature",
        "concentration",
        "time",
        "duration",
        "source",
        "name",
        "label",
        "container",
        "count",
    }:
        return
    set_amount = units.parse_amount(value)
    before = transition.find_input(view)
    old_texts = {leaf.value_text for leaf in before.leaves if frozenset(leaf.words) == key_words} if before else set()
    for leaf in view.leaves:
        if frozenset(leaf.words) != key_words or leaf.value_text in old_texts:
            continue
        property_amount = leaf.parse_amount()
        if set_amount and property_amount and set_amount.dimension == property_amount.dimension:
            yield Decided("L16", quantity=True)
            if abs(set_amount.value - property_amount.value) > abs(set_amount.value) / 50:
                yield setting_error("L16", view.name, f"{name} {str(value)[:40]}", f"{name} {leaf.value_text[:40]}")
        elif (
            isinstance(value, str)
            and leaf.value_text
            and set_amount is None
            and not set(words.tokenize(value)) & set(words.tokenize(leaf.value_text))
        ):
            options = _list_other_options(transition, name, value)
            if any(option.lower() == leaf.value_text.lower() for option in options):
                yield setting_error("L16", view.name, f"{name} {value[:40]}", f"{name} {leaf.value_text[:40]}")


def check_chosen_option(transition: Transition, name: str, value: Any, view: MaterialView) -> Findings:
    """Yield an error if a property that this step wrote has another option than the one that was chosen."""
    options = (
        # Short options are parts of other words.
        [option for option in _list_other_options(transition, name, value) if len(option) > 2]
        if isinstance(value, str)
        else []
    )
    input_texts = transition.input_texts
    for leaf in view.leaves if options else ():
        property_text = f" {leaf.value_text.lower()} "
        if (
            leaf.value_text in input_texts
            or f" {str(value).lower()} " in property_text
            or set(leaf.words) & {"medium", "container", "phase", "label"}
        ):
            continue
        is_about_setting = "through" in leaf.words or set(words.tokenize(name)) & set(leaf.words)
        other_option = next((option for option in options if f" {option.lower()} " in property_text), "")
        if is_about_setting and other_option:
            yield setting_error("L16", view.name, f"{name} {value}", f"{name} {other_option}")


def iter_settings(transition: Transition) -> Iterator[tuple[str, Any]]:
    """Yield (name in words, value) of every parameter set, and of the defaults of those not set."""
    for leaf in transition.parameters.leaves:
        # A record may give any of several values under one name, so it cannot contradict them.
        has_several = "#" in leaf.words or (isinstance(leaf.value, str) and "," in leaf.value)
        if isinstance(leaf.value, str | int | float) and not isinstance(leaf.value, bool) and not has_several:
            yield leaf.key.replace("_", " ").lower(), leaf.value
    if transition.action_type is not None:
        for parameter in transition.action_type.parameters:
            if parameter.default is not None and parameter.name not in transition.parameters.raw:
                yield parameter.name.replace("_", " "), parameter.default


def _list_other_options(transition: Transition, name: str, value: str) -> list[str]:
    """Return the options of a parameter other than `value`, or none if the catalogue does not have the parameter."""
    kind = transition.action_type
    parameters = [p for p in kind.parameters if p.name.replace("_", " ") == name] if kind else []
    return [option for p in parameters for option in p.options if option.lower() != value.lower()]


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
    yield from check_optics(transition)
    yield from _check_by_dimension(transition)
    for name, value in iter_settings(transition):
        for seen in transition.observations:
            yield from check_recorded_setting(transition, name, value, seen)
        for view in transition.usable_outputs:
            yield from check_property_setting(transition, name, value, view)
            yield from check_chosen_option(transition, name, value, view)


def _check_volumes(transition: Transition) -> Findings:
    """Yield an error if the volume in a vessel is not the one that the parameters determine."""
    for fill in flows.trace_liquids(transition).fills:
        if not fill.is_stated or fill.total_volume is None or fill.output.volume is None:
            continue
        yield Decided("L16", quantity=True)
        volume_before = fill.parts[0].volume if len(fill.parts) > 1 else Decimal(0)
        added_volume = fill.total_volume - (volume_before or 0)
        tolerance = (
            added_volume * volumes.PIPETTING + fill.total_volume * Decimal("0.02") + volumes.rounding_slack(fill.output)
        )
        if abs(fill.output.volume.value - fill.total_volume) > tolerance:
            yield setting_error(
                "L16",
                fill.output.name,
                volumes.format_volume(fill.total_volume),
                volumes.format_volume(fill.output.volume.value),
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
        ].value * volumes.PIPETTING + volumes.rounding_slack(after):
            yield setting_error(
                "L16",
                after.name,
                volumes.format_volume(set_volumes[0].value),
                volumes.format_volume(after.volume.value),
            )


def _check_temperatures(transition: Transition) -> Findings:
    """Yield an error if an incubated material has, or this step writes, a temperature that was not set."""
    set_values = [amount.value for _, amount in transition.list_settings("temperature")]
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
        low, high = words.TEMPERATURES.get(after.condition, (0, 0))
        fits_storage = (
            not is_tempered
            and after.condition not in words.INCUBATORS
            and low <= after.temperature.value <= min(high, 26)
        )
        if not (is_changed or is_tempered) or fits_storage or (not is_tempered and 15 <= after.temperature.value <= 26):
            continue
        yield Decided("L16", quantity=True)
        if all(abs(value - after.temperature.value) > 1 for value in set_values):
            yield setting_error(
                "L16",
                after.name,
                units.format_value(set_values[0], "temperature"),
                units.format_value(after.temperature.value, "temperature"),
            )


def _check_by_dimension(transition: Transition) -> Findings:
    """Yield an error if a material or record mentions a force, speed, pore size or duration that was not set."""
    for dimension in _SET_DIMENSIONS:
        set_values = {a.value for _, a in transition.list_settings(dimension)}
        if dimension == "centrifugal_force" and transition.action == "Centrifuge":
            set_values |= {a.value for leaf in transition.parameters.leaves for a in units.find_forces(leaf.value_text)}
        for subject, amount in _iter_mentions(transition, dimension) if set_values else ():
            yield Decided("L16", quantity=True)
            if all(abs(amount.value - value) > value / 50 for value in set_values):
                yield setting_error(
                    "L16",
                    subject,
                    units.format_value(min(set_values), dimension),
                    units.format_value(amount.value, dimension),
                )
    if transition.action == "Filter":
        # Pores are smaller than 1 mm; larger lengths are those of membranes and columns.
        set_values = {a.value for _, a in transition.list_settings("length") if a.value < 1}
        for subject, amount in _iter_mentions(transition, "length") if set_values else ():
            yield Decided("L16", quantity=True)
            if amount.value < 1 and amount.value not in set_values:
                yield setting_error(
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
                yield setting_error(
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
                yield from ((view.name, amount) for amount in units.find_forces(leaf.value_text))
            if leaf.value_text not in input_texts and not properties.is_temperature(leaf):
                for amount in (
                    [leaf.parse_amount(dimension)]
                    if leaf.parse_amount(dimension)
                    else units.find_amounts(leaf.value_text, dimension)
                ):
                    if amount:
                        yield view.name, amount
    # An observation may repeat amounts of the inputs, which are no settings of this step.
    known_values = {amount.value for text in input_texts for amount in units.find_amounts(text, dimension)}
    for seen in transition.observations:
        for amount in units.find_amounts(seen.full_text, dimension):
            if amount.value not in known_values:
                yield seen.path, amount
