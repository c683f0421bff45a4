"""Freeze a benchmark: a fixed set of episodes. What it is built from is checked; afterwards it never changes."""

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
    """The episodes cannot be frozen. `problems` lists all reasons, for people."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class RunLine(NamedTuple):
    """A run that could enter a benchmark: its experiments, its episodes that ended or are open, and why it cannot enter."""

    run: Run
    experiments: int
    ended: int
    open: int
    why_not: str


def candidates() -> list[RunLine]:
    """Return every run of episodes, newest first, in one query."""
    episode_counts = Q(episodes__counts=True)
    rows = Run.objects.filter(kind="episodes").annotate(
        n_experiments=Count("episodes__experiment", filter=episode_counts, distinct=True),
        n_ended=Count("episodes", filter=episode_counts & Q(episodes__status__in=Episode.ENDED)),
        n_open=Count("episodes", filter=episode_counts & Q(episodes__status__in=(*Leased.RUNNABLE, "blocked"))),
    )
    return [
        RunLine(row, row.n_experiments, row.n_ended, row.n_open, _why_not(row, row.n_ended, row.n_open))
        for row in rows.defer("setup").order_by("-created_at", "-pk")
    ]


@transaction.atomic
def freeze(name: str, runs: Sequence[Run], by: User | None = None, note: str = "") -> Benchmark:
    """Create a benchmark from the episodes of these runs that count. Raises BenchmarkError with every problem."""
    name = name.strip()
    # All problems are collected: a person corrects the form once.
    problems = [] if 0 < len(name) <= 120 else [f"The name has {len(name)} characters; it must have 1 to 120."]
    candidates_chosen = [line for line in candidates() if line.run.pk in {run.pk for run in runs}]
    problems += [f"{line.run}: {line.why_not}." for line in candidates_chosen if line.why_not]
    if not candidates_chosen:
        problems.append("Choose at least one run of episodes.")
    episodes = list(episodes_of([line.run for line in candidates_chosen]))
    problems += _changed(episodes)
    if len(episodes) > MOST_EPISODES:
        problems.append(f"These runs have {len(episodes):,} episodes; a benchmark can have at most {MOST_EPISODES:,}.")
    if problems:
        raise BenchmarkError(problems)
    benchmark = Benchmark.objects.create(name=name, note=note.strip(), sha256=digest(episodes), created_by=by)
    benchmark.runs.set([line.run for line in candidates_chosen])
    benchmark.episodes.set(episodes)
    return benchmark


def episodes_of(runs: Sequence[Run]) -> QuerySet[Episode]:
    """Return the attempts in these runs: for each replicate the one that counts, without stopped ones."""
    episodes = Episode.objects.filter(run__in=runs, counts=True, status__in=Episode.ENDED).exclude(status="cancelled")
    # The deferred columns are large, and nothing here uses them.
    return episodes.select_related("experiment").defer("initial", "memory", "experiment__data").order_by("pk")


def digest(episodes: Sequence[Episode]) -> str:
    """Return a digest of what was frozen: which episodes, of which experiment and cast, and how each ended."""
    facts = sorted(
        [str(episode.code), episode.experiment_sha256, episode.cast, episode.replicate, episode.status]
        for episode in episodes
    )
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def of_study(study: Study) -> QuerySet[Benchmark]:
    """Return the benchmarks with an episode that some item of this study comes from."""
    sources = ItemSource.objects.filter(item__study=study)
    is_used = Q(episodes__transitions__in=sources.values("transition")) | Q(
        episodes__reviews__in=sources.values("review")
    )
    return Benchmark.objects.filter(pk__in=Benchmark.objects.filter(is_used).values("pk"))


def studies_of(benchmark: Benchmark) -> QuerySet[Study]:
    """Return the studies with items from episodes of this benchmark."""
    has_episode = Q(items__source__transition__episode__in=benchmark.episodes.values("pk"))
    has_episode |= Q(items__source__review__episode__in=benchmark.episodes.values("pk"))
    return Study.objects.filter(pk__in=Study.objects.filter(has_episode).values("pk")).defer("protocol")


def _why_not(run: Run, ended: int, under_way: int) -> str:
    if run.manifest:
        return "its agents could request further materials"
    if under_way:
        return f"{under_way} of its episodes are running or blocked; wait for them or stop them"
    return "" if ended else "none of its episodes has ended"


def _changed(episodes: Sequence[Episode]) -> list[str]:
    """Return a problem for each experiment of which the episodes played several versions."""
    versions: dict[str, set[str]] = defaultdict(set)
    for episode in episodes:
        # Attempts at two versions of an experiment are not attempts at the same task.
        versions[episode.experiment.name].add(episode.experiment_sha256)
    return [
        f"{name} was changed between these runs; choose runs that played the same version."
        for name, digests in sorted(versions.items())
        if len(digests) > 1
    ]
