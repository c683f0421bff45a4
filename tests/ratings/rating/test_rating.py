"""Tests of submitting, correcting and drafting the rating of an assignment."""

import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from django.utils import timezone

from ratings.models import Assignment, InitialRating, Rater, Rating, RatingEvent, Study, UnsavedAnswer
from ratings.protocol import ProtocolError
from ratings.raters.simulated_raters import simulate_raters
from ratings.rating import Answer, SubmissionResult, next_item
from ratings.rating.submit import (
    Timing,
    answer_of,
    can_correct,
    save_unsaved_answer,
    submit_initial_rating,
    submit_rating,
)
from ratings.studies import StudyClosed, StudyError, lifecycle
from tests.support import run_factory, study_factory
from tests.support.steps import run_concurrently

pytestmark = pytest.mark.both_databases


def get_first_assignment(study: Study) -> Assignment:
    assignment = next_item.find_next_assignment(study_factory.fill_rater_place(study, "R01"))
    assert assignment is not None
    return assignment


@pytest.fixture
def assignment(db: None) -> Assignment:
    run_factory.create_pool()
    return get_first_assignment(study_factory.create_open_study())


def submit_new_form(
    assignment: Assignment, verdict: bool | None = True, confidence: int | None = 4, **more: Any
) -> SubmissionResult:
    """Submit an answer with a new form."""
    return submit_rating(assignment, verdict, confidence, more.pop("submission_id", None) or uuid.uuid4(), **more)


def list_rating_events(assignment: Assignment) -> list[tuple[str, int, bool | None, int | None]]:
    return list(assignment.rating_events.values_list("kind", "revision", "verdict", "confidence"))


# ---------------------------------------------------------------- one rating per assignment


def test_rating_stores_the_answer_and_the_seconds_since_the_item_was_first_opened(assignment: Assignment) -> None:
    next_item.mark_opened(assignment)
    shown = assignment.opened_at
    assert shown is not None
    next_item.mark_opened(assignment)
    result = submit_new_form(assignment, marks=("seen/1",), note="odd", now=shown + timedelta(seconds=12.5))
    assert (result.is_new, result.is_stored) == (True, True)
    saved = Rating.objects.get()
    assert (saved.verdict, saved.confidence, saved.opened_at, saved.seconds) == (True, 4, shown, 12.5)
    assert (saved.marks, saved.note, saved.guide_version) == (["seen/1"], "odd", 1)
    assert list_rating_events(assignment) == [("answer", 1, True, 4)]


def test_rating_stores_the_timing_and_display_reported_by_the_browser(assignment: Assignment) -> None:
    submit_new_form(
        assignment,
        timing=Timing(30.5, 12.25, 2),
        input_device="both",
        viewport="1440x900",
        layout_shown="plain",
        interface="3",
        calculations=4,
    )
    saved = Rating.objects.get()
    assert saved.calculations == 4
    assert (saved.active_seconds, saved.first_verdict_seconds, saved.changes) == (30.5, 12.25, 2)
    assert (saved.hand, saved.viewport, saved.layout_shown, saved.interface_version) == (
        "both", "1440x900", "plain", "3",
    )  # fmt: skip


def test_rating_submitted_twice_with_the_same_id_returns_the_first_rating(assignment: Assignment) -> None:
    submission = uuid.uuid4()
    first = submit_new_form(assignment, submission_id=submission)
    again = submit_new_form(assignment, submission_id=submission)
    assert (again.rating, again.is_new, again.is_stored) == (first.rating, False, True)
    assert len(list_rating_events(assignment)) == 1


@pytest.mark.parametrize(
    "other", [{"verdict": False}, {"confidence": 5}, {"note": "no"}, {"marks": ("seen/1",)}, {"cannot_judge": True}]
)
def test_rating_form_sent_again_with_another_answer_is_rejected_and_returns_the_current_rating(
    assignment: Assignment, other: dict[str, Any]
) -> None:
    submission = uuid.uuid4()
    first = submit_new_form(assignment, submission_id=submission)
    again = submit_new_form(assignment, **other, submission_id=submission, revision=1)
    assert (again.rating, again.is_new, again.is_stored, again.is_id_reused) == (first.rating, False, False, True)
    assert list_rating_events(assignment) == [("answer", 1, True, 4)]


def test_rating_form_opened_before_the_current_answer_changes_nothing(assignment: Assignment) -> None:
    """Both forms were opened before there was an answer."""
    first = submit_new_form(assignment)
    other = submit_new_form(assignment, False, 1)
    assert (other.rating, other.is_new, other.is_stored, other.is_id_reused) == (first.rating, False, False, False)
    assert Rating.objects.get().verdict is True


def test_same_answer_from_a_second_tab_is_accepted_without_a_conflict(assignment: Assignment) -> None:
    submit_new_form(assignment)
    again = submit_new_form(assignment)
    assert (again.is_new, again.is_stored) == (False, True)
    assert len(list_rating_events(assignment)) == 1


def test_rating_form_used_for_another_item_is_rejected(assignment: Assignment) -> None:
    submission = uuid.uuid4()
    submit_new_form(assignment, submission_id=submission)
    following = next_item.find_next_assignment(assignment.rater)
    assert following is not None
    with pytest.raises(StudyError, match="already sent for another item"):
        submit_new_form(following, submission_id=submission)


def test_correction_with_the_submission_id_of_another_item_is_rejected_and_changes_nothing(
    assignment: Assignment,
) -> None:
    submission = uuid.uuid4()
    submit_new_form(assignment, submission_id=submission)
    following = next_item.find_next_assignment(assignment.rater)
    assert following is not None
    submit_new_form(following, False, 2)
    with pytest.raises(StudyError, match="already sent for another item"):
        submit_new_form(following, submission_id=submission, revision=1)
    assert list_rating_events(following) == [("answer", 1, False, 2)]


def test_closed_study_rejects_new_ratings_but_confirms_a_repeated_submission(assignment: Assignment) -> None:
    submission = uuid.uuid4()
    submit_new_form(assignment, submission_id=submission)
    following = next_item.find_next_assignment(assignment.rater)
    assert following is not None
    lifecycle.close_study(assignment.rater.study)
    assert submit_new_form(assignment, submission_id=submission).is_stored
    with pytest.raises(StudyClosed, match="closed and accepts no more ratings"):
        submit_new_form(following)
    with pytest.raises(StudyClosed, match="closed"):
        submit_new_form(assignment, False, 1, revision=1)


def test_withdrawn_rater_cannot_submit_ratings(assignment: Assignment) -> None:
    Rater.objects.filter(pk=assignment.rater_id).update(withdrawn_at=timezone.now())
    with pytest.raises(StudyClosed, match="You have withdrawn"):
        submit_new_form(assignment)


@pytest.mark.parametrize("confidence", [0, 6, -1, None])
def test_rating_confidence_outside_one_to_five_is_rejected(assignment: Assignment, confidence: int | None) -> None:
    with pytest.raises(ValueError, match="it must be 1 to 5"):
        submit_new_form(assignment, True, confidence)


def test_cannot_judge_stores_neither_verdict_nor_confidence(assignment: Assignment) -> None:
    submit_new_form(assignment, True, 3, cannot_judge=True, note="not my field")
    saved = Rating.objects.get()
    assert (saved.verdict, saved.confidence, saved.cannot_judge, saved.note) == (None, None, True, "not my field")
    assert next_item.find_next_assignment(assignment.rater) != assignment


@pytest.mark.parametrize("whole", [{"confidence": 6}, {"verdict": None}, {"cannot_judge": True}])
def test_rating_table_rejects_incomplete_answers(assignment: Assignment, whole: dict[str, Any]) -> None:
    now = timezone.now()
    with pytest.raises(IntegrityError):
        Rating.objects.create(
            assignment=assignment, submission_id=uuid.uuid4(), opened_at=now, submitted_at=now, seconds=0,
            **{"verdict": True, "confidence": 3, **whole},
        )  # fmt: skip


def test_next_item_goes_through_all_items_in_order_and_then_returns_none(assignment: Assignment) -> None:
    seen, total = [], assignment.rater.assignments.count()
    while upcoming := next_item.find_next_assignment(assignment.rater):
        seen.append(upcoming.position)
        assert next_item.count_progress(assignment.rater) == (len(seen) - 1, total)
        submit_new_form(upcoming)
    assert seen == list(range(1, total + 1))


# ---------------------------------------------------------------- corrections


def test_correction_becomes_the_current_answer_and_every_version_is_stored(assignment: Assignment) -> None:
    made = submit_new_form(assignment, True, 4, timing=Timing(10.0, 5.0, 1)).rating
    submit_new_form(assignment, False, 2, revision=1, note="on second thoughts", timing=Timing(3.0))
    submit_new_form(assignment, None, None, revision=2, cannot_judge=True)

    stands = Rating.objects.get()
    assert list_rating_events(assignment) == [
        ("answer", 1, True, 4),
        ("correction", 2, False, 2),
        ("correction", 3, None, None),
    ]
    assert (stands.revision, stands.cannot_judge, stands.submitted_at) == (3, True, made.submitted_at)
    assert stands.active_seconds == 10.0  # of the first version; each event has its own time
    assert list(assignment.rating_events.values_list("active_seconds", flat=True)) == [10.0, 3.0, None]
    assert stands.revised_at is not None and stands.revised_at > stands.submitted_at


def test_correction_based_on_an_old_revision_is_a_conflict(assignment: Assignment) -> None:
    submit_new_form(assignment)
    submit_new_form(assignment, False, 2, revision=1)
    late = submit_new_form(assignment, True, 5, revision=1)
    assert (late.is_new, late.is_stored, late.rating.revision) == (False, False, 2)


def test_only_the_last_answer_can_be_changed_while_items_remain(assignment: Assignment) -> None:
    rater = assignment.rater
    submit_new_form(assignment)
    following = next_item.find_next_assignment(rater)
    assert following is not None
    assert can_correct(assignment)
    submit_new_form(following)
    assert (can_correct(assignment), can_correct(following)) == (False, True)
    with pytest.raises(StudyError, match="You can change your last answer"):
        submit_new_form(assignment, False, 1, revision=1)


def test_any_answer_can_be_changed_after_the_last_item_until_the_rater_finishes(assignment: Assignment) -> None:
    submit_new_form(assignment)
    while following := next_item.find_next_assignment(assignment.rater):
        submit_new_form(following)
    assert submit_new_form(assignment, False, 1, revision=1).is_new
    Rater.objects.filter(pk=assignment.rater_id).update(finished_at=timezone.now())
    with pytest.raises(StudyClosed, match="You have finished"):
        submit_new_form(assignment, True, 5, revision=2)
    assert len(list_rating_events(assignment)) == 2


def test_finished_rater_cannot_write_but_a_repeated_submission_is_still_confirmed(assignment: Assignment) -> None:
    submission = uuid.uuid4()
    submit_rating(assignment, True, 4, submission)
    late = next_item.find_next_assignment(assignment.rater)
    assert late is not None
    Rater.objects.filter(pk=assignment.rater_id).update(finished_at=timezone.now())
    for write in (lambda: submit_new_form(late), lambda: submit_initial_rating(late, True, 4, uuid.uuid4())):
        with pytest.raises(StudyClosed, match="You have finished"):
            write()
    assert not save_unsaved_answer(late, Answer(True, 4))
    again = submit_rating(assignment, True, 4, submission)
    assert (again.is_new, again.is_stored) == (False, True)
    assert (Rating.objects.count(), RatingEvent.objects.count(), UnsavedAnswer.objects.count()) == (1, 1, 0)
    assert not InitialRating.objects.exists()


def test_current_rating_equals_its_last_event(assignment: Assignment) -> None:
    for revision, (verdict, confidence) in enumerate([(True, 1), (False, 3), (True, 5)]):
        submit_new_form(assignment, verdict, confidence, revision=revision, marks=(f"seen/{revision}",))
    last = assignment.rating_events.last()
    assert last is not None and answer_of(last) == answer_of(Rating.objects.get()) == Answer(True, 5, marks=("seen/2",))


# ---------------------------------------------------------------- initial ratings and drafts


def test_initial_rating_is_stored_beside_the_final_rating(assignment: Assignment) -> None:
    submit_initial_rating(assignment, True, 2, uuid.uuid4(), marks=("seen/1",), note="hm")
    assert (assignment.unsaved_answer.marks, assignment.unsaved_answer.note, assignment.unsaved_answer.verdict) == (
        ["seen/1"],
        "hm",
        None,
    )
    submit_new_form(assignment, False, 5)
    look, rating = InitialRating.objects.get(), Rating.objects.get()
    assert (look.verdict, look.confidence, rating.verdict, rating.confidence) == (True, 2, False, 5)


def test_initial_rating_is_accepted_once(assignment: Assignment) -> None:
    submission = uuid.uuid4()
    submit_initial_rating(assignment, True, 2, submission)
    again, other = (
        submit_initial_rating(assignment, True, 2, submission),
        submit_initial_rating(assignment, False, 5, uuid.uuid4()),
    )
    assert (again.is_new, again.is_stored, other.is_new, other.is_stored) == (False, True, False, False)
    assert InitialRating.objects.get().verdict is True
    submit_new_form(assignment)
    with pytest.raises(StudyError, match="already sent for another item"):
        submit_initial_rating(next_item.find_next_assignment(assignment.rater), True, 2, submission)  # type: ignore[arg-type]


def test_initial_rating_is_rejected_in_a_closed_study(assignment: Assignment) -> None:
    lifecycle.close_study(assignment.rater.study)
    with pytest.raises(StudyClosed, match="closed"):
        submit_initial_rating(assignment, True, 2, uuid.uuid4())
    assert not InitialRating.objects.exists()


def test_unsaved_answer_is_kept_until_the_rating_is_saved_and_changes_no_rating(assignment: Assignment) -> None:
    assert save_unsaved_answer(assignment, Answer(False, None, note="half a"))
    assert save_unsaved_answer(assignment, Answer(False, 3, note="half a thought"))
    assert UnsavedAnswer.objects.get().note == "half a thought" and not Rating.objects.exists()
    submit_new_form(assignment, True, 4)
    assert not save_unsaved_answer(assignment, Answer(False, 1))  # a delayed draft that arrives after the answer
    assert not UnsavedAnswer.objects.exists() and Rating.objects.get().verdict is True


def test_unsaved_answer_is_stored_in_a_paused_study_but_not_in_a_closed_one(assignment: Assignment) -> None:
    lifecycle.pause_study(assignment.rater.study)
    assert save_unsaved_answer(assignment, Answer(True, 2))
    lifecycle.resume_study(assignment.rater.study)
    lifecycle.close_study(assignment.rater.study)
    assert not save_unsaved_answer(assignment, Answer(False, 2))
    assert UnsavedAnswer.objects.get().verdict is True


# ---------------------------------------------------------------- pool: after the reservation


def test_rating_submitted_after_its_reservation_expired_takes_a_free_slot(assignment: Assignment) -> None:
    Assignment.objects.filter(pk=assignment.pk).update(slot=None, released_at=timezone.now())
    submit_new_form(assignment)
    assignment.refresh_from_db()
    # The other of the two requested ratings keeps its slot; this one gets the free slot.
    slots = set(assignment.item.assignments.values_list("slot", flat=True))
    assert (assignment.released_at, assignment.surplus, slots) == (None, False, {1, 2})


def test_rating_whose_slot_was_taken_by_another_rater_is_stored_as_surplus(assignment: Assignment) -> None:
    slot = assignment.slot
    Assignment.objects.filter(pk=assignment.pk).update(slot=None, released_at=timezone.now())
    other = assignment.rater.study.raters.exclude(assignments__item=assignment.item).first()
    assert other is not None
    Assignment.objects.create(item=assignment.item, rater=other, position=99, pair=uuid.uuid4(), slot=slot)
    assert submit_new_form(assignment).is_new
    assignment.refresh_from_db()
    assert (assignment.slot, assignment.surplus, assignment.released_at) == (None, True, None)
    assert Rating.objects.filter(assignment=assignment).exists()


def test_reservation_ends_when_the_item_is_rated(assignment: Assignment) -> None:
    Assignment.objects.filter(pk=assignment.pk).update(reserved_until=timezone.now() - timedelta(minutes=1))
    submit_new_form(assignment)
    assignment.refresh_from_db()
    assert assignment.reserved_until is None and assignment.slot is not None


# ---------------------------------------------------------------- concurrency


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("one_form", [True, False])
def test_rating_submitted_twelve_times_at_once_is_stored_once(one_form: bool) -> None:
    run_factory.create_pool()
    assignment = get_first_assignment(study_factory.create_open_study())
    submission, confidences = uuid.uuid4(), iter([3] * 12 if one_form else [1, 2, 3, 4, 5] * 3)
    results = run_concurrently(
        lambda: submit_new_form(assignment, True, next(confidences), submission_id=submission if one_form else None), 12
    )
    assert [r for r in results if isinstance(r, Exception)] == []
    assert sum(result.is_new for result in results) == 1
    assert Rating.objects.count() == RatingEvent.objects.count() == 1
    if one_form:
        assert all(result.is_stored for result in results)


@pytest.mark.django_db(transaction=True)
def test_study_created_twelve_times_at_once_is_created_once_and_the_others_get_an_error() -> None:
    run_factory.create_pool()
    protocol = lifecycle.parse_protocol(study_factory.build_protocol())
    results = run_concurrently(lambda: lifecycle.create_study(protocol), 12)
    told = [result for result in results if isinstance(result, ProtocolError)]
    assert len(told) == 11 and "is the slug of another study" in str(told[0])
    assert Study.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_study_opened_six_times_at_once_is_opened_once() -> None:
    run_factory.create_pool()
    study = lifecycle.create_study(lifecycle.parse_protocol(study_factory.build_protocol()))
    results = run_concurrently(lambda: lifecycle.open_study(study), threads=6)
    assert results.count(None) == 1
    assert sum("only a study that is draft can be opened" in str(result) for result in results) == 5
    assert study.items.count() == 10


@pytest.mark.django_db(transaction=True)
def test_raters_simulated_three_times_at_once_rate_and_count_each_item_once() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    results = run_concurrently(lambda: simulate_raters(study, 6, 0.9, 0.3, seed=1), threads=3)
    assert [result for result in results if isinstance(result, Exception)] == []
    assert sum(result.ratings for result in results) == Rating.objects.count() == 20


@pytest.mark.django_db(transaction=True)
def test_unblinding_during_concurrent_submissions_allows_no_later_rating() -> None:
    run_factory.create_pool()
    study, admin = study_factory.create_open_study(), User.objects.create_user("admin")
    waiting = list(Assignment.objects.all())[:11]
    acts: list[Callable[[], object]] = [partial(lifecycle.close_and_unblind, study, admin)]
    acts += [partial(submit_new_form, assignment) for assignment in waiting]
    results = run_concurrently(lambda: acts.pop()(), threads=len(acts))
    unblinded = Study.objects.get().unblinded_at
    assert unblinded and not any(rating.submitted_at > unblinded for rating in Rating.objects.all())
    assert sum(isinstance(result, StudyClosed) for result in results) == 11 - Rating.objects.count()
