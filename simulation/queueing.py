"""Orders of work, as rows. Nothing here talks to a broker: whoever plays finds the rows."""

import hashlib
import secrets
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import NamedTuple

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import Count, F, Max, Q, QuerySet
from django.utils import timezone

from simulation import casting, laboratory
from simulation.lab.errors import LabError
from simulation.lab.materials import place_all
from simulation.models import Episode, Experiment, Run, Transition, Twin, Worker

MAX_SEED = 2**31 - 1
PLAY_ANYTHING = ("embedded", "celery")  # kinds of workers; a dispatcher plays nothing, a command only its own run


class RunProgress(NamedTuple):
    """How far an order has come: number of rows, and how many stand in each status."""

    total: int
    by_status: dict[str, int]
    ended: int

    @property
    def finished(self) -> bool:
        return self.ended == self.total


class UnknownExperimentError(LabError):
    """There is no experiment of that name; the message lists those there are."""


def experiments_named(name: str) -> list[Experiment]:
    """The experiment of that slug, or every one for "all"."""
    chosen = Experiment.objects.all() if name == "all" else Experiment.objects.filter(slug=name)
    if not chosen:
        known = ", ".join(Experiment.objects.values_list("slug", flat=True))
        raise UnknownExperimentError(
            f"There is no experiment {name!r}. Known experiments: {known}"
            if known
            else "The laboratory is empty: run `python manage.py load_lab` first"
        )
    return list(chosen)


def new_submission_id() -> str:
    return uuid.uuid4().hex


@transaction.atomic
def queue_episodes(
    experiments: Iterable[Experiment],
    cast: str,
    replicates: int,
    seed: int | None = None,
    by: AbstractBaseUser | None = None,
    submission_id: str = "",
    manifest: bool = False,
) -> Run:
    """Order the next `replicates` of each experiment. The same submission id gives the same run back.

    With `manifest` the agent may use ManifestMaterials, and the episodes are no benchmark.
    """
    casting.known(cast)
    run, created = _run("episodes", cast, seed, by, submission_id, manifest)
    if created:
        for experiment in _locked(experiment.pk for experiment in experiments):
            last = experiment.episodes.filter(cast=cast).aggregate(last=Max("replicate"))["last"] or 0
            Episode.objects.bulk_create(
                _episode(run, experiment, cast, last + number) for number in range(1, replicates + 1)
            )
    return run


@transaction.atomic
def queue_twins(
    transitions: QuerySet[Transition],
    perturbations: Sequence[str],
    cast: str = "offline",
    per_transition: int = 1,
    seed: int | None = None,
    by: AbstractBaseUser | None = None,
    submission_id: str = "",
) -> Run:
    """Order `per_transition` more twins of each accepted transition and perturbation."""
    casting.known(cast)
    run, created = _run("twins", cast, seed, by, submission_id)
    if created:
        accepted = transitions.filter(accepted=True)
        _locked(accepted.order_by().values_list("episode__experiment", flat=True).distinct())
        made = {
            (transition, perturbation): last
            for transition, perturbation, last in Twin.objects.filter(transition__in=accepted, cast=cast)
            .order_by()
            .values_list("transition", "perturbation")
            .annotate(last=Max("number"))
        }
        places = accepted.values_list("pk", "episode__seed", "number")
        Twin.objects.bulk_create(
            Twin(
                run=run,
                transition_id=pk,
                perturbation=perturbation,
                cast=cast,
                number=(twin := made.get((pk, perturbation), 0) + count),
                seed=_seed(run.seed, "twin", episode_seed, number, perturbation, cast, twin),
            )
            for pk, episode_seed, number in places
            for perturbation in perturbations
            for count in range(1, per_transition + 1)
        )
    return run


def stop(episode: Episode) -> bool:
    """Ask for an end; the worker that holds the episode stops at its next step. False if it has ended already."""
    now = timezone.now()
    unfinished = Episode.objects.filter(pk=episode.pk).exclude(status__in=Episode.ENDED)
    unheld = unfinished.filter(Q(lease_until__isnull=True) | Q(lease_until__lt=now))
    ended = {"status": "cancelled", "cancel_requested_at": now, "ended_at": now}
    if unheld.update(fence=F("fence") + 1, **ended):
        return True
    return unfinished.update(cancel_requested_at=now) == 1


def stop_run(run: Run) -> int:
    """Stop all that has not ended; the number of episodes and twins stopped or told to."""
    twins = run.twins.filter(status="queued").update(status="cancelled", ended_at=timezone.now())
    return twins + sum(stop(episode) for episode in run.episodes.exclude(status__in=Episode.ENDED))


@transaction.atomic
def retry(episode: Episode) -> Episode:
    """A new episode in the replicate's place. ValueError if this one may not be retried (again)."""
    row = Episode.objects.select_for_update().get(pk=episode.pk)
    if row.status not in Episode.RETRIED or not row.counts:
        raise ValueError(f"{row} is {row.get_status_display()}; only a failed or stopped episode is retried, and once")
    Episode.objects.filter(pk=row.pk).update(counts=False)
    again = _episode(row.run, row.experiment, row.cast, row.replicate)
    again.retry_of = row
    again.save()
    return again


def retry_twin(twin: Twin) -> bool:
    """Queue a failed or stopped twin again."""
    again = {"status": "queued", "error": "", "ended_at": None, "lease_until": None, "lost_leases": 0}
    return Twin.objects.filter(pk=twin.pk, status__in=("failed", "cancelled")).update(**again) == 1


def progress(run: Run) -> RunProgress:
    """One query: how many of the run's rows stand where."""
    rows = run.episodes if run.kind == "episodes" else run.twins
    counted = dict(rows.order_by().values_list("status").annotate(n=Count("pk")))
    ended = (*Episode.ENDED, "done", "unsuited", "blocked")
    return RunProgress(sum(counted.values()), counted, sum(n for status, n in counted.items() if status in ended))


def failures(run: Run) -> Counter[str]:
    """How often each error ended an episode or twin of the run."""
    rows = run.episodes if run.kind == "episodes" else run.twins
    return Counter(rows.filter(status="failed").values_list("error", flat=True))


def workers_alive() -> bool:
    """Whether any worker that plays whatever is queued said so within the last while."""
    since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    return Worker.objects.filter(seen_at__gte=since, kind__in=PLAY_ANYTHING).exists()


def _locked(keys: Iterable[int]) -> list[Experiment]:
    """These experiments, for one order at a time: two at once would both count the same replicates or twins.

    The second waits here; the rows come in one order for everyone, so that two can never wait for each other.
    """
    return list(Experiment.objects.select_for_update().filter(pk__in=list(keys)))


def _run(
    kind: str,
    cast: str,
    seed: int | None,
    by: AbstractBaseUser | None,
    submission_id: str,
    manifest: bool = False,
) -> tuple[Run, bool]:
    chosen = secrets.randbelow(MAX_SEED) if seed is None else seed
    if not 0 <= chosen <= MAX_SEED:
        raise LabError(f"The seed is {chosen}; it must be from 0 to {MAX_SEED}")
    return Run.objects.get_or_create(
        submission_id=submission_id or new_submission_id(),
        defaults={"kind": kind, "cast": cast, "seed": chosen, "created_by": by, "manifest": manifest},
    )


def _episode(run: Run, experiment: Experiment, cast: str, replicate: int) -> Episode:
    seed = _seed(run.seed, experiment.slug, cast, replicate)
    return Episode(
        run=run,
        experiment=experiment,
        experiment_sha256=experiment.sha256,
        cast=cast,
        replicate=replicate,
        seed=seed,
        initial=place_all(laboratory.specification(experiment).drafts(), seed).to_json(),
    )


def _seed(*place: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(place).encode()).digest()[:6])
