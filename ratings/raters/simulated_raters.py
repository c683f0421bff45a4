"""Simulated raters: programs that read the source of an item, add noise, and rate through the same code as people.

The model is signal detection with raters who differ. An item's evidence of error is x = d + shared part + own part,
normally distributed around d with variance 1. A rater calls the item an error if x exceeds the threshold t + (rater's
shift). d and t are chosen so that the requested shares result on average over all raters. Confidence is the distance
from the threshold, so it is higher when right. If rows can be marked, simulated raters mark one row of each item that
they call an error; in a given share of the planted errors this is the row with the error. An item that is declared
wrong counts as a subtle error, because its error is unknown.
"""

import random
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

from django.db import transaction
from django.utils import timezone

from ratings.blinding.material_rows import list_mark_keys
from ratings.models import EVIDENCE, Assignment, ItemSource, Rater, Study, study_events
from ratings.models.answers import FIRST, WAITING
from ratings.protocol.reference import DECLARED_WRONG
from ratings.raters import invitations
from ratings.rating import SubmissionResult, next_item, submit
from ratings.studies import StudyError, designs, lifecycle, reassign, running_raters

SPECIFICITY = 0.93
AGREEMENT = 0.85
LOCATED = 0.8
RATER_SPREAD = 0.35  # standard deviation of the raters' thresholds
SHARED = 0.6  # correlation of two raters' impressions of the same item
CONFIDENCE_STEPS = (0.3, 0.7, 1.2, 1.9)  # distances from the threshold at which confidence goes up by one

ProgressCallback = Callable[[int, int], None]


class SimulationResult(NamedTuple):
    """The labels of the study's simulated raters, and the number of new ratings.

    `revoked` are raters whose links were revoked; `replanned`: whether open rater places were planned again.
    """

    raters: tuple[str, ...]
    ratings: int
    revoked: tuple[str, ...]
    replanned: bool


@dataclass(frozen=True)
class Skill:
    """How well simulated raters perform: shares of errors called errors, and of unperturbed items called plausible."""

    obvious: float
    subtle: float
    specificity: float = SPECIFICITY
    agreement: float = AGREEMENT  # in studies of evidence: share of items on which they agree with the classifier
    located: float = LOCATED  # where rows can be marked: share of called errors whose planted row they mark

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            # Limits of the inverse normal distribution, which is infinite at 0 and 1.
            if not 0.001 <= value <= 0.999:
                raise ValueError(f"{name} is {value}; it must be from 0.001 to 0.999")

    def error_shares(self) -> Mapping[str, float]:
        """Return for each perturbation the share of items to be called errors."""
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
    progress: ProgressCallback | None = None,
) -> SimulationResult:
    """Give the study `n` simulated raters, who rate all their items. The same seed gives the same answers.

    Existing simulated raters count towards `n` and continue where they stopped, so a second call changes nothing.
    """
    skill = Skill(sensitivity_obvious, sensitivity_subtle, specificity, agreement, located)
    # The rater rows are taken in one transaction; the ratings follow one by one, as people's do, so that an
    # interruption keeps what is done.
    raters, revoked, replanned = _take_rater_places(study, n)
    total, n_new = _count_expected(study, raters), 0
    for result in _rate_in_turn(raters, skill, seed):
        n_new += result.is_new
        if progress and result.is_new:
            progress(n_new, total)
    labels = tuple(rater.label for rater in raters)
    if n_new:
        lifecycle.log_event(study, study_events.Simulated(raters=labels, seed=seed))
    return SimulationResult(labels, n_new, revoked, replanned)


@transaction.atomic
def _take_rater_places(study: Study, n: int) -> tuple[list[Rater], tuple[str, ...], bool]:
    """Return `n` simulated raters, labels of raters whose links were revoked, and whether open places were replanned.

    Missing raters take first places to which nobody was invited, then places whose invitation nobody has accepted. If
    these are too few, the open places are planned again for more raters.
    """
    # The lock that claiming takes: nobody can join or claim while rater rows are taken.
    study = reassign.lock_study(study.pk)
    if not study.is_open:
        raise StudyError(f"{study.name} is {study.status}; simulated raters rate while a study is open")
    if n < 1:
        raise StudyError(f"{n} simulated raters: it must be at least 1")
    # Without imported ones, which another program simulated.
    simulated = study.raters.filter(simulated=True, imported_as="")
    missing = max(n - simulated.count(), 0)
    open_places = running_raters.list_open_places(study)
    # Somebody who accepts an invitation at the same moment either joins first or finds the link revoked.
    invited = study.raters.filter(invited_at__isnull=False, user__isnull=True, withdrawn_at__isnull=True)
    not_accepted = list(invited.order_by("number"))
    is_replanned = missing > len(open_places) + len(not_accepted)
    if is_replanned:
        _check_can_replan(study, missing, open_places)
        running_raters.replan_open_places(study, missing)
        open_places = running_raters.list_open_places(study)
    # Open rater places first, because revoking a link disappoints somebody who was invited.
    chosen = (open_places + not_accepted)[:missing]
    revoked = tuple(rater.label for rater in chosen if rater.invited_at)
    for rater in chosen:
        if rater.invited_at:
            invitations.revoke_invitation(rater)
    Rater.objects.filter(pk__in=[rater.pk for rater in chosen]).update(simulated=True, invited_at=None)
    return list(simulated.order_by("number")), revoked, is_replanned


def _check_can_replan(study: Study, missing: int, open_places: list[Rater]) -> None:
    n_invited = study.raters.filter(invited_at__isnull=False).count()
    if not open_places:
        raise StudyError(f"{study.name} has no open rater place for {missing} more simulated raters")
    if designs.is_crossed(study):
        raise StudyError(
            f"{study.name} is crossed, every rater rates every item, and has {len(open_places)} open rater places: add raters first "
            f"for {missing} simulated raters"
        )
    if n_invited:
        raise StudyError(
            f"{study.name} has {len(open_places)} open rater places and {n_invited} people are invited: "
            f"{missing} simulated raters cannot be added without reassigning items of theirs; {len(open_places)} can"
        )


def _count_expected(study: Study, raters: Sequence[Rater]) -> int:
    """Return how many ratings are expected; in a pool study at most, as people may claim some, or pairs run out."""
    if not designs.is_pool_study(study):
        return Assignment.objects.filter(WAITING, rater__in=raters).count()
    progress = [next_item.count_progress(rater) for rater in raters]
    n_taken = Assignment.objects.filter(rater__study=study, occasion=FIRST, slot__isnull=False).count()
    return min(study.items.count() * study.ratings_per_item - n_taken, sum(seen.total - seen.done for seen in progress))


def _rate_in_turn(raters: Sequence[Rater], skill: Skill, seed: int) -> Iterator[SubmissionResult]:
    """Let the raters rate one item each in turn, without consent, guide or practice, and yield every result."""
    not_started = Rater.objects.filter(pk__in=[rater.pk for rater in raters], started_at__isnull=True)
    not_started.update(started_at=timezone.now())
    active = [rater for rater in raters if not rater.withdrawn_at]  # a withdrawn rater has no more items
    while active:
        # One item each in turn, so that in a pool no simulated rater takes everything.
        for rater in list(active):
            if assignment := next_item.find_next_assignment(rater):
                yield _rate_item(assignment, rater, skill, seed)
            else:
                active.remove(rater)


def _rate_item(assignment: Assignment, rater: Rater, skill: Skill, seed: int) -> SubmissionResult:
    """Rate one item from its source and return the result. Repeats and items of session 2 get new noise."""
    next_item.mark_opened(assignment)
    source = ItemSource.objects.select_related("item").get(item=assignment.item_id)
    # New noise for a repeat, or simulated test-retest agreement would be perfect.
    noise_key = rater.label if assignment.occasion == FIRST else f"{rater.label} again"
    noise_key = noise_key if assignment.session == 1 else f"{noise_key} in session 2"
    verdict, confidence = judge_item(source, rater.study.kind, rater.label, skill, seed, noise_key)
    marks: tuple[str, ...] = ()
    if not verdict and assignment.marks != "off":
        content = source.item.payload_sha256
        marks = choose_marks(source.target, list_mark_keys(source.item.payload), content, skill, seed, noise_key)
    # A random submission id: repeating the simulation finds the items answered and submits nothing.
    return submit.submit_rating(assignment, verdict, confidence, uuid.uuid4(), marks=marks)


def judge_item(
    source: ItemSource, study_kind: str, label: str, skill: Skill, seed: int, noise_key: str
) -> tuple[bool, int]:
    """Return verdict and confidence of one rater. Expected of a record: the first classifier's verdict, else its truth."""
    content = source.item.payload_sha256
    if study_kind == EVIDENCE:
        # The smallest key, so that the choice is the same in each run.
        expected = source.verdicts[min(source.verdicts)] if source.verdicts else bool(source.truth)
        return judge_evidence(expected, content, label, skill, seed, noise_key)
    kind = error_kind(source.perturbation, source.reference)
    return judge_transition(kind, content, label, skill, seed, noise_key)


def error_kind(perturbation: str, reference: str) -> str:
    """Return the perturbation that simulated raters assume; "subtle" if the item is only declared wrong."""
    return "subtle" if reference == DECLARED_WRONG else perturbation


def judge_transition(
    perturbation: str, content: str, label: str, skill: Skill, seed: int, noise_key: str
) -> tuple[bool, int]:
    """Return the verdict, plausible unless the evidence of error exceeds the rater's threshold, and the confidence."""
    # The centre is chosen per kind of error, the threshold per rater: together they give the requested share on
    # average.
    distance = _distance_from_threshold(skill.error_shares()[perturbation], content, label, seed, noise_key)
    return distance <= 0, _confidence_of(distance)


def judge_evidence(
    expected: bool, content: str, label: str, skill: Skill, seed: int, noise_key: str
) -> tuple[bool, int]:
    """Return the expected verdict unless noise reverses it, and the confidence."""
    distance = _distance_from_threshold(1 - skill.agreement, content, label, seed, noise_key)
    return expected == (distance <= 0), _confidence_of(distance)


def choose_marks(
    target: Collection[str], keys: Iterable[str], content: str, skill: Skill, seed: int, noise_key: str
) -> tuple[str, ...]:
    """Return the row marked in an item called an error: in the share `located` one of `target`, else another of `keys`."""
    # A generator per item and rater: the order of rating must not change an answer.
    rng = random.Random(f"{seed}/marks/{noise_key}/{content}")
    is_located = rng.random() < skill.located
    choices = list(target) if target and is_located else [key for key in keys if key not in target]
    return (rng.choice(choices),) if choices else ()


def _distance_from_threshold(share: float, content: str, label: str, seed: int, noise_key: str) -> float:
    """Return how far an item's evidence of error exceeds the rater's threshold; it does in this share of answers."""
    shared_part = random.Random(f"{seed}/item/{content}").gauss(0, 1)
    own_part = random.Random(f"{seed}/{noise_key}/{content}").gauss(0, 1)
    # The two weights give variance 1, and a correlation of SHARED between two raters.
    noise = sqrt(SHARED) * shared_part + sqrt(1 - SHARED) * own_part
    # The thresholds vary, so the variance of the difference is 1 + RATER_SPREAD²; without the factor extreme shares
    # would be missed.
    mean = NormalDist().inv_cdf(share) * sqrt(1 + RATER_SPREAD**2)
    # Above 0, the rater calls fewer items errors than others do.
    rater_shift = random.Random(f"{seed}/rater/{label}").gauss(0, RATER_SPREAD)
    return noise + mean - rater_shift


def _confidence_of(distance: float) -> int:
    return 1 + sum(abs(distance) > step for step in CONFIDENCE_STEPS)
