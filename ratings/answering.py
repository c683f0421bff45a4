"""Answers: written once, corrected in the open, never lost, never doubled."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from ratings.models import Assignment, Rating, Study
from ratings.studies import StudyClosed, StudyError


class RateResult(NamedTuple):
    """The rating that stands. `created`: by this submission just now; `same`: by this submission, then or now, as sent."""

    rating: Rating
    created: bool
    same: bool


@transaction.atomic
def rate(
    assignment: Assignment, verdict: bool, confidence: int, submission_id: UUID, now: datetime | None = None
) -> RateResult:
    """Write the rating, once. Whatever is submitted later gets the rating that stands."""
    study = Study.objects.select_for_update(of=("self",)).get(raters__assignments=assignment.pk)
    place = Assignment.objects.select_for_update().get(pk=assignment.pk)
    if standing := Rating.objects.filter(assignment=place).first():
        sent = (submission_id, verdict, confidence)
        same = sent == (standing.submission_id, standing.verdict, standing.confidence)
        return RateResult(standing, created=False, same=same)
    if not study.is_open:
        raise StudyClosed(f"{study.name} is closed and takes no more ratings.")
    if confidence not in range(1, 6):
        raise ValueError(f"confidence is {confidence!r}; it must be 1 to 5")
    if Rating.objects.filter(submission_id=submission_id).exists():
        raise StudyError("This form was sent before for another item; reload the page and choose again.")
    submitted = now or timezone.now()
    opened = min(place.opened_at or submitted, submitted)
    made = Rating.objects.create(
        assignment=place,
        verdict=verdict,
        confidence=confidence,
        submission_id=submission_id,
        opened_at=opened,
        submitted_at=submitted,
        seconds=(submitted - opened).total_seconds(),
    )
    return RateResult(made, created=True, same=True)
