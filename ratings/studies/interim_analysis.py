"""Interim analysis: rates by source before unblinding, for an analyst who neither rates in the study nor managed it.

Each analysis is logged. It shows the latest snapshot of the study; snapshots are taken when 25, 50, 75 and 100% of
the planned ratings are reached. If the numbers changed with each rating, they would, together with the blinded
export, reveal its source.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from django.contrib.auth.models import User
from django.db import transaction

from ratings.models import ItemSource, RatingEvent, Study
from ratings.models.study_events import InterimLook, Opened
from ratings.studies import designs, readable_elsewhere
from ratings.studies.access import get_role
from ratings.studies.lifecycle import log_event

if TYPE_CHECKING:
    from ratings.stats.proportions import Rate

# Ratings that a source must gain or lose before its row changes: a smaller step could be attributed to a rater.
MIN_CHANGED_RATINGS = 10
QUARTERS = 4
_INTERIM_STATUSES = ("open", "paused", "closed")
Source = tuple[str, str]  # label and error type


class InterimNotAllowed(PermissionError):  # noqa: N818  # a state of the user, shown to them
    """This user may not take an interim analysis. The message gives the reason and is shown to people."""


class SourceRate(NamedTuple):
    """The rate of one source in the snapshot; `rate` is None if there are too few ratings to show."""

    source: str
    perturbation: str
    rate: "Rate | None"


class InterimAnalysis(NamedTuple):
    """The rates of the snapshot at `ratings` of `planned` ratings; `ratings` is 0 before there is a snapshot."""

    ratings: int
    planned: int
    lines: list[SourceRate]


class _FirstRating(NamedTuple):
    """A rating as first submitted. `discounted_at`: when it ceased to count; None if it counts."""

    key: int
    submitted_at: datetime
    discounted_at: datetime | None
    source: Source
    verdict: bool | None


RatingsBySource = dict[Source, list[_FirstRating]]


def explain_refusal(study: Study, user: User) -> str:
    """Return why this user may not take an interim analysis; "" if they may."""
    if study.status not in _INTERIM_STATUSES:
        return f"{study.name} is {study.status}: there is no interim analysis to take."
    if study.raters.filter(user=user).exists():
        return "You are a rater in this study. Raters see no results before it is unblinded."
    if study.created_by_id == user.pk or study.members.filter(user=user, role="admin").exists():
        return "You manage this study. Users who can change it see no results before it is unblinded."
    if get_role(user, study) not in ("analyst", "superuser"):
        return "Only an analyst of this study may take an interim analysis."
    if readable_elsewhere.has_managed(study, user):
        return "You have managed this study. Users who could change it see no results before it is unblinded."
    return ""


@transaction.atomic
def take_interim_analysis(study: Study, user: User) -> InterimAnalysis:
    """Return the rates by source in the latest snapshot, and log the analysis. Raises InterimNotAllowed."""
    # With the study locked no role can change between the check and the log.
    study = Study.objects.select_for_update().get(pk=study.pk)
    if reason := explain_refusal(study, user):
        raise InterimNotAllowed(reason)
    analysis = _compute_analysis(study)
    ratings, planned, lines = analysis
    n_shown = sum(line.rate is not None for line in lines)
    log_event(study, InterimLook(ratings=ratings, planned=planned, shown=n_shown, sources=len(lines)), user)
    return analysis


def _compute_analysis(study: Study) -> InterimAnalysis:
    from ratings.stats.proportions import estimate_rate  # imports scipy, which few pages need

    planned, firsts = _count_planned_ratings(study), _load_first_ratings(study)
    sizes = [-(-planned * quarter // QUARTERS) for quarter in range(1, QUARTERS + 1)]
    snapshots = [(0, RatingsBySource()), *zip(sizes, _iter_shown_ratings(_iter_snapshots(firsts, sizes)), strict=False)]
    # A snapshot with a rating that ceased to count since is not shown any more. The one before it is shown instead.
    size, ratings_by_source = next(
        (n, of) for n, of in reversed(snapshots) if not any(first.discounted_at for own in of.values() for first in own)
    )
    sources = ItemSource.objects.filter(item__study=study).values_list("label", "perturbation")
    # Every source has its row from the start: one that appeared with its first rating would reveal its source.
    verdicts = {source: [first.verdict is True for first in own] for source, own in ratings_by_source.items() if own}
    rates = {source: estimate_rate(verdicts_of_source) for source, verdicts_of_source in verdicts.items()}
    lines = [SourceRate(*source, rates.get(source)) for source in sorted(set(sources))]
    return InterimAnalysis(size, planned, lines)


def _count_planned_ratings(study: Study) -> int:
    """Return how many ratings were planned when the study opened."""
    # From the event and not from the rows: items and raters that were added later must not move a snapshot.
    opened = study.events.filter(kind=Opened.kind).first()
    if opened and isinstance(content := opened.typed_content, Opened):
        items, raters = content.items, content.raters
    else:
        items, raters = study.items.count(), study.ratings_per_item
    ratings = items * (raters if designs.is_crossed(study) else study.ratings_per_item)
    protocol = designs.load_study_protocol(study)
    return min(ratings, protocol.stop_ratings or ratings) if protocol.stop == "ratings" else ratings


def _iter_snapshots(firsts: Sequence[_FirstRating], sizes: Sequence[int]) -> Iterator[list[_FirstRating]]:
    """Yield, for each size that was reached, the ratings that counted when it was reached."""
    # Later events change no snapshot: a rating that ceased to count afterwards is still in it.
    discount_times = sorted(first.discounted_at for first in firsts if first.discounted_at)
    reached = 0
    for number, last in enumerate(firsts, 1):
        while reached < len(sizes) and number - bisect_right(discount_times, last.submitted_at) >= sizes[reached] > 0:
            reached += 1
            ended = ((first, first.discounted_at) for first in firsts[:number])
            yield [first for first, end in ended if end is None or end > last.submitted_at]


def _iter_shown_ratings(snapshots: Iterator[list[_FirstRating]]) -> Iterator[RatingsBySource]:
    """Yield the ratings that each snapshot shows. A row needs ten ratings, and ten changed ones to change."""
    shown: RatingsBySource = {}
    for snapshot in snapshots:
        by_source: RatingsBySource = defaultdict(list)
        for first in snapshot:
            if first.verdict is not None:
                by_source[first.source].append(first)
        for source, own in by_source.items():
            changed = {first.key for first in own} ^ {first.key for first in shown.get(source, [])}
            if min(len(own), len(changed)) >= MIN_CHANGED_RATINGS:
                shown = {**shown, source: own}
        yield shown


def _load_first_ratings(study: Study) -> list[_FirstRating]:
    """Return the ratings that count or once counted, as first submitted, in the order of submission."""
    assignment, source = "assignment__", "assignment__item__source__"
    # As first submitted: a correction would show which source it belongs to. Imported ratings are extra.
    counted = RatingEvent.objects.filter(
        assignment__item__study=study, kind="answer", revision=1, assignment__occasion=1, assignment__surplus=False
    )
    # By key: answers are logged under the study's lock, so keys are in the order of time.
    rows = counted.order_by("pk").values_list(
        "pk", "at", f"{assignment}released_at", f"{assignment}rater__dropped", f"{assignment}rater__withdrawn_at", f"{source}label",
        f"{source}perturbation", "verdict",
    )  # fmt: skip
    firsts = []
    for key, at, released, dropped, withdrawn, label, perturbation, verdict in rows:
        discounted_at = min((when for when in (released, withdrawn if dropped else None) if when), default=None)
        if discounted_at is None or discounted_at > at:
            firsts.append(_FirstRating(key, at, discounted_at, (label, perturbation), verdict))
    return firsts
