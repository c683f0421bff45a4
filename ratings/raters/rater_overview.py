"""The raters of a study and their progress, under pseudonymous labels; only admins see the address they invited."""

from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Max, Q
from django.utils import timezone

from ratings.models import Invitation, PracticeAnswer, Rater, Study
from ratings.protocol.study_protocol import load_protocol
from ratings.studies.progress import RaterTimes, count_study


class RaterRow(NamedTuple):
    """One rater. `total` is None if items are claimed one at a time; `practice` is (right, answered)."""

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
    def is_awaited(self) -> bool:
        """Whether the rater was invited and has not joined."""
        return not self.taken and self.invitation is not None and not self.invitation.revoked_at


def list_raters(study: Study) -> list[RaterRow]:
    """Return every rater in order. The number of queries does not depend on the number of raters."""
    is_pool = load_protocol(study.protocol).design == "pool"
    counts = count_study(study).raters
    answers = PracticeAnswer.objects.filter(rater__study=study).order_by().values_list("rater")
    numbers = answers.annotate(good=Count("pk", filter=Q(right=True)), n=Count("pk"))
    practice = {key: (good, n) for key, good, n in numbers}
    # Later rows replace earlier ones, so the newest invitation remains.
    oldest_first = Invitation.objects.filter(rater__study=study).order_by("created_at", "pk")
    invitations = {invitation.rater_id: invitation for invitation in oldest_first}
    rows = []
    # One annotation instead of a query for each rater.
    for rater in study.raters.annotate(last_shown=Max("assignments__opened_at")).order_by("number"):
        # A rater can have been added after the counts were made.
        own, invitation = counts.get(rater.pk, RaterTimes()), invitations.get(rater.pk)
        times = (rater.last_seen_at, rater.last_shown, own.last_rated)
        rows.append(
            RaterRow(
                label=rater.label,
                simulated=rater.simulated,
                imported=bool(rater.imported_as),
                state=_describe_state(rater, invitation, is_pool),
                done=rater.answered_items,
                total=None if is_pool else rater.answered_items + rater.waiting_items,
                practice=practice.get(rater.pk),
                # The times in an import were not measured by this site.
                median_seconds=None if rater.imported_as else own.median_seconds,
                last_seen=max((time for time in times if time), default=None),
                invitation=invitation,
                taken=rater.user_id is not None,
                withdrawn=rater.withdrawn_at is not None,
            )
        )
    return rows


def count_unrated(study: Study) -> dict[int, int | None]:
    """Return the number of unrated items by rater; None if unknown (in a pool, or before joining)."""
    is_pool = load_protocol(study.protocol).design == "pool"
    return {
        rater.pk: None if is_pool or not rater.user_id else rater.waiting_items
        for rater in study.raters.order_by("number")
    }


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
    if invitation is None or invitation.revoked_at:
        return "free"
    if invitation.send_error:
        return "not sent"
    return "link expired" if invitation.expires_at <= timezone.now() else "invited"
