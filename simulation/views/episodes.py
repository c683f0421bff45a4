"""The list of episodes and the transcript of one."""

from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from simulation import queueing
from simulation.access import StaffRequest, page_or_fragment, staff_only
from simulation.forms import EpisodeFilter
from simulation.models import Episode
from simulation.views.standing import poll_seconds, standing, worker_notice
from simulation.views.transcript import step_view

PER_PAGE = 50


def listed() -> QuerySet[Episode]:
    """Episodes with all that a `Standing` needs, and without the long JSON columns."""
    rows = Episode.objects.select_related("experiment", "run", "retried_as").prefetch_related("reviews")
    return rows.defer("initial", "pending", "experiment__data", "retried_as__initial", "retried_as__pending")


@staff_only
@require_safe
def episodes(request: StaffRequest) -> HttpResponse:
    form = EpisodeFilter(request.GET)
    chosen = form.chosen()
    page = Paginator(listed().filter(**chosen), PER_PAGE).get_page(request.GET.get("page"))
    context = {"form": form, "page": page, "filtered": bool(chosen), "lines": [standing(row) for row in page]}
    return render(request, "simulation/episodes.html", context)


@staff_only
@require_safe
def episode(request: StaffRequest, code: UUID) -> HttpResponse:
    """The transcript. While the episode plays, htmx asks for its head alone."""
    row = get_object_or_404(listed(), code=code)
    line = standing(row)
    notice = worker_notice(line.live)
    head = {
        "line": line,
        "poll": poll_seconds([row.status], notice),
        "notice": notice,
        "shown": _shown(request, line.steps),
    }
    if request.htmx:
        head["ended"] = not line.live
        return page_or_fragment(request, "", "simulation/_episode_head.html", head)
    steps = [step_view(step) for step in row.transitions.prefetch_related("twins")]
    head["shown"] = len(steps)
    context = {**head, "steps": steps, "review": next(iter(row.reviews.all()), None)}
    return page_or_fragment(request, "simulation/episode.html", "", context)


@staff_only
@require_POST
def stop_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    row = get_object_or_404(Episode, code=code)
    if not queueing.stop(row) and not Episode.objects.filter(pk=row.pk, status="cancelled").exists():
        messages.info(request, "This episode had ended already.")
    return redirect(_back(request, row))


@staff_only
@require_POST
def retry_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    """A new episode in the same place. Pressed twice, the second press leads to the same one."""
    row = get_object_or_404(Episode, code=code)
    try:
        again = queueing.retry(row)
    except ValueError:
        messages.info(request, "This episode was not queued again: only a failed or stopped one is, and only once.")
        return redirect(_back(request, row))
    messages.success(request, f"Replicate {again.replicate} is queued again.")
    return redirect(_back(request, again))


def _back(request: StaffRequest, row: Episode) -> str:
    """To the page of the run or of the episode, whichever the button stood on."""
    if request.POST.get("from") == "run":
        return reverse("simulation:run", args=[row.run.code])
    return reverse("simulation:episode", args=[row.code])


def _shown(request: StaffRequest, steps: int) -> int:
    written = request.GET.get("shown", "")
    return int(written) if written.isdecimal() and len(written) < 6 else steps
