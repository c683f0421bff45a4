"""Prepared queries return what the same queries of Django return, for every user and all values."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.test import Client

from ratings.accounts import sessions
from ratings.models import Assignment, BrowserSession, Rater, RatingEvent, UnsavedAnswer
from ratings.rating import next_item, submit
from ratings.studies import StudyError, access, lifecycle
from tests.support.rating_room import create_open_study
from wetbench_site.prepared_queries import PreparedQuery

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_prepared_query_returns_the_rows_of_its_query_for_every_value() -> None:
    study = create_open_study(items=4, raters=2)
    submit.submit_rating(study.raters.get(number=1).assignments.get(position=1), True, 4, submission := uuid4())

    def events(place: int, of: UUID) -> QuerySet[RatingEvent, tuple[int]]:
        return RatingEvent.objects.filter(Q(assignment=place) | Q(submission_id=of)).order_by("pk").values_list("pk")

    prepared = PreparedQuery(events, "number", "uuid")

    for place in (*Assignment.objects.values_list("pk", flat=True), -1):
        for sent in (submission, uuid4()):
            assert list(prepared.fetch_rows(place, sent)) == list(events(place, sent))


def test_prepared_query_returns_an_assignment_with_all_selected_relations() -> None:
    rater = create_open_study(items=4, raters=2).raters.get(number=2)
    place = rater.assignments.get(position=2)
    submit.submit_rating(place, False, 2, uuid4(), note="é\n\N{SNOWMAN}")
    assert rater.user

    found = access.get_assignment_or_404(rater.user, place.code, to_show=True)

    fields = [field.attname for field in Assignment._meta.concrete_fields]
    known = Assignment.objects.get(pk=place.pk)
    assert [getattr(found, name) for name in fields] == [getattr(known, name) for name in fields]
    assert (found.item.payload, found.item.payload_sha256) == (known.item.payload, known.item.payload_sha256)
    assert (found.rater, found.rater.study, found.rater.study.protocol) == (rater, rater.study, rater.study.protocol)
    assert (found.rating.note, found.rating.submitted_at) == (known.rating.note, known.rating.submitted_at)
    assert not hasattr(found, "unsaved_answer")


def test_prepared_session_query_finds_a_session_until_it_ends() -> None:
    user, now = User.objects.create_user("ada"), datetime.now(UTC)
    BrowserSession.objects.create(session_key="k" * 32, session_data="x", expire_date=now, user=user)

    found = sessions._OPEN_SESSION.find_first("k" * 32, now - timedelta(seconds=1))
    assert found and (found.session_data, found.expire_date, found.user) == ("x", now, user)
    assert not sessions._OPEN_SESSION.find_first("k" * 32, now)
    assert not sessions._OPEN_SESSION.find_first("k" * 31, now - timedelta(seconds=1))


def test_session_signs_in_the_user_of_its_content_and_not_of_its_column(client: Client) -> None:
    ada, other = User.objects.create_user("ada"), User.objects.create_user("other")
    client.force_login(ada)
    BrowserSession.objects.update(user=other)

    assert client.get("/account/").context["user"] == ada


def test_prepared_session_query_finds_a_session_without_a_user() -> None:
    BrowserSession.objects.create(session_key="k" * 32, session_data="x", expire_date=(now := datetime.now(UTC)))

    found = sessions._OPEN_SESSION.find_first("k" * 32, now - timedelta(seconds=1))
    assert found and found.user is None


def test_prepared_progress_query_counts_for_the_requested_rater() -> None:
    study = create_open_study(items=6, raters=3)
    first, second = study.raters.order_by("number")[:2]
    total = first.assignments.count()

    submit.submit_rating(first.assignments.get(position=1), True, 4, uuid4())

    assert next_item.count_progress(first) == (1, total)
    assert next_item.count_progress(second) == (0, second.assignments.count())


NOW = datetime(2026, 1, 5, tzinfo=UTC)


def read_before(change: Callable[[Assignment], object]) -> Assignment:
    """Return an assignment with its rater and study as they were before the change."""
    rater = create_open_study(items=4, raters=1).raters.get()
    assignment = Assignment.objects.select_related("item", "rater__study").get(rater=rater, position=1)
    change(assignment)
    return assignment


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda place: Rater.objects.filter(pk=place.rater_id).update(finished_at=NOW), "You have finished"),
        (lambda place: Rater.objects.filter(pk=place.rater_id).update(withdrawn_at=NOW), "You have withdrawn"),
        (lambda place: lifecycle.pause_study(place.rater.study), "is paused"),
        (lambda place: lifecycle.close_study(place.rater.study), "is closed"),
        (lambda place: Assignment.objects.filter(pk=place.pk).delete(), "reassigned to another rater"),
    ],
    ids=["finished", "withdrawn", "paused", "closed", "reassigned"],
)
def test_rating_is_rejected_if_the_study_rater_or_assignment_changed_since_it_was_read(
    change: Callable[[Assignment], object], said: str
) -> None:
    """Study, rater and assignment are locked by short statements, and read again only if these report a change."""
    assignment = read_before(change)

    with pytest.raises(StudyError, match=said):
        submit.submit_rating(assignment, True, 4, uuid4())

    assert not RatingEvent.objects.exists()


def test_rating_records_the_latest_guide_version_that_its_rater_has_seen() -> None:
    assignment = read_before(lambda assignment: Rater.objects.filter(pk=assignment.rater_id).update(guide_seen=7))

    assert submit.submit_rating(assignment, True, 4, uuid4()).rating.guide_version == 7


def test_rating_deletes_its_own_unsaved_answer_and_no_other() -> None:
    one, other = create_open_study(items=4, raters=1).raters.get().assignments.order_by("position")[:2]
    for place in (one, other):
        assert submit.save_unsaved_answer(place, submit.Answer(True, 4))

    submit.submit_rating(one, True, 4, uuid4())

    assert list(UnsavedAnswer.objects.values_list("assignment", flat=True)) == [other.pk]
