"""The vetting queue: a person looks at each twin before it may stand in a study."""

from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods, require_safe

from ratings.blinding import allow_list, screen
from ratings.studies.pool import quarantine
from ratings.studies.pool.quarantine import Secret
from simulation.lab.errors import LabError
from simulation.models import Twin
from simulation.runs import vetting
from simulation.web import StaffRequest, staff_only
from simulation.web.transcript import checked

_YES_NO = [("yes", "Yes"), ("no", "No")]
_YES_OR_NO = {"yes": True, "no": False}
_LONG = ("initial", "pending", "memory", "experiment__data")
PER_PAGE = 50


def _asked(label: str, help_text: str = "") -> forms.ChoiceField:
    return forms.ChoiceField(
        label=label, choices=_YES_NO, widget=forms.RadioSelect, help_text=help_text, error_messages={"required": "Say yes or no"}
    )  # fmt: skip


class VettingForm(forms.Form):
    """Three questions, the error type it counts as, where it stands, and whether it may enter studies."""

    use_required_attribute = True
    wrong = _asked("Is it wrong at all?", "Would an expert who looks long enough call this outcome impossible?")
    only_change = _asked("Is the error the only change?")
    tell = _asked("Does its form give it away?", "Wording, units, lengths: anything that is not the science.")
    perturbation = forms.ChoiceField(
        label="It counts as",
        choices=[("obvious", "An obvious error"), ("subtle", "A subtle error")],
        widget=forms.RadioSelect,
    )
    field = forms.ChoiceField(label="The error stands at", required=False, widget=forms.RadioSelect)
    kind = forms.CharField(
        label="What kind of error is it?",
        required=False,
        max_length=80,
        help_text="A few words, such as wrong concentration or impossible magnification. Results are split by it.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "kinds"}),
    )
    note = forms.CharField(label="Note", required=False, max_length=2000, widget=forms.Textarea(attrs={"rows": 2}))
    decision = forms.ChoiceField(
        label="May it enter studies?",
        choices=[("accepted", "Yes, accept it"), ("rejected", "No, reject it")],
        widget=forms.RadioSelect,
        error_messages={"required": "Accept it or reject it"},
    )

    def __init__(self, twin: Twin, data: Any = None) -> None:
        super().__init__(data, initial=_standing(twin))
        self.twin = twin
        places = [str(one["path"]) for one in vetting.places(twin)]
        field = self.fields["field"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [*((place, place) for place in places), ("", "more than one place, or none of these")]
        if twin.perturbation == "none":
            for name in ("wrong", "only_change", "perturbation", "field"):
                del self.fields[name]
        if not vetting.is_named_by_person(twin):
            del self.fields["kind"]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if not self.errors:
            for problem in vetting.problems(self.twin, self.answers):
                self.add_error(None, problem)
        return given

    @property
    def answers(self) -> vetting.Answers:
        given = self.cleaned_data
        wrong, only_change, tell = (_YES_OR_NO.get(given.get(name, "")) for name in ("wrong", "only_change", "tell"))
        label, field, note, kind = (str(given.get(name, "")) for name in ("perturbation", "field", "note", "kind"))
        return vetting.Answers(given["decision"], label, wrong, only_change, tell, field, note, kind)


def _standing(twin: Twin) -> dict[str, str]:
    """Return what was said before, or for a first look the type that was planted and the place, where one is known."""
    known = {"perturbation": vetting.counts_as(twin), "kind": twin.kind.replace("_", " ")}
    if twin.vetted_at:
        return {**known, "field": twin.field}
    return {**known, "field": place} if (place := vetting.find_place(twin)) else known


@staff_only
@require_safe
def queue(request: StaffRequest) -> HttpResponse:
    """What waits, and what was decided last."""
    everything = request.GET.get("all") == "1"
    waiting = _rows(vetting.queue(everything))
    decided = _rows(Twin.objects.filter(~Q(vetting=""), vetted_at__isnull=False)).order_by("-vetted_at")
    context = {
        "waiting": waiting[:PER_PAGE],
        "count": vetting.queue(everything).count(),
        "decided": decided[:10],
        "everything": everything,
    }
    return render(request, "simulation/vetting.html", context)


def _rows(twins: QuerySet[Twin]) -> QuerySet[Twin]:
    hidden = [f"transition__episode__{name}" for name in _LONG]
    rows = twins.select_related("vetted_by", "transition__episode__experiment")
    return rows.defer("outcome", "transition__step", "transition__findings", *hidden)


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def vet(request: StaffRequest, code: UUID) -> HttpResponse:
    """One twin: as raters would see it, with every difference beside it; then the next one."""
    hidden = [f"transition__episode__{name}" for name in _LONG]
    rows = Twin.objects.select_related("run", "vetted_by", "transition__episode__experiment").defer(*hidden)
    twin = get_object_or_404(rows, code=code, status="done")
    form = VettingForm(twin, request.POST if request.method == "POST" else None)
    if form.is_valid():
        return _decided(request, twin, form)
    return render(request, "simulation/vetting_twin.html", _shown(twin, form), status=422 if form.errors else 200)


def _decided(request: StaffRequest, twin: Twin, form: VettingForm) -> HttpResponse:
    try:
        said = vetting.decide(twin, form.answers, request.user)
    except LabError as error:
        messages.error(request, str(error))
        return redirect("ratings:vet", twin.code)
    messages.success(request, f"{said.get_decision_display().capitalize()}, and logged.")
    following = vetting.queue().filter(pk__gt=twin.pk).first() or vetting.queue().first()
    return redirect("ratings:vet", following.code) if following else redirect("ratings:vetting")


def _shown(twin: Twin, form: VettingForm) -> dict[str, Any]:
    step = twin.transition.step
    payload = allow_list.blind_transition(step, twin.outcome)
    secret = Secret(twin.why, step["outcome"])
    return {
        "twin": twin,
        "form": form,
        "diff": vetting.places(twin),
        "checked": checked(twin.findings),
        "history": vetting.history(twin),
        "kinds": [kind.replace("_", " ") for kind in vetting.known_kinds()],
        "suspicious": [
            *quarantine.reasons(payload, {}, secret),
            *quarantine.name_reasons(payload, {}, quarantine.lexicon(None)),
        ],
        "left": vetting.queue().exclude(pk=twin.pk).count(),
        **screen.view(payload, layout="aligned"),
    }


urls: list[URLPattern] = [
    path("vetting/", queue, name="vetting"),
    path("vetting/<uuid:code>/", vet, name="vet"),
]
