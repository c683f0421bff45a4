"""The study's own tables: ratings (long and wide), their versions, items, and the ratings of model raters."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from django.db.models import Count, F, Q, Value

from ratings.exchange import exports
from ratings.exchange.archive import fields, raters_and_events
from ratings.exchange.archive.archive_files import ArchiveFile, create_table_file
from ratings.exchange.archive.fields import Field
from ratings.models import Item, MachineRating, Rating, Study
from ratings.protocol.reference import public_perturbation
from ratings.raters.machines import model_raters
from ratings.results import BlindRow, RatingRow, iter_blind_rows, iter_rating_rows
from ratings.studies import SealedError

_CHUNK_SIZE = 500  # rows fetched at once from the server-side cursor


def list_common_files(study: Study, blinded: bool) -> list[ArchiveFile]:
    """Return the tables of both variants. Columns are the same; sealed columns are empty in the blinded variant."""
    return [
        _create_ratings_file(study, blinded),
        _create_wide_file(study, blinded),
        _create_versions_file(study, blinded),
        _create_items_file(study, blinded),
        raters_and_events.create_raters_file(study),
        raters_and_events.create_events_file(study, blinded),
    ]


def list_unblinded_files(study: Study) -> list[ArchiveFile]:
    """Return the files that only the unblinded archive has. Raises SealedError before unblinding."""
    if not study.is_unblinded:
        raise SealedError(
            f"{study.name} is {study.status}; the contents of its items are exported once it is unblinded"
        )
    description = "What raters saw of each item, one JSON object per line: item (its code), payload, context (empty: never shown)."
    return [
        ArchiveFile("items.jsonl", description, lambda: _iter_payload_lines(study)),
        create_table_file(
            "machine_raters.csv",
            "Model raters that rated the same items. Numbers on people never include their ratings.",
            fields.MACHINE_RATER_FIELDS,
            lambda: _iter_model_rater_rows(study),
            key=("rater",),
        ),
        create_table_file(
            "machine_ratings.csv",
            "The verdict of each model rater on each item, or the reason why there is none.",
            fields.MACHINE_RATING_FIELDS,
            lambda: _iter_model_rating_rows(study),
            key=("rater", "item"),
        ),
    ]


def _create_ratings_file(study: Study, blinded: bool) -> ArchiveFile:
    columns = exports.COLUMNS
    description = (
        "One row for each rating, including those that are not counted (counts is 0). For ratings that count, import_ratings "
        "imports into another copy of this study: item, verdict, confidence, submitted_at, seconds"
    ) + (
        " and simulated. Imported ratings are left out because their items are not named before unblinding; there are no notes."
        if blinded
        else ", note and simulated."
    )
    iter_cells = exports.iter_rating_cells
    return create_table_file(
        "ratings.csv",
        description,
        fields.RATING_FIELDS,
        lambda: ([row[name] for name in columns] for row in iter_cells(study, blinded)),
    )


def _create_wide_file(study: Study, blinded: bool) -> ArchiveFile:
    labels = _list_counted_raters(study, blinded)
    rater_fields = [
        field
        for label in labels
        for field in (
            Field(f"{label}_verdict", "flag", f"verdict of {label}: 1 or 0; empty: not rated, or could not judge"),
            Field(f"{label}_confidence", "count", f"confidence of {label}, 1 to 5"),
        )
    ]
    description = "One row for each rated item, two columns for each rater; only ratings that count" + (
        ", without imported ones, whose items are not named before unblinding." if blinded else "."
    )
    return create_table_file(
        "ratings_wide.csv",
        description,
        (*fields.WIDE_FIELDS, *rater_fields),
        lambda: _iter_wide_rows(study, blinded, labels),
    )


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


def _get_sealed_cells(row: BlindRow) -> tuple[Any, ...]:
    if not isinstance(row, RatingRow):
        return (None,) * 7
    perturbation = public_perturbation(row.perturbation, row.reference)
    return row.pair, row.source, perturbation, row.reference, row.truth, row.experiment, row.action


def _create_versions_file(study: Study, blinded: bool) -> ArchiveFile:
    description = "Every version of every rating; ratings.csv contains the last version of each."
    return create_table_file(
        "versions.csv", description, fields.VERSION_FIELDS, lambda: _iter_version_rows(study, blinded)
    )


def _iter_version_rows(study: Study, blinded: bool) -> Iterator[tuple[Any, ...]]:
    prefix = "assignment__"
    # NULL codes sort differently in SQLite and PostgreSQL, hence the explicit nulls_last
    order = (
        F("code").asc(nulls_last=True),
        f"{prefix}rater__number",
        f"{prefix}occasion",
        f"{prefix}position",
        "revision",
    )
    versions = (
        raters_and_events.select_versions(study, blinded)
        .annotate(visible_note=Value("") if blinded else F("note"))
        .order_by(*order)
    )
    columns = (
        "code", f"{prefix}rater__label", f"{prefix}occasion", "revision", "kind", "verdict", "confidence", "cannot_judge",
        "marks", "visible_note", "active_seconds", "at",
    )  # fmt: skip
    return iter(versions.values_list(*columns).iterator(chunk_size=_CHUNK_SIZE))


def _create_items_file(study: Study, blinded: bool) -> ArchiveFile:
    description = "One row for each item" + (
        ": its code and its number of ratings collected here." if blinded else ", with its source and planted error."
    )
    return create_table_file(
        "items.csv", description, fields.ITEM_FIELDS, lambda: _iter_item_rows(study, blinded), key=("item",)
    )


def _iter_item_rows(study: Study, blinded: bool) -> Iterator[tuple[Any, ...]]:
    """Yield items by code, which is random."""
    counts = _count_item_ratings(study, blinded)
    items = Item.objects.filter(study=study).order_by("code")
    if blinded:
        # Neither sources nor payloads are read: the person who generated an item could recognise it by them.
        for pk, code in items.values_list("pk", "code").iterator(chunk_size=_CHUNK_SIZE):
            yield (code, *[None] * 12, *counts.get(pk, (0, 0)))
        return
    columns = (
        "pk", "code", "source__pair", "source__label", "source__perturbation", "source__twin__kind", "source__reference",
        "source__truth", "source__experiment", "source__action", "source__target", "source__verdicts",
        "source__imported__key", "payload_sha256",
    )  # fmt: skip
    for row in items.values_list(*columns).iterator(chunk_size=_CHUNK_SIZE):
        (
            pk,
            code,
            pair,
            label,
            perturbation,
            error_kind,
            reference,
            *more_source_cells,
            target,
            verdicts,
            imported_id,
            digest,
        ) = row
        classifier_cells = json.dumps(verdicts, sort_keys=True, ensure_ascii=False) if verdicts else None
        source_cells = pair, label, public_perturbation(perturbation, reference), error_kind, reference
        yield (
            code,
            *source_cells,
            *more_source_cells,
            target or None,
            classifier_cells,
            imported_id,
            digest,
            *counts.get(pk, (0, 0)),
        )


def _count_item_ratings(study: Study, blinded: bool) -> dict[int, tuple[int, int]]:
    """Return, for each item, the number of counted ratings and how many of them are "cannot judge"."""
    prefix = "assignment__"
    counted = Rating.objects.filter(
        assignment__item__study=study, assignment__occasion=1, assignment__released_at__isnull=True,
        assignment__surplus=False, assignment__rater__dropped=False,
    )  # fmt: skip
    if blinded:
        # the person who imported ratings knows which items they belong to; higher counts would reveal their codes
        counted = counted.filter(imported=False)
    n_unsure = Count("pk", filter=Q(cannot_judge=True))
    counts = counted.order_by().values_list(f"{prefix}item").annotate(n=Count("pk"), unsure=n_unsure)
    return {item: (n, n_unknown) for item, n, n_unknown in counts}


def _iter_payload_lines(study: Study) -> Iterator[str]:
    items = Item.objects.filter(study=study).order_by("code").values_list("code", "payload", "context")
    for code, payload, context in items.iterator(chunk_size=_CHUNK_SIZE):
        yield (
            json.dumps({"item": str(code), "payload": payload, "context": context}, ensure_ascii=False, sort_keys=True)
            + "\n"
        )


def _iter_model_rater_rows(study: Study) -> Iterator[tuple[Any, ...]]:
    names = model_raters.list_names(study)
    for rater in study.machine_raters.order_by("pk"):
        model, progress = names[rater.label], model_raters.count_progress(rater)
        prompt_set = rater.setup.get("prompt_set") or {}
        prompts = f"{prompt_set['name']}@{prompt_set['sha256'][:12]}" if prompt_set else ""
        display, failed = model_raters.describe_input(rater), sum(progress.failed.values())
        yield rater.label, model.name, model.kind, rater.cast, display, prompts, progress.rated, failed


def _iter_model_rating_rows(study: Study) -> Iterator[tuple[Any, ...]]:
    model_ratings = MachineRating.objects.filter(rater__study=study).order_by("rater", "item__code")
    columns = (
        "rater__label", "item__code", "verdict", "confidence", "marks", "failed", "reasoning", "payload_sha256", "at",
    )  # fmt: skip
    return iter(model_ratings.values_list(*columns).iterator(chunk_size=_CHUNK_SIZE))
