"""Freeze a benchmark: check the chosen runs and store a fixed set of their episodes, which never changes afterwards."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Q, QuerySet

from ratings.models import Benchmark, ItemSource, Study
from simulation.models import Episode, Leased, Run

MOST_EPISODES = 20_000


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
    """Return the episodes of these runs that have ended and count, one for each replicate; stopped ones are left
    out.
    """
    episodes = Episode.objects.filter(run__in=runs, counts=True, status__in=Episode.ENDED).exclude(status="cancelled")
    # The deferred columns are large, and nothing here uses them.
    return episodes.select_related("experiment").defer("initial", "memory", "experiment__data").order_by("pk")


def hash_episodes(episodes: Sequence[Episode]) -> str:
    """Return a digest of the frozen episodes: their codes, experiments, casts and replicates, and how each ended."""
    facts = sorted(
        [str(episode.code), episode.experiment_sha256, episode.cast, episode.replicate, episode.status]
        for episode in episodes
    )
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def find_benchmarks(study: Study) -> QuerySet[Benchmark]:
    """Return the benchmarks that contain an episode from which an item of this study was taken."""
    sources = ItemSource.objects.filter(item__study=study)
    is_used = Q(episodes__transitions__in=sources.values("transition")) | Q(
        episodes__reviews__in=sources.values("review")
    )
    return Benchmark.objects.filter(pk__in=Benchmark.objects.filter(is_used).values("pk"))


def find_studies(benchmark: Benchmark) -> QuerySet[Study]:
    """Return the studies that have items taken from episodes of this benchmark."""
    has_episode = Q(items__source__transition__episode__in=benchmark.episodes.values("pk"))
    has_episode |= Q(items__source__review__episode__in=benchmark.episodes.values("pk"))
    return Study.objects.filter(pk__in=Study.objects.filter(has_episode).values("pk")).defer("protocol")


def _explain_exclusion(run: Run, ended: int, unfinished: int) -> str:
    if run.manifest:
        return "its agents could request further materials"
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
