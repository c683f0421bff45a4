from datetime import timedelta

import factories
import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import Http404
from django.test import Client
from django.utils import timezone

from ratings import access, studies
from ratings.access import Door
from ratings.models import SignInLink

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
STRANGER = AnonymousUser()


@pytest.fixture
def rater():
    factories.pool()
    return factories.open_study().raters.first()


def test_only_the_hash_of_a_token_is_in_the_database(rater) -> None:
    token = studies.invite(rater)
    link = SignInLink.objects.get()
    assert len(token) >= 43  # 256 bits in base64
    assert all(token not in str(value) for value in vars(link).values())
    assert len(link.token_sha256) == 64


def test_a_link_opens_in_any_browser_until_rating_has_started(rater) -> None:
    token = studies.invite(rater)
    assert access.open_link(token, STRANGER, "rater")[:3] == (Door.WELCOME, rater.user, "rater")
    assert access.open_link(token, STRANGER, "rater").door == Door.WELCOME
    studies.start(rater)
    elsewhere = access.open_link(token, STRANGER, "rater")
    assert (elsewhere.door, elsewhere.user) == (Door.GONE, None)
    assert "used in another browser" in elsewhere.why
    assert access.open_link(token, rater.user, "rater").door == Door.WELCOME


def test_a_new_link_takes_the_place_of_the_old_one(rater) -> None:
    old, new = studies.invite(rater), studies.invite(rater)
    assert access.open_link(old, STRANGER, "rater").door == Door.GONE
    assert access.open_link(new, STRANGER, "rater").door == Door.WELCOME


def test_a_new_link_made_after_rating_started_opens_in_one_browser_only(rater) -> None:
    studies.start(rater)
    token = studies.invite(rater)
    assert access.open_link(token, STRANGER, "rater").door == Door.WELCOME
    assert access.open_link(token, STRANGER, "rater").door == Door.GONE


@pytest.mark.parametrize("token", ["", "x", "A" * 43, "\ud800", "é" * 5000])
def test_a_forged_link_is_unknown(rater, token) -> None:
    studies.invite(rater)
    assert access.open_link(token, STRANGER, "rater").door == Door.UNKNOWN


def test_a_link_of_one_purpose_opens_no_door_of_the_other(rater, admin_user) -> None:
    assert access.open_link(studies.invite(rater), STRANGER, "admin").door == Door.UNKNOWN
    assert access.open_link(access.make_link(admin_user, "admin"), STRANGER, "rater").door == Door.UNKNOWN


def test_an_admins_link_works_for_a_day_and_until_the_next_one(admin_user) -> None:
    token = access.make_link(admin_user, "admin")
    assert access.open_link(token, STRANGER, "admin").user == admin_user
    assert access.open_link(token, STRANGER, "admin").user == admin_user
    SignInLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert access.open_link(token, STRANGER, "admin").why == "This link has expired."
    access.make_link(admin_user, "admin")
    assert access.open_link(token, STRANGER, "admin").door == Door.GONE


def test_a_deactivated_user_has_no_links(rater) -> None:
    token = studies.invite(rater)
    User.objects.filter(pk=rater.user_id).update(is_active=False)
    assert access.open_link(token, STRANGER, "rater").door == Door.UNKNOWN


def test_a_rater_reaches_own_assignments_and_no_others(rater) -> None:
    own = studies.next_assignment(rater)
    other = rater.study.raters.exclude(pk=rater.pk).first()
    foreign = studies.next_assignment(other)
    assert access.assignment_for(rater.user, own.code) == own
    for user, code in ((rater.user, foreign.code), (STRANGER, own.code), (other.user, own.code)):
        with pytest.raises(Http404):
            access.assignment_for(user, code)


def test_a_rater_seat_is_found_by_its_user_only(rater, admin_user) -> None:
    assert access.rater_for(rater.user) == rater
    for user in (admin_user, STRANGER):
        with pytest.raises(Http404):
            access.rater_for(user)


def test_a_study_is_found_by_staff_only(rater, admin_user) -> None:
    assert access.study_for(admin_user, rater.study.slug) == rater.study
    for user, slug in ((rater.user, rater.study.slug), (STRANGER, rater.study.slug), (admin_user, "nope")):
        with pytest.raises(Http404):
            access.study_for(user, slug)


def test_showing_an_item_reads_no_source(rater, django_assert_max_num_queries) -> None:
    own, user = studies.next_assignment(rater), rater.user
    with django_assert_max_num_queries(1) as asked:
        payload = access.assignment_for(user, own.code).item.payload
    assert payload["kind"] == "transition"
    assert "itemsource" not in asked.captured_queries[0]["sql"]


def test_no_link_is_made_for_a_closed_study(rater) -> None:
    studies.close(rater.study)
    with pytest.raises(studies.StudyClosed):
        studies.invite(rater)


def test_staff_who_open_a_raters_link_are_asked_before_they_are_signed_out(client: Client, rater) -> None:
    boss = User.objects.create_user("boss", is_staff=True)
    client.force_login(boss)
    link = f"/r/{studies.invite(rater)}/"
    asked = client.get(link)
    assert asked.status_code == 200 and "signs boss out" in asked.content.decode()
    assert client.session["_auth_user_id"] == str(boss.pk)
    assert client.post(link).status_code == 302
    assert client.session["_auth_user_id"] == str(rater.user_id)


def test_being_asked_does_not_use_a_link_up(client: Client, rater) -> None:
    studies.start(rater)
    link = f"/r/{studies.invite(rater)}/"
    client.force_login(User.objects.create_user("boss", is_staff=True))
    client.get(link)
    client.get(link)
    assert client.post(link).status_code == 302
