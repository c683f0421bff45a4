"""The rater's own pages: list of studies, consent, guide, last page, withdrawal, result, profile."""

import csv
import io
import uuid
from datetime import date
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ratings.models import EVIDENCE, Assignment, ImportedItem, ItemSource, Rater, RaterProfile, Rating, Study
from ratings.protocol.reference import find_reference
from ratings.raters import own_results
from ratings.rating import submit
from ratings.studies import StudyError
from simulation.models import PERTURBATIONS
from tests.support.rating_room import create_open_study, create_rater, store_rating

pytestmark = pytest.mark.django_db


def first_rater(study: Study) -> Rater:
    rater = study.raters.order_by("number").first()
    assert rater is not None
    return rater


def base(rater: Rater) -> str:
    return f"/rate/study/{rater.code}/"


@pytest.fixture
def rater() -> Rater:
    return first_rater(create_open_study(items=3))


@pytest.fixture
def rater_client(client: Client, rater: Rater) -> Client:
    return signed_in(client, rater)


def signed_in(client: Client, rater: Rater) -> Client:
    assert rater.user is not None
    client.force_login(rater.user)
    return client


def rate_all(rater: Rater, verdict: bool = True, confidence: int = 4) -> None:
    for place in rater.assignments.select_related("item", "rater__study").order_by("position"):
        store_rating(place, verdict=verdict, confidence=confidence)


def become(study: Study, status: str) -> None:
    Study.objects.filter(pk=study.pk).update(status=status)


# ---------------------------------------------------------------- the list of studies


def test_rater_home_redirects_a_rater_with_one_study_to_their_work(rater_client: Client, rater: Rater) -> None:
    assert rater_client.get("/rate/")["Location"] == base(rater)


@pytest.mark.parametrize("asked", ["pause", "pause=1", "all=1"])
def test_rater_home_shows_the_list_on_request_or_after_pausing(rater_client: Client, asked: str) -> None:
    page = rater_client.get(f"/rate/?{asked}")
    assert page.status_code == 200
    assert "0 of 3 rated" in page.content.decode()
    assert ("You have paused" in page.content.decode()) is asked.startswith("pause")


@pytest.mark.parametrize(
    ("status", "changes", "words"),
    [
        ("paused", {}, "Paused"),
        ("closed", {}, "accepts no more answers"),
        ("unblinded", {}, "accepts no more answers"),
        ("open", {"finished_at": timezone.now()}, "Finished"),
        ("open", {"withdrawn_at": timezone.now()}, "You left this study"),
    ],
)
def test_rater_home_shows_the_state_of_each_study(
    rater_client: Client, rater: Rater, status: str, changes: dict[str, Any], words: str
) -> None:
    become(rater.study, status)
    Rater.objects.filter(pk=rater.pk).update(**changes)
    page = rater_client.get("/rate/")
    assert page.status_code == 200
    assert words in page.content.decode()


def test_rater_home_offers_check_and_finish_once_all_items_are_rated(rater_client: Client, rater: Rater) -> None:
    rate_all(rater)
    page = rater_client.get("/rate/").content.decode()
    assert "All rated" in page and f"{base(rater)}done/" in page


def test_rater_home_shows_the_deadline_while_there_is_work(rater_client: Client, rater: Rater) -> None:
    Study.objects.filter(pk=rater.study_id).update(deadline=date(2027, 1, 31))
    assert "31 January 2027" in rater_client.get("/rate/?all").content.decode()
    become(rater.study, "closed")
    assert "31 January 2027" not in rater_client.get("/rate/?all").content.decode()


def test_rater_home_query_count_does_not_grow_with_studies(client: Client) -> None:
    def studies_of(user: User, count: int) -> int:
        for _ in range(count):
            taken = first_rater(create_open_study(items=3))
            Rater.objects.filter(pk=taken.pk).update(user=user)
        client.force_login(user)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert client.get("/rate/").status_code == 200
        return len(queries)

    assert studies_of(User.objects.create(username="two"), 2) == studies_of(User.objects.create(username="six"), 6)


def test_rater_home_returns_404_to_users_who_are_not_raters(client: Client) -> None:
    client.force_login(User.objects.create(username="nobody"))
    for page in ("/rate/", "/rate/profile/", "/rate/mine.csv"):
        assert client.get(page).status_code == 404


# ---------------------------------------------------------------- consent and the guide


def test_consent_is_required_before_any_page_is_shown(client: Client, rater: Rater) -> None:
    Rater.objects.filter(pk=rater.pk).update(consented_at=None)
    signed_in(client, rater)
    assert client.get(base(rater))["Location"] == f"{base(rater)}agree/"
    assert client.get(f"{base(rater)}guide/")["Location"] == f"{base(rater)}agree/"
    assert client.post(f"{base(rater)}agree/").status_code == 422
    assert client.post(f"{base(rater)}agree/", {"consent": "on"}).status_code == 303
    rater.refresh_from_db()
    assert rater.consented_at is not None
    assert client.get(f"{base(rater)}agree/")["Location"] == base(rater)  # asked once


def test_guide_version_is_recorded_when_the_rater_continues(client: Client) -> None:
    rater = first_rater(create_open_study(items=3, begun=False))
    Study.objects.filter(pk=rater.study_id).update(guide_version=3)
    signed_in(client, rater)
    assert client.get(base(rater))["Location"] == f"{base(rater)}guide/"
    assert client.post(f"{base(rater)}guide/").status_code == 303
    rater.refresh_from_db()
    assert rater.guide_seen == 3
    assert rater.started_at is not None and rater.practised_at is not None  # no practice is required


def test_new_guide_version_must_be_read_before_rating_continues_without_new_practice(
    client: Client,
) -> None:
    rater = first_rater(create_open_study(items=3, practice=3))
    Study.objects.filter(pk=rater.study_id).update(guide_version=2, guide="Mind the units.")
    signed_in(client, rater)
    assert client.get(base(rater))["Location"] == f"{base(rater)}guide/"
    page = client.get(f"{base(rater)}guide/").content.decode()
    assert "These instructions have changed" in page and "Mind the units." in page
    gone_on = client.post(f"{base(rater)}guide/", follow=True)
    assert gone_on.redirect_chain[-1][0] == f"/rate/{rater.assignments.get(position=1).code}/"


def test_opening_the_guide_changes_nothing(client: Client) -> None:
    rater = first_rater(create_open_study(items=3, begun=False))
    signed_in(client, rater).get(f"{base(rater)}guide/")
    rater.refresh_from_db()
    assert (rater.guide_seen, rater.started_at) == (0, None)


@pytest.mark.parametrize(
    ("display", "words"),
    [
        ({"marks": ["always"]}, "Mark one row or more of every item"),
        ({"marks": ["if_not_plausible"]}, "mark the row that looks wrong"),
        ({"layouts": ["confirm"]}, "You answer twice"),
    ],
)
def test_guide_describes_the_screen_of_this_rater(client: Client, display: dict[str, Any], words: str) -> None:
    with_it, without = first_rater(create_open_study(items=3, display=display)), first_rater(create_open_study(items=3))
    assert words in signed_in(client, with_it).get(f"{base(with_it)}guide/").content.decode()
    assert words not in signed_in(client, without).get(f"{base(without)}guide/").content.decode()


@pytest.mark.parametrize("kind", [EVIDENCE, "transition_plausibility"])
def test_guide_mentions_neither_arm_nor_source(client: Client, kind: str) -> None:
    rater = first_rater(create_open_study(kind, items=4, display={"layouts": ["aligned", "plain"], "by": "item"}))
    page = signed_in(client, rater).get(f"{base(rater)}guide/").content.decode()
    for word in ("offline", "aligned", "layout", "subtle", "perturb", "prevalence"):
        assert word not in page.lower()


# ---------------------------------------------------------------- the last page


def test_last_page_is_shown_only_when_no_work_is_left(rater_client: Client, rater: Rater) -> None:
    assert rater_client.get(f"{base(rater)}done/")["Location"] == base(rater)
    rate_all(rater)
    page = rater_client.get(f"{base(rater)}done/").content.decode()
    for place in rater.assignments.all():
        assert f"/rate/{place.code}/" in page
    assert "Finish" in page and "4" in page


def test_finish_requires_all_items_rated_and_locks_the_answers(rater_client: Client, rater: Rater) -> None:
    assert rater_client.post(f"{base(rater)}finish/")["Location"] == base(rater)
    rater.refresh_from_db()
    assert rater.finished_at is None
    rate_all(rater)
    assert rater_client.post(f"{base(rater)}finish/")["Location"] == f"{base(rater)}done/"
    rater.refresh_from_db()
    first = rater.finished_at
    assert first is not None
    assert not submit.can_correct(rater.assignments.get(position=1))
    page = rater_client.get(f"{base(rater)}done/").content.decode()
    assert "You finished on" in page and "Change" not in page
    rater_client.post(f"{base(rater)}finish/")
    rater.refresh_from_db()
    assert rater.finished_at == first


def test_change_after_finish_is_not_saved_and_redirects_to_the_last_page(rater_client: Client, rater: Rater) -> None:
    rate_all(rater)
    rater_client.post(f"{base(rater)}finish/")
    place = rater.assignments.get(position=1)
    late = {"verdict": "no", "confidence": "1", "submission_id": str(uuid.uuid4()), "revision": "1"}
    answered = rater_client.post(f"/rate/{place.code}/", late, follow=True)
    assert answered.redirect_chain[-1][0] == f"{base(rater)}done/"
    assert "You finished on" in answered.content.decode()
    assert (place.rating.verdict, place.rating.revision) == (True, 1)


@pytest.mark.parametrize("status", ["paused", "closed"])
def test_finish_and_changes_are_rejected_while_the_study_accepts_no_answers(
    rater_client: Client, rater: Rater, status: str
) -> None:
    rate_all(rater)
    become(rater.study, status)
    rater_client.post(f"{base(rater)}finish/")
    rater.refresh_from_db()
    assert rater.finished_at is None
    page = rater_client.get(f"{base(rater)}done/").content.decode()
    assert "your answers cannot be changed" in page and "Change" not in page


def test_last_page_query_count_does_not_grow_with_answers(client: Client) -> None:
    def asked(items: int) -> int:
        rater = first_rater(create_open_study(items=items))
        rate_all(rater)
        signed_in(client, rater)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"{base(rater)}done/").status_code == 200
        return len(queries)

    assert asked(10) == asked(20)


# ---------------------------------------------------------------- withdrawal


def test_withdrawal_requires_confirmation(rater_client: Client, rater: Rater) -> None:
    assert "kept and count" not in rater_client.get(f"{base(rater)}withdraw/").content.decode()  # nothing is rated yet
    rate_all(rater)
    assert "kept and count" in rater_client.get(f"{base(rater)}withdraw/").content.decode()
    rater.refresh_from_db()
    assert rater.withdrawn_at is None
    page = rater_client.post(f"{base(rater)}withdraw/", follow=True)
    rater.refresh_from_db()
    assert rater.withdrawn_at is not None and not rater.dropped
    assert "You have withdrawn" in page.content.decode()
    assert Rating.objects.filter(assignment__rater=rater).count() == 3  # still stored


def test_withdrawal_page_says_when_answers_will_be_dropped(client: Client) -> None:
    rater = first_rater(create_open_study(items=3, withdrawal="drop"))
    rate_all(rater)
    signed_in(client, rater)
    assert "left out" in client.get(f"{base(rater)}withdraw/").content.decode()
    client.post(f"{base(rater)}withdraw/")
    rater.refresh_from_db()
    assert rater.dropped


# ---------------------------------------------------------------- the result


def with_truths(study: Study, truths: list[tuple[bool | None, str]]) -> None:
    """Set the truth of the items, in the order of the first rater."""
    rater = first_rater(study)
    places = rater.assignments.select_related("item").order_by("position")
    for place, (truth, perturbation) in zip(places, truths, strict=True):
        reference = find_reference(perturbation if perturbation != "none" else None, truth)
        item = place.item
        row = ImportedItem.objects.create(
            study=study, key=str(item.code), label="elsewhere", record={}, perturbation=perturbation, truth=truth, reference=reference,
            payload=item.payload, payload_sha256=item.payload_sha256,
        )  # fmt: skip
        ItemSource.objects.create(
            item=item,
            pair=uuid.uuid4(),
            label="elsewhere",
            perturbation=perturbation,
            truth=truth,
            imported=row,
            reference=reference,
        )


def answer(rater: Rater, position: int, verdict: bool | None, confidence: int | None, occasion: int = 1) -> None:
    assignment = rater.assignments.get(position=position)
    if occasion == 2:
        assignment = Assignment.objects.create(
            item=assignment.item, rater=rater, occasion=2, position=100 + position, pair=assignment.pair
        )
    store_rating(assignment, verdict=verdict, confidence=confidence, cannot_judge=verdict is None)


@pytest.fixture
def judged() -> Rater:
    """Twenty items: six obvious errors (four found), six subtle (one found), six genuine (five called plausible), one of
    unknown truth, one not judged. Two are repeated: the first with the same answer, the third with another."""
    study = create_open_study(items=20, feedback=True)
    rater = first_rater(study)
    none, obvious, subtle = (name for name, _ in PERTURBATIONS)
    known = [(False, obvious)] * 6 + [(False, subtle)] * 6 + [(True, none)] * 6
    with_truths(study, [*known, (None, none), (True, none)])
    verdicts = [False] * 4 + [True] * 2 + [False] + [True] * 5 + [True] * 5 + [False]
    for position, verdict in enumerate(verdicts, start=1):
        answer(rater, position, verdict, 5 if position % 2 else 3)
    answer(rater, 19, False, 1)
    answer(rater, 20, None, None)
    answer(rater, 1, False, 4, occasion=2)
    answer(rater, 3, True, 4, occasion=2)
    become(study, "unblinded")
    return Rater.objects.select_related("study").get(pk=rater.pk)


def test_own_result_counts_right_answers_by_kind_and_by_confidence(judged: Rater) -> None:
    result = own_results.own_result(judged)
    assert [(share.name, share.right, share.of) for share in result.kinds] == [
        ("obvious errors detected", 4, 6),
        ("subtle errors detected", 1, 6),
        ("outcomes without a planted error, rated plausible", 5, 6),
    ]
    # Odd positions have confidence 5, even ones 3; repeats are in none of these.
    assert [tuple(share) for share in result.confidence] == [("3", 4, 9), ("5", 6, 9)]
    assert result.total is not None and tuple(result.total)[1:] == (10, 18) and not result.left_out
    assert result.same_again is not None and tuple(result.same_again)[1:] == (1, 2)
    assert (result.unknown, result.not_judged) == (1, 1)


def test_own_result_never_reveals_whether_a_single_answer_was_right(client: Client, judged: Rater) -> None:
    """Numbers based on few answers, or with all or none right, are hidden and cannot be calculated from the others."""
    Rating.objects.filter(assignment__rater=judged, assignment__position=2).update(confidence=1)
    result = own_results.own_result(judged)
    assert [share.name for share in result.confidence] == [
        "5"
    ]  # showing "3" as well would reveal the single answer with 1
    assert result.left_out and len(result.kinds) == 3
    page = signed_in(client, judged).get(f"{base(judged)}result/").content.decode()
    assert "1 of 1" not in page and "would reveal the right answers to single items" in page
    subtle = Rating.objects.filter(assignment__rater=judged, assignment__position=7)
    subtle.update(verdict=True)
    result = own_results.own_result(judged)
    # No subtle error was found: that number is hidden, and so is the total, from which it could be calculated.
    assert [share.name for share in result.kinds] == ["outcomes without a planted error, rated plausible"]


def test_own_result_is_hidden_for_too_few_answers(client: Client, judged: Rater) -> None:
    Rating.objects.filter(assignment__rater=judged, assignment__position__gt=4, assignment__occasion=1).delete()
    result = own_results.own_result(judged)
    assert result.total is None and result.kinds == () == result.confidence and result.left_out
    page = signed_in(client, judged).get(f"{base(judged)}result/").content.decode()
    assert "There are too few answers to show" in page and " of 4" not in page


def test_own_result_is_shown_only_to_the_rater(client: Client, judged: Rater) -> None:
    page = signed_in(client, judged).get(f"{base(judged)}result/")
    assert page.status_code == 200
    assert "4 of 6" in page.content.decode() and "elsewhere" not in page.content.decode()
    other = judged.study.raters.exclude(pk=judged.pk).get()
    assert signed_in(client, other).get(f"{base(judged)}result/").status_code == 404
    assert "My result" in signed_in(client, judged).get("/rate/").content.decode()


@pytest.mark.parametrize("status", ["open", "paused", "closed"])
def test_own_result_returns_404_before_unblinding(client: Client, judged: Rater, status: str) -> None:
    become(judged.study, status)
    assert signed_in(client, judged).get(f"{base(judged)}result/").status_code == 404
    with pytest.raises(StudyError):
        own_results.own_result(Rater.objects.select_related("study").get(pk=judged.pk))


def test_own_result_returns_404_if_the_study_gives_no_feedback(client: Client, judged: Rater) -> None:
    judged.study.protocol["feedback"] = False
    judged.study.save()
    assert signed_in(client, judged).get(f"{base(judged)}result/").status_code == 404
    assert "My result" not in client.get("/rate/").content.decode()


def test_own_result_excludes_surplus_ratings(judged: Rater) -> None:
    judged.assignments.filter(position=1).update(surplus=True, slot=None)
    assert tuple(own_results.own_result(judged).kinds[0])[1:] == (3, 5)


# ---------------------------------------------------------------- own answers as a file


def test_my_ratings_download_contains_only_own_answers(rater_client: Client, rater: Rater) -> None:
    rate_all(rater)
    other = rater.study.raters.exclude(pk=rater.pk).get()
    rate_all(other, verdict=False)
    Rating.objects.filter(assignment__rater=rater, assignment__position=2).update(note="=1+1")
    response = rater_client.get("/rate/mine.csv")
    rows = list(csv.DictReader(io.StringIO(b"".join(response).decode("utf-8-sig"))))
    assert list(rows[0]) == [
        "study", "rater", "number", "answer", "confidence", "marks", "note", "saved_at", "changed_at", "item",
    ]  # fmt: skip
    assert [(row["rater"], row["number"], row["answer"]) for row in rows] == [
        ("R01", str(number), "Plausible") for number in (1, 2, 3)
    ]
    assert rows[1]["note"] == "'=1+1"  # not a formula in a spreadsheet
    assert response["Cache-Control"] == "no-store"


# ---------------------------------------------------------------- the profile


def test_profile_is_saved_and_invalid_values_are_named(rater_client: Client, rater: Rater) -> None:
    about = {"save": "about", "degree": "Master's degree", "field": "<b>ecology</b>", "years": "12"}
    assert rater_client.post("/rate/profile/", about).status_code == 303
    profile = RaterProfile.objects.get(user=rater.user)
    assert (profile.degree, profile.field, profile.years) == ("Master's degree", "<b>ecology</b>", 12)
    assert "&lt;b&gt;ecology" in rater_client.get("/rate/profile/").content.decode()
    assert rater_client.post("/rate/profile/", {**about, "years": "-1"}).status_code == 422
    assert rater_client.post("/rate/profile/", {"save": "everything"}).status_code == 422


def test_password_can_be_set_and_then_changed_only_with_the_old_one(rater_client: Client, rater: Rater) -> None:
    new = {"save": "password", "new_password1": "pipette-tips-42", "new_password2": "pipette-tips-42"}
    assert rater_client.post("/rate/profile/", new).status_code == 303
    assert rater_client.get("/rate/profile/").status_code == 200  # still signed in
    user = User.objects.get(pk=rater.user_id)
    assert user.check_password("pipette-tips-42")
    assert rater_client.post("/rate/profile/", new).status_code == 422
    assert rater_client.post("/rate/profile/", {**new, "old_password": "pipette-tips-42"}).status_code == 303
    assert rater_client.post("/rate/profile/", {**new, "old_password": "wrong"}).status_code == 422


def test_single_keys_setting_is_stored_per_person(rater_client: Client, rater: Rater) -> None:
    assert rater_client.post("/rate/keys/", {"single_keys": "off"}).status_code == 204
    assert RaterProfile.objects.get(user=rater.user).single_keys is False
    assert rater_client.post("/rate/keys/", {"single_keys": "on", "from": "profile"}).status_code == 303
    assert RaterProfile.objects.get(user=rater.user).single_keys is True
    assert rater_client.get("/rate/keys/").status_code == 405


def test_erasure_requires_the_checkbox_and_keeps_codes_and_answers(rater_client: Client, rater: Rater) -> None:
    rate_all(rater)
    assert rater_client.post("/rate/profile/erase/").status_code == 422
    gone = rater_client.post("/rate/profile/erase/", {"sure": "on"}, follow=True)
    assert "Your personal data has been erased" in gone.content.decode()
    user = User.objects.get(pk=rater.user_id)
    assert not user.is_active and "rater" not in user.username and not user.has_usable_password()
    assert RaterProfile.objects.get(user=user).field == ""
    assert Rating.objects.filter(assignment__rater=rater).count() == 3
    assert rater_client.get("/rate/").status_code in (302, 401)


# ---------------------------------------------------------------- whose pages these are


@pytest.mark.parametrize("page", ["agree/", "guide/", "practice/", "done/", "withdraw/", "result/"])
def test_pages_of_another_rater_return_404(client: Client, rater: Rater, page: str) -> None:
    other = create_rater(rater.study, 3)
    signed_in(client, other)
    assert client.get(base(rater) + page).status_code == 404
    assert client.post(base(rater) + page).status_code in (404, 405)
    client.logout()
    assert client.get(base(rater) + page).status_code == 302
    assert client.get(base(rater) + page, headers={"HX-Request": "true"}).status_code == 401


@pytest.mark.parametrize("page", ["finish/", "practice/done/"])
def test_rater_pages_that_change_data_reject_get(rater_client: Client, rater: Rater, page: str) -> None:
    assert rater_client.get(base(rater) + page).status_code == 405
