"""The status of an episode as text for people."""

from collections.abc import Collection
from typing import NamedTuple

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from simulation.models import Episode, EvidenceReview, Twin, Worker
from simulation.runs import create, failure_reasons

_BAD = ("failed", "rejected_out", "blocked")
MAX_ERROR_SHOWN = 200  # characters in a list; the episode's own page shows the full text
UNFINISHED = ("queued", "running", "waiting")  # statuses in which something may still happen by itself


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


def make_episode_row(episode: Episode) -> EpisodeRow:
    """Return the row of an episode, without a query. The episode's experiment, run and reviews must be loaded."""
    status, reason = episode.status, episode.reason
    return EpisodeRow(
        episode=episode,
        label=_status_label(episode),
        detail=_status_detail(episode),
        tone=_status_tone(episode),
        steps=episode.next_number - 1,
        limit=episode.experiment.max_steps,
        live=status in UNFINISHED,
        by_person=episode.cast == create.HUMAN_CAST,
        may_stop=not episode.has_ended and episode.cancel_requested_at is None,
        # A retry replaces the original, so only one that still counts can be retried.
        may_retry=status in Episode.RETRYABLE and episode.counts,
        cause=failure_reasons.find_cause(status, reason),
        cause_words=failure_reasons.CAUSES.get(failure_reasons.find_cause(status, reason), ""),
        why=failure_reasons.get_reason_key(status, reason),
        reason=failure_reasons.describe_reason(status, reason),
        help=failure_reasons.describe_remedy(status, reason),
    )


def poll_seconds(statuses: Collection[str], still: object) -> int:
    """Return a page's polling interval in seconds: 2 while anything can change, 10 while idle, 0 when all has ended.

    A run is idle without a worker, or while it is paused.
    """
    if not set(UNFINISHED) & set(statuses):
        return 0
    # Nothing changes quickly without a worker or in a paused run, so the page asks less often.
    return 10 if still else 2


def describe_missing_worker(work_left: bool) -> str:
    """Return why nothing may be progressing; "" if a worker is alive or nothing is left to do."""
    if not work_left or create.has_live_worker():
        return ""
    last_seen = Worker.objects.filter(kind__in=create.GENERAL_WORKER_KINDS).aggregate(last=Max("seen_at"))["last"]
    if last_seen is None:
        return "No worker is running: start one with"
    seconds_silent = int((timezone.now() - last_seen).total_seconds())
    # At least the limit after which a worker counts as silent, or the text would contradict itself.
    return f"No heartbeat from a worker for {_format_ago(max(seconds_silent, int(settings.WORKER_SILENT_SECONDS)))}. Start one with"


def _format_ago(seconds: int) -> str:
    if seconds < 180:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 2 * 3600 else f"{seconds // 3600} h"


def _status_label(episode: Episode) -> str:
    # Before the status: the worker has not seen the request yet.
    if episode.cancel_requested_at and not episode.has_ended:
        return "Stopping"
    # Paused is a state of the run; its rows keep theirs.
    if episode.status in UNFINISHED and episode.run.paused_at:
        return "Paused"
    if episode.awaits_person and episode.status in UNFINISHED:
        return "Your move"
    return {
        "queued": "Queued",
        "running": "Running",
        "waiting": "Waiting",
        "blocked": "Blocked",
        "submitted": "Submitted",
        "quit": "Quit",
        "rejected_out": "Rejected out",
        "truncated": "Out of steps",
        "cancelled": "Stopped",
        "failed": "Failed",
    }[episode.status]


def _status_detail(episode: Episode) -> str:
    done, limit = episode.next_number - 1, episode.experiment.max_steps
    steps = f"{done} step{'' if done == 1 else 's'}"
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
            return f"blocked at step {episode.next_number}: {failure_reasons.describe_reason(episode.status, episode.reason)}"
        case "submitted":
            return f"after {steps}; {_describe_verdict(episode)}"
        case "quit":
            return f"the agent gave up after {steps}"
        case "rejected_out":
            return f"three consecutive rejections; {steps}"
        case "truncated":
            return f"all {limit} steps used without a submission"
        case "cancelled":
            return f"stopped by a person, after {steps}"
        case _:
            return f"after {steps}: {_describe_failure(episode)}"


def _describe_failure(episode: Episode) -> str:
    """Return the reason, then the error, truncated for a list."""
    # A list needs one line; the error of a provider can be pages long.
    error = episode.error if len(episode.error) <= MAX_ERROR_SHOWN else episode.error[:MAX_ERROR_SHOWN] + "…"
    return f"{failure_reasons.describe_reason(episode.status, episode.reason)}. {error}"


def describe_wait(row: Episode | Twin) -> str:
    """Return why a row waits and until when."""
    reason = failure_reasons.describe_reason(row.status, row.reason)
    until = f"retry at {row.not_before:%H:%M:%S} UTC" if row.not_before else "will be retried"
    return f"{reason}; {until}" if reason else until


def find_verdict(episode: Episode) -> EvidenceReview | None:
    """Return the verdict that ends the episode, without those of the panel."""
    # Loaded with the list, so this makes no query for each row.
    return next((review for review in episode.reviews.all() if review.primary), None)


def _describe_verdict(episode: Episode) -> str:
    review = find_verdict(episode)
    if review is None:
        return "no verdict"
    return "evidence sufficient" if review.sufficient else "evidence not sufficient"


def _status_tone(episode: Episode) -> str:
    if episode.status in UNFINISHED:
        if episode.run.paused_at:
            return "warn"
        return "info" if episode.status != "queued" else ""
    if episode.status in _BAD:
        return "danger"
    return "ok" if episode.status == "submitted" else ""
