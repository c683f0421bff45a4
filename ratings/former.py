"""What somebody was in a study before: roles are taken away, what was seen and decided under them is not."""

import re
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime

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
    told = list(study.events.filter(kind="member").values_list("detail", flat=True))
    numbers = {number for detail in told for number in _read_numbers(detail)}
    names = {name for detail in told if (name := _read_name(detail))}
    acted = study.events.exclude(by=None).values("by")
    own = Q(memberships__study=study) | Q(pk=study.created_by_id) | Q(pk__in=acted)
    return User.objects.filter(own | Q(pk__in=numbers) | Q(username__in=names)).distinct()


def find_insiders(studies: Collection[int], accounts: Mapping[int, User]) -> Iterator[tuple[int, int, datetime]]:
    """Yield (study, account, since when) for those of these accounts that have or had part in one of these studies.

    Some come repeatedly, the earliest is the one that counts. Three queries, however many there are of both. A role that
    the log says nothing of counts since the study was made; a line from before accounts stood in it by number counts for
    whoever has the name that it gives.
    """
    by_name = {user.username: number for number, user in accounts.items()}
    logged = set()
    events = StudyEvent.objects.filter(Q(kind="member") | Q(by__in=accounts), study__in=studies).order_by()
    for study, kind, by, detail, at in events.values_list("study_id", "kind", "by_id", "detail", "at"):
        if by in accounts:
            yield study, by, at
        if kind == "member":
            named = by_name.get(_read_name(detail))
            for number in accounts.keys() & {*_read_numbers(detail), *([named] if named else [])}:
                logged.add((study, number))
                yield study, number, at
    created = Study.objects.filter(pk__in=studies, created_by__in=accounts)
    yield from ((study, by, at) for study, by, at in created.values_list("pk", "created_by_id", "created_at") if by)
    roles = Membership.objects.filter(study__in=studies, user__in=accounts)
    for study, user, at in roles.values_list("study_id", "user_id", "study__created_at"):
        if (study, user) not in logged:
            yield study, user, at


_NUMBER = re.compile(r"\(account (\d+)\)")
_OLD_LINE = re.compile(rf"(.*) (?:is (?:{'|'.join(map(re.escape, ROLES.values()))})|has no role any more)")


def _read_numbers(detail: str) -> set[int]:
    return {int(number) for number in _NUMBER.findall(detail)}


def _read_name(detail: str) -> str:
    """Return the user name in a line of the log of members that gives no account's number; "" if it gives one."""
    found = None if _NUMBER.search(detail) else _OLD_LINE.fullmatch(detail)
    return found[1] if found else ""
