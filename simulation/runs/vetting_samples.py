"""Vet a random sample of twins twice, and accept the others that waited with it.

The first person's decisions count like any other. The second person decides without seeing them; this changes nothing
but the measured agreement. Only then can the rest be accepted, as unread: studies that require a person to check every
error still exclude it.
"""

import math
import random
import secrets
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from simulation.models import SampledTwin, Twin, VettingSample
from simulation.runs import twin_filters, vetting
from simulation.runs.vetting import VettingAnswers, VettingError

_BATCH = 500


class DecisionPair(NamedTuple):
    """Two independent decisions on one sampled twin: "accepted" or "rejected", and the error type it counts as."""

    sampled: SampledTwin
    first: str
    second: str
    first_type: str
    second_type: str


class SampleProgress(NamedTuple):
    """How many twins of a sample have a first and a second decision, and how many this person can decide now."""

    size: int
    first: int
    second: int
    own: int

    @property
    def is_complete(self) -> bool:
        return self.size == self.first == self.second > 0


def list_waiting(filters: Mapping[str, Any]) -> QuerySet[Twin]:
    """Return the twins from models that wait for a person under these filters."""
    return twin_filters.filter_twins(vetting.filter_undecided(Twin.objects.all()), filters)


@transaction.atomic
def draw_sample(filters: Mapping[str, Any], share: int, seed: int | None, user: User) -> VettingSample:
    """Draw this percentage of the waiting twins, rounded up, in random order. Raise VettingError if none wait."""
    chosen = {name: filters[name] for name in twin_filters.FILTERS if filters.get(name) and name != "vetting"}
    keys = list(list_waiting(chosen).order_by("pk").values_list("pk", flat=True))
    if not keys:
        raise VettingError("No twins wait for review under this filter, so there is nothing to sample")
    number = seed if seed is not None else secrets.randbelow(2**31)
    drawn = random.Random(number).sample(keys, math.ceil(len(keys) * share / 100))
    sample = VettingSample.objects.create(filters=chosen, share=share, seed=number, waiting=len(keys), created_by=user)
    SampledTwin.objects.bulk_create(
        (SampledTwin(sample=sample, twin_id=pk, position=position) for position, pk in enumerate(drawn, 1)),
        batch_size=_BATCH,
    )
    return sample


def count_progress(sample: VettingSample, user: User) -> SampleProgress:
    rows = sample.sampled.all()
    second = rows.filter(second_at__isnull=False).count()
    return SampleProgress(
        rows.count(), rows.filter(first__isnull=False).count(), second, list_own(sample, user).count()
    )


def list_own(sample: VettingSample, user: User) -> QuerySet[SampledTwin]:
    """Return the sampled twins that this person can decide: first, or second if somebody else was first."""
    without_second = Q(second_at__isnull=True) & (Q(first__by__isnull=True) | ~Q(first__by=user))
    open_rows = Q(first__isnull=True) | without_second
    return sample.sampled.filter(open_rows).order_by("position")


def find_withheld(twins: Collection[Twin], user: User) -> set[int]:
    """Return the keys of the twins on which this person can still decide as the second: the first decision is not shown."""
    undecided = SampledTwin.objects.filter(twin__in=twins, second_at__isnull=True, sample__accepted_at__isnull=True)
    return set(undecided.filter(first__isnull=False).exclude(first__by=user).values_list("twin_id", flat=True))


@transaction.atomic
def record_second(sampled: SampledTwin, answers: VettingAnswers, user: User) -> None:
    """Store the second person's answers beside the first decision, which they do not change. Raise VettingError."""
    row = SampledTwin.objects.select_for_update(of=("self",)).select_related("first", "twin").get(pk=sampled.pk)
    if row.first is None or row.second_at is not None or row.first.by_id == user.pk:
        raise VettingError("Somebody else has decided on this twin in the meantime; nothing was stored")
    if problems := vetting.find_problems(row.twin, answers):
        raise VettingError("; ".join(problems))
    row.second, row.second_by, row.second_at = answers._asdict(), user, timezone.now()
    row.save(update_fields=["second", "second_by", "second_at"])


def list_pairs(sample: VettingSample) -> list[DecisionPair]:
    """Return both decisions on every twin that has them, in the order of the sample."""
    both = sample.sampled.filter(first__isnull=False, second_at__isnull=False)
    rows = both.select_related("first__by", "second_by", "twin__transition__episode__experiment").order_by("position")
    long = [f"twin__transition__episode__{name}" for name in ("initial", "pending", "memory", "experiment__data")]
    rows = rows.defer("twin__outcome", "twin__diff", "twin__transition__step", "twin__transition__findings", *long)
    pairs = []
    for row in rows:
        assert row.first is not None
        first = "rejected" if row.first.decision == "rejected" else "accepted"
        second_type = str(row.second.get("perturbation") or row.twin.perturbation)
        pairs.append(DecisionPair(row, first, str(row.second["decision"]), row.first.perturbation, second_type))
    return pairs


def list_remaining(sample: VettingSample) -> QuerySet[Twin]:
    """Return the twins of the sample's filter that still wait and were there when it was drawn."""
    # A twin created later was no part of what the sample was drawn from.
    there = Q(ended_at__lte=sample.created_at) | Q(ended_at__isnull=True, created_at__lte=sample.created_at)
    return list_waiting(sample.filters).filter(there).exclude(samples__sample=sample)


@transaction.atomic
def accept_remaining(sample: VettingSample, agreement: Mapping[str, Any], user: User) -> int:
    """Accept the remaining twins of a sample with two decisions on every twin, and return their number."""
    sample = VettingSample.objects.select_for_update().get(pk=sample.pk)
    if sample.accepted_at is not None:
        raise VettingError("The remaining twins of this sample have been accepted already")
    if not count_progress(sample, user).is_complete:
        raise VettingError("Two people must decide on every twin of the sample first")
    note = f"accepted with a vetted sample of {sample.share} % of {sample.waiting}, seed {sample.seed}: {agreement['text']}"
    number = vetting.accept_unread(list_remaining(sample), note, by=user)
    sample.accepted, sample.accepted_by, sample.accepted_at = number, user, timezone.now()
    sample.agreement = dict(agreement)
    sample.save(update_fields=["accepted", "accepted_by", "accepted_at", "agreement"])
    return number
