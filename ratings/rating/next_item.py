"""Choose a rater's next item and report progress.

In planned designs the order is fixed before the first rating; in pool studies items are claimed one at a time
(`pool_claims`).
"""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet
from django.utils import timezone

from ratings.models import Assignment, Rater, RaterProfile
from ratings.models.answers import WAITING
from ratings.rating import pool_claims
from ratings.studies import designs, rendered_items
from ratings.studies.designs import get_arm as get_arm  # exported for the pages of raters
from wetbench_site.prepared_queries import PreparedQuery

# These queries run with nearly every rating. They are built once, because building takes Django about ten times as long as
# executing them. The stored HTML replaces the payload.
_ASSIGNMENT_TO_SHOW = PreparedQuery(
    lambda code: (
        Assignment.objects.filter(code=code)
        .select_related("unsaved_answer")
        .annotate(html=rendered_items.select_html())
        .order_by()
    ),
    "uuid",
)
_NEXT_ASSIGNMENT = PreparedQuery(
    lambda rater: (
        Assignment.objects.filter(WAITING, rater=rater)
        .select_related("item")
        .defer("item__payload", "item__context")
        .order_by("position")[:1]
    ),
    "number",
)
_PREVIOUS_ANSWER = PreparedQuery(
    lambda rater: (
        Assignment.objects.filter(rater=rater, answered_at__isnull=False)
        .order_by("-answered_at", "-position")
        .values_list("code", "rating__submitted_at", "rating__revised_at")[:1]
    ),
    "number",
)
_SINGLE_KEYS = PreparedQuery(
    lambda user: RaterProfile.objects.filter(user=user).values_list("single_keys").order_by(), "number"
)


class PreviousAnswer(NamedTuple):
    """The assignment that the rater answered last, and when that answer was saved."""

    code: UUID
    saved_at: datetime


class Progress(NamedTuple):
    """How many items are answered, and how many there are."""

    done: int
    total: int

    @property
    def number(self) -> int:
        """The number of the item that is shown: the first that is not answered, or the last."""
        return min(self.done + 1, self.total)

    @property
    def is_complete(self) -> bool:
        return self.done >= self.total


def find_next_assignment(rater: Rater, now: datetime | None = None) -> Assignment | None:
    """Return the assignment this rater should rate now, or None; see `find_return_time`."""
    if designs.is_pool_study(rater.study) and not _has_ended(rater):
        return pool_claims.claim_item(rater, now or timezone.now())
    if assignment := _NEXT_ASSIGNMENT.find_first(rater.pk):
        # Set by hand, because joining the rater again would only return the row that the caller already has.
        assignment.rater = rater
    return None if assignment and _is_in_washout(rater, assignment) else assignment


def load_assignment_to_show(code: UUID, rater: Rater) -> Assignment:
    """Return this assignment of the rater with its unsaved answer and, as `html`, the stored HTML of its item."""
    assignment = _ASSIGNMENT_TO_SHOW.find_first(code)
    assert assignment is not None, "an item that was opened is never deleted"
    assignment.rater = rater
    return assignment


def unrated_assignments(rater: Rater) -> QuerySet[Assignment]:
    """Return the rater's assignments without an answer."""
    return rater.assignments.filter(WAITING)


def find_previous_answer(rater: Rater) -> PreviousAnswer | None:
    """Return the answer that this rater gave last, or None."""
    for code, submitted_at, revised_at in _PREVIOUS_ANSWER.fetch_rows(rater.pk):
        return PreviousAnswer(code, revised_at or submitted_at)
    return None


def uses_single_keys(user: int) -> bool:
    """Return whether this user rates with single keys, which is the default."""
    return all(is_on for (is_on,) in _SINGLE_KEYS.fetch_rows(user))


def count_progress(rater: Rater) -> Progress:
    """Return how many items are answered, and how many there are.

    In a pool study the total includes the items that this rater could still claim, up to the limit per rater.
    """
    # Read again, because the caller's rater may have been loaded before the last answer.
    counts = Rater.objects.filter(pk=rater.pk).order_by().values_list("answered_items", "waiting_items")
    return build_progress(rater, *counts.get())


def build_progress(rater: Rater, answered: int, waiting: int) -> Progress:
    """Return the progress of a rater with this many answered and waiting items."""
    can_claim = designs.is_pool_study(rater.study) and not _has_ended(rater)
    return Progress(answered, answered + waiting + (pool_claims.count_claimable_items(rater) if can_claim else 0))


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
    assignment = unrated_assignments(rater).order_by("position").first()
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
    # One conditional UPDATE: of two tabs, the first one sets the time. It runs with every item that is opened without
    # scripts, and building it would take Django longer than the database takes.
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE ratings_assignment SET opened_at = %s WHERE id = %s AND opened_at IS NULL AND released_at IS NULL",
            [connection.ops.adapt_datetimefield_value(now), assignment.pk],
        )
        if cursor.rowcount:
            assignment.opened_at = now
            return True
    # A second tab finds the time already set, which is fine; only a released item without a rating is refused.
    stored = Assignment.objects.filter(pk=assignment.pk)
    return stored.filter(Q(released_at__isnull=True) | Q(answered_at__isnull=False)).exists()


def extend_reservation(assignment: Assignment, now: datetime | None = None) -> None:
    """Extend the reservation of an item that its rater is working on, to its full length from now."""
    if assignment.reserved_until is None:
        return
    until = (now or timezone.now()) + designs.get_reservation_time(assignment.rater.study)
    # A conditional UPDATE: a reservation that was released meanwhile must not become active again without its slot.
    Assignment.objects.filter(pk=assignment.pk, released_at__isnull=True).update(reserved_until=until)


def _has_ended(rater: Rater) -> bool:
    return bool(rater.withdrawn_at or rater.finished_at)
