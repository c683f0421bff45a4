"""Stored analyses. Each is computed once for a state of the ratings, and found again by its key.

An analysis is never presented as current if ratings, or verdicts of machines on the items, have changed since it was computed.
"""

import hashlib
import json
import math
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.timesince import timesince

from ratings.models import Analysis, Rating, Study
from ratings.protocol import study_protocol
from ratings.results import rating_rows
from ratings.results.analyses.filters import Filters
from ratings.studies import SealedError, access, progress
from simulation.jobs import jobs
from simulation.models import Job
from wetbench_site.text import hash_text

# Increase the version with every change of what is computed or how it is written. Documents of other versions are not shown.
VERSION = 13
# The libraries whose version can change a number.
LIBRARIES = ("numpy", "scipy")

SEED, RESAMPLES = 0, 2000
INLINE = 5_000  # most ratings for which a page request itself computes the analysis without resampling
AT_ONCE = 500  # most ratings for which the expected precision is not cached
KEPT, KEPT_FILTERED = 3, 60  # most stored analyses for equal filters; most stored analyses with filters per study
COMPARISON_KIND = "comparison"
_TRIES = 3  # computations before DataChangingError is raised
_JOBS_SEARCHED = 50  # number of the study's latest jobs that are searched for the same request
_CACHE_SECONDS = 3600  # limited, because ratings can change while their number does not
_compute_lock = threading.Lock()  # the second of two simultaneous requests waits and finds what the first stored

ReportProgress = Callable[[int, int, str], None]


def ignore_progress(step: int, total: int, message: str) -> None:
    """Do nothing: the default for computations whose progress is not shown."""


def list_versions() -> dict[str, str]:
    """Return the versions of Python and of the numerical libraries."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


def encode_document(document: Any) -> bytes:
    """Return the bytes of the document that are hashed and sent: JSON with sorted keys, without NaN or infinity."""
    text = json.dumps(document, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.encode()


def hash_document(document: Any) -> str:
    return hashlib.sha256(encode_document(document)).hexdigest()


class DataChangingError(RuntimeError):
    """The ratings, or machine verdicts, changed during every attempt to compute the analysis."""


class AnalysisStatus(NamedTuple):
    """The analysis to show and its state.

    `is_fresh`: whether it is of the current ratings. `job`: the job that computes the full analysis or draws its figures, or
    that failed to; None if there is nothing to do. `message`: sentences about the state of the analysis and the job.
    """

    analysis: Analysis | None
    is_fresh: bool
    job: Job | None
    message: str


def get_or_request(study: Study, filters: Filters, user: Any = None) -> AnalysisStatus:
    """Return the best analysis available now, and the job that completes it, if one is needed.

    With at most INLINE ratings, the analysis without resampling is computed at once. The full analysis is left to a job.

    Raises SealedError before the study is unblinded.
    """
    _refuse_sealed(study)
    state = _compute_state(study)
    stored = _find_stored(study, filters, state, RESAMPLES)
    if stored and stored.drawings.exists():
        return AnalysisStatus(stored, True, None, describe_freshness(stored))
    params = {
        "study": str(study.code), "filters": filters.to_dict(), "state": state, "version": VERSION, "resamples": RESAMPLES,
        "seed": SEED,
    }  # fmt: skip
    jobs_of_study = Job.objects.filter(kind="analysis", subject=access.format_subject(study)).order_by("-pk")
    last = next((job for job in jobs_of_study[:_JOBS_SEARCHED] if job.params == params), None)
    if stored:
        message = describe_freshness(stored)
        # Figures are missing if a command computed the analysis. If the job has finished, no figure has data.
        if last is not None and last.status == "done":
            return AnalysisStatus(stored, True, None, message)
        job = _get_or_request_job(study, jobs_of_study, last, params, user)
        drawn = "could not be" if job.status in ("failed", "cancelled") else "are being"
        return AnalysisStatus(stored, True, job, f"{message} Its figures {drawn} drawn.")
    job = _get_or_request_job(study, jobs_of_study, last, params, user)
    outlook = "could not be" if job.status in ("failed", "cancelled") else "is being"
    message = f"The full analysis {outlook} computed."
    quick = _get_quick(study, filters, state)
    # An out-of-date analysis is more useful than none; the message states that it is out of date. Full ones are preferred.
    # Pages can only show documents of the current version.
    keys = [] if quick else [row.pk for row in _iter_same_request(study, filters) if row.version == VERSION]
    older = Analysis.objects.defer("document").filter(pk__in=keys).order_by("-full", "-created_at", "-pk")
    available = quick or older.first()
    if available is not None:
        message = f"{describe_freshness(available)} {message}"
        if quick is None:
            message = f"Out of date: ratings, or machine verdicts on the items, have changed since. {message}"
    return AnalysisStatus(available, quick is not None, job, message)


def compute_analysis(
    study: Study,
    filters: Filters,
    tell: ReportProgress = ignore_progress,
    *,
    seed: int = SEED,
    resamples: int = RESAMPLES,
) -> Analysis:
    """Return the analysis of the current ratings, stored or computed now. DataChangingError: they changed each time."""
    from ratings.results.analyses import document  # imported here because it imports scipy, which takes a second

    _refuse_sealed(study)
    state = _compute_state(study)
    for _ in range(_TRIES):
        if stored := _find_stored(study, filters, state, resamples, seed):
            return stored
        started = time.monotonic()
        content = document.build_document(study, filters, state, seed=seed, resamples=resamples, tell=tell)
        # Ratings are not locked during the computation. A change is detected by comparing the state before and after it.
        before, state = state, _compute_state(study)
        if state == before:
            return _save_analysis(study, filters, content, time.monotonic() - started)
    raise DataChangingError(
        f"The ratings of {study.name}, or machine verdicts on its items, change while they are analysed"
    )


def find_full(study: Study) -> Analysis | None:
    """Return the newest full analysis of all ratings of an unblinded study, or None. Nothing is computed or requested."""
    if not study.is_unblinded:
        return None
    return next((row for row in _iter_same_request(study, Filters()) if row.full and row.version == VERSION), None)


def describe_freshness(analysis: Analysis) -> str:
    """Return when the analysis was computed, from how many ratings, and how its intervals were computed."""
    ago = timesince(analysis.created_at).replace("\xa0", " ")
    age = "just now" if ago == "0 minutes" else f"{ago} ago"
    intervals = "without the intervals that need resampling"
    if analysis.full:
        intervals = f"intervals from {analysis.resamples:,} resamples, seed {analysis.seed}"
    return f"Computed {age} from {analysis.n_ratings:,} ratings; {intervals}."


def build_key(study: Study, filters: Filters, state: str, seed: int, resamples: int) -> str:
    """Return the key of a requested analysis. Equal requests for the same state of the ratings have the same key."""
    # The key depends on everything that can change the bytes of the document.
    request = [str(study.code), state, filters.to_dict(), VERSION, seed, resamples]
    return hash_text(json.dumps(request, ensure_ascii=False, sort_keys=True))


def _refuse_sealed(study: Study) -> None:
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; results by source are computed only after unblinding")


def _compute_state(study: Study) -> str:
    """Return a digest of everything on which the document depends, including whether a deadline has passed."""
    # A deadline passes without a change in the database, and the document states whether the stop rule is met.
    ended = progress.is_deadline_over(study) if study.protocol.get("stop") == "deadline" else None
    return hash_text(f"{progress.compute_state_digest(study)}/{ended}")


def _find_stored(study: Study, filters: Filters, state: str, resamples: int, seed: int = SEED) -> Analysis | None:
    # Not the document, which can have megabytes: the study's page is stored as HTML.
    key = build_key(study, filters, state, seed, resamples)
    return Analysis.objects.defer("document").filter(key=key).first()


def _get_quick(study: Study, filters: Filters, state: str) -> Analysis | None:
    """Return the analysis without resampling; None if there are more than INLINE ratings, or they change."""
    if stored := _find_stored(study, filters, state, 0):
        return stored
    if Rating.objects.filter(assignment__item__study=study).count() > INLINE:
        return None
    # The lock makes the second of two simultaneous requests find the result of the first.
    with _compute_lock, suppress(DataChangingError):
        return compute_analysis(study, filters, resamples=0)
    return None


def _iter_same_request(study: Study, filters: Filters) -> Iterator[Analysis]:
    """Yield the stored analyses with these filters at any state of the ratings, newest first, without their documents."""
    filter_values = filters.to_dict()
    analyses = Analysis.objects.filter(study=study).order_by("-created_at", "-pk").defer("document")
    return (row for row in analyses if row.filters == filter_values)


def _get_or_request_job(
    study: Study, jobs_of_study: QuerySet[Job], last: Job | None, params: dict[str, Any], user: Any
) -> Job:
    """Return the job that computes the full analysis; request a new job if none is in progress.

    `last`: the last job for the same request. If it failed or was stopped, it is returned as it is, because viewing a page
    must not restart it or undo a stop that a person requested. A job for another state of the ratings is sufficient, because
    it analyses the ratings that it finds when it runs.
    """
    if last is not None and last.status != "done":
        return last
    running = jobs_of_study.filter(status__in=Job.RUNNABLE, cancel_requested_at=None)
    same = (job for job in running if {**job.params, "state": ""} == {**params, "state": ""})
    subject = access.format_subject(study)
    return next(same, None) or jobs.request_job("analysis", params, subject=subject, user=user)


def _save_analysis(study: Study, filters: Filters, content: Mapping[str, Any], seconds: float) -> Analysis:
    """Store and return the analysis. If another process has stored an analysis with the same key, return that one."""
    data = content["data"]
    values = {
        **{name: content[name] for name in ("version", "seed", "resamples", "full")},
        "study": study, "state_digest": data["mark"], "filters": filters.to_dict(), "data_sha256": data["sha256"],
        "n_ratings": data["ratings"], "document": content, "sha256": hash_document(content),
        "seconds": round(seconds, 3), "created_at": timezone.now(),
    }  # fmt: skip
    key = build_key(study, filters, data["mark"], content["seed"], content["resamples"])
    with transaction.atomic():
        analysis, _ = Analysis.objects.get_or_create(key=key, defaults=values)
        _delete_superseded(study, filters, analysis)
    return analysis


def _delete_superseded(study: Study, filters: Filters, current: Analysis) -> None:
    """Delete analyses that are not shown again: other versions, older ones, the quick variant of a full one."""
    versions = list(_iter_same_request(study, filters))
    # A document of another version is never shown, so it is deleted even if it is among the newest.
    superseded = [row.pk for i, row in enumerate(versions) if i >= KEPT or row.version != current.version]
    if current.full:
        superseded += [row.pk for row in versions if not row.full and row.state_digest == current.state_digest]
    filtered = Analysis.objects.filter(study=study).exclude(filters={}).order_by("-created_at", "-pk")
    superseded += filtered.values_list("pk", flat=True)[KEPT_FILTERED:]
    Analysis.objects.filter(pk__in=superseded).exclude(pk=current.pk).delete()


def compute_blind_precision(study: Study, n_known: int | None = None) -> dict[str, Any]:
    """Return the table `precision` of a sealed study: the precision to expect with more ratings, all sources pooled.

    `n_known`: the number of ratings that count, if the caller has already counted them.
    """
    from ratings.results.analyses import sections_rates  # imported here because it imports scipy

    planted = study_protocol.load_protocol(study.protocol).planted_share
    n_ratings = progress.count_ratings(study) if n_known is None else n_known
    # The cache key changes with every 2% more ratings. Fewer ratings hardly change the numbers, and a page requests them often.
    key = "" if n_ratings <= AT_ONCE else f"blind-precision/{study.code}/{math.floor(math.log(n_ratings, 1.02))}"
    table: dict[str, Any] | None = cache.get(key) if key else None
    if table is None:
        table = sections_rates.build_blind_precision(rating_rows.iter_blind_verdicts(study), study.kind, planted)
        if key:
            cache.set(key, table, _CACHE_SECONDS)
    return table


def find_comparable_studies(user: User, study: Study) -> QuerySet[Study]:
    """Return the studies that this user may compare with `study`: unblinded, of the same kind, and visible to the user."""
    studies = access.list_studies(user).filter(status="unblinded", kind=study.kind)
    # Rates can only be compared if raters answered the same question, so only studies of the same kind are offered.
    return studies.exclude(pk=study.pk).order_by("name", "pk")


def request_comparison(study: Study, other: Study, user: User) -> Job:
    """Return the job that compares the current ratings of two studies; it can be new, in progress or done."""
    params = {
        "study": str(study.code),
        "other": str(other.code),
        # The digests are parameters of the job, so that a finished job is reused only if no rating has changed since.
        "states": [progress.compute_state_digest(study), progress.compute_state_digest(other)],
        "version": VERSION,
    }
    return jobs.request_job(COMPARISON_KIND, params, subject=access.format_subject(study), user=user, reuse=True)
