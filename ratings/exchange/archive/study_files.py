"""The study's own tables: ratings (long and wide), their versions, items, raters, events, and the ratings of model raters."""

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from django.db.models import Case, Count, F, Q, Value, When

from ratings.exchange.archive import archive_files
from ratings.exchange.archive.archive_files import ArchiveFile, create_table_file
from ratings.exchange.exports import RATING_FIELDS, Field, iter_rating_lines
from ratings.models import Item, MachineRating, PracticeAnswer, Rater, Rating, RatingEvent, Study
from ratings.models.study_events import Content, ItemsImported, LegacyText
from ratings.protocol.reference import public_perturbation
from ratings.raters import model_raters
from ratings.results import study_log
from ratings.results.rating_rows import BlindRow, RatingRow, iter_blind_rows, iter_rating_rows
from ratings.studies import SealedError

# An allow-list. An archive has no details of any other event, because they may be about accounts or name a person.
_KINDS_WITH_DETAILS = (
    "opened", "reopened", "guide", "invited", "joined", "withdrawn", "erased", "simulated", "replanned", "items added",
    "items imported", "ratings imported", "looked", "machine", "reminded",
)  # fmt: skip

RATER_GROUPS = ("person", "simulated", "imported", "simulated, imported")
IMPORTED_GROUPS = {"imported", "simulated, imported"}
_CHUNK_SIZE = 500  # rows fetched at once from the server-side cursor
Cells = tuple[Any, ...]


def list_common_files(study: Study, blinded: bool) -> list[ArchiveFile]:
    """Return the tables of both variants. Columns are the same; sealed columns are empty in the blinded variant."""
    labels = _list_counted_raters(study, blinded)
    rater_fields = [
        field
        for label in labels
        for field in (
            Field(f"{label}_verdict", "flag", f"verdict of {label}: 1 or 0; empty: not rated, or could not judge"),
            Field(f"{label}_confidence", "count", f"confidence of {label}, 1 to 5"),
        )
    ]
    return [
        ArchiveFile(
            "ratings.csv",
            "One row for each rating, including those that are not counted (counts is 0). For ratings that count, import_ratings "
            "imports into another copy of this study: item, verdict, confidence, submitted_at, seconds"
            + (" and simulated. Imported ratings are left out because their items are not named before unblinding; there are no notes."
               if blinded else ", note and simulated."),
            lambda: iter_rating_lines(study, blinded),
            RATING_FIELDS,
        ),
        create_table_file(
            "ratings_wide.csv",
            "One row for each rated item, two columns for each rater; only ratings that count"
            + (", without imported ones, whose items are not named before unblinding." if blinded else "."),
            (*archive_files.WIDE_FIELDS, *rater_fields),
            lambda: _iter_wide_rows(study, blinded, labels),
        ),
        create_table_file(
            "versions.csv",
            "Every version of every rating; ratings.csv contains the last version of each.",
            archive_files.VERSION_FIELDS,
            lambda: _iter_version_rows(study, blinded),
        ),
        create_table_file(
            "items.csv",
            "One row for each item"
            + (": its code and its number of ratings collected here." if blinded else ", with its source and planted error."),
            archive_files.ITEM_FIELDS,
            lambda: _iter_item_rows(study, blinded),
            key=("item",),
        ),
        create_table_file(
            "raters.csv",
            "One row for each rater place: who rates (person, simulated or imported) and their progress. No names, no addresses.",
            archive_files.RATER_FIELDS,
            lambda: _iter_rater_rows(study),
            key=("rater",),
        ),
        create_table_file(
            "events.csv",
            "The study's activity log and every version of every rating, in order of time; staff members are not named.",
            archive_files.EVENT_FIELDS,
            lambda: _iter_event_rows(study, blinded),
        ),
    ]  # fmt: skip


def list_unblinded_files(study: Study) -> list[ArchiveFile]:
    """Return the files that only the unblinded archive has. Raises SealedError before unblinding."""
    if not study.is_unblinded:
        raise SealedError(
            f"{study.name} is {study.status}; the contents of its items are exported once it is unblinded"
        )
    return [
        ArchiveFile(
            "items.jsonl",
            "What raters saw of each item, one JSON object per line: item (its code), payload, context (empty: never shown).",
            lambda: _iter_payload_lines(study),
        ),
        create_table_file(
            "machine_raters.csv",
            "Model raters that rated the same items. Numbers on people never include their ratings.",
            archive_files.MACHINE_RATER_FIELDS,
            lambda: _iter_model_rater_rows(study),
            key=("rater",),
        ),
        create_table_file(
            "machine_ratings.csv",
            "The verdict of each model rater on each item, or the reason why there is none.",
            archive_files.MACHINE_RATING_FIELDS,
            lambda: _iter_model_rating_rows(study),
            key=("rater", "item"),
        ),
    ]


def _list_counted_raters(study: Study, blinded: bool) -> list[str]:
    counted = study.raters.filter(
        dropped=False, assignments__rating__isnull=False, assignments__occasion=1,
        assignments__released_at__isnull=True, assignments__surplus=False,
    )  # fmt: skip
    if blinded:
        # before unblinding, imported ratings have no item code, so they fit no row of the wide table
        counted = counted.filter(imported_as="")
    return list(counted.order_by("number", "pk").values_list("label", flat=True).distinct())


def _iter_wide_rows(study: Study, blinded: bool, labels: Sequence[str]) -> Iterator[list[Any]]:
    """Yield one row of the wide table per item. Only one item is in memory at a time."""
    first_column = {label: 2 * index for index, label in enumerate(labels)}
    rows: Iterator[BlindRow] = iter_blind_rows(study) if blinded else iter_rating_rows(study)
    counting = (row for row in rows if row.counts and row.rater in first_column)  # no imported raters if blinded
    # both queries are ordered by item, as groupby needs
    for _, item_rows in groupby(counting, key=lambda row: row.item):
        cells: list[Any] = [None] * (2 * len(labels))
        n_ratings = n_unsure = 0
        for row in item_rows:
            n_ratings, n_unsure = n_ratings + 1, n_unsure + row.cannot_judge
            cells[first_column[row.rater]], cells[first_column[row.rater] + 1] = row.verdict, row.confidence
        yield [row.item, *_get_sealed_cells(row), n_ratings, n_unsure, *cells]


def _get_sealed_cells(row: BlindRow) -> Cells:
    if not isinstance(row, RatingRow):
        return (None,) * 7
    perturbation = public_perturbation(row.perturbation, row.reference)
    return row.pair, row.source, perturbation, row.reference, row.truth, row.experiment, row.action


def _iter_version_rows(study: Study, blinded: bool) -> Iterator[Cells]:
    # NULL codes sort differently in SQLite and PostgreSQL, hence the explicit nulls_last
    order = (
        F("code").asc(nulls_last=True), "assignment__rater__number", "assignment__occasion", "assignment__position", "revision",
    )  # fmt: skip
    columns = (
        "code", "assignment__rater__label", "assignment__occasion", "revision", "kind", "verdict", "confidence", "cannot_judge",
        "marks", "visible_note", "active_seconds", "at",
    )  # fmt: skip
    versions = _select_versions(study, blinded).annotate(visible_note=Value("") if blinded else F("note"))
    return iter(versions.order_by(*order).values_list(*columns).iterator(chunk_size=_CHUNK_SIZE))


def _select_versions(study: Study, blinded: bool) -> Any:
    """Return every version of every answer of raters not dropped; blinded, imported ones have no `code`."""
    events = RatingEvent.objects.filter(assignment__item__study=study, assignment__rater__dropped=False)
    item = F("assignment__item__code")
    return events.annotate(code=Case(When(~Q(kind="imported"), then=item)) if blinded else item)


def _iter_item_rows(study: Study, blinded: bool) -> Iterator[Cells]:
    """Yield items by code, which is random."""
    counts = _count_item_ratings(study, blinded)
    items = Item.objects.filter(study=study).order_by("code")
    if blinded:
        # Neither sources nor payloads are read: the person who generated an item could recognise it by them.
        for pk, code in items.values_list("pk", "code").iterator(chunk_size=_CHUNK_SIZE):
            yield (code, *[None] * 13, *counts.get(pk, (0, 0)), None)
        return
    # In the order of ITEM_FIELDS.
    columns = (
        "pk", "code", "source__pair", "source__label", "source__perturbation", "source__twin__kind", "source__twin__deviation",
        "source__reference", "source__truth", "source__experiment", "source__action", "source__target", "source__verdicts",
        "source__imported__key", "payload_sha256", "name",
    )  # fmt: skip
    for row in items.values_list(*columns).iterator(chunk_size=_CHUNK_SIZE):
        pk, *cells, name = row
        cells[3] = public_perturbation(cells[3], cells[6])
        cells[10] = cells[10] or None
        cells[11] = json.dumps(cells[11], sort_keys=True, ensure_ascii=False) if cells[11] else None
        yield (*cells, *counts.get(pk, (0, 0)), name or None)


def _count_item_ratings(study: Study, blinded: bool) -> dict[int, tuple[int, int]]:
    """Return, for each item, the number of counted ratings and how many of them are "cannot judge"."""
    counted = Rating.objects.filter(
        assignment__item__study=study, assignment__occasion=1, assignment__released_at__isnull=True,
        assignment__surplus=False, assignment__rater__dropped=False,
    )  # fmt: skip
    if blinded:
        # the person who imported ratings knows which items they belong to; higher counts would reveal their codes
        counted = counted.filter(imported=False)
    n_unsure = Count("pk", filter=Q(cannot_judge=True))
    counts = counted.order_by().values_list("assignment__item").annotate(n=Count("pk"), unsure=n_unsure)
    return {item: (n, n_unknown) for item, n, n_unknown in counts}


def _iter_payload_lines(study: Study) -> Iterator[str]:
    items = Item.objects.filter(study=study).order_by("code").values_list("code", "payload", "context")
    for code, payload, context in items.iterator(chunk_size=_CHUNK_SIZE):
        line = {"item": str(code), "payload": payload, "context": context}
        yield json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n"


def _iter_rater_rows(study: Study) -> Iterator[Cells]:
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
    for rater in raters.order_by("number", "pk").iterator(chunk_size=_CHUNK_SIZE):
        practised = practice_results[rater.pk]
        if rater.dropped:
            # The protocol drops the ratings of this rater, so numbers derived from them are dropped too.
            yield (rater.label, get_rater_group(rater), *[None] * 4, rater.withdrawn_at, True, *[None] * 7)
            continue
        yield (
            rater.label, get_rater_group(rater), rater.consented_at, rater.practised_at, rater.started_at, rater.finished_at,
            rater.withdrawn_at, False, rater.guide_seen or None, rater.n_items, rater.n_rated, rater.n_unsure, rater.n_again,
            practised[True], practised.total(),
        )  # fmt: skip


def get_rater_group(rater: Rater) -> str:
    """Return the rater's group: "person", "simulated", "imported" or "simulated, imported"."""
    return ", ".join(filter(None, ("simulated" * rater.simulated, "imported" * bool(rater.imported_as)))) or "person"


def _iter_event_rows(study: Study, blinded: bool) -> Iterator[Cells]:
    study_rows = (
        (row.at, "study", row.kind, None, None, None, None, _describe_detail(row.typed_content, blinded))
        for row in study.events.exclude(kind="exported").order_by("at", "pk")
    )
    # several versions may have the same time (an import): the other columns make the order reproducible
    versions = _select_versions(study, blinded).order_by(
        "at", "assignment__rater__number", "assignment__position", "revision"
    )
    columns = ("at", "kind", "assignment__rater__label", "code", "assignment__occasion", "revision")
    version_rows = (
        (time, kind, "", *rest, "")
        for time, kind, *rest in versions.values_list(*columns).iterator(chunk_size=_CHUNK_SIZE)
    )
    # both are sorted by time, so merging needs one row of each in memory
    return heapq.merge(study_rows, version_rows, key=lambda row: row[0])


def _describe_detail(content: Content | LegacyText, blinded: bool) -> str:
    """Return the details of an event in words; "" for sentences of earlier releases, which may name a person."""
    if isinstance(content, LegacyText) or content.kind not in _KINDS_WITH_DETAILS:
        return ""
    # the names of the sources of imported items are sealed; their number is not
    if blinded and isinstance(content, ItemsImported):
        content = content.model_copy(update={"sources": ()})
    return study_log.describe_content(content)


def _iter_model_rater_rows(study: Study) -> Iterator[Cells]:
    names = model_raters.list_names(study)
    for rater in study.machine_raters.order_by("pk"):
        model, progress = names[rater.label], model_raters.count_progress(rater)
        prompt_set = rater.setup.get("prompt_set") or {}
        prompts = f"{prompt_set['name']}@{prompt_set['sha256'][:12]}" if prompt_set else ""
        display, failed = model_raters.describe_input(rater), sum(progress.failed.values())
        yield rater.label, model.name, model.kind, rater.cast, display, prompts, progress.rated, failed


def _iter_model_rating_rows(study: Study) -> Iterator[Cells]:
    model_ratings = MachineRating.objects.filter(rater__study=study).order_by("rater", "item__code")
    columns = (
        "rater__label", "item__code", "verdict", "confidence", "marks", "failed", "reasoning", "payload_sha256", "at",
    )  # fmt: skip
    return iter(model_ratings.values_list(*columns).iterator(chunk_size=_CHUNK_SIZE))
