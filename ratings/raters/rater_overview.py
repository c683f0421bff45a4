"""The raters of a study and their progress. Rows contain codes; only admins see the address they invited."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Count, Max, Q
from django.utils import timezone

from ratings.models import Invitation, PracticeAnswer, Study
from ratings.protocol.study_protocol import load_protocol
from ratings.studies.progress import study_counts
from ratings.studies.progress.study_counts import RaterCounts

NO_PROGRESS = RaterCounts(0, 0, 0, 0, None, None)  # for a rater added after the counts were made


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
    practice, progress, invitations = (
        _count_practice(study),
        study_counts.count_study(study).seats,
        _load_last_invitations(study),
    )
    return [
        _build_row(seat, progress.get(seat.pk, NO_PROGRESS), practice.get(seat.pk), invitations.get(seat.pk), is_pool)
        # One annotation instead of a query for each rater.
        for seat in study.raters.annotate(last_shown=Max("assignments__opened_at")).order_by("number")
    ]


def _build_row(
    seat: Any, progress: RaterCounts, practice: tuple[int, int] | None, invitation: Invitation | None, is_pool: bool
) -> RaterRow:
    return RaterRow(
        label=seat.label,
        simulated=seat.simulated,
        imported=bool(seat.imported_as),
        state=_describe_state(seat, progress, invitation, is_pool),
        done=progress.live_rated,
        total=None if is_pool else progress.live,
        practice=practice,
        # The times in an import were not measured by this site.
        median_seconds=None if seat.imported_as else progress.median_seconds,
        last_seen=max((t for t in (seat.last_seen_at, seat.last_shown, progress.last_rated) if t), default=None),
        invitation=invitation,
        taken=seat.user_id is not None,
        withdrawn=seat.withdrawn_at is not None,
    )


def count_unrated(study: Study) -> dict[int, int | None]:
    """Return the number of unrated items by rater; None if unknown (in a pool, or before joining)."""
    is_pool, progress = load_protocol(study.protocol).design == "pool", study_counts.count_study(study).seats
    rows = ((seat, progress.get(seat.pk, NO_PROGRESS)) for seat in study.raters.order_by("number"))
    return {seat.pk: None if is_pool or not seat.user_id else counts.live - counts.live_rated for seat, counts in rows}


def _count_practice(study: Study) -> Mapping[int, tuple[int, int]]:
    answers = PracticeAnswer.objects.filter(rater__study=study).order_by().values("rater")
    counts = answers.annotate(n=Count("pk"), good=Count("pk", filter=Q(right=True)))
    return {row["rater"]: (row["good"], row["n"]) for row in counts}


def _load_last_invitations(study: Study) -> Mapping[int, Invitation]:
    oldest_first = Invitation.objects.filter(seat__study=study).order_by("created_at", "pk")
    # Later rows replace earlier ones, so the newest invitation remains.
    return {invitation.seat_id: invitation for invitation in oldest_first}


def _describe_state(seat: Any, progress: RaterCounts, invitation: Invitation | None, is_pool: bool) -> str:
    """Return the state of a rater in one or two words."""
    if seat.withdrawn_at:
        return "withdrawn, ratings dropped" if seat.dropped else "withdrawn"
    if seat.imported_as:
        return "imported"
    # In a pool, a rater who has rated every claimed item can still claim more.
    if seat.finished_at or (not is_pool and progress.live and progress.live_rated == progress.live):
        return "finished"
    if progress.live_rated or seat.simulated:
        return "rating" if progress.live_rated else "not begun"
    if seat.started_at:
        return "ready"
    if seat.user_id:
        return "agreed"
    return _describe_invitation(invitation)


def _describe_invitation(invitation: Invitation | None) -> str:
    if invitation is None or invitation.revoked_at:
        return "free"
    if invitation.send_error:
        return "not sent"
    return "link expired" if invitation.expires_at <= timezone.now() else "invited"
