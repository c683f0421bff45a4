"""The study's own tables: ratings long and wide, their versions, items, and what machines said of the same items."""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from django.db.models import Count, F, Q, Value

from ratings.exchange import exports
from ratings.exchange.archive import fields, people
from ratings.exchange.archive.entries import Entry, table
from ratings.exchange.archive.fields import Field
from ratings.models import Item, MachineRating, Rating, Study
from ratings.protocol.reference import show_perturbation
from ratings.raters.machines import machines
from ratings.results import BlindRow, RatingRow, blind_rows, rating_rows
from ratings.studies import SealedError

_CHUNK = 500


def entries(study: Study, blinded: bool) -> list[Entry]:
    """Tables that both variants have: the same columns, the sealed ones empty in the blinded one."""
    return [
        _long(study, blinded),
        _wide(study, blinded),
        _versions(study, blinded),
        _items(study, blinded),
        people.raters(study),
        people.events(study, blinded),
    ]


def unblinded(study: Study) -> list[Entry]:
    """What only an unblinded archive has. SealedError before."""
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; what its items show is exported once it is unblinded")
    shown = (
        "What raters saw of each item, a JSON object a line: item (its code), payload, context (empty: never shown)."
    )
    return [
        Entry("items.jsonl", shown, lambda: _payloads(study)),
        table(
            "machine_raters.csv",
            "Machines that rated the same items. No number of people contains their answers.",
            fields.MACHINE_RATERS,
            lambda: _machine_raters(study),
            key=("rater",),
        ),
        table(
            "machine_ratings.csv",
            "What each machine said of each item, or why it said nothing.",
            fields.MACHINE_RATINGS,
            lambda: _machine_ratings(study),
            key=("rater", "item"),
        ),
    ]


def _long(study: Study, blinded: bool) -> Entry:
    columns = exports.COLUMNS
    says = (
        "One row for each rating, those that count nowhere included (counts is 0). import_ratings takes from it, into "
        "another copy of this study, item, verdict, confidence, submitted_at, seconds"
    ) + (
        " and simulated of those that count; imported ones, which name no item here, stay out, and there are no notes."
        if blinded
        else ", note and simulated of those that count."
    )
    found = exports.rows
    return table(
        "ratings.csv", says, fields.RATINGS, lambda: ([row[name] for name in columns] for row in found(study, blinded))
    )


def _wide(study: Study, blinded: bool) -> Entry:
    labels = _who_counts(study, blinded)
    of_raters = [
        field
        for label in labels
        for field in (
            Field(f"{label}_verdict", "flag", f"verdict of {label}: 1 or 0; empty: not rated, or could not judge"),
            Field(f"{label}_confidence", "count", f"confidence of {label}, 1 to 5"),
        )
    ]
    says = "One row for each rated item, two columns for each rater; ratings that count only" + (
        ", imported ones left out: their items are not told before unblinding." if blinded else "."
    )
    return table(
        "ratings_wide.csv", says, (*fields.WIDE_BEFORE, *of_raters), lambda: _wide_rows(study, blinded, labels)
    )


def _who_counts(study: Study, blinded: bool) -> list[str]:
    live = study.raters.filter(
        dropped=False, assignments__rating__isnull=False, assignments__occasion=1,
        assignments__released_at__isnull=True, assignments__surplus=False,
    )  # fmt: skip
    if blinded:
        live = live.filter(imported_as="")
    return list(live.order_by("number", "pk").values_list("label", flat=True).distinct())


def _wide_rows(study: Study, blinded: bool, labels: Sequence[str]) -> Iterator[list[Any]]:
    """Both readings have the ratings of an item together, so one item at a time is held."""
    place = {label: 2 * at for at, label in enumerate(labels)}
    rows: Iterator[BlindRow] = blind_rows(study) if blinded else rating_rows(study)
    counting = (row for row in rows if row.counts and row.rater in place)  # blinded, imported raters are not
    for _, own in groupby(counting, key=lambda row: row.item):
        cells: list[Any] = [None] * (2 * len(labels))
        given = unsure = 0
        for row in own:
            given, unsure = given + 1, unsure + row.cannot_judge
            cells[place[row.rater]], cells[place[row.rater] + 1] = row.verdict, row.confidence
        yield [row.item, *_sealed(row), given, unsure, *cells]


def _sealed(row: BlindRow) -> tuple[Any, ...]:
    if not isinstance(row, RatingRow):
        return (None,) * 7
    perturbation = show_perturbation(row.perturbation, row.reference)
    return row.pair, row.source, perturbation, row.reference, row.truth, row.experiment, row.action


def _versions(study: Study, blinded: bool) -> Entry:
    says = "Every version of every rating; the last of each stands in ratings.csv."
    return table("versions.csv", says, fields.VERSIONS, lambda: _version_rows(study, blinded))


def _version_rows(study: Study, blinded: bool) -> Iterator[tuple[Any, ...]]:
    place = "assignment__"
    order = F("code").asc(nulls_last=True), f"{place}rater__number", f"{place}occasion", f"{place}position", "revision"
    found = people.versions_of(study, blinded).annotate(said=Value("") if blinded else F("note")).order_by(*order)
    columns = (
        "code", f"{place}rater__label", f"{place}occasion", "revision", "kind", "verdict", "confidence", "cannot_judge",
        "marks", "said", "active_seconds", "at",
    )  # fmt: skip
    return iter(found.values_list(*columns).iterator(chunk_size=_CHUNK))


def _items(study: Study, blinded: bool) -> Entry:
    says = "One row for each item" + (
        ": its code, and how often it was rated here." if blinded else ", and what it is."
    )
    return table("items.csv", says, fields.ITEMS, lambda: _item_rows(study, blinded), key=("item",))


def _item_rows(study: Study, blinded: bool) -> Iterator[tuple[Any, ...]]:
    """By code, which is random. Blinded, neither sources nor payloads are read: who made an item could know it by them."""
    counts = _counts(study, blinded)
    found = Item.objects.filter(study=study).order_by("code")
    if blinded:
        for pk, code in found.values_list("pk", "code").iterator(chunk_size=_CHUNK):
            yield (code, *[None] * 12, *counts.get(pk, (0, 0)))
        return
    columns = (
        "pk", "code", "source__pair", "source__label", "source__perturbation", "source__twin__kind", "source__reference",
        "source__truth", "source__experiment", "source__action", "source__target", "source__verdicts",
        "source__imported__key", "payload_sha256",
    )  # fmt: skip
    for row in found.values_list(*columns).iterator(chunk_size=_CHUNK):
        pk, code, pair, label, perturbation, kind, reference, *after, target, verdicts, key, digest = row
        said = json.dumps(verdicts, sort_keys=True, ensure_ascii=False) if verdicts else None
        what = pair, label, show_perturbation(perturbation, reference), kind, reference
        yield (code, *what, *after, target or None, said, key, digest, *counts.get(pk, (0, 0)))


def _counts(study: Study, blinded: bool) -> dict[int, tuple[int, int]]:
    """Ratings that count of each item, and how many of them could not be judged.

    Blinded without imported ones: their importer would know the items that have one more.
    """
    place = "assignment__"
    live = Rating.objects.filter(
        assignment__item__study=study, assignment__occasion=1, assignment__released_at__isnull=True,
        assignment__surplus=False, assignment__rater__dropped=False,
    )  # fmt: skip
    if blinded:
        live = live.filter(imported=False)
    unsure = Count("pk", filter=Q(cannot_judge=True))
    found = live.order_by().values_list(f"{place}item").annotate(n=Count("pk"), unsure=unsure)
    return {item: (n, unknown) for item, n, unknown in found}


def _payloads(study: Study) -> Iterator[str]:
    found = Item.objects.filter(study=study).order_by("code").values_list("code", "payload", "context")
    for code, payload, context in found.iterator(chunk_size=_CHUNK):
        yield (
            json.dumps({"item": str(code), "payload": payload, "context": context}, ensure_ascii=False, sort_keys=True)
            + "\n"
        )


def _machine_raters(study: Study) -> Iterator[tuple[Any, ...]]:
    names = machines.names(study)
    for rater in study.machine_raters.order_by("pk"):
        named, standing = names[rater.label], machines.standing(rater)
        frozen = rater.setup.get("prompt_set") or {}
        prompts = f"{frozen['name']}@{frozen['sha256'][:12]}" if frozen else ""
        shown, failed = machines.shown(rater), sum(standing.failed.values())
        yield rater.label, named.name, named.kind, rater.cast, shown, prompts, standing.rated, failed


def _machine_ratings(study: Study) -> Iterator[tuple[Any, ...]]:
    found = MachineRating.objects.filter(rater__study=study).order_by("rater", "item__code")
    columns = (
        "rater__label", "item__code", "verdict", "confidence", "marks", "failed", "reasoning", "payload_sha256", "at",
    )  # fmt: skip
    return iter(found.values_list(*columns).iterator(chunk_size=_CHUNK))
