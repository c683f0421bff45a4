"""Raters and events as rows: pseudonymous, without addresses, accounts or names."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from django.db.models import Case, Count, F, Q, When

from ratings.exchange.archive import fields
from ratings.exchange.archive.archive_files import ArchiveFile, create_table_file
from ratings.models import PracticeAnswer, Rater, RatingEvent, Study
from ratings.models.study_events import Content, ItemsImported, LegacyText
from ratings.results import event_sentences

# An allow-list. An archive has no details of any other event, because they may be about accounts or name a person.
_KINDS_WITH_DETAILS = (
    "opened", "reopened", "guide", "invited", "joined", "withdrawn", "erased", "simulated", "replanned", "items added",
    "items imported", "ratings imported", "looked", "machine", "reminded",
)  # fmt: skip

RATER_GROUPS = ("person", "simulated", "imported", "simulated, imported")
IMPORTED_GROUPS = {"imported", "simulated, imported"}


def create_raters_file(study: Study) -> ArchiveFile:
    """Return raters.csv: all raters and open rater places, by label."""
    description = "One row for each rater place: who rates (person, simulated or imported) and their progress. No names, no addresses."
    return create_table_file(
        "raters.csv", description, fields.RATER_FIELDS, lambda: _iter_rater_rows(study), key=("rater",)
    )


def create_events_file(study: Study, blinded: bool) -> ArchiveFile:
    """Return events.csv: the study's log and every version of every rating, by time."""
    description = (
        "The study's activity log and every version of every rating, in order of time; staff members are not named."
    )
    return create_table_file("events.csv", description, fields.EVENT_FIELDS, lambda: _iter_event_rows(study, blinded))


def _iter_rater_rows(study: Study) -> Iterator[tuple[Any, ...]]:
    # counted in Python: one more join would multiply the rows that the other counts are computed from
    practice_results: dict[int, Counter[bool]] = defaultdict(Counter)
    for rater_id, right in PracticeAnswer.objects.filter(rater__study=study).values_list("rater_id", "right"):
        practice_results[rater_id][right] += 1
    counted = Q(assignments__released_at__isnull=True, assignments__surplus=False)
    first_items, with_rating = counted & Q(assignments__occasion=1), Q(assignments__rating__isnull=False)
    raters = study.raters.annotate(
        n_items=Count("assignments", filter=first_items),
        n_rated=Count("assignments", filter=first_items & with_rating),
        n_unsure=Count("assignments", filter=first_items & Q(assignments__rating__cannot_judge=True)),
        n_again=Count("assignments", filter=counted & with_rating & Q(assignments__occasion=2)),
    )
    for rater in raters.order_by("number", "pk").iterator(chunk_size=500):
        yield _format_rater_row(rater, practice_results[rater.pk])


def _format_rater_row(rater: Any, practised: Counter[bool]) -> tuple[Any, ...]:
    if rater.dropped:
        # The protocol drops the ratings of this rater, so numbers derived from them are dropped too.
        return (rater.label, get_rater_group(rater), *[None] * 4, rater.withdrawn_at, True, *[None] * 7)
    return (
        rater.label, get_rater_group(rater), rater.consented_at, rater.practised_at, rater.started_at, rater.finished_at,
        rater.withdrawn_at, False, rater.guide_seen or None, rater.n_items, rater.n_rated, rater.n_unsure, rater.n_again,
        practised[True], practised.total(),
    )  # fmt: skip


def get_rater_group(rater: Rater) -> str:
    """Return the rater's group: "person", "simulated", "imported" or "simulated, imported"."""
    return ", ".join(filter(None, ("simulated" * rater.simulated, "imported" * bool(rater.imported_as)))) or "person"


def _iter_event_rows(study: Study, blinded: bool) -> Iterator[tuple[Any, ...]]:
    log_entries = study.events.exclude(kind="exported").order_by("at", "pk")
    study_rows = (
        (row.at, "study", row.kind, None, None, None, None, _describe_detail(row.typed_content, blinded))
        for row in log_entries
    )
    # both are sorted by time, so merging needs one row of each in memory
    return heapq.merge(study_rows, _iter_version_events(study, blinded), key=lambda row: row[0])


def _describe_detail(content: Content | LegacyText, blinded: bool) -> str:
    """Return the details of an event in words, or "" if an archive must not contain them.

    Sentences of earlier releases that could not be converted are left out: they may name a person.
    """
    if isinstance(content, LegacyText) or content.kind not in _KINDS_WITH_DETAILS:
        return ""
    # the names of the sources of imported items are sealed; their number is not
    if blinded and isinstance(content, ItemsImported):
        content = content.model_copy(update={"sources": ()})
    return event_sentences.describe_content(content)


def _iter_version_events(study: Study, blinded: bool) -> Iterator[tuple[Any, ...]]:
    prefix = "assignment__"
    # several versions may have the same time (an import): the other columns make the order reproducible
    versions = select_versions(study, blinded).order_by("at", f"{prefix}rater__number", f"{prefix}position", "revision")
    columns = ("at", "kind", f"{prefix}rater__label", "code", f"{prefix}occasion", "revision")
    for time, kind, *rest in versions.values_list(*columns).iterator(chunk_size=500):
        yield (time, kind, "", *rest, "")


def select_versions(study: Study, blinded: bool) -> Any:
    """Return every version of every answer, with its item's code as `code`. Answers of dropped raters are left out.

    In the blinded variant, versions of imported ratings have no code: the person who imported them knows what each row
    is about.
    """
    events = RatingEvent.objects.filter(assignment__item__study=study, assignment__rater__dropped=False)
    item = F("assignment__item__code")
    return events.annotate(code=Case(When(~Q(kind="imported"), then=item)) if blinded else item)
