"""Start runs of episodes, watch and control a run, and show what it has used."""

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone

from simulation.calls import run_usage
from simulation.lab.errors import LabError
from simulation.models import CodeEpisode, Episode, Job, MissingReview, ModelCall, Run, Twin
from simulation.runs import control, create, failure_reasons
from simulation.web import access, episodes
from simulation.web.access import StaffRequest, staff_action, staff_form, staff_page
from simulation.web.replication.episode_rows import code_episodes_for_list, make_code_episode_row
from simulation.web.run_forms import BudgetForm, EpisodesForm
from simulation.web.transcript import format_duration
from simulation.web.twins import make_twin_row

FIXABLE_REASONS = ("budget", "credentials", "bad_request")  # reasons that a person can fix
MAX_MISSING_SHOWN = 20  # the page of each episode lists all of its own
# Rows that need a person come first, then active ones, then queued ones, then the rest.
_STATUS_ORDER = [("failed", "blocked", "rejected_out", "unusable"), ("running", "waiting"), ("queued",)]
_ROLES = dict(ModelCall.ROLES)
_CALL_STATES = {"started": "in progress", "lost": "lost", "fenced": "too late"}


class RunState(NamedTuple):
    """The counts of a run's rows by status, causes of failures, and which buttons apply."""

    by_status: dict[str, int]
    groups: list[failure_reasons.FailureGroup]
    total: int
    live: int
    held: int
    held_by_budget: int

    @property
    def n_ended(self) -> int:
        return self.total - self.live - self.held

    @property
    def n_blocked_otherwise(self) -> int:
        """The number of rows blocked for a reason other than the budget, such as a key or a model's options."""
        return self.held - self.held_by_budget


def count_run_state(run: Run) -> RunState:
    """Return the state of a run with one query."""
    counts = create.count_rows_by_status(run)
    # Jobs of model raters have no status "blocked", so those that failed for these reasons are tried again.
    blocked_status = "failed" if run.kind == "ratings" else "blocked"
    fixable = dict.fromkeys(FIXABLE_REASONS, 0)
    by_status: Counter[str] = Counter()
    for status, reason, number in counts:
        by_status[status] += number
        if status == blocked_status and reason in fixable:
            fixable[reason] += number
    return RunState(
        by_status=dict(by_status),
        groups=failure_reasons.group_failures(counts),
        total=by_status.total(),
        live=sum(by_status[status] for status in episodes.UNFINISHED),
        held=sum(fixable.values()) if run.kind == "ratings" else by_status["blocked"],
        held_by_budget=fixable["budget"],
    )


class RunUsage(NamedTuple):
    """Sums of the call log. `cached` is the percentage of input tokens that were read from a cache."""

    totals: run_usage.UsageTotals
    cached: int
    states: list[tuple[str, int]]
    rate: run_usage.UsageRate | None
    players: list[dict[str, Any]]
    clock: dict[str, str] | None  # time since the first call, and its limit
    held_cost: Decimal  # with a budget: reserved in addition to what is spent
    held_tokens: int


def get_run_usage(run: Run) -> RunUsage | None:
    """Return the usage with a fixed number of queries; None, without a query, if no language model takes part."""
    if not run.setup.get("models"):
        return None
    totals = run_usage.sum_usage(run)
    inputs = totals.tokens - totals.output  # output is never cached
    players = [
        {"role": _ROLES.get(one.role, one.role), "name": one.speaker, "totals": one.totals}
        for one in run_usage.sum_usage_by_speaker(run)
    ]
    clock = None
    if run.max_seconds is not None:
        passed = 0 if run.first_call_at is None else int((timezone.now() - run.first_call_at).total_seconds())
        # a duration of 0 gives ""
        clock = {"passed": format_duration(passed) or "0 s", "most": format_duration(run.max_seconds)}
    return RunUsage(
        totals=totals,
        cached=round(100 * totals.cache_read / inputs) if inputs else 0,
        states=[(_CALL_STATES.get(state, state), n) for state, _ in ModelCall.STATES if (n := getattr(totals, state))],
        rate=run_usage.compute_usage_rate(run),
        players=players,
        clock=clock,
        # Reserved means held and not yet spent: a call in progress at its maximum cost.
        held_cost=max(run.held_cost - totals.cost, Decimal(0)) if run.max_cost is not None else Decimal(0),
        held_tokens=max(run.held_tokens - totals.tokens, 0) if run.max_tokens is not None else 0,
    )


@staff_form
def start_episodes(request: StaffRequest) -> HttpResponse:
    """Show the form of a run and, with htmx or a button, what would be created and the maximum cost."""
    # Other pages link here with experiments in the URL.
    ticked = {"experiments": request.GET.getlist("experiments")} if "experiments" in request.GET else {}
    form = EpisodesForm.read_request(request, ticked)
    if started := form.try_start(request):
        return redirect("ratings:job" if isinstance(started, Job) else "simulation:run", started.code)
    if request.htmx:
        return render(request, "simulation/_order_size.html", EpisodesForm(request.GET).build_size())
    context = {"form": form, **form.build_size()}
    return render(request, "simulation/new_episodes.html", context, status=422 if form.errors else 200)


@staff_page
def show_run(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the live page of a run. Its fragment stops polling once everything has ended or is blocked."""
    row = get_object_or_404(Run.objects.select_related("created_by"), code=code)
    state = count_run_state(row)
    page = Paginator(_rows_of_run(row), episodes.PER_PAGE).get_page(request.GET.get("page"))
    jobs = list(page) if row.kind == "ratings" else []
    notice = episodes.describe_missing_worker(bool(state.live) and not row.paused_at)
    statuses = {
        "episodes": Episode.STATUSES, "twins": Twin.STATUSES, "ratings": Job.STATUSES, "code": CodeEpisode.STATUSES,
    }[row.kind]  # fmt: skip
    context = {
        "run": row,
        "state": state,
        "counts": [(label, state.by_status[status]) for status, label in statuses if state.by_status.get(status)],
        "spend": get_run_usage(row),
        "poll": episodes.poll_seconds(state.by_status, notice or row.paused_at),
        "notice": notice,
        "page": page,
        "lines": [episodes.make_episode_row(one) for one in page] if row.kind == "episodes" else [],
        "twins": [make_twin_row(one) for one in page] if row.kind == "twins" else [],
        "code_lines": (code_lines := [make_code_episode_row(one) for one in page] if row.kind == "code" else []),
        "by_rules": any(line.by_rules for line in code_lines),
        "jobs": jobs,
        **_missing_verdicts(row),
        "open_jobs": access.find_linkable_jobs(request.user, jobs),
    }
    return access.render_page_or_fragment(request, "simulation/run.html", "simulation/_run_progress.html", context)


def _missing_verdicts(row: Run) -> dict[str, Any]:
    """Return how many verdicts of the panel are missing in a run of episodes, and the first few of them."""
    if row.kind != "episodes":
        return {"missing": 0}
    # Only episodes that count: a retried one has a successor.
    rows = MissingReview.objects.filter(episode__run=row, episode__counts=True).select_related("episode__experiment")
    names = ("code", "replicate", "experiment__name")
    columns = rows.only("classifier", "reason", "requested_at", *(f"episode__{name}" for name in names))
    return {"missing": rows.count(), "missing_shown": columns.order_by("classifier", "pk")[:MAX_MISSING_SHOWN]}


def _rows_of_run(row: Run) -> QuerySet[Any]:
    if row.kind == "ratings":
        return row.jobs.defer("result").order_by("-pk")
    ranks = [When(status__in=statuses, then=Value(rank)) for rank, statuses in enumerate(_STATUS_ORDER)]
    # Sorted in SQL, so that the urgent rows are on the first page.
    urgency = Case(*ranks, default=Value(len(_STATUS_ORDER)), output_field=IntegerField())
    if row.kind == "episodes":
        return episodes.episodes_for_list().filter(run=row).order_by(urgency, "experiment__name", "replicate", "-pk")
    if row.kind == "code":
        order = ("mask__task__slug", "mask__n", "mask__key", "replicate", "-pk")
        return code_episodes_for_list().filter(run=row).order_by(urgency, *order)
    # Outcomes and differences are large and are shown on the twin's own page.
    rows = row.twins.select_related("transition__episode__experiment")
    hidden = [f"transition__episode__{name}" for name in ("initial", "pending", "memory", "experiment__data")]
    return rows.defer("outcome", "diff", "transition__step", *hidden).order_by(urgency, "pk")


@staff_form
def continue_run(request: StaffRequest, code: UUID) -> HttpResponse:
    """Set a larger budget, and continue the rows that the old budget blocked."""
    row = get_object_or_404(Run, code=code)
    form = BudgetForm(row, request.POST if request.method == "POST" else None)
    if form.is_valid():
        try:
            control.continue_run(row, **form.get_limits())
        except LabError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "The budget was raised, and the run continues.")
            return redirect("simulation:run", code=row.code)
    context = {"run": row, "form": form, "state": count_run_state(row)}
    return render(request, "simulation/continue_run.html", context, status=422 if form.errors else 200)


def _control_view(act: Callable[[StaffRequest, Run], object]) -> access.GuardedView:
    """Return the view of a button: it acts on the run and returns to the run's page."""

    def control_run(request: StaffRequest, code: UUID) -> HttpResponse:
        row = get_object_or_404(Run, code=code)
        act(request, row)
        return redirect("simulation:run", code=row.code)

    return staff_action(control_run)


@_control_view
def stop_run(_request: StaffRequest, row: Run) -> None:
    control.stop_run(row)


@_control_view
def pause_run(request: StaffRequest, row: Run) -> None:
    control.pause_run(row)
    messages.success(request, "Paused. Calls in progress are completed and stored; no new calls are made.")


@_control_view
def resume_run(_request: StaffRequest, row: Run) -> None:
    control.resume_run(row)


@_control_view
def retry_blocked(request: StaffRequest, row: Run) -> None:
    if number := control.retry_blocked(row):
        messages.success(request, f"{number} queued again; each continues at its current step.")
    else:
        messages.info(request, "Nothing was blocked by a missing key or a rejected request.")


@_control_view
def request_run_verdicts(request: StaffRequest, row: Run) -> None:
    # A provider that was blocked, for example by a wrong key, is tried again first.
    control.reopen_limiters(row)
    episodes.show_request_result(request, control.request_verdicts(row.episodes.all()))
