"""Simulated raters: they know the truth, blur it on purpose, and rate through the code a person's POST uses.

Signal detection with unequal raters. An item's trace of error is x = d + shared part + own part, standard normal
around d; a rater calls it an error if x passes their threshold t + (rater's shift). d and t are set so that over
all raters the wanted shares come out. Confidence is the distance from the threshold, so it is higher when right.
Where rows can be marked, they mark one row of what they call an error: in a stated share of the errors the planted one.
An item that is declared wrong counts as a subtle error: what is wrong with it is not known.
"""

import random
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from ratings.blinding.marking import mark_keys
from ratings.models import EVIDENCE, Assignment, ItemSource, Rater, Study, study_events
from ratings.models.answers import FIRST
from ratings.protocol.reference import DECLARED_WRONG
from ratings.raters import inviting
from ratings.rating import RateResult, answering, serving
from ratings.studies import StudyError, designs, lifecycle
from ratings.studies.seats import seating, slots

SPECIFICITY = 0.93
AGREEMENT = 0.85
LOCATED = 0.8
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
    located: float = LOCATED  # where rows can be marked: share of called errors whose planted row they mark

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
    located: float = LOCATED,
    seed: int,
    progress: Watch | None = None,
    by: User | None = None,
) -> Simulation:
    """Let the study have `n` simulated raters, who rate all their items. The same seed gives the same answers.

    Those it has already count, and go on where they were stopped: doing it again changes nothing.
    """
    skill = Skill(sensitivity_obvious, sensitivity_subtle, specificity, agreement, located)
    seats, revoked, replanned = _take_seats(study, n)
    total, given = _wanted(study, seats), 0
    for result in _rate_all(seats, skill, seed):
        given += result.created
        if progress and result.created:
            progress(given, total)
    labels = tuple(rater.label for rater in seats)
    if given:
        lifecycle.log(study, study_events.Simulated(raters=labels, seed=seed), by)
    return Simulation(labels, given, revoked, replanned)


@transaction.atomic
def _take_seats(study: Study, n: int) -> tuple[list[Rater], tuple[str, ...], bool]:
    """Seats nobody was invited to, then those whose link nobody accepted; planned anew if more are wanted than there are."""
    study = slots.lock(study.pk)
    if not study.is_open:
        raise StudyError(f"{study.name} is {study.status}; simulated raters rate while a study is open")
    if n < 1:
        raise StudyError(f"{n} simulated raters: it must be at least 1")
    ours = study.raters.filter(simulated=True, imported_as="")  # not those of a file: they were simulated elsewhere
    more = max(n - ours.count(), 0)
    free, waiting = seating.free_seats(study), _never_accepted(study)
    replanned = more > len(free) + len(waiting)
    if replanned:
        _check_replan(study, more, free)
        seating.replan(study, more)
        free = seating.free_seats(study)
    taken = (free + waiting)[:more]
    revoked = tuple(seat.label for seat in taken if seat.invited_at)
    for seat in taken:
        if seat.invited_at:
            inviting.revoke(seat)
    Rater.objects.filter(pk__in=[seat.pk for seat in taken]).update(simulated=True, invited_at=None)
    return list(ours.order_by("number")), revoked, replanned


def _never_accepted(study: Study) -> list[Rater]:
    """Invited seats that nobody has taken yet; whoever accepts at this moment comes first, or finds the link revoked."""
    invited = study.raters.filter(invited_at__isnull=False, user__isnull=True, withdrawn_at__isnull=True)
    return list(invited.order_by("number"))


def _check_replan(study: Study, more: int, free: list[Rater]) -> None:
    invited = study.raters.filter(invited_at__isnull=False).count()
    if not free:
        raise StudyError(f"{study.name} has no free seat left for {more} more simulated raters")
    if designs.is_crossed(study):
        raise StudyError(
            f"{study.name} is crossed, every rater rates every item, and has {len(free)} free seats: add seats first "
            f"for {more} simulated raters"
        )
    if invited:
        raise StudyError(
            f"{study.name} has {len(free)} free seats and {invited} people are invited: "
            f"{more} simulated raters cannot be seated without taking items from them; {len(free)} can"
        )


def _wanted(study: Study, seats: Sequence[Rater]) -> int:
    """How many ratings are to come. In a pool study at most so many: people may claim some of them, or pairs run out."""
    if not designs.is_pool(study):
        waiting = Assignment.objects.filter(rater__in=seats, rating__isnull=True, released_at__isnull=True)
        return waiting.count()
    progress = [serving.progress(seat) for seat in seats]
    given = Assignment.objects.filter(rater__study=study, occasion=FIRST, slot__isnull=False).count()
    return min(study.items.count() * study.ratings_per_item - given, sum(seen.total - seen.done for seen in progress))


def _rate_all(seats: Sequence[Rater], skill: Skill, seed: int) -> Iterator[RateResult]:
    """All their ratings, in turn: each the next of their order. No consent, guide or practice: nobody sits there."""
    Rater.objects.filter(pk__in=[seat.pk for seat in seats], started_at__isnull=True).update(started_at=timezone.now())
    at_work = [seat for seat in seats if not seat.withdrawn_at]
    while at_work:
        for seat in list(at_work):
            if assignment := serving.next_assignment(seat):
                yield _rate(assignment, seat, skill, seed)
            else:
                at_work.remove(seat)


def _rate(assignment: Assignment, seat: Rater, skill: Skill, seed: int) -> RateResult:
    """Judged from the source; a second time with a new look of the rater's own."""
    serving.mark_opened(assignment)
    source = ItemSource.objects.select_related("item").get(item=assignment.item_id)
    judge = _evidence_judge if seat.study.kind == EVIDENCE else _transition_judge
    look = seat.label if assignment.occasion == FIRST else f"{seat.label} again"
    look = look if assignment.session == 1 else f"{look} in session 2"
    verdict, confidence = judge(source, seat.label, skill, seed, look)
    marks: tuple[str, ...] = ()
    if not verdict and assignment.marks != "off":
        content = source.item.payload_sha256
        marks = mark_rows(source.target, mark_keys(source.item.payload), content, skill, seed, look)
    return answering.rate(assignment, verdict, confidence, uuid.uuid4(), marks=marks)


def _transition_judge(source: ItemSource, label: str, skill: Skill, seed: int, look: str = "") -> tuple[bool, int]:
    kind = find_error(source.perturbation, source.reference)
    return judge_transition(kind, source.item.payload_sha256, label, skill, seed, look or label)


def find_error(perturbation: str, reference: str) -> str:
    """Return the perturbation that they take an item to have: that of a subtle error where it is only declared wrong."""
    return "subtle" if reference == DECLARED_WRONG else perturbation


def judge_transition(
    perturbation: str, content: str, label: str, skill: Skill, seed: int, look: str
) -> tuple[bool, int]:
    """Plausible unless the trace of error passes the rater's threshold."""
    centre = _centre(skill.shares()[perturbation])
    distance = _trace(content, look, seed) + centre - _shift(label, seed)
    return distance <= 0, _confidence(distance)


def _evidence_judge(source: ItemSource, label: str, skill: Skill, seed: int, look: str = "") -> tuple[bool, int]:
    """What the first classifier says, or else what the record was made to be, unless the rater sees it otherwise."""
    says = source.verdicts[min(source.verdicts)] if source.verdicts else bool(source.truth)
    return judge_evidence(says, source.item.payload_sha256, label, skill, seed, look or label)


def judge_evidence(says: bool, content: str, label: str, skill: Skill, seed: int, look: str) -> tuple[bool, int]:
    """What was said of the record, unless the rater sees it otherwise."""
    distance = _trace(content, look, seed) + _centre(1 - skill.agreement) - _shift(label, seed)
    return says == (distance <= 0), _confidence(distance)


def mark_rows(
    target: Collection[str], keys: Iterable[str], content: str, skill: Skill, seed: int, look: str
) -> tuple[str, ...]:
    """Return the one row that is marked in an item called an error: of `target`, the keys of its planted place, in the share
    `located` of looks, else another of its `keys`."""
    chance = random.Random(f"{seed}/marks/{look}/{content}")
    hits = chance.random() < skill.located
    among = list(target) if target and hits else [key for key in keys if key not in target]
    return (chance.choice(among),) if among else ()


def _shift(label: str, seed: int) -> float:
    """How much stricter or milder than others this rater is."""
    return random.Random(f"{seed}/rater/{label}").gauss(0, RATER_SPREAD)


def _trace(content: str, look: str, seed: int) -> float:
    """What a rater sees in an item of this content at this look: a standard normal number, partly shared by all raters."""
    shared = random.Random(f"{seed}/item/{content}").gauss(0, 1)
    own = random.Random(f"{seed}/{look}/{content}").gauss(0, 1)
    return sqrt(SHARED) * shared + sqrt(1 - SHARED) * own


def _centre(share: float) -> float:
    """The mean distance from the threshold at which this share of answers falls beyond it, raters differing as they do."""
    return NormalDist().inv_cdf(share) * sqrt(1 + RATER_SPREAD**2)


def _confidence(distance: float) -> int:
    return 1 + sum(abs(distance) > step for step in CONFIDENCE_STEPS)
