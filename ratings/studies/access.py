"""Who may have what: every view fetches through here. What is not yours does not exist (404)."""

from functools import cache
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q, QuerySet
from django.http import Http404

from ratings.accounts.signing_in import Door, Opened, look_at_link, make_link, mark_used, open_link, revoke_links
from ratings.models import Assignment, Rater, Study
from wetbench_site.prepared_queries import PreparedQuery

__all__ = [
    "Door", "Opened", "Visitor", "assignment_for", "look_at_link", "make_link", "mark_used", "open_link", "revoke_links", "role_in",
    "seat_for", "seats_of", "studies_of", "study_for",
]  # fmt: skip
Visitor = User | AnonymousUser
_RATED = ("open", "paused", "closed", "unblinded")


def role_in(user: Visitor, study: Study) -> str:
    """ "superuser", "admin" (who created it, or was made one) or "analyst" of this study; "" for everyone else."""
    if not user.is_authenticated:
        return ""
    if user.is_superuser:
        return "superuser"
    if user.is_staff and study.created_by_id == user.pk:
        return "admin"
    member = study.members.filter(user_id=user.pk).first()
    return member.role if member else ""


def study_for(user: Visitor, name: str, *roles: str) -> Study:
    """The study of that slug, for those with one of these roles in it; superusers have every one."""
    study = Study.objects.filter(slug=name).first() if user.is_authenticated else None
    if study is None or role_in(user, study) not in ("superuser", *roles):
        raise Http404
    return study


def studies_of(user: Visitor) -> QuerySet[Study]:
    """The studies this user has a role in."""
    if not user.is_authenticated:
        return Study.objects.none()
    if user.is_superuser:
        return Study.objects.all()
    own = Q(members__user_id=user.pk) | (Q(created_by_id=user.pk) if user.is_staff else Q())
    return Study.objects.filter(own).distinct()


def seats_of(user: Visitor) -> QuerySet[Rater]:
    """The seats this user holds in studies that were opened, those withdrawn from included."""
    if not user.is_authenticated:
        return Rater.objects.none()
    return Rater.objects.select_related("study").filter(user_id=user.pk, study__status__in=_RATED)


def seat_for(user: Visitor, code: UUID) -> Rater:
    """This user's own seat of that code."""
    if (seat := seats_of(user).filter(code=code).first()) is None:
        raise Http404
    return seat


def assignment_for(user: Visitor, code: UUID, *also: str) -> Assignment:
    """The user's own assignment with its item, never anyone else's, and none of a study withdrawn from. `also` names
    what else is read with it: "rating", "draft"."""
    found = _own(*also).first(code, user.pk) if user.is_authenticated else None
    if found is None:
        raise Http404
    return found


@cache
def _own(*also: str) -> PreparedQuery[Assignment]:
    def own(code: UUID, user: int) -> QuerySet[Assignment]:
        rows = Assignment.objects.select_related("item", "rater__study", *also).order_by()
        rows = rows.filter(rater__user_id=user, rater__withdrawn_at__isnull=True, rater__study__status__in=_RATED)
        return rows.filter(code=code)

    return PreparedQuery(own, "uuid", "number")
