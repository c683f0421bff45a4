"""The activity log of a study in words: for pages, the admin site and archives.

These are functions and not templates: archives need plain text, and a type checker sees every field that a sentence
uses. Pages escape the result like any text. Nothing parses these sentences, so they can be changed or translated freely.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

from django.contrib.auth.models import User

from ratings.models import StudyEvent
from ratings.models import study_events as events
from ratings.models.study_events import Content, LegacyText
from ratings.protocol.plan_types import IdenticalCases
from ratings.results.analyses.filters import Filters
from ratings.studies import designs
from wetbench_site.text import format_count

# Erasing a rater also deletes the username, so the log must not show it again.
ERASED = "erased"  # shown instead of the username once the personal data was erased
_TITLES = {
    "guide": "guide revised", "member": "role granted", "machine": "model rater", "looked": "interim analysis",
    "quarantine": "quarantine decided", "taken back": "items reassigned",
}  # fmt: skip
_PUBLIC_PAGE_CHANGES = {
    "text": "text changed",
    "on": "turned on",
    "off": "turned off",
    "link": "new link; the old one no longer works",
}
_ROLES = {"admin": "study admin", "analyst": "analyst"}


class LogLine(NamedTuple):
    """One event of the log, as text for pages."""

    time: datetime
    by: User | None
    title: str
    description: str


def describe_events(study_events: Iterable[StudyEvent]) -> list[LogLine]:
    """Return a log line for each event, in the given order. One query loads the names of all accounts."""
    rows = [(row, row.typed_content) for row in study_events]
    # A log can have thousands of events but refers to few accounts, so one query loads all of them.
    numbers = {content.account for _, content in rows if isinstance(content, events.MemberChanged)}
    accounts = User.objects.filter(pk__in=numbers).values_list("pk", "username", "rater_profile__erased_at")
    names = {number: ERASED if erased_at else username for number, username, erased_at in accounts} if numbers else {}
    return [
        LogLine(row.at, row.by, title_event(row.kind, content), describe_event(content, names)) for row, content in rows
    ]


def title_event(kind: str, content: Content | LegacyText) -> str:
    """Return a title of two or three words for an event."""
    if isinstance(content, events.MemberChanged) and not content.granted:
        return "role removed"
    if isinstance(content, LegacyText) and kind == "member":
        return kind  # old events do not record whether a role was granted or removed
    return _TITLES.get(kind, kind)


def title_kind(kind: str) -> str:
    """Return a title for all events of a kind."""
    return "role" if kind == "member" else _TITLES.get(kind, kind)


def describe_event(content: Content | LegacyText, names: Mapping[int, str]) -> str:
    """Return the details of an event as text. `names`: current usernames by account number, if they exist."""
    if isinstance(content, events.MemberChanged):
        who = f"{names.get(content.account, 'deleted')} (account {content.account})"
        return f"{who} is {_ROLES[content.role]}" if content.granted and content.role else f"{who} no longer has a role"
    return describe_content(content)


def describe_content(content: Content | LegacyText) -> str:
    """Return the details of an event that names no account; "" if there are none."""
    match content:
        case LegacyText():
            return content.text
        case events.Edited():
            return content.part
        case events.Duplicated():
            return f"from {content.source}"
        case events.Opened():
            return _join(
                f"{format_count(content.items, 'item')}, {format_count(content.raters, 'rater')}",
                f"{format_count(content.left_out, 'item')} of unblinded studies left out" if content.left_out else "",
                f"{format_count(content.shown, 'item')} of episodes that are part of unblinded studies" if content.shown else "",
                designs.describe_identical_cases(IdenticalCases(content.identical_cases, content.cases)),
            )  # fmt: skip
        case events.Reopened():
            assigned = f"{format_count(content.dealt, 'item')} assigned" if content.dealt else ""
            return _join(assigned, _describe_left(content.left))
        case events.GuideRevised():
            return f"version {content.version}"
        case events.Invited():
            remarks = {"invited": "", "sign_in_again": ", to sign in again", "revoked": ", revoked"}
            return content.rater + remarks[content.step]
        case events.Reminded():
            return _count_without_separator(content.raters, "rater")
        case events.Joined() | events.Erased():
            return content.rater
        case events.Withdrawn():
            rule = "ratings discarded" if content.dropped else "ratings kept"
            reassigned = f"{format_count(content.dealt, 'item')} reassigned to others"
            return _join(f"{content.rater}, {rule}", reassigned, _describe_left(content.left))
        case events.Simulated():
            return f"{', '.join(content.raters)}, seed {content.seed}"
        case events.RatersAdded():
            return f"{', '.join(content.added)} added, with {format_count(content.items, 'item')}"
        case events.RatersReplanned():
            return f"open rater places: {content.free} became {content.raters}"
        case events.ItemsAdded():
            return _join(format_count(content.items, "item"), _describe_left(content.left))
        case events.ItemsImported():
            # Blinded archives leave the sources out.
            sources = ", ".join(content.sources)
            return _count_without_separator(content.items, "item") + (f": {sources}" if sources else "")
        case events.ImportsRemoved():
            return f"all {content.removed} removed"
        case events.RatingsImported():
            raters = _count_without_separator(content.raters, "rater")
            return f"{_count_without_separator(content.ratings, 'rating')} by {raters}"
        case events.QuarantineDecided():
            things = "; ".join(f"“{name}”, {meaning}" for name, meaning in content.things)
            decision = f"{content.decision} {content.digest}: {content.reason or 'no reason given'}"
            return _join(decision, f"declared as things in the laboratory: {things}" if things else "")
        case events.Audited():
            return f"blinding audit {'passed' if content.passed else 'failed: leaks found'}"
        case events.InterimLook():
            moment = "before the first snapshot"
            if content.ratings:
                moment = f"at {content.ratings} of {content.planned} planned ratings"
            return f"{moment}: {content.shown} of {content.sources} sources shown"
        case events.InterimLookBySource():
            shown = f"{content.shown} of {content.sources} sources"
            return f"interim analysis: {shown} with at least {content.least} ratings"
        case events.TableExported():
            filters = Filters.from_dict(content.filters).description if content.filters else content.filters_text
            return f"{_describe_variant(content.blinded)}. {filters}".rstrip(". ")
        case events.ArchiveExported():
            hashed_file = " of SHA256SUMS" if content.of == "SHA256SUMS" else ""
            return f"archive, {_describe_variant(content.blinded)}, SHA-256 {content.sha256}{hashed_file}"
        case events.ApiExported():
            return f"{_describe_variant(content.blinded)}, by API token {content.token}"
        case events.MachineOrdered():
            shown = "payload and context" if content.with_context else "payload alone"
            return f"{content.rater}, {content.name}: {content.items} items to rate, {shown}"
        case events.MachineRated():
            failures = sorted(content.failed.items())
            failed = "".join(f", {number} {reason.replace('_', ' ')}" for reason, number in failures)
            return f"{content.rater}, {content.name}: {content.rated} of {content.items} items rated{failed}"
        case events.PublicPageChanged():
            return _PUBLIC_PAGE_CHANGES[content.change]
        case events.ItemsTakenBack():
            items = format_count(content.items, "item")
            if content.rater:
                elsewhere = f"who can see {items} in another study or in the laboratory"
                return f"{content.rater}, {elsewhere}: not assigned to them"
            return _join(
                f"{items} not assigned to raters who can see them elsewhere" if content.items else "",
                f"{format_count(content.incomplete, 'case')} of the crossover left incomplete" if content.incomplete else "",
                _describe_left(content.left),
            )  # fmt: skip
    return ""  # other events, such as paused and resumed, have no details


def _join(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _describe_left(left: int) -> str:
    return f"{format_count(left, 'item')} unassigned until another rater is added" if left else ""


def _describe_variant(blinded: bool) -> str:
    return "blinded" if blinded else "with sources"


def _count_without_separator(number: int, noun: str) -> str:
    """Return a count such as "2000 items"."""
    # `format_count` is not used, because it writes 2,000: in logs and archives, these sentences have never had a separator.
    return f"{number} {noun}{'s' * (number != 1)}"
