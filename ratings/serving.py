"""Which item a rater gets next, and how far they are."""

from typing import NamedTuple

from django.db.models import Count
from django.utils import timezone

from ratings.models import Assignment, Rater


class Progress(NamedTuple):
    done: int
    total: int


def next_assignment(rater: Rater) -> Assignment | None:
    """The first item in the rater's order without a rating; None when all are done."""
    return rater.assignments.filter(rating__isnull=True).select_related("item").order_by("position").first()


def progress(rater: Rater) -> Progress:
    counted = rater.assignments.aggregate(done=Count("rating"), total=Count("pk"))
    return Progress(counted["done"], counted["total"])


def mark_opened(assignment: Assignment) -> None:
    """The item is being shown; only the first time counts."""
    now = timezone.now()
    if Assignment.objects.filter(pk=assignment.pk, opened_at__isnull=True).update(opened_at=now):
        assignment.opened_at = now
