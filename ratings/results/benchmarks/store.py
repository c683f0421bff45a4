"""A benchmark's document as it is kept: asked for, found again, and read."""

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
    """The stored result, or the job that makes it."""

    analysis: Analysis | None
    job: Job | None


def look(benchmark: Benchmark, by: User | None = None) -> Look:
    """What there is to show; a job that failed is not asked for again, nor a stop taken back, by a mere look."""
    if found := Analysis.objects.filter(key=key_of(benchmark)).first():
        return Look(found, None)
    last = Job.objects.filter(kind=KIND, subject=subject(benchmark)).order_by("-pk").first()
    if last is not None and last.status != "done" and last.params == _params(benchmark):
        return Look(None, last)
    return Look(None, jobs.request(KIND, _params(benchmark), subject=subject(benchmark), by=by))


def find_newest(benchmark: Benchmark) -> Analysis | None:
    """Return the newest stored result, of whatever state (its `key` tells), or None. Computes nothing."""
    return Analysis.objects.filter(benchmark=benchmark).order_by("-made_at", "-pk").first()


def explain_stale(benchmark: Benchmark, analysis: Analysis) -> str:
    """Return what changed since this result was computed, "" where it is of the benchmark as it is now."""
    if analysis.key == key_of(benchmark):
        return ""
    if analysis.version != FORM:
        return "it was computed by an earlier version of WetBench"
    before, now = analysis.document["data"]["missing_verdicts"], sum(count_missing(benchmark).values())
    return f"then {before:,} verdicts of the panel were missing, now {now:,} are"


def subject(benchmark: Benchmark) -> str:
    return f"benchmark/{benchmark.code}"


def _params(benchmark: Benchmark) -> dict[str, Any]:
    return {"benchmark": str(benchmark.code), "key": key_of(benchmark)}


def key_of(benchmark: Benchmark) -> str:
    """Return what changes when the result would: a verdict of the panel that was given later is among it."""
    asked = [str(benchmark.code), benchmark.sha256, FORM, SEED, RESAMPLES, count_missing(benchmark)]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def count_missing(benchmark: Benchmark) -> dict[str, int]:
    """Return how many verdicts each classifier of the panel did not give, for those with any."""
    rows = MissingReview.objects.filter(episode__in=benchmark.episodes.values("pk")).order_by("classifier")
    return dict(rows.values_list("classifier").annotate(n=Count("pk")))
