"""Studies made and changed: from a document, or in four steps that are saved one by one into the draft."""

from typing import Any, NamedTuple

from django.contrib import messages
from django.db.models import Count
from django.forms import BoundField
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings.models import EVIDENCE, Study
from ratings.protocol import ProtocolError
from ratings.studies import StudyError, lifecycle
from ratings.studies.pool import pool
from ratings.web.guards import StudyRequest, study_page
from ratings.web.study import drafts, forms
from ratings.web.study.document_form import DocumentForm
from ratings.web.study.forms import ItemsForm, QuestionForm, RatersForm, ScreenForm, StepForm
from simulation.models import Episode, Transition, Twin
from simulation.web import StaffRequest, staff_only


class Step(NamedTuple):
    """A page of the builder."""

    key: str
    name: str
    form: type[StepForm]


STEPS = (
    Step("question", "Question and guide", QuestionForm),
    Step("items", "Items", ItemsForm),
    Step("raters", "Raters", RatersForm),
    Step("screen", "Screen", ScreenForm),
)


class Cell(NamedTuple):
    """A field of the source table, and how many items there are at most: outcomes, or records of evidence."""

    field: BoundField
    heading: str
    most: int


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def new_study(request: StaffRequest) -> HttpResponse:
    """The first step of a new study; or all of it at once, as a document that is checked or made into a draft."""
    pasted = request.POST.get("by") == "document"
    form = QuestionForm(request.POST if request.method == "POST" and not pasted else None, document=forms.blank())
    document = DocumentForm(request.POST if pasted else None, request.FILES if pasted else None)
    sent = document if pasted else form
    if sent.is_valid() and sent.protocol and request.POST.get("do") != "check":
        try:
            study = lifecycle.create_study(sent.protocol, request.user)
        except ProtocolError as error:
            sent.add_problems(error.problems)
        else:
            return redirect("ratings:study", study.slug) if pasted else redirect("ratings:build", study.slug, "items")
    checked = sent.protocol if pasted and not sent.errors else None
    stock = pool.take_stock(checked) if checked else None
    context = {
        "form": form,
        "document": document,
        "sent": sent,
        "steps": STEPS,
        "at": STEPS[0],
        "stock": stock.lines if stock else None,
        "left_out": stock.left_out if stock else 0,
        "shown": stock.shown if stock else 0,
        "alike": stock.alike if stock else None,
        "checked": checked,
    }
    return render(request, "ratings/study_new.html", context, status=422 if sent.errors else 200)


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def build(request: StudyRequest, step: str) -> HttpResponse:
    """One step of a draft: what is sent is saved, then the next one follows, or the same one again."""
    at = next((one for one in STEPS if one.key == step), None)
    if at is None:
        raise Http404
    if not request.study.is_draft:
        messages.error(request, "The protocol is frozen: the study has been opened.")
        return redirect("ratings:study", request.study.slug)
    form = at.form(request.POST if request.method == "POST" else None, document=request.study.protocol)
    if form.is_valid() and (answer := _saved(request, form, at)):
        return answer
    context = {"study": request.study, "form": form, "steps": STEPS, "at": at, "last": at == STEPS[-1]}
    context |= _items_context(request, form) if isinstance(form, ItemsForm) else {}
    return render(request, f"ratings/study_step_{at.key}.html", context, status=422 if form.errors else 200)


def _saved(request: StudyRequest, form: StepForm, at: Step) -> HttpResponse | None:
    try:
        study = lifecycle.edit_draft(request.study, form.protocol, request.user, at.name.lower())
    except ProtocolError as error:
        form.add_problems(error.problems)
        return None
    except StudyError as error:  # opened in another tab meanwhile
        messages.error(request, str(error))
        return redirect("ratings:study", request.study.slug)
    return _onward(study, at, request.POST.get("do", "next"))


def _onward(study: Study, at: Step, do: str) -> HttpResponse:
    if do == "count":
        return redirect(f"{drafts.address('build', study, 'items')}?counted=1#counted")
    place = STEPS.index(at) + 1
    if do == "save" or place == len(STEPS):
        return redirect("ratings:study", study.slug)
    return redirect("ratings:build", study.slug, STEPS[place].key)


def _items_context(request: HttpRequest, form: ItemsForm) -> dict[str, Any]:
    """The source table; and, if asked for, what the pool holds of the draft as it was saved."""
    study: Study = request.study  # type: ignore[attr-defined]
    context: dict[str, Any] = {"rows": _source_rows(form, study.kind), "imported": study.imported_items.count()}
    context["perturbed"] = study.kind != EVIDENCE
    if request.method == "GET" and "counted" in request.GET:
        return {**context, **drafts.stocked(study)}
    return context


def _source_rows(form: ItemsForm, kind: str) -> list[tuple[str, list[Cell]]]:
    """The source table: a line for each cast, a cell for each perturbation that its kind can have."""
    there = {(cast, "none"): n for cast, n in _records().items()} if kind == EVIDENCE else _outcomes()
    table: dict[str, list[Cell]] = {}
    for row in form.source_rows():
        heading = "As simulated" if row.perturbation == "none" else f"{row.perturbation.capitalize()} errors"
        cell = Cell(row.field, heading, there.get((row.cast, row.perturbation), 0))
        table.setdefault(row.cast, []).append(cell)
    return list(table.items())


def _outcomes() -> dict[tuple[str, str], int]:
    """Steps that read differently, and twins. Some may read like others: `pool_report` says exactly how many do not."""
    steps = Transition.objects.filter(accepted=True, episode__counts=True, episode__status__in=Episode.ENDED).order_by()
    plain = steps.values_list("episode__cast").annotate(n=Count("content_sha256", distinct=True))
    twins = Twin.objects.filter(status="done").order_by().values_list("cast", "perturbation").annotate(n=Count("pk"))
    return {(cast, "none"): n for cast, n in plain} | {(cast, wrong): n for cast, wrong, n in twins}


def _records() -> dict[str, int]:
    """Submitted episodes that a classifier has judged, by cast."""
    judged = Episode.objects.filter(status="submitted", counts=True, reviews__isnull=False).order_by()
    return dict(judged.values_list("cast").annotate(n=Count("pk", distinct=True)))


urls: list[URLPattern] = [
    path("studies/new/", new_study, name="new_study"),
    path("studies/<slug:slug>/build/<slug:step>/", build, name="build"),
    *drafts.urls,
]
