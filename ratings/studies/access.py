"""Who may see which studies, raters and assignments. Every view loads these objects through this module.

A request for an object that the user may not see is answered like one for an object that does not exist (404), so a
URL reveals nothing.
"""

from functools import cache
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q, QuerySet
from django.http import Http404

from ratings.accounts.signing_in import (
    LinkEffect,
    LinkResult,
    create_link,
    expire_unused_links,
    open_link,
    peek_link,
    revoke_links,
)
from ratings.models import Assignment, Rater, Study
from wetbench_site.prepared_queries import PreparedQuery

__all__ = [
    "LinkEffect",
    "LinkResult",
    "Visitor",
    "create_link",
    "expire_unused_links",
    "get_assignment_or_404",
    "get_rater_or_404",
    "get_role",
    "get_study_or_404",
    "list_raters",
    "list_studies",
    "open_link",
    "peek_link",
    "revoke_links",
]  # fmt: skip
Visitor = User | AnonymousUser
_OPENED_STATUSES = ("open", "paused", "closed", "unblinded")


def get_role(user: Visitor, study: Study) -> str:
    """Return "superuser", "admin" (creator or appointed) or "analyst" of this study; "" for everyone else."""
    if not user.is_authenticated:
        return ""
    if user.is_superuser:
        return "superuser"
    if user.is_staff and study.created_by_id == user.pk:
        return "admin"
    # The creator of a study who is no longer staff has only the role they were given.
    member = study.members.filter(user_id=user.pk).first()
    return member.role if member else ""


def get_study_or_404(user: Visitor, name: str, *roles: str) -> Study:
    """Return the study with this slug for users who have one of these roles in it; superusers have every role."""
    study = Study.objects.filter(slug=name).first() if user.is_authenticated else None
    # One answer for a missing study and a missing role: a 403 would reveal that the study exists.
    if study is None or get_role(user, study) not in ("superuser", *roles):
        raise Http404
    return study


def list_studies(user: Visitor) -> QuerySet[Study]:
    """Return the studies in which this user has a role."""
    if not user.is_authenticated:
        return Study.objects.none()
    if user.is_superuser:
        return Study.objects.all()
    has_role = Q(members__user_id=user.pk) | (Q(created_by_id=user.pk) if user.is_staff else Q())
    # The join with members repeats a study for each role.
    return Study.objects.filter(has_role).distinct()


def list_raters(user: Visitor) -> QuerySet[Rater]:
    """Return this user's raters in studies that were opened, including those who withdrew."""
    if not user.is_authenticated:
        return Rater.objects.none()
    return Rater.objects.select_related("study").filter(user_id=user.pk, study__status__in=_OPENED_STATUSES)


def get_rater_or_404(user: Visitor, code: UUID) -> Rater:
    """Return this user's own rater with this code."""
    if (rater := list_raters(user).filter(code=code).first()) is None:
        raise Http404
    return rater


def get_assignment_or_404(user: Visitor, code: UUID, *related: str) -> Assignment:
    """Return the user's own assignment with its item, never anyone else's.

    Assignments of a rater who withdrew raise 404. `related` names related rows to load with it: "rating",
    "unsaved_answer".
    """
    assignment = _prepare_own_assignment(*related).find_first(code, user.pk) if user.is_authenticated else None
    if assignment is None:
        raise Http404
    return assignment


# One prepared query for each set of related rows: it runs with every page that a rater opens.
@cache
def _prepare_own_assignment(*related: str) -> PreparedQuery[Assignment]:
    def filter_own_assignments(code: UUID, user: int) -> QuerySet[Assignment]:
        rows = Assignment.objects.select_related("item", "rater__study", *related).order_by()
        rows = rows.filter(
            rater__user_id=user, rater__withdrawn_at__isnull=True, rater__study__status__in=_OPENED_STATUSES
        )
        return rows.filter(code=code)

    return PreparedQuery(filter_own_assignments, "uuid", "number")
