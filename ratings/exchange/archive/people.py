"""Raters and events as rows: pseudonymous, without addresses, accounts or anybody's name."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from django.db.models import Case, Count, F, Q, When

from ratings.exchange.archive import fields
from ratings.exchange.archive.entries import Entry, table
from ratings.models import PracticeAnswer, Rater, RatingEvent, Study
from ratings.models.study_events import Content, ItemsImported, LegacyText
from ratings.results import event_sentences

# Events about accounts, and kinds that may name a person, have no details in an archive.
_HARMLESS = (
    "opened", "reopened", "guide", "invited", "joined", "withdrawn", "erased", "simulated", "replanned", "items added",
    "items imported", "ratings imported", "looked", "machine", "reminded",
)  # fmt: skip

WHO = ("person", "simulated", "imported", "simulated, imported")
ELSEWHERE = {"imported", "simulated, imported"}


def raters(study: Study) -> Entry:
    """Everybody with a seat, by label."""
    says = (
        "One row for each seat: who rates (person, simulated or imported), how far they came. No names, no addresses."
    )
    return table("raters.csv", says, fields.RATERS, lambda: _raters(study), key=("rater",))


def events(study: Study, blinded: bool) -> Entry:
    """The study's log and every version of every rating in order of time."""
    says = "The study's log and every version of a rating, in order of time; who of the staff did it is left out."
    return table("events.csv", says, fields.EVENTS, lambda: _events(study, blinded))


def _raters(study: Study) -> Iterator[tuple[Any, ...]]:
    practised: dict[int, Counter[bool]] = defaultdict(Counter)
    for rater, right in PracticeAnswer.objects.filter(rater__study=study).values_list("rater_id", "right"):
        practised[rater][right] += 1
    live = Q(assignments__released_at__isnull=True, assignments__surplus=False)
    first, rated = live & Q(assignments__occasion=1), Q(assignments__rating__isnull=False)
    seats = study.raters.annotate(
        n_items=Count("assignments", filter=first),
        n_rated=Count("assignments", filter=first & rated),
        n_unsure=Count("assignments", filter=first & Q(assignments__rating__cannot_judge=True)),
        n_again=Count("assignments", filter=live & rated & Q(assignments__occasion=2)),
    )
    for seat in seats.order_by("number", "pk").iterator(chunk_size=500):
        yield _seat(seat, practised[seat.pk])


def _seat(seat: Any, practised: Counter[bool]) -> tuple[Any, ...]:
    if seat.dropped:
        return (seat.label, who(seat), *[None] * 4, seat.withdrawn_at, True, *[None] * 7)
    return (
        seat.label, who(seat), seat.consented_at, seat.practised_at, seat.started_at, seat.finished_at,
        seat.withdrawn_at, False, seat.guide_seen or None, seat.n_items, seat.n_rated, seat.n_unsure, seat.n_again,
        practised[True], practised.total(),
    )  # fmt: skip


def who(seat: Rater) -> str:
    """One of WHO."""
    return ", ".join(filter(None, ("simulated" * seat.simulated, "imported" * bool(seat.imported_as)))) or "person"


def _events(study: Study, blinded: bool) -> Iterator[tuple[Any, ...]]:
    log = study.events.exclude(kind="exported").order_by("at", "pk")
    told = ((row.at, "study", row.kind, None, None, None, None, _detail(row.content, blinded)) for row in log)
    return heapq.merge(told, _rated(study, blinded), key=lambda row: row[0])


def _detail(content: Content | LegacyText, blinded: bool) -> str:
    """Return the details in words. Blinded, imported items have their number only: the names of their sources are sealed.

    The sentences of earlier releases that could not be converted are left out: nothing shows whom they name.
    """
    if isinstance(content, LegacyText) or content.kind not in _HARMLESS:
        return ""
    if blinded and isinstance(content, ItemsImported):
        content = content.model_copy(update={"sources": ()})
    return event_sentences.describe_content(content)


def _rated(study: Study, blinded: bool) -> Iterator[tuple[Any, ...]]:
    place = "assignment__"
    found = versions_of(study, blinded).order_by("at", f"{place}rater__number", f"{place}position", "revision")
    columns = ("at", "kind", f"{place}rater__label", "code", f"{place}occasion", "revision")
    for at, kind, *rest in found.values_list(*columns).iterator(chunk_size=500):
        yield (at, kind, "", *rest, "")


def versions_of(study: Study, blinded: bool) -> Any:
    """Every version of every answer with `code`, its item's; those of dropped raters are left out.

    Blinded, imported ones have no code: whoever imported them knows what their rows are of.
    """
    events = RatingEvent.objects.filter(assignment__item__study=study, assignment__rater__dropped=False)
    item = F("assignment__item__code")
    return events.annotate(code=Case(When(~Q(kind="imported"), then=item)) if blinded else item)
