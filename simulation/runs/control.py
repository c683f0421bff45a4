"""Stop, pause, resume and retry runs and their rows, by changing rows only."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Unpack

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from simulation.calls import rate_limit, run_usage
from simulation.casts import model_obstacles, run_config
from simulation.jobs import jobs
from simulation.models import CodeEpisode, Episode, Job, MissingReview, ProviderGate, Run, Twin
from simulation.runs import create
from simulation.runs.create import RunLimits


def stop_episode(episode: Episode) -> bool:
    """Stop an episode: at once, or before the next call of the worker that holds it. Return False if it has ended."""
    now, unfinished = timezone.now(), Episode.objects.filter(pk=episode.pk).exclude(status__in=Episode.ENDED)
    unleased = unfinished.unleased()
    if _end_repeated_verdicts(unleased, now) or _cancel_rows(unleased, now, cancel_requested_at=now):
        return True
    # The worker that holds it checks this before its next unit; end_stopped_episodes handles all other cases.
    return unfinished.update(cancel_requested_at=now) == 1


def stop_code_episode(episode: CodeEpisode) -> bool:
    """Stop a code episode: at once, or the worker that holds it ends it within two seconds. Return False if it has ended."""
    now, unfinished = timezone.now(), CodeEpisode.objects.filter(pk=episode.pk).exclude(status__in=CodeEpisode.ENDED)
    if _cancel_rows(unfinished.unleased(), now, cancel_requested_at=now):
        return True
    return unfinished.update(cancel_requested_at=now) == 1


def end_stopped_episodes() -> int:
    """End the episodes and code episodes that a person has asked to stop and that no worker holds. Return how many."""
    now = timezone.now()
    # Their worker released them in another state: waiting, blocked, paused, or awaiting a person.
    requested = Episode.objects.filter(cancel_requested_at__isnull=False).exclude(status__in=Episode.ENDED)
    unleased = requested.unleased()
    code_episodes = CodeEpisode.objects.filter(cancel_requested_at__isnull=False).exclude(status__in=CodeEpisode.ENDED)
    ended = _end_repeated_verdicts(unleased, now) + _cancel_rows(unleased, now)
    return ended + _cancel_rows(code_episodes.unleased(), now)


def stop_run(run: Run) -> int:
    """Stop all rows that have not ended. Return the number of rows that were stopped or are to be stopped."""
    twins = _cancel_rows(run.twins.exclude(status__in=Twin.ENDED), timezone.now())
    stopped_jobs = sum(jobs.cancel_job(job) for job in run.jobs.exclude(status__in=Job.ENDED))
    episodes = sum(stop_episode(episode) for episode in run.episodes.exclude(status__in=Episode.ENDED))
    code_episodes = run.code_episodes.exclude(status__in=CodeEpisode.ENDED)
    return twins + stopped_jobs + episodes + sum(stop_code_episode(episode) for episode in code_episodes)


def pause_run(run: Run) -> bool:
    """Start no more units of the run; calls under way are finished. Return False if it was paused already."""
    return Run.objects.filter(pk=run.pk, paused_at__isnull=True).update(paused_at=timezone.now()) == 1


def resume_run(run: Run) -> bool:
    """Resume a paused run. Return False if it was not paused."""
    return Run.objects.filter(pk=run.pk, paused_at__isnull=False).update(paused_at=None) == 1


@transaction.atomic
def set_limits(run: Run, **limits: Unpack[RunLimits]) -> Run:
    """Set the given limits, keep the others, and return the run, locked. This alone does not continue the run."""
    create.check_prices(run.setup, limits.get("max_cost"))
    row: Run = Run.objects.select_for_update().get(pk=run.pk)
    if limits:
        Run.objects.filter(pk=row.pk).update(**limits)
        # The counters are kept only while the run has a limit, so they may be out of date.
        run_usage.recount_run(row)
    return row


@transaction.atomic
def continue_run(run: Run, **limits: Unpack[RunLimits]) -> int:
    """Continue the run under these limits. Return how many rows, blocked by the budget, were queued again."""
    return _unblock_rows(set_limits(run, **limits), ("budget",))


@transaction.atomic
def reopen_limiters(run: Run) -> Run:
    """Reopen the rate limiters of the run's providers, and return the run, locked. This alone does not continue the run."""
    providers = {model["provider"] for model in run.setup.get("models", {}).values()}
    # Before the run is locked: see the lock order in rate_limit, which is the same in all processes.
    for name in sorted(ProviderGate.objects.values_list("name", flat=True)):
        if name.partition(":")[0] in providers:
            rate_limit.reopen_limiter(name)
    row: Run = Run.objects.select_for_update().get(pk=run.pk)
    # So that a wrong model ID or option can be corrected without a new run.
    models = row.setup.get("models", {})
    answered = set(row.calls.filter(state__in=("answered", "refused")).order_by().values_list("model_name", flat=True))
    # A model that has answered stays as it was: one run must not mix two definitions.
    corrected = {**models, **model_obstacles.describe_models(set(models) - answered)}
    if corrected != models:
        setup = {**row.setup, "models": corrected}
        Run.objects.filter(pk=row.pk).update(setup=setup, setup_sha256=run_config.hash_config(setup))
    return row


@transaction.atomic
def retry_blocked(run: Run) -> int:
    """Reopen the rate limiters, and queue all rows that are blocked by a key, a rejected request or a missing sandbox. Return their number."""
    return _unblock_rows(reopen_limiters(run), ("credentials", "bad_request", "no_sandbox"))


def retry_twin(twin: Twin) -> bool:
    """Queue a failed, stopped or unusable twin again. Its model is called again. Return False for other twins."""
    changes = {
        "status": "queued", "error": "", "reason": "", "ended_at": None, "lease_until": None, "not_before": None,
        "lost_leases": 0,
    }  # fmt: skip
    rows = Twin.objects.filter(pk=twin.pk, status__in=Twin.RETRYABLE)
    return rows.update(fence=F("fence") + 1, tries=F("tries") + 1, **changes) == 1


@transaction.atomic
def request_verdicts(episodes: QuerySet[Episode]) -> int:
    """Request the missing panel verdicts of these episodes once more. Return the number of verdicts.

    Episodes that were not submitted, whose experiment has changed, or that belong to a replay are left out. The other
    episodes are queued, and end as they had ended before, with or without the verdict.
    """
    now, requested = timezone.now(), 0
    open_gaps = MissingReview.objects.filter(requested_at=None, episode__in=episodes.values("pk")).values("episode")
    submitted = Episode.objects.filter(pk__in=open_gaps, status="submitted", counts=True, run__replay=False)
    cleared = dict.fromkeys(("ended_at", "not_before", "notified_at", "cancel_requested_at"))
    counters = {"fence": F("fence") + 1, "verdict_requests": F("verdict_requests") + 1}
    for row in submitted.select_for_update(of=("self",)).select_related("experiment").order_by("pk"):
        # A verdict on a changed experiment would not be comparable with the others.
        if row.experiment_sha256 != row.experiment.sha256:
            continue
        requested += row.missing_reviews.filter(requested_at=None).update(requested_at=now)
        changes = {"status": "queued", "phase": "verdict", "begun": False, **cleared, **counters}
        Episode.objects.filter(pk=row.pk).update(**changes)
    return requested


def _end_repeated_verdicts(rows: QuerySet[Episode], now: datetime) -> int:
    """End episodes as they had ended before their missing verdicts were requested again. Return how many."""
    waiting = list(rows.filter(verdict_requests__gt=0).values_list("pk", flat=True))
    MissingReview.objects.filter(episode__in=waiting).update(requested_at=None)
    episodes = rows.filter(pk__in=waiting)
    ended = {"status": "submitted", "ended_at": now, "reason": "", "error": "", "not_before": None, "lease_until": None}
    return int(episodes.update(fence=F("fence") + 1, **ended))


def _cancel_rows(rows: Any, now: datetime, **changes: Any) -> int:
    """Cancel these rows, even if they are leased."""
    ended = {"status": "cancelled", "ended_at": now, "reason": "", "error": "", "not_before": None}
    # The fence rises: late results of a worker that holds one of them are discarded.
    return int(rows.update(fence=F("fence") + 1, awaits_person=False, lease_until=None, **ended, **changes))


def _unblock_rows(run: Run, reasons: Sequence[str]) -> int:
    if run.replay:
        return 0  # only the command `replay_run` runs it
    changes = {"status": "queued", "reason": "", "error": "", "not_before": None, "fence": F("fence") + 1}
    rows: tuple[Any, ...] = (run.episodes.all(), run.twins.all(), run.code_episodes.all())
    unblocked: int = sum(queryset.filter(status="blocked", reason__in=reasons).update(**changes) for queryset in rows)
    # Jobs fail where other rows are blocked, see run_unit. Each continues the one before it, so only the last counts.
    last_job = run.jobs.order_by("-pk").first()
    if last_job is not None and last_job.status == "failed" and last_job.reason in reasons:
        jobs.retry_job(last_job)
        unblocked += 1
    return unblocked
