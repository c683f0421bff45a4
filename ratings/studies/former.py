"""What somebody was in a study before: roles are taken away, what was seen and decided under them is not."""

from collections.abc import Collection, Iterator
from datetime import datetime

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet, Value

from ratings.models import Membership, MembershipChange, Study, StudyEvent

_ONLY_READ = ("looked", "exported", "audited")


def ran(study: Study, user: User) -> bool:
    """Whether they made this study, were an admin of it, or did anything in it but read."""
    if study.created_by_id == user.pk or study.events.filter(by=user).exclude(kind__in=_ONLY_READ).exists():
        return True
    return study.membership_changes.filter(user=user, role="admin", granted=True).exists()


def looked(study: Study, user: User) -> bool:
    """Whether they took an interim look at this study."""
    return study.events.filter(by=user, kind="looked").exists()


def had_part(study: Study, user: User) -> bool:
    """Whether they ever ran this study, read its results or could have."""
    own = study.events.filter(by=user).exists() or study.membership_changes.filter(user=user).exists()
    return own or study.created_by_id == user.pk


def insiders(study: Study) -> QuerySet[User]:
    """Everybody who has or had part in this study."""
    acted = study.events.exclude(by=None).values("by")
    changed = study.membership_changes.exclude(user=None).values("user")
    has_part = Q(memberships__study=study) | Q(pk=study.created_by_id) | Q(pk__in=acted) | Q(pk__in=changed)
    return User.objects.filter(has_part).distinct()


def find_insiders(studies: Collection[int], accounts: Collection[int]) -> Iterator[tuple[int, int, datetime]]:
    """Yield (study, account, since when) for those of these accounts that have or had part in one of these studies.

    A pair may be yielded repeatedly; its earliest time counts. Three queries, whatever the number of studies and accounts.
    A role without a stored change counts since the study was made.
    """
    acted = StudyEvent.objects.filter(study__in=studies, by__in=accounts).order_by()
    changes = MembershipChange.objects.filter(study__in=studies, user__in=accounts).order_by()
    dated = acted.values_list("study_id", "by_id", "at", Value(False)).union(
        changes.values_list("study_id", "user_id", "at", Value(True))
    )
    changed = set()
    for study, account, at, is_change in dated:
        yield study, account, at
        if is_change:
            changed.add((study, account))
    created = Study.objects.filter(pk__in=studies, created_by__in=accounts)
    yield from ((study, by, at) for study, by, at in created.values_list("pk", "created_by_id", "created_at") if by)
    roles = Membership.objects.filter(study__in=studies, user__in=accounts)
    for study, member, at in roles.values_list("study_id", "user_id", "study__created_at"):
        if (study, member) not in changed:
            yield study, member, at
