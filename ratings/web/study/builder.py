"""Create and edit draft studies: from a study document, or in four steps that are saved one by one."""

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
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.study import drafts, step_forms
from ratings.web.study.document_form import DocumentForm
from ratings.web.study.step_forms import ItemsForm, QuestionForm, RatersForm, ScreenForm, StepForm
from simulation.models import Episode, Transition, Twin
from simulation.web import StaffRequest, staff_only


class Step(NamedTuple):
    """One page of the builder."""

    key: str
    name: str
    form: type[StepForm]


STEPS = (
    Step("question", "Question and guide", QuestionForm),
    Step("items", "Items", ItemsForm),
    Step("raters", "Raters", RatersForm),
    Step("screen", "Screen", ScreenForm),
)


class SourceCell(NamedTuple):
    """A field of the source table with the number of items available: outcomes, or evidence records."""

    field: BoundField
    heading: str
    available: int


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def create_study(request: StaffRequest) -> HttpResponse:
    """Show the first step of a new study, or create or check a draft from a study document."""
    from_document = request.POST.get("by") == "document"
    form = QuestionForm(
        request.POST if request.method == "POST" and not from_document else None, document=step_forms.blank_document()
    )
    document = DocumentForm(request.POST if from_document else None, request.FILES if from_document else None)
    sent_form = document if from_document else form
    if sent_form.is_valid() and sent_form.protocol and request.POST.get("do") != "check":
        try:
            study = lifecycle.create_study(sent_form.protocol, request.user)
        except ProtocolError as error:
            sent_form.add_problems(error.problems)
        else:
            return (
                redirect("ratings:study", study.slug)
                if from_document
                else redirect("ratings:build", study.slug, "items")
            )
    # Checking a document only counts the available items; it creates nothing.
    checked = sent_form.protocol if from_document and not sent_form.errors else None
    stock = pool.take_stock(checked) if checked else None
    context = {
        "form": form,
        "document": document,
        "sent": sent_form,
        "steps": STEPS,
        "at": STEPS[0],
        "stock": stock.lines if stock else None,
        "left_out": stock.left_out if stock else 0,
        "shown": stock.shown if stock else 0,
        "alike": stock.alike if stock else None,
        "checked": checked,
    }
    return render(request, "ratings/study_new.html", context, status=422 if sent_form.errors else 200)


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def edit_step(request: StudyRequest, step: str) -> HttpResponse:
    """Show or save one step of a draft. After saving, the next step follows, or the same one again."""
    current_step = next((candidate for candidate in STEPS if candidate.key == step), None)
    if current_step is None:
        raise Http404
    # The form may still be open in a browser although another admin has opened the study.
    if not request.study.is_draft:
        messages.error(request, "The protocol can no longer be changed: the study has been opened.")
        return redirect("ratings:study", request.study.slug)
    form = current_step.form(request.POST if request.method == "POST" else None, document=request.study.protocol)
    if form.is_valid() and (response := _save_step(request, form, current_step)):
        return response
    context = {
        "study": request.study,
        "form": form,
        "steps": STEPS,
        "at": current_step,
        "last": current_step == STEPS[-1],
    }
    context |= _items_context(request, form) if isinstance(form, ItemsForm) else {}
    return render(request, f"ratings/study_step_{current_step.key}.html", context, status=422 if form.errors else 200)


def _save_step(request: StudyRequest, form: StepForm, current_step: Step) -> HttpResponse | None:
    try:
        study = lifecycle.edit_draft(request.study, form.protocol, request.user, current_step.name.lower())
    except ProtocolError as error:
        form.add_problems(error.problems)
        return None
    except StudyError as error:  # the study was opened in another tab in the meantime
        messages.error(request, str(error))
        return redirect("ratings:study", request.study.slug)
    return _redirect_after_save(study, current_step, request.POST.get("do", "next"))


def _redirect_after_save(study: Study, current_step: Step, action: str) -> HttpResponse:
    if action == "count":
        return redirect(f"{drafts.build_study_url('build', study, 'items')}?counted=1#counted")
    next_index = STEPS.index(current_step) + 1
    if action == "save" or next_index == len(STEPS):
        return redirect("ratings:study", study.slug)
    return redirect("ratings:build", study.slug, STEPS[next_index].key)


def _items_context(request: HttpRequest, form: ItemsForm) -> dict[str, Any]:
    """Return the source table and, if requested, the items available for the saved draft."""
    study: Study = request.study  # type: ignore[attr-defined]
    context: dict[str, Any] = {"rows": _build_source_table(form, study.kind), "imported": study.imported_items.count()}
    context["perturbed"] = study.kind != EVIDENCE
    # Counting takes a while in a large pool, so it happens only on request and only for what was saved.
    if request.method == "GET" and "counted" in request.GET:
        return {**context, **drafts.describe_availability(study)}
    return context


def _build_source_table(form: ItemsForm, kind: str) -> list[tuple[str, list[SourceCell]]]:
    """Return the source table: a row for each cast, a cell for each perturbation that this kind of study can have."""
    available = {(cast, "none"): n for cast, n in _count_records().items()} if kind == EVIDENCE else _count_outcomes()
    table: dict[str, list[SourceCell]] = {}
    for row in form.iter_source_rows():
        heading = "As simulated" if row.perturbation == "none" else f"{row.perturbation.capitalize()} errors"
        cell = SourceCell(row.field, heading, available.get((row.cast, row.perturbation), 0))
        table.setdefault(row.cast, []).append(cell)
    return list(table.items())


def _count_outcomes() -> dict[tuple[str, str], int]:
    """Count distinct steps and twins by cast and perturbation."""
    # An upper limit: some items may be identical after blinding. `pool_report` counts exactly.
    steps = Transition.objects.filter(accepted=True, episode__counts=True, episode__status__in=Episode.ENDED).order_by()
    unperturbed = steps.values_list("episode__cast").annotate(n=Count("content_sha256", distinct=True))
    twins = Twin.objects.filter(status="done").order_by().values_list("cast", "perturbation").annotate(n=Count("pk"))
    return {(cast, "none"): n for cast, n in unperturbed} | {(cast, perturbation): n for cast, perturbation, n in twins}


def _count_records() -> dict[str, int]:
    """Count submitted episodes that a classifier has judged, by cast."""
    judged = Episode.objects.filter(status="submitted", counts=True, reviews__isnull=False).order_by()
    return dict(judged.values_list("cast").annotate(n=Count("pk", distinct=True)))


urls: list[URLPattern] = [
    path("studies/new/", create_study, name="new_study"),
    path("studies/<slug:slug>/build/<slug:step>/", edit_step, name="build"),
    *drafts.urls,
]
