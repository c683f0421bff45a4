"""What people may do with orders under way: stop, pause, go on, try again. Rows only, like the orders themselves."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Unpack

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from simulation.calls import gates, spending
from simulation.casts import roster, setups
from simulation.jobs import jobs
from simulation.models import Episode, Job, MissingReview, ProviderGate, Run, Twin
from simulation.runs import queueing
from simulation.runs.queueing import Limits


def stop(episode: Episode) -> bool:
    """Ask for an end; the worker that holds the episode stops before its next call. False if it has ended already."""
    now = timezone.now()
    unfinished = Episode.objects.filter(pk=episode.pk).exclude(status__in=Episode.ENDED)
    if _end_requests(_unheld(unfinished, now), now) or _end(_unheld(unfinished, now), now, cancel_requested_at=now):
        return True
    return unfinished.update(cancel_requested_at=now) == 1


def end_stopped() -> int:
    """End the episodes that were to stop and whose holder gave them back another way: waiting, blocked, paused, to a person."""
    now = timezone.now()
    told = Episode.objects.filter(cancel_requested_at__isnull=False).exclude(status__in=Episode.ENDED)
    return _end_requests(_unheld(told, now), now) + _end(_unheld(told, now), now)


def stop_run(run: Run) -> int:
    """Stop all that has not ended; the number of rows stopped or told to."""
    twins = _end(run.twins.exclude(status__in=Twin.ENDED), timezone.now())
    told = sum(jobs.cancel(job) for job in run.jobs.exclude(status__in=Job.ENDED))
    return twins + told + sum(stop(episode) for episode in run.episodes.exclude(status__in=Episode.ENDED))


def pause_run(run: Run) -> bool:
    """Nothing of the run is begun any more; calls under way are finished. False if it was paused already."""
    return Run.objects.filter(pk=run.pk, paused_at__isnull=True).update(paused_at=timezone.now()) == 1


def resume_run(run: Run) -> bool:
    """Go on where the run was paused; False if it was not."""
    return Run.objects.filter(pk=run.pk, paused_at__isnull=False).update(paused_at=None) == 1


@transaction.atomic
def fund(run: Run, **limits: Unpack[Limits]) -> Run:
    """Set the limits that are named, keep the others, and hold the run's row. Nothing goes on by that alone."""
    queueing.refuse_unpriced(run.setup, limits.get("max_cost"))
    row: Run = Run.objects.select_for_update().get(pk=run.pk)
    if limits:
        Run.objects.filter(pk=row.pk).update(**limits)
        spending.recount(row)
    return row


@transaction.atomic
def continue_run(run: Run, **limits: Unpack[Limits]) -> int:
    """Go on under these limits; the number of rows that were held for the budget."""
    return _unblock(fund(run, **limits), ("budget",))


@transaction.atomic
def reopen(run: Run) -> Run:
    """Open the gates of its providers again, whoever closed them, and hold the run's row. Nothing goes on by that alone.

    A model that has not answered yet is read anew, so that a wrong id or option can be put right.
    """
    _open_gates(run)  # gates before the run: everyone takes these rows in one order
    row: Run = Run.objects.select_for_update().get(pk=run.pk)
    _correct_unheard(row)
    return row


@transaction.atomic
def try_again(run: Run) -> int:
    """Reopen, and queue all that is held for a key or a request that was not accepted; the number of rows."""
    return _unblock(reopen(run), ("credentials", "bad_request"))


def retry_twin(twin: Twin) -> bool:
    """Queue a twin again that failed, was stopped or came out unusable: its model is asked anew."""
    again = {
        "status": "queued", "error": "", "reason": "", "ended_at": None, "lease_until": None, "not_before": None,
        "lost_leases": 0,
    }  # fmt: skip
    rows = Twin.objects.filter(pk=twin.pk, status__in=Twin.RETRYABLE)
    return rows.update(fence=F("fence") + 1, tries=F("tries") + 1, **again) == 1


def _unheld(rows: QuerySet[Episode], now: datetime) -> QuerySet[Episode]:
    return rows.filter(Q(lease_until__isnull=True) | Q(lease_until__lt=now))


@transaction.atomic
def request_verdicts(episodes: QuerySet[Episode]) -> int:
    """Request again what the panel did not give on these episodes; return how many verdicts. Each is asked for once more.

    Only of submitted episodes whose experiment is as it was, and not of replays. Until it is given an episode is queued, and
    it ends as it had ended, whether or not the verdict comes.
    """
    now, requested = timezone.now(), 0
    open_gaps = MissingReview.objects.filter(requested_at=None, episode__in=episodes.values("pk")).values("episode")
    rows = Episode.objects.select_for_update(of=("self",)).filter(
        pk__in=open_gaps, status="submitted", counts=True, run__replay=False
    )
    for row in rows.select_related("experiment").order_by("pk"):
        if row.experiment_sha256 != row.experiment.sha256:
            continue
        requested += row.missing_reviews.filter(requested_at=None).update(requested_at=now)
        again = {
            "status": "queued",
            "phase": "verdict",
            "ended_at": None,
            "not_before": None,
            "rung_at": None,
            "begun": False,
        }
        Episode.objects.filter(pk=row.pk).update(
            fence=F("fence") + 1, verdict_requests=F("verdict_requests") + 1, cancel_requested_at=None, **again
        )
    return requested


def _end_requests(rows: QuerySet[Episode], now: datetime) -> int:
    """End episodes that wait for verdicts requested again as they had ended; the verdicts stay missing."""
    waiting = list(rows.filter(verdict_requests__gt=0).values_list("pk", flat=True))
    MissingReview.objects.filter(episode__in=waiting).update(requested_at=None)
    own = rows.filter(pk__in=waiting)
    ended = {"status": "submitted", "ended_at": now, "reason": "", "error": "", "not_before": None, "lease_until": None}
    return int(own.update(fence=F("fence") + 1, **ended))


def _end(rows: Any, now: datetime, **more: Any) -> int:
    """These rows as stopped, whoever holds them: what their holders bring later is fenced."""
    ended = {"status": "cancelled", "ended_at": now, "reason": "", "error": "", "not_before": None}
    return int(rows.update(fence=F("fence") + 1, awaits_person=False, lease_until=None, **ended, **more))


def _open_gates(run: Run) -> None:
    providers = {model["provider"] for model in run.setup.get("models", {}).values()}
    for name in sorted(ProviderGate.objects.values_list("name", flat=True)):
        if name.partition(":")[0] in providers:
            gates.reopen(name)


def _correct_unheard(run: Run) -> None:
    """Take over what was corrected of models that have not answered once in this run: nothing of it is theirs yet."""
    models = run.setup.get("models", {})
    heard = set(run.calls.filter(state__in=("answered", "refused")).order_by().values_list("model_name", flat=True))
    corrected = {**models, **roster.reached(set(models) - heard)}
    if corrected != models:
        setup = {**run.setup, "models": corrected}
        Run.objects.filter(pk=run.pk).update(setup=setup, setup_sha256=setups.digest(setup))


def _unblock(run: Run, reasons: Sequence[str]) -> int:
    if run.replay:
        return 0  # nobody but `replay_run` plays it
    again = {"status": "queued", "reason": "", "error": "", "not_before": None, "fence": F("fence") + 1}
    rows = (run.episodes.all(), run.twins.all())
    unblocked = sum(some.filter(status="blocked", reason__in=reasons).update(**again) for some in rows)
    return unblocked + _tried_again(run, reasons)


def _tried_again(run: Run, reasons: Sequence[str]) -> int:
    """A job is never held: the run's last one failed for such a reason, and is asked for again."""
    last = run.jobs.order_by("-pk").first()
    if last is None or last.status != "failed" or last.reason not in reasons:
        return 0
    jobs.retry(last)
    return 1
