"""Prepare the activity log of a study for pages: its events in order, each with a title and a description."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import singledispatch
from typing import NamedTuple

from django.contrib.auth.models import User

from ratings.models import StudyEvent
from ratings.models import study_events as events
from ratings.models.study_events import Content, LegacyText, MemberChanged
from ratings.protocol.plan_types import IdenticalCases
from ratings.results.analyses.filters import Filters
from ratings.studies import designs
from wetbench_site.text import format_count

AccountNames = Mapping[int, str]  # the current username of each account, by account number

_TITLES = {
    "guide": "guide revised",
    "member": "role granted",
    "machine": "model rater",
    "looked": "interim analysis",
    "quarantine": "quarantine decided",
    "taken back": "items reassigned",
}
_ROLES = {"admin": "study admin", "analyst": "analyst"}


def title_event(kind: str, content: Content | LegacyText) -> str:
    """Return a title of two or three words for an event."""
    if isinstance(content, events.MemberChanged) and not content.granted:
        return "role removed"
    if isinstance(content, LegacyText) and kind == "member":
        return kind  # old events do not record whether a role was granted or removed
    return _TITLES.get(kind, kind)


def describe_event(content: Content | LegacyText, names: AccountNames) -> str:
    """Return the details of an event as text; "" if there are none.

    `names` must have the username of every account in the event that still exists.
    """
    if isinstance(content, events.MemberChanged):
        # This case is separate from the dispatch below, because only it needs the names of accounts.
        return _describe_member(content, names)
    return describe_content(content)


# Events without a function of their own, such as paused and resumed, have no details.
@singledispatch
def describe_content(content: Content | LegacyText) -> str:
    """Return the details of an event that names no account; "" if there are none."""
    return ""


def _describe_member(content: events.MemberChanged, names: AccountNames) -> str:
    who = f"{names.get(content.account, 'deleted')} (account {content.account})"
    return f"{who} is {_ROLES[content.role]}" if content.granted and content.role else f"{who} no longer has a role"


@describe_content.register
def _describe_legacy(content: LegacyText) -> str:
    return content.text


@describe_content.register
def _describe_edited(content: events.Edited) -> str:
    return content.part


@describe_content.register
def _describe_duplicated(content: events.Duplicated) -> str:
    return f"from {content.source}"


@describe_content.register
def _describe_opened(content: events.Opened) -> str:
    parts = [f"{format_count(content.items, 'item')}, {format_count(content.raters, 'rater')}"]
    if content.left_out:
        parts.append(f"{format_count(content.left_out, 'item')} of unblinded studies left out")
    if content.shown:
        parts.append(f"{format_count(content.shown, 'item')} of episodes that are part of unblinded studies")
    parts.append(designs.describe_identical_cases(IdenticalCases(content.identical_cases, content.cases)))
    return "; ".join(filter(None, parts))


@describe_content.register
def _describe_reopened(content: events.Reopened) -> str:
    assigned = f"{format_count(content.dealt, 'item')} assigned" if content.dealt else ""
    return "; ".join(filter(None, [assigned, _describe_left(content.left)]))


@describe_content.register
def _describe_guide(content: events.GuideRevised) -> str:
    return f"version {content.version}"


@describe_content.register
def _describe_invited(content: events.Invited) -> str:
    return content.rater + {"invited": "", "sign_in_again": ", to sign in again", "revoked": ", revoked"}[content.step]


@describe_content.register
def _describe_reminded(content: events.Reminded) -> str:
    return _count_without_separator(content.raters, "rater")


@describe_content.register
def _describe_rater(content: events.Joined | events.Erased) -> str:
    return content.rater


@describe_content.register
def _describe_withdrawn(content: events.Withdrawn) -> str:
    rule = "ratings discarded" if content.dropped else "ratings kept"
    reassigned = f"{format_count(content.dealt, 'item')} reassigned to others"
    return "; ".join(filter(None, [f"{content.rater}, {rule}", reassigned, _describe_left(content.left)]))


@describe_content.register
def _describe_simulated(content: events.Simulated) -> str:
    return f"{', '.join(content.raters)}, seed {content.seed}"


@describe_content.register
def _describe_raters_added(content: events.RatersAdded) -> str:
    return f"{', '.join(content.added)} added, with {format_count(content.items, 'item')}"


@describe_content.register
def _describe_raters_replanned(content: events.RatersReplanned) -> str:
    return f"open rater places: {content.free} became {content.raters}"


@describe_content.register
def _describe_items_added(content: events.ItemsAdded) -> str:
    return "; ".join(filter(None, [format_count(content.items, "item"), _describe_left(content.left)]))


@describe_content.register
def _describe_items_imported(content: events.ItemsImported) -> str:
    # Blinded archives leave the sources out.
    return ": ".join(filter(None, [_count_without_separator(content.items, "item"), ", ".join(content.sources)]))


@describe_content.register
def _describe_imports_removed(content: events.ImportsRemoved) -> str:
    return f"all {content.removed} removed"


@describe_content.register
def _describe_ratings_imported(content: events.RatingsImported) -> str:
    return (
        f"{_count_without_separator(content.ratings, 'rating')} by {_count_without_separator(content.raters, 'rater')}"
    )


@describe_content.register
def _describe_quarantine(content: events.QuarantineDecided) -> str:
    text = f"{content.decision} {content.digest}: {content.reason or 'no reason given'}"
    if content.things:
        things = "; ".join(f"“{name}”, {meaning}" for name, meaning in content.things)
        text += f"; declared as things in the laboratory: {things}"
    return text


@describe_content.register
def _describe_audited(content: events.Audited) -> str:
    return f"blinding audit {'passed' if content.passed else 'failed: leaks found'}"


@describe_content.register
def _describe_interim_analysis(content: events.InterimLook) -> str:
    moment = (
        f"at {content.ratings} of {content.planned} planned ratings" if content.ratings else "before the first snapshot"
    )
    return f"{moment}: {content.shown} of {content.sources} sources shown"


@describe_content.register
def _describe_interim_analysis_by_source(content: events.InterimLookBySource) -> str:
    return f"interim analysis: {content.shown} of {content.sources} sources with at least {content.least} ratings"


@describe_content.register
def _describe_table(content: events.TableExported) -> str:
    filters = Filters.from_dict(content.filters).description if content.filters else content.filters_text
    return f"{_describe_variant(content.blinded)}. {filters}".rstrip(". ")


@describe_content.register
def _describe_archive(content: events.ArchiveExported) -> str:
    hashed_file = " of SHA256SUMS" if content.of == "SHA256SUMS" else ""
    return f"archive, {_describe_variant(content.blinded)}, SHA-256 {content.sha256}{hashed_file}"


@describe_content.register
def _describe_api(content: events.ApiExported) -> str:
    return f"{_describe_variant(content.blinded)}, by API token {content.token}"


@describe_content.register
def _describe_machine_requested(content: events.MachineOrdered) -> str:
    content_shown = "payload and context" if content.with_context else "payload alone"
    return f"{content.rater}, {content.name}: {content.items} items to rate, {content_shown}"


@describe_content.register
def _describe_machine_rated(content: events.MachineRated) -> str:
    failed = "".join(f", {number} {reason.replace('_', ' ')}" for reason, number in sorted(content.failed.items()))
    return f"{content.rater}, {content.name}: {content.rated} of {content.items} items rated{failed}"


@describe_content.register
def _describe_items_reassigned(content: events.ItemsTakenBack) -> str:
    if content.rater:
        elsewhere = f"who can see {format_count(content.items, 'item')} in another study or in the laboratory"
        return f"{content.rater}, {elsewhere}: not assigned to them"
    parts = (
        [f"{format_count(content.items, 'item')} not assigned to raters who can see them elsewhere"]
        if content.items
        else []
    )
    if content.incomplete:
        parts.append(f"{format_count(content.incomplete, 'case')} of the crossover left incomplete")
    return "; ".join(filter(None, [*parts, _describe_left(content.left)]))


def _describe_left(left: int) -> str:
    return f"{format_count(left, 'item')} unassigned until another rater is added" if left else ""


def _describe_variant(blinded: bool) -> str:
    return "blinded" if blinded else "with sources"


def _count_without_separator(number: int, noun: str) -> str:
    """Return a count such as "2000 items"."""
    # `format_count` is not used, because it writes 2,000: in logs and archives, these sentences have never had a separator.
    return f"{number} {noun}{'s' * (number != 1)}"


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
        LogLine(row.at, row.by, title_event(row.kind, row.typed_content), describe_event(row.typed_content, names))
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
