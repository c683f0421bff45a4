"""One rating per assignment, however it is sent."""

import threading
import uuid
from datetime import timedelta
from typing import Any

import factories
import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import IntegrityError, connection
from django.utils import timezone
from tests_support import race

from ratings import access, studies
from ratings.access import Door
from ratings.models import Assignment, Rating, Study
from ratings.protocols import ProtocolError
from ratings.simulated import simulate_raters
from ratings.studies import StudyClosed, StudyError

pytestmark = pytest.mark.both_databases


def first_place(study: Study) -> Assignment:
    assignment = studies.next_assignment(study.raters.first())
    assert assignment is not None
    return assignment


@pytest.fixture
def place(db) -> Assignment:
    factories.pool()
    return first_place(factories.open_study())


def test_a_rating_keeps_what_was_said_and_how_long_it_took_since_the_first_showing(place) -> None:
    studies.mark_opened(place)
    shown = place.opened_at
    studies.mark_opened(place)
    result = studies.rate(place, True, 4, uuid.uuid4(), now=shown + timedelta(seconds=12.5))
    assert (result.created, result.same) == (True, True)
    saved = Rating.objects.get()
    assert (saved.verdict, saved.confidence, saved.opened_at, saved.seconds) == (True, 4, shown, 12.5)


def test_the_same_submission_again_gives_the_rating_it_made(place) -> None:
    submission = uuid.uuid4()
    first = studies.rate(place, True, 4, submission)
    again = studies.rate(place, True, 4, submission)
    assert (again.rating, again.created, again.same) == (first.rating, False, True)


@pytest.mark.parametrize(("verdict", "confidence"), [(False, 4), (True, 5)])
def test_the_same_form_with_another_answer_is_told_which_stands(place, verdict, confidence) -> None:
    submission = uuid.uuid4()
    first = studies.rate(place, True, 4, submission)
    again = studies.rate(place, verdict, confidence, submission)
    assert (again.rating, again.created, again.same) == (first.rating, False, False)


def test_another_submission_for_a_rated_item_writes_nothing_and_is_told_which_stands(place) -> None:
    first = studies.rate(place, True, 4, uuid.uuid4())
    other = studies.rate(place, False, 1, uuid.uuid4())
    assert (other.rating, other.created, other.same) == (first.rating, False, False)
    assert Rating.objects.get().verdict is True


def test_a_form_sent_before_for_another_item_is_refused(place) -> None:
    submission = uuid.uuid4()
    studies.rate(place, True, 4, submission)
    with pytest.raises(StudyError, match="sent before for another item"):
        studies.rate(studies.next_assignment(place.rater), True, 4, submission)


def test_a_closed_study_takes_no_rating_but_still_replays_one(place) -> None:
    submission = uuid.uuid4()
    studies.rate(place, True, 4, submission)
    following = studies.next_assignment(place.rater)
    studies.close(place.rater.study)
    assert studies.rate(place, True, 4, submission).same
    with pytest.raises(StudyClosed, match="closed and takes no more ratings"):
        studies.rate(following, True, 4, uuid.uuid4())


@pytest.mark.parametrize("confidence", [0, 6, -1])
def test_confidence_is_one_to_five(place, confidence) -> None:
    with pytest.raises(ValueError, match="it must be 1 to 5"):
        studies.rate(place, True, confidence, uuid.uuid4())


def test_the_database_itself_refuses_a_confidence_of_six(place) -> None:
    now = timezone.now()
    with pytest.raises(IntegrityError):
        Rating.objects.create(
            assignment=place,
            verdict=True,
            confidence=6,
            submission_id=uuid.uuid4(),
            opened_at=now,
            submitted_at=now,
            seconds=0,
        )


def test_a_rater_goes_through_all_items_in_order_and_then_has_none_left(place) -> None:
    rater = place.rater
    seen = []
    while assignment := studies.next_assignment(rater):
        seen.append(assignment.position)
        assert studies.progress(rater) == (len(seen) - 1, 10 * 2 // 6 + (rater.assignments.count() > 3))
        studies.rate(assignment, True, 3, uuid.uuid4())
    assert seen == list(range(1, rater.assignments.count() + 1))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("one_form", [True, False])
def test_twelve_posts_at_once_make_one_rating(one_form) -> None:
    factories.pool()
    place = first_place(factories.open_study())
    submission = uuid.uuid4()
    results = race(lambda: studies.rate(place, True, 3, submission if one_form else uuid.uuid4()), 12)
    assert [r for r in results if isinstance(r, Exception)] == []
    assert sum(result.created for result in results) == 1
    assert sum(result.same for result in results) == (12 if one_form else 1)
    assert Rating.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_without_the_lock_several_threads_pass_the_same_check() -> None:
    """The control: were this to find one winner only, the race above would prove nothing."""
    factories.pool()
    place = first_place(factories.open_study())
    together = threading.Barrier(8)  # all hold a connection at once, of which a process has ten

    def unguarded() -> bool:
        free = not Rating.objects.filter(assignment=place).exists()
        together.wait(timeout=30)
        now = timezone.now()
        if free:
            Rating.objects.create(
                assignment=place, verdict=True, confidence=3, submission_id=uuid.uuid4(),
                opened_at=now, submitted_at=now, seconds=0,
            )  # fmt: skip
        return free

    results = race(unguarded, 8)
    turned_away = [result for result in results if isinstance(result, IntegrityError)]
    assert len(turned_away) == 7
    assert Rating.objects.count() == 1  # only the constraint stood between us and eight


@pytest.mark.django_db(transaction=True)
def test_of_twelve_requests_for_one_study_one_makes_it_and_the_others_are_told() -> None:
    factories.pool()
    protocol = studies.read_protocol(factories.protocol())
    results = race(lambda: studies.create_study(protocol), 12)
    told = [result for result in results if isinstance(result, ProtocolError)]
    assert len(told) == 11 and "is the slug of another study" in str(told[0])
    assert Study.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_study_opened_six_times_at_once_is_opened_once() -> None:
    factories.pool()
    study = studies.create_study(studies.read_protocol(factories.protocol()))
    results = race(lambda: studies.open_study(study), threads=6)
    assert results.count(None) == 1
    assert sum("only a study that is draft can be opened" in str(result) for result in results) == 5
    assert study.items.count() == 10


@pytest.mark.django_db(transaction=True)
def test_raters_simulated_three_times_at_once_rate_everything_once_and_count_it_once() -> None:
    factories.pool()
    study = factories.open_study()
    results = race(lambda: simulate_raters(study, 6, 0.9, 0.3, seed=1), threads=3)
    assert [result for result in results if isinstance(result, Exception)] == []
    assert sum(result.ratings for result in results) == Rating.objects.count() == 20


@pytest.mark.django_db(transaction=True)
def test_no_rating_comes_after_a_study_was_unblinded_at_the_same_moment(django_user_model) -> None:
    factories.pool()
    study, admin = factories.open_study(), django_user_model.objects.create_user("admin")
    waiting = list(Assignment.objects.all())[:11]
    acts = [
        lambda: studies.unblind(study, admin),
        *[lambda a=a: studies.rate(a, True, 3, uuid.uuid4()) for a in waiting],
    ]
    results = race(lambda: acts.pop()(), threads=len(acts))
    unblinded = Study.objects.get().unblinded_at
    assert unblinded and not any(rating.submitted_at > unblinded for rating in Rating.objects.all())
    assert sum(isinstance(result, StudyClosed) for result in results) == 11 - Rating.objects.count()


@pytest.mark.django_db(transaction=True)
def test_a_link_opened_while_its_seat_is_being_simulated_is_found_revoked() -> None:
    """The seat is looked at, then somebody opens its link, then the seat is taken: the opening has to wait."""
    factories.pool()
    study = factories.open_study()
    token = studies.invite(study.raters.first())
    for seat in study.raters.exclude(pk=study.raters.first().pk):
        studies.start(seat)  # taken: the invited seat is the only one that can be simulated
    looked, entered, opened = threading.Event(), threading.Event(), []

    def pause_after_looking(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        result = execute(sql, params, many, context)
        if sql.startswith("SELECT") and "ratings_signinlink" in sql and not looked.is_set():
            looked.set()
            entered.wait(timeout=1)
        return result

    def come_in() -> None:
        looked.wait(timeout=30)
        opened.append(access.open_link(token, AnonymousUser(), "rater"))
        entered.set()
        connection.close()

    visitor = threading.Thread(target=come_in)
    visitor.start()
    with connection.execute_wrapper(pause_after_looking):
        simulate_raters(study, 1, 0.9, 0.3, seed=1)
    visitor.join()
    assert study.raters.first().simulated
    assert [result.door for result in opened] == [Door.GONE]
