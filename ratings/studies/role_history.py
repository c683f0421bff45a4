"""What a user was in a study before.

Roles can be revoked, but what a user saw or decided while they had one cannot.
"""

from collections.abc import Collection, Iterator
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet, Value

from ratings.models import Membership, MembershipChange, Study, StudyEvent

_READ_EVENT_KINDS = ("looked", "exported", "audited")


def has_managed(study: Study, user: User) -> bool:
    """Return whether the user created this study, was an admin of it, or did anything in it other than read."""
    if study.created_by_id == user.pk or study.events.filter(by=user).exclude(kind__in=_READ_EVENT_KINDS).exists():
        return True
    return study.membership_changes.filter(user=user, role="admin", granted=True).exists()


def took_interim_analysis(study: Study, user: User) -> bool:
    """Return whether the user took an interim analysis of this study."""
    return study.events.filter(by=user, kind="looked").exists()


def had_role(study: Study, user: User) -> bool:
    """Return whether the user ever had a role in this study, and so managed it or could read its results."""
    has_record = study.events.filter(by=user).exists() or study.membership_changes.filter(user=user).exists()
    return has_record or study.created_by_id == user.pk


def list_unblinded_people(study: Study) -> QuerySet[User]:
    """Return all users who have or had a role in this study."""
    acted = study.events.exclude(by=None).values("by")
    changed = study.membership_changes.exclude(user=None).values("user")
    has_part = Q(memberships__study=study) | Q(pk=study.created_by_id) | Q(pk__in=acted) | Q(pk__in=changed)
    return User.objects.filter(has_part).distinct()


def find_unblinded_people(studies: Collection[int], accounts: Collection[int]) -> Iterator[tuple[int, int, datetime]]:
    """Yield (study, account, time) for those of these accounts that have or had a role in one of these studies.

    A study and account may be yielded several times; the earliest time counts. Three queries, whatever the number of
    studies and accounts.
    """
    events = StudyEvent.objects.filter(study__in=studies, by__in=accounts).order_by()
    changes = MembershipChange.objects.filter(study__in=studies, user__in=accounts).order_by()
    # One round trip for both tables; the constant shows from which one a row is.
    dated_rows = events.values_list("study_id", "by_id", "at", Value(False)).union(
        changes.values_list("study_id", "user_id", "at", Value(True))
    )
    recorded = set()
    for study, account, at, is_change in dated_rows:
        yield study, account, at
        if is_change:
            recorded.add((study, account))
    created = Study.objects.filter(pk__in=studies, created_by__in=accounts)
    yield from ((study, by, at) for study, by, at in created.values_list("pk", "created_by_id", "created_at") if by)
    roles = Membership.objects.filter(study__in=studies, user__in=accounts)
    for study, member, at in roles.values_list("study_id", "user_id", "study__created_at"):
        # Roles of releases that recorded no changes: without a stored change, a role counts since the study was
        # created.
        if (study, member) not in recorded:
            yield study, member, at
