"""The list of runs, with actions on the chosen ones."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from simulation.calls import run_usage
from simulation.models import CodeEpisode, Episode, Job, Run, Twin
from simulation.runs import control
from simulation.web.access import StaffRequest, staff_action, staff_page
from simulation.web.episodes import PER_PAGE, UNFINISHED
from wetbench_site.sorted_lists import MAX_SEARCH, Column, Sorting, match_words
from wetbench_site.text import format_count

COLUMNS = (
    Column("kind", "Run", ("kind", "cast", "seed")),
    Column("", "State"),
    Column("", "Complete", is_number=True),
    Column("", "Cost", is_number=True),
    Column("by", "Started by", ("created_by__username",), has_nulls=True),
    Column("created", "Started", ("created_at",), falls_first=True),
)
_ACTIONS = {
    "pause": ("paused", control.pause_run),
    "resume": ("resumed", control.resume_run),
    "stop": ("stopped", lambda run: control.stop_run(run) > 0),
}


class RunFilter(forms.Form):
    """Filters of the list of runs; unknown values are ignored."""

    q = forms.CharField(
        label="Search", required=False, max_length=MAX_SEARCH, widget=forms.TextInput(attrs={"type": "search"})
    )
    kind = forms.ChoiceField(
        choices=[
            ("", "All kinds"),
            ("episodes", "episodes"),
            ("twins", "twins"),
            ("ratings", "ratings"),
            ("code", "code episodes"),
        ],
        required=False,
        label="Kind",
    )


class RunRow(NamedTuple):
    """One row of the list. `tone` is the kind of its pill in site.css."""

    run: Run
    state: str
    tone: str
    ended: int
    total: int
    cost: Decimal | None  # None: no language model takes part
    is_live: bool


@staff_page
def list_runs(request: StaffRequest) -> HttpResponse:
    """Show all runs, those of the newest first unless sorted otherwise."""
    form = RunFilter(request.GET)
    form.is_valid()
    text, kind = form.cleaned_data.get("q", ""), form.cleaned_data.get("kind", "")
    rows = Run.objects.select_related("created_by").defer("setup")
    rows = rows.filter(match_words(text, "cast", "created_by__username"), Q(kind=kind) if kind else Q())
    sorting = Sorting(COLUMNS, request.GET, "-created")
    page = Paginator(sorting.order_rows(rows), PER_PAGE).get_page(request.GET.get("page"))
    lines = _make_rows(list(page))
    context = {"form": form, "sorting": sorting, "page": page, "lines": lines, "filtered": bool(text or kind)}
    context["has_live"] = any(line.is_live for line in lines)
    return render(request, "simulation/runs.html", context)


def _make_rows(runs: Sequence[Run]) -> list[RunRow]:
    """Return the rows of one page, with one query for each kind of row and one for the costs."""
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for model in (Episode, Twin, CodeEpisode, Job):
        rows = model.objects.filter(run__in=[run.pk for run in runs]).order_by()
        for run, status, number in rows.values_list("run", "status").annotate(n=Count("pk")):
            counts[run][status] += number
    usage = run_usage.sum_usage_by_run(run.pk for run in runs)
    return [_make_row(run, counts[run.pk], usage.get(run.pk)) for run in runs]


def _make_row(run: Run, by_status: Counter[str], usage: run_usage.UsageTotals | None) -> RunRow:
    live, blocked = sum(by_status[status] for status in UNFINISHED), by_status["blocked"]
    state, tone = ("Complete", "ok") if by_status.total() else ("Empty", "")
    if by_status["failed"]:
        state, tone = f"Complete, {by_status['failed']} failed", "warn"
    if blocked:
        state, tone = f"{blocked} blocked", "danger"
    if live:
        state, tone = ("Paused", "warn") if run.paused_at else ("In progress", "info")
    ended = by_status.total() - live - blocked
    return RunRow(run, state, tone, ended, by_status.total(), usage.cost if usage else None, bool(live or blocked))


@staff_action
def act_on_runs(request: StaffRequest) -> HttpResponse:
    """Pause, resume or stop the chosen runs, as the pressed button names."""
    back = f"{reverse('simulation:runs')}?{request.GET.urlencode()}" if request.GET else reverse("simulation:runs")
    try:
        chosen = list(Run.objects.filter(code__in=request.POST.getlist("run")[:PER_PAGE]))
    except (ValidationError, ValueError):
        chosen = []
    action: Any = _ACTIONS.get(request.POST.get("do", ""))
    if not chosen or action is None:
        messages.info(request, "Choose at least one run first.")
        return redirect(back)
    verb, act = action
    changed = sum(bool(act(run)) for run in chosen)
    rest = len(chosen) - changed
    note = f" {format_count(rest, 'run')} did not need it." if rest else ""
    messages.success(request, f"{format_count(changed, 'run')} {verb}.{note}")
    return redirect(back)
