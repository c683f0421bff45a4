"""Import ratings collected elsewhere into a study: the whole file or nothing. They count and are labelled imported."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import BinaryIO, NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from ratings.exchange.imports import ratings_csv
from ratings.exchange.imports.item_imports import MAX_PROBLEMS, ImportRefused
from ratings.exchange.imports.json_lines import Problem
from ratings.exchange.imports.ratings_csv import ParsedRow, ParsedTable
from ratings.models import Assignment, ItemSource, Rater, Rating, RatingEvent, Study
from ratings.models.study_events import RatingsImported
from ratings.studies import StudyError, designs
from ratings.studies.lifecycle import log_event

ALLOWED_STATUSES = ("open", "paused", "closed")


class ItemTarget(NamedTuple):
    """An item of the study that a row can refer to."""

    item_id: int
    pair: UUID


@dataclass(frozen=True)
class CheckedRatings:
    """The content of a file after all checks. If there is any problem, nothing of the file can be imported."""

    rows: tuple[ParsedRow, ...]
    problems: tuple[Problem, ...]
    items: int
    known_raters: tuple[str, ...]  # imported from an earlier file
    new_raters: tuple[str, ...]
    left_out: int = 0  # rows of an export that are not counted
    nameless: int = 0  # imported rows of a blinded export, which do not name their item

    @property
    def n_cannot_judge(self) -> int:
        return sum(row.verdict is None for row in self.rows)


def check_file(study: Study, stream: BinaryIO) -> CheckedRatings:
    """Return what `import_file` would import. Nothing is written."""
    study = Study.objects.get(pk=study.pk)
    return _check_ratings(study, _parse_ratings(study, stream), _load_targets(study))


def import_file(study: Study, stream: BinaryIO, user: User | None = None) -> CheckedRatings:
    """Import the file: create a rater for each new name and, for each row, an assignment, its rating and its event."""
    # Before the transaction: it locks the study's row, and raters' answers wait for that lock.
    parsed = parse_file(study, stream)
    with transaction.atomic():
        return store_import(study, parsed, user)


def parse_file(study: Study, stream: BinaryIO) -> ParsedTable:
    """Return the parsed table. This first half of `import_file` can take long and needs no lock."""
    return _parse_ratings(Study.objects.get(pk=study.pk), stream)


def store_import(study: Study, parsed: ParsedTable, user: User | None = None) -> CheckedRatings:
    """Store the parsed table. Call it in a transaction. Raises ImportRefused if there is any problem."""
    return _store_ratings(Study.objects.select_for_update().get(pk=study.pk), parsed, user)


def _parse_ratings(study: Study, stream: BinaryIO) -> ParsedTable:
    _check_accepts_ratings(study)
    return ratings_csv.parse_ratings_csv(stream, timezone.now())


def _check_ratings(study: Study, parsed: ParsedTable, targets: Mapping[str, ItemTarget]) -> CheckedRatings:
    """Check the parsed table against the current state of the study."""
    _check_accepts_ratings(study)
    known_raters = _load_known_raters(study)
    rows_with_item = [row for row in parsed.rows if row.item in targets]
    problems = [
        *parsed.problems,
        *_find_unknown_items(parsed.rows, targets),
        *_find_repeated_ratings(study, rows_with_item, targets),
        *_find_exported_ratings(study, rows_with_item),
        *_find_changed_raters(rows_with_item, known_raters),
    ]
    rater_names = dict.fromkeys(row.rater for row in parsed.rows)
    return CheckedRatings(
        rows=tuple(parsed.rows),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)[:MAX_PROBLEMS]),
        items=len({targets[row.item].item_id for row in rows_with_item}),
        known_raters=tuple(name for name in rater_names if name in known_raters),
        new_raters=tuple(name for name in rater_names if name not in known_raters),
        left_out=parsed.left_out,
        nameless=parsed.nameless,
    )


def _store_ratings(study: Study, parsed: ParsedTable, user: User | None) -> CheckedRatings:
    targets = _load_targets(study)
    checked = _check_ratings(study, parsed, targets)
    if checked.problems:
        raise ImportRefused(checked.problems)
    raters = _load_or_create_raters(study, checked)
    assignments = Assignment.objects.bulk_create(_build_assignments(checked.rows, targets, raters), batch_size=200)
    now = timezone.now()
    ratings = [_build_rating(row, assignment, now) for row, assignment in zip(checked.rows, assignments, strict=True)]
    Rating.objects.bulk_create(ratings, batch_size=200)
    RatingEvent.objects.bulk_create(map(_build_event, ratings), batch_size=200)
    log_event(study, RatingsImported(ratings=len(ratings), raters=len(raters)), user)
    return checked


def _check_accepts_ratings(study: Study) -> None:
    if study.status not in ALLOWED_STATUSES:
        raise StudyError(
            f"{study.name} is {study.status}; ratings can only be imported while it is open, paused or closed"
        )
    if designs.is_crossover(study):
        raise StudyError(
            f"{study.name} is a crossover study, and the session of ratings collected elsewhere is not known. Import them into "
            "a study with the design crossed or balanced"
        )


def _load_targets(study: Study) -> dict[str, ItemTarget]:
    """Return the items by code. In a study with imported items, return only those, and only by the id in their file."""
    sources = ItemSource.objects.filter(item__study=study)
    items = list(sources.values_list("item_id", "item__code", "pair", "imported__key"))
    # If both names were accepted, a file that uses both would reveal, by the problem "rated twice", which code
    # belongs to which imported item.
    by_key = {key: ItemTarget(item, pair) for item, _, pair, key in items if key}
    return by_key or {str(code): ItemTarget(item, pair) for item, code, pair, _ in items}


def _load_known_raters(study: Study) -> dict[str, Rater]:
    return {rater.imported_as: rater for rater in study.raters.exclude(imported_as="")}


def _find_unknown_items(rows: Sequence[ParsedRow], targets: Mapping[str, ItemTarget]) -> list[Problem]:
    return [
        Problem(
            row.line,
            "item",
            f"{row.item[:60]!r} is not an item of this study: use the id of imported items; use the code if the study has no imported items",
        )
        for row in rows
        if row.item not in targets
    ]


def _find_repeated_ratings(study: Study, rows: Sequence[ParsedRow], targets: Mapping[str, ItemTarget]) -> list[Problem]:
    """Return problems for rows whose rater has rated the item on an earlier line or in an earlier file."""
    rated = Assignment.objects.filter(rater__study=study).exclude(rater__imported_as="")
    already_rated = set(rated.values_list("item_id", "rater__imported_as"))
    first_lines: dict[tuple[int, str], int] = {}
    problems = []
    for row in rows:
        item_and_rater = targets[row.item].item_id, row.rater
        if item_and_rater in already_rated:
            problems.append(
                Problem(row.line, "rater", f"{row.rater[:60]!r} has already rated this item in an earlier file")
            )
        elif (first := first_lines.setdefault(item_and_rater, row.line)) != row.line:
            problems.append(
                Problem(row.line, "rater", f"{row.rater[:60]!r} has already rated this item on line {first}")
            )
    return problems


def _find_exported_ratings(study: Study, rows: Sequence[ParsedRow]) -> list[Problem]:
    """Return a problem for each row with the rater label and time of a stored rating, as in the study's export."""
    labels = {row.rater for row in rows if row.submitted_at} & set(study.raters.values_list("label", flat=True))
    # The item is not compared: a result that depended on it would reveal which code an imported item has.
    ratings = Rating.objects.filter(assignment__rater__study=study, assignment__rater__label__in=labels)
    existing = set(ratings.values_list("assignment__rater__label", "submitted_at"))
    return [
        Problem(
            row.line,
            "submitted_at",
            f"a rating by {row.rater[:60]!r} with this time is already in this study; remove the row from the file",
        )
        for row in rows
        if (row.rater, row.submitted_at) in existing
    ]


def _find_changed_raters(rows: Sequence[ParsedRow], known: Mapping[str, Rater]) -> list[Problem]:
    """Return problems for rows that contradict an earlier file on whether a rater is simulated."""
    problems = []
    for row in rows:
        rater = known.get(row.rater)
        if rater and row.simulated is not None and row.simulated != rater.simulated:
            message = f"is {row.simulated:d}, but in an earlier file {row.rater[:60]!r} is {'' if rater.simulated else 'not '}simulated"
            problems.append(Problem(row.line, "simulated", message))
    return problems


def _load_or_create_raters(study: Study, checked: CheckedRatings) -> dict[str, Rater]:
    """Return the raters of the file by name: those of earlier files, and new ones with the next labels."""
    raters = {name: rater for name, rater in _load_known_raters(study).items() if name in checked.known_raters}
    simulated_names = {row.rater for row in checked.rows if row.simulated}
    number = study.raters.aggregate(last=Max("number"))["last"] or 0
    for name in checked.new_raters:
        number += 1
        raters[name] = Rater.objects.create(
            study=study, number=number, label=f"R{number:02}", imported_as=name, simulated=name in simulated_names
        )
    return raters


def _build_assignments(
    rows: Sequence[ParsedRow], targets: Mapping[str, ItemTarget], raters: Mapping[str, Rater]
) -> Iterator[Assignment]:
    """Yield an assignment for each row, without a slot: imported ratings add to those that the study requests."""
    earlier = Assignment.objects.filter(rater__in=raters.values())
    last_position = dict(earlier.values_list("rater").annotate(last=Max("position")))
    seen_pairs = set(earlier.values_list("rater", "pair"))
    for row in rows:
        rater, target = raters[row.rater], targets[row.item]
        # In another tool a rater may have seen several versions of a pair. Each further version is stored under a new
        # pair, because the database allows each pair only once per rater and session.
        pair = target.pair if (rater.pk, target.pair) not in seen_pairs else uuid.uuid4()
        seen_pairs.add((rater.pk, pair))
        last_position[rater.pk] = last_position.get(rater.pk, 0) + 1
        yield Assignment(
            item_id=target.item_id, rater=rater, position=last_position[rater.pk], pair=pair, layout="plain"
        )


def _build_rating(row: ParsedRow, assignment: Assignment, import_time: datetime) -> Rating:
    submitted = row.submitted_at or import_time
    return Rating(
        assignment=assignment,
        verdict=row.verdict,
        confidence=row.confidence,
        cannot_judge=row.verdict is None,
        note=row.note,
        submission_id=uuid.uuid4(),
        opened_at=submitted - timedelta(seconds=row.seconds),
        submitted_at=submitted,
        seconds=row.seconds,
        imported=True,
    )


def _build_event(rating: Rating) -> RatingEvent:
    return RatingEvent(
        assignment=rating.assignment,
        kind="imported",
        revision=1,
        verdict=rating.verdict,
        confidence=rating.confidence,
        cannot_judge=rating.cannot_judge,
        note=rating.note,
        submission_id=uuid.uuid4(),
        at=rating.submitted_at,
    )
