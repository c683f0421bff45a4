"""Who sits in a study and how far they are. A line bears a code; only admins are shown the address that they invited."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Count, Max, Q
from django.utils import timezone

from ratings.models import Invitation, PracticeAnswer, Study
from ratings.protocol.protocols import stored
from ratings.studies.progress import tallies
from ratings.studies.progress.tallies import Seat

NOTHING = Seat(0, 0, 0, 0, None, None)  # of a seat that came after the count


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
    practice, counted, invited = _practice(study), tallies.of(study).seats, _last_invitations(study)
    return [
        _person(seat, counted.get(seat.pk, NOTHING), practice.get(seat.pk), invited.get(seat.pk), pool)
        for seat in study.raters.annotate(last_shown=Max("assignments__opened_at")).order_by("number")
    ]


def _person(
    seat: Any, counted: Seat, practice: tuple[int, int] | None, invited: Invitation | None, pool: bool
) -> Person:
    return Person(
        label=seat.label,
        simulated=seat.simulated,
        imported=bool(seat.imported_as),
        state=_state(seat, counted, invited, pool),
        done=counted.live_rated,
        total=None if pool else counted.live,
        practice=practice,
        median_seconds=None if seat.imported_as else counted.median_seconds,
        last_seen=max((t for t in (seat.last_seen_at, seat.last_shown, counted.last_rated) if t), default=None),
        invitation=invited,
        taken=seat.user_id is not None,
        withdrawn=seat.withdrawn_at is not None,
    )


def left_to_rate(study: Study) -> dict[int, int | None]:
    """For each seat how many items are left; None where nobody knows: a pool, or nobody has come yet."""
    pool, counted = stored(study.protocol).design == "pool", tallies.of(study).seats
    found = ((seat, counted.get(seat.pk, NOTHING)) for seat in study.raters.order_by("number"))
    return {seat.pk: None if pool or not seat.user_id else own.live - own.live_rated for seat, own in found}


def _practice(study: Study) -> Mapping[int, tuple[int, int]]:
    answers = PracticeAnswer.objects.filter(rater__study=study).order_by().values("rater")
    counted = answers.annotate(n=Count("pk"), good=Count("pk", filter=Q(right=True)))
    return {row["rater"]: (row["good"], row["n"]) for row in counted}


def _last_invitations(study: Study) -> Mapping[int, Invitation]:
    oldest_first = Invitation.objects.filter(seat__study=study).order_by("created_at", "pk")
    return {invitation.seat_id: invitation for invitation in oldest_first}


def _state(seat: Any, counted: Seat, invitation: Invitation | None, pool: bool) -> str:
    """One word or two for how far somebody is."""
    if seat.withdrawn_at:
        return "withdrawn, ratings dropped" if seat.dropped else "withdrawn"
    if seat.imported_as:
        return "imported"
    if seat.finished_at or (not pool and counted.live and counted.live_rated == counted.live):
        return "finished"
    if counted.live_rated or seat.simulated:
        return "rating" if counted.live_rated else "not begun"
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
