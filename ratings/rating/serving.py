"""Choose a rater's next item and report progress.

In planned designs the order is fixed before the first rating; in pool studies items are claimed one at a time (`pool_claims`).
"""

from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from ratings.models import Assignment, Rater
from ratings.rating import claiming
from ratings.studies import crossover, designs
from ratings.studies.designs import arm as arm  # exported for the pages of raters
from wetbench_site.prepared_queries import PreparedQuery

# Released assignments stay in the table for late answers, but are no longer offered.
_WAITING = Q(rating__isnull=True, released_at__isnull=True)


# These two queries run with every rating. Building a query takes Django about ten times as long as executing it, so
# they are built once.
_FOLLOWING = PreparedQuery(
    lambda seat: (
        Assignment.objects.filter(_WAITING, rater=seat).select_related("item", "draft").order_by("position")[:1]
    ),
    "number",
)
_COUNTED = PreparedQuery(
    lambda seat: (
        Assignment.objects.filter(rater=seat)
        .order_by()
        .values("rater")
        .annotate(done=Count("pk", filter=Q(rating__isnull=False)), waiting=Count("pk", filter=_WAITING))
        .values_list("done", "waiting")
    ),
    "number",
)


class Progress(NamedTuple):
    done: int
    total: int


def next_assignment(seat: Rater, now: datetime | None = None) -> Assignment | None:
    """Return the assignment this rater should rate now, or None (`find_return_time` gives the reason in pool studies)."""
    if designs.is_pool(seat.study) and not _is_over(seat):
        return claiming.claim(seat, now or timezone.now())
    assignment = _first(seat, "item")
    return None if assignment and _waits_for_washout(seat, assignment) else assignment


def open_next(seat: Rater) -> Assignment | None:
    """Open and return the next assignment of a planned design in the caller's transaction, or None.

    Return None for pool studies: claiming runs in its own transaction, so that its failure cannot roll back the answer.
    """
    if designs.is_pool(seat.study):
        return None
    if assignment := _FOLLOWING.first(seat.pk):
        # Set by hand, because joining the rater again would only return the row that the caller already has.
        assignment.rater = seat
        if _waits_for_washout(seat, assignment):
            return None
    # The item may be reassigned between the query and this update; then nothing is opened.
    return assignment if assignment and mark_opened(assignment) else None


def _first(seat: Rater, *also: str) -> Assignment | None:
    return open_work(seat).select_related(*also).order_by("position").first()


def open_work(seat: Rater) -> QuerySet[Assignment]:
    """Return the rater's assignments without an answer."""
    return seat.assignments.filter(_WAITING)


def previous_assignment(seat: Rater) -> Assignment | None:
    """Return the assignment this rater answered last, or None."""
    rated = seat.assignments.filter(rating__isnull=False).select_related("rating")
    # Only the columns that the link to the previous answer needs; payloads are large.
    columns = rated.only("code", "rater", "rating__submitted_at", "rating__revised_at")
    return columns.order_by("-rating__submitted_at", "-position").first()


def progress(seat: Rater) -> Progress:
    """Return how many items are answered, and how many there are.

    In a pool study the total includes the items that this rater could still claim, up to the limit per rater.
    """
    done, unrated = next(iter(_COUNTED.rows(seat.pk)), (0, 0))
    claimable = claiming.still_open(seat) if designs.is_pool(seat.study) and not _is_over(seat) else 0
    return Progress(done, done + unrated + claimable)


def waiting(seat: Rater) -> datetime | None:
    """Return when the rater can come back, or None.

    In a pool study: when the first reservation ends, if others have reserved every item this rater could rate. In a crossover: when the washout
    ends.
    """
    if designs.is_crossover(seat.study):
        return washout_ends(seat)
    return claiming.next_expiry(seat) if designs.is_pool(seat.study) and seat.study.is_open else None


def washout_ends(seat: Rater, now: datetime | None = None) -> datetime | None:
    """Return when session 2 of a crossover opens for this rater, or None if the washout is not the reason to wait."""
    if not designs.is_crossover(seat.study) or _is_over(seat):
        return None
    assignment = _first(seat)
    return crossover.opens_at(seat) if assignment and _waits_for_washout(seat, assignment, now) else None


def _waits_for_washout(seat: Rater, following: Assignment, now: datetime | None = None) -> bool:
    # The caller's rater has its study loaded; the relation of the assignment would load both again.
    following.rater = seat
    return crossover.is_too_early(following, now or timezone.now())


def is_shown(assignment: Assignment) -> bool:
    """Return whether the assignment was opened and is still this rater's, according to the row in memory."""
    return assignment.opened_at is not None and assignment.released_at is None


def mark_opened(assignment: Assignment) -> bool:
    """Store when the item was first shown. Return False if it has been reassigned to another rater."""
    now = timezone.now()
    # An open URL from session 1 must not start an item of session 2 early.
    if crossover.is_too_early(assignment, now):
        return False
    stored = Assignment.objects.filter(pk=assignment.pk)
    # One conditional UPDATE: of two tabs, the first one sets the time.
    if stored.filter(opened_at__isnull=True, released_at__isnull=True).update(opened_at=now):
        assignment.opened_at = now
        return True
    # A second tab finds the time already set, which is fine; only a released item without a rating is refused.
    return stored.filter(Q(released_at__isnull=True) | Q(rating__isnull=False)).exists()


def extend_lease(assignment: Assignment, now: datetime | None = None) -> None:
    """Extend the reservation of an item that its rater is working on by its full length."""
    if assignment.lease_until is None:
        return
    until = (now or timezone.now()) + designs.lease(assignment.rater.study)
    # A conditional UPDATE: a reservation that was released meanwhile must not become active again without its slot.
    Assignment.objects.filter(pk=assignment.pk, released_at__isnull=True).update(lease_until=until)


def _is_over(seat: Rater) -> bool:
    return bool(seat.withdrawn_at or seat.finished_at)
