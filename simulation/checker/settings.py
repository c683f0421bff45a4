"""L16: settings that the outcome mentions have the values that the action set."""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from simulation.checker import volumes
from simulation.checker.findings import Decided, Finding, Findings, compare, error_finding, require
from simulation.checker.reading import flows, properties, units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

# Words for materials of a wash or elution that are not the washed sample.
_WASH_AGENTS = words.SOLVENTS | word_set("wash washing elution eluent eluant replacement")
# For these actions: the word in the name of the parameter that states the final volume of the sample.
_FINAL_VOLUME_WORDS = {"Wash": "replacement", "AttemptDNAExtraction": "elution", "SolidPhaseExtraction": "elution"}
# Actions that keep a material at the temperature they set.
_TEMPERED_ACTIONS = word_set("Incubate CellCultureIncubate Wait")
# Room temperature in °C: a material has cooled down or warmed up since the action.
_ROOM_TEMPERATURE = (15, 26)
# In a property with one of these words, "300 g" is a force.
_CENTRIFUGE_WORDS = word_set("spin spun centrifugation centrifuged centrifuge rcf force speed")
# Only these keys give the duration of the action; others may be an age or a doubling time.
_DURATION_KEYS = (
    {"duration"}, {"incubation", "time"}, {"incubation", "duration"}, {"spin", "time"}, {"mixing", "time"},
    {"centrifugation", "time"}, {"treatment", "time"},
)  # fmt: skip
# These names are common to settings and materials and mean different things there.
_COMMON_NAMES = word_set("volume amount mass temperature concentration time duration source name label container count")
_MOVED = re.compile(r"\b(?:transferred|dispensed|aliquoted|pipetted|moved)\b", re.IGNORECASE)
# "incubated at 37 °C for 2 h": the duration is that of the action.
_DURATION_PHRASE = re.compile(
    r"\b(?:incubated|mixed|spun|centrifuged|waited|heated|stirred|shaken|vortexed|held|incubation|spin|cultured|sparged|degassed|dried|ground|milled|autoclaved|"
    r"dialy[sz]ed|baked|evaporated|lyophili[sz]ed|bubbled|purged|grown|left|stood)\b[^.;0-9]{0,25}?\bfor\s",
    re.IGNORECASE,
)
_AFTER_PHRASE = re.compile(r"\bafter\b", re.IGNORECASE)
_CYCLES = re.compile(r"(?<![\w.])([0-9]{1,3}) (?:PCR |thermal |amplification |wash )?cycles\b")
_CYCLE_WORDS = word_set("cycle number of num pcr n")
_INCUBATIONS = ("Incubate", "CellCultureIncubate")
_TIMED_ACTIONS = (
    *_INCUBATIONS, "Mix", "Centrifuge", "Wait", "Degas", "DryingOven", "Desiccate", "Grind", "Evaporate", "Autoclave", "Dialysis",
    "ApplyMagnet", "Lyophilize",
)  # fmt: skip
# "20x" but not "1:20x" or "2x-concentrated".
_MAGNIFICATION = re.compile(r"(?<![\w.:])([0-9]{1,3})\s?[x×X](?![\w-])")
# The wavelengths in the name of a filter: 530/30 has the centre and the width in nm.
_FILTER_BAND = re.compile(r"(?<![0-9])([2-9][0-9]{2})(?![0-9])")
_GLUED = re.compile(r"(?<=[A-Za-z_@])([2-9][0-9]{2}) ?nm\b")
_MAGNIFIES = ("UseMicroscope", "ImageSample", "ImageColonies")
_MAX_WAVELENGTH = Decimal("0.002")  # mm; path lengths and pore sizes are larger
_SIZE_WORDS = word_set("size diameter pore range")
_MAX_PORE = 1  # mm; larger lengths are those of membranes and columns
# Words for lengths in nm that are not settings: peaks of a spectrum, sizes of particles.
_OTHER_LENGTHS = re.compile(
    r"\bpeak(?:s|ing)? (?:at|near|wavelength|absor|emission)|\b(?:maxim\w*|λ|spectr\w*|scan\w*|shift\w*|diameter|size|thick\w*)\b",
    re.IGNORECASE,
)


def check_settings(transition: Transition) -> Findings:
    """L16: check volumes, temperatures, optics, other amounts, and all settings that the outcome names."""
    yield from _check_volumes(transition)
    yield from _check_temperatures(transition)
    yield from _check_magnifications(transition)
    yield from _check_wavelengths(transition)
    yield from _check_mentions(transition)
    yield from _check_durations(transition)
    for name, value in _iter_settings(transition):
        for seen in transition.observations:
            yield from _check_recorded_setting(transition, name, value, seen)
        for view in transition.usable_outputs:
            if not _COMMON_NAMES & set(words.tokenize(name)):
                yield from _check_property_setting(transition, name, value, view)
            yield from _check_chosen_option(transition, name, value, view)


def _setting_error(subject: str, set_value: str, recorded: str) -> Finding:
    text = f"the action set {set_value}, but {subject} has {recorded}"
    return error_finding("L16", subject, set_value, recorded, text)


def _compare_setting(
    subject: str, set_value: Decimal, recorded: Decimal, dimension: str, above: Decimal | None, below: Decimal | None
) -> Findings:
    """Yield an error if a recorded amount differs from the one set by more than `above` or `below`."""
    expected, got = (units.format_value(value, dimension) for value in (set_value, recorded))
    text = f"the action set {expected}, but {subject} has {got}"
    yield from compare("L16", subject, set_value, recorded, dimension, text, above, below, limit="")


def _compare_settings(
    subject: str, set_values: Iterable[Decimal], shown: Decimal, recorded: Decimal, dimension: str, tolerance: Decimal
) -> Findings:
    """Yield an error unless a recorded amount is one of those set, within a share of it; `shown` is the one reported."""
    matches = [value for value in set_values if abs(value - recorded) <= abs(value) * tolerance]
    expected = matches[0] if matches else shown
    allowed = abs(expected) * tolerance
    yield from _compare_setting(subject, expected, recorded, dimension, allowed, allowed)


def _check_volumes(transition: Transition) -> Findings:
    """Yield an error if the volume in a vessel is not the one that the parameters determine."""
    for fill in flows.trace_liquids(transition).fills:
        output, total = fill.output, fill.total_volume
        if fill.is_stated and total is not None and output.volume is not None:
            added_volume = total - ((fill.parts[0].volume or 0) if len(fill.parts) > 1 else 0)
            allowed = added_volume * volumes.PIPETTING + total * Decimal("0.02") + volumes.rounding_slack(output)
            yield from _compare_setting(output.name, total, output.volume.value, "volume", allowed, allowed)
    volume_word = _FINAL_VOLUME_WORDS.get(transition.action, "")
    amounts = transition.parameters.list_amounts("volume")
    set_volumes = [amount.value for leaf, amount in amounts if volume_word in leaf.words]
    for before, after in transition.list_kept_pairs() if len(set_volumes) == 1 else ():
        has_volumes = before.liquid_volume is not None and after.liquid_volume is not None
        # The rest of a sample of which a portion was used has the volume that is left.
        if words.REMAINDER & set(after.name_words):
            continue
        if volumes.has_left(before, after, [a.value for leaf, a in amounts if "sample" in leaf.words]):
            continue
        is_agent = has_volumes and _WASH_AGENTS & set(before.name_words)
        if after.volume is not None and not is_agent and not transition.parameters.has_named(before):
            allowed = set_volumes[0] * volumes.PIPETTING + volumes.rounding_slack(after)
            # A membrane or sorbent keeps some of what elutes.
            below = allowed + (set_volumes[0] / 10 + 5 if volume_word == "elution" else 0)
            above = allowed + (volumes.find_film(transition, before) if volume_word == "replacement" else 0)
            yield from _compare_setting(after.name, set_volumes[0], after.volume.value, "volume", above, below)


def _check_temperatures(transition: Transition) -> Findings:
    """Yield an error if an incubated material has, or this step writes, a temperature that was not set."""
    set_values = [amount.value for _, amount in transition.list_settings("temperature")]
    for before, after in transition.list_pairs() if set_values else ():
        if after.temperature is None or after.is_used_up:
            continue
        got, is_incubated = after.temperature.value, after.condition in words.INCUBATORS
        is_tempered = transition.action in _TEMPERED_ACTIONS and is_incubated
        is_changed = before.temperature is None or before.temperature.value != got
        lowest, highest = _ROOM_TEMPERATURE
        low, high = words.TEMPERATURES.get(after.condition, (0, 0))
        # A material that is back in storage, or at room temperature, has cooled down or warmed up since the action. On
        # the bench it may still be on its way there.
        is_on_the_way = after.condition == "room_temp" and lowest <= got <= max(set_values)
        has_adjusted = (
            is_on_the_way or lowest <= got <= highest or (not is_incubated and low <= got <= min(high, highest))
        )
        if is_tempered or (is_changed and not has_adjusted):
            expected = next((value for value in set_values if abs(value - got) <= 1), set_values[0])
            yield from _compare_setting(after.name, expected, got, "temperature", Decimal(1), Decimal(1))


def _check_magnifications(transition: Transition) -> Findings:
    """Yield an error if the recorded objective is not the one that was set."""
    if transition.action not in _MAGNIFIES:
        return
    set_magnifications: set[str] = set()
    for leaf in transition.parameters.leaves:
        set_magnifications.update(_MAGNIFICATION.findall(leaf.value_text))
        if {"objective", "magnification"} & leaf.word_set and leaf.value_text.strip().isdigit():
            set_magnifications.add(leaf.value_text.strip())
    known = {found for text in transition.input_texts for found in _MAGNIFICATION.findall(text)}
    for seen in transition.observations if set_magnifications else ():
        recorded = set(_MAGNIFICATION.findall(seen.full_text[:2000])) - known
        yield Decided("L16")
        if recorded and not recorded & set_magnifications:
            yield _setting_error(seen.path, f"{min(set_magnifications)}x", f"{min(recorded)}x")


def _check_wavelengths(transition: Transition) -> Findings:
    """Yield an error if a measurement records wavelengths that were not set."""
    set_lengths = {
        a.value
        for leaf, a in transition.list_settings("length")
        if a.value < _MAX_WAVELENGTH and not leaf.word_set & _SIZE_WORDS
    }
    if not set_lengths or transition.family not in words.MEASUREMENTS:
        return
    known = {a.value for text in transition.input_texts for a in units.find_amounts(text, "length")}
    bands = _FILTER_BAND.findall(" ".join(leaf.value_text for leaf in transition.parameters.leaves))
    known |= {Decimal(number) / 1_000_000 for number in bands}
    for seen in transition.observations:
        lengths = [a for a in units.find_amounts(seen.full_text, "length") if re.search("nm|nanomet", a.text)]
        # "UV254nm": the number is glued to the name of the detector.
        lengths += [a for number in _GLUED.findall(seen.full_text[:1500]) if (a := units.parse_amount(f"{number} nm"))]
        recorded = {a.value for a in lengths if a.value < _MAX_WAVELENGTH}
        if recorded and not _OTHER_LENGTHS.search(seen.full_text):
            yield Decided("L16", quantity=True)
            if wrong_lengths := recorded - set_lengths - known:
                yield _setting_error(seen.path, _format_lengths(set_lengths), _format_lengths(wrong_lengths))


def _format_lengths(lengths: set[Decimal]) -> str:
    return ", ".join(sorted(units.format_value(value, "length") for value in lengths))[:80]


def _check_mentions(transition: Transition) -> Findings:
    """Yield an error if a material or record mentions a force, speed or pore size that was not set."""
    for dimension in ("centrifugal_force", "rotation"):
        set_values = {amount.value for _, amount in transition.list_settings(dimension)}
        if dimension == "centrifugal_force" and transition.action == "Centrifuge":
            texts = (leaf.value_text for leaf in transition.parameters.leaves)
            set_values |= {amount.value for text in texts for amount in units.find_forces(text)}
        for subject, amount in _iter_mentions(transition, dimension) if set_values else ():
            tolerance, smallest = Decimal("0.02"), min(set_values)
            yield from _compare_settings(subject, set_values, smallest, amount.value, dimension, tolerance)
    if transition.action == "Filter":
        set_values = {amount.value for _, amount in transition.list_settings("length") if amount.value < _MAX_PORE}
        for subject, amount in _iter_mentions(transition, "length") if set_values else ():
            yield Decided("L16", quantity=True)
            if amount.value < _MAX_PORE:
                yield from _compare_settings(subject, set_values, min(set_values), amount.value, "length", Decimal(0))


def _check_durations(transition: Transition) -> Findings:
    set_values = transition.parameters.list_values("duration")
    properties_before = {(leaf.key, leaf.value_text) for view in transition.inputs for leaf in view.leaves}
    for view in transition.usable_outputs if set_values else ():
        for leaf in view.leaves:
            duration = leaf.parse_amount("duration") if leaf.word_set in _DURATION_KEYS else None
            if duration is not None and (leaf.key, leaf.value_text) not in properties_before:
                recorded, tolerance = duration.value, Decimal("0.05")
                yield from _compare_settings(view.name, set_values, min(set_values), recorded, "duration", tolerance)


def _iter_mentions(transition: Transition, dimension: str) -> Iterator[tuple[str, Amount]]:
    """Yield (subject, amount) of every amount of a dimension in properties and observations that this step wrote."""
    input_texts = transition.input_texts
    for view in transition.usable_outputs:
        for leaf in view.leaves:
            if leaf.value_text in input_texts:
                continue
            if dimension == "centrifugal_force" and leaf.word_set & _CENTRIFUGE_WORDS:
                yield from ((view.name, amount) for amount in units.find_forces(leaf.value_text))
            if not properties.is_temperature(leaf):
                amount = leaf.parse_amount(dimension)
                amounts = [amount] if amount else units.find_amounts(leaf.value_text, dimension)
                yield from ((view.name, amount) for amount in amounts)
    # An observation may repeat amounts of the inputs, which are no settings of this step.
    known_values = {amount.value for text in input_texts for amount in units.find_amounts(text, dimension)}
    for seen in transition.observations:
        for amount in units.find_amounts(seen.full_text, dimension):
            if amount.value not in known_values:
                yield seen.path, amount


def _iter_settings(transition: Transition) -> Iterator[tuple[str, Any]]:
    """Yield (name in words, value) of every parameter set, and of the defaults of those not set."""
    for leaf in transition.parameters.leaves:
        # A record may give any of several values under one name, so it cannot contradict them.
        has_several = "#" in leaf.words or (isinstance(leaf.value, str) and "," in leaf.value)
        if isinstance(leaf.value, str | int | float) and not isinstance(leaf.value, bool) and not has_several:
            yield leaf.key.replace("_", " ").lower(), leaf.value
    for name, default in transition.defaults.items():
        yield name.replace("_", " "), default


def _list_other_options(transition: Transition, name: str, value: Any) -> list[str]:
    """Return the options of a parameter other than `value`, or none if the catalogue does not have the parameter."""
    if not isinstance(value, str) or transition.action_type is None:
        return []
    parameters = (p for p in transition.action_type.parameters if p.name.replace("_", " ") == name)
    return [option for p in parameters for option in p.options if option.lower() != value.lower()]


def _check_recorded_setting(transition: Transition, name: str, value: Any, seen: ObservationView) -> Findings:
    """Yield an error if a record names a setting and gives another value than the one that was set."""
    position = seen.description.lower().find(f" {name} ")
    # The name of the setting may be part of a material's name; 100 names limit the time on hostile input.
    if position < 0 or any(name in view.name.lower() for view in transition.inputs[:100]):
        return
    recorded_text = seen.description[position + len(name) + 2 :][:60].lstrip(":= ")
    for word in ("of ", "was ", "is ", "set to "):
        recorded_text = recorded_text.removeprefix(word)
    set_amount, recorded = units.parse_amount(value), units.parse_amount(recorded_text)
    if set_amount and recorded and set_amount.dimension == recorded.dimension:
        # 1 %: a record repeats the setting, it does not measure it.
        allowed = abs(set_amount.value) / 100 + set_amount.step / 100
        shown = f"{name} {str(value)[:40]}", f"{name} {recorded_text[:30]}"
        yield from _compare_named(seen.path, set_amount, recorded, allowed, shown)
    elif other_options := _list_other_options(transition, name, value):
        yield Decided("L16")
        recorded_text = recorded_text.lower()
        option = next((option for option in other_options if recorded_text.startswith(option.lower())), "")
        if option and not recorded_text.startswith(value.lower()):
            yield _setting_error(seen.path, f"{name} {value[:40]}", f"{name} {option[:40]}")


def _compare_named(
    subject: str, set_amount: Amount, recorded: Amount, allowed: Decimal, shown: tuple[str, str]
) -> Findings:
    text = f"the action set {shown[0]}, but {subject} has {shown[1]}"
    expected, got, dimension = set_amount.value, recorded.value, set_amount.dimension
    yield from compare("L16", subject, expected, got, dimension, text, allowed, allowed, shown=shown)


def _check_property_setting(transition: Transition, name: str, value: Any, view: MaterialView) -> Findings:
    """Yield an error if a property that this step wrote has the name of a setting but another value."""
    key_words, set_amount, before = set(words.tokenize(name)), units.parse_amount(value), transition.find_input(view)
    old_texts = {leaf.value_text for leaf in before.leaves if leaf.word_set == key_words} if before else set()
    for leaf in view.leaves:
        if leaf.word_set != key_words or leaf.value_text in old_texts:
            continue
        recorded, shown = leaf.parse_amount(), (f"{name} {str(value)[:40]}", f"{name} {leaf.value_text[:40]}")
        if set_amount and recorded and set_amount.dimension == recorded.dimension:
            yield from _compare_named(view.name, set_amount, recorded, abs(set_amount.value) / 50, shown)
        elif set_amount is None and isinstance(value, str):
            options = {option.lower() for option in _list_other_options(transition, name, value)}
            has_common_word = set(words.tokenize(value)) & set(words.tokenize(leaf.value_text))
            if leaf.value_text.lower() in options and not has_common_word:
                yield _setting_error(view.name, *shown)


def _check_chosen_option(transition: Transition, name: str, value: Any, view: MaterialView) -> Findings:
    """Yield an error if a property that this step wrote has another option than the one that was chosen."""
    # Short options are parts of other words.
    options = [option for option in _list_other_options(transition, name, value) if len(option) > 2]
    about_setting = {"through", *words.tokenize(name)}
    for leaf in view.leaves if options else ():
        text, key_words = f" {leaf.value_text.lower()} ", leaf.word_set
        is_old = leaf.value_text in transition.input_texts or f" {str(value).lower()} " in text
        if not is_old and key_words & about_setting and not key_words & {"medium", "container", "phase", "label"}:
            option = next((option for option in options if f" {option.lower()} " in text), "")
            if option:
                yield _setting_error(view.name, f"{name} {value}", f"{name} {option}")


def check_sentences(transition: Transition) -> Findings:
    """L16: yield an error if volumes, cycles, durations or temperatures in sentences are not those that were set."""
    for seen in transition.observations:
        if transition.family == words.MOVE:
            yield from _check_moved_volume(transition, seen)
        leaves = (leaf for leaf in transition.parameters.leaves if {"cycle"} <= leaf.word_set <= _CYCLE_WORDS)
        set_counts = [number for leaf in leaves if (number := units.parse_number(leaf.value))]
        recorded = [Decimal(number) for number in _CYCLES.findall(seen.full_text[:1500])]
        if len(set_counts) == 1 and recorded:
            expected, got = f"{set_counts[0]} cycles", f"{recorded[0]} cycles"
            yield Decided("L16", quantity=True)
            text = f"{expected} were set, but {recorded[0]} are recorded"
            yield from require("L16", set_counts[0] in recorded, seen.path, expected, got, text)
        if transition.action in _TIMED_ACTIONS:
            yield from _check_sentence_duration(transition, seen)
        if transition.action in _INCUBATIONS:
            yield from _check_shown_temperature(transition, seen)


def _check_moved_volume(transition: Transition, seen: ObservationView) -> Findings:
    """Yield an error if the only volume in a sentence about moving is neither a setting nor a known volume."""
    moved_volume = transition.parameters.find_moved_volume()
    recorded = units.find_amounts(seen.description, "volume")
    if moved_volume is None or len(recorded) != 1 or not _MOVED.search(seen.description):
        return
    views = (*transition.inputs, *transition.outputs)
    draws = flows.trace_liquids(transition).withdrawals
    known = [moved_volume.value, *transition.parameters.list_values("volume")]
    known += [view.liquid_volume for view in views if view.liquid_volume is not None]
    known += [draw.volume for draw in draws if draw.volume is not None]
    tolerance = Decimal("0.02")
    yield from _compare_settings(seen.path, known, moved_volume.value, recorded[0].value, "volume", tolerance)


_SINCE_START = re.compile(
    r"([0-9]{1,4}(?:\.[0-9]{1,2})?\s?(?:h|hours?|min|minutes?|s|d|days?))\s(?:after|from|since|past) (?:the )?(?:start|beginning|onset)",
    re.IGNORECASE,
)


def check_new_texts(transition: Transition) -> Findings:
    """L16: yield an error if a new property says that the action took another time than the one that was set."""
    set_durations = transition.parameters.list_values("duration")
    if len(set_durations) != 1 or transition.action not in _TIMED_ACTIONS:
        return
    texts = [(seen.path, seen.full_text[:1500]) for seen in transition.observations]
    for view in transition.usable_outputs:
        texts += [(view.name, leaf.value_text) for leaf in view.leaves if leaf.value_text not in transition.input_texts]
    for subject, text in texts:
        for match in _SINCE_START.finditer(text):
            if (recorded := units.parse_amount(match[1], "", ("duration",))) is not None:
                allowed = set_durations[0] / 20
                yield from _compare_setting(subject, set_durations[0], recorded.value, "duration", allowed, None)


def _check_sentence_duration(transition: Transition, seen: ObservationView) -> Findings:
    """Yield an error if "incubated for" does not give the duration that was set, or "after" gives a longer one."""
    set_durations = transition.parameters.list_values("duration")
    if len(set_durations) != 1:
        return
    expected, allowed = set_durations[0], set_durations[0] / 20
    for pattern, below in ((_DURATION_PHRASE, allowed), (_AFTER_PHRASE, None)):
        match = pattern.search(seen.full_text[:1500])
        recorded = units.find_amounts(seen.full_text[match.end() : match.end() + 60], "duration") if match else []
        if recorded:
            got = recorded[0].value
            yield from _compare_setting(seen.path, expected, got, "duration", allowed, below)
            # One error is enough: "incubated for 3 h; after 3 h" is one mistake.
            if got > expected + allowed or (below is not None and got < expected - below):
                return


def _check_shown_temperature(transition: Transition, seen: ObservationView) -> Findings:
    """Yield an error if the temperature shown by an incubator is not the one that was set."""
    set_values, recorded = transition.parameters.list_values("temperature"), units.parse_amount(seen.value)
    if set_values and recorded is not None and recorded.dimension == "temperature":
        # 3 °C: an incubator regulates, and doors are opened.
        allowed, got = Decimal(3), recorded.value
        expected = next((value for value in set_values if abs(value - got) <= allowed), set_values[0])
        yield from _compare_setting(seen.path, expected, got, "temperature", allowed, allowed)
