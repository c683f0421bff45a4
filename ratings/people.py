"""Who sits in a study and how far they are. A line bears a code; only admins are shown the address that they invited."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from statistics import median
from typing import Any, NamedTuple

from django.db.models import Count, Max, Q, QuerySet
from django.utils import timezone

from ratings.models import Invitation, PracticeAnswer, Rating, Study
from ratings.protocols import stored

_LIVE = Q(assignments__released_at__isnull=True)


class Person(NamedTuple):
    """One seat. `total` is None where items are claimed one at a time; `practice` is how many of how many were right."""

    label: str
    simulated: bool
    imported: bool
    state: str
    done: int
    total: int | None
    practice: tuple[int, int] | None
    median_seconds: float | None
    last_seen: datetime | None
    invitation: Invitation | None
    taken: bool
    withdrawn: bool

    @property
    def is_person(self) -> bool:
        return not (self.simulated or self.imported)

    @property
    def waits(self) -> bool:
        """Invited, and nobody has come."""
        return not self.taken and self.invitation is not None and not self.invitation.revoked_at


def people(study: Study) -> list[Person]:
    """Every seat in order, in as many queries for two hundred as for two."""
    pool = stored(study.protocol).design == "pool"
    practice, paces, invited = _practice(study), _paces(study), _last_invitations(study)
    return [
        Person(
            label=seat.label,
            simulated=seat.simulated,
            imported=bool(seat.imported_as),
            state=_state(seat, invited.get(seat.pk), pool),
            done=seat.done,
            total=None if pool else seat.total,
            practice=practice.get(seat.pk),
            median_seconds=paces.get(seat.pk),
            last_seen=max((t for t in (seat.last_seen_at, seat.last_shown, seat.last_rated) if t), default=None),
            invitation=invited.get(seat.pk),
            taken=seat.user_id is not None,
            withdrawn=seat.withdrawn_at is not None,
        )
        for seat in _seats(study)
    ]


def left_to_rate(study: Study) -> dict[int, int | None]:
    """For each seat how many items are left; None where nobody knows: a pool, or nobody has come yet."""
    pool = stored(study.protocol).design == "pool"
    return {seat.pk: None if pool or not seat.user_id else seat.total - seat.done for seat in _seats(study)}


def _seats(study: Study) -> QuerySet[Any]:
    return study.raters.annotate(
        total=Count("assignments", filter=_LIVE),
        done=Count("assignments__rating", filter=_LIVE),
        last_shown=Max("assignments__opened_at"),
        last_rated=Max("assignments__rating__submitted_at"),
    ).order_by("number")


def _practice(study: Study) -> Mapping[int, tuple[int, int]]:
    answers = PracticeAnswer.objects.filter(rater__study=study).order_by().values("rater")
    counted = answers.annotate(n=Count("pk"), good=Count("pk", filter=Q(right=True)))
    return {row["rater"]: (row["good"], row["n"]) for row in counted}


def _paces(study: Study) -> Mapping[int, float]:
    """Median seconds an item: active ones as the browser counted them, else by the server's clock."""
    seconds: defaultdict[int, list[float]] = defaultdict(list)
    given = Rating.objects.filter(assignment__rater__study=study, imported=False).order_by()
    for rater, active, whole in given.values_list("assignment__rater", "active_seconds", "seconds"):
        seconds[rater].append(whole if active is None else active)
    return {rater: median(values) for rater, values in seconds.items()}


def _last_invitations(study: Study) -> Mapping[int, Invitation]:
    oldest_first = Invitation.objects.filter(seat__study=study).order_by("created_at", "pk")
    return {invitation.seat_id: invitation for invitation in oldest_first}


def _state(seat: Any, invitation: Invitation | None, pool: bool) -> str:
    """One word or two for how far somebody is."""
    if seat.withdrawn_at:
        return "withdrawn, ratings dropped" if seat.dropped else "withdrawn"
    if seat.imported_as:
        return "imported"
    if seat.finished_at or (not pool and seat.total and seat.done == seat.total):
        return "finished"
    if seat.done or seat.simulated:
        return "rating" if seat.done else "not begun"
    if seat.started_at:
        return "ready"
    if seat.user_id:
        return "agreed"
    return _invited(invitation)


def _invited(invitation: Invitation | None) -> str:
    if invitation is None or invitation.revoked_at:
        return "free"
    if invitation.send_error:
        return "not sent"
    return "link expired" if invitation.expires_at <= timezone.now() else "invited"
