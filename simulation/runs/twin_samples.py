"""Draw a sample of steps for twins: stratified by experiment and action, and equal for equal seeds on every database."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from django.db.models import QuerySet

from simulation.lab.errors import LabError
from simulation.models import Episode, Experiment, Transition


class SampleTooLargeError(LabError):
    """More steps were requested than exist."""


class TwinsExistError(LabError):
    """Every requested twin exists already."""


class SampledStep(NamedTuple):
    """A step for the draw: identifiers that are the same on every database, and its primary key on this one."""

    experiment: str
    action: str
    cast: str
    replicate: int
    number: int
    pk: int

    @property
    def stratum(self) -> tuple[str, str]:
        return self.experiment, self.action


def list_accepted_steps(experiments: Iterable[Experiment]) -> QuerySet[Transition]:
    """Return the steps that twins can be created from."""
    ended = Transition.objects.filter(episode__counts=True, episode__status__in=Episode.ENDED)
    return ended.filter(accepted=True, episode__experiment__in=experiments)


def draw_steps(steps: QuerySet[Transition], size: int, seed: int) -> list[int]:
    """Return the primary keys of `size` of these steps, ordered by their identifiers.

    Each pair of experiment and action has its share of the sample, and at least one step if the sample is large enough.
    Raises SampleTooLargeError if there are fewer steps.
    """
    columns = "episode__experiment__slug", "action_name", "episode__cast", "episode__replicate", "number", "pk"
    all_steps = sorted(SampledStep(*row) for row in steps.order_by().values_list(*columns))
    if size > len(all_steps):
        raise SampleTooLargeError(
            f"a sample of {size:,} is larger than the pool, which has {len(all_steps):,} accepted steps"
        )
    strata: dict[tuple[str, str], list[SampledStep]] = defaultdict(list)
    for step in all_steps:
        strata[step.stratum].append(step)
    shares = allocate_sample({name: len(stratum_steps) for name, stratum_steps in strata.items()}, size, seed)
    drawn = [
        step
        for name, stratum_steps in strata.items()
        for step in sorted(stratum_steps, key=lambda step: _compute_rank(step, seed))[: shares[name]]
    ]
    return [step.pk for step in sorted(drawn)]


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
        shares[name] += (end - start + total_remaining - 1) // total_remaining - (
            begin - start + total_remaining - 1
        ) // total_remaining
    return shares


def _hash_parts(*parts: object) -> bytes:
    return sha256(repr(parts).encode()).digest()


def _compute_rank(step: SampledStep, seed: int) -> bytes:
    """Return the sort key of a step within its stratum."""
    # Without the primary key, which differs between databases.
    return _hash_parts(seed, *step[:-1])
