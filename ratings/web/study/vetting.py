"""The vetting queue: a person reviews each twin before it can be used in a study."""

from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.blinding import allow_list, item_view
from ratings.rating.next_item import uses_single_keys
from ratings.studies import quarantine
from ratings.studies.quarantine import Secret
from simulation.lab.errors import LabError
from simulation.models import SampledTwin, Twin, VettingSample
from simulation.runs import twin_filters, vetting, vetting_samples
from simulation.web import StaffRequest, staff_only
from simulation.web.transcript import build_checker_report
from simulation.web.twin_filter import QueueFilter, list_places

_YES_NO = [("yes", "Yes"), ("no", "No")]
_YES_OR_NO = {"yes": True, "no": False}
_LARGE_FIELDS = [f"transition__episode__{name}" for name in ("initial", "pending", "memory", "experiment__data")]
PER_PAGE = 50
SHOWN_RECENT, SHOWN_SAMPLES = 10, 5


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

    def __init__(self, twin: Twin, data: Any = None, blind: bool = False) -> None:
        """`blind`: the form of a second person, without anything of the first person's decision."""
        places = list_places(twin)
        super().__init__(data, initial=_build_initial(twin, [place for place, _ in places], blind))
        self.twin = twin
        field = self.fields["field"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [*places, ("", "more than one location, or none of these")]
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


def _build_initial(twin: Twin, paths: list[str], blind: bool) -> dict[str, str]:
    """Return the previous decision's answers, or for a first review the planted type and, if known, the location."""
    if blind:
        location = paths[0] if len(paths) == 1 else ""
        return {"perturbation": twin.perturbation, **({"field": location} if location else {})}
    initial = {"perturbation": vetting.get_error_type(twin), "kind": twin.kind.replace("_", " ")}
    location = twin.field if twin.vetted_at else vetting.find_error_location(twin)
    return {**initial, "field": location} if location or twin.vetted_at else initial


@staff_only
@require_safe
def show_queue(request: StaffRequest) -> HttpResponse:
    """Show the twins to review under the chosen filter, the samples, and the recent decisions."""
    form = QueueFilter(request.GET)
    filters = form.get_filters()
    page = Paginator(_load_list_rows(_filter_queue(filters)), PER_PAGE).get_page(request.GET.get("page"))
    decided = _load_list_rows(Twin.objects.filter(~Q(vetting=""), vetted_at__isnull=False)).order_by("-vetted_at")
    context = {
        "form": form,
        "query": form.query,
        "filtered": len(filters) > 1 or filters["vetting"] != "waiting",
        "state": filters["vetting"],
        "page": page,
        # Those wait for a person too, though studies may use them already.
        "unread": _filter_queue({**filters, "vetting": "unread"}).count() if filters["vetting"] == "waiting" else 0,
        "unread_query": urlencode({**filters, "vetting": "unread"}),
        "decided": decided[:SHOWN_RECENT],
        "last": find_own_last(request),
        "samples": [
            (sample, twin_filters.describe_filters(sample.filters))
            for sample in VettingSample.objects.select_related("created_by")[:SHOWN_SAMPLES]
        ],
        "sample_of": twin_filters.describe_filters(filters),
    }
    return render(request, "simulation/vetting.html", context)


def build_queue_url(form: QueueFilter) -> str:
    """Return the address of the queue with this filter."""
    return f"{reverse('ratings:vetting')}{'?' * bool(form.query)}{form.query}"


def _filter_queue(filters: dict[str, str]) -> QuerySet[Twin]:
    return twin_filters.filter_twins(vetting.get_vetting_queue(include_rules=True), filters)


def _load_list_rows(twins: QuerySet[Twin]) -> QuerySet[Twin]:
    # These columns can be large, and a list shows none of them.
    rows = twins.select_related("vetted_by", "transition__episode__experiment")
    return rows.defer("outcome", "transition__step", "transition__findings", *_LARGE_FIELDS)


def find_own_last(request: StaffRequest) -> Twin | None:
    """Return the twin that this person has just decided on, which the next page offers to undo."""
    try:
        code = UUID(request.GET.get("last", ""))
    except ValueError:
        return None
    return _load_list_rows(Twin.objects.filter(code=code, vetted_by=request.user)).exclude(vetting="").first()


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def vet_twin(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show one twin as raters would see it, with every difference; after a decision, show the next one.

    With `sample` in the URL, the next one is that of the sample, and a second person sees nothing of the first decision.
    """
    rows = Twin.objects.select_related("run", "vetted_by", "transition__episode__experiment").defer(*_LARGE_FIELDS)
    twin = get_object_or_404(rows, code=code, status="done")
    sampled = _find_sampled(request, twin)
    if (
        sampled is not None
        and not vetting_samples.list_own(sampled.sample, request.user).filter(pk=sampled.pk).exists()
    ):
        messages.info(request, "You have decided on this twin already, or both decisions exist.")
        return redirect("ratings:vetting_sample", sampled.sample.code)
    blind = sampled is not None and sampled.first_id is not None
    form = VettingForm(twin, request.POST if request.method == "POST" else None, blind)
    if form.is_valid():
        return _save_decision(request, twin, form, sampled if blind else None)
    context = {**_build_twin_context(twin, form), **_build_place(request, twin, sampled), "blind": blind}
    context["single_keys"] = uses_single_keys(request.user.pk)
    return render(request, "simulation/vetting_twin.html", context, status=422 if form.errors else 200)


def _find_sampled(request: StaffRequest, twin: Twin) -> SampledTwin | None:
    try:
        sample = UUID(request.GET.get("sample", ""))
    except ValueError:
        return None
    return get_object_or_404(SampledTwin.objects.select_related("sample"), sample__code=sample, twin=twin)


def _build_place(request: StaffRequest, twin: Twin, sampled: SampledTwin | None) -> dict[str, Any]:
    """Return where this twin is in the queue or the sample: the number that waits, the next one, and the way back."""
    last = find_own_last(request)
    if sampled is not None:
        own = vetting_samples.list_own(sampled.sample, request.user).exclude(pk=sampled.pk)
        following = own.filter(position__gt=sampled.position).first() or own.first()
        next_code = following.twin.code if following else None
        back = reverse("ratings:vetting_sample", args=[sampled.sample.code])
        query = urlencode({"sample": sampled.sample.code})
        return {
            "left": own.count(),
            "next": next_code,
            "back": back,
            "query": query,
            "sample": sampled.sample,
            "last": last,
        }
    form = QueueFilter(request.GET)
    others = _filter_queue(form.get_filters()).exclude(pk=twin.pk)
    following_twin = others.filter(pk__gt=twin.pk).only("code").first() or others.only("code").first()
    back = build_queue_url(form)
    next_code = following_twin.code if following_twin else None
    filters = {name: value for name, value in form.get_filters().items() if name != "vetting"}
    within = twin_filters.describe_filters(filters) if filters else ""
    return {
        "left": others.count(),
        "next": next_code,
        "back": back,
        "query": form.query,
        "within": within,
        "last": last,
    }


def _save_decision(request: StaffRequest, twin: Twin, form: VettingForm, second_of: SampledTwin | None) -> HttpResponse:
    """Store the decision and go to the next twin of the same filter or sample."""
    sampled = _find_sampled(request, twin)
    place = _build_place(request, twin, sampled)
    try:
        if second_of is not None:
            vetting_samples.record_second(second_of, form.parsed_answers, request.user)
            messages.success(request, "Your decision is stored beside the first one.")
        else:
            # The next page shows this decision, with a button to undo it.
            vetting.record_decision(twin, form.parsed_answers, request.user)
    except LabError as error:
        messages.error(request, str(error))
        return redirect(request.get_full_path())
    # A second decision changes nothing that could be undone.
    last = {} if second_of is not None else {"last": twin.code}
    query = "&".join(filter(None, (place["query"], urlencode(last))))
    if place["next"] is not None:
        return redirect(f"{reverse('ratings:vet', args=[place['next']])}?{query}")
    joint = "&" if "?" in place["back"] else "?"
    return redirect(f"{place['back']}{joint}{urlencode(last)}" if last else place["back"])


def _build_twin_context(twin: Twin, form: VettingForm) -> dict[str, Any]:
    step = twin.transition.step
    payload = allow_list.blind_transition(step, twin.outcome)
    secret = Secret(twin.explanation, step["outcome"])
    assert twin.outcome is not None  # a finished twin has one
    paths = [str(one["path"]) for one in twin.diff]
    changed = allow_list.find_error_keys(step, twin.outcome, paths)
    return {
        "twin": twin,
        "form": form,
        "diff": [(words, one) for (_, words), one in zip(list_places(twin), twin.diff, strict=True)],
        "checked": build_checker_report(twin.findings),
        "history": vetting.list_decisions(twin),
        "kinds": [kind.replace("_", " ") for kind in vetting.list_known_kinds()],
        "suspicious": [
            *quarantine.find_reasons(payload, {}, secret),
            *quarantine.find_name_reasons(payload, {}, quarantine.build_lexicon(None)),
        ],
        **item_view.build_item_view(payload, layout="aligned", marks=item_view.CHANGED, marked=changed),
    }


@staff_only
@require_POST
def reopen_twin(request: StaffRequest, code: UUID) -> HttpResponse:
    """Undo the decision on a twin, and show it again."""
    twin = get_object_or_404(Twin, code=code, status="done")
    if vetting.reopen(twin, request.user):
        messages.success(
            request, "The decision is undone. The twin waits for review again; the log keeps both entries."
        )
    else:
        messages.info(request, "There is no decision of a person to undo.")
    query = request.GET.urlencode()
    return redirect(f"{reverse('ratings:vet', args=[twin.code])}{'?' * bool(query)}{query}")


urls: list[URLPattern] = [
    path("vetting/", show_queue, name="vetting"),
    path("vetting/<uuid:code>/", vet_twin, name="vet"),
    path("vetting/<uuid:code>/undo/", reopen_twin, name="reopen_twin"),
]
