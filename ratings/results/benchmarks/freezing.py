"""A benchmark is a set of episodes as they stood at one moment. What it is made from is checked, then it never changes."""

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
    """The set cannot be frozen; `problems` are all the reasons, for people."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class RunLine(NamedTuple):
    """A run that could be part of a benchmark: how many of its episodes count and have ended, and why it cannot be."""

    run: Run
    experiments: int
    ended: int
    open: int
    why_not: str


def candidates() -> list[RunLine]:
    """Every run of episodes, newest first, in one query."""
    counted = Q(episodes__counts=True)
    rows = Run.objects.filter(kind="episodes").annotate(
        n_experiments=Count("episodes__experiment", filter=counted, distinct=True),
        n_ended=Count("episodes", filter=counted & Q(episodes__status__in=Episode.ENDED)),
        n_open=Count("episodes", filter=counted & Q(episodes__status__in=(*Leased.RUNNABLE, "blocked"))),
    )
    return [
        RunLine(row, row.n_experiments, row.n_ended, row.n_open, _why_not(row, row.n_ended, row.n_open))
        for row in rows.defer("setup").order_by("-created_at", "-pk")
    ]


@transaction.atomic
def freeze(name: str, runs: Sequence[Run], by: User | None = None, note: str = "") -> Benchmark:
    """A benchmark of what counts in these runs now. BenchmarkError lists everything that stands against it."""
    name = name.strip()
    problems = [] if 0 < len(name) <= 120 else [f"The name has {len(name)} characters; it must have 1 to 120."]
    chosen = [line for line in candidates() if line.run.pk in {run.pk for run in runs}]
    problems += [f"{line.run}: {line.why_not}." for line in chosen if line.why_not]
    if not chosen:
        problems.append("Choose at least one run of episodes.")
    episodes = list(episodes_of([line.run for line in chosen]))
    problems += _changed(episodes)
    if len(episodes) > MOST_EPISODES:
        problems.append(f"These runs have {len(episodes):,} episodes; a benchmark holds at most {MOST_EPISODES:,}.")
    if problems:
        raise BenchmarkError(problems)
    made = Benchmark.objects.create(name=name, note=note.strip(), sha256=digest(episodes), created_by=by)
    made.runs.set([line.run for line in chosen])
    made.episodes.set(episodes)
    return made


def episodes_of(runs: Sequence[Run]) -> QuerySet[Episode]:
    """The attempts of these runs: of each replicate the one that counts. Stopped ones are none."""
    rows = Episode.objects.filter(run__in=runs, counts=True, status__in=Episode.ENDED).exclude(status="cancelled")
    return rows.select_related("experiment").defer("initial", "memory", "experiment__data").order_by("pk")


def digest(episodes: Sequence[Episode]) -> str:
    """Of what was frozen: which episodes, of which experiment and cast, and how each ended."""
    told = sorted([str(one.code), one.experiment_sha256, one.cast, one.replicate, one.status] for one in episodes)
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def of_study(study: Study) -> QuerySet[Benchmark]:
    """The benchmarks that hold an episode some item of this study is from."""
    sources = ItemSource.objects.filter(item__study=study)
    used = Q(episodes__transitions__in=sources.values("transition")) | Q(episodes__reviews__in=sources.values("review"))
    return Benchmark.objects.filter(pk__in=Benchmark.objects.filter(used).values("pk"))


def studies_of(benchmark: Benchmark) -> QuerySet[Study]:
    """The studies with items from episodes of this benchmark."""
    held = Q(items__source__transition__episode__in=benchmark.episodes.values("pk"))
    held |= Q(items__source__review__episode__in=benchmark.episodes.values("pk"))
    return Study.objects.filter(pk__in=Study.objects.filter(held).values("pk")).defer("protocol")


def _why_not(run: Run, ended: int, under_way: int) -> str:
    if run.manifest:
        return "its agents could ask for more materials"
    if under_way:
        return f"{under_way} of its episodes are under way or held; wait for them, or stop them"
    return "" if ended else "none of its episodes has ended"


def _changed(episodes: Sequence[Episode]) -> list[str]:
    """Attempts at two versions of an experiment are no attempts at one thing."""
    versions: dict[str, set[str]] = defaultdict(set)
    for one in episodes:
        versions[one.experiment.name].add(one.experiment_sha256)
    return [
        f"{name} was changed between these runs; choose runs that played the same version."
        for name, found in sorted(versions.items())
        if len(found) > 1
    ]
