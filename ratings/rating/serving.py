"""Which item a rater gets next, and how far they are. In planned designs the order stands before the first rating; in
pool studies items are claimed one by one (see `claiming`)."""

from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Q, QuerySet
from django.utils import timezone

from ratings.models import Assignment, Rater
from ratings.rating import claiming
from ratings.studies import crossover, designs
from ratings.studies.designs import arm as arm  # how a seat is shown things, for pages that serve it
from wetbench_site.prepared_queries import PreparedQuery

_WAITING = Q(rating__isnull=True, released_at__isnull=True)


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
    """The item this rater is to rate now; None when there is none (see `waiting` for pool studies)."""
    if designs.is_pool(seat.study) and not _is_over(seat):
        return claiming.claim(seat, now or timezone.now())
    following = _first(seat, "item")
    return None if following and _waits_for_washout(seat, following) else following


def open_next(seat: Rater) -> Assignment | None:
    """The next item of a planned design, opened in the caller's transaction. In a pool nothing is: a claim has a
    transaction of its own, whose failure must not undo an answer."""
    if designs.is_pool(seat.study):
        return None
    if following := _FOLLOWING.first(seat.pk):
        following.rater = seat
        if _waits_for_washout(seat, following):
            return None
    return following if following and mark_opened(following) else None


def _first(seat: Rater, *also: str) -> Assignment | None:
    return open_work(seat).select_related(*also).order_by("position").first()


def open_work(seat: Rater) -> QuerySet[Assignment]:
    """What this rater has and has not answered yet."""
    return seat.assignments.filter(_WAITING)


def previous_assignment(seat: Rater) -> Assignment | None:
    """What this rater answered last."""
    answered = seat.assignments.filter(rating__isnull=False).select_related("rating")
    few = answered.only("code", "rater", "rating__submitted_at", "rating__revised_at")
    return few.order_by("-rating__submitted_at", "-position").first()


def progress(seat: Rater) -> Progress:
    """Answered, and in all. In a pool study what is still open to this rater counts, up to what one rater may have."""
    done, waiting = next(iter(_COUNTED.rows(seat.pk)), (0, 0))
    claimable = claiming.still_open(seat) if designs.is_pool(seat.study) and not _is_over(seat) else 0
    return Progress(done, done + waiting + claimable)


def waiting(seat: Rater) -> datetime | None:
    """When to come back: in a pool, if others hold all that this rater could still have; in a crossover, once the washout
    is over. Else None."""
    if designs.is_crossover(seat.study):
        return washout_ends(seat)
    return claiming.next_expiry(seat) if designs.is_pool(seat.study) and seat.study.is_open else None


def washout_ends(seat: Rater, now: datetime | None = None) -> datetime | None:
    """When session 2 of a crossover opens for this rater, if session 1 is finished and the washout is not over."""
    if not designs.is_crossover(seat.study) or _is_over(seat):
        return None
    following = _first(seat)
    return crossover.opens_at(seat) if following and _waits_for_washout(seat, following, now) else None


def _waits_for_washout(seat: Rater, following: Assignment, now: datetime | None = None) -> bool:
    following.rater = seat
    return crossover.is_too_early(following, now or timezone.now())


def is_shown(assignment: Assignment) -> bool:
    """Whether it was opened, and is still this rater's, as far as the row read tells."""
    return assignment.opened_at is not None and assignment.released_at is None


def mark_opened(assignment: Assignment) -> bool:
    """The item is being shown; only the first time counts. False: it has gone to another rater meanwhile."""
    now = timezone.now()
    if crossover.is_too_early(assignment, now):
        return False
    row = Assignment.objects.filter(pk=assignment.pk)
    if row.filter(opened_at__isnull=True, released_at__isnull=True).update(opened_at=now):
        assignment.opened_at = now
        return True
    return row.filter(Q(released_at__isnull=True) | Q(rating__isnull=False)).exists()


def extend_lease(assignment: Assignment, now: datetime | None = None) -> None:
    """Its rater is at work on it: others wait for a whole lease more."""
    if assignment.lease_until is None:
        return
    until = (now or timezone.now()) + designs.lease(assignment.rater.study)
    Assignment.objects.filter(pk=assignment.pk, released_at__isnull=True).update(lease_until=until)


def _is_over(seat: Rater) -> bool:
    return bool(seat.withdrawn_at or seat.finished_at)
