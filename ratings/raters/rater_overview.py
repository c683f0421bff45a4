"""The raters of a study and their progress, under pseudonymous labels; only admins see whom they invited."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import Count, Exists, Max, OuterRef, Q
from django.utils import timezone

from ratings.models import Assignment, Invitation, PracticeAnswer, Rater, Study
from ratings.models.answers import WAITING
from ratings.protocol.study_protocol import StudyProtocol, load_protocol
from ratings.raters import active_time
from ratings.studies import progress
from ratings.studies.progress import RaterTimes

IDLE_AFTER = timedelta(days=3)  # without any activity, a rater with items left is listed as idle
# The groups by which the list of raters is filtered. A rater is in one of the first six, and perhaps in "idle" and "fast".
GROUPS: Mapping[str, str] = {
    "free": "open place",
    "invited": "invited",
    "joined": "joined, not begun",
    "rating": "rating",
    "finished": "finished",
    "withdrawn": "withdrawn",
    "idle": f"idle for {IDLE_AFTER.days} days",
    "fast": "too fast",
}
_GROUP_OF_STATE = {
    "free": "free", "invited": "invited", "link created": "invited", "link opened": "invited", "not sent": "invited",
    "link expired": "invited", "agreed": "joined", "ready": "joined", "not begun": "joined", "rating": "rating",
    "imported": "finished", "finished": "finished",
}  # fmt: skip


class RaterRow(NamedTuple):
    """One rater. `total` is None if items are claimed one at a time; `practice` is (right, answered)."""

    label: str
    number: int
    simulated: bool
    imported: bool
    state: str
    done: int
    total: int | None
    practice: tuple[int, int] | None
    median_seconds: float | None
    active_seconds: float | None
    last_seen: datetime | None
    invitation: Invitation | None
    taken: bool
    withdrawn: bool
    is_idle: bool
    too_fast: str  # why the rater is flagged; "" if not

    @property
    def is_person(self) -> bool:
        return not (self.simulated or self.imported)

    @property
    def is_awaited(self) -> bool:
        """Whether the rater was invited and has not joined."""
        return not self.taken and self.invitation is not None and not self.invitation.revoked_at and not self.withdrawn

    @property
    def groups(self) -> set[str]:
        """The names in GROUPS of the groups that the rater is in."""
        group = "withdrawn" if self.withdrawn else _GROUP_OF_STATE.get(self.state, "invited")
        return {group} | ({"idle"} if self.is_idle else set()) | ({"fast"} if self.too_fast else set())

    @property
    def status(self) -> str:
        """Name the state for people: what an admin has not done yet is an open place."""
        return "open place" if self.state == "free" else self.state

    @property
    def active_text(self) -> str:
        return "–" if self.active_seconds is None else active_time.format_duration(self.active_seconds)


def list_raters(study: Study, label: str = "") -> list[RaterRow]:
    """Return every rater in order, or the one with this label. The number of queries does not depend on the number of raters."""
    protocol, now = load_protocol(study.protocol), timezone.now()
    counts = progress.count_study(study).raters
    times_by_label = {
        one.label: one for one in progress.cache_by_state(study, "active-times", active_time.compute_active_times)
    }
    answers = PracticeAnswer.objects.filter(rater__study=study).order_by().values_list("rater")
    numbers = answers.annotate(good=Count("pk", filter=Q(right=True)), n=Count("pk"))
    practice = {key: (good, n) for key, good, n in numbers}
    # Later rows replace earlier ones, so the newest invitation remains.
    oldest_first = Invitation.objects.filter(rater__study=study).order_by("created_at", "pk")
    invitations = {invitation.rater_id: invitation for invitation in oldest_first}
    raters = study.raters.filter(label=label) if label else study.raters.all()
    rows = []
    # One annotation instead of a query for each rater.
    for rater in raters.annotate(last_shown=Max("assignments__opened_at")).order_by("number"):
        # A rater can have been added after the counts were made.
        own, invitation = counts.get(rater.pk, RaterTimes()), invitations.get(rater.pk)
        last_seen = max((at for at in (rater.last_seen_at, rater.last_shown, own.last_rated) if at), default=None)
        state, times = _describe_state(rater, invitation, protocol.is_pool), times_by_label.get(rater.label)
        # The times in an import were not measured by this site.
        median = None if rater.imported_as else own.median_seconds
        rows.append(
            RaterRow(
                label=rater.label,
                number=rater.number,
                simulated=rater.simulated,
                imported=bool(rater.imported_as),
                state=state,
                done=rater.answered_items,
                total=None if protocol.is_pool else rater.answered_items + rater.waiting_items,
                practice=practice.get(rater.pk),
                median_seconds=median,
                active_seconds=times.seconds if times and times.timed else None,
                last_seen=last_seen,
                invitation=invitation,
                taken=rater.user_id is not None,
                withdrawn=rater.withdrawn_at is not None,
                is_idle=study.is_open and state != "finished" and _is_idle(rater, protocol, last_seen, now),
                too_fast=active_time.describe_speed(median, rater.answered_items) if rater.is_person else "",
            )
        )
    return rows


def count_active_raters(study: Study, period: timedelta) -> int:
    """Return how many people have opened an item, or stored an answer or a choice, within this period, and are not done."""
    since = timezone.now() - period
    own = Assignment.objects.filter(rater=OuterRef("pk"))
    has_answered, has_opened = (
        Exists(own.filter(answered_at__gt=since)),
        Exists(own.filter(WAITING, opened_at__gt=since)),
    )
    people = study.raters.filter(simulated=False, user__isnull=False, finished_at=None, withdrawn_at=None)
    return people.filter(Q(last_seen_at__gt=since) | has_answered | has_opened).count()


def count_unrated(study: Study) -> dict[int, int | None]:
    """Return the number of unrated items by rater; None if unknown (in a pool, or before joining)."""
    is_pool = load_protocol(study.protocol).design == "pool"
    return {
        rater.pk: None if is_pool or not rater.user_id else rater.waiting_items
        for rater in study.raters.order_by("number")
    }


def _is_idle(rater: Rater, protocol: StudyProtocol, last_seen: datetime | None, now: datetime) -> bool:
    """Return whether a rater who has joined and has not finished has done nothing for some days."""
    if not rater.user_id or rater.withdrawn_at or last_seen is None:
        return False
    waits = timedelta(0)
    # A crossover rater who has rated the first half of their items waits for the end of the washout.
    if protocol.design == "crossover" and rater.answered_items == rater.waiting_items:
        waits = timedelta(days=protocol.washout_days)
    return now - last_seen >= IDLE_AFTER + waits


def describe_invitation(invitation: Invitation) -> str:
    """Return what has become of an invitation, in one or two words."""
    if invitation.used_at:
        return "joined"
    if invitation.revoked_at:
        return "no longer valid"
    if invitation.send_error:
        return "not sent"
    if invitation.expires_at <= timezone.now():
        return "link expired"
    if invitation.opened_at:
        return "link opened"
    return "invited" if invitation.sent_at else "link created"


class InvitationLine(NamedTuple):
    """An invitation to a rater place. Whom it was for is "" once somebody has joined."""

    row: Invitation
    state: str
    email: str
    name: str


def list_invitations(rater: Rater) -> list[InvitationLine]:
    """Return the invitations to this place, newest first."""
    is_shown = rater.user_id is None
    return [
        InvitationLine(row, describe_invitation(row), row.email if is_shown else "", row.name if is_shown else "")
        for row in rater.invitations.select_related("created_by")
    ]


def _describe_state(rater: Rater, invitation: Invitation | None, is_pool: bool) -> str:
    """Return the state of a rater in one or two words."""
    if rater.withdrawn_at:
        return "withdrawn, ratings dropped" if rater.dropped else "withdrawn"
    if rater.imported_as:
        return "imported"
    # In a pool, a rater who has rated every claimed item can still claim more.
    if rater.finished_at or (not is_pool and rater.answered_items and not rater.waiting_items):
        return "finished"
    if rater.answered_items or rater.simulated:
        return "rating" if rater.answered_items else "not begun"
    if rater.started_at:
        return "ready"
    if rater.user_id:
        return "agreed"
    return "free" if invitation is None or invitation.revoked_at else describe_invitation(invitation)
