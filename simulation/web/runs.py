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
from simulation.runs import create
from simulation.web import access, run_sizes
from simulation.web.access import StaffRequest, render_page_or_fragment, staff_only
from simulation.web.episode_status import describe_missing_worker, make_episode_row, poll_seconds
from simulation.web.episodes import PER_PAGE, episodes_for_list
from simulation.web.forms.runs import EpisodesForm
from simulation.web.run_states import count_run_state
from simulation.web.run_usage import get_run_usage
from simulation.web.twin_status import make_twin_row

MAX_MISSING_SHOWN = 20  # the page of each episode lists all of its own
# Rows that need a person come first, then active ones, then queued ones, then the rest.
_STATUS_ORDER = [("failed", "blocked", "rejected_out", "unusable"), ("running", "waiting"), ("queued",)]


@staff_only
@require_http_methods(["GET", "HEAD", "POST"])
def start_episodes(request: StaffRequest) -> HttpResponse:
    """Show the form of a run.

    With htmx, or with a button if there are no scripts, also show what would be created and the maximum cost.
    """
    if request.method == "POST":
        form = EpisodesForm(request.POST)
        if form.is_valid() and run_sizes.SIZE_BUTTON not in request.POST and (new_run := _try_create(form, request)):
            return redirect("simulation:run", code=new_run.code)
    else:
        form = EpisodesForm(initial=_initial_values(request))
    if request.htmx:
        return render(request, "simulation/_order_size.html", run_sizes.size_of_episodes(EpisodesForm(request.GET)))
    context = {"form": form, **run_sizes.size_of_episodes(form)}
    return render(request, "simulation/new_episodes.html", context, status=422 if form.errors else 200)


@staff_only
@require_safe
def show_run(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the live page of a run. Its fragment stops polling once everything has ended or is blocked."""
    row = get_object_or_404(Run.objects.select_related("created_by"), code=code)
    state = count_run_state(row)
    page = Paginator(_rows_of_run(row), PER_PAGE).get_page(request.GET.get("page"))
    jobs = list(page) if row.kind == "ratings" else []
    notice = describe_missing_worker(bool(state.live) and not row.paused_at)
    context = {
        "run": row,
        "state": state,
        "counts": _count_by_status(row, state.by_status),
        "spend": get_run_usage(row),
        "poll": poll_seconds(state.by_status, notice or row.paused_at),
        "notice": notice,
        "page": page,
        "lines": [make_episode_row(one) for one in page] if row.kind == "episodes" else [],
        "twins": [make_twin_row(one) for one in page] if row.kind == "twins" else [],
        "jobs": jobs,
        **_missing_verdicts(row),
        "open_jobs": access.find_linkable_jobs(request.user, jobs),
    }
    return render_page_or_fragment(request, "simulation/run.html", "simulation/_run_progress.html", context)


def _missing_verdicts(row: Run) -> dict[str, Any]:
    """Return how many verdicts of the panel are missing in a run of episodes, and the first few of them."""
    if row.kind != "episodes":
        return {"missing": 0}
    # Only episodes that count: a retried one has a successor.
    rows = MissingReview.objects.filter(episode__run=row, episode__counts=True).select_related("episode__experiment")
    columns = rows.only(
        "classifier", "reason", "requested_at", "episode__code", "episode__replicate", "episode__experiment__name"
    )
    return {"missing": rows.count(), "missing_shown": columns.order_by("classifier", "pk")[:MAX_MISSING_SHOWN]}


def _try_create(form: EpisodesForm, request: StaffRequest) -> Run | None:
    """Create and return the run. If something that it needs was removed, add the reason to the form and return None."""
    data = form.cleaned_data
    try:
        return create.create_episode_run(
            data["experiments"],
            data["cast"],
            data["replicates"],
            data["seed"],
            request.user,
            data["submission_id"],
            data["manifest"],
            **form.get_options(),
        )
    except LabError as error:
        form.add_error(None, str(error))
        return None


def _initial_values(request: StaffRequest) -> dict[str, object]:
    """Return experiments named in the URL as initial values, so that other pages can link here."""
    return {"experiments": request.GET.getlist("experiments")} if "experiments" in request.GET else {}


def _rows_of_run(row: Run) -> QuerySet[Any]:
    if row.kind == "ratings":
        return row.jobs.defer("result").order_by("-pk")
    return _episodes_of_run(row) if row.kind == "episodes" else _twins_of_run(row)


def _episodes_of_run(row: Run) -> QuerySet[Episode]:
    return episodes_for_list().filter(run=row).order_by(_order_by_urgency(), "experiment__name", "replicate", "-pk")


def _twins_of_run(row: Run) -> QuerySet[Twin]:
    # Outcomes and differences are large and are shown on the twin's own page.
    rows = row.twins.select_related("transition__episode__experiment")
    hidden = [f"transition__episode__{name}" for name in ("initial", "pending", "memory", "experiment__data")]
    return rows.defer("outcome", "diff", "transition__step", *hidden).order_by(_order_by_urgency(), "pk")


def _order_by_urgency() -> Case:
    ranks = [When(status__in=statuses, then=Value(rank)) for rank, statuses in enumerate(_STATUS_ORDER)]
    # Sorted in SQL, so that the urgent rows are on the first page.
    return Case(*ranks, default=Value(len(_STATUS_ORDER)), output_field=IntegerField())


def _count_by_status(row: Run, by_status: dict[str, int]) -> list[tuple[str, int]]:
    """Return each occurring status as text with its number."""
    kinds = {"episodes": Episode.STATUSES, "twins": Twin.STATUSES, "ratings": Job.STATUSES}
    labels = dict(kinds[row.kind])
    return [(labels[status], by_status[status]) for status in labels if by_status.get(status)]
