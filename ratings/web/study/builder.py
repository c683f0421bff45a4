"""Create and edit draft studies: from a study document, or in four steps that are saved one by one."""

import random
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

from django.contrib import messages
from django.db.models import Count
from django.forms import BoundField
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from ratings.blinding import item_view
from ratings.blinding.item_names import name_item
from ratings.models import EVIDENCE, Study
from ratings.protocol import CandidateItem, PlanError, ProtocolError, StudyProtocol, study_protocol
from ratings.protocol.study_protocol import CHOICES, LAYOUTS, MARKS
from ratings.studies import StudyError, assignment_preview, freeze, lifecycle, pool, study_sizes
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.study import step_forms
from ratings.web.study.step_forms import DocumentForm, ItemsForm, QuestionForm, RatersForm, ScreenForm, StepForm
from simulation.models import Episode, Transition, Twin
from simulation.web import StaffRequest, staff_only

_MAX_PREVIEWED = 12  # items offered in the preview


def describe_needs(study: Study) -> dict[str, Any]:
    """Return the size of a draft, or the problems that prevent it from being opened. Fast: does not query the pool."""
    problems = lifecycle.find_opening_problems(study.protocol)
    if problems:
        return {"problems": problems, "sizes": None, "limits": []}
    limits = study_protocol.list_limits(study_protocol.load_protocol(study.protocol))
    return {"problems": problems, "sizes": study_sizes.compute_sizes(study), "limits": limits}


def describe_availability(study: Study) -> dict[str, Any]:
    """Return what a draft needs and the items available for it, which takes time if the pool is large."""
    context = describe_needs(study)
    if context["problems"]:
        return context | {"stock": []}
    protocol = study_protocol.load_protocol(study.protocol)
    stock, left_out, also_in_unblinded, alike = pool.take_stock(protocol, study)
    missing = [line for line in stock if not line.is_enough]
    context |= {"stock": stock, "left_out": left_out, "shown": also_in_unblinded, "alike": alike}
    context |= {"short": bool(missing), "waiting": any(line.unvetted or line.held for line in missing)}
    # Planning with too few items would only repeat that items are missing.
    if not missing and context["sizes"].items:
        try:
            freeze.preview_opening(protocol, study)
        except PlanError as error:
            context["unplannable"] = str(error)
    return context


@study_page("admin", "analyst")
@require_safe
def show_availability(request: StudyRequest) -> HttpResponse:
    """Show the items available for a draft: a fragment that the draft's page requests once it is loaded."""
    if not request.study.is_draft:
        # 204 makes htmx leave the page as it is.
        return HttpResponse(status=204)
    context = {"study": request.study, "may_run": request.role != "analyst", **describe_availability(request.study)}
    return render(request, "ratings/_study_stock.html", context)


@study_page("admin")
@require_safe
def preview_item(request: StudyRequest) -> HttpResponse:
    """Show one item as a rater would see it, in any layout. Opens and stores nothing."""
    candidates = _list_preview_items(request.study)
    asked = request.GET.get("item", "")
    is_number = asked.isdecimal() and len(asked) < 4 and int(asked) > 0
    number = min(int(asked), len(candidates)) if is_number else 1
    arm = _choose_arm(request, study_protocol.load_protocol(request.study.protocol))
    names = {key: [(value, choice.name) for value, choice in CHOICES[key].items()] for key in ("layouts", "marks")}
    names_of_items = [(at, name_item(payload)) for at, (payload, _) in enumerate(candidates, 1)]
    context = {"study": request.study, "number": number, "numbers": names_of_items, "arm": arm}
    context |= {"layouts": names["layouts"], "all_marks": names["marks"]}
    if candidates:
        payload, goal = candidates[number - 1]
        context |= item_view.build_item_view(payload, goal, **arm)
    return render(request, "ratings/study_preview.html", context)


def _list_preview_items(study: Study) -> list[tuple[Any, Any]]:
    """Return payload and context of a few items, in an order that reveals nothing about their sources."""
    if not study.is_draft:
        return list(study.items.order_by("code").values_list("payload", "context")[:_MAX_PREVIEWED])
    try:
        protocol = lifecycle.parse_protocol(study.protocol)
    except ProtocolError:
        return []
    # The preview offers screens with and without context, so the context is needed in any case.
    display = protocol.display.model_copy(update={"context": (False, True)})
    # Seeded by the study: reloading the page shows the same items under the same numbers.
    rng = random.Random(f"preview/{study.seed}")
    slugs = list(protocol.experiments or pool.list_experiments())
    rng.shuffle(slugs)
    by_key: dict[str, CandidateItem] = {}
    for slug in slugs:  # one experiment at a time: a few items are enough, and the pool may be large
        only_slug = protocol.model_copy(update={"display": display, "experiments": (slug,)})
        by_key |= {one.candidate.key: one for one in pool.list_usable_candidates(only_slug, study)}
        if len(by_key) >= _MAX_PREVIEWED:
            break
    sample = rng.sample([by_key[key] for key in sorted(by_key)], min(_MAX_PREVIEWED, len(by_key)))
    return [(candidate.payload, candidate.context) for candidate in sample]


def _choose_arm(request: StudyRequest, protocol: StudyProtocol) -> dict[str, Any]:
    """Return the requested screen; missing parts are those of the study's first screen."""
    display, query = protocol.display, request.GET
    known_context = {"off": False, "on": True}
    return {
        "layout": query["layout"] if query.get("layout") in LAYOUTS else display.layouts[0],
        "with_context": known_context.get(query.get("context", ""), display.context[0]),
        "marks": query["marks"] if query.get("marks") in MARKS else display.marks[0],
        "stage": "first" if query.get("stage") == "first" else "final",
    }


@study_page("admin")
@require_safe
def show_assignments(request: StudyRequest) -> HttpResponse:
    """Show which raters rate which items: the plan of a draft with sources, an open study without sources."""
    study = request.study
    context: dict[str, Any] = {"study": study, "matrix": None, "problems": []}
    try:
        load = assignment_preview.preview_assignments if study.is_draft else assignment_preview.load_assignments
        context["matrix"] = load(study)
    except (PlanError, ProtocolError, StudyError) as error:
        context["problems"] = _list_problems(error)
    return render(request, "ratings/study_matrix.html", context)


@study_page("admin")
@require_safe
def show_empty_results(request: StudyRequest) -> HttpResponse:
    """Show which results a draft will not have: a fragment that the page of assignments requests once it is loaded."""
    if not request.study.is_draft:
        return HttpResponse(status=204)
    context: dict[str, Any] = {"study": request.study, "forecast": None, "problems": []}
    try:
        context["forecast"] = _load_empty_cells().forecast_empty_results(request.study)
    except (PlanError, ProtocolError) as error:
        context["problems"] = _list_problems(error)
    return render(request, "ratings/_study_empty.html", context)


@study_page("admin")
@require_safe
def download_plan(request: StudyRequest) -> HttpResponse:
    """Return the plan of a draft as JSON: the work of each rater, and the results that would be empty."""
    if not request.study.is_draft:
        problem = f"{request.study.name} is {request.study.status}: only a draft has a plan"
        return JsonResponse({"problems": [problem]}, status=409)
    try:
        plan = _load_empty_cells().describe_plan(request.study)
    except (PlanError, ProtocolError) as error:
        return JsonResponse({"problems": list(_list_problems(error))}, status=409)
    return JsonResponse(plan)


def _load_empty_cells() -> Any:
    # It imports scipy: a second and 100 MB that most web processes never need.
    return import_module("ratings.results.empty_cells")


def _list_problems(error: Exception) -> Sequence[str]:
    return error.problems if isinstance(error, ProtocolError) else [str(error)]


@study_page("admin")
@require_POST
def duplicate_study(request: StudyRequest) -> HttpResponse:
    """Create a new draft with the same protocol. Only staff may create studies."""
    if not request.user.is_staff:
        messages.error(request, "Only staff can create studies. Ask a member of staff for a copy.")
        return redirect("ratings:study", request.study.slug)
    copy = lifecycle.duplicate_study(request.study, request.user)
    messages.success(request, "This is the copy. It has the same seed, so it draws the same items from the same pool.")
    return redirect("ratings:build", copy.slug, "question")


@study_page("admin")
@require_http_methods(["GET", "HEAD", "POST"])
def delete_study(request: StudyRequest) -> HttpResponse:
    """Ask for confirmation, then delete a draft."""
    # Only a draft can be deleted: nobody has been shown anything of it.
    if request.method != "POST" and request.study.is_draft:
        return render(request, "ratings/study_delete.html", {"study": request.study})
    try:
        lifecycle.delete_draft(request.study)
    except StudyError as error:
        messages.error(request, str(error))
        return redirect("ratings:study", request.study.slug)
    messages.success(request, f"The draft {request.study.name} has been deleted.")
    return redirect("ratings:studies")


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
    posted = request.POST if request.method == "POST" and not from_document else None
    form = QuestionForm(posted, document=step_forms.blank_document())
    document = DocumentForm(request.POST, request.FILES) if from_document else DocumentForm()
    sent_form = document if from_document else form
    if sent_form.is_valid() and sent_form.protocol and request.POST.get("do") != "check":
        try:
            study = lifecycle.create_study(sent_form.protocol, request.user)
        except ProtocolError as error:
            sent_form.add_problems(error.problems)
        else:
            next_page = ("ratings:study", study.slug) if from_document else ("ratings:build", study.slug, "items")
            return redirect(*next_page)
    # Checking a document only counts the available items; it creates nothing.
    checked = sent_form.protocol if from_document and not sent_form.errors else None
    context: dict[str, Any] = {"form": form, "document": document, "sent": sent_form, "checked": checked}
    context |= {"steps": STEPS, "at": STEPS[0]}
    if checked:
        stock = pool.take_stock(checked)
        context |= {**stock._asdict(), "stock": stock.lines}
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
    study, is_last = request.study, current_step == STEPS[-1]
    context = {"study": study, "form": form, "steps": STEPS, "at": current_step, "last": is_last}
    if isinstance(form, RatersForm) and request.method == "GET":
        context["limits"] = study_protocol.list_limits(form.protocol)
    if isinstance(form, ItemsForm):
        context |= {"rows": _build_source_table(form, study.kind), "imported": study.imported_items.count()}
        context["perturbed"] = study.kind != EVIDENCE
        # Counting takes a while in a large pool, so it happens only on request and only for what was saved.
        if request.method == "GET" and "counted" in request.GET:
            context |= describe_availability(study)
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
    if current_step.form is RatersForm:
        for limit in study_protocol.list_limits(form.protocol):
            messages.warning(request, f"{limit.problem} {limit.advice}")
    action, next_index = request.POST.get("do", "next"), STEPS.index(current_step) + 1
    if action == "count":
        return redirect(f"{reverse('ratings:build', args=[study.slug, 'items'])}?counted=1#counted")
    if action == "plan":
        return redirect("ratings:planner", study.slug)
    if action == "save" or next_index == len(STEPS):
        return redirect("ratings:study", study.slug)
    return redirect("ratings:build", study.slug, STEPS[next_index].key)


def _build_source_table(form: ItemsForm, kind: str) -> list[tuple[str, list[SourceCell]]]:
    """Return the source table: a row for each cast, a cell for each perturbation that this kind of study can have."""
    if kind == EVIDENCE:  # submitted episodes that a classifier has judged
        judged = Episode.objects.filter(status="submitted", counts=True, mask_key="", reviews__isnull=False).order_by()
        unperturbed, twins = judged.values_list("cast").annotate(n=Count("pk", distinct=True)), Twin.objects.none()
    else:  # an upper limit: some items may be identical after blinding; `pool_report` counts exactly
        steps = Transition.objects.filter(
            accepted=True, episode__counts=True, episode__mask_key="", episode__status__in=Episode.ENDED
        )
        by_cast = steps.order_by().values_list("episode__cast")
        unperturbed, twins = by_cast.annotate(n=Count("content_sha256", distinct=True)), Twin.objects.all()
    available = {(cast, "none"): n for cast, n in unperturbed}
    made = twins.filter(status="done").order_by().values_list("cast", "perturbation").annotate(n=Count("pk"))
    available |= {(cast, perturbation): n for cast, perturbation, n in made}
    table: dict[str, list[SourceCell]] = {}
    for row in form.iter_source_rows():
        heading = "As simulated" if row.perturbation == "none" else f"{row.perturbation.capitalize()} errors"
        cell = SourceCell(row.field, heading, available.get((row.cast, row.perturbation), 0))
        table.setdefault(row.cast, []).append(cell)
    return list(table.items())


urls: list[URLPattern] = [
    path("studies/new/", create_study, name="new_study"),
    path("studies/<slug:slug>/build/<slug:step>/", edit_step, name="build"),
    path("studies/<slug:slug>/stock/", show_availability, name="stock"),
    path("studies/<slug:slug>/preview/", preview_item, name="preview"),
    path("studies/<slug:slug>/matrix/", show_assignments, name="matrix"),
    path("studies/<slug:slug>/empty/", show_empty_results, name="empty_cells"),
    path("studies/<slug:slug>/plan.json", download_plan, name="plan_json"),
    path("studies/<slug:slug>/duplicate/", duplicate_study, name="duplicate"),
    path("studies/<slug:slug>/delete/", delete_study, name="delete_study"),
]
