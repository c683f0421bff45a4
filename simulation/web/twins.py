"""Pages of twins: outcomes with a planted error, and the error itself. Staff only."""

from typing import NamedTuple
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet
from django.db.models.fields.json import KT
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from simulation.models import Experiment, Twin
from simulation.runs import control, failure_reasons, twin_filters, vetting_samples
from simulation.web.access import StaffRequest, staff_action, staff_form, staff_page
from simulation.web.calls import defer_texts, group_calls
from simulation.web.episodes import PER_PAGE, describe_wait, page_of_step
from simulation.web.transcript import build_checker_report, build_step_view
from simulation.web.twin_filter import TwinListFilter
from simulation.web.twin_forms import TwinsForm
from wetbench_site.sorted_lists import Column, Sorting

COLUMNS = (
    Column(
        "step",
        "Twin of",
        ("transition__episode__experiment__name", "transition__episode__replicate", "transition__number"),
    ),
    Column("error", "Error", ("perturbation", "kind")),
    Column("", "Explanation"),
    Column("", "Checker"),
    Column("vetting", "Vetting", ("vetting",)),
    Column("status", "Status", ("status",)),
    Column("created", "Created", ("created_at",), falls_first=True),
)
_TONES = {
    "running": "info",
    "waiting": "info",
    "done": "ok",
    "unusable": "warn",
    "failed": "danger",
    "blocked": "danger",
}
_LONG_FIELDS = [f"transition__episode__{name}" for name in ("initial", "pending", "memory", "experiment__data")]


class TwinRow(NamedTuple):
    """One row of a list of twins. `tone` is the kind of its pill in site.css."""

    twin: Twin
    label: str
    tone: str
    detail: str
    cause: str
    help: str
    may_retry: bool
    to_vet: bool


def make_twin_row(twin: Twin) -> TwinRow:
    """Return the row, without a query."""
    waiting, reason = twin.status == "waiting", failure_reasons.describe_reason(twin.status, twin.reason)
    return TwinRow(
        twin=twin,
        label="stopped" if twin.status == "cancelled" else twin.status,
        tone=_TONES.get(twin.status, ""),
        detail=describe_wait(twin) if waiting else twin.error or reason,
        cause=failure_reasons.find_cause(twin.status, twin.reason),
        help=failure_reasons.describe_remedy(twin.status, twin.reason),
        may_retry=twin.status in Twin.RETRYABLE,
        to_vet=is_made_by_model(twin) and twin.vetted_at is None,
    )


def is_made_by_model(twin: Twin) -> bool:
    """Return whether a model planted the error. Its own description is unverified, whereas a rule defines its error."""
    return twin.status == "done" and twin.perturbation != "none" and not twin.rule


@staff_page
def list_twins(request: StaffRequest) -> HttpResponse:
    """Show all twins under the chosen filter, or those of one step."""
    form, sorting = TwinListFilter(request.GET), Sorting(COLUMNS, request.GET, "-created")
    filters = form.get_filters()
    try:
        step = UUID(request.GET.get("step", ""))
    except ValueError:
        step = None
    rows = twin_filters.filter_twins(_twins_for_list(), filters)
    rows = rows.filter(transition__code=step) if step else rows
    page = Paginator(sorting.order_rows(rows), PER_PAGE).get_page(request.GET.get("page"))
    context = {"form": form, "sorting": sorting, "filtered": bool(filters), "page": page, "step": step}
    context["twins"] = [make_twin_row(twin) for twin in page]
    context["withheld"] = vetting_samples.find_withheld([*page], request.user)
    return render(request, "simulation/twins.html", context)


@staff_form
def start_twins(request: StaffRequest) -> HttpResponse:
    """Show the form that starts a run of twins, with the run's size and maximum cost."""
    if request.htmx:
        form = TwinsForm(request.GET)
        return render(request, "simulation/_order_size.html", form.build_size(_count_pools(form)))
    limit = {"run": request.GET.get("run", ""), "episodes": request.GET.getlist("episodes")}
    form = TwinsForm.read_request(request, {**limit, "experiments": request.GET.getlist("experiments")})
    pools = _count_pools(form)
    # Of a run or of chosen episodes, all experiments are wanted unless somebody deselects one.
    if request.method != "POST" and form.describe_limit():
        form.initial["experiments"] = [slug for slug, steps in pools.items() if steps]
    if new_run := form.try_start(request):
        return redirect("simulation:run", code=new_run.code)
    context = {"form": form, "pools": pools, "limited": form.describe_limit(), **form.build_size(pools)}
    return render(request, "simulation/new_twins.html", context, status=422 if form.errors else 200)


def _count_pools(form: TwinsForm) -> dict[str, int]:
    """Return the number of accepted steps of each experiment by slug, within the limit of the form."""
    # Counted by the function that chooses the steps, so that the page promises what the run can create.
    accepted = Q(episodes__transitions__in=form.list_steps(Experiment.objects.all()))
    annotated = Experiment.objects.annotate(n=Count("episodes__transitions", filter=accepted))
    return dict(annotated.values_list("slug", "n"))


@staff_page
def show_twin(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show how the twin differs from its original, who described the error, and its calls."""
    rows = Twin.objects.select_related("run", "vetted_by", "transition__episode__experiment")
    row = get_object_or_404(rows.defer("run__setup", *_LONG_FIELDS), code=code)
    calls = list(defer_texts(row.calls.all()))
    context = {
        "line": make_twin_row(row),
        "step": build_step_view(row.transition),
        "page_number": page_of_step(row.transition.number),
        "diff": row.diff,
        "checked": build_checker_report(row.findings),
        "to_be_vetted": is_made_by_model(row),
        "withheld": bool(vetting_samples.find_withheld([row], request.user)),
        "calls": group_calls(calls) if calls else None,
    }
    return render(request, "simulation/twin.html", context)


@staff_action
def retry_twin(request: StaffRequest, code: UUID) -> HttpResponse:
    row = get_object_or_404(Twin, code=code)
    if not control.retry_twin(row):
        messages.info(request, "Not queued again: only failed, unusable or stopped twins can be retried.")
    if request.POST.get("from") == "run":
        return redirect("simulation:run", code=row.run.code)
    if request.POST.get("from") == "twin":
        return redirect("simulation:twin", code=row.code)
    return redirect("simulation:twins")


def _twins_for_list() -> QuerySet[Twin]:
    rows = Twin.objects.select_related("run", "transition__episode__experiment")
    rows = rows.defer("outcome", "diff", "run__setup", "transition__step", "transition__findings", *_LONG_FIELDS)
    # Extracted in SQL, so that the large outcome is not loaded for one word.
    annotated: QuerySet[Twin] = rows.annotate(fidelity=KT("outcome__fidelity"))
    return annotated
