"""The list of episodes: sorted, filtered and searched, with actions on the chosen ones."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import (
    DecimalField,
    DurationField,
    Exists,
    ExpressionWrapper,
    F,
    OuterRef,
    QuerySet,
    Subquery,
    Sum,
)
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from simulation.models import Episode, EvidenceReview, Experiment, ModelCall
from simulation.runs import control, people
from simulation.web.access import StaffRequest, staff_action, staff_page
from simulation.web.cast_choices import list_cast_choices
from simulation.web.episodes import PER_PAGE, episodes_for_list, make_episode_row
from wetbench_site.sorted_lists import MAX_SEARCH, Column, Sorting, match_words
from wetbench_site.text import format_count

COLUMNS = (
    Column("episode", "Episode", ("experiment__name", "replicate")),
    Column("cast", "Cast", ("cast",)),
    Column("outcome", "Outcome", ("sufficient", "status"), falls_first=True, has_nulls=True),
    Column("actions", "Actions", ("next_number",), falls_first=True, is_number=True),
    Column("duration", "Duration", ("lasted",), falls_first=True, is_number=True, has_nulls=True),
    Column("cost", "Cost", ("spent",), falls_first=True, is_number=True, has_nulls=True),
    Column("created", "Created", ("created_at",), falls_first=True),
)


class EpisodeFilter(forms.Form):
    """Filters of a list of episodes; unknown values are ignored."""

    q = forms.CharField(
        label="Search", required=False, max_length=MAX_SEARCH, widget=forms.TextInput(attrs={"type": "search"})
    )
    experiment = forms.ModelChoiceField(
        Experiment.objects.defer("data"), to_field_name="slug", required=False, empty_label="All experiments"
    )
    cast = forms.ChoiceField(
        choices=lambda: [("", "All casts"), *list_cast_choices(), (people.HUMAN_CAST, people.HUMAN_CAST)],
        required=False,
    )
    outcome = forms.ChoiceField(
        choices=[
            ("", "Any outcome"),
            ("sufficient", "evidence sufficient"),
            ("insufficient", "evidence not sufficient"),
        ],
        required=False,
        label="Outcome",
    )
    status = forms.ChoiceField(choices=[("", "Any status"), *Episode.STATUSES], required=False)

    field_order = ("q", "experiment", "cast", "outcome", "status")

    @property
    def is_filtered(self) -> bool:
        return self.is_valid() and any(self.cleaned_data.values())

    def filter_episodes(self, rows: QuerySet[Episode]) -> QuerySet[Episode]:
        self.is_valid()
        chosen = self.cleaned_data
        lookups = {name: chosen[name] for name in ("experiment", "status") if chosen.get(name)}
        # Words of the whole cast are searched; the choice "human" includes every person.
        if cast := chosen.get("cast"):
            rows = rows.filter(people.build_cast_filter([cast]))
        if outcome := chosen.get("outcome"):
            lookups |= {"reviews__primary": True, "reviews__sufficient": outcome == "sufficient"}
        return rows.filter(match_words(chosen.get("q", ""), "experiment__name", "experiment__group", "cast"), **lookups)


@staff_page
def list_episodes(request: StaffRequest) -> HttpResponse:
    form = EpisodeFilter(request.GET)
    rows, sorting = form.filter_episodes(episodes_for_list()), Sorting(COLUMNS, request.GET, "-created")
    page = Paginator(sorting.order_rows(_add_measures(rows)), PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "form": form,
        "sorting": sorting,
        "page": page,
        "filtered": form.is_filtered,
        "lines": [(make_episode_row(row), row) for row in page],
        "has_live": any(not row.has_ended for row in page),
    }
    return render(request, "simulation/episodes.html", context)


def _add_measures(rows: QuerySet[Episode]) -> QuerySet[Episode]:
    """Add what is known only from other rows: the verdict, the duration, and the known cost of the calls."""
    verdict = EvidenceReview.objects.filter(episode=OuterRef("pk"), primary=True).values("sufficient")[:1]
    calls = ModelCall.objects.filter(episode=OuterRef("pk")).order_by().values("episode")
    cost = calls.annotate(total=Sum("cost")).values("total")
    money: DecimalField[Any, Any] = DecimalField(max_digits=20, decimal_places=6)
    return rows.annotate(
        sufficient=Subquery(verdict),
        lasted=ExpressionWrapper(F("ended_at") - F("started_at"), output_field=DurationField()),
        spent=Subquery(cost, output_field=money),
        has_calls=Exists(ModelCall.objects.filter(episode=OuterRef("pk"))),
    )


@staff_action
def act_on_episodes(request: StaffRequest) -> HttpResponse:
    """Do with the chosen episodes what the pressed button names: go on to the form for twins, or stop them."""
    back = (
        f"{reverse('simulation:episodes')}?{request.GET.urlencode()}" if request.GET else reverse("simulation:episodes")
    )
    codes = request.POST.getlist("episode")[:PER_PAGE]
    try:
        chosen = list(Episode.objects.filter(code__in=codes))
    except (ValidationError, ValueError):
        chosen = []
    if not chosen:
        messages.info(request, "Choose at least one episode first.")
        return redirect(back)
    if request.POST.get("do") == "twins":
        query = urlencode({"episodes": [str(row.code) for row in chosen]}, doseq=True)
        return redirect(f"{reverse('simulation:new_twins')}?{query}")
    stopped = sum(control.stop_episode(row) for row in chosen)
    ended = len(chosen) - stopped
    note = f" {format_count(ended, 'episode')} had ended already." if ended else ""
    messages.success(request, f"{format_count(stopped, 'episode')} stopped.{note}")
    return redirect(back)
