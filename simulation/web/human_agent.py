"""The bench for a person: what an agent sees, and the catalogue as a form."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.cache import add_never_cache_headers

from simulation.casts import RunConfig
from simulation.casts.run_config import PERSON
from simulation.lab import quantities
from simulation.lab.actions import KINDS, QUIT, SUBMIT, Action, ActionType
from simulation.lab.bench import REJECTIONS_ALLOWED, Bench
from simulation.lab.materials import Inventory, Material
from simulation.lab.parameters import Parameter, ParameterError
from simulation.lab.rendering import format_clock
from simulation.lab.roles import Situation
from simulation.models import Episode
from simulation.runs import benches, people
from simulation.web.access import StaffRequest, render_page_or_fragment, staff_form
from simulation.web.episodes import UNFINISHED, describe_missing_worker, make_episode_row, poll_seconds
from simulation.web.human_forms import HumanEpisodeForm
from simulation.web.reference_comparison import ReferenceComparison, compare_with_reference
from simulation.web.transcript import build_step_view, format_value, humanise_name

_MAX_OPEN = 20  # episodes in progress on the start page
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
    options = [(option, option) for option in parameter.options]
    # A blank choice omits the parameter. It names the default, so that leaving it blank is a decision.
    blank = "choose" if parameter.required else "not set"
    if parameter.default is not None:
        blank = f"{format_value(parameter.default)} (default)"
    match parameter.type:
        case "select":
            return forms.Select(choices=[("", blank), *options])
        case "boolean":
            return forms.Select(choices=[("", blank), ("true", "yes"), ("false", "no")])
        case "material_selector":
            return forms.Select(choices=[("", blank), *materials])
        case "multiselect":
            return forms.CheckboxSelectMultiple(choices=options)
        case "multi_material_selector":
            return forms.CheckboxSelectMultiple(choices=materials)
        case "range":
            return forms.NumberInput({"min": parameter.minimum, "max": parameter.maximum, "step": "any"})
        case "range_with_units":
            amount = parameter.minimum if parameter.default is None else parameter.default
            unit = quantities.parse_unit(amount, parameter.dimension)
            return AmountInput(label, quantities.list_units(parameter.dimension), unit)
        case _:
            longest = {"maxlength": parameter.max_length}
            return forms.Textarea(longest) if parameter.max_length > _LONG_TEXT else forms.TextInput(longest)


def _build_help(parameter: Parameter) -> str:
    parts = [parameter.description]
    if parameter.type in ("range", "range_with_units"):
        parts.append(f"{parameter.minimum} to {parameter.maximum}")
    if parameter.default is not None and parameter.type not in ("select", "boolean"):
        parts.append(f"default {format_value(parameter.default)}")
    return ". ".join(part.rstrip(".") for part in parts) + "."


class BenchMaterial(NamedTuple):
    """A usable material, with the time since it was created and since it was last changed, as text."""

    material: Material
    age: str
    unchanged: str
    chosen: bool


def list_bench_materials(now: Situation, picked: Collection[str] = ()) -> list[BenchMaterial]:
    """Return all usable materials, in the order in which they came onto the bench."""
    usable = [(m, now.elapsed - m.created_at, now.elapsed - m.last_modified) for m in now.inventory.list_usable()]
    return [BenchMaterial(m, format_clock(age), format_clock(same), m.barcode in picked) for m, age, same in usable]


class ActionForm(forms.Form):
    """One action of the catalogue with its materials and parameters, checked before it is tried only in practice."""

    prefix = "bench"  # keeps a laboratory's parameters, which may have any name, apart from fields of the page
    materials = forms.MultipleChoiceField(required=False, widget=forms.CheckboxSelectMultiple)

    def __init__(self, kind: ActionType, situation: Situation, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(data)
        self.kind, self.situation = kind, situation
        self.fields.update(make_fields(kind, situation.inventory))
        picked = self.fields["materials"]
        assert isinstance(picked, forms.MultipleChoiceField)
        # The bench can have changed since the page was loaded; then the choice is invalid.
        picked.choices = [(m.barcode, m.name) for m in situation.inventory.list_usable()]
        picked.error_messages["invalid_choice"] = "%(value)s is no longer on the bench."
        if not kind.max_materials:
            del self.fields["materials"]

    @property
    def parameter_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name != "materials"]

    @property
    def selected_barcodes(self) -> set[str]:
        return set(self["materials"].value() or []) if "materials" in self.fields else set()

    def clean(self) -> dict[str, Any]:
        """Report the reason if the catalogue rejects the action. Its parameters were checked before."""
        cleaned, situation = super().clean() or {}, self.situation
        if not self.errors and (reason := situation.catalogue.find_rejection(self.get_action(), situation.inventory)):
            self.add_error("materials" if "materials" in self.fields else None, reason)
        return cleaned

    def get_action(self) -> Action:
        """Return the action as entered, whether or not it is valid. Materials chosen in a selector count as ticked."""
        parameters, picked = self._entered_parameters(), self.selected_barcodes
        for parameter in self.kind.parameters:
            if parameter.type.endswith("material_selector"):
                value = parameters.get(parameter.name, ())
                picked.update((value,) if isinstance(value, str) else value)
        # The order of the bench, not of the ticks, which a browser does not report.
        materials = tuple(m.barcode for m in self.situation.inventory if m.barcode in picked)
        unknown = sorted(picked - set(materials))  # the catalogue rejects them
        return Action(self.kind.name, (*materials, *unknown), parameters)

    def _entered_parameters(self) -> dict[str, Any]:
        """Return the entered values by parameter, with the keys of an object combined."""
        parameters: dict[str, Any] = {}
        for name, field in self.fields.items():
            value = "" if name == "materials" else field.to_python(self[name].value())
            # Blank values are left out, so that the catalogue's defaults apply.
            if not value:
                continue
            parameter, dot, key = name.partition(".")
            if dot:
                parameters.setdefault(parameter, {})[key] = value
            else:
                parameters[parameter] = value
        return parameters


@staff_form
def start_human_episode(request: StaffRequest) -> HttpResponse:
    linked = {"experiment": request.GET.get("experiment", "")}
    form = HumanEpisodeForm(request.POST) if request.method == "POST" else HumanEpisodeForm(initial=linked)
    if episode := form.try_start(request):
        return redirect("simulation:play", code=episode.code)
    if request.htmx:
        # The size is computed from the form as it is, without errors: somebody is still typing.
        return render(request, "simulation/_order_size.html", HumanEpisodeForm(request.GET).build_size())
    own_episodes = _episodes_for_bench().filter(
        people.build_cast_filter([people.HUMAN_CAST]), run__created_by=request.user
    )
    lines = [make_episode_row(row) for row in own_episodes.exclude(status__in=Episode.ENDED)[:_MAX_OPEN]]
    pseudonym = people.find_human_cast(request.user)
    context = {"form": form, "lines": lines, "pseudonym": pseudonym, **form.build_size()}
    return render(request, "simulation/person_new.html", context, status=422 if form.errors else 200)


@staff_form
def show_bench(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the bench, with `action` also that action's form. htmx requests only the form, or whether an answer has arrived."""
    row = get_object_or_404(_episodes_for_bench().select_related("run__created_by"), code=code)
    agent = row.run.setup.get("cast", {}).get("agent", {})
    if not isinstance(agent, dict) or agent.get("plays") != PERSON:
        return redirect("simulation:episode", code=row.code)
    # An episode without a known creator may be continued by any member of staff.
    mine = row.run.created_by_id in (None, request.user.pk)
    if request.method == "POST":
        return _submit_action(request, row, mine)
    # A request without an action is the poll for an answer.
    if request.htmx and "action" not in request.GET:
        if not _is_answering(row):
            # A reload instead of a fragment, because the answer changes the whole page.
            response = HttpResponse(headers={"HX-Refresh": "true"})
        else:
            response = render(request, "simulation/_person_waiting.html", _waiting_context(row))
        # A cached response would never show that the answer has arrived.
        add_never_cache_headers(response)
        return response
    bench = benches.build_bench(row)
    kind = bench.catalogue.find_type(request.GET.get("action", ""))
    form = ActionForm(kind, bench.get_situation()) if kind and mine and _awaits_person(row) else None
    context = _build_context(row, bench, kind, form, mine)
    return render_page_or_fragment(request, "simulation/person.html", "simulation/_person_form.html", context)


def _submit_action(request: StaffRequest, row: Episode, mine: bool) -> HttpResponse:
    """Submit an action of the person whose episode it is.

    The rules are those of models: an action that the catalogue rejects is a step. In practice it is shown and costs none.
    """
    number, bench = request.POST.get("number", ""), benches.build_bench(row)
    kind = bench.catalogue.find_type(request.POST.get("action", ""))
    # The number of the step protects against two tabs: the second submission finds another step.
    if not mine or kind is None or not _awaits_person(row) or number != str(row.next_number):
        messages.info(request, "Nothing was done: this step has already been taken, or it is not your episode.")
        return redirect("simulation:play", code=row.code)
    form = ActionForm(kind, bench.get_situation(), request.POST)
    if not row.run.practice or form.is_valid():
        # The step is checked once more when the choice is stored, since another tab may have been quicker.
        refused = people.submit_human_action(row, form.get_action(), row.next_number)
        if not refused:
            return redirect("simulation:play", code=row.code)
        form.add_error(None, refused)
    return render(request, "simulation/person.html", _build_context(row, bench, kind, form, mine), status=422)


def _build_context(
    row: Episode, bench: Bench, kind: ActionType | None, form: ActionForm | None, mine: bool
) -> dict[str, Any]:
    steps = [build_step_view(step) for step in row.transitions.order_by("-number")]
    types = sorted(bench.catalogue.types.values(), key=lambda known: known.name)
    return {
        **_waiting_context(row),
        "mine": mine,
        "practice": row.run.practice,
        "your_move": mine and _awaits_person(row),
        "answers": RunConfig.from_json(row.run.setup).transition_model.name,
        "number": row.next_number,
        "elapsed": format_clock(bench.elapsed),
        "left": bench.max_steps - bench.steps_used,
        "rejections": bench.consecutive_rejections,
        "rejections_allowed": REJECTIONS_ALLOWED,
        "last": steps[0] if steps else None,
        "earlier": steps[1:],
        "groups": [(kind_name, [known for known in types if known.kind == kind_name]) for kind_name in KINDS],
        "kind": kind,
        "form": form,
        "shelf": list_bench_materials(bench.get_situation(), form.selected_barcodes if form else ()),
        "submit": SUBMIT,
        "quit": QUIT,
        "review": next(iter(row.reviews.all()), None),
        "reference": _compare_ended(row),
    }


def _compare_ended(row: Episode) -> ReferenceComparison | None:
    """Return the comparison with the reference once the attempt has ended; before, it would show what to do."""
    if not row.has_ended:
        return None
    accepted = row.transitions.filter(accepted=True).order_by("number")
    return compare_with_reference(row, accepted.values_list("action_name", flat=True))


def _waiting_context(row: Episode) -> dict[str, Any]:
    line, answering = make_episode_row(row), _is_answering(row)
    notice = describe_missing_worker(answering)
    poll = poll_seconds([row.status], notice) if answering else 0
    state = {"answering": answering, "notice": notice, "poll": poll, "pending": row.pending}
    return {"line": line, "episode": row, **state}


def _episodes_for_bench() -> QuerySet[Episode]:
    """Return episodes with what a bench needs, without rarely needed long columns."""
    rows = Episode.objects.select_related("experiment", "run", "retried_as").prefetch_related("reviews")
    # The steps are loaded by the bench; long columns of the retry are never shown.
    return rows.defer("initial", "memory", "experiment__data", "retried_as__initial", "retried_as__memory")


def _awaits_person(row: Episode) -> bool:
    return row.awaits_person and not row.has_ended and row.cancel_requested_at is None


def _is_answering(row: Episode) -> bool:
    """Return whether the episode can advance without the person, so that the page must poll."""
    return not row.awaits_person and row.status in UNFINISHED
