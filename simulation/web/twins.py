"""Pages of twins: outcomes with a planted error, and the error itself. Staff only."""

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet
from django.db.models.fields.json import KT
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from simulation.lab.errors import LabError
from simulation.models import Experiment, Run, Twin
from simulation.runs import control, create, list_accepted_steps
from simulation.web import run_sizes
from simulation.web.access import StaffRequest, staff_only
from simulation.web.call_lines import defer_texts, group_calls
from simulation.web.episodes import PER_PAGE, page_of_step
from simulation.web.forms.runs import ERRORS, TwinsForm
from simulation.web.transcript import build_checker_report, build_step_view
from simulation.web.twin_status import is_made_by_model, make_twin_row

_LONG = ("initial", "pending", "memory", "experiment__data")


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def list_twins(request: StaffRequest) -> HttpResponse:
    """Show all twins or those of one step, beside the form that starts a run, with the run's size and maximum cost."""
    pools = _count_accepted_steps()
    if request.htmx:
        return render(request, "simulation/_order_size.html", run_sizes.size_of_twins(TwinsForm(request.GET), pools))
    ticked = {"experiments": request.GET.getlist("experiments")}
    form = TwinsForm(request.POST) if request.method == "POST" else TwinsForm(initial=ticked)
    # The button that only updates the size must not start a run.
    if form.is_valid() and run_sizes.SIZE_BUTTON not in request.POST and (new_run := _try_create(form, request)):
        return redirect("simulation:run", code=new_run.code)
    step = _requested_step(request)
    page = Paginator(_twins_for_list(step), PER_PAGE).get_page(request.GET.get("page"))
    twins_context = {"page": page, "twins": [make_twin_row(t) for t in page], "step": step}
    context = {"form": form, "pools": pools, **twins_context, **run_sizes.size_of_twins(form, pools)}
    return render(request, "simulation/twins.html", context, status=422 if form.errors else 200)


@staff_only
@require_safe
def show_twin(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show how the twin differs from its original, who described the error, and its calls."""
    rows = Twin.objects.select_related("run", "vetted_by", "transition__episode__experiment")
    hidden = [f"transition__episode__{name}" for name in _LONG]
    row = get_object_or_404(rows.defer("run__setup", *hidden), code=code)
    calls = list(defer_texts(row.calls.all()))
    context = {
        "line": make_twin_row(row),
        "step": build_step_view(row.transition),
        "page_number": page_of_step(row.transition.number),
        "diff": row.diff,
        "checked": build_checker_report(row.findings),
        "to_be_vetted": is_made_by_model(row),
        "calls": group_calls(calls) if calls else None,
    }
    return render(request, "simulation/twin.html", context)


@staff_only
@require_POST
def retry_twin(request: StaffRequest, code: UUID) -> HttpResponse:
    row = get_object_or_404(Twin, code=code)
    if not control.retry_twin(row):
        messages.info(request, "Not queued again: only failed, unusable or stopped twins can be retried.")
    if request.POST.get("from") == "run":
        return redirect("simulation:run", code=row.run.code)
    if request.POST.get("from") == "twin":
        return redirect("simulation:twin", code=row.code)
    return redirect(reverse("simulation:twins"))


def _try_create(form: TwinsForm, request: StaffRequest) -> Run | None:
    """Create and return the run. If that is impossible, add the reason to the form and return None."""
    data = form.cleaned_data
    try:
        return create.create_twin_run(
            list_accepted_steps(data["experiments"]),
            ERRORS[data["error"]],
            data["cast"],
            data["per_transition"],
            data["seed"],
            request.user,
            data["submission_id"],
            data["sample"],
            **form.get_options(),
        )
    except LabError as error:
        form.add_error(None, str(error))
        return None


def _requested_step(request: StaffRequest) -> UUID | None:
    """Return the code of the step to whose twins the URL limits the list, or None."""
    try:
        return UUID(request.GET.get("step", ""))
    except ValueError:
        return None


def _twins_for_list(step: UUID | None) -> QuerySet[Twin]:
    rows = Twin.objects.select_related("run", "transition__episode__experiment")
    hidden = [f"transition__episode__{name}" for name in _LONG]
    rows = rows.defer("outcome", "diff", "run__setup", "transition__step", "transition__findings", *hidden)
    rows = rows.filter(transition__code=step) if step else rows.order_by("-pk")
    # Extracted in SQL, so that the large outcome is not loaded for one word.
    annotated: QuerySet[Twin] = rows.annotate(fidelity=KT("outcome__fidelity"))
    return annotated


def _count_accepted_steps() -> dict[str, int]:
    """Return the number of steps per experiment that twins can be created from."""
    annotated = Experiment.objects.annotate(
        # Counted by the function that chooses the steps, so that the page promises what the run can create.
        n=Count(
            "episodes__transitions", filter=Q(episodes__transitions__in=list_accepted_steps(Experiment.objects.all()))
        )
    )
    return dict(annotated.values_list("slug", "n"))
