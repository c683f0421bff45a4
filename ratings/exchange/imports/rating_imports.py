"""Ratings collected elsewhere, taken into a study: all of a file or nothing. They count, and are called imported."""

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
    """An item of the study that a row can mean."""

    item_id: int
    pair: UUID


@dataclass(frozen=True)
class Checked:
    """What a file holds. With any problem nothing of it can be imported."""

    rows: tuple[Row, ...]
    problems: tuple[Problem, ...]
    items: int
    known_raters: tuple[str, ...]  # who have a seat from an earlier file
    new_raters: tuple[str, ...]
    left_out: int = 0  # rows of an export that count nowhere
    nameless: int = 0  # imported rows of a blinded export

    @property
    def cannot_judge(self) -> int:
        return sum(row.verdict is None for row in self.rows)


def check(study: Study, stream: BinaryIO) -> Checked:
    """The dry run: everything `take` would do, and nothing written."""
    study = Study.objects.get(pk=study.pk)
    return _checked(study, _read(study, stream), _targets(study))


def take(study: Study, stream: BinaryIO, by: User | None = None) -> Checked:
    """Import the file: a seat for each new rater, and for each row an assignment, its rating and the event of it.

    Answers wait for whoever holds the study's row, so the file is read before.
    """
    read = read_for(study, stream)
    with transaction.atomic():
        return write(study, read, by)


def read_for(study: Study, stream: BinaryIO) -> Table:
    """The first half of `take`, which can take long: nobody waits for it."""
    return _read(Study.objects.get(pk=study.pk), stream)


def write(study: Study, read: Table, by: User | None = None) -> Checked:
    """The second half, in the transaction of whoever calls. ImportRefused if anything is wrong with the file."""
    return _write(Study.objects.select_for_update().get(pk=study.pk), read, by)


def _read(study: Study, stream: BinaryIO) -> Table:
    _refuse_unless_taking(study)
    return rating_table.read(stream, timezone.now())


def _checked(study: Study, read: Table, targets: Mapping[str, Target]) -> Checked:
    """What was read, against the study as it is now."""
    _refuse_unless_taking(study)
    known = _known_raters(study)
    found = [row for row in read.rows if row.item in targets]
    problems = [
        *read.problems,
        *_astray(read.rows, targets),
        *_rated_twice(study, found, targets),
        *_here_already(study, found),
        *_of_another_kind(found, known),
    ]
    named = dict.fromkeys(row.rater for row in read.rows)
    return Checked(
        rows=tuple(read.rows),
        problems=tuple(sorted(problems, key=lambda problem: problem.line)[:MOST_PROBLEMS]),
        items=len({targets[row.item].item_id for row in found}),
        known_raters=tuple(name for name in named if name in known),
        new_raters=tuple(name for name in named if name not in known),
        left_out=read.left_out,
        nameless=read.nameless,
    )


def _write(study: Study, read: Table, by: User | None) -> Checked:
    targets = _targets(study)
    checked = _checked(study, read, targets)
    if checked.problems:
        raise ImportRefused(checked.problems)
    seats = _seats(study, checked)
    places = Assignment.objects.bulk_create(_places(checked.rows, targets, seats), batch_size=200)
    now = timezone.now()
    ratings = [_rating(row, place, now) for row, place in zip(checked.rows, places, strict=True)]
    Rating.objects.bulk_create(ratings, batch_size=200)
    RatingEvent.objects.bulk_create(map(_event, ratings), batch_size=200)
    log(study, RatingsImported(ratings=len(ratings), raters=len(seats)), by)
    return checked


def _refuse_unless_taking(study: Study) -> None:
    if study.status not in INTO:
        raise StudyError(f"{study.name} is {study.status}; ratings are imported while it is open, paused or closed")
    if designs.is_crossover(study):
        raise StudyError(
            f"{study.name} is a crossover: in which session a rating from elsewhere was given is not known. Import it into "
            "a study of the design crossed or balanced"
        )


def _targets(study: Study) -> dict[str, Target]:
    """Items by their code; in a study with imported ones, those alone, and by their id in the file alone.

    Where both names were taken, a file with both would tell by "rated twice" which code is which imported item's.
    """
    sources = ItemSource.objects.filter(item__study=study)
    found = list(sources.values_list("item_id", "item__code", "pair", "imported__key"))
    by_key = {key: Target(item, pair) for item, _, pair, key in found if key}
    return by_key or {str(code): Target(item, pair) for item, code, pair, _ in found}


def _known_raters(study: Study) -> dict[str, Rater]:
    return {seat.imported_as: seat for seat in study.raters.exclude(imported_as="")}


def _astray(rows: Sequence[Row], targets: Mapping[str, Target]) -> list[Problem]:
    return [
        Problem(
            row.line,
            "item",
            f"{row.item[:60]!r} names no item of this study: imported ones go by their id, others by their code where none was imported",
        )
        for row in rows
        if row.item not in targets
    ]


def _rated_twice(study: Study, rows: Sequence[Row], targets: Mapping[str, Target]) -> list[Problem]:
    """Rows of a rater and an item that an earlier line, or an earlier file, has already."""
    rated = Assignment.objects.filter(rater__study=study).exclude(rater__imported_as="")
    before = set(rated.values_list("item_id", "rater__imported_as"))
    lines: dict[tuple[int, str], int] = {}
    problems = []
    for row in rows:
        what = targets[row.item].item_id, row.rater
        if what in before:
            problems.append(Problem(row.line, "rater", f"{row.rater[:60]!r} has rated this item in an earlier file"))
        elif (first := lines.setdefault(what, row.line)) != row.line:
            problems.append(Problem(row.line, "rater", f"{row.rater[:60]!r} has rated this item on line {first}"))
    return problems


def _here_already(study: Study, rows: Sequence[Row]) -> list[Problem]:
    """Rows that are in the study as its own export has them: under the same label, of the same moment.

    The item is not asked for: an answer that depended on it would tell which code an imported item has.
    """
    labels = {row.rater for row in rows if row.submitted_at} & set(study.raters.values_list("label", flat=True))
    there = Rating.objects.filter(assignment__rater__study=study, assignment__rater__label__in=labels)
    here = set(there.values_list("assignment__rater__label", "submitted_at"))
    return [
        Problem(
            row.line,
            "submitted_at",
            f"a rating by {row.rater[:60]!r} of this moment is in this study already; only ratings that are not can be imported",
        )
        for row in rows
        if (row.rater, row.submitted_at) in here
    ]


def _of_another_kind(rows: Sequence[Row], known: Mapping[str, Rater]) -> list[Problem]:
    """Rows that say of a rater of an earlier file whether they are simulated, and otherwise than that one did."""
    problems = []
    for row in rows:
        seat = known.get(row.rater)
        if seat and row.simulated is not None and row.simulated != seat.simulated:
            said = f"is {row.simulated:d}; after an earlier file {row.rater[:60]!r} is {'' if seat.simulated else 'not '}simulated"
            problems.append(Problem(row.line, "simulated", said))
    return problems


def _seats(study: Study, checked: Checked) -> dict[str, Rater]:
    """A seat for everyone in the file: those of an earlier one, and new ones under the next labels."""
    seats = {name: seat for name, seat in _known_raters(study).items() if name in checked.known_raters}
    simulated = {row.rater for row in checked.rows if row.simulated}
    number = study.raters.aggregate(last=Max("number"))["last"] or 0
    for name in checked.new_raters:
        number += 1
        seats[name] = Rater.objects.create(
            study=study, number=number, label=f"R{number:02}", imported_as=name, simulated=name in simulated
        )
    return seats


def _places(rows: Sequence[Row], targets: Mapping[str, Target], seats: Mapping[str, Rater]) -> Iterator[Assignment]:
    """An assignment without a slot for each row: these ratings come on top of those the study asks for.

    Elsewhere nobody saw to it that a rater met one version of a thing only; a second one is kept under a pair of its own.
    """
    own = Assignment.objects.filter(rater__in=seats.values())
    position = dict(own.values_list("rater").annotate(last=Max("position")))
    met = set(own.values_list("rater", "pair"))
    for row in rows:
        seat, target = seats[row.rater], targets[row.item]
        pair = target.pair if (seat.pk, target.pair) not in met else uuid.uuid4()
        met.add((seat.pk, pair))
        position[seat.pk] = position.get(seat.pk, 0) + 1
        yield Assignment(item_id=target.item_id, rater=seat, position=position[seat.pk], pair=pair, layout="plain")


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
