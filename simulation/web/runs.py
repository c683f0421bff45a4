"""Start runs of episodes and watch their progress."""

from typing import Any
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from simulation.lab.errors import LabError
from simulation.models import Episode, Job, MissingReview, Run, Twin
from simulation.runs import queueing
from simulation.web import access, order_sizes
from simulation.web.access import StaffRequest, page_or_fragment, staff_only
from simulation.web.episodes import PER_PAGE, listed
from simulation.web.forms.orders import EpisodesForm
from simulation.web.run_states import run_state
from simulation.web.spend import spend
from simulation.web.standing import poll_seconds, standing, worker_notice
from simulation.web.twin_lines import twin_line

# Rows that need a person come first, then active ones, then queued ones, then the rest.
MISSING_SHOWN = 20  # the page of each episode lists all of its own
_ORDER = [("failed", "blocked", "rejected_out", "unusable"), ("running", "waiting"), ("queued",)]


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def new_episodes(request: StaffRequest) -> HttpResponse:
    """Show the form of a run. With htmx, or a button without it, it also shows what would be created and the maximum cost."""
    if request.method == "POST":
        form = EpisodesForm(request.POST)
        if form.is_valid() and order_sizes.ASKED not in request.POST and (new_run := _order(form, request)):
            return redirect("simulation:run", code=new_run.code)
    else:
        form = EpisodesForm(initial=_prefilled(request))
    if request.htmx:
        return render(request, "simulation/_order_size.html", order_sizes.of_episodes(EpisodesForm(request.GET)))
    context = {"form": form, **order_sizes.of_episodes(form)}
    return render(request, "simulation/new_episodes.html", context, status=422 if form.errors else 200)


@staff_only
@require_safe
def run(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the live page of a run. Its fragment stops polling once everything has ended or is blocked."""
    row = get_object_or_404(Run.objects.select_related("created_by"), code=code)
    state = run_state(row)
    page = Paginator(_rows(row), PER_PAGE).get_page(request.GET.get("page"))
    jobs = list(page) if row.kind == "ratings" else []
    notice = worker_notice(bool(state.live) and not row.paused_at)
    context = {
        "run": row,
        "state": state,
        "counts": _counts(row, state.by_status),
        "spend": spend(row),
        "poll": poll_seconds(state.by_status, notice or row.paused_at),
        "notice": notice,
        "page": page,
        "lines": [standing(one) for one in page] if row.kind == "episodes" else [],
        "twins": [twin_line(one) for one in page] if row.kind == "twins" else [],
        "jobs": jobs,
        **_missing(row),
        "open_jobs": access.open_jobs(request.user, jobs),
    }
    return page_or_fragment(request, "simulation/run.html", "simulation/_run_progress.html", context)


def _missing(row: Run) -> dict[str, Any]:
    """Return how many verdicts of the panel are missing in a run of episodes, and the first few of them."""
    if row.kind != "episodes":
        return {"missing": 0}
    # Only episodes that count: a retried one has a successor.
    rows = MissingReview.objects.filter(episode__run=row, episode__counts=True).select_related("episode__experiment")
    columns = rows.only(
        "classifier", "reason", "requested_at", "episode__code", "episode__replicate", "episode__experiment__name"
    )
    return {"missing": rows.count(), "missing_shown": columns.order_by("classifier", "pk")[:MISSING_SHOWN]}


def _order(form: EpisodesForm, request: StaffRequest) -> Run | None:
    """Return the run; None, with the reason in the form, if something it needs has been removed."""
    data = form.cleaned_data
    try:
        return queueing.queue_episodes(
            data["experiments"],
            data["cast"],
            data["replicates"],
            data["seed"],
            request.user,
            data["submission_id"],
            data["manifest"],
            **form.terms(),
        )
    except LabError as error:
        form.add_error(None, str(error))
        return None


def _prefilled(request: StaffRequest) -> dict[str, object]:
    """Return experiments named in the URL as initial values, so that other pages can link here."""
    return {"experiments": request.GET.getlist("experiments")} if "experiments" in request.GET else {}


def _rows(row: Run) -> QuerySet[Any]:
    if row.kind == "ratings":
        return row.jobs.defer("result").order_by("-pk")
    return _episodes(row) if row.kind == "episodes" else _twins(row)


def _episodes(row: Run) -> QuerySet[Episode]:
    return listed().filter(run=row).order_by(_urgency(), "experiment__name", "replicate", "-pk")


def _twins(row: Run) -> QuerySet[Twin]:
    # Outcomes and differences are large and are shown on the twin's own page.
    rows = row.twins.select_related("transition__episode__experiment")
    hidden = [f"transition__episode__{name}" for name in ("initial", "pending", "memory", "experiment__data")]
    return rows.defer("outcome", "diff", "transition__step", *hidden).order_by(_urgency(), "pk")


def _urgency() -> Case:
    ranks = [When(status__in=statuses, then=Value(rank)) for rank, statuses in enumerate(_ORDER)]
    # Sorted in SQL, so that the urgent rows are on the first page.
    return Case(*ranks, default=Value(len(_ORDER)), output_field=IntegerField())


def _counts(row: Run, by_status: dict[str, int]) -> list[tuple[str, int]]:
    """Return each occurring status as text with its number."""
    kinds = {"episodes": Episode.STATUSES, "twins": Twin.STATUSES, "ratings": Job.STATUSES}
    labels = dict(kinds[row.kind])
    return [(labels[status], by_status[status]) for status in labels if by_status.get(status)]
