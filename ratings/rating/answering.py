"""Answers: never lost, never doubled, corrected in the open; every version is kept."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from ratings.models import Assignment, Draft, FirstLook, Rater, Rating, RatingEvent
from ratings.models.answers import FIRST
from ratings.rating import serving
from ratings.studies import StudyClosed, StudyError, crossover, designs
from ratings.studies.seats import slots
from wetbench_site.prepared_queries import PreparedQuery


class Answer(NamedTuple):
    """What a rater says of an item. Who cannot judge it gives neither verdict nor confidence."""

    verdict: bool | None
    confidence: int | None
    cannot_judge: bool = False
    marks: tuple[str, ...] = ()
    note: str = ""


class Timing(NamedTuple):
    """What the browser measured while the item was shown; None and 0 without scripts."""

    active_seconds: float | None = None
    first_verdict_seconds: float | None = None
    changes: int = 0


class RateResult(NamedTuple):
    """The rating that stands. `created`: this submission made a version of it just now. `same`: what was sent was
    taken down, now or before. `reused`: the form's id had been used for another answer. Neither created nor same:
    another answer stands, and the rater has to be asked. `following`: the next item, opened with this answer."""

    rating: Rating
    created: bool
    same: bool
    reused: bool = False
    following: Assignment | None = None


class FirstResult(NamedTuple):
    """The first answer of the confirm arm, which nothing changes; `same`: it is what was sent."""

    look: FirstLook
    created: bool
    same: bool


class _Shown(NamedTuple):
    hand: str
    viewport: str
    layout_shown: str
    interface: str


# Whether a place has an answer, or a submission was taken down anywhere.
_KNOWN = PreparedQuery(
    lambda place, submission: (
        RatingEvent.objects.filter(Q(assignment=place) | Q(submission_id=submission)).order_by().values_list("pk")[:1]
    ),
    "number",
    "uuid",
)


def said(version: Rating | RatingEvent) -> Answer:
    """What was said in this version."""
    return Answer(version.verdict, version.confidence, version.cannot_judge, tuple(version.marks), version.note)


@transaction.atomic
def rate(
    assignment: Assignment,
    verdict: bool | None,
    confidence: int | None,
    submission_id: UUID,
    now: datetime | None = None,
    *,
    cannot_judge: bool = False,
    marks: tuple[str, ...] = (),
    note: str = "",
    revision: int = 0,
    timing: Timing | None = None,
    hand: str = "",
    viewport: str = "",
    layout_shown: str = "",
    interface: str = "",
    go_on: bool = False,
) -> RateResult:
    """Write the answer, or a new version of it if the form showed the one that stands (`revision`). With `go_on` the
    next item is opened in the same transaction, for who is shown it at once."""
    answer = _whole(Answer(verdict, confidence, cannot_judge, tuple(marks), note))
    place = _locked(assignment)
    known = bool(_KNOWN.rows(place.pk, submission_id))
    if standing := Rating.objects.filter(assignment=place).first() if known else None:
        if result := _settled(place, standing, answer, submission_id, revision):
            return result
    elif known:
        raise _used_elsewhere()
    _refuse_if_closed(place)
    timing, now = timing or Timing(), now or timezone.now()
    if standing:
        made = _correct(place, standing, answer, submission_id, now)
    else:
        made = _answer(place, answer, submission_id, now, timing, _Shown(hand, viewport, layout_shown, interface))
    _log(made, answer, now, timing)
    _drop_draft(place)
    may_go_on = go_on and place.rater.guide_seen >= place.rater.study.guide_version
    return RateResult(made, created=True, same=True, following=serving.open_next(place.rater) if may_go_on else None)


@transaction.atomic
def first_look(
    assignment: Assignment,
    verdict: bool,
    confidence: int,
    submission_id: UUID,
    now: datetime | None = None,
    *,
    marks: tuple[str, ...] = (),
    note: str = "",
    active_seconds: float | None = None,
) -> FirstResult:
    """Write the answer given before the balance sheet was shown, once. Marks and note go on into the final one."""
    _whole(Answer(verdict, confidence))
    place = _locked(assignment)
    sent = (submission_id, verdict, confidence, list(marks))
    if look := FirstLook.objects.filter(assignment=place).first():
        same = sent == (look.submission_id, look.verdict, look.confidence, look.marks)
        return FirstResult(look, created=False, same=same)
    _refuse_if_closed(place)
    if Rating.objects.filter(assignment=place).exists():
        raise StudyError("This item is rated already.")
    if FirstLook.objects.filter(submission_id=submission_id).exists():
        raise _used_elsewhere()
    look = FirstLook.objects.create(
        assignment=place, verdict=verdict, confidence=confidence, marks=list(marks), submission_id=submission_id,
        active_seconds=active_seconds, at=now or timezone.now(),
    )  # fmt: skip
    _keep(place, Answer(None, None, marks=tuple(marks), note=note))
    return FirstResult(look, created=True, same=True)


@transaction.atomic
def save_draft(assignment: Assignment, answer: Answer) -> bool:
    """Keep what is chosen and not saved; False where it is too late for that. No draft touches an answer."""
    place = _locked(assignment)
    seat = place.rater
    over = seat.study.status not in ("open", "paused") or seat.withdrawn_at or seat.finished_at
    if over or Rating.objects.filter(assignment=place).exists():
        return False
    _keep(place, answer)
    Rater.objects.filter(pk=seat.pk).update(last_seen_at=timezone.now())
    return True


def may_correct(assignment: Assignment) -> bool:
    """Whether an answer can still be changed: the last one given, and any once none is left to give, until the rater
    presses Finish or the study is not open."""
    rater = assignment.rater
    if not rater.study.is_open or rater.finished_at or rater.withdrawn_at:
        return False
    if designs.is_crossover(rater.study) and assignment.session == 1 and crossover.has_begun(rater):
        return False
    answered = rater.assignments.filter(rating__isnull=False)
    last = answered.order_by("-rating__submitted_at", "-rating__pk").values_list("pk", flat=True).first()
    return last == assignment.pk or not rater.assignments.filter(rating=None, released_at=None).exists()


def _settled(
    place: Assignment, standing: Rating, answer: Answer, submission_id: UUID, revision: int
) -> RateResult | None:
    """What to tell a submission that writes nothing; None for a correction that may be written."""
    if event := RatingEvent.objects.filter(submission_id=submission_id).first():
        if event.assignment_id != place.pk:
            raise _used_elsewhere()
        same = said(event) == answer
        return RateResult(standing, created=False, same=same, reused=not same)
    if said(standing) == answer:
        return RateResult(standing, created=False, same=True)
    return None if revision == standing.revision else RateResult(standing, created=False, same=False)


def _locked(assignment: Assignment) -> Assignment:
    """The assignment and its seat, locked after their study: closing waits for answers under way, and they for closing.

    Raters do not wait for each other, but where a slot may have to be found: in a pool, and for an item taken back.
    """
    study = assignment.rater.study
    if designs.is_pool(study) or assignment.released_at:
        study = slots.lock(study.pk)
    else:
        slots.share(study)
        if _lock_rows(assignment.pk) == _state(assignment):
            return assignment
    rows = Assignment.objects.select_for_update(of=("self", "rater"), no_key=True)
    found = rows.select_related("rater").get(pk=assignment.pk)
    found.rater.study = study
    return found


def _lock_rows(assignment: int) -> tuple[bool | int, ...]:
    """Lock the assignment and its seat, and tell the `_state` they are in now: some twenty times as quick as reading them."""
    place, seat = (connection.ops.quote_name(model._meta.db_table) for model in (Assignment, Rater))
    clause = " FOR NO KEY UPDATE" if connection.features.has_select_for_update else ""
    columns = ["place.opened_at", "place.lease_until", "place.released_at", "seat.withdrawn_at", "seat.finished_at"]
    told = ", ".join(f"{column} IS NULL" for column in columns)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {told}, seat.guide_seen FROM {place} place JOIN {seat} seat ON seat.id = place.rater_id "
            f"WHERE place.id = %s{clause}",
            [assignment],
        )
        if (found := cursor.fetchone()) is None:  # it was not opened, and dealt to another rater meanwhile
            raise StudyError("This item is no longer yours to rate. Go on to the next one.")
        return tuple(found)


def _state(place: Assignment) -> tuple[bool | int, ...]:
    """What an answer depends on, of an assignment and its seat, besides the answers there are."""
    seat = place.rater
    dates = (place.opened_at, place.lease_until, place.released_at, seat.withdrawn_at, seat.finished_at)
    return (*(date is None for date in dates), seat.guide_seen)


def _whole(answer: Answer) -> Answer:
    if answer.cannot_judge:
        return answer._replace(verdict=None, confidence=None)
    if answer.verdict is None:
        raise ValueError("verdict is None; it must be True or False")
    if answer.confidence not in range(1, 6):
        raise ValueError(f"confidence is {answer.confidence!r}; it must be 1 to 5")
    return answer


def _refuse_if_closed(place: Assignment) -> None:
    study = place.rater.study
    if not study.is_open:
        raise StudyClosed(f"{study.name} is {study.status} and takes no more ratings.")
    if crossover.is_too_early(place, timezone.now()):
        raise StudyError("This item belongs to your second session, which is not open yet.")
    if place.rater.withdrawn_at:
        raise StudyClosed(f"You have withdrawn from {study.name}.")
    if place.rater.finished_at:
        raise StudyClosed(f"You have finished {study.name}: your answers stand.")


def _used_elsewhere() -> StudyError:
    return StudyError("This form was sent before for another item; choose again and save.")


def _answer(
    place: Assignment, answer: Answer, submission_id: UUID, now: datetime, timing: Timing, shown: _Shown
) -> Rating:
    _hold(place)
    opened = min(place.opened_at or now, now)
    return Rating.objects.create(
        assignment=place,
        **_fields(answer),
        submission_id=submission_id,
        opened_at=opened,
        submitted_at=now,
        seconds=(now - opened).total_seconds(),
        **timing._asdict(),
        hand=shown.hand,
        viewport=shown.viewport,
        layout_shown=shown.layout_shown,
        guide_version=place.rater.guide_seen or place.rater.study.guide_version,
        interface_version=shown.interface,
    )


def _correct(place: Assignment, standing: Rating, answer: Answer, submission_id: UUID, now: datetime) -> Rating:
    """The new version takes the place of the old one; how long the first took stays as it was."""
    if not may_correct(place):
        raise StudyError("This answer stands: only the last one can be changed, and on the last page any.")
    for name, value in _fields(answer).items():
        setattr(standing, name, value)
    standing.submission_id, standing.revision, standing.revised_at = submission_id, standing.revision + 1, now
    standing.save()
    return standing


def _fields(answer: Answer) -> dict[str, object]:
    return {**answer._asdict(), "marks": list(answer.marks)}


def _log(rating: Rating, answer: Answer, now: datetime, timing: Timing) -> None:
    RatingEvent.objects.create(
        assignment_id=rating.assignment_id,
        kind="answer" if rating.revision == 1 else "correction",
        revision=rating.revision,
        **_fields(answer),
        submission_id=rating.submission_id,
        active_seconds=timing.active_seconds,
        at=now,
    )


def _drop_draft(place: Assignment) -> None:
    """By hand: nothing hangs on a draft, and Django takes ten times as long to find that out as the database to delete."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM {connection.ops.quote_name(Draft._meta.db_table)} WHERE assignment_id = %s", [place.pk]
        )


def _keep(place: Assignment, answer: Answer) -> None:
    kept = {name: value for name, value in _fields(answer).items() if name != "cannot_judge"}
    Draft.objects.update_or_create(assignment=place, defaults={**kept, "updated_at": timezone.now()})


def _hold(place: Assignment) -> None:
    """The lease is over with the rating. One that ended before it takes a slot of the item again, if any is free;
    else the rating is kept beside those that count."""
    late = place.released_at is not None
    if not late and place.lease_until is None:
        return
    place.released_at = place.lease_until = None
    if late and place.occasion == FIRST:
        slots.lock(place.rater.study_id)
        place.slot = slots.free_slot(place.item_id, place.rater.study.ratings_per_item)
        place.surplus = place.slot is None
    place.save(update_fields=["released_at", "lease_until", "slot", "surplus"])
