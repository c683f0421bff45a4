"""Orders of work, as rows. Nothing here talks to a broker: whoever plays finds the rows."""

import hashlib
import secrets
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple, TypedDict, Unpack

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import Count, F, Max, QuerySet
from django.utils import timezone

from simulation.calls import spending
from simulation.casts import casting, estimating, prompting, roster, setups
from simulation.lab.actions import Action
from simulation.lab.errors import LabError
from simulation.lab.materials import place_all
from simulation.lab.outcomes import Perturbation
from simulation.models import Episode, Experiment, Job, Run, Transition, Twin, Worker
from simulation.runs import laboratory, twin_samples

MAX_SEED = 2**31 - 1
PERSON_CAST = "human"
PLAY_ANYTHING = ("embedded", "celery")  # kinds of workers; a dispatcher plays nothing, a command only its own run


class Limits(TypedDict, total=False):
    """What a run may use up before it stops (None: no limit of that kind)."""

    max_cost: Decimal | None
    max_tokens: int | None
    max_seconds: int | None


class Terms(Limits, total=False):
    """What an order of language models may ask besides: their prompts, and the run's budget."""

    prompt_set: str


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
    **terms: Unpack[Terms],
) -> Run:
    """Order the next `replicates` of each experiment. The same submission id gives the same run back.

    With `manifest` the agent may use ManifestMaterials, and the episodes are no benchmark.
    """
    run, created = _run("episodes", cast, seed, by, submission_id, manifest, terms)
    if created:
        for experiment in _locked(experiment.pk for experiment in experiments):
            last = _last_replicate(experiment, cast)
            Episode.objects.bulk_create(
                _episode(run, experiment, cast, last + number) for number in range(1, replicates + 1)
            )
    return run


@transaction.atomic
def queue_person(
    experiment: Experiment,
    answering: str,
    by: AbstractBaseUser | None = None,
    submission_id: str = "",
    **terms: Unpack[Terms],
) -> Episode:
    """One episode in which a person is the agent; the transition model and classifiers of a cast answer.

    The same submission id gives the same episode back.
    """
    with_person = roster.with_person(answering)
    run, created = _run("episodes", PERSON_CAST, None, by, submission_id, False, terms, with_person)
    if not created:
        return run.episodes.earliest("pk")
    [locked] = _locked([experiment.pk])
    episode = _episode(run, locked, PERSON_CAST, _last_replicate(locked, PERSON_CAST) + 1)
    episode.awaits_person = True
    episode.save()
    return episode


@transaction.atomic
def choose_for(episode: Episode, action: Action, number: int) -> str:
    """A person's choice of step `number`: "" once it is queued to be played, else why it cannot be tried.

    What the catalogue refuses costs the person no step, and what is asked twice is played once.
    """
    row = Episode.objects.select_for_update().get(pk=episode.pk)
    if not row.awaits_person or row.ended or row.next_number != number:
        return "This step was taken already, or the episode has ended: load the page again."
    bench = laboratory.bench(row)
    action, outcome = bench.attempt(action)
    if outcome is not None and not outcome.success:
        return outcome.failure_reason
    phase = "agent" if outcome is not None else "transition"
    changes = {"phase": phase, "pending": action.to_json(), "awaits_person": False, "fence": F("fence") + 1}
    Episode.objects.filter(pk=row.pk).update(**changes)
    return ""


@transaction.atomic
def queue_twins(
    transitions: QuerySet[Transition],
    perturbations: Sequence[str],
    cast: str = "offline",
    per_transition: int = 1,
    seed: int | None = None,
    by: AbstractBaseUser | None = None,
    submission_id: str = "",
    sample: int | None = None,
    **terms: Unpack[Terms],
) -> Run:
    """Order `per_transition` more twins of each accepted transition and perturbation.

    The perturbation "none" asks another model for its plain answer; rules have only the one they gave. With `sample`, twins
    of so many of the transitions, drawn by the run's seed (twin_samples.draw_steps): what this cast has made of them already
    counts, and AlreadyMadeError is raised where nothing is left to make.
    """
    if Perturbation.NONE in perturbations and cast in casting.CASTS:
        raise LabError(f"Twins without an error need a language model as transition model; {cast} plays by rules")
    run, created = _run("twins", cast, seed, by, submission_id, False, terms)
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
        chosen = None if sample is None else set(twin_samples.draw_steps(accepted, sample, run.seed))
        ordered = Twin.objects.bulk_create(
            Twin(
                run=run,
                transition_id=pk,
                perturbation=perturbation,
                cast=cast,
                number=twin,
                seed=_seed(run.seed, "twin", episode_seed, number, perturbation, cast, twin),
            )
            for pk, episode_seed, number in places
            if chosen is None or pk in chosen
            for perturbation in perturbations
            for twin in _numbers(made.get((pk, perturbation), 0), per_transition, more=chosen is None)
        )
        if chosen is not None and not ordered:
            raise twin_samples.AlreadyMadeError(
                f"All twins of this sample are made already (seed {run.seed}): choose another seed or a larger sample"
            )
    return run


def _numbers(last: int, wanted: int, more: bool) -> range:
    """Return the numbers of the twins to make where `last` exist: so many more, or those that are missing."""
    return range(last + 1, last + wanted + 1 if more else wanted + 1)


@transaction.atomic
def queue_ratings(
    setup: Mapping[str, Any], by: AbstractBaseUser | None = None, submission_id: str = "", **terms: Unpack[Terms]
) -> Run:
    """What pays for the ratings of one machine rater, with who it is frozen (`roster.rater`); the rows are jobs."""
    return _run("ratings", setup["cast"]["name"], 0, by, submission_id, False, terms, setup)[0]


@transaction.atomic
def retry(episode: Episode) -> Episode:
    """A new episode in the replicate's place. ValueError if this one may not be retried (again)."""
    row = Episode.objects.select_for_update().get(pk=episode.pk)
    if row.status not in Episode.RETRYABLE or not row.counts:
        raise ValueError(f"{row} is {row.get_status_display()}; only a failed or stopped episode is retried, and once")
    Episode.objects.filter(pk=row.pk).update(counts=False)
    again = _episode(row.run, row.experiment, row.cast, row.replicate)
    again.retry_of = row
    again.awaits_person = row.cast == PERSON_CAST
    again.save()
    return again


def progress(run: Run) -> RunProgress:
    """One query: how many of the run's rows stand where."""
    counted: Counter[str] = Counter()
    for status, _, number in standings(run):
        counted[status] += number
    ended = (*Episode.ENDED, *Twin.ENDED, *Job.ENDED, "blocked")
    return RunProgress(counted.total(), dict(counted), sum(n for status, n in counted.items() if status in ended))


def standings(run: Run) -> list[tuple[str, str, int]]:
    """(status, reason, how many) of the run's rows: one query. Of the jobs of a machine rater, the last alone stands."""
    if run.kind == "ratings":
        return [(status, reason, 1) for status, reason in run.jobs.order_by("-pk").values_list("status", "reason")[:1]]
    rows = run.episodes if run.kind == "episodes" else run.twins
    return list(rows.order_by().values_list("status", "reason").annotate(n=Count("pk")))


class Trouble(NamedTuple):
    """A way in which rows of a run failed or are held."""

    status: str
    reason: str
    error: str


def troubles(run: Run) -> Counter[Trouble]:
    """How often each error ended or holds a row of the run."""
    rows: Any = {"episodes": run.episodes, "twins": run.twins, "ratings": run.jobs}[run.kind]
    found = rows.filter(status__in=("failed", "blocked")).values_list("status", "reason", "error")
    return Counter(Trouble(*row) for row in found)


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
    manifest: bool,
    terms: Terms,
    setup: Mapping[str, Any] | None = None,
) -> tuple[Run, bool]:
    """The run of this submission, made if there is none; its players are frozen as they are at this moment."""
    chosen = secrets.randbelow(MAX_SEED) if seed is None else seed
    if not 0 <= chosen <= MAX_SEED:
        raise LabError(f"The seed is {chosen}; it must be from 0 to {MAX_SEED}")
    setup = frozen(roster.resolve(cast) if setup is None else setup, terms.get("prompt_set") or "")
    limits = {name: terms.get(name) for name in ("max_cost", "max_tokens", "max_seconds")}
    refuse_unpriced(setup, terms.get("max_cost"))
    return Run.objects.get_or_create(
        submission_id=submission_id or new_submission_id(),
        defaults={
            "kind": kind, "cast": cast, "seed": chosen, "created_by": by, "manifest": manifest,
            "setup": setup, "setup_sha256": setups.digest(setup), **limits,
        },
    )  # fmt: skip


def frozen(setup: Mapping[str, Any], prompt_set: str = "") -> dict[str, Any]:
    """A setup with the hash of its prompts; without language models nobody reads any."""
    if not setups.players(setup):
        return dict(setup)
    if "rater" in setup["cast"]:
        texts = prompting.for_rating(prompt_set or prompting.BUILT_IN_RATING)
    else:
        texts = prompting.for_play(prompt_set or prompting.BUILT_IN)
    return {**setup, "prompt_set": {"name": texts.name, "sha256": texts.sha256}}


def refuse_unpriced(setup: Mapping[str, Any], max_cost: Decimal | None) -> None:
    """A budget in money means nothing to a model whose price nobody knows."""
    if max_cost is None:
        return
    if unpriced := estimating.unpriced(setup, spending.prices_of(setup), setup.get("models", {})):
        raise LabError(
            f"A budget in money needs prices, and none is known of {', '.join(unpriced)}: "
            "add one (docs/models.md), or give the budget in tokens"
        )


def _last_replicate(experiment: Experiment, cast: str) -> int:
    return experiment.episodes.filter(cast=cast).aggregate(last=Max("replicate"))["last"] or 0


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
