"""Create runs and their rows. Nothing here contacts a broker: workers find the rows."""

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
PLAY_ANYTHING = ("embedded", "celery")  # a dispatcher runs nothing, and a command only its own run


class Limits(TypedDict, total=False):
    """What a run may use before it stops (None: no limit of that kind)."""

    max_cost: Decimal | None
    max_tokens: int | None
    max_seconds: int | None


class Terms(Limits, total=False):
    """Options of a run of language models: their prompt set and the run's limits."""

    prompt_set: str


class RunProgress(NamedTuple):
    """The progress of a run: its number of rows, and the number in each status."""

    total: int
    by_status: dict[str, int]
    ended: int

    @property
    def finished(self) -> bool:
        return self.ended == self.total


class UnknownExperimentError(LabError):
    """There is no experiment of that name. The message lists the known ones."""


def experiments_named(name: str) -> list[Experiment]:
    """Return the experiment of that slug in a list, or all experiments for "all". Raise UnknownExperimentError if there is none."""
    experiments = Experiment.objects.all() if name == "all" else Experiment.objects.filter(slug=name)
    if not experiments:
        slugs = ", ".join(Experiment.objects.values_list("slug", flat=True))
        raise UnknownExperimentError(
            f"There is no experiment {name!r}. Known experiments: {slugs}"
            if slugs
            else "There are no experiments yet: run `python manage.py load_lab` first"
        )
    return list(experiments)


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
    """Create a run with the next `replicates` of each experiment. The same submission id returns the same run.

    With `manifest`, the agent may use ManifestMaterials, and the episodes are excluded from benchmarks.
    """
    run, created = _run("episodes", cast, seed, by, submission_id, manifest, terms)
    if created:
        for experiment in _locked(experiment.pk for experiment in experiments):
            last_replicate = _last_replicate(experiment, cast)
            Episode.objects.bulk_create(
                _episode(run, experiment, cast, last_replicate + number) for number in range(1, replicates + 1)
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
    """Create an episode in which a person is the agent. Transition model and classifiers are those of the cast `answering`.

    The same submission id returns the same episode.
    """
    run_config = roster.with_person(answering)
    run, created = _run("episodes", PERSON_CAST, None, by, submission_id, False, terms, run_config)
    if not created:
        return run.episodes.earliest("pk")
    [locked] = _locked([experiment.pk])
    episode = _episode(run, locked, PERSON_CAST, _last_replicate(locked, PERSON_CAST) + 1)
    episode.awaits_person = True
    episode.save()
    return episode


@transaction.atomic
def choose_for(episode: Episode, action: Action, number: int) -> str:
    """Store a person's action for step `number` and queue it. Return "", or the reason why it was not accepted."""
    row = Episode.objects.select_for_update().get(pk=episode.pk)
    # The same form sent twice must not run the action twice.
    if not row.awaits_person or row.ended or row.next_number != number:
        return "This step is already done, or the episode has ended. Reload the page."
    bench = laboratory.bench(row)
    action, outcome = bench.attempt(action)
    # For people, an action that the catalogue rejects costs no step: they see the reason and choose again.
    if outcome is not None and not outcome.success:
        return outcome.failure_reason
    phase = "agent" if outcome is not None else "transition"
    # The fence rises because this changes a row outside a lease.
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
    """Create a run with `per_transition` more twins of each accepted transition and perturbation.

    The perturbation "none" asks a language model for its own answer. With `sample`, only twins of that many transitions,
    drawn by the run's seed (twin_samples.draw_steps): existing twins of this cast then count, and AlreadyMadeError is
    raised if none is missing.
    """
    if Perturbation.NONE in perturbations and cast in casting.CASTS:
        raise LabError(
            f"Twins without an error need a language model as transition model; the cast {cast} is rule-based"
        )
    run, created = _run("twins", cast, seed, by, submission_id, False, terms)
    if created:
        # Lock before counting: a concurrent run could otherwise create twins with the same numbers.
        accepted = transitions.filter(accepted=True)
        _locked(accepted.order_by().values_list("episode__experiment", flat=True).distinct())
        last_numbers = {
            (transition, perturbation): last_number
            for transition, perturbation, last_number in Twin.objects.filter(transition__in=accepted, cast=cast)
            .order_by()
            .values_list("transition", "perturbation")
            .annotate(last=Max("number"))
        }
        steps = accepted.values_list("pk", "episode__seed", "number")
        drawn = None if sample is None else set(twin_samples.draw_steps(accepted, sample, run.seed))
        twins = Twin.objects.bulk_create(
            Twin(
                run=run,
                transition_id=pk,
                perturbation=perturbation,
                cast=cast,
                number=twin_number,
                seed=_seed(run.seed, "twin", episode_seed, number, perturbation, cast, twin_number),
            )
            for pk, episode_seed, number in steps
            if drawn is None or pk in drawn
            for perturbation in perturbations
            for twin_number in _numbers(last_numbers.get((pk, perturbation), 0), per_transition, more=drawn is None)
        )
        if drawn is not None and not twins:
            raise twin_samples.AlreadyMadeError(
                f"All twins of this sample exist already (seed {run.seed}). Choose another seed or a larger sample"
            )
    return run


def _numbers(last: int, wanted: int, more: bool) -> range:
    """Return the numbers of the twins to create if `last` exist: `wanted` more, or only the missing ones up to `wanted`."""
    return range(last + 1, last + wanted + 1 if more else wanted + 1)


@transaction.atomic
def queue_ratings(
    setup: Mapping[str, Any], by: AbstractBaseUser | None = None, submission_id: str = "", **terms: Unpack[Terms]
) -> Run:
    """Create the run that pays for the ratings of one model rater, with its frozen run configuration (`roster.rater`). Its rows are jobs."""
    return _run("ratings", setup["cast"]["name"], 0, by, submission_id, False, terms, setup)[0]


@transaction.atomic
def retry(episode: Episode) -> Episode:
    """Create a new episode that replaces this replicate. Raise ValueError if this episode cannot be retried (again)."""
    row = Episode.objects.select_for_update().get(pk=episode.pk)
    if row.status not in Episode.RETRYABLE or not row.counts:
        raise ValueError(
            f"{row} is {row.get_status_display()}; only a failed or stopped episode can be retried, and only once"
        )
    Episode.objects.filter(pk=row.pk).update(counts=False)
    retried = _episode(row.run, row.experiment, row.cast, row.replicate)
    retried.retry_of = row
    retried.awaits_person = row.cast == PERSON_CAST
    retried.save()
    return retried


def progress(run: Run) -> RunProgress:
    """Return how many of the run's rows are in which status. Costs one query."""
    numbers: Counter[str] = Counter()
    for status, _, number in standings(run):
        numbers[status] += number
    # Blocked rows count as ended: nothing changes until a person acts.
    end_statuses = (*Episode.ENDED, *Twin.ENDED, *Job.ENDED, "blocked")
    return RunProgress(
        numbers.total(), dict(numbers), sum(n for status, n in numbers.items() if status in end_statuses)
    )


def standings(run: Run) -> list[tuple[str, str, int]]:
    """Return (status, reason, number) of the run's rows. Costs one query."""
    if run.kind == "ratings":
        # The jobs of a model rater continue each other, so only the last one shows its state.
        return [(status, reason, 1) for status, reason in run.jobs.order_by("-pk").values_list("status", "reason")[:1]]
    rows = run.episodes if run.kind == "episodes" else run.twins
    return list(rows.order_by().values_list("status", "reason").annotate(n=Count("pk")))


class Trouble(NamedTuple):
    """A way in which rows of a run failed or are blocked."""

    status: str
    reason: str
    error: str


def troubles(run: Run) -> Counter[Trouble]:
    """Return how many rows of the run failed or are blocked with each error."""
    rows: Any = {"episodes": run.episodes, "twins": run.twins, "ratings": run.jobs}[run.kind]
    failures = rows.filter(status__in=("failed", "blocked")).values_list("status", "reason", "error")
    return Counter(Trouble(*row) for row in failures)


def workers_alive() -> bool:
    """Return whether a worker that runs all rows has sent a heartbeat recently."""
    since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    return Worker.objects.filter(seen_at__gte=since, kind__in=PLAY_ANYTHING).exists()


def _locked(keys: Iterable[int]) -> list[Experiment]:
    """Lock these experiments for this transaction and return them."""
    # Two concurrent runs would count the same replicates or twins, so the second one waits here. The order of the
    # rows is
    # the same for all, so that two transactions cannot wait for each other.
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
    """Return the run of this submission, and whether it was created. Its run configuration is frozen at this moment."""
    run_seed = secrets.randbelow(MAX_SEED) if seed is None else seed
    if not 0 <= run_seed <= MAX_SEED:
        raise LabError(f"The seed is {run_seed}; it must be from 0 to {MAX_SEED}")
    setup = frozen(roster.resolve(cast) if setup is None else setup, terms.get("prompt_set") or "")
    limits = {name: terms.get(name) for name in ("max_cost", "max_tokens", "max_seconds")}
    refuse_unpriced(setup, terms.get("max_cost"))
    return Run.objects.get_or_create(
        submission_id=submission_id or new_submission_id(),
        defaults={
            "kind": kind, "cast": cast, "seed": run_seed, "created_by": by, "manifest": manifest,
            "setup": setup, "setup_sha256": setups.digest(setup), **limits,
        },
    )  # fmt: skip


def frozen(setup: Mapping[str, Any], prompt_set: str = "") -> dict[str, Any]:
    """Return a run configuration with the hash of its prompts. Without language models no prompts are used."""
    if not setups.players(setup):
        return dict(setup)
    if "rater" in setup["cast"]:
        prompts = prompting.for_rating(prompt_set or prompting.BUILT_IN_RATING)
    else:
        prompts = prompting.for_play(prompt_set or prompting.BUILT_IN)
    return {**setup, "prompt_set": {"name": prompts.name, "sha256": prompts.sha256}}


def refuse_unpriced(setup: Mapping[str, Any], max_cost: Decimal | None) -> None:
    """Raise LabError if there is a cost limit and a model lacks a price."""
    if max_cost is None:
        return
    # Calls without a known price could not be counted against the limit.
    if unpriced := estimating.unpriced(setup, spending.prices_of(setup), setup.get("models", {})):
        raise LabError(
            f"A cost limit needs prices, and there is no price for {', '.join(unpriced)}: "
            "add one (docs/models.md), or limit the tokens instead"
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
    # Six bytes fit the column, and are exact in JSON readers that store numbers as doubles.
    return int.from_bytes(hashlib.sha256(repr(place).encode()).digest()[:6])
