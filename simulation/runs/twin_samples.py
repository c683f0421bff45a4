"""A sample of steps to make twins of: stratified by experiment and action, the same for the same seed on every database."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

from django.db.models import QuerySet

from simulation.lab.errors import LabError
from simulation.models import Episode, Experiment, Transition


class SampleTooLargeError(LabError):
    """More steps are asked for than there are."""


class AlreadyMadeError(LabError):
    """Every twin that was asked for exists."""


class Step(NamedTuple):
    """A step as the draw sees it: what it is called on every database, and its key on this one."""

    experiment: str
    action: str
    cast: str
    replicate: int
    number: int
    pk: int

    @property
    def stratum(self) -> tuple[str, str]:
        return self.experiment, self.action


def accepted_steps(experiments: Iterable[Experiment]) -> QuerySet[Transition]:
    """The steps twins are made of."""
    ended = Transition.objects.filter(episode__counts=True, episode__status__in=Episode.ENDED)
    return ended.filter(accepted=True, episode__experiment__in=experiments)


def draw_steps(steps: QuerySet[Transition], size: int, seed: int) -> list[int]:
    """Return the keys of `size` of these steps, in the order of their names.

    Each experiment and action has its share of the sample, and at least one step where the sample is large enough. SampleTooLargeError
    if there are fewer steps.
    """
    columns = "episode__experiment__slug", "action_name", "episode__cast", "episode__replicate", "number", "pk"
    every = sorted(Step(*row) for row in steps.order_by().values_list(*columns))
    if size > len(every):
        raise SampleTooLargeError(
            f"a sample of {size:,} is larger than the pool, which has {len(every):,} accepted steps"
        )
    strata: dict[tuple[str, str], list[Step]] = defaultdict(list)
    for step in every:
        strata[step.stratum].append(step)
    shares = allocate({name: len(own) for name, own in strata.items()}, size, seed)
    drawn = [
        step for name, own in strata.items() for step in sorted(own, key=lambda step: _rank(step, seed))[: shares[name]]
    ]
    return [step.pk for step in sorted(drawn)]


def allocate(sizes: Mapping[tuple[str, str], int], size: int, seed: int) -> dict[tuple[str, str], int]:
    """Return how many of each stratum to draw, `size` in all and of none more than it has.

    One of each where `size` allows, the rest in proportion to what remains. Parts of one are drawn by the seed with their
    size as their chance (systematic sampling over strata in random order), so that every step can be drawn.
    """
    least = 1 if size >= len(sizes) else 0
    remaining = {name: n - least for name, n in sorted(sizes.items())}
    rest, whole = size - least * len(sizes), sum(remaining.values())
    if not whole:
        return dict.fromkeys(remaining, least)
    shares = {name: least + rest * n // whole for name, n in remaining.items()}
    # In units of 1/whole the parts add up to a whole number: every `whole` units from a random start one stratum is met.
    start, end = int.from_bytes(_digest(seed)) % whole, 0
    for name in sorted(remaining, key=lambda name: _digest(seed, *name)):
        begin, end = end, end + rest * remaining[name] % whole
        shares[name] += (end - start + whole - 1) // whole - (begin - start + whole - 1) // whole
    return shares


def _digest(*parts: object) -> bytes:
    return sha256(repr(parts).encode()).digest()


def _rank(step: Step, seed: int) -> bytes:
    """Return what orders the steps of a stratum: only the seed and the name of the step decide it."""
    return _digest(seed, *step[:-1])
