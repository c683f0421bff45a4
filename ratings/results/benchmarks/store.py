"""Benchmarks: freeze a fixed set of episodes, which never changes afterwards; request, find and explain stored results."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q, QuerySet

from ratings.models import Analysis, Benchmark, ItemSource, Study
from ratings.results.benchmarks import DOCUMENT_VERSION, RESAMPLES, SEED
from simulation.jobs import jobs
from simulation.models import Episode, Job, Leased, MissingReview, Run
from wetbench_site.text import hash_text

KIND = "benchmark"
MOST_EPISODES = 20_000


class BenchmarkStatus(NamedTuple):
    """The stored result of a benchmark, or the job that computes it; the other one is None."""

    analysis: Analysis | None
    job: Job | None


def get_or_request(benchmark: Benchmark, user: User | None = None) -> BenchmarkStatus:
    """Return the stored result, or its job. A failed or stopped job is returned, because a view must not restart it."""
    if stored := Analysis.objects.filter(key=build_key(benchmark)).first():
        return BenchmarkStatus(stored, None)
    params, subject = {"benchmark": str(benchmark.code), "key": build_key(benchmark)}, job_subject(benchmark)
    last_job = Job.objects.filter(kind=KIND, subject=subject).order_by("-pk").first()
    if last_job is not None and last_job.status != "done" and last_job.params == params:
        return BenchmarkStatus(None, last_job)
    return BenchmarkStatus(None, jobs.request_job(KIND, params, subject=subject, user=user))


def find_newest(benchmark: Benchmark) -> Analysis | None:
    """Return the newest stored result, or None, without computing. It is current if its key is that of `build_key`."""
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


def build_key(benchmark: Benchmark) -> str:
    """Return the key of the current result. It changes whenever the result would change."""
    # The key includes the missing verdicts, because they can be supplied after the benchmark was frozen.
    request = [str(benchmark.code), benchmark.sha256, DOCUMENT_VERSION, SEED, RESAMPLES, count_missing(benchmark)]
    return hash_text(json.dumps(request))


def count_missing(benchmark: Benchmark) -> dict[str, int]:
    """Return for each further classifier with missing verdicts how many verdicts it did not give."""
    rows = MissingReview.objects.filter(episode__in=benchmark.episodes.values("pk")).order_by("classifier")
    return dict(rows.values_list("classifier").annotate(n=Count("pk")))


class BenchmarkError(ValueError):
    """The episodes cannot be frozen. `problems` lists all reasons, as sentences to show."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class RunCandidate(NamedTuple):
    """A run of episodes that could enter a benchmark.

    `experiments`, `ended`, `open`: numbers of its experiments, and of its episodes that have ended or have not.
    `exclusion_reason`: why the run cannot enter, or "".
    """

    run: Run
    experiments: int
    ended: int
    open: int
    exclusion_reason: str


def list_candidates() -> list[RunCandidate]:
    """Return every run of episodes, newest first, in one query."""
    episode_counts = Q(episodes__counts=True)
    rows = Run.objects.filter(kind="episodes").annotate(
        n_experiments=Count("episodes__experiment", filter=episode_counts, distinct=True),
        n_ended=Count("episodes", filter=episode_counts & Q(episodes__status__in=Episode.ENDED)),
        n_open=Count("episodes", filter=episode_counts & Q(episodes__status__in=(*Leased.RUNNABLE, "blocked"))),
    )
    return [
        RunCandidate(row, row.n_experiments, row.n_ended, row.n_open, _explain_exclusion(row, row.n_ended, row.n_open))
        for row in rows.defer("setup").order_by("-created_at", "-pk")
    ]


@transaction.atomic
def freeze_benchmark(name: str, runs: Sequence[Run], user: User | None = None, note: str = "") -> Benchmark:
    """Create a benchmark from the episodes of these runs that count. Raises BenchmarkError with every problem."""
    name = name.strip()
    # All problems are collected, so that a person can correct them at once.
    problems = [] if 0 < len(name) <= 120 else [f"The name has {len(name)} characters; it must have 1 to 120."]
    candidates_chosen = [line for line in list_candidates() if line.run.pk in {run.pk for run in runs}]
    problems += [f"{line.run}: {line.exclusion_reason}." for line in candidates_chosen if line.exclusion_reason]
    if not candidates_chosen:
        problems.append("Choose at least one run of episodes.")
    episodes = list(select_episodes([line.run for line in candidates_chosen]))
    problems += _find_changed_experiments(episodes)
    if len(episodes) > MOST_EPISODES:
        problems.append(f"These runs have {len(episodes):,} episodes; a benchmark can have at most {MOST_EPISODES:,}.")
    if problems:
        raise BenchmarkError(problems)
    benchmark = Benchmark.objects.create(name=name, note=note.strip(), sha256=hash_episodes(episodes), created_by=user)
    benchmark.runs.set([line.run for line in candidates_chosen])
    benchmark.episodes.set(episodes)
    return benchmark


def select_episodes(runs: Sequence[Run]) -> QuerySet[Episode]:
    """Return the episodes of these runs that have ended and count, one for each replicate; stopped ones are left out."""
    episodes = Episode.objects.filter(run__in=runs, counts=True, mask_key="", status__in=Episode.ENDED)
    episodes = episodes.exclude(status="cancelled")
    # The deferred columns are large, and nothing here uses them.
    return episodes.select_related("experiment").defer("initial", "memory", "experiment__data").order_by("pk")


def hash_episodes(episodes: Sequence[Episode]) -> str:
    """Return a digest of the frozen episodes: their codes, experiments, casts and replicates, and how each ended."""
    facts = sorted([str(row.code), row.experiment_sha256, row.cast, row.replicate, row.status] for row in episodes)
    return hash_text(json.dumps(facts))


def find_benchmarks(study: Study) -> QuerySet[Benchmark]:
    """Return the benchmarks that contain an episode from which an item of this study was taken."""
    sources = ItemSource.objects.filter(item__study=study)
    is_used = Q(episodes__transitions__in=sources.values("transition"))
    is_used |= Q(episodes__reviews__in=sources.values("review"))
    return Benchmark.objects.filter(pk__in=Benchmark.objects.filter(is_used).values("pk"))


def find_studies(benchmark: Benchmark) -> QuerySet[Study]:
    """Return the studies that have items taken from episodes of this benchmark."""
    has_episode = Q(items__source__transition__episode__in=benchmark.episodes.values("pk"))
    has_episode |= Q(items__source__review__episode__in=benchmark.episodes.values("pk"))
    return Study.objects.filter(pk__in=Study.objects.filter(has_episode).values("pk")).defer("protocol")


def _explain_exclusion(run: Run, ended: int, unfinished: int) -> str:
    if run.manifest:
        return "its agents could request further materials"
    if run.practice:
        return "it is practice, in which rejected actions cost no step"
    if run.conditions:
        return "its agents were given a protocol with hidden steps"
    if unfinished:
        return f"{unfinished} of its episodes are running or blocked; wait for them or stop them"
    return "" if ended else "none of its episodes has ended"


def _find_changed_experiments(episodes: Sequence[Episode]) -> list[str]:
    """Return a problem, as a sentence, for each experiment that these episodes played in more than one version."""
    versions: dict[str, set[str]] = defaultdict(set)
    for episode in episodes:
        # Attempts at two versions of an experiment are not attempts at the same task.
        versions[episode.experiment.name].add(episode.experiment_sha256)
    return [
        f"{name} was changed between these runs; choose runs that played the same version."
        for name, digests in sorted(versions.items())
        if len(digests) > 1
    ]
