"""Two episodes of one experiment side by side, step by step: a person's beside a model's, or any other two."""

from itertools import zip_longest
from typing import Any, NamedTuple
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import Case, QuerySet, Value, When
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from simulation.models import Episode
from simulation.runs import create
from simulation.web.access import StaffRequest, staff_only
from simulation.web.episode_status import EpisodeRow, find_verdict, make_episode_row
from simulation.web.episodes import STEPS_PER_PAGE, episodes_for_list
from simulation.web.transcript import StepView, build_step_view

MAX_CHOICES = 200


class StepPair(NamedTuple):
    """Step `number` of both episodes; None where one has already ended."""

    number: int
    first: StepView | None
    second: StepView | None


class ComparedEpisode(NamedTuple):
    """One of the two compared episodes: its row as in a list of episodes, and the verdict that ended it."""

    line: EpisodeRow
    verdict: Any


@staff_only
@require_safe
def compare_episodes(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the episodes to choose from, and the chosen one beside this one. Return 404 if their experiments differ."""
    row = get_object_or_404(episodes_for_list(), code=code)
    others = _list_others(row)
    other = _get_chosen(request, row)
    context: dict[str, Any] = {"line": make_episode_row(row), "others": others[:MAX_CHOICES], "other": other}
    if other is not None:
        context |= _pair_steps(request, row, other)
        context["attempts"] = [ComparedEpisode(make_episode_row(one), find_verdict(one)) for one in (row, other)]
    return render(request, "simulation/beside.html", context)


def _list_others(row: Episode) -> QuerySet[Episode]:
    """Return the other episodes of the same experiment, those of people first."""
    # People first: the usual comparison is a person with a model.
    order = Case(When(cast=create.HUMAN_CAST, then=Value(0)), default=Value(1))
    rows = Episode.objects.filter(experiment=row.experiment).exclude(pk=row.pk)
    return rows.only("code", "cast", "replicate", "status").order_by(order, "cast", "replicate", "pk")


def _get_chosen(request: StaffRequest, row: Episode) -> Episode | None:
    code_text = request.GET.get("with", "")
    if not code_text:
        return None
    try:
        return get_object_or_404(
            episodes_for_list().filter(experiment=row.experiment).exclude(pk=row.pk), code=UUID(code_text)
        )
    # An invalid code is reported like an unknown one.
    except ValueError:
        raise Http404 from None


def _pair_steps(request: StaffRequest, row: Episode, other: Episode) -> dict[str, Any]:
    # The longer of the two, because the shorter one's missing steps are shown as empty.
    last_step = max(one.transitions.count() for one in (row, other))
    page = Paginator(range(1, last_step + 1), STEPS_PER_PAGE).get_page(request.GET.get("page"))
    steps = [
        [build_step_view(step) for step in one.transitions.filter(number__in=list(page)).order_by("number")]
        for one in (row, other)
    ]
    numbers = zip_longest(list(page), *steps)
    return {"page": page, "pairs": [StepPair(number, first, second) for number, first, second in numbers]}
