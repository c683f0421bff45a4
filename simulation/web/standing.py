"""The status of an episode as text for people."""

from collections.abc import Collection
from typing import NamedTuple

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from simulation.models import Episode, EvidenceReview, Twin, Worker
from simulation.runs import causes, queueing

_BAD = ("failed", "rejected_out", "blocked")
MOST_OF_AN_ERROR = 200  # characters in a list; the episode's own page shows the full text
WORK_LEFT = ("queued", "running", "waiting")


class Standing(NamedTuple):
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
    cause: str  # a key of causes.CAUSES, or ""
    cause_words: str
    why: str  # a key of causes: the reason, or the status without one
    reason: str  # the same in words
    help: str


def standing(episode: Episode) -> Standing:
    """Return the row. Episode, experiment, run and reviews must be loaded; it makes no query."""
    status, reason = episode.status, episode.reason
    return Standing(
        episode=episode,
        label=_label(episode),
        detail=_detail(episode),
        tone=_tone(episode),
        steps=episode.next_number - 1,
        limit=episode.experiment.max_steps,
        live=status in WORK_LEFT,
        by_person=episode.cast == queueing.PERSON_CAST,
        may_stop=not episode.ended and episode.cancel_requested_at is None,
        may_retry=status in Episode.RETRYABLE and episode.counts,
        cause=causes.cause(status, reason),
        cause_words=causes.CAUSES.get(causes.cause(status, reason), ""),
        why=causes.key(status, reason),
        reason=causes.words(status, reason),
        help=causes.help(status, reason),
    )


def poll_seconds(statuses: Collection[str], still: object) -> int:
    """Return the polling interval of a page: 2 while anything can change, 10 while idle, 0 when everything has ended.

    A run is idle without a worker, or while it is paused.
    """
    if not set(WORK_LEFT) & set(statuses):
        return 0
    return 10 if still else 2


def worker_notice(work_left: bool) -> str:
    """Return why nothing may be progressing; "" if a worker is alive or nothing is left to do."""
    if not work_left or queueing.workers_alive():
        return ""
    last_seen = Worker.objects.filter(kind__in=queueing.PLAY_ANYTHING).aggregate(last=Max("seen_at"))["last"]
    if last_seen is None:
        return "No worker is running: start one with"
    seconds_silent = int((timezone.now() - last_seen).total_seconds())
    return f"No heartbeat from a worker for {_ago(max(seconds_silent, int(settings.WORKER_SILENT_SECONDS)))}. Start one with"


def _ago(seconds: int) -> str:
    if seconds < 180:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 2 * 3600 else f"{seconds // 3600} h"


def _label(episode: Episode) -> str:
    if episode.cancel_requested_at and not episode.ended:
        return "Stopping"
    if episode.status in WORK_LEFT and episode.run.paused_at:
        return "Paused"
    if episode.awaits_person and episode.status in WORK_LEFT:
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


def _detail(episode: Episode) -> str:
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
            return f"step {episode.next_number} of {limit}: {again(episode)}"
        case "blocked":
            return f"blocked at step {episode.next_number}: {causes.words(episode.status, episode.reason)}"
        case "submitted":
            return f"after {steps}; {_verdict(episode)}"
        case "quit":
            return f"the agent gave up after {steps}"
        case "rejected_out":
            return f"three consecutive rejections; {steps}"
        case "truncated":
            return f"all {limit} steps used without a submission"
        case "cancelled":
            return f"stopped by a person, after {steps}"
        case _:
            return f"after {steps}: {_told(episode)}"


def _told(episode: Episode) -> str:
    """Return the reason, then the error, truncated for a list."""
    error = episode.error if len(episode.error) <= MOST_OF_AN_ERROR else episode.error[:MOST_OF_AN_ERROR] + "…"
    return f"{causes.words(episode.status, episode.reason)}. {error}"


def again(row: Episode | Twin) -> str:
    """Return why a row waits and until when."""
    reason = causes.words(row.status, row.reason)
    until = f"retry at {row.not_before:%H:%M:%S} UTC" if row.not_before else "will be retried"
    return f"{reason}; {until}" if reason else until


def verdict_of(episode: Episode) -> EvidenceReview | None:
    """Return the verdict that ends the episode, without those of the panel."""
    return next((review for review in episode.reviews.all() if review.primary), None)


def _verdict(episode: Episode) -> str:
    review = verdict_of(episode)
    if review is None:
        return "no verdict"
    return "evidence sufficient" if review.sufficient else "evidence not sufficient"


def _tone(episode: Episode) -> str:
    if episode.status in WORK_LEFT:
        if episode.run.paused_at:
            return "warn"
        return "info" if episode.status != "queued" else ""
    if episode.status in _BAD:
        return "danger"
    return "ok" if episode.status == "submitted" else ""
