"""Stored results of benchmarks: request, find and explain them."""

import hashlib
import json
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db.models import Count

from ratings.models import Analysis, Benchmark
from ratings.results.benchmarks import DOCUMENT_VERSION, RESAMPLES, SEED
from simulation.jobs import jobs
from simulation.models import Job, MissingReview

KIND = "benchmark"


class BenchmarkStatus(NamedTuple):
    """The stored result of a benchmark, or the job that computes it; the other one is None."""

    analysis: Analysis | None
    job: Job | None


def get_or_request(benchmark: Benchmark, user: User | None = None) -> BenchmarkStatus:
    """Return the stored result or, if there is none, the job that computes it; request a new job if none is in progress.

    A job that failed or was stopped is returned as it is, because viewing a page must not restart it.
    """
    if stored := Analysis.objects.filter(key=build_key(benchmark)).first():
        return BenchmarkStatus(stored, None)
    last_job = Job.objects.filter(kind=KIND, subject=job_subject(benchmark)).order_by("-pk").first()
    if last_job is not None and last_job.status != "done" and last_job.params == _build_params(benchmark):
        return BenchmarkStatus(None, last_job)
    return BenchmarkStatus(
        None, jobs.request_job(KIND, _build_params(benchmark), subject=job_subject(benchmark), user=user)
    )


def find_newest(benchmark: Benchmark) -> Analysis | None:
    """Return the newest stored result, or None; nothing is computed.

    It is current if its `key` equals that of `build_key`.
    """
    return Analysis.objects.filter(benchmark=benchmark).order_by("-created_at", "-pk").first()


def explain_stale(benchmark: Benchmark, analysis: Analysis) -> str:
    """Return what changed since this result was computed; "" if it is current."""
    if analysis.key == build_key(benchmark):
        return ""
    if analysis.version != DOCUMENT_VERSION:
        return "it was computed by an earlier version of WetBench"
    missing_before, missing_now = analysis.document["data"]["missing_verdicts"], sum(count_missing(benchmark).values())
    return f"then {missing_before:,} verdicts of further classifiers were missing, now {missing_now:,} are missing"


def job_subject(benchmark: Benchmark) -> str:
    return f"benchmark/{benchmark.code}"


def _build_params(benchmark: Benchmark) -> dict[str, Any]:
    return {"benchmark": str(benchmark.code), "key": build_key(benchmark)}


def build_key(benchmark: Benchmark) -> str:
    """Return the key of the current result. It changes whenever the result would change."""
    # The key includes the missing verdicts, because they can be supplied after the benchmark was frozen.
    request = [str(benchmark.code), benchmark.sha256, DOCUMENT_VERSION, SEED, RESAMPLES, count_missing(benchmark)]
    return hashlib.sha256(json.dumps(request).encode()).hexdigest()


def count_missing(benchmark: Benchmark) -> dict[str, int]:
    """Return for each further classifier with missing verdicts how many verdicts it did not give."""
    rows = MissingReview.objects.filter(episode__in=benchmark.episodes.values("pk")).order_by("classifier")
    return dict(rows.values_list("classifier").annotate(n=Count("pk")))
