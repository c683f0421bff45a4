"""The filter of the list of twins and of the vetting queue, and places of a twin's outcome in words."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from django import forms

from simulation.models import PERTURBATIONS, Experiment, Twin
from simulation.runs import twin_filters, vetting
from simulation.web.cast_choices import list_cast_choices
from simulation.web.transcript import humanise_name
from wetbench_site.sorted_lists import MAX_SEARCH

_PATH = re.compile(r"(new_materials|new_observations)\[(\d+)\](?:\.(.+))?")
_PLAIN_PATHS = {"success": "whether the action succeeds", "failure_reason": "the reason for the rejection"}
_FIELDS = {
    "available_for_use": "availability",
    "environmental_condition": "storage",
    "material_type": "kind of material",
    "measurement_type": "kind of measurement",
}


def _list_kinds() -> list[tuple[str, str]]:
    return [("", "All kinds"), *((kind, humanise_name(kind)) for kind in vetting.list_known_kinds())]


class TwinFilter(forms.Form):
    """Filters that twins have in common; unknown values are ignored."""

    q = forms.CharField(
        label="Search", required=False, max_length=MAX_SEARCH, widget=forms.TextInput(attrs={"type": "search"})
    )
    error = forms.ChoiceField(choices=[("", "All errors"), *PERTURBATIONS], required=False, label="Error")
    kind = forms.ChoiceField(choices=_list_kinds, required=False, label="Kind of error")
    checker = forms.ChoiceField(
        choices=[("", "Any result"), *twin_filters.CHECKER_RESULTS.items()], required=False, label="Checker"
    )
    experiment = forms.ModelChoiceField(
        Experiment.objects.defer("data"), to_field_name="slug", required=False, empty_label="All experiments"
    )
    cast = forms.ChoiceField(choices=lambda: [("", "All casts"), *list_cast_choices()], required=False)

    def get_filters(self) -> dict[str, str]:
        """Return the chosen filters as `twin_filters.filter_twins` takes them."""
        self.is_valid()
        chosen = {name: value for name, value in self.cleaned_data.items() if value}
        return {name: value.slug if isinstance(value, Experiment) else str(value) for name, value in chosen.items()}


class TwinListFilter(TwinFilter):
    """The filter of the list of all twins."""

    field_order = ("q", "error", "kind", "checker", "vetting", "experiment", "cast", "status")

    vetting = forms.ChoiceField(
        choices=[("", "Any state"), *twin_filters.VETTING_STATES.items()], required=False, label="Vetting"
    )
    status = forms.ChoiceField(choices=[("", "Any status"), *Twin.STATUSES], required=False)


class QueueFilter(TwinFilter):
    """The filter of the vetting queue, which shows only twins that no person has read."""

    field_order = ("vetting", "q", "error", "kind", "checker", "experiment", "cast")

    vetting = forms.ChoiceField(
        choices=[(name, twin_filters.VETTING_STATES[name]) for name in ("waiting", "unread", "rules")],
        required=False,
        label="Twins",
    )

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__({"vetting": "waiting", **{name: data[name] for name in data}})

    def get_filters(self) -> dict[str, str]:
        return {"vetting": "waiting", **super().get_filters()}

    @property
    def query(self) -> str:
        """The filter as a query string; "" if it is the default one."""
        return urlencode({name: value for name, value in self.get_filters().items() if (name, value) != _DEFAULT})


_DEFAULT = ("vetting", "waiting")


def describe_place(path: str, original: Mapping[str, Any], outcome: Mapping[str, Any], is_lost: bool = False) -> str:
    """Return a path of an outcome in words: "new_materials[0].properties.volume" becomes "Sample: volume".

    `is_lost`: the twin lacks the whole entry, so the index is that of the original.
    """
    match = _PATH.fullmatch(path)
    if match is None:
        return _PLAIN_PATHS.get(path, humanise_name(path))
    part, index, rest = match[1], int(match[2]), match[3] or ""
    entries = (original if is_lost else outcome).get(part) or []
    if part == "new_observations":
        thing = f"observation {index + 1}"
    else:
        name = str(entries[index]["name"]) if index < len(entries) else f"material {index + 1}"
        alike = [number for number, entry in enumerate(entries) if entry["name"] == name]
        # Several materials may have one name.
        thing = f"{name} ({alike.index(index) + 1} of {len(alike)})" if len(alike) > 1 else name
    field = rest.removeprefix("properties.")
    return f"{thing}: {_FIELDS.get(field, humanise_name(field))}" if rest else f"{thing}, as a whole"


def list_places(twin: Twin) -> list[tuple[str, str]]:
    """Return the path of every difference of a twin, each with its place in words."""
    original, outcome = twin.transition.step["outcome"], twin.outcome or {}
    return [
        (str(one["path"]), describe_place(str(one["path"]), original, outcome, one.get("after") is None))
        for one in twin.diff
    ]
