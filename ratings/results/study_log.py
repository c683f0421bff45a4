"""Prepare the activity log of a study for pages: its events in order, each with a title and a description."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from django.contrib.auth.models import User

from ratings.models import StudyEvent
from ratings.models.study_events import MemberChanged
from ratings.results import event_sentences

# Erasing a rater also deletes the username, so the log must not show it again.
ERASED = "erased"  # shown instead of the username once the personal data was erased


class LogLine(NamedTuple):
    """One event of the log, as text for pages."""

    time: datetime
    by: User | None
    title: str
    description: str


def describe_events(events: Iterable[StudyEvent]) -> list[LogLine]:
    """Return a log line for each event, in the given order. One query loads the names of all accounts."""
    event_list = list(events)
    names = load_account_names(event_list)
    return [
        LogLine(
            row.at,
            row.by,
            event_sentences.title_event(row.kind, row.typed_content),
            event_sentences.describe_event(row.typed_content, names),
        )
        for row in event_list
    ]


def load_account_names(events: Sequence[StudyEvent]) -> dict[int, str]:
    """Return the current username of each account in these events, by account number. Deleted accounts are missing."""
    # A log can have thousands of events but refers to few accounts, so one query loads all of them.
    account_numbers = set(_iter_accounts(events))
    if not account_numbers:
        return {}
    accounts = User.objects.filter(pk__in=account_numbers).values_list("pk", "username", "rater_profile__erased_at")
    return {number: ERASED if erased_at else username for number, username, erased_at in accounts}


def _iter_accounts(events: Iterable[StudyEvent]) -> Iterator[int]:
    for event in events:
        if event.kind == MemberChanged.kind and isinstance(content := event.typed_content, MemberChanged):
            yield content.account
