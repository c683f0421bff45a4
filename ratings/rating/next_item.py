"""Choose a rater's next item and report progress.

In planned designs the order is fixed before the first rating; in pool studies items are claimed one at a time
(`pool_claims`).
"""

from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from ratings.models import Assignment, Rater
from ratings.rating import pool_claims
from ratings.studies import designs
from ratings.studies.designs import get_arm as get_arm  # exported for the pages of raters
from wetbench_site.prepared_queries import PreparedQuery

# Released assignments stay in the table for late answers, but are no longer offered.
_UNRATED = Q(rating__isnull=True, released_at__isnull=True)


# These two queries run with every rating. They are built once, because building takes Django about ten times as long as
# executing them.
_NEXT_ASSIGNMENT = PreparedQuery(
    lambda rater: (
        Assignment.objects.filter(_UNRATED, rater=rater)
        .select_related("item", "unsaved_answer")
        .order_by("position")[:1]
    ),
    "number",
)
_COUNT_PROGRESS = PreparedQuery(
    lambda rater: (
        Assignment.objects.filter(rater=rater)
        .order_by()
        .values("rater")
        .annotate(done=Count("pk", filter=Q(rating__isnull=False)), waiting=Count("pk", filter=_UNRATED))
        .values_list("done", "waiting")
    ),
    "number",
)


class Progress(NamedTuple):
    done: int
    total: int


def find_next_assignment(rater: Rater, now: datetime | None = None) -> Assignment | None:
    """Return the assignment this rater should rate now, or None; see `find_return_time`."""
    if designs.is_pool_study(rater.study) and not _has_ended(rater):
        return pool_claims.claim_item(rater, now or timezone.now())
    assignment = _first_unrated(rater, "item")
    return None if assignment and _is_in_washout(rater, assignment) else assignment


def open_next_assignment(rater: Rater) -> Assignment | None:
    """Open and return the next assignment of a planned design in the caller's transaction, or None.

    Return None for pool studies: claiming runs in its own transaction, so that its failure cannot roll back the answer.
    """
    if designs.is_pool_study(rater.study):
        return None
    if assignment := _NEXT_ASSIGNMENT.find_first(rater.pk):
        # Set by hand, because joining the rater again would only return the row that the caller already has.
        assignment.rater = rater
        if _is_in_washout(rater, assignment):
            return None
    # The item may be reassigned between the query and this update; then nothing is opened.
    return assignment if assignment and mark_opened(assignment) else None


def _first_unrated(rater: Rater, *related: str) -> Assignment | None:
    return unrated_assignments(rater).select_related(*related).order_by("position").first()


def unrated_assignments(rater: Rater) -> QuerySet[Assignment]:
    """Return the rater's assignments without an answer."""
    return rater.assignments.filter(_UNRATED)


def find_previous_assignment(rater: Rater) -> Assignment | None:
    """Return the assignment this rater answered last, or None."""
    rated = rater.assignments.filter(rating__isnull=False).select_related("rating")
    # Only the columns that the link to the previous answer needs; payloads are large.
    columns = rated.only("code", "rater", "rating__submitted_at", "rating__revised_at")
    return columns.order_by("-rating__submitted_at", "-position").first()


def count_progress(rater: Rater) -> Progress:
    """Return how many items are answered, and how many there are.

    In a pool study the total includes the items that this rater could still claim, up to the limit per rater.
    """
    done, unrated = next(iter(_COUNT_PROGRESS.fetch_rows(rater.pk)), (0, 0))
    can_claim = designs.is_pool_study(rater.study) and not _has_ended(rater)
    return Progress(done, done + unrated + (pool_claims.count_claimable_items(rater) if can_claim else 0))


def find_return_time(rater: Rater) -> datetime | None:
    """Return the time until which the rater has to wait, or None: the end of the washout in a crossover.

    In a pool study, if others have reserved every item this rater could rate, it is the end of the first reservation.
    """
    if designs.is_crossover(rater.study):
        return find_washout_end(rater)
    return pool_claims.find_next_expiry(rater) if designs.is_pool_study(rater.study) and rater.study.is_open else None


def find_washout_end(rater: Rater) -> datetime | None:
    """Return when session 2 of a crossover opens for this rater, or None if the washout is not the reason to wait."""
    if not designs.is_crossover(rater.study) or _has_ended(rater):
        return None
    assignment = _first_unrated(rater)
    return designs.compute_session_2_start(rater) if assignment and _is_in_washout(rater, assignment) else None


def _is_in_washout(rater: Rater, assignment: Assignment) -> bool:
    # The caller's rater has its study loaded; the relation of the assignment would load both again.
    assignment.rater = rater
    return designs.is_too_early(assignment, timezone.now())


def is_shown(assignment: Assignment) -> bool:
    """Return whether the assignment was opened and is still this rater's, according to the row in memory."""
    return assignment.opened_at is not None and assignment.released_at is None


def mark_opened(assignment: Assignment) -> bool:
    """Store when the item was first shown. Return False if it was reassigned or the washout has not ended."""
    now = timezone.now()
    # An open URL from session 1 must not start an item of session 2 early.
    if designs.is_too_early(assignment, now):
        return False
    stored = Assignment.objects.filter(pk=assignment.pk)
    # One conditional UPDATE: of two tabs, the first one sets the time.
    if stored.filter(opened_at__isnull=True, released_at__isnull=True).update(opened_at=now):
        assignment.opened_at = now
        return True
    # A second tab finds the time already set, which is fine; only a released item without a rating is refused.
    return stored.filter(Q(released_at__isnull=True) | Q(rating__isnull=False)).exists()


def extend_reservation(assignment: Assignment, now: datetime | None = None) -> None:
    """Extend the reservation of an item that its rater is working on, to its full length from now."""
    if assignment.reserved_until is None:
        return
    until = (now or timezone.now()) + designs.get_reservation_time(assignment.rater.study)
    # A conditional UPDATE: a reservation that was released meanwhile must not become active again without its slot.
    Assignment.objects.filter(pk=assignment.pk, released_at__isnull=True).update(reserved_until=until)


def _has_ended(rater: Rater) -> bool:
    return bool(rater.withdrawn_at or rater.finished_at)
