"""How far an episode has come, in words for people."""

from collections.abc import Collection
from typing import NamedTuple

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from simulation import queueing
from simulation.models import Episode, Worker

_BAD = ("failed", "rejected_out", "blocked")
_WORK_LEFT = ("queued", "running", "waiting")


class Standing(NamedTuple):
    """One line of a list of episodes. `tone` is the kind of its pill in site.css, "" for a plain one."""

    episode: Episode
    label: str
    detail: str
    tone: str
    steps: int
    limit: int
    live: bool
    may_stop: bool
    may_retry: bool


def standing(episode: Episode) -> Standing:
    """Needs the episode's experiment and reviews at hand; asks the database for nothing else."""
    return Standing(
        episode=episode,
        label=_label(episode),
        detail=_detail(episode),
        tone=_tone(episode),
        steps=episode.next_number - 1,
        limit=episode.experiment.max_steps,
        live=episode.status in _WORK_LEFT,
        may_stop=not episode.ended and episode.cancel_requested_at is None,
        may_retry=episode.status in Episode.RETRIED and episode.counts,
    )


def poll_seconds(statuses: Collection[str], notice: str) -> int:
    """How soon a page should ask again: 2 while anything can move, 10 while no worker lives, 0 when all has ended."""
    if not set(_WORK_LEFT) & set(statuses):
        return 0
    return 10 if notice else 2


def worker_notice(work_left: bool) -> str:
    """Why nothing may be moving; "" if a worker lives or nothing is left to do."""
    if not work_left or queueing.workers_alive():
        return ""
    seen = Worker.objects.filter(kind__in=queueing.PLAY_ANYTHING).aggregate(last=Max("seen_at"))["last"]
    if seen is None:
        return "No worker is running: start one with"
    silent = int((timezone.now() - seen).total_seconds())
    return f"No word from the worker for {_ago(max(silent, int(settings.WORKER_SILENT_SECONDS)))}. Start one with"


def _ago(seconds: int) -> str:
    if seconds < 180:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 2 * 3600 else f"{seconds // 3600} h"


def _label(episode: Episode) -> str:
    if episode.cancel_requested_at and not episode.ended:
        return "Stopping"
    return {
        "queued": "Queued",
        "running": "Playing",
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
            return "waits for a worker"
        case "running" if episode.phase == "verdict":
            return f"submitted after {steps}: {episode.get_phase_display()}"
        case "running":
            return f"step {episode.next_number} of {limit}: {episode.get_phase_display()}"
        case "waiting":
            return f"step {episode.next_number} of {limit}: to be tried again"
        case "blocked":
            return f"held at step {episode.next_number}"
        case "submitted":
            return f"after {steps}; {_verdict(episode)}"
        case "quit":
            return f"the agent gave up after {steps}"
        case "rejected_out":
            return f"three rejections running; {steps}"
        case "truncated":
            return f"all {limit} steps used without a submission"
        case "cancelled":
            return f"by hand, after {steps}"
        case _:
            return f"after {steps}: {episode.error}"


def _verdict(episode: Episode) -> str:
    reviews = list(episode.reviews.all())
    if not reviews:
        return "no verdict"
    return "evidence sufficient" if reviews[0].sufficient else "evidence not sufficient"


def _tone(episode: Episode) -> str:
    if episode.status in _WORK_LEFT:
        return "info" if episode.status != "queued" else ""
    if episode.status in _BAD:
        return "danger"
    return "ok" if episode.status == "submitted" else ""
