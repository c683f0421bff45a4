"""Submit a rater's answer to an assignment.

Every accepted submission creates a new revision and an append-only event. A submission that is sent twice is stored
once.
"""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from ratings.models import Assignment, InitialRating, Rater, Rating, RatingEvent, UnsavedAnswer
from ratings.models.answers import FIRST
from ratings.rating import first_answer, next_item
from ratings.rating.first_answer import NextAction, NextItem
from ratings.rating.next_item import Progress
from ratings.studies import StudyClosed, StudyError, designs, reassign


class Answer(NamedTuple):
    """A rater's answer to an item. With `cannot_judge`, verdict and confidence are None."""

    verdict: bool | None
    confidence: int | None
    cannot_judge: bool = False
    marks: tuple[str, ...] = ()
    note: str = ""


class Timing(NamedTuple):
    """Times measured by the browser while the item was shown. Without scripts the times are None and `changes` is 0."""

    # The server measures times as well and stores them apart from these.
    active_seconds: float | None = None
    first_verdict_seconds: float | None = None
    changes: int = 0


class SubmissionResult(NamedTuple):
    """The rating that now counts, and what the submission led to.

    If it is neither new nor stored, another answer counts, and the rater must choose.
    """

    rating: Rating
    is_new: bool  # the submission created a new revision
    is_stored: bool  # its answer is stored, from this submission or an earlier one
    is_id_reused: bool = False  # the form's id was used for another answer before
    next_item: NextItem | None = None  # if it was opened in the same transaction
    progress: Progress | None = None  # after this answer, if the caller need not count again


class InitialRatingResult(NamedTuple):
    """The initial rating of the confirm layout, which never changes."""

    initial_rating: InitialRating
    is_new: bool  # this submission created it
    is_stored: bool  # it equals what was submitted


def answer_of(version: Rating | RatingEvent) -> Answer:
    """Return the answer stored in a rating or in one of its revisions."""
    return Answer(version.verdict, version.confidence, version.cannot_judge, tuple(version.marks), version.note)


def submit_rating(
    assignment: Assignment,
    verdict: bool | None,
    confidence: int | None,
    submission_id: UUID,  # of the form: the same form sent twice has the same id
    now: datetime | None = None,
    *,
    cannot_judge: bool = False,
    marks: tuple[str, ...] = (),
    note: str = "",
    revision: int = 0,
    timing: Timing | None = None,
    input_device: str = "",
    viewport: str = "",
    layout_shown: str = "",
    interface: str = "",
    calculations: int | None = None,
    next_action: NextAction = NextAction.NOTHING,
) -> SubmissionResult:
    """Store the answer as the rating of this assignment, or return why it was not stored.

    `revision` is the one that the form displayed (0 for a first answer). `next_action`: what to do with the rater's next
    assignment in the same transaction, because it is shown with the response. `calculations` is None unless the calculator
    of the page was opened.

    Raises StudyClosed if the study no longer accepts ratings, StudyError if the assignment or the form belongs to
    another item, and ValueError if the answer is incomplete.
    """
    answer = _validate_answer(Answer(verdict, confidence, cannot_judge, tuple(marks), note))
    timing, now = timing or Timing(), now or timezone.now()
    screen = {"hand": input_device, "viewport": viewport, "layout_shown": layout_shown, "interface_version": interface}
    screen_use = {**timing._asdict(), **screen, "calculations": calculations}
    columns = {**_answer_columns(answer), **screen_use, "submission_id": submission_id}
    first = _build_first_answer(assignment, columns, now)
    return _store_at_once(assignment, first, timing, next_action) or _store_step_by_step(
        assignment, columns, timing, revision, now
    )


def _store_at_once(
    assignment: Assignment, rating: Rating, timing: Timing, next_action: NextAction
) -> SubmissionResult | None:
    """Store the first answer to an open item of a planned design, or return None with nothing stored."""
    rater = assignment.rater
    # A claim has to follow in a pool; session 2 of a crossover may not be open; an item that is not opened has no time.
    if designs.is_pool_study(rater.study) or designs.is_crossover(rater.study) or assignment.opened_at is None:
        return None
    event, now = _build_event(rating, timing), rating.submitted_at
    stored = first_answer.store_first_answer(assignment, rating, event, now, next_action)
    if stored is None:
        return None
    rating.pk, rating._state.adding = stored.rating_id, False
    progress = next_item.build_progress(rater, stored.answered_items, stored.waiting_items)
    return SubmissionResult(rating, is_new=True, is_stored=True, next_item=stored.next_item, progress=progress)


@transaction.atomic
def _store_step_by_step(
    assignment: Assignment, columns: dict[str, Any], timing: Timing, revision: int, now: datetime
) -> SubmissionResult:
    assignment = _lock_assignment(assignment)
    rating = _build_first_answer(assignment, columns, now)
    # The rating that counts is read after the lock, so a correction that another tab has just committed is not
    # overwritten.
    if current := Rating.objects.filter(assignment=assignment).first():
        if result := _find_stored_result(assignment, current, rating, revision):
            return result
    # The browser restored an old form.
    elif RatingEvent.objects.filter(submission_id=rating.submission_id).exists():
        raise _id_used_error()
    # Checked after repeated submissions: a form that is sent again after the study closed still gets the confirmation
    # that its answer is stored.
    _check_open_for_rating(assignment)
    if current:
        rating = _revise_rating(assignment, current, rating)
    else:
        _create_rating(assignment, rating)
    _build_event(rating, timing).save(force_insert=True)
    UnsavedAnswer.objects.filter(assignment=assignment).delete()
    return SubmissionResult(rating, is_new=True, is_stored=True)


@transaction.atomic
def submit_initial_rating(
    assignment: Assignment,
    verdict: bool,
    confidence: int,
    submission_id: UUID,
    now: datetime | None = None,
    *,
    marks: tuple[str, ...] = (),
    note: str = "",
    active_seconds: float | None = None,
) -> InitialRatingResult:
    """Store the initial rating, which the rater gives before the balance sheet is shown. It is stored once.

    Marks and note are copied to the unsaved answer, so that the form of the final rating shows them. Raises like
    `submit_rating`.
    """
    _validate_answer(Answer(verdict, confidence))
    # The balance sheet is shown only after this row exists, so the answer cannot have been influenced by it.
    assignment = _lock_assignment(assignment)
    sent = {"submission_id": submission_id, "verdict": verdict, "confidence": confidence, "marks": list(marks)}
    # The note is not compared: it is copied to the unsaved answer and can still be edited there.
    if initial_rating := InitialRating.objects.filter(assignment=assignment).first():
        same = all(getattr(initial_rating, field) == value for field, value in sent.items())
        return InitialRatingResult(initial_rating, is_new=False, is_stored=same)
    _check_open_for_rating(assignment)
    if Rating.objects.filter(assignment=assignment).exists():
        raise StudyError("This item is rated already.")
    if InitialRating.objects.filter(submission_id=submission_id).exists():
        raise _id_used_error()
    times = {"active_seconds": active_seconds, "at": now or timezone.now()}
    initial_rating = InitialRating.objects.create(assignment=assignment, **sent, **times)
    # Verdict and confidence start empty, so that the final answer is chosen and not merely confirmed.
    _store_unsaved_answer(assignment, Answer(None, None, marks=tuple(marks), note=note))
    return InitialRatingResult(initial_rating, is_new=True, is_stored=True)


@transaction.atomic
def save_unsaved_answer(assignment: Assignment, answer: Answer) -> bool:
    """Store what the rater has selected but not saved. Return False if the item is rated or can no longer be rated."""
    assignment = _lock_assignment(assignment)
    rater = assignment.rater
    # A paused study still stores what was selected, so nothing is lost until it continues.
    is_over = rater.study.status not in ("open", "paused") or rater.withdrawn_at or rater.finished_at
    if is_over or Rating.objects.filter(assignment=assignment).exists():
        return False
    _store_unsaved_answer(assignment, answer)
    Rater.objects.filter(pk=rater.pk).update(last_seen_at=timezone.now())
    return True


def can_correct(assignment: Assignment) -> bool:
    """Return whether the rater can still change this answer.

    They can change their last answer, and every answer once they have no item left, until Finish or the end of the study.
    """
    rater = assignment.rater
    if not rater.study.is_open or rater.finished_at or rater.withdrawn_at:
        return False
    # Session 2 may show the other condition of the same pair; answers of session 1 must not change with that knowledge.
    if designs.is_crossover(rater.study) and assignment.session == 1 and designs.has_begun_session_2(rater):
        return False
    answered = rater.assignments.filter(answered_at__isnull=False)
    # Two answers can have the same time, so the position decides which one is the last.
    last_answered = answered.order_by("-answered_at", "-position").values_list("pk", flat=True).first()
    return last_answered == assignment.pk or not next_item.unrated_assignments(rater).exists()


def _find_stored_result(
    assignment: Assignment, current: Rating, submitted: Rating, revision: int
) -> SubmissionResult | None:
    """Return the result of a submission that stores nothing, or None if it may be stored as a correction."""
    answer = answer_of(submitted)
    if event := RatingEvent.objects.filter(submission_id=submitted.submission_id).first():
        if event.assignment_id != assignment.pk:
            raise _id_used_error()
        # The id is also compared with older revisions: a retry that arrives after a correction must not undo it.
        same = answer_of(event) == answer
        return SubmissionResult(current, is_new=False, is_stored=same, is_id_reused=not same)
    # Two tabs with the same answer agree, whatever revision each of them displayed.
    if answer_of(current) == answer:
        return SubmissionResult(current, is_new=False, is_stored=True)
    # An outdated revision means that another tab changed the answer; the rater sees both and chooses.
    return None if revision == current.revision else SubmissionResult(current, is_new=False, is_stored=False)


def _lock_assignment(assignment: Assignment) -> Assignment:
    """Lock the study, the rater and the assignment, and return the assignment with current values."""
    study = assignment.rater.study
    # The study is always locked first, so that closing waits for answers in progress and answers wait for closing. A
    # shared lock is enough unless a free slot may have to be found (in a pool, or if the assignment was released): raters
    # then do not wait for each other.
    if designs.is_pool_study(study) or assignment.released_at:
        study = reassign.lock_study(study.pk)
    else:
        reassign.lock_study_shared(study)
    # NO KEY: inserting a rating needs only a key share lock on the assignment, and must not wait for this one.
    lockable = Assignment.objects.select_for_update(of=("self", "rater"), no_key=True)
    locked = lockable.select_related("rater", "item").filter(pk=assignment.pk).first()
    if locked is None:  # it was never opened, and has been reassigned
        raise StudyError("This item has been reassigned to another rater. Please continue with the next one.")
    locked.rater.study = study
    return locked


def _validate_answer(answer: Answer) -> Answer:
    """Return the answer; without verdict and confidence if it cannot be judged. Raises ValueError if incomplete."""
    if answer.cannot_judge:
        return answer._replace(verdict=None, confidence=None)
    if answer.verdict is None:
        raise ValueError("verdict is None; it must be True or False")
    # `range` also rejects 2.5 and text, which a comparison of limits would not.
    if answer.confidence not in range(1, 6):
        raise ValueError(f"confidence is {answer.confidence!r}; it must be 1 to 5")
    return answer


def _check_open_for_rating(assignment: Assignment) -> None:
    study = assignment.rater.study
    if not study.is_open:
        raise StudyClosed(f"{study.name} is {study.status} and accepts no more ratings.")
    # Also checked when the item is opened; a request can reach this line without that page.
    if designs.is_too_early(assignment, timezone.now()):
        raise StudyError("This item belongs to your second session, which is not open yet.")
    if assignment.rater.withdrawn_at:
        raise StudyClosed(f"You have withdrawn from {study.name}.")
    if assignment.rater.finished_at:
        raise StudyClosed(f"You have finished {study.name}, so your answers can no longer be changed.")


def _id_used_error() -> StudyError:
    return StudyError("This form was already sent for another item. Please choose your answer again and save it.")


def _build_first_answer(assignment: Assignment, columns: dict[str, Any], now: datetime) -> Rating:
    """Return an unsaved rating with these columns, and the times and the guide of the assignment."""
    # A clock that was set back must not give a negative duration.
    opened = min(assignment.opened_at or now, now)
    return Rating(
        # Not the object: it would then have a rating that may never be stored.
        assignment_id=assignment.pk,
        **columns,
        opened_at=opened,
        submitted_at=now,
        seconds=(now - opened).total_seconds(),
        # The version of the guide that this rater has confirmed, which can be older than the current one.
        guide_version=assignment.rater.guide_seen or assignment.rater.study.guide_version,
    )


def _create_rating(assignment: Assignment, rating: Rating) -> None:
    is_waiting = assignment.released_at is None
    _settle_reservation(assignment)
    rating.save(force_insert=True)
    Assignment.objects.filter(pk=assignment.pk).update(answered_at=rating.submitted_at)
    Rater.objects.filter(pk=assignment.rater_id).update(
        answered_items=F("answered_items") + 1,
        waiting_items=F("waiting_items") - int(is_waiting),
        counted_items=F("counted_items") + int(assignment.occasion == FIRST and not assignment.surplus),
    )


def _revise_rating(assignment: Assignment, current: Rating, submitted: Rating) -> Rating:
    """Store a new revision. Raises StudyError if the answer can no longer be corrected."""
    if not can_correct(assignment):
        advice = "You can change your last answer, and every answer on the last page."
        raise StudyError(f"This answer can no longer be changed. {advice}")
    # The times of the first answer remain: they measure the rating, not its correction.
    for field, value in _answer_columns(answer_of(submitted)).items():
        setattr(current, field, value)
    current.submission_id, current.revision = submitted.submission_id, current.revision + 1
    current.revised_at = submitted.submitted_at
    current.save()
    Rater.objects.filter(pk=assignment.rater_id).update(corrections=F("corrections") + 1)
    return current


def _answer_columns(answer: Answer) -> dict[str, object]:
    return {**answer._asdict(), "marks": list(answer.marks)}


def _build_event(rating: Rating, timing: Timing) -> RatingEvent:
    """Return the event of this version of an answer. Events are only added, so every earlier answer can be reconstructed."""
    return RatingEvent(
        assignment_id=rating.assignment_id,
        kind="answer" if rating.revision == 1 else "correction",
        revision=rating.revision,
        **_answer_columns(answer_of(rating)),
        submission_id=rating.submission_id,
        active_seconds=timing.active_seconds,
        at=rating.revised_at or rating.submitted_at,
    )


def _store_unsaved_answer(assignment: Assignment, answer: Answer) -> None:
    # An unsaved answer has no field for it: "cannot judge" is submitted at once.
    values = {field: value for field, value in _answer_columns(answer).items() if field != "cannot_judge"}
    UnsavedAnswer.objects.update_or_create(assignment=assignment, defaults={**values, "updated_at": timezone.now()})


def _settle_reservation(assignment: Assignment) -> None:
    """End the reservation of a pool item now that it is rated.

    If it had expired, take a free slot of the item; if none is free, the rating is surplus: stored but not counted.
    """
    is_released = assignment.released_at is not None
    # Only items of a pool study have a reservation.
    if not is_released and assignment.reserved_until is None:
        return
    assignment.released_at = assignment.reserved_until = None
    # A repeated item has no slot and is never counted, so there is nothing to take again.
    if is_released and assignment.occasion == FIRST:
        # The slot may be free now and taken a moment later by a claim; the lock is the one that claims take.
        reassign.lock_study(assignment.rater.study_id)
        assignment.slot = reassign.find_free_slot(assignment.item_id, assignment.rater.study.ratings_per_item)
        assignment.surplus = assignment.slot is None
    assignment.save(update_fields=["released_at", "reserved_until", "slot", "surplus"])
