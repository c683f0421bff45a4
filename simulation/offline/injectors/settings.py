"""Subtle errors in settings: the outcome states another setting than the action did.

Also where an outcome states a setting of its action, and which other settings are plausible or impossible there.
"""

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.lab.parameters import Parameter
from simulation.offline.injectors import edits, sizes

# Properties that do not come from a setting, even if they contain the same number.
_NOT_FROM_SETTINGS = ("mass", "phase", "container", "container_capacity", "medium", "lanes", "appearance")
_VOLUME_OF_ALL = ("elution_volume", "total_volume", "replacement_volume")
_VOLUME_OF_NEW = ("volume", "amount", "elution_volume")
_TYPES = ("select", "multiselect", "range", "range_with_units")
# Degrees to add, because a factor has no meaning on a scale whose zero is arbitrary.
_TEMPERATURE_STEPS = (-15, -12, -8, -7, -5, 4, 5, 8, 12)
# A setting that is out of range exceeds a bound by a factor in this range: far enough to be no rounding, and near
# enough to be a slip.
_EXCESS = (Decimal("1.3"), Decimal(3))
_EXCESS_FACTORS = tuple(map(Decimal, ("1.4", "1.7", "2", "2.4", "2.8")))
_LIGHT = ("wavelength", "laser", "channels", "detection_filter")
_TOPICS = {"centrifugal_force": "force", "rotation": "force", "duration": "time", "temperature": "temperature"}


class SettingValue(NamedTuple):
    """A setting that an outcome states, in a property of one material or in the headings of the records."""

    parameter: Parameter
    text: str  # the setting as it is stated
    material: edits.Produced | None = None  # None: the records
    property_name: str = ""
    excluded_options: tuple[str, ...] = ()  # options that are set as well, so they are not wrong

    @property
    def setting_name(self) -> str:
        return self.parameter.name.replace("_", " ")

    @property
    def allowed_range(self) -> str:
        return f"from {self.parameter.minimum} to {self.parameter.maximum}"

    def list_nearby(self, factors: Sequence[Decimal]) -> list[str]:
        """Return other settings that would be just as plausible: other options, or the number times these factors."""
        parameter = self.parameter
        if parameter.type in ("select", "multiselect"):
            return [option for option in parameter.options if option not in (self.text, *self.excluded_options)]
        correct, (low, high) = parameter.parse_value(self.text), self._get_bounds()
        if parameter.dimension == "temperature":
            values = [correct + step for step in _TEMPERATURE_STEPS]
        else:
            values = [correct * factor for factor in factors]
        return self._format_values([value for value in values if low <= value <= high])

    def has_room_for(self, wrong: str) -> bool:
        """Return whether a wrong volume would still fit into its vessel; True for other settings."""
        if self.material is None or self.property_name != "volume":
            return True
        shown = self.material.draft.properties
        # A volumetric flask is filled to its mark, so it cannot hold another volume than its own.
        if "volumetric" in str(shown.get("container")):
            return False
        volume, room = (edits.parse_amount(text, "volume") for text in (wrong, shown.get("container_capacity")))
        return volume is None or room is None or volume.value <= room.value

    def list_beyond(self) -> list[str]:
        """Return settings that are clearly out of the instrument's range."""
        if self.parameter.type not in ("range", "range_with_units"):
            return []
        (low, high), (least, most) = self._get_bounds(), _EXCESS
        texts = self._format_values([high * factor for factor in _EXCESS_FACTORS])
        above = [text for text in texts if high * least <= self._parse_value(text) <= high * most]
        if self.parameter.dimension == "temperature":
            # Only above the range: temperatures may be negative, so a factor does not lead below it.
            return above
        texts = self._format_values([low / factor for factor in _EXCESS_FACTORS])
        return above + [
            text for text in texts if low <= self._parse_value(text) * most and self._parse_value(text) * least <= low
        ]

    def _get_bounds(self) -> tuple[Decimal, Decimal]:
        return self._parse_value(self.parameter.minimum), self._parse_value(self.parameter.maximum)

    def _parse_value(self, text: Any) -> Decimal:
        if self.parameter.type == "range":
            return Decimal(str(text))
        return quantities.parse_quantity(text, self.parameter.dimension).value

    def _format_values(self, values: list[Decimal]) -> list[str]:
        if self.parameter.type == "range":
            if "." not in self.text:
                return [quantities.format_number(value.to_integral_value()) for value in values]
            digits = sizes.count_significant_digits(Decimal(self.text))
            return [quantities.format_number(sizes.round_to_digits(value, digits)) for value in values]
        return [text for value in values for text in sizes.iter_spellings(self.text, value, self.parameter.dimension)]

    def change(self, case: edits.Case, wrong: str) -> list[edits.Edit]:
        """Return the edits that state another setting, in one material or in all records of the step."""
        if self.material:
            value = str(self.material.draft.properties[self.property_name])
            return [self.material.change(self.property_name, edits.replace_mentions(value, self.text, wrong))]
        return [
            reading.change(reading.description.replace(head, head.replace(self.text, wrong)), "description")
            for reading in case.readings
            if (head := self.find_heading_part(reading.description))
        ]

    def find_heading_part(self, description: str) -> str:
        """Return the part of a record's heading that states the setting; "" if there is none."""
        start = f", {self.setting_name} "
        if self.parameter.type == "multiselect":
            head = start + description.partition(start)[2].partition(":")[0]
            return head if edits.is_mentioned(self.text, head) and head in description else ""
        head = start + self.text
        return head if edits.is_mentioned(head.strip(", "), description) and head in description else ""


def find_setting_values(case: edits.Case) -> list[SettingValue]:
    """Return every setting that the outcome states."""
    mentions = []
    for parameter in case.action_type.parameters if case.action_type else ():
        value = case.action.parameters.get(parameter.name, parameter.default)
        if parameter.type not in _TYPES or value is None:
            continue
        for text, taken in _list_spellings(parameter, value):
            mentions += [
                SettingValue(parameter, text, *place, taken) for place in _find_properties(case, parameter, text)
            ]
            record = SettingValue(parameter, text, excluded_options=taken)
            if any(record.find_heading_part(reading.description) for reading in case.readings):
                mentions.append(record)
    return mentions


def _list_spellings(parameter: Parameter, setting: Any) -> list[tuple[str, tuple[str, ...]]]:
    """Return the texts in which an outcome may state a setting, as written and formatted, with the options also set."""
    if parameter.type == "multiselect":
        chosen = parameter.parse_value(setting)
        return [(option, chosen) for option in chosen]
    if parameter.type != "range_with_units":
        return [(str(setting), ())]
    dimension = parameter.dimension
    value, unit = quantities.parse_quantity(setting, dimension).value, quantities.parse_unit(setting, dimension)
    formatted = (quantities.format_quantity(value, dimension, unit), quantities.format_quantity(value, dimension))
    # A dict removes duplicates and keeps the order; a set would make the plans depend on the process.
    return [(text, ()) for text in dict.fromkeys((str(setting), *formatted))]


def _find_properties(case: edits.Case, parameter: Parameter, text: str) -> Iterator[tuple[edits.Produced, str]]:
    """Yield each material and property whose value comes from this setting."""
    # A bare number or an option is too common to be recognised in a text. A text in an input's name does not come from
    # the setting.
    in_a_name = any(edits.is_mentioned(text, material.name) for material in case.inputs)
    if parameter.type in ("range", "multiselect") or in_a_name:
        return
    for material in case.materials:
        for name, value in material.draft.properties.items():
            new = material.before is None or material.before.properties.get(name) != value
            if new and edits.is_mentioned(text, str(value)) and _sets_property(parameter, material, name):
                yield material, name


def _sets_property(parameter: Parameter, material: edits.Produced, name: str) -> bool:
    """Return whether the parameter determines this property. Otherwise an equal number may be a coincidence."""
    if name == "volume":
        return parameter.name in (_VOLUME_OF_ALL if material.draft.replaces else _VOLUME_OF_NEW)
    if name in _NOT_FROM_SETTINGS or name.endswith(" concentration"):
        return False
    return not any(edits.is_mentioned(text, name) for text in ("pH", "viability"))


def _change_settings(case: edits.Case, rng: random.Random, topic: str) -> edits.Errors:
    """Yield errors in which a record or material states another setting than the one that was set."""
    echoes = [
        echo
        for echo in find_setting_values(case)
        # What the action leaves to the default is not shown, so nobody could tell that the outcome states another one.
        if _find_topic(echo.parameter) == topic and echo.parameter.name in case.action.parameters
    ]
    for echo in edits.sample_places(rng, echoes):
        for wrong in echo.list_nearby(sizes.draw_factors(case.sizes, rng)):
            if wrong != echo.text and echo.has_room_for(wrong):
                yield f"{echo.setting_name} was set to {echo.text}, but is {wrong} here", *echo.change(case, wrong)


def _find_topic(parameter: Parameter) -> str:
    if parameter.name == "objective":
        return "objective"
    # The name decides, because wavelengths have a dimension of their own but lasers, channels and filters are options.
    if any(part in parameter.name for part in _LIGHT):
        return "light"
    return _TOPICS.get(parameter.dimension, "other")


# Kind of error, what the setting is about, the rule that is broken, and the weight.
for _name, _topic, _rule, _weight in (
    ("wrong_objective", "objective", "the objective set is the one looked through", edits.SCARCE),
    ("wrong_wavelength", "light", "the light set is the light used", edits.USUAL),
    ("wrong_force", "force", "the force set is the one the vessel was spun at", edits.USUAL),
    ("wrong_time", "time", "the time set is the time it took", edits.SCARCE),
    ("wrong_temperature", "temperature", "the temperature set is the one held", edits.COMMON),
    ("wrong_setting", "other", "what was set is what was done", edits.COMMON),
):
    edits.plants(edits.SUBTLE, _rule, _weight, name=_name)(partial(_change_settings, topic=_topic))
