"""The list of code episodes: sorted, filtered and searched, with a button that stops the chosen ones."""

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from simulation.casts import code_cast_availability
from simulation.models import CodeEpisode, ReplicationTask
from simulation.replication.grading import OUTCOMES
from simulation.runs import control
from simulation.web.access import StaffRequest, staff_action, staff_page
from simulation.web.episodes import PER_PAGE
from simulation.web.replication.episode_rows import code_episodes_for_list, make_code_episode_row
from wetbench_site.sorted_lists import MAX_SEARCH, Column, Sorting, match_words
from wetbench_site.text import format_count

COLUMNS = (
    Column("episode", "Code episode", ("mask__task__slug", "mask__n", "mask__key", "replicate")),
    Column("hidden", "Hidden", ("mask__n",), is_number=True),
    Column("cast", "Cast", ("cast",)),
    Column("outcome", "Outcome", ("grading__outcome", "status"), has_nulls=True),
    Column("steps", "Steps", ("next_number",), falls_first=True, is_number=True),
    Column("seconds", "Sandbox time", ("sandbox_seconds",), falls_first=True, is_number=True),
    Column("created", "Created", ("created_at",), falls_first=True),
)


class CodeEpisodeFilter(forms.Form):
    """Filters of the list; unknown values are ignored."""

    q = forms.CharField(
        label="Search", required=False, max_length=MAX_SEARCH, widget=forms.TextInput(attrs={"type": "search"})
    )
    task = forms.ModelChoiceField(
        ReplicationTask.objects.defer("data"), to_field_name="slug", required=False, empty_label="All tasks"
    )
    n = forms.IntegerField(label="Hidden functions", required=False, min_value=0, max_value=100)
    cast = forms.ChoiceField(
        choices=lambda: [("", "All casts"), *((name, name) for name in code_cast_availability.list_names())],
        required=False,
    )
    outcome = forms.ChoiceField(
        choices=[("", "Any outcome"), *((name, name.replace("_", " ")) for name in OUTCOMES)], required=False
    )
    status = forms.ChoiceField(choices=[("", "Any status"), *CodeEpisode.STATUSES], required=False)

    def filter_rows(self, rows: QuerySet[CodeEpisode]) -> QuerySet[CodeEpisode]:
        self.is_valid()
        chosen = self.cleaned_data
        names = {
            "task": "mask__task",
            "n": "mask__n",
            "outcome": "grading__outcome",
            "cast": "cast",
            "status": "status",
        }
        lookups = {names[name]: chosen[name] for name in names if chosen.get(name) not in (None, "")}
        return rows.filter(
            match_words(chosen.get("q", ""), "mask__task__name", "mask__task__slug", "mask__key", "cast"), **lookups
        )

    @property
    def is_filtered(self) -> bool:
        self.is_valid()
        return any(value not in (None, "") for value in self.cleaned_data.values())


@staff_page
def list_code_episodes(request: StaffRequest) -> HttpResponse:
    form = CodeEpisodeFilter(request.GET)
    rows, sorting = form.filter_rows(code_episodes_for_list()), Sorting(COLUMNS, request.GET, "-created")
    page = Paginator(sorting.order_rows(rows), PER_PAGE).get_page(request.GET.get("page"))
    lines = [make_code_episode_row(row) for row in page]
    context: dict[str, Any] = {
        "form": form,
        "sorting": sorting,
        "page": page,
        "filtered": form.is_filtered,
        "lines": lines,
        "has_live": any(line.may_stop for line in lines),
        "by_rules": any(line.by_rules for line in lines),
    }
    return render(request, "simulation/replication/episodes.html", context)


@staff_action
def act_on_code_episodes(request: StaffRequest) -> HttpResponse:
    """Stop the chosen code episodes."""
    address = reverse("simulation:code_episodes")
    back = f"{address}?{request.GET.urlencode()}" if request.GET else address
    try:
        chosen = list(CodeEpisode.objects.filter(code__in=request.POST.getlist("episode")[:PER_PAGE]))
    except (ValidationError, ValueError):
        chosen = []
    if not chosen:
        messages.info(request, "Choose at least one code episode first.")
        return redirect(back)
    stopped = sum(control.stop_code_episode(row) for row in chosen)
    ended = len(chosen) - stopped
    note = f" {format_count(ended, 'code episode')} had ended already." if ended else ""
    messages.success(request, f"{format_count(stopped, 'code episode')} stopped.{note}")
    return redirect(back)
