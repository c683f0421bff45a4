"""A study's log as people read it: its events in order, each with a title and its details in words."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from django.contrib.auth.models import User

from ratings.models import StudyEvent
from ratings.models.study_events import MemberChanged
from ratings.results import event_sentences

ERASED = "erased"  # stands for the name of an account whose personal data was erased


class LogLine(NamedTuple):
    """One event in words."""

    at: datetime
    by: User | None
    title: str
    words: str


def describe_events(events: Iterable[StudyEvent]) -> list[LogLine]:
    """Return these events in words, in their order. One query for the names of all accounts in them."""
    rows = list(events)
    names = read_names(rows)
    return [
        LogLine(
            row.at,
            row.by,
            event_sentences.title_event(row.kind, row.content),
            event_sentences.describe_event(row.content, names),
        )
        for row in rows
    ]


def read_names(events: Sequence[StudyEvent]) -> dict[int, str]:
    """Return what the accounts in these events are called now. Accounts that were deleted are missing."""
    numbers = set(_list_accounts(events))
    if not numbers:
        return {}
    accounts = User.objects.filter(pk__in=numbers).values_list("pk", "username", "rater_profile__erased_at")
    return {number: ERASED if erased_at else username for number, username, erased_at in accounts}


def _list_accounts(events: Iterable[StudyEvent]) -> Iterator[int]:
    for event in events:
        if event.kind == MemberChanged.kind and isinstance(content := event.content, MemberChanged):
            yield content.account
