"""What somebody was in a study before: roles are taken away, what was seen and decided under them is not."""

import re
from collections.abc import Collection, Iterator

from django.contrib.auth.models import User
from django.db.models import Q, QuerySet

from ratings.models import Membership, Study, StudyEvent

ROLES = dict(Membership.ROLES)
_ONLY_READ = ("looked", "exported", "audited")


def said_of(user: User, what: str) -> str:
    """A line for the log of members. The number stays the account's own when its name changes."""
    return f"{user.get_username()} (account {user.pk}) {what}"


def events_of(user: User) -> QuerySet[StudyEvent]:
    """Lines about this account in the logs of members; the first ones named it without its number."""
    said = Q(detail__contains=f"(account {user.pk}) ")
    for words in (*(f"is {role}" for role in ROLES.values()), "has no role any more"):
        said |= Q(detail=f"{user.get_username()} {words}")
    return StudyEvent.objects.filter(said, kind="member")


def ran(study: Study, user: User) -> bool:
    """Whether they made this study, were an admin of it, or did anything in it but read."""
    if study.created_by_id == user.pk or study.events.filter(by=user).exclude(kind__in=_ONLY_READ).exists():
        return True
    return events_of(user).filter(study=study, detail__endswith=f" is {ROLES['admin']}").exists()


def looked(study: Study, user: User) -> bool:
    """Whether they took an interim look at this study."""
    return study.events.filter(by=user, kind="looked").exists()


def had_part(study: Study, user: User) -> bool:
    """Whether they ever ran this study, read its results or could have."""
    own = study.events.filter(by=user).exists() or events_of(user).filter(study=study).exists()
    return own or study.created_by_id == user.pk


def insiders(study: Study) -> QuerySet[User]:
    """Everybody who has or had part in this study."""
    told = " ".join(study.events.filter(kind="member").values_list("detail", flat=True))
    named = {int(number) for number in _NUMBER.findall(told)}
    acted = study.events.exclude(by=None).values("by")
    own = Q(memberships__study=study) | Q(pk=study.created_by_id) | Q(pk__in=named) | Q(pk__in=acted)
    return User.objects.filter(own).distinct()


def find_insiders(studies: Collection[int], accounts: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield (study, account) for those of these accounts that have or had part in one of these studies, some repeatedly.

    Three queries, however many there are of both. Lines of the log from before accounts stood in it by number are not read.
    """
    yield from Membership.objects.filter(study__in=studies, user__in=accounts).values_list("study_id", "user_id")
    made = Study.objects.filter(pk__in=studies, created_by__in=accounts).values_list("pk", "created_by_id")
    yield from ((study, account) for study, account in made if account)
    events = StudyEvent.objects.filter(Q(kind="member") | Q(by__in=accounts), study__in=studies).order_by()
    for study, by, detail in events.values_list("study_id", "by_id", "detail"):
        if by in accounts:
            yield study, by
        yield from ((study, number) for number in map(int, _NUMBER.findall(detail)) if number in accounts)


_NUMBER = re.compile(r"\(account (\d+)\)")
