"""The catalogue's parameters as form fields. Allowed values and all messages come from the catalogue."""

from collections.abc import Iterator, Sequence
from typing import Any

from django import forms

from simulation.lab import quantities
from simulation.lab.actions import ActionType
from simulation.lab.materials import Inventory
from simulation.lab.parameters import Parameter, ParameterError
from simulation.web.transcript import format_value, humanise_name

_LONG_TEXT = 300  # characters; longer texts get several lines
Choices = list[tuple[str, str]]


class AmountInput(forms.MultiWidget):
    """A number and its unit, combined as "50 µL"."""

    def __init__(self, label: str, units: Sequence[str], unit: str) -> None:
        self.unit = unit
        super().__init__(
            widgets={
                "number": forms.NumberInput({"step": "any", "aria-label": f"{label}, number"}),
                "unit": forms.Select({"aria-label": f"{label}, unit"}, [(u, u or "(no unit)") for u in units]),
            },
            attrs={"class": "amount"},
        )

    def id_for_label(self, id_: str, index: str = "0") -> str:
        """Return the id of the number, so that a link to the field leads there."""
        return f"{id_}_{index}" if id_ else id_

    def decompress(self, value: str | None) -> list[str]:
        # Only the first space separates: units such as "x g" contain one.
        number, _, unit = (value or "").partition(" ")
        return [number, unit or self.unit]

    def value_from_datadict(  # type: ignore[override]  # one text, as the catalogue reads it
        self, data: Any, files: Any, name: str
    ) -> str:
        number, unit = (str(part or "").strip() for part in super().value_from_datadict(data, files, name))
        # People type spaces as thousands separators; the catalogue does not parse them.
        return f"{number.replace(' ', '')} {unit}".strip() if number else ""


class ParameterField(forms.Field):
    """One parameter, or one key of an object. If it is left blank, the catalogue's default applies."""

    def __init__(self, kind: ActionType, parameter: Parameter, materials: Choices, label: str) -> None:
        self.parameter = parameter
        super().__init__(
            # A parameter with a default is never required on the form.
            required=parameter.required and parameter.default is None,
            widget=_make_widget(parameter, materials, label),
            label=label,
            help_text=_build_help(parameter),
            error_messages={"required": f"{kind.name} needs {parameter.name}: {parameter.describe_allowed()}"},
        )

    def to_python(self, value: Any) -> Any:
        if isinstance(value, list):
            return [str(part) for part in value]
        return "" if value is None else str(value).strip()

    def validate(self, value: Any) -> None:
        super().validate(value)
        # A blank value is the default and needs no check.
        if value:
            try:
                self.parameter.parse_value(value)
            except ParameterError as error:
                raise forms.ValidationError(str(error)) from error


def make_fields(kind: ActionType, inventory: Inventory) -> Iterator[tuple[str, ParameterField]]:
    """Yield the name and the form field of every parameter. An object has one field per key, named `object.key`."""
    materials = [(m.barcode, f"{m.name} ({m.barcode})") for m in inventory.list_usable()]
    for parameter in kind.parameters:
        label = humanise_name(parameter.name)
        if parameter.type != "object":
            yield parameter.name, ParameterField(kind, parameter, materials, label)
            continue
        # One field per key: people should not have to type the notation for objects.
        for key, part in parameter.keys.items():
            known = part or Parameter(key, "text", parameter.description)
            yield f"{parameter.name}.{key}", ParameterField(kind, known, materials, f"{label}: {key}")


def _make_widget(parameter: Parameter, materials: Choices, label: str) -> forms.Widget:
    match parameter.type:
        case "select":
            return forms.Select(
                choices=_with_blank_choice(parameter, [(option, option) for option in parameter.options])
            )
        case "boolean":
            return forms.Select(choices=_with_blank_choice(parameter, [("true", "yes"), ("false", "no")]))
        case "material_selector":
            return forms.Select(choices=_with_blank_choice(parameter, materials))
        case "multiselect":
            return forms.CheckboxSelectMultiple(choices=[(option, option) for option in parameter.options])
        case "multi_material_selector":
            return forms.CheckboxSelectMultiple(choices=materials)
        case "range":
            return forms.NumberInput({"min": parameter.minimum, "max": parameter.maximum, "step": "any"})
        case "range_with_units":
            return AmountInput(label, quantities.list_units(parameter.dimension), _default_unit(parameter))
        case _:
            longest = {"maxlength": parameter.max_length}
            return forms.Textarea(longest) if parameter.max_length > _LONG_TEXT else forms.TextInput(longest)


def _with_blank_choice(parameter: Parameter, choices: Choices) -> Choices:
    """Return the choices, preceded by a blank one that omits the parameter."""
    # The default is named, so that leaving it blank is a decision.
    blank_label = "choose" if parameter.required else "not set"
    return [
        ("", f"{format_value(parameter.default)} (default)" if parameter.default is not None else blank_label),
        *choices,
    ]


def _default_unit(parameter: Parameter) -> str:
    """Return the unit of the default or, without one, of the minimum."""
    amount = parameter.minimum if parameter.default is None else parameter.default
    return quantities.parse_unit(amount, parameter.dimension)


def _build_help(parameter: Parameter) -> str:
    """Return the help text of a parameter: its description, allowed values and default."""
    parts = [parameter.description]
    if parameter.type in ("range", "range_with_units"):
        parts.append(f"{parameter.minimum} to {parameter.maximum}")
    if parameter.default is not None and parameter.type not in ("select", "boolean"):
        parts.append(f"default {format_value(parameter.default)}")
    return ". ".join(part.rstrip(".") for part in parts) + "."
