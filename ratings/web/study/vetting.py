"""The vetting queue: a person reviews each twin before it can be used in a study."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods, require_safe

from ratings.blinding import allow_list, item_view
from ratings.studies import quarantine
from ratings.studies.quarantine import Secret
from simulation.lab.errors import LabError
from simulation.models import Twin
from simulation.runs import vetting
from simulation.web import StaffRequest, staff_only
from simulation.web.transcript import build_checker_report

_YES_NO = [("yes", "Yes"), ("no", "No")]
_YES_OR_NO = {"yes": True, "no": False}
_LARGE_FIELDS = [f"transition__episode__{name}" for name in ("initial", "pending", "memory", "experiment__data")]
PER_PAGE = 50


def _yes_no_field(label: str, help_text: str = "") -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label, choices=_YES_NO, widget=forms.RadioSelect, help_text=help_text, error_messages={"required": "Choose yes or no"}
    )  # fmt: skip


class VettingForm(forms.Form):
    """Three questions, the error type and location, and whether the twin may be used in studies."""

    use_required_attribute = True
    wrong = _yes_no_field(
        "Is it actually wrong?", "Would an expert who looks long enough call this outcome impossible?"
    )
    only_change = _yes_no_field("Is the error the only change?")
    tell = _yes_no_field("Does anything other than the science give it away?", "For example wording, units or length.")
    perturbation = forms.ChoiceField(
        label="Error type",
        choices=[("obvious", "An obvious error"), ("subtle", "A subtle error")],
        widget=forms.RadioSelect,
    )
    field = forms.ChoiceField(label="Location of the error", required=False, widget=forms.RadioSelect)
    kind = forms.CharField(
        label="What kind of error is it?",
        required=False,
        max_length=80,
        help_text="A few words, such as wrong concentration or impossible magnification. Results are reported by kind.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "kinds"}),
    )
    note = forms.CharField(label="Note", required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 2}))
    decision = forms.ChoiceField(
        label="May it be used in studies?",
        choices=[("accepted", "Yes, accept it"), ("rejected", "No, reject it")],
        widget=forms.RadioSelect,
        error_messages={"required": "Accept it or reject it"},
    )

    def __init__(self, twin: Twin, data: Any = None) -> None:
        # The previous decision's answers, or for a first review the planted type and, if known, the location.
        initial = {"perturbation": vetting.get_error_type(twin), "kind": twin.kind.replace("_", " ")}
        location = twin.field if twin.vetted_at else vetting.find_error_location(twin)
        super().__init__(data, initial={**initial, "field": location} if location or twin.vetted_at else initial)
        self.twin = twin
        locations = [str(difference["path"]) for difference in twin.diff]
        field = self.fields["field"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [*zip(locations, locations, strict=True), ("", "more than one location, or none of these")]
        # An unperturbed twin has no error to describe.
        if twin.perturbation == "none":
            for name in ("wrong", "only_change", "perturbation", "field"):
                del self.fields[name]
        if not vetting.is_named_by_person(twin):
            del self.fields["kind"]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if not self.errors:
            for problem in vetting.find_problems(self.twin, self.parsed_answers):
                self.add_error(None, problem)
        return values

    @property
    def parsed_answers(self) -> vetting.VettingAnswers:
        values = self.cleaned_data
        wrong, only_change, tell = (_YES_OR_NO.get(values.get(name, "")) for name in ("wrong", "only_change", "tell"))
        label, field, note, kind = (str(values.get(name, "")) for name in ("perturbation", "field", "note", "kind"))
        return vetting.VettingAnswers(values["decision"], label, wrong, only_change, tell, field, note, kind)


@staff_only
@require_safe
def show_queue(request: StaffRequest) -> HttpResponse:
    """Show the twins to review and the recent decisions."""
    include_rule_made = request.GET.get("all") == "1"
    waiting = _load_list_rows(vetting.get_vetting_queue(include_rule_made))
    decided = _load_list_rows(Twin.objects.filter(~Q(vetting=""), vetted_at__isnull=False)).order_by("-vetted_at")
    context = {
        "waiting": waiting[:PER_PAGE],
        "count": vetting.get_vetting_queue(include_rule_made).count(),
        "decided": decided[:10],
        "everything": include_rule_made,
    }
    return render(request, "simulation/vetting.html", context)


def _load_list_rows(twins: QuerySet[Twin]) -> QuerySet[Twin]:
    # These columns can be large, and a list shows none of them.
    rows = twins.select_related("vetted_by", "transition__episode__experiment")
    return rows.defer("outcome", "transition__step", "transition__findings", *_LARGE_FIELDS)


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def vet_twin(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show one twin as raters would see it, with every difference; after a decision, show the next one."""
    rows = Twin.objects.select_related("run", "vetted_by", "transition__episode__experiment").defer(*_LARGE_FIELDS)
    twin = get_object_or_404(rows, code=code, status="done")
    form = VettingForm(twin, request.POST if request.method == "POST" else None)
    if form.is_valid():
        return _save_decision(request, twin, form)
    context = _build_twin_context(twin, form)
    return render(request, "simulation/vetting_twin.html", context, status=422 if form.errors else 200)


def _save_decision(request: StaffRequest, twin: Twin, form: VettingForm) -> HttpResponse:
    try:
        decision = vetting.record_decision(twin, form.parsed_answers, request.user)
    except LabError as error:
        messages.error(request, str(error))
        return redirect("ratings:vet", twin.code)
    messages.success(request, f"{decision.get_decision_display().capitalize()}. The decision is logged.")
    # The next twin in order; from the start of the queue once the end is reached.
    next_twin = vetting.get_vetting_queue().filter(pk__gt=twin.pk).first() or vetting.get_vetting_queue().first()
    return redirect("ratings:vet", next_twin.code) if next_twin else redirect("ratings:vetting")


def _build_twin_context(twin: Twin, form: VettingForm) -> dict[str, Any]:
    step = twin.transition.step
    payload = allow_list.blind_transition(step, twin.outcome)
    secret = Secret(twin.explanation, step["outcome"])
    return {
        "twin": twin,
        "form": form,
        "diff": twin.diff,
        "checked": build_checker_report(twin.findings),
        "history": vetting.list_decisions(twin),
        "kinds": [kind.replace("_", " ") for kind in vetting.list_known_kinds()],
        "suspicious": [
            *quarantine.find_reasons(payload, {}, secret),
            *quarantine.find_name_reasons(payload, {}, quarantine.build_lexicon(None)),
        ],
        "left": vetting.get_vetting_queue().exclude(pk=twin.pk).count(),
        **item_view.build_item_view(payload, layout="aligned"),
    }


urls: list[URLPattern] = [
    path("vetting/", show_queue, name="vetting"),
    path("vetting/<uuid:code>/", vet_twin, name="vet"),
]
