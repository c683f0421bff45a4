"""Analyses as they are kept: computed once for each state of the ratings, found again by their key, never shown as fresh
when ratings, or what machines say of the items, changed since."""

import hashlib
import json
import math
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from django.core.cache import cache
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.timesince import timesince

from ratings.models import Analysis, Rating, Study
from ratings.protocol import protocols
from ratings.results import rows
from ratings.results.analyses import form
from ratings.results.analyses.filters import Filters
from ratings.results.analyses.form import Tell
from ratings.studies import SealedError, job_access
from ratings.studies.progress import state_digest, stopping
from simulation.jobs import jobs
from simulation.models import Job

SEED, RESAMPLES = 0, 2000
INLINE = 5_000  # ratings up to which a page computes by itself what needs no resampling
AT_ONCE = 500  # ratings up to which a page computes anew each time what more of them would give
KEPT, KEPT_FILTERED = 3, 60  # analyses of one and the same request; filtered ones of a study in all
_TRIES = 3
_at_work = threading.Lock()  # two requests for the same at once compute once


class MovingError(RuntimeError):
    """Ratings came or went each time the analysis was computed."""


class Look(NamedTuple):
    """What there is to show. `fresh`: it is of the ratings as they are now; `job`: the full one is being computed, or its
    computing failed; `said`: how fresh it is, for people."""

    analysis: Analysis | None
    fresh: bool
    job: Job | None
    said: str


def look(study: Study, filters: Filters, by: Any = None) -> Look:
    """The best analysis there is now, and the job of a better one. SealedError before the study is unblinded.

    Up to INLINE ratings what needs no resampling is computed here; everything else is left to a job.
    """
    _refuse_sealed(study)
    state = _state(study)
    if found := _stored(study, filters, state, RESAMPLES):
        job = None if found.drawings.exists() else _to_draw(study, filters, state, by)
        return Look(found, True, job, freshness(found) + _drawing_said(job))
    job = _asked(study, filters, state, by)
    quick = _quick(study, filters, state)
    shown = quick or _last(study, filters)
    return Look(shown, quick is not None, job, _pending_said(shown, quick is not None, job))


def compute(
    study: Study, filters: Filters, tell: Tell = form.silent, *, seed: int = SEED, resamples: int = RESAMPLES
) -> Analysis:
    """The analysis of the ratings as they are, found or computed, and stored. MovingError if they do not keep still."""
    from ratings.results.analyses import document  # scipy comes with it: whoever computes nothing need not wait

    _refuse_sealed(study)
    state = _state(study)
    for _ in range(_TRIES):
        if found := _stored(study, filters, state, resamples, seed):
            return found
        began = time.monotonic()
        made = document.make(study, filters, state, seed=seed, resamples=resamples, tell=tell)
        before, state = state, _state(study)
        if state == before:
            return _keep(study, filters, made, time.monotonic() - began)
    raise MovingError(f"ratings of {study.name}, or what machines say of its items, come in while they are analysed")


def find_full(study: Study) -> Analysis | None:
    """Return the newest full analysis of all ratings of an unblinded study, or None. Computes nothing and asks for nothing."""
    if not study.is_unblinded:
        return None
    return next((row for row in _same(study, Filters()) if row.full and row.version == form.VERSION), None)


def freshness(analysis: Analysis) -> str:
    """When it was computed, from what, and how its intervals were made."""
    ago = timesince(analysis.made_at).replace("\xa0", " ")
    when = "just now" if ago == "0 minutes" else f"{ago} ago"
    how = (
        f"intervals from {analysis.resamples:,} resamples, seed {analysis.seed}"
        if analysis.full
        else "without the intervals that need resampling"
    )
    return f"Computed {when} from {analysis.n_ratings:,} ratings; {how}."


def key_of(study: Study, filters: Filters, state: str, seed: int, resamples: int) -> str:
    """What makes two requests the same."""
    asked = [str(study.code), state, filters.to_json(), form.VERSION, seed, resamples]
    return hashlib.sha256(json.dumps(asked, ensure_ascii=False, sort_keys=True).encode()).hexdigest()


def _refuse_sealed(study: Study) -> None:
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; nothing by source is computed before it is unblinded")


def _state(study: Study) -> str:
    """The mark of the ratings, and whether a deadline that is the study's stop rule has passed: both are in the document."""
    ended = stopping.look(study).met if study.protocol.get("stop") == "deadline" else None
    return hashlib.sha256(f"{state_digest.mark(study)}/{ended}".encode()).hexdigest()


def _stored(study: Study, filters: Filters, state: str, resamples: int, seed: int = SEED) -> Analysis | None:
    return Analysis.objects.filter(key=key_of(study, filters, state, seed, resamples)).first()


def _quick(study: Study, filters: Filters, state: str) -> Analysis | None:
    """Without resampling: stored, or computed here and now if the study is small and keeps still."""
    if found := _stored(study, filters, state, 0):
        return found
    if Rating.objects.filter(assignment__item__study=study).count() > INLINE:
        return None
    with _at_work, suppress(MovingError):
        return compute(study, filters, resamples=0)
    return None


def _last(study: Study, filters: Filters) -> Analysis | None:
    """The newest one of an earlier state, full ones first; a document of another form cannot be shown."""
    own = [row.pk for row in _same(study, filters) if row.version == form.VERSION]
    return Analysis.objects.filter(pk__in=own).order_by("-full", "-made_at", "-pk").first()


def _same(study: Study, filters: Filters) -> Iterator[Analysis]:
    """Analyses of the same request at any state, newest first, without their documents."""
    wanted = filters.to_json()
    own = Analysis.objects.filter(study=study).order_by("-made_at", "-pk").defer("document")
    return (row for row in own if row.filters == wanted)


def _asked(study: Study, filters: Filters, state: str, by: Any) -> Job:
    """The job of the full analysis: under way, or newly asked for; one that failed or was stopped at this state is not
    asked for again by a mere look."""
    params = _params(study, filters, state)
    last = _last_job(study, params)
    if last is not None and last.status != "done":  # a request would take a stop back that somebody has asked for
        return last
    return _under_way(study, params) or jobs.request("analysis", params, subject=job_access.subject(study), by=by)


def _to_draw(study: Study, filters: Filters, state: str, by: Any) -> Job | None:
    """The job that draws what a command computed; None once one has, and there was nothing to draw."""
    last = _last_job(study, _params(study, filters, state))
    return None if last is not None and last.status == "done" else _asked(study, filters, state, by)


def _drawing_said(job: Job | None) -> str:
    if job is None:
        return ""
    return f" Its figures {'could not be' if job.status in ('failed', 'cancelled') else 'are being'} drawn."


def _params(study: Study, filters: Filters, state: str) -> dict[str, Any]:
    return {
        "study": str(study.code),
        "filters": filters.to_json(),
        "state": state,
        "version": form.VERSION,
        "resamples": RESAMPLES,
        "seed": SEED,
    }


def _last_job(study: Study, params: Mapping[str, Any]) -> Job | None:
    return next((job for job in _jobs(study)[:_LOOKED_BACK] if job.params == params), None)


def _under_way(study: Study, params: Mapping[str, Any]) -> Job | None:
    """A job of the same that was asked for at an earlier state: it computes the state that it finds."""
    live = _jobs(study).filter(status__in=Job.RUNNABLE, cancel_requested_at=None)
    return next((job for job in live if {**job.params, "state": ""} == {**params, "state": ""}), None)


def _jobs(study: Study) -> QuerySet[Job]:
    return Job.objects.filter(kind="analysis", subject=job_access.subject(study)).order_by("-pk")


_LOOKED_BACK = 50


def _pending_said(shown: Analysis | None, fresh: bool, job: Job) -> str:
    failed = job.status in ("failed", "cancelled")
    coming = "The full analysis could not be computed." if failed else "The full analysis is being computed."
    if shown is None:
        return coming
    if fresh:
        return f"{freshness(shown)} {coming}"
    return f"Out of date: ratings, or what machines say of the items, changed since. {freshness(shown)} {coming}"


def _keep(study: Study, filters: Filters, made: Mapping[str, Any], seconds: float) -> Analysis:
    """Stored; if another was first, that one. The bytes are the same."""
    values = {
        "study": study,
        "mark": made["data"]["mark"],
        "filters": filters.to_json(),
        "version": made["version"],
        "seed": made["seed"],
        "resamples": made["resamples"],
        "full": made["full"],
        "data_sha256": made["data"]["sha256"],
        "n_ratings": made["data"]["ratings"],
        "document": made,
        "sha256": form.digest(made),
        "seconds": round(seconds, 3),
        "made_at": timezone.now(),
    }
    key = key_of(study, filters, made["data"]["mark"], made["seed"], made["resamples"])
    with transaction.atomic():
        found, _ = Analysis.objects.get_or_create(key=key, defaults=values)
        _clear(study, filters, found)
    return found


def _clear(study: Study, filters: Filters, kept: Analysis) -> None:
    """Drop what nobody will be shown again: other forms, earlier states, the quick form of a full one, filters of long ago."""
    same = list(_same(study, filters))
    old = [row.pk for at, row in enumerate(same) if at >= KEPT or row.version != kept.version]
    if kept.full:
        old += [row.pk for row in same if not row.full and row.mark == kept.mark]
    filtered = Analysis.objects.filter(study=study).exclude(filters={}).order_by("-made_at", "-pk")
    old += filtered.values_list("pk", flat=True)[KEPT_FILTERED:]
    Analysis.objects.filter(pk__in=old).exclude(pk=kept.pk).delete()


def blind_precision(study: Study, given: int | None = None) -> dict[str, Any]:
    """What more ratings would give, while the study is sealed: the table `precision`, all sources together.

    From a few hundred ratings on it is kept until a fiftieth more have come. Who has counted them hands over how many
    were `given`.
    """
    from ratings.results.analyses import sections_planning  # as in compute

    planted = protocols.stored(study.protocol).prevalence
    count = stopping.counted(study) if given is None else given
    if count <= AT_ONCE:
        return sections_planning.blind(rows.blind_verdicts(study), study.kind, planted)
    key = f"blind-precision/{study.code}/{math.floor(math.log(count, 1.02))}"
    found: dict[str, Any] | None = cache.get(key)
    if found is None:
        found = sections_planning.blind(rows.blind_verdicts(study), study.kind, planted)
        cache.set(key, found, _KEPT_SECONDS)
    return found


_KEPT_SECONDS = 3600
