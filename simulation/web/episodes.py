"""Episodes as rows of a list, and the transcript of one."""

from collections.abc import Collection, Mapping
from itertools import zip_longest
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Case, Max, Q, QuerySet, Sum, Value, When
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone

from simulation.lab.hidden_steps.masks import PREFIX
from simulation.models import Episode, EvidenceReview, Twin, Worker
from simulation.runs import benches, control, create, failure_reasons, people, protocol_masks
from simulation.web.access import StaffRequest, render_page_or_fragment, staff_action, staff_page
from simulation.web.calls import defer_texts, group_by_step, group_calls
from simulation.web.transcript import build_step_view

PER_PAGE = 50
STEPS_PER_PAGE = 20
MAX_CHOICES = 200
MAX_ERROR_SHOWN = 200  # characters in a list; the episode's own page shows the full text
UNFINISHED = ("queued", "running", "waiting")  # statuses in which something may still happen by itself
_LABELS = {"truncated": "Out of steps", "cancelled": "Stopped"}
_BAD = ("failed", "rejected_out", "blocked")
_TONES = {**dict.fromkeys(("running", "waiting"), "info"), **dict.fromkeys(_BAD, "danger")}
_LONG_FIELDS = ("initial", "pending", "memory")


class EpisodeRow(NamedTuple):
    """One row of a list of episodes. `tone` is the kind of its pill in site.css, "" for a plain one."""

    episode: Episode
    label: str
    detail: str
    tone: str
    steps: int
    limit: int
    live: bool
    by_person: bool
    may_stop: bool
    may_retry: bool
    cause: str  # a key of failure_reasons.CAUSES, or ""
    cause_words: str
    why: str  # failure_reasons.get_reason_key: the reason, or the status if there is none
    reason: str  # `why` in words
    help: str
    mask: str  # which steps of the protocol were hidden; "" if the agent was given none


def describe_mask(mask: Mapping[str, Any]) -> str:
    """Return a stored mask in words: which steps are hidden from the agent, and its help; "" for an episode without one."""
    if not mask:
        return ""
    steps = ", ".join(map(str, mask["hidden"]))
    text = f"hidden step{'s' * (mask['n'] > 1)} {steps}" if steps else "whole protocol given"
    return f"{text}; the steps before are done for the agent" if mask["help"] == PREFIX else text


def make_episode_row(episode: Episode) -> EpisodeRow:
    """Return the row of an episode, without a query. The episode's experiment, run and reviews must be loaded."""
    status, reason = episode.status, episode.reason
    live, cause = status in UNFINISHED, failure_reasons.find_cause(status, reason)
    paused = live and episode.run.paused_at is not None  # a state of the run; its rows keep theirs
    stopping = episode.cancel_requested_at is not None and not episode.has_ended  # the worker has not seen it yet
    label = (
        "Your move" if episode.awaits_person and live else _LABELS.get(status, status.replace("_", " ").capitalize())
    )
    return EpisodeRow(
        episode=episode,
        label="Stopping" if stopping else "Paused" if paused else label,
        detail=_describe_status(episode),
        tone="warn" if paused else _choose_tone(episode),
        steps=episode.next_number - 1,
        limit=episode.experiment.max_steps,
        live=live,
        by_person=people.is_human_cast(episode.cast),
        may_stop=not episode.has_ended and not stopping,
        # A retry replaces the original, so only one that still counts can be retried.
        may_retry=status in Episode.RETRYABLE and episode.counts,
        cause=cause,
        cause_words=failure_reasons.CAUSES.get(cause, ""),
        why=failure_reasons.get_reason_key(status, reason),
        reason=failure_reasons.describe_reason(status, reason),
        help=failure_reasons.describe_remedy(status, reason),
        mask=describe_mask(episode.mask),
    )


def _choose_tone(episode: Episode) -> str:
    """Return the kind of the pill: of a submitted episode, it depends on its verdict, since every one is submitted alike."""
    if episode.status == "submitted":
        review = find_verdict(episode)
        return "" if review is None else "ok" if review.sufficient else "warn"
    return _TONES.get(episode.status, "")


def poll_seconds(statuses: Collection[str], still: object) -> int:
    """Return a page's polling interval in seconds: 2 while anything can change, 10 while idle, 0 when all has ended.

    A run is idle without a worker, or while it is paused.
    """
    if not set(UNFINISHED) & set(statuses):
        return 0
    return 10 if still else 2


def describe_missing_worker(work_left: bool) -> str:
    """Return why nothing may be progressing; "" if a worker is alive or nothing is left to do."""
    if not work_left or create.has_live_worker():
        return ""
    last_seen = Worker.objects.filter(kind__in=create.GENERAL_WORKER_KINDS).aggregate(last=Max("seen_at"))["last"]
    if last_seen is None:
        return "No worker is running: start one with"
    # At least the limit after which a worker counts as silent, or the text would contradict itself.
    silent = max(int((timezone.now() - last_seen).total_seconds()), int(settings.WORKER_SILENT_SECONDS))
    ago = f"{silent} s" if silent < 180 else f"{silent // 60} min" if silent < 2 * 3600 else f"{silent // 3600} h"
    return f"No heartbeat from a worker for {ago}. Start one with"


def _describe_status(episode: Episode) -> str:
    done, limit = episode.next_number - 1, episode.experiment.max_steps
    steps = f"{done} step{'' if done == 1 else 's'}"
    reason = failure_reasons.describe_reason(episode.status, episode.reason)
    match episode.status:
        case "queued":
            return "waiting for a worker"
        case "running" | "waiting" if episode.awaits_person:
            return f"step {episode.next_number} of {limit}: waiting for a person"
        case "running" if episode.phase == "verdict":
            return f"submitted after {steps}: {episode.get_phase_display()}"
        case "running":
            return f"step {episode.next_number} of {limit}: {episode.get_phase_display()}"
        case "waiting":
            return f"step {episode.next_number} of {limit}: {describe_wait(episode)}"
        case "blocked":
            return f"blocked at step {episode.next_number}: {reason}"
        case "submitted":
            review = find_verdict(episode)
            verdict = f"evidence {'' if review.sufficient else 'not '}sufficient" if review else "no verdict"
            return f"after {steps}; {verdict}"
        case "quit":
            return f"the agent gave up after {steps}"
        case "rejected_out":
            return f"three consecutive rejections; {steps}"
        case "truncated":
            return f"all {limit} steps used without a submission"
        case "cancelled":
            return f"stopped by a person, after {steps}"
        case _:
            # A list needs one line; the error of a provider can be pages long.
            error = episode.error if len(episode.error) <= MAX_ERROR_SHOWN else episode.error[:MAX_ERROR_SHOWN] + "…"
            return f"after {steps}: {reason}. {error}"


def describe_wait(row: Episode | Twin) -> str:
    reason = failure_reasons.describe_reason(row.status, row.reason)
    until = f"retry at {row.not_before:%H:%M:%S} UTC" if row.not_before else "will be retried"
    return f"{reason}; {until}" if reason else until


def find_verdict(episode: Episode) -> EvidenceReview | None:
    """Return the verdict that ends the episode, without those of the panel."""
    return next((review for review in episode.reviews.all() if review.primary), None)


def episodes_for_list() -> QuerySet[Episode]:
    """Return episodes with everything that an `EpisodeRow` needs, without the long JSON columns."""
    rows = Episode.objects.select_related("experiment", "run", "retried_as").prefetch_related("reviews")
    deferred = [f"retried_as__{name}" for name in _LONG_FIELDS]
    return rows.defer(*_LONG_FIELDS, *deferred, "experiment__data", "run__setup")


@staff_page
def show_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the transcript, twenty steps per page. While the episode runs, htmx requests only its head."""
    row = get_object_or_404(episodes_for_list(), code=code)
    line = make_episode_row(row)
    # A paused run or a waiting person needs no worker, so no warning is shown.
    notice = describe_missing_worker(line.live and not (row.run.paused_at or row.awaits_person))
    poll, shown = poll_seconds([row.status], notice or row.run.paused_at), _parse_number(request.GET.get("shown", ""))
    head = {"line": line, "poll": poll, "notice": notice, "shown": line.steps if shown is None else shown}
    # Only the head changes while the episode runs; replacing the transcript would move the page under the reader.
    if request.htmx:
        head["ended"] = not line.live
        return render_page_or_fragment(request, "", "simulation/_episode_head.html", head)
    return render_page_or_fragment(request, "simulation/episode.html", "", {**head, **_build_transcript(request, row)})


def _build_transcript(request: StaffRequest, row: Episode) -> dict[str, Any]:
    """Return one page of steps with their calls, and the verdicts."""
    # Only three columns of all steps for the table of contents; the steps of this page are loaded in full.
    contents = list(row.transitions.values_list("number", "action_name", "accepted"))
    step_number = _parse_number(request.GET.get("step", ""))
    number = request.GET.get("page") if step_number is None else page_of_step(step_number)
    page = Paginator(row.transitions.prefetch_related("twins"), STEPS_PER_PAGE).get_page(number)
    steps = [build_step_view(step) for step in page]
    numbers = {step.number for step in steps}
    condition = Q(number__in=numbers) | Q(role="verdict")
    # The calls of a step that is not committed belong to the end of the transcript.
    if not page.has_next():
        condition |= Q(number__gt=len(contents))
    calls = list(defer_texts(row.calls.filter(condition).order_by("number", "pk")))
    by_number, thoughts = group_by_step(calls), row.memory.get("thoughts", {})
    judged = [call for call in calls if call.role == "verdict"]
    return {
        "shown": len(contents),
        "page": page,
        "contents": [(number, name, ok, page_of_step(number)) for number, name, ok in contents],
        "steps": [(step, by_number.get(step.number), thoughts.get(str(step.number), "")) for step in steps],
        "plan": row.memory.get("plan", ""),
        "protocol": _describe_protocol(row),
        # Calls without a step on the page, for example those of the step in progress.
        "without_step": [(number, made) for number, made in by_number.items() if number not in numbers],
        "review": find_verdict(row),
        "panel": [review for review in row.reviews.all() if not review.primary],
        "missing": list(row.missing_reviews.all()),
        "verdict_calls": group_calls(judged) if judged else None,
    }


def _describe_protocol(row: Episode) -> dict[str, Any]:
    """Return the protocol that the agent read, what the hidden steps had counted for, and the given steps; {} without a mask."""
    if not row.mask:
        return {}
    given = row.transitions.filter(given=True).count()
    return {
        "text": benches.write_masked_protocol(row),
        # The record of an episode under way would meet no line yet.
        "lines": protocol_masks.judge_hidden_lines(row) if row.has_ended else [],
        "given": given,
        # The given steps are the first ones. Only the transition model is asked in them.
        "cost": row.calls.filter(number__lte=given).aggregate(total=Sum("cost"))["total"] if given else None,
    }


def _parse_number(text: str) -> int | None:
    """Return a number from the URL, or None for anything else. A longer one is no step, and would be slow to convert."""
    return int(text) if text.isdecimal() and len(text) < 6 else None


def page_of_step(step: int) -> int:
    return max(step - 1, 0) // STEPS_PER_PAGE + 1


@staff_action
def stop_episode(request: StaffRequest, code: UUID) -> HttpResponse:
    row = get_object_or_404(Episode, code=code)
    # Stopping twice is no error; the message appears only if it had ended in another way.
    if not control.stop_episode(row) and not Episode.objects.filter(pk=row.pk, status="cancelled").exists():
        messages.info(request, "This episode has already ended.")
    return redirect(_return_url(request, row))


@staff_action
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


@staff_action
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


@staff_page
def compare_episodes(request: StaffRequest, code: UUID) -> HttpResponse:
    """Show the episodes to choose from, and the chosen one beside this one. Return 404 if their experiments differ."""
    row = get_object_or_404(episodes_for_list(), code=code)
    # People first: the usual comparison is a person with a model.
    order = (
        Case(When(people.build_cast_filter([people.HUMAN_CAST]), then=Value(0)), default=Value(1)),
        "cast",
        "replicate",
        "pk",
    )
    others = Episode.objects.filter(experiment=row.experiment).exclude(pk=row.pk)
    choices = others.only("code", "cast", "replicate", "status").order_by(*order)[:MAX_CHOICES]
    context: dict[str, Any] = {"line": make_episode_row(row), "others": choices, "other": None}
    if code_text := request.GET.get("with", ""):
        try:
            rows = episodes_for_list().filter(experiment=row.experiment).exclude(pk=row.pk)
            other = get_object_or_404(rows, code=UUID(code_text))
        except ValueError:  # an invalid code is reported like an unknown one
            raise Http404 from None
        last_step = max(one.transitions.count() for one in (row, other))
        page = Paginator(range(1, last_step + 1), STEPS_PER_PAGE).get_page(request.GET.get("page"))
        steps = [one.transitions.filter(number__in=list(page)).order_by("number") for one in (row, other)]
        numbered = zip_longest(page, *([build_step_view(step) for step in rows] for rows in steps))
        pairs = [{"number": number, "first": first, "second": second} for number, first, second in numbered]
        attempts = [make_episode_row(row), make_episode_row(other)]
        context |= {"other": other, "attempts": attempts, "page": page, "pairs": pairs}
    return render(request, "simulation/beside.html", context)
