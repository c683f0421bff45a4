"""The list of episodes, and the transcript of one."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from simulation.models import Episode, ModelCall, Transition
from simulation.runs import control, create
from simulation.web.access import StaffRequest, render_page_or_fragment, staff_only
from simulation.web.call_lines import CallGroup, defer_texts, group_by_step, group_calls
from simulation.web.episode_status import describe_missing_worker, find_verdict, make_episode_row, poll_seconds
from simulation.web.forms.runs import EpisodeFilter
from simulation.web.transcript import build_step_view

PER_PAGE = 50
STEPS_PER_PAGE = 20
_LONG = ("initial", "pending", "memory")


def episodes_for_list() -> QuerySet[Episode]:
    """Return episodes with everything that an `EpisodeRow` needs, without the long JSON columns."""
    rows = Episode.objects.select_related("experiment", "run", "retried_as").prefetch_related("reviews")
    # Long JSON columns of fifty episodes would be loaded for nothing.
    deferred = [f"retried_as__{name}" for name in _LONG]
    return rows.defer(*_LONG, *deferred, "experiment__data", "run__setup")


@staff_only
@require_safe
def list_episodes(request: StaffRequest) -> HttpResponse:
    form = EpisodeFilter(request.GET)
    lookups = form.get_lookups()
    page = Paginator(episodes_for_list().filter(**lookups), PER_PAGE).get_page(request.GET.get("page"))
    context = {"form": form, "page": page, "filtered": bool(lookups), "lines": [make_episode_row(row) for row in page]}
    return render(request, "simulation/episodes.html", context)


@staff_only
@require_safe
def show_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the transcript, twenty steps per page. While the episode runs, htmx requests only its head."""
    row = get_object_or_404(episodes_for_list(), code=code)
    line = make_episode_row(row)
    # A paused run or a waiting person needs no worker, so no warning is shown.
    notice = describe_missing_worker(line.live and not (row.run.paused_at or row.awaits_person))
    head = {
        "line": line,
        "poll": poll_seconds([row.status], notice or row.run.paused_at),
        "notice": notice,
        "shown": _shown_steps(request, line.steps),
    }
    # Only the head changes while the episode runs; replacing the transcript would move the page under the reader.
    if request.htmx:
        head["ended"] = not line.live
        return render_page_or_fragment(request, "", "simulation/_episode_head.html", head)
    return render_page_or_fragment(request, "simulation/episode.html", "", {**head, **_build_transcript(request, row)})


def _build_transcript(request: StaffRequest, row: Episode) -> dict[str, Any]:
    """Return one page of steps with their calls, and the verdicts."""
    # Only three columns of all steps for the table of contents; the steps of this page are loaded in full.
    contents = list(row.transitions.values_list("number", "action_name", "accepted"))
    page = Paginator(row.transitions.prefetch_related("twins"), STEPS_PER_PAGE).get_page(_requested_page(request))
    steps = [build_step_view(step) for step in page]
    calls = list(_calls_of_page(row, page, len(contents)))
    by_number = group_by_step(calls)
    thoughts = row.memory.get("thoughts", {})
    # Calls without a step on the page are shown separately, for example those of the step in progress.
    numbers = {step.number for step in steps}
    return {
        "shown": len(contents),
        "page": page,
        "contents": [(number, name, ok, page_of_step(number)) for number, name, ok in contents],
        "steps": [(step, by_number.get(step.number), thoughts.get(str(step.number), "")) for step in steps],
        "plan": row.memory.get("plan", ""),
        "without_step": [(number, made) for number, made in by_number.items() if number not in numbers],
        "review": find_verdict(row),
        "panel": [review for review in row.reviews.all() if not review.primary],
        "missing": list(row.missing_reviews.all()),
        "verdict_calls": _group_verdict_calls(calls),
    }


def _calls_of_page(row: Episode, page: Page[Transition], steps: int) -> QuerySet[ModelCall]:
    """Return calls of the steps on this page and of the verdict; on the last page also those without a step."""
    condition = Q(number__in=[step.number for step in page]) | Q(role="verdict")
    # The calls of a step that is not committed belong to the end of the transcript.
    if not page.has_next():
        condition |= Q(number__gt=steps)
    return defer_texts(row.calls.filter(condition).order_by("number", "pk"))


def _group_verdict_calls(calls: list[ModelCall]) -> CallGroup | None:
    judged = [call for call in calls if call.role == "verdict"]
    return group_calls(judged) if judged else None


def _requested_page(request: StaffRequest) -> str | int | None:
    """Return the requested page, or the one that contains the requested step."""
    step = request.GET.get("step", "")
    # Fewer than six digits: a longer number is no step, and would be slow to convert.
    return page_of_step(int(step)) if step.isdecimal() and len(step) < 6 else request.GET.get("page")


def page_of_step(step: int) -> int:
    """Return the page of a transcript that contains a step."""
    return max(step - 1, 0) // STEPS_PER_PAGE + 1


@staff_only
@require_POST
def stop_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    row = get_object_or_404(Episode, code=code)
    # Stopping twice is no error; the message appears only if it had ended in another way.
    if not control.stop_episode(row) and not Episode.objects.filter(pk=row.pk, status="cancelled").exists():
        messages.info(request, "This episode has already ended.")
    return redirect(_return_url(request, row))


@staff_only
@require_POST
def retry_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    """Create a new episode that replaces this one. Pressing the button twice creates only one."""
    row = get_object_or_404(Episode, code=code)
    try:
        new_episode = create.retry_episode(row)
    # Somebody else may have retried it since the page was loaded.
    except ValueError:
        messages.info(request, "Not queued again: only failed or stopped episodes can be retried, and only once.")
        return redirect(_return_url(request, row))
    messages.success(request, f"Replicate {new_episode.replicate} is queued again.")
    return redirect(_return_url(request, new_episode))


@staff_only
@require_POST
def request_verdicts(request: StaffRequest, code: UUID) -> HttpResponse:
    """Request the missing verdicts of this episode again. Pressing the button twice requests each only once."""
    row = get_object_or_404(Episode, code=code)
    show_request_result(request, control.request_verdicts(Episode.objects.filter(pk=row.pk)))
    return redirect(_return_url(request, row))


def show_request_result(request: StaffRequest, number: int) -> None:
    """Show how many verdicts were requested again, or why none was."""
    if number:
        messages.success(request, f"{number} missing verdict{'s' * (number != 1)} requested again.")
    else:
        messages.info(request, "No verdict was requested: none is missing, or all are already requested.")


def _return_url(request: StaffRequest, row: Episode) -> str:
    """Return the URL of the page with the button: that of the run or of the episode."""
    if request.POST.get("from") == "run":
        return reverse("simulation:run", args=[row.run.code])
    return reverse("simulation:episode", args=[row.code])


def _shown_steps(request: StaffRequest, steps: int) -> int:
    text = request.GET.get("shown", "")
    return int(text) if text.isdecimal() and len(text) < 6 else steps
