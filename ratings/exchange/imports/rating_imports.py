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

from ratings.exchange.imports import rating_table
from ratings.exchange.imports.import_lines import Problem
from ratings.exchange.imports.item_imports import MOST_PROBLEMS, ImportRefused
from ratings.exchange.imports.rating_table import Row, Table
from ratings.models import Assignment, ItemSource, Rater, Rating, RatingEvent, Study
from ratings.models.study_events import RatingsImported
from ratings.studies import StudyError, designs
from ratings.studies.lifecycle import log

INTO = ("open", "paused", "closed")


class Target(NamedTuple):
    """An item of the study that a row can refer to."""

    item_id: int
    pair: UUID


@dataclass(frozen=True)
class Checked:
    """The content of a file after all checks. With any problem, nothing of it can be imported."""

    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]
    items: int
    known_raters: tuple[str, ...]  # imported from an earlier file
    new_raters: tuple[str, ...]
    left_out: int = 0  # rows of an export that are not counted
    nameless: int = 0  # imported rows of a blinded export, which do not name their item

    @property
    def cannot_judge(self) -> int:
        return sum(row.verdict is None for row in self.rows)


def check(study: Study, stream: BinaryIO) -> Checked:
    """Return what `import_file` would import. Nothing is written."""
    study = Study.objects.get(pk=study.pk)
    return _checked(study, _read(study, stream), _targets(study))


def take(study: Study, stream: BinaryIO, by: User | None = None) -> Checked:
    """Import the file: create a rater for each new name and, for each row, an assignment, its rating and its event."""
    # Before the transaction: it locks the study's row, and raters' answers wait for that lock.
    parsed = read_for(study, stream)
    with transaction.atomic():
        return write(study, parsed, by)


def read_for(study: Study, stream: BinaryIO) -> Table:
    """Return the parsed table. This first half of `import_file` can take long and needs no lock."""
    return _read(Study.objects.get(pk=study.pk), stream)


def write(study: Study, read: Table, by: User | None = None) -> Checked:
    """Store the parsed table. Call it in a transaction. Raises ImportRefused if there is any problem."""
    return _write(Study.objects.select_for_update().get(pk=study.pk), read, by)


def _read(study: Study, stream: BinaryIO) -> Table:
    _refuse_unless_taking(study)
    return rating_table.read(stream, timezone.now())


def _checked(study: Study, read: Table, targets: Mapping[str, Target]) -> Checked:
    """Check the parsed table against the current state of the study."""
    _refuse_unless_taking(study)
    known_raters = _known_raters(study)
    rows_with_item = [row for row in read.rows if row.item in targets]
    problems = [
        *read.problems,
        *_astray(read.rows, targets),
        *_rated_twice(study, rows_with_item, targets),
        *_here_already(study, rows_with_item),
        *_of_another_kind(rows_with_item, known_raters),
    ]
    rater_names = dict.fromkeys(row.rater for row in read.rows)
    return Checked(
        rows=tuple(read.rows),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)[:MOST_PROBLEMS]),
        items=len({targets[row.item].item_id for row in rows_with_item}),
        known_raters=tuple(name for name in rater_names if name in known_raters),
        new_raters=tuple(name for name in rater_names if name not in known_raters),
        left_out=read.left_out,
        nameless=read.nameless,
    )


def _write(study: Study, read: Table, by: User | None) -> Checked:
    targets = _targets(study)
    checked = _checked(study, read, targets)
    if checked.problems:
        raise ImportRefused(checked.problems)
    raters = _seats(study, checked)
    assignments = Assignment.objects.bulk_create(_places(checked.rows, targets, raters), batch_size=200)
    now = timezone.now()
    ratings = [_rating(row, place, now) for row, place in zip(checked.rows, assignments, strict=True)]
    Rating.objects.bulk_create(ratings, batch_size=200)
    RatingEvent.objects.bulk_create(map(_event, ratings), batch_size=200)
    log(study, RatingsImported(ratings=len(ratings), raters=len(raters)), by)
    return checked


def _refuse_unless_taking(study: Study) -> None:
    if study.status not in INTO:
        raise StudyError(
            f"{study.name} is {study.status}; ratings can only be imported while it is open, paused or closed"
        )
    if designs.is_crossover(study):
        raise StudyError(
            f"{study.name} is a crossover study, and the session of ratings collected elsewhere is not known. Import them into "
            "a study with the design crossed or balanced"
        )


def _targets(study: Study) -> dict[str, Target]:
    """Return the items by code. In a study with imported items, return only those, and only by the id in their file."""
    sources = ItemSource.objects.filter(item__study=study)
    items = list(sources.values_list("item_id", "item__code", "pair", "imported__key"))
    # If both names were accepted, a file that uses both would reveal, by the problem "rated twice", which code
    # belongs to which imported item.
    by_key = {key: Target(item, pair) for item, _, pair, key in items if key}
    return by_key or {str(code): Target(item, pair) for item, code, pair, _ in items}


def _known_raters(study: Study) -> dict[str, Rater]:
    return {seat.imported_as: seat for seat in study.raters.exclude(imported_as="")}


def _astray(rows: Sequence[Row], targets: Mapping[str, Target]) -> list[Problem]:
    return [
        Problem(
            row.line,
            "item",
            f"{row.item[:60]!r} is not an item of this study: use the id of imported items; use the code if the study has no imported items",
        )
        for row in rows
        if row.item not in targets
    ]


def _rated_twice(study: Study, rows: Sequence[Row], targets: Mapping[str, Target]) -> list[Problem]:
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


def _here_already(study: Study, rows: Sequence[Row]) -> list[Problem]:
    """Return problems for rows that the study has under the same label and time, as in its own export."""
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


def _of_another_kind(rows: Sequence[Row], known: Mapping[str, Rater]) -> list[Problem]:
    """Return problems for rows that contradict an earlier file on whether a rater is simulated."""
    problems = []
    for row in rows:
        seat = known.get(row.rater)
        if seat and row.simulated is not None and row.simulated != seat.simulated:
            message = f"is {row.simulated:d}, but in an earlier file {row.rater[:60]!r} is {'' if seat.simulated else 'not '}simulated"
            problems.append(Problem(row.line, "simulated", message))
    return problems


def _seats(study: Study, checked: Checked) -> dict[str, Rater]:
    """Return the raters of the file by name: those of earlier files, and new ones with the next labels."""
    raters = {name: seat for name, seat in _known_raters(study).items() if name in checked.known_raters}
    simulated_names = {row.rater for row in checked.rows if row.simulated}
    number = study.raters.aggregate(last=Max("number"))["last"] or 0
    for name in checked.new_raters:
        number += 1
        raters[name] = Rater.objects.create(
            study=study, number=number, label=f"R{number:02}", imported_as=name, simulated=name in simulated_names
        )
    return raters


def _places(rows: Sequence[Row], targets: Mapping[str, Target], seats: Mapping[str, Rater]) -> Iterator[Assignment]:
    """Yield an assignment without a slot for each row: these ratings are in addition to those the study requests."""
    earlier = Assignment.objects.filter(rater__in=seats.values())
    last_position = dict(earlier.values_list("rater").annotate(last=Max("position")))
    seen_pairs = set(earlier.values_list("rater", "pair"))
    for row in rows:
        seat, target = seats[row.rater], targets[row.item]
        # Elsewhere nothing ensured that a rater saw only one version of a pair. A second version is stored under
        # a new pair, because the database allows each pair only once per rater and session.
        pair = target.pair if (seat.pk, target.pair) not in seen_pairs else uuid.uuid4()
        seen_pairs.add((seat.pk, pair))
        last_position[seat.pk] = last_position.get(seat.pk, 0) + 1
        yield Assignment(item_id=target.item_id, rater=seat, position=last_position[seat.pk], pair=pair, layout="plain")


def _rating(row: Row, place: Assignment, now: datetime) -> Rating:
    submitted = row.submitted_at or now
    return Rating(
        assignment=place,
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


def _event(rating: Rating) -> RatingEvent:
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
