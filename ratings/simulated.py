"""Simulated raters: they know the truth, blur it on purpose, and rate through the code a person's POST uses.

Signal detection with unequal raters. An item's trace of error is x = d + shared part + own part, standard normal
around d; a rater calls it an error if x passes their threshold t + (rater's shift). d and t are set so that over
all raters the wanted shares come out. Confidence is the distance from the threshold, so it is higher when right.
"""

import random
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from ratings import access, answering, inviting, seating, serving, studies
from ratings.answering import RateResult
from ratings.models import EVIDENCE, Assignment, ItemSource, Rater, SignInLink, Study
from ratings.studies import StudyError

SPECIFICITY = 0.93
AGREEMENT = 0.85
RATER_SPREAD = 0.35  # standard deviation of the raters' thresholds
SHARED = 0.6  # correlation of two raters' impressions of the same item
CONFIDENCE_STEPS = (0.3, 0.7, 1.2, 1.9)  # distances from the threshold at which confidence goes up by one

Watch = Callable[[int, int], None]


class Simulation(NamedTuple):
    """The study's simulated raters, ratings given now, seats whose links were revoked, whether seats were planned anew."""

    raters: tuple[str, ...]
    ratings: int
    revoked: tuple[str, ...]
    replanned: bool


@dataclass(frozen=True)
class Skill:
    """How well the simulated raters see: shares of errors called errors, and of genuine items called genuine."""

    obvious: float
    subtle: float
    specificity: float = SPECIFICITY
    agreement: float = AGREEMENT  # in studies of evidence: share of items where they say what the classifier says

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0.001 <= value <= 0.999:
                raise ValueError(f"{name} is {value}; it must be from 0.001 to 0.999")

    def shares(self) -> Mapping[str, float]:
        """For each perturbation the share of items that shall be called errors."""
        return {"none": 1 - self.specificity, "obvious": self.obvious, "subtle": self.subtle}


def simulate_raters(
    study: Study,
    n: int,
    sensitivity_obvious: float,
    sensitivity_subtle: float,
    specificity: float = SPECIFICITY,
    *,
    agreement: float = AGREEMENT,
    seed: int,
    progress: Watch | None = None,
    by: User | None = None,
) -> Simulation:
    """Let the study have `n` simulated raters, who rate all their items. The same seed gives the same answers.

    Those it has already count, and go on where they were stopped: doing it again changes nothing.
    """
    skill = Skill(sensitivity_obvious, sensitivity_subtle, specificity, agreement)
    seats, revoked, replanned = _take_seats(study, n)
    total = Assignment.objects.filter(rater__in=seats, rating__isnull=True).count()
    given = 0
    for rater in seats:
        for result in _rate_all(rater, skill, seed):
            given += result.created
            if progress and result.created:
                progress(given, total)
    labels = tuple(rater.label for rater in seats)
    if given:
        studies.log(study, "simulated", by, f"{', '.join(labels)}, seed {seed}")
    return Simulation(labels, given, revoked, replanned)


@transaction.atomic
def _take_seats(study: Study, n: int) -> tuple[list[Rater], tuple[str, ...], bool]:
    """Seats nobody was invited to, then those whose link was never opened; planned anew if more are wanted than there are."""
    study = Study.objects.select_for_update().get(pk=study.pk)
    if not study.is_open:
        raise StudyError(f"{study.name} is {study.status}; simulated raters rate while a study is open")
    if n < 1:
        raise StudyError(f"{n} simulated raters: it must be at least 1")
    more = max(n - study.raters.filter(simulated=True).count(), 0)
    free, waiting = seating.free_seats(study), _never_opened(study)
    replanned = more > len(free) + len(waiting)
    if replanned:
        _check_replan(study, more, free)
        seating.replan(study, more)
        free = seating.free_seats(study)
    taken = (free + waiting)[:more]
    revoked = tuple(rater.label for rater in taken if rater.invited_at)
    for rater in taken:
        access.revoke_links(rater.user, "rater")
    Rater.objects.filter(pk__in=[rater.pk for rater in taken]).update(simulated=True, invited_at=None)
    return list(study.raters.filter(simulated=True).order_by("pk")), revoked, replanned


def _never_opened(study: Study) -> list[Rater]:
    """Invited seats whose links nobody has opened yet; a link being opened now comes first, or is found revoked."""
    links = SignInLink.objects.select_for_update(of=("self",)).filter(purpose="rater", user__rater__study=study)
    opened = [link.user_id for link in links if link.opened_at]
    invited = study.raters.filter(invited_at__isnull=False, started_at__isnull=True)
    return list(invited.exclude(user__in=opened).select_related("user").order_by("pk"))


def _check_replan(study: Study, more: int, free: list[Rater]) -> None:
    invited = study.raters.filter(invited_at__isnull=False).count()
    if not free:
        raise StudyError(f"{study.name} has no free seat left for {more} more simulated raters")
    if invited:
        raise StudyError(
            f"{study.name} has {len(free)} free seats and {invited} people are invited: "
            f"{more} simulated raters cannot be seated without taking items from them; {len(free)} can"
        )


def _rate_all(rater: Rater, skill: Skill, seed: int) -> Iterator[RateResult]:
    """One rater's ratings, one after the other in their order."""
    inviting.start(rater)
    judge = _evidence_judge if rater.study.kind == EVIDENCE else _transition_judge
    while assignment := serving.next_assignment(rater):
        serving.mark_opened(assignment)
        source = ItemSource.objects.select_related("item").get(item=assignment.item_id)
        verdict, confidence = judge(source, rater.label, skill, seed)
        yield answering.rate(assignment, verdict, confidence, uuid.uuid4())


def _transition_judge(source: ItemSource, label: str, skill: Skill, seed: int) -> tuple[bool, int]:
    """Plausible unless the trace of error passes the rater's threshold."""
    shift = random.Random(f"{seed}/rater/{label}").gauss(0, RATER_SPREAD)
    distance = _trace(source, label, seed) + _centre(skill.shares()[source.perturbation]) - shift
    return distance <= 0, _confidence(distance)


def _evidence_judge(source: ItemSource, label: str, skill: Skill, seed: int) -> tuple[bool, int]:
    """What the first classifier says, unless the rater sees it otherwise."""
    says = source.verdicts[min(source.verdicts)]
    shift = random.Random(f"{seed}/rater/{label}").gauss(0, RATER_SPREAD)
    distance = _trace(source, label, seed) + _centre(1 - skill.agreement) - shift
    return says == (distance <= 0), _confidence(distance)


def _trace(source: ItemSource, label: str, seed: int) -> float:
    """What this rater sees in this item: a standard normal number, part of which all raters share."""
    content = source.item.payload_sha256
    shared = random.Random(f"{seed}/item/{content}").gauss(0, 1)
    own = random.Random(f"{seed}/{label}/{content}").gauss(0, 1)
    return sqrt(SHARED) * shared + sqrt(1 - SHARED) * own


def _centre(share: float) -> float:
    """The mean distance from the threshold at which this share of answers falls beyond it, raters differing as they do."""
    return NormalDist().inv_cdf(share) * sqrt(1 + RATER_SPREAD**2)


def _confidence(distance: float) -> int:
    return 1 + sum(abs(distance) > step for step in CONFIDENCE_STEPS)
