"""L16: settings that a record repeats, found by their dimension and not by their name: voltages, rates, counts, times and heat."""

import re
from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.findings import Findings, compare, require
from simulation.checker.reading import units, words
from simulation.checker.reading.transition import Transition

# Dimension -> actions that set it and do not measure it, so that any other value in a new text contradicts the setting.
_ECHOED = {
    "voltage": words.word_set("AgaroseGelElectrophoresis PAGE CapillaryElectrophoresis"),
    "scan_rate": words.word_set("CyclicVoltammetry"),
    "flow": words.word_set("Degas SolidPhaseExtraction FlowCytometry"),
    "pressure": words.word_set("Degas Evaporate Lyophilize"),
}
_TOLERANCE = Decimal("0.03")
_COUNTED = re.compile(
    r"(?<![\w.,-])([0-9]{1,3}) (fields?|washes|injections?|readings?|replicates?)\b(?! of| per)", re.IGNORECASE
)
_COUNT_PARAMETERS = {
    "field": {"field"},
    "wash": {"wash"},
    "injection": {"injection"},
    "reading": {"reading", "replicate"},
    "replicate": {"replicate", "reading"},
}
_HEATED = words.word_set("Incubate CellCultureIncubate DryingOven Autoclave Microwave")
# A temperature with one of these words is not the one that was set.
_OTHER_HEAT = re.compile(
    r"\b(?:stor\w+|kept|cool\w*|after|then|melt\w*|from|to|until|before|previous\w*|earlier|rinse\w*|room|ambient|first|freez\w*|ramp\w*|now|falling|calibrat\w*|prior|onward|back)\b",
    re.IGNORECASE,
)
_TIME_AT = re.compile(
    r"([0-9]{1,4}(?:\.[0-9]{1,2})?\s?(?:h|hours?|min|minutes?|d|days?)) (?:at|@) (-?[0-9]{1,3}(?:\.[0-9])?) ?°?C",
    re.IGNORECASE,
)
_BENCH = (Decimal(15), Decimal(27))  # °C of a room
_GEL_PERCENT = re.compile(r"([0-9]{1,2}(?:\.[0-9])?)\s?%")


def check_echoes(transition: Transition) -> Findings:
    """L16: yield an error if a new text gives another value than the one that was set."""
    texts = list(_iter_new_texts(transition))
    for dimension, actions in _ECHOED.items():
        if transition.action in actions:
            yield from _check_dimension(transition, dimension, texts)
    for subject, text in texts:
        yield from _check_counts(transition, subject, text)
        if transition.action in _HEATED:
            yield from _check_heat(transition, subject, text)
    if transition.action in words.GELS:
        yield from _check_gel(transition)


def _iter_new_texts(transition: Transition) -> Iterator[tuple[str, str]]:
    """Yield (subject, text) of observations and of the properties that this step wrote."""
    for seen in transition.observations:
        yield seen.path, seen.full_text[:1500]
    for view in transition.usable_outputs:
        for leaf in view.leaves:
            if leaf.value_text and leaf.value_text not in transition.input_texts:
                yield view.name, leaf.value_text


def _check_dimension(transition: Transition, dimension: str, texts: list[tuple[str, str]]) -> Findings:
    set_values = {amount.value for _, amount in transition.list_settings(dimension)}
    known = {a.value for text in transition.input_texts for a in units.find_amounts(text, dimension)}
    for subject, text in texts if set_values else ():
        for amount in units.find_amounts(text, dimension):
            if amount.value not in known:
                nearest = min(set_values, key=lambda value: abs(value - amount.value))
                allowed = abs(nearest) * _TOLERANCE
                shown = units.format_value(nearest, dimension), units.format_value(amount.value, dimension)
                message = f"the action set {shown[0]}, but {subject} has {shown[1]}"
                yield from compare(
                    "L16", subject, nearest, amount.value, dimension, message, allowed, allowed, shown=shown
                )


def _check_counts(transition: Transition, subject: str, text: str) -> Findings:
    for number, thing in _COUNTED.findall(text):
        names = _COUNT_PARAMETERS["wash" if thing.lower() == "washes" else thing.lower().rstrip("s")]
        leaves = [
            leaf
            for leaf in transition.parameters.leaves
            if leaf.word_set <= names | {"number", "of", "n"} and leaf.word_set & names
        ]
        values = {units.parse_number(leaf.value) for leaf in leaves} - {None}
        if len(values) == 1:
            expected = values.pop()
            message = f"the action set {expected} {thing}, but {subject} has {number}"
            yield from require(
                "L16", Decimal(number) == expected, subject, f"{expected} {thing}", f"{number} {thing}", message
            )


def _check_heat(transition: Transition, subject: str, text: str) -> Findings:
    """Yield an error if a text names the only temperature, or the time at it, that differs from what was set."""
    temperatures = transition.parameters.list_values("temperature")
    durations = transition.parameters.list_values("duration")
    stated = units.find_amounts(text, "temperature")
    if len(stated) == 1 and temperatures and not _OTHER_HEAT.search(text):
        got = stated[0].value
        is_setting = got > _BENCH[1] and got > 5
        nearest = min(temperatures, key=lambda value: abs(value - got))
        if is_setting and nearest > _BENCH[0]:
            shown = units.format_value(nearest, "temperature"), units.format_value(got, "temperature")
            message = f"the action set {shown[0]}, but {subject} has {shown[1]}"
            yield from compare(
                "L16", subject, nearest, got, "temperature", message, Decimal(3), Decimal(3), shown=shown
            )
    for time_text, temperature in _TIME_AT.findall(text):
        time = units.parse_amount(time_text, "", ("duration",))
        is_this_step = any(abs(value - Decimal(temperature)) <= 1 for value in temperatures)
        if time is not None and is_this_step and durations and not _OTHER_HEAT.search(text):
            nearest = min(durations, key=lambda value: abs(value - time.value))
            shown = units.format_value(nearest, "duration"), units.format_value(time.value, "duration")
            message = f"the action set {shown[0]}, but {subject} has {shown[1]}"
            yield from compare(
                "L16", subject, nearest, time.value, "duration", message, nearest / 20, nearest / 20, shown=shown
            )


def _check_gel(transition: Transition) -> Findings:
    set_values = [
        number
        for key in ("agarose", "gel_percent")
        if (number := units.parse_number(transition.parameters.raw.get(key))) is not None
    ]
    for view in transition.outputs:
        stated = (
            _GEL_PERCENT.findall(view.name) if "gel" in view.name_words and transition.find_input(view) is None else []
        )
        if len(stated) == 1 and len(set_values) == 1:
            message = f"the action set a gel of {set_values[0]} %, but {view.name} has {stated[0]} %"
            yield from require(
                "L16", Decimal(stated[0]) == set_values[0], view.name, f"{set_values[0]} %", f"{stated[0]} %", message
            )
