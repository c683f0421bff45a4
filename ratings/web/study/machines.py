"""The page of model raters of a study: request ratings and follow their progress. It shows nothing of their answers."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import URLPattern, path
from django.views.decorators.http import require_http_methods

from ratings.models import MachineRater
from ratings.raters.machines import machine_progress, model_raters
from ratings.studies import StudyError
from ratings.web.decorators import StudyRequest, study_page
from ratings.web.study import machine_form
from ratings.web.study.machine_form import MachineForm
from simulation.lab.errors import LabError
from simulation.runs import RunLimits
from simulation.web import run_sizes
from simulation.web.budgets import BudgetForm


@study_page("admin", "analyst")
@require_http_methods(["GET", "HEAD", "POST"])
def show_machine_raters(request: StudyRequest) -> HttpResponse:
    """Show the progress of each model rater and, for admins, a form for another. For htmx: only the maximum cost."""
    may_run = request.role in ("superuser", "admin")
    if request.method == "POST" and not may_run:
        raise Http404
    if request.method == "POST" and "rater" in request.POST:
        return _continue_rater(request)
    if not may_run or request.study.is_draft:
        if request.method == "POST":
            messages.error(request, "Open the study first: a draft has no frozen items yet.")
            return redirect("ratings:machines", request.study.slug)
        return _render_page(request, None, may_run)
    return _handle_order_form(request)


def _handle_order_form(request: StudyRequest) -> HttpResponse:
    is_posted = request.method == "POST"
    if request.htmx:
        form = MachineForm(request.study, request.GET)
        return render(request, "simulation/_order_size.html", machine_form.build_size_context(form))
    form = MachineForm(request.study, request.POST if is_posted else None)
    # Without JavaScript, a second button of the form requests only the cost.
    if is_posted and run_sizes.SIZE_BUTTON not in request.POST and form.is_valid() and _place_order(request, form):
        return redirect("ratings:machines", request.study.slug)
    return _render_page(request, form, True)


def _place_order(request: StudyRequest, form: MachineForm) -> bool:
    """Request the ratings. Return False, with the reason in the form, if that is not possible."""
    try:
        order = model_raters.request_ratings(
            request.study,
            form.cleaned_data["cast"],
            context=form.get_requested_context(),
            by=request.user,
            **form.get_limits_for_cast(),
        )
    except (StudyError, LabError) as error:
        form.add_error(None, str(error))
        return False
    _report_order(request, order)
    return True


def _continue_rater(request: StudyRequest) -> HttpResponse:
    """Continue a model rater of this study, retry its failed items, or continue it with another budget."""
    rater = get_object_or_404(
        MachineRater.objects.select_related("run"), study=request.study, code=_parse_rater_code(request)
    )
    budget = BudgetForm(rater.run, request.POST) if rater.run and "budget" in request.POST else None
    if budget is not None and not budget.is_valid():
        return _render_page(request, MachineForm(request.study), True, budget)
    try:
        retry, limits = request.POST.get("do") == "retry", budget.get_limits() if budget else RunLimits()
        order = model_raters.request_ratings(request.study, rater.cast, retry=retry, by=request.user, **limits)
    except (StudyError, LabError) as error:
        messages.error(request, str(error))
    else:
        _report_order(request, order)
    return redirect("ratings:machines", request.study.slug)


def _parse_rater_code(request: StudyRequest) -> UUID:
    try:
        return UUID(request.POST["rater"])
    except ValueError:
        raise Http404 from None


def _report_order(request: StudyRequest, order: model_raters.RequestResult) -> None:
    rater_name = f"{order.rater.label}, {order.rater.name}"
    if order.job is None:
        messages.info(request, f"{rater_name}: no items left to rate.")
    else:
        n_left = f"{order.owed} item{'' if order.owed == 1 else 's'}"
        messages.success(request, f"{rater_name}: {n_left} to rate, {model_raters.describe_input(order.rater)}.")


def _render_page(
    request: StudyRequest, form: MachineForm | None, may_run: bool, budget: BudgetForm | None = None
) -> HttpResponse:
    lines = machine_progress.list_progress(request.study)
    # One budget form at a time: the first rater that has used up its budget, or the one whose form was just sent.
    stopped_by_budget = next((line for line in lines if line.is_out_of_budget), None) if may_run else None
    if budget is not None:
        stopped_by_budget = next((line for line in lines if line.rater.run_id == budget.run.pk), None)
    elif stopped_by_budget is not None and stopped_by_budget.rater.run:
        budget = BudgetForm(stopped_by_budget.rater.run)
    context = {
        "study": request.study,
        "role": request.role,
        "may_run": may_run,
        "lines": lines,
        "form": form,
        "held": stopped_by_budget,
        "budget": budget,
        **(machine_form.build_size_context(form) if form is not None else {}),
    }
    has_errors = (form is not None and form.errors) or (budget is not None and budget.errors)
    return render(request, "ratings/machines.html", context, status=422 if has_errors else 200)


urls: list[URLPattern] = [path("studies/<slug:slug>/machines/", show_machine_raters, name="machines")]
