"""Forms for a person as agent: one to choose the experiment and the cast that answers, and one for each action."""

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

from django import forms

from simulation.casts import cast_availability
from simulation.lab.actions import Action, ActionType
from simulation.lab.errors import LabError
from simulation.lab.materials import Material
from simulation.lab.rendering import format_clock
from simulation.lab.roles import Situation
from simulation.models import Experiment
from simulation.runs import create
from simulation.web.forms import parameter_fields
from simulation.web.forms.run_form import make_cost_field


class AnsweringCast(NamedTuple):
    """The transition model that answers a person and the classifiers that judge, identified by their `cast`."""

    cast: str
    transition_model: str
    judges: tuple[str, ...]
    why_not: str


def list_answering_casts() -> list[AnsweringCast]:
    """Return each combination of transition model and classifiers once, with the first cast that has it."""
    by_roles: dict[tuple[str, ...], AnsweringCast] = {}
    for info in cast_availability.list_casts():
        judges = (info.evidence_classifier, *info.panel)
        # The agent is replaced by the person, so casts that differ only in their agent are the same here.
        if (info.transition_model, *judges) not in by_roles:
            by_roles[info.transition_model, *judges] = AnsweringCast(
                info.name, info.transition_model, judges, _find_problem(info.name)
            )
    return list(by_roles.values())


def _find_problem(cast: str) -> str:
    try:
        cast_availability.freeze_with_person(cast)
    except LabError as error:
        return str(error)
    return ""


class HumanEpisodeForm(forms.Form):
    """An episode by a person: the experiment, and who answers and judges."""

    experiment = forms.ModelChoiceField(
        Experiment.objects.defer("data").order_by("group", "name"),
        to_field_name="slug",
        empty_label="Choose one",
        error_messages={"required": "Choose an experiment."},
    )
    cast = forms.CharField(error_messages={"required": "Choose who answers."})
    max_cost = make_cost_field("If a language model answers. The episode stops before it could cost more.")
    submission_id = forms.RegexField(r"^[0-9a-f]{32}$", widget=forms.HiddenInput, initial=create.create_submission_id)

    @cached_property
    def available_casts(self) -> list[AnsweringCast]:
        return list_answering_casts()

    def list_options(self) -> list[tuple[AnsweringCast, bool]]:
        """Return every answering cast and whether it is chosen; by default, the first available one."""
        chosen = self["cast"].value() or next((one.cast for one in self.available_casts if not one.why_not), "")
        return [(one, one.cast == chosen) for one in self.available_casts]

    def clean_cast(self) -> str:
        chosen: str = self.cleaned_data["cast"]
        match = next((one for one in self.available_casts if one.cast == chosen), None)
        if match is None:
            raise forms.ValidationError(f"There is no cast {chosen[:60]!r}. Choose one from the list.")
        if match.why_not:
            raise forms.ValidationError(match.why_not)
        return chosen


class BenchMaterial(NamedTuple):
    """A usable material, with the time since it was created and since it was last changed, as text."""

    material: Material
    age: str
    unchanged: str
    chosen: bool


def list_bench_materials(now: Situation, picked: Collection[str] = ()) -> list[BenchMaterial]:
    """Return all usable materials, in the order in which they came onto the bench."""
    return [
        BenchMaterial(
            m,
            format_clock(now.elapsed - m.created_at),
            format_clock(now.elapsed - m.last_modified),
            m.barcode in picked,
        )
        for m in now.inventory.list_usable()
    ]


class ActionForm(forms.Form):
    """One action of the catalogue with its materials and parameters. A rejection costs no step."""

    # A prefix keeps the parameters of a laboratory apart from fields of the page.
    prefix = "bench"  # because a parameter of a laboratory may have any name
    materials = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)

    def __init__(self, kind: ActionType, situation: Situation, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self.kind, self.situation = kind, situation
        self.fields.update(parameter_fields.make_fields(kind, situation.inventory))
        picked = self.fields["materials"]
        assert isinstance(picked, forms.MultipleChoiceField)
        # The bench can have changed since the page was loaded; then the choice is invalid.
        picked.choices = [(m.barcode, m.name) for m in situation.inventory.list_usable()]
        picked.error_messages["invalid_choice"] = "%(value)s is no longer on the bench."
        if not kind.max_materials:
            del self.fields["materials"]

    @property
    def parameter_fields(self) -> list[forms.BoundField]:
        """The fields of the parameters, in the catalogue's order."""
        return [self[name] for name in self.fields if name != "materials"]

    @property
    def selected_barcodes(self) -> set[str]:
        """The ticked barcodes."""
        return set(self["materials"].value() or []) if "materials" in self.fields else set()

    def clean(self) -> dict[str, Any]:
        """Report the reason if the catalogue rejects the action. Its parameters were checked before."""
        cleaned = super().clean() or {}
        # The catalogue decides, by the same function as for agents; a rejection here costs no step.
        if not self.errors and (
            reason := self.situation.catalogue.find_rejection(self.get_action(), self.situation.inventory)
        ):
            self.add_error("materials" if "materials" in self.fields else None, reason)
        return cleaned

    def get_action(self) -> Action:
        """Return the action as entered, with materials in the order of the bench.

        Materials chosen in a selector count as ticked.
        """
        parameters, picked = self._entered_parameters(), set(self.cleaned_data.get("materials", ()))
        for parameter in self.kind.parameters:
            if parameter.type.endswith("material_selector"):
                picked.update(_as_tuple(parameters.get(parameter.name, ())))
        # The order of the bench, not of the ticks, which a browser does not report.
        materials = tuple(m.barcode for m in self.situation.inventory if m.barcode in picked)
        return Action(self.kind.name, materials, parameters)

    def _entered_parameters(self) -> dict[str, Any]:
        """Return the entered values by parameter, with the keys of an object combined."""
        parameters: dict[str, Any] = {}
        for name, value in self.cleaned_data.items():
            # Blank values are left out, so that the catalogue's defaults apply.
            if name == "materials" or not value:
                continue
            parameter, dot, key = name.partition(".")
            if dot:
                parameters.setdefault(parameter, {})[key] = value
            else:
                parameters[parameter] = value
        return parameters


def _as_tuple(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
