"""Create runs and their rows. Nothing here contacts a broker: workers find the rows."""

import secrets
import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Any, NamedTuple, TypedDict, Unpack

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser
from django.db import transaction
from django.db.models import Count, Max, QuerySet
from django.utils import timezone

from simulation.calls import run_usage
from simulation.casts import cast_availability, cost_estimate, prompt_store, run_config
from simulation.lab.deviations import DEFAULT_SIZES, SizeRange
from simulation.lab.errors import LabError
from simulation.lab.hidden_steps.masks import ProtocolMask
from simulation.lab.materials import build_inventory
from simulation.lab.outcomes import Perturbation
from simulation.lab.truths import truth_seeds
from simulation.models import CodeEpisode, Episode, Experiment, Job, Run, Transition, Twin, Worker
from simulation.runs import benches, people, protocol_masks
from simulation.runs.protocol_masks import MaskOrder

MAX_SEED = 2**31 - 1
# The perturbations of one request for twins, by the name that forms and commands use.
PERTURBATIONS = {
    "both": (Perturbation.OBVIOUS, Perturbation.SUBTLE),
    "obvious": (Perturbation.OBVIOUS,),
    "subtle": (Perturbation.SUBTLE,),
    "none": (Perturbation.NONE,),
}
GENERAL_WORKER_KINDS = ("embedded", "celery")  # a dispatcher runs nothing, and a command only its own run


class SampleTooLargeError(LabError):
    """More steps were requested than exist."""


class TwinsExistError(LabError):
    """Every requested twin exists already."""


class RunLimits(TypedDict, total=False):
    """What a run may use before it stops (None: no limit of that kind)."""

    max_cost: Decimal | None
    max_tokens: int | None
    max_seconds: int | None


class RunTerms(TypedDict, total=False):
    """The terms of a run that are its own columns."""

    smallest_deviation: float
    largest_deviation: float
    manifest: bool
    truths: str
    practice: bool
    conditions: dict[str, Any]


class RunOptions(RunLimits, total=False):
    """Options of a run of language models: their prompt set and the run's limits."""

    prompt_set: str


class RunProgress(NamedTuple):
    """The progress of a run: its number of rows, and the number in each status."""

    total: int
    by_status: dict[str, int]
    ended: int

    @property
    def is_finished(self) -> bool:
        return self.ended == self.total


class UnknownExperimentError(LabError):
    """There is no experiment of that name. The message lists the known ones."""


def get_experiments(name: str) -> list[Experiment]:
    """Return the experiment of that slug in a list, or all experiments for "all". Raise UnknownExperimentError if there is none."""
    experiments = Experiment.objects.all() if name == "all" else Experiment.objects.filter(slug=name)
    if not experiments:
        slugs = ", ".join(Experiment.objects.values_list("slug", flat=True))
        known = f"There is no experiment {name!r}. Known experiments: {slugs}"
        raise UnknownExperimentError(
            known if slugs else "There are no experiments yet: run `python manage.py load_lab` first"
        )
    return list(experiments)


def create_submission_id() -> str:
    return uuid.uuid4().hex


def create_episode_run(
    experiments: Iterable[Experiment],
    cast: str,
    replicates: int,
    seed: int | None = None,
    user: AbstractBaseUser | None = None,
    submission_id: str = "",
    manifest: bool = False,
    truths: str = truth_seeds.REFERENCE,
    masks: MaskOrder | None = None,
    **options: Unpack[RunOptions],
) -> Run:
    """Create a run with the next `replicates` of each experiment. The same submission id returns the same run.

    With `manifest`, the agent may use ManifestMaterials, and the episodes are excluded from benchmarks. `truths` is the
    split of seeds that draws the hidden truths: replicate n of every cast has the same truth, whatever the run's seed.

    With `masks`, the agents are shown the reference protocol with hidden steps, each experiment has the next `replicates` of each of its masks, and the
    episodes are excluded from benchmarks and studies. Raises LabError if an experiment has too few essential steps, or if
    the prompt set of a model has no place for a protocol.
    """
    terms: RunTerms = {"manifest": manifest, "truths": truths}
    rows, drawn = list(experiments), {}
    if submission_id and (existing := Run.objects.filter(submission_id=submission_id).first()):
        return existing
    if masks is not None:
        options["prompt_set"] = check_masked_run(rows, cast, masks, options.get("prompt_set") or "")
        # Drawn before the transaction, because protocols are run for it, which takes seconds.
        drawn = protocol_masks.draw_masks(rows, masks)
        if (total := sum(map(len, drawn.values())) * replicates) > protocol_masks.MAX_EPISODES:
            raise LabError(f"These are {total:,} episodes; one run can have at most {protocol_masks.MAX_EPISODES:,}")
        terms["conditions"] = masks.to_json()
    with transaction.atomic():
        run, created = get_or_create_run("episodes", cast, seed, user, submission_id, terms, options)
        if created:
            for experiment in _lock_experiments(experiment.pk for experiment in rows):
                for mask in drawn.get(experiment.pk, [None]):
                    first = _get_last_replicate(experiment, cast, mask.key if mask else "") + 1
                    numbers = range(first, first + replicates)
                    Episode.objects.bulk_create(
                        _build_episode(run, experiment, cast, number, mask) for number in numbers
                    )
    return run


def check_masked_run(experiments: Iterable[Experiment], cast: str, masks: MaskOrder, prompt_set: str) -> str:
    """Return the prompt set of a run with these masks, without running a protocol.

    Raises LabError if the order is wrong, if an experiment is known to have too few essential steps, or if the cast or the prompt set cannot play it.
    """
    masks.check()
    protocol_masks.check_essential_steps(experiments, max(masks.hide))
    setup = cast_availability.freeze_cast(cast)
    protocol_masks.check_agent(cast, setup, masks.drawing)
    return protocol_masks.choose_prompt_set(setup, prompt_set)


@transaction.atomic
def create_human_episode(
    experiment: Experiment,
    answering_cast: str,
    user: AbstractBaseUser | None = None,
    submission_id: str = "",
    practice: bool = False,
    **options: Unpack[RunOptions],
) -> Episode:
    """Create an episode in which a person is the agent, and the transition model and classifiers are those of a cast.

    The same submission id returns the same episode. A person plays by the rules of models: a rejected action costs a step.
    In practice it costs none; such episodes have truths of the training split and are excluded from benchmarks.
    """
    run_config, cast = cast_availability.freeze_with_person(answering_cast), people.get_human_cast(user)
    terms: RunTerms = {"practice": practice, "truths": truth_seeds.TRAIN if practice else truth_seeds.VALIDATION}
    run, created = get_or_create_run("episodes", cast, None, user, submission_id, terms, options, run_config)
    if not created:
        return run.episodes.earliest("pk")
    [locked] = _lock_experiments([experiment.pk])
    episode = _build_episode(run, locked, cast, _get_last_replicate(locked, cast) + 1)
    episode.awaits_person = True
    episode.save()
    return episode


@transaction.atomic
def create_twin_run(
    transitions: QuerySet[Transition],
    perturbations: Sequence[str],
    cast: str = "offline",
    per_transition: int = 1,
    seed: int | None = None,
    user: AbstractBaseUser | None = None,
    submission_id: str = "",
    sample: int | None = None,
    sizes: SizeRange = DEFAULT_SIZES,
    **options: Unpack[RunOptions],
) -> Run:
    """Create a run with `per_transition` more twins of each accepted transition and perturbation.

    The perturbation "none" asks a language model for its own answer. With `sample`, only that many transitions get
    twins, drawn by the run's seed (draw_steps). In this case existing twins of this cast count, and
    TwinsExistError is raised if none is missing. `sizes` are the deviations of subtle numeric errors that rules plant.
    """
    sizes.check()
    terms: RunTerms = {"smallest_deviation": sizes.smallest, "largest_deviation": sizes.largest}
    if Perturbation.NONE in perturbations and cast in run_config.RULE_BASED_CASTS:
        raise LabError(
            f"Twins without an error need a language model as transition model; the cast {cast} is rule-based"
        )
    run, created = get_or_create_run("twins", cast, seed, user, submission_id, terms, options)
    if not created:
        return run
    # Lock before counting: a concurrent run could otherwise create twins with the same numbers.
    accepted = transitions.filter(accepted=True)
    _lock_experiments(accepted.order_by().values_list("episode__experiment", flat=True).distinct())
    existing = Twin.objects.filter(transition__in=accepted, cast=cast).order_by()
    numbered = existing.values_list("transition", "perturbation").annotate(last=Max("number"))
    last_numbers = {(transition, perturbation): last for transition, perturbation, last in numbered}
    steps = accepted.values_list("pk", "episode__seed", "number")
    drawn = None if sample is None else set(draw_steps(accepted, sample, run.seed))
    twins = []
    for pk, episode_seed, number in steps:
        if drawn is not None and pk not in drawn:
            continue
        for perturbation in perturbations:
            last = last_numbers.get((pk, perturbation), 0)
            for twin_number in range(last + 1, per_transition + 1 + (last if drawn is None else 0)):
                twin_seed = derive_seed(run.seed, "twin", episode_seed, number, perturbation, cast, twin_number)
                identity = {"perturbation": perturbation, "cast": cast, "number": twin_number, "seed": twin_seed}
                twins.append(Twin(run=run, transition_id=pk, **identity))
    if drawn is not None and not twins:
        raise TwinsExistError(
            f"All twins of this sample exist already (seed {run.seed}). Choose another seed or a larger sample"
        )
    Twin.objects.bulk_create(twins)
    return run


@transaction.atomic
def create_rating_run(
    setup: Mapping[str, Any],
    user: AbstractBaseUser | None = None,
    submission_id: str = "",
    **options: Unpack[RunOptions],
) -> Run:
    """Create the run, whose rows are jobs, that pays for the ratings of one model rater with this run configuration."""
    return get_or_create_run("ratings", setup["cast"]["name"], 0, user, submission_id, {}, options, setup)[0]


@transaction.atomic
def retry_episode(episode: Episode) -> Episode:
    """Create a new episode that replaces this replicate. Raise ValueError if this episode cannot be retried (again)."""
    row = Episode.objects.select_for_update().get(pk=episode.pk)
    if row.status not in Episode.RETRYABLE or not row.counts:
        raise ValueError(
            f"{row} is {row.get_status_display()}; only a failed or stopped episode can be retried, and only once"
        )
    Episode.objects.filter(pk=row.pk).update(counts=False)
    mask = ProtocolMask.from_json(row.mask)
    retried = _build_episode(row.run, row.experiment, row.cast, row.replicate, mask)
    retried.retry_of = row
    retried.awaits_person = people.is_human_cast(row.cast)
    retried.save()
    return retried


def get_rows(run: Run) -> Any:
    """Return the rows that workers run for this run, as its kind says."""
    rows: dict[str, Any] = {
        "episodes": run.episodes, "twins": run.twins, "ratings": run.jobs, "code": run.code_episodes,
    }  # fmt: skip
    return rows[run.kind]


def get_progress(run: Run) -> RunProgress:
    """Return the number of the run's rows in each status, with one query."""
    numbers: Counter[str] = Counter()
    for status, _, number in count_rows_by_status(run):
        numbers[status] += number
    # Blocked rows count as ended: nothing changes until a person acts.
    end_statuses = (*Episode.ENDED, *Twin.ENDED, *CodeEpisode.ENDED, *Job.ENDED, "blocked")
    ended = sum(number for status, number in numbers.items() if status in end_statuses)
    return RunProgress(numbers.total(), dict(numbers), ended)


def count_rows_by_status(run: Run) -> list[tuple[str, str, int]]:
    """Return (status, reason, number) of the run's rows. Costs one query."""
    if run.kind == "ratings":
        # Each job of a model rater continues the job before it, so only the last one shows the rater's state.
        return [(status, reason, 1) for status, reason in run.jobs.order_by("-pk").values_list("status", "reason")[:1]]
    return list(get_rows(run).order_by().values_list("status", "reason").annotate(n=Count("pk")))


class RowFailure(NamedTuple):
    """The status, reason and error with which rows of a run failed or are blocked."""

    status: str
    reason: str
    error: str


def count_failures(run: Run) -> Counter[RowFailure]:
    """Return how many rows of the run failed or are blocked with each error."""
    failures = get_rows(run).filter(status__in=("failed", "blocked")).values_list("status", "reason", "error")
    return Counter(RowFailure(*row) for row in failures)


def has_live_worker() -> bool:
    """Return whether a worker that runs the rows of all runs has sent a heartbeat recently."""
    since = timezone.now() - timedelta(seconds=settings.WORKER_SILENT_SECONDS)
    return Worker.objects.filter(seen_at__gte=since, kind__in=GENERAL_WORKER_KINDS).exists()


def list_accepted_steps(experiments: Iterable[Experiment]) -> QuerySet[Transition]:
    """Return the steps that twins can be created from."""
    # Studies take no steps of episodes with hidden steps, so that their twins could never be used.
    ended = Transition.objects.filter(episode__counts=True, episode__mask_key="", episode__status__in=Episode.ENDED)
    return ended.filter(accepted=True, episode__experiment__in=experiments)


def draw_steps(steps: QuerySet[Transition], size: int, seed: int) -> list[int]:
    """Return the primary keys of `size` of these steps, ordered by their identifiers.

    Each pair of experiment and action has its share of the sample, and at least one step if the sample is large enough.
    Raises SampleTooLargeError if there are fewer steps.
    """
    columns = "episode__experiment__slug", "action_name", "episode__cast", "episode__replicate", "number", "pk"
    all_steps = sorted(steps.order_by().values_list(*columns))
    if size > len(all_steps):
        raise SampleTooLargeError(
            f"a sample of {size:,} is larger than the pool, which has {len(all_steps):,} accepted steps"
        )
    strata: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for step in all_steps:
        strata[step[0], step[1]].append(step)
    shares = allocate_sample({name: len(stratum_steps) for name, stratum_steps in strata.items()}, size, seed)
    drawn: list[Any] = []
    for name, stratum_steps in strata.items():
        # Ranked and ordered by what is the same on every database; the primary key is not.
        drawn += sorted(stratum_steps, key=lambda step: _hash_parts(seed, *step[:-1]))[: shares[name]]
    return [pk for *_, pk in sorted(drawn)]


def allocate_sample(sizes: Mapping[tuple[str, str], int], size: int, seed: int) -> dict[tuple[str, str], int]:
    """Return how many steps of each stratum to draw: `size` in total, and never more than a stratum has.

    Every stratum gets one step if `size` allows; the rest is divided in proportion to the remaining steps. A fraction
    is rounded up with a probability equal to the fraction, drawn by the seed (systematic sampling over strata in random
    order), so that every step can be drawn.
    """
    minimum = 1 if size >= len(sizes) else 0
    remaining = {name: n - minimum for name, n in sorted(sizes.items())}
    rest, total_remaining = size - minimum * len(sizes), sum(remaining.values())
    if not total_remaining:
        return dict.fromkeys(remaining, minimum)
    shares = {name: minimum + rest * n // total_remaining for name, n in remaining.items()}
    # In units of 1/total_remaining the fractions add up to an integer. From a random start, the stratum at every
    # total_remaining-th unit gets one more step. Integers, so that no rounding differs between machines.
    start, end = int.from_bytes(_hash_parts(seed)) % total_remaining, 0
    for name in sorted(remaining, key=lambda name: _hash_parts(seed, *name)):
        begin, end = end, end + rest * remaining[name] % total_remaining
        before_end, before_begin = end - start + total_remaining - 1, begin - start + total_remaining - 1
        shares[name] += before_end // total_remaining - before_begin // total_remaining
    return shares


def _lock_experiments(keys: Iterable[int]) -> list[Experiment]:
    """Lock these experiments for this transaction and return them."""
    # Two concurrent runs would count the same replicates or twins, so the second one waits here. All transactions
    # lock the rows in the same order, so that two of them cannot wait for each other.
    return list(Experiment.objects.select_for_update().filter(pk__in=list(keys)))


def get_or_create_run(
    kind: str,
    cast: str,
    seed: int | None,
    user: AbstractBaseUser | None,
    submission_id: str,
    terms: RunTerms,
    options: RunOptions,
    setup: Mapping[str, Any] | None = None,
) -> tuple[Run, bool]:
    """Return the run of this submission, and whether it was created. Its run configuration is frozen at this moment."""
    run_seed = secrets.randbelow(MAX_SEED) if seed is None else seed
    if not 0 <= run_seed <= MAX_SEED:
        raise LabError(f"The seed is {run_seed}; it must be from 0 to {MAX_SEED}")
    given = cast_availability.freeze_cast(cast) if setup is None else setup
    setup = freeze_run_config(given, options.get("prompt_set") or "")
    limits = {name: options.get(name) for name in ("max_cost", "max_tokens", "max_seconds")}
    check_prices(setup, options.get("max_cost"))
    return Run.objects.get_or_create(
        submission_id=submission_id or create_submission_id(),
        defaults={
            "kind": kind, "cast": cast, "seed": run_seed, "created_by": user,
            "setup": setup, "setup_sha256": run_config.hash_config(setup), **terms, **limits,
        },
    )  # fmt: skip


def freeze_run_config(setup: Mapping[str, Any], prompt_set: str = "") -> dict[str, Any]:
    """Return a run configuration with the hash of its prompts. Without language models no prompts are used."""
    if not run_config.list_models(setup):
        return dict(setup)
    get_set = prompt_store.get_simulation_set
    if "rater" in setup["cast"]:
        get_set = prompt_store.get_rating_set
    elif run_config.is_code_cast(setup["cast"]):
        get_set = prompt_store.get_code_set
    prompts = get_set(prompt_set) if prompt_set else get_set()
    return {**setup, "prompt_set": {"name": prompts.name, "sha256": prompts.sha256}}


def check_prices(setup: Mapping[str, Any], max_cost: Decimal | None) -> None:
    """Raise LabError if there is a cost limit and a model lacks a price."""
    if max_cost is None:
        return
    # Calls without a known price could not be counted against the limit.
    if unpriced := cost_estimate.find_unpriced(setup, run_usage.get_todays_prices(setup), setup.get("models", {})):
        missing = f"A cost limit needs prices, and there is no price for {', '.join(unpriced)}"
        raise LabError(f"{missing}: add one (docs/models.md), or limit the tokens instead")


def _get_last_replicate(experiment: Experiment, cast: str, mask_key: str = "") -> int:
    rows = experiment.episodes.filter(cast=cast, mask_key=mask_key)
    return rows.aggregate(last=Max("replicate"))["last"] or 0


def _build_episode(
    run: Run, experiment: Experiment, cast: str, replicate: int, mask: ProtocolMask | None = None
) -> Episode:
    seed = derive_seed(run.seed, experiment.slug, cast, replicate, *([mask.key] if mask else []))
    # By replicate, not by the run's seed: so replicate n of every cast has the same truth, with noise of its own.
    spec = benches.get_specification(experiment, truth_seeds.get_truth_seed(run.truths, replicate - 1))
    initial = build_inventory(spec.initial_materials(), seed).to_json()
    identity = {"experiment_sha256": experiment.sha256, "cast": cast, "replicate": replicate, "seed": seed}
    truth = {"truth_seed": spec.truth_seed, "truth": dict(spec.drawn)}
    masked = {"mask": mask.to_json(), "mask_key": mask.key} if mask else {}
    return Episode(run=run, experiment=experiment, initial=initial, **identity, **truth, **masked)


def derive_seed(*parts: object) -> int:
    """Return a seed that these parts alone determine."""
    # Six bytes fit the column, and are exact in JSON readers that store numbers as doubles.
    return int.from_bytes(_hash_parts(*parts)[:6])


def _hash_parts(*parts: object) -> bytes:
    return sha256(repr(parts).encode()).digest()
