"""Code episodes as rows of lists, without a query for each row."""

from typing import Any, NamedTuple

from django.db.models import QuerySet

from simulation.casts.run_config import RULE_BASED_CODE_CASTS
from simulation.models import CodeEpisode, Grading
from simulation.replication.grading import OUTCOME_TEXTS
from simulation.runs import failure_reasons
from simulation.web.episodes import MAX_ERROR_SHOWN, UNFINISHED
from wetbench_site.text import format_count

_LONG_FIELDS = ("pending", "memory", "reported")
_LABELS = {"cancelled": "Stopped", "unreadable_out": "Unreadable replies"}
_BAD = ("failed", "blocked", "unreadable_out")
_OUTCOME_TONES = {
    "solved": "ok",
    "unreported": "warn",
    "reported_only": "warn",
    "fault": "danger",
    "tampered": "danger",
}


class CodeEpisodeRow(NamedTuple):
    """A code episode for a page. `tone` and `outcome_tone` are kinds of pills in site.css, "" for a plain one.

    `outcome` is "" until the grading is stored. `by_rules`: its agent is no language model.
    """

    episode: CodeEpisode
    name: str
    label: str
    detail: str
    tone: str
    outcome: str
    outcome_text: str
    outcome_tone: str
    steps: int
    limit: int
    live: bool
    by_rules: bool
    may_stop: bool
    may_retry: bool
    cause: str
    cause_words: str
    why: str
    reason: str
    help: str


def is_rule_based(cast: str) -> bool:
    """Return whether the agent of a code cast is rules."""
    return cast in RULE_BASED_CODE_CASTS


def code_episodes_for_list() -> QuerySet[CodeEpisode]:
    """Return code episodes with everything that a `CodeEpisodeRow` needs, without the long JSON columns."""
    rows = CodeEpisode.objects.select_related("mask__task", "run", "grading", "retried_as")
    deferred = [f"retried_as__{name}" for name in _LONG_FIELDS]
    tables = ("mask__task__data", "mask__validation", "run__setup", "grading__grade", "grading__stages")
    return rows.defer(*_LONG_FIELDS, *deferred, *tables)


def make_code_episode_row(episode: CodeEpisode) -> CodeEpisodeRow:
    """Return the row of a code episode, without a query. Mask, task, run and grading must be loaded."""
    status, reason = episode.status, episode.reason
    live = status in UNFINISHED
    paused = live and episode.run.paused_at is not None
    stopping = episode.cancel_requested_at is not None and not episode.has_ended
    label = _LABELS.get(status, status.replace("_", " ").capitalize())
    grading = find_grading(episode)
    outcome: Any = grading.outcome if grading else ""
    cause = failure_reasons.find_cause(status, reason)
    return CodeEpisodeRow(
        episode=episode,
        name=f"{episode.mask.task.slug} {episode.mask.key}, replicate {episode.replicate}",
        label="Stopping" if stopping else "Paused" if paused else label,
        detail=_describe_status(episode),
        tone="warn" if paused else _choose_tone(status),
        outcome=outcome.replace("_", " "),
        outcome_text=OUTCOME_TEXTS.get(outcome, ""),
        outcome_tone=_OUTCOME_TONES.get(outcome, ""),
        steps=episode.next_number - 1,
        limit=int(episode.conditions.get("steps", 0)),
        live=live,
        by_rules=is_rule_based(episode.cast),
        may_stop=not episode.has_ended and not stopping,
        may_retry=status in CodeEpisode.RETRYABLE and episode.counts,
        cause=cause,
        cause_words=failure_reasons.CAUSES.get(cause, ""),
        why=failure_reasons.get_reason_key(status, reason),
        reason=failure_reasons.describe_reason(status, reason),
        help=failure_reasons.describe_remedy(status, reason),
    )


def find_grading(episode: CodeEpisode) -> Grading | None:
    """Return the grading of an episode, or None while there is none."""
    return getattr(episode, "grading", None)


def _choose_tone(status: str) -> str:
    return "danger" if status in _BAD else "info" if status in ("running", "waiting") else ""


def _describe_status(episode: CodeEpisode) -> str:
    number, limit = episode.next_number, episode.conditions.get("steps", 0)
    steps = format_count(number - 1, "step")
    reason = failure_reasons.describe_reason(episode.status, episode.reason)
    match episode.status:
        case "queued":
            return "waiting for a worker"
        case "running" if episode.ending:
            return f"{episode.ending.replace('_', ' ')} after {steps}; grading: {episode.get_phase_display()}"
        case "running":
            return f"step {number} of {limit}: {episode.get_phase_display()}"
        case "waiting":
            until = f"retry at {episode.not_before:%H:%M:%S} UTC" if episode.not_before else "will be retried"
            return f"step {number} of {limit}: {f'{reason}; {until}' if reason else until}"
        case "blocked":
            return f"blocked at step {number}: {reason}"
        case "failed":
            error = episode.error if len(episode.error) <= MAX_ERROR_SHOWN else episode.error[:MAX_ERROR_SHOWN] + "…"
            return f"after {steps}: {reason}. {error}"
        case "cancelled":
            return f"stopped by a person, after {steps}"
        case "submitted":
            return f"after {steps}"
        case _:
            return f"after {steps}: {reason}"
