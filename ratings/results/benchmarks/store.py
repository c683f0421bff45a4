"""Stored results of benchmarks: request, find and explain them."""

import hashlib
import json
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db.models import Count

from ratings.models import Analysis, Benchmark
from ratings.results.benchmarks import FORM, RESAMPLES, SEED
from simulation.jobs import jobs
from simulation.models import Job, MissingReview

KIND = "benchmark"


class Look(NamedTuple):
    """The stored result, or the job that computes it."""

    analysis: Analysis | None
    job: Job | None


def look(benchmark: Benchmark, by: User | None = None) -> Look:
    """Return the stored result, or the job that computes it: in progress, or a new one.

    A job that failed or was stopped is returned as it is. Viewing a page must not start it again.
    """
    if stored := Analysis.objects.filter(key=key_of(benchmark)).first():
        return Look(stored, None)
    last_job = Job.objects.filter(kind=KIND, subject=subject(benchmark)).order_by("-pk").first()
    if last_job is not None and last_job.status != "done" and last_job.params == _params(benchmark):
        return Look(None, last_job)
    return Look(None, jobs.request(KIND, _params(benchmark), subject=subject(benchmark), by=by))


def find_newest(benchmark: Benchmark) -> Analysis | None:
    """Return the newest stored result in whatever state (compare its `key`), or None. Computes nothing."""
    return Analysis.objects.filter(benchmark=benchmark).order_by("-made_at", "-pk").first()


def explain_stale(benchmark: Benchmark, analysis: Analysis) -> str:
    """Return what changed since this result was computed; "" if it is current."""
    if analysis.key == key_of(benchmark):
        return ""
    if analysis.version != FORM:
        return "it was computed by an earlier version of WetBench"
    missing_before, missing_now = analysis.document["data"]["missing_verdicts"], sum(count_missing(benchmark).values())
    return f"then {missing_before:,} verdicts of further classifiers were missing, now {missing_now:,} are missing"


def subject(benchmark: Benchmark) -> str:
    return f"benchmark/{benchmark.code}"


def _params(benchmark: Benchmark) -> dict[str, Any]:
    return {"benchmark": str(benchmark.code), "key": key_of(benchmark)}


def key_of(benchmark: Benchmark) -> str:
    """Return a key that changes whenever the result would."""
    # Missing verdicts can be supplied later, after the benchmark was frozen.
    request = [str(benchmark.code), benchmark.sha256, FORM, SEED, RESAMPLES, count_missing(benchmark)]
    return hashlib.sha256(json.dumps(request).encode()).hexdigest()


def count_missing(benchmark: Benchmark) -> dict[str, int]:
    """Return how many verdicts each further classifier did not give, for those with any."""
    rows = MissingReview.objects.filter(episode__in=benchmark.episodes.values("pk")).order_by("classifier")
    return dict(rows.values_list("classifier").annotate(n=Count("pk")))
