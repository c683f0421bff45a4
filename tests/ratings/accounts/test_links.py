"""Personal links: how a seat is taken, and how its rater comes back."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from ratings.models import Invitation, Membership, Rater, RaterProfile, SignInLink, Study, StudyEvent
from ratings.models.study_events import InterimLook
from ratings.raters import inviting, joining
from ratings.studies import StudyClosed, StudyError, access, lifecycle, members
from ratings.studies.access import Door
from tests.support import seats
from tests.support.seats import STRANGER
from tests.support.steps import race

pytestmark = pytest.mark.django_db


def expire(model: type[Invitation] | type[SignInLink]) -> None:
    model.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def test_only_the_hash_of_a_token_is_in_the_database() -> None:
    token = inviting.invite(seats.seat())
    invitation = Invitation.objects.get()
    assert len(token) >= 43  # 256 bits in base64
    assert all(token not in str(value) for value in vars(invitation).values())
    assert invitation.expires_at - invitation.created_at == timedelta(days=7)


def test_the_consent_page_shows_what_is_asked_and_uses_nothing_up(client: Client) -> None:
    study = seats.study(contact="lab@example.org", consent="You may stop at any time.")
    token = inviting.invite(seats.seat(study))
    for _ in range(3):  # a mail scanner, a preview and a person
        page = client.get(f"/r/{token}/")
    text = page.content.decode()
    assert page.status_code == 200
    assert all(
        said in text for said in ("Small study", "Could this be?", "You may stop at any time.", "lab@example.org")
    )
    # 2 items at 2 minutes and 10 minutes of reading: 14, told as 15
    assert "About 15 minutes in all" in text
    assert page.headers["Cache-Control"] == "no-store" and page.headers["Referrer-Policy"] == "same-origin"
    assert Invitation.objects.get().used_at is None and not User.objects.exists()


@pytest.mark.both_databases
def test_agreeing_takes_the_seat_signs_in_and_goes_on_to_the_work(client: Client) -> None:
    seat = seats.seat()
    answer = seats.accept(client, inviting.invite(seat))
    seat.refresh_from_db()
    assert (answer.status_code, answer["Location"]) == (302, f"/rate/study/{seat.code}/")
    assert seat.consented_at and client.session["_auth_user_id"] == str(seat.user_id)
    profile = RaterProfile.objects.get(user=seat.user)
    assert (profile.degree, profile.field, profile.years) == ("Doctorate (PhD, DPhil, MD)", "cell biology", 9)
    assert not seat.user.has_usable_password() and seat.user.username.startswith("rater-")


def test_without_the_tick_nothing_happens(client: Client) -> None:
    token = inviting.invite(seats.seat())
    answer = client.post(f"/r/{token}/", seats.PROFILE)
    assert answer.status_code == 422 and "Tick the box to take part." in answer.content.decode()
    assert not User.objects.exists() and Invitation.objects.get().used_at is None


@pytest.mark.parametrize("hidden", ["\u202ebiology", "cell\x07biology", "bio\u200blogy"])
def test_hidden_characters_are_refused_in_the_profile(client: Client, hidden: str) -> None:
    answer = seats.accept(client, inviting.invite(seats.seat()), field=hidden)
    assert answer.status_code == 422 and "Hidden characters" in answer.content.decode()


def test_the_profile_is_asked_once_in_a_life(client: Client) -> None:
    first, second = seats.seat(seats.study(slug="one")), seats.seat(seats.study(slug="two"))
    seats.accept(client, inviting.invite(first))
    token = inviting.invite(second)
    assert 'name="degree"' not in client.get(f"/r/{token}/").content.decode()
    assert seats.accept(client, token, field="astrology").status_code == 302
    first.refresh_from_db()
    second.refresh_from_db()
    assert second.user == first.user
    assert RaterProfile.objects.get(user=first.user).field == "cell biology"


def test_nothing_but_the_fields_of_the_form_is_taken_from_the_post(client: Client) -> None:
    token = inviting.invite(seats.seat())
    seats.accept(
        client,
        token,
        is_staff="1",
        is_superuser="1",
        username="boss",
        single_keys="",
        label="R99",
        erased_at="2020-01-01",
    )
    user = User.objects.get()
    assert not (user.is_staff or user.is_superuser) and user.username != "boss"
    assert user.rater_profile.single_keys and user.rater_profile.erased_at is None


def test_a_password_is_optional_and_must_be_a_good_one(client: Client) -> None:
    token = inviting.invite(seats.seat(), email="ada@example.org")
    for bad in ("short", "password1234", "ada@example.org"):
        assert seats.accept(client, token, password=bad).status_code == 422
    assert seats.accept(client, token, password="seven grey pipettes").status_code == 302
    elsewhere = Client()
    assert elsewhere.login(username="ADA@example.org", password="seven grey pipettes")
    assert elsewhere.login(username=User.objects.get().username, password="seven grey pipettes")


@pytest.mark.parametrize("token", ["x", "A" * 43, "é" * 500, "%2e%2e"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_a_link_nobody_made_is_not_found(client: Client, token: str, method: str) -> None:
    inviting.invite(seats.seat())
    assert getattr(client, method)(f"/r/{token}/").status_code == 404
    assert client.get(f"/sign-in/{token}/").status_code == 404


@pytest.mark.both_databases
def test_a_used_link_says_so_in_another_browser_and_goes_on_in_its_own(client: Client) -> None:
    seat = seats.seat()
    token = inviting.invite(seat)
    seats.accept(client, token)
    elsewhere = Client().get(f"/r/{token}/")
    assert elsewhere.status_code == 410 and "This link has been used." in elsewhere.content.decode()
    assert client.get(f"/r/{token}/")["Location"] == f"/rate/study/{seat.code}/"
    assert Client().post(f"/r/{token}/", seats.AGREED).status_code == 410


@pytest.mark.both_databases
def test_an_expired_and_a_withdrawn_link_say_so(client: Client) -> None:
    study = seats.study()
    first, second = inviting.invite(seats.seat(study)), inviting.invite(seats.seat(study, "R02"))
    inviting.revoke(seats.seat(study, "R02"))
    Invitation.objects.filter(seat__label="R01").update(expires_at=timezone.now())
    for token, why in ((first, "has expired"), (second, "was revoked")):
        page = client.get(f"/r/{token}/")
        assert page.status_code == 410 and why in page.content.decode()
        assert seats.accept(client, token).status_code == 410
    assert not User.objects.exists()


@pytest.mark.parametrize("change", ["used_at", "revoked_at", "expires_at"])
@pytest.mark.both_databases
def test_an_invitation_that_ends_while_its_page_is_open_is_not_accepted(change: str) -> None:
    invitation = joining.find(inviting.invite(seats.seat()))
    assert invitation is not None and joining.why_gone(invitation) == ""
    Invitation.objects.update(**{change: timezone.now()})
    with pytest.raises(joining.Gone):
        joining.accept(invitation, STRANGER, joining.Joining())
    assert not User.objects.exists() and not Rater.objects.filter(user__isnull=False).exists()


def test_a_new_link_takes_the_place_of_the_old_one(client: Client) -> None:
    seat = seats.seat()
    old, new = inviting.invite(seat), inviting.invite(seat)
    assert client.get(f"/r/{old}/").status_code == 410
    assert client.get(f"/r/{new}/").status_code == 200


@pytest.mark.parametrize("change", [{"withdrawn_at": timezone.now()}, {"simulated": True, "invited_at": None}])
def test_a_seat_that_was_given_away_cannot_be_taken(client: Client, change: dict) -> None:
    seat = seats.seat()
    token = inviting.invite(seat)
    Rater.objects.filter(pk=seat.pk).update(**change)
    assert seats.accept(client, token).status_code == 410
    assert not User.objects.exists()


@pytest.mark.parametrize(("status", "answer"), [("open", 200), ("paused", 200), ("closed", 410), ("unblinded", 410)])
def test_a_link_works_while_the_study_is_under_way(client: Client, status: str, answer: int) -> None:
    study = seats.study()
    token = inviting.invite(seats.seat(study))
    type(study).objects.update(status=status)
    assert client.get(f"/r/{token}/").status_code == answer


@pytest.mark.parametrize("status", ["draft", "closed", "unblinded"])
def test_no_link_is_made_for_a_study_that_is_not_under_way(status: str) -> None:
    study = seats.study()
    type(study).objects.update(status=status)
    with pytest.raises(StudyClosed):
        inviting.invite(seats.seat(study))


@pytest.mark.parametrize("change", [{"simulated": True}, {"imported_as": "expert 3"}, {"withdrawn_at": timezone.now()}])
def test_no_link_is_made_for_who_is_no_person_or_has_withdrawn(change: dict) -> None:
    seat = seats.seat()
    Rater.objects.filter(pk=seat.pk).update(**change)
    with pytest.raises(StudyError):
        inviting.invite(seat)


def test_staff_who_open_a_raters_link_are_asked_before_they_are_signed_out(client: Client) -> None:
    boss, seat = User.objects.create_user("boss", is_staff=True), seats.seat()
    client.force_login(boss)
    link = f"/r/{inviting.invite(seat)}/"
    assert "signs boss out" in client.get(link).content.decode()
    assert client.session["_auth_user_id"] == str(boss.pk)
    assert client.post(link, seats.AGREED).status_code == 200  # asked again: the tick was for nobody
    assert client.post(link, {"sign_out": "1"})["Location"] == link
    assert "_auth_user_id" not in client.session
    assert client.post(link, seats.AGREED).status_code == 302
    seat.refresh_from_db()
    assert seat.user != boss


def test_an_analyst_of_the_study_cannot_take_a_seat_in_it(client: Client) -> None:
    study, analyst = seats.study(), User.objects.create_user("ann", email="ann@example.org")
    Membership.objects.create(study=study, user=analyst, role="analyst")
    client.force_login(analyst)
    token = inviting.invite(seats.seat(study), email="ann@example.org")
    for visitor in (client, Client()):  # signed out they would be somebody new, who can read as much
        page = visitor.get(f"/r/{token}/")
        assert page.status_code == 410 and "has or had a role in this study" in page.content.decode()
        assert seats.accept(visitor, token).status_code == 410
    with pytest.raises(StudyError):
        joining.accept(joining.find(token), analyst, joining.Joining())
    told = inviting.invite(seats.seat(study))  # without an address
    assert "signs ann out" in client.get(f"/r/{told}/").content.decode()
    assert seats.seat(study).user is None


@pytest.mark.parametrize("past", ["analyst", "renamed", "looked", "made it", "paused it"])
def test_who_had_part_in_a_study_cannot_take_a_seat_in_it(past: str) -> None:
    study, ann = seats.study(), User.objects.create_user("ann", email="ann@example.org")
    if past in ("analyst", "renamed"):
        members.remove(study, members.add(study, "ann", "analyst"))
        User.objects.filter(pk=ann.pk).update(username="ann" if past == "analyst" else "anna")
    elif past == "looked":
        lifecycle.log(study, InterimLook(ratings=0, planned=4, shown=0, sources=1), ann)
    elif past == "made it":  # and is no member of staff any more
        Study.objects.filter(pk=study.pk).update(created_by=ann)
    else:
        lifecycle.pause(study, ann)
    ann.refresh_from_db()
    invitation = joining.find(inviting.invite(seats.seat(study)))
    assert joining.refusal(invitation, ann) == "member"
    with pytest.raises(StudyError):
        joining.accept(invitation, ann, joining.Joining())
    assert seats.seat(study).user is None


def test_a_part_in_another_study_keeps_nobody_from_a_seat() -> None:
    other, ann = seats.study(slug="other"), User.objects.create_user("ann")
    members.remove(other, members.add(other, "ann", "analyst"))
    assert joining.accept(joining.find(inviting.invite(seats.seat())), ann, joining.Joining()).user == ann


@pytest.mark.both_databases
def test_nobody_takes_two_seats_of_one_study(client: Client) -> None:
    study = seats.study()
    first = inviting.invite(seats.seat(study))
    seats.accept(client, first)
    second = inviting.invite(seats.seat(study, "R02"))
    page = client.get(f"/r/{second}/").content.decode()
    assert "You have a place in this study" in page and str(seats.seat(study).code) in page
    assert client.post(f"/r/{second}/", seats.AGREED).status_code == 200
    assert seats.seat(study, "R02").user is None


@pytest.mark.both_databases
def test_a_mailed_link_finds_the_account_of_its_address(client: Client) -> None:
    known = User.objects.create_user("kim", email="kim@example.org")
    seats.accept(client, inviting.invite(seats.seat(), email="KIM@example.org"))
    assert client.session["_auth_user_id"] == str(known.pk)


def test_a_mailed_link_never_opens_the_account_of_staff(client: Client) -> None:
    User.objects.create_user("boss", email="boss@example.org", is_staff=True)
    seat = seats.seat()
    assert seats.accept(client, inviting.invite(seat, email="boss@example.org")).status_code == 410
    seat.refresh_from_db()
    assert seat.user is None and User.objects.count() == 1  # nor makes them a new one


def test_who_is_told_a_link_by_an_admin_gets_a_new_account_and_no_address(client: Client) -> None:
    seats.accept(client, inviting.invite(seats.seat()))
    assert User.objects.get().email == ""


def test_joining_is_logged_under_the_code_and_by_nobody() -> None:
    seat = seats.taken(seats.seat())
    event = StudyEvent.objects.get(kind="joined")
    assert (event.data, event.by) == ({"rater": seat.label}, None)


def test_a_taken_seats_link_signs_its_rater_in_again_once(client: Client) -> None:
    seat = seats.taken(seats.seat())
    token = inviting.invite(seat)
    assert client.get(f"/r/{token}/").status_code == 200 and "_auth_user_id" not in client.session
    assert client.post(f"/r/{token}/")["Location"] == "/rate/"
    assert client.session["_auth_user_id"] == str(seat.user_id)
    assert Client().post(f"/r/{token}/").status_code == 410
    assert client.get(f"/r/{token}/")["Location"] == "/rate/"


@pytest.mark.parametrize("power", ["staff", "superuser", "password", "analyst elsewhere", "rater elsewhere"])
def test_no_admin_is_shown_a_link_into_an_account_that_opens_more_than_the_seat(power: str) -> None:
    seat = seats.taken(seats.seat())
    user = seat.user
    assert user is not None
    user.is_staff, user.is_superuser = power == "staff", power == "superuser"
    if power == "password":
        user.set_password("a good long password")
    user.save()
    elsewhere = seats.study(slug="elsewhere")
    if power == "analyst elsewhere":
        Membership.objects.create(study=elsewhere, user=user, role="analyst")
    if power == "rater elsewhere":
        elsewhere.raters.filter(label="R01").update(user=user)
    with pytest.raises(StudyError, match="access to more than this study"):
        inviting.invite(Rater.objects.get(pk=seat.pk))
    assert not SignInLink.objects.exists()


def test_a_link_opened_before_is_no_signing_in_again(client: Client, admin_user: User) -> None:
    """An admin's link works all day: from the history of a browser left alone, it must not unblind a study."""
    token = access.make_link(admin_user, "admin")
    client.get(f"/sign-in/{token}/")
    assert client.session.pop("came_by_link_at")
    again = Client()
    again.get(f"/sign-in/{token}/")
    assert again.session["_auth_user_id"] == str(admin_user.pk) and "came_by_link_at" not in again.session


def test_a_link_of_one_purpose_opens_no_door_of_the_other(client: Client, admin_user: User) -> None:
    seat = seats.taken(seats.seat())
    assert client.get(f"/sign-in/{inviting.invite(seat)}/").status_code == 404
    assert client.post(f"/r/{access.make_link(admin_user, 'admin')}/").status_code == 404


def test_an_admins_link_works_for_a_day_and_until_the_next_one(admin_user: User) -> None:
    token = access.make_link(admin_user, "admin")
    assert access.open_link(token, STRANGER, "admin").user == admin_user
    assert access.open_link(token, STRANGER, "admin").user == admin_user
    expire(SignInLink)
    assert access.open_link(token, STRANGER, "admin").why == "This link has expired."
    access.make_link(admin_user, "admin")
    assert access.open_link(token, STRANGER, "admin").door == Door.GONE


def test_a_deactivated_user_has_no_links() -> None:
    seat = seats.taken(seats.seat())
    token = inviting.invite(seat)
    User.objects.filter(pk=seat.user_id).update(is_active=False)
    assert access.open_link(token, STRANGER, "rater").door == Door.UNKNOWN


def test_a_new_session_key_comes_with_signing_in(client: Client) -> None:
    client.get("/login/")
    session = client.session
    session["planted"] = "1"
    session.save()
    before = session.session_key
    seats.accept(client, inviting.invite(seats.seat()))
    assert client.session.session_key != before


class _Race:
    """Ten browsers do the same thing at the same moment."""

    def __init__(self, act, n: int = 10) -> None:
        self.answers: list[int] = []
        self._act, self._start = act, threading.Barrier(n)
        threads = [threading.Thread(target=self._run) for _ in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _run(self) -> None:
        try:
            self._start.wait()
            self.answers.append(self._act())
        finally:
            connection.close()


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_of_ten_who_post_one_invitation_at_once_one_wins() -> None:
    seat = seats.seat()
    token = inviting.invite(seat)
    race = _Race(lambda: seats.accept(Client(), token).status_code)
    assert sorted(race.answers) == [302, *[410] * 9]
    seat.refresh_from_db()
    assert User.objects.count() == 1 and seat.user == User.objects.get()


def _accept_at_once(token: str, accept: Any) -> list[Any]:
    """One invitation accepted by five people who are signed in; the seat each got, or what they were told."""
    people = [User.objects.create_user(f"user-{n}") for n in range(5)]
    return race(lambda: accept(joining.find(token), people.pop(), joining.Joining()), 5)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_of_five_people_who_accept_one_invitation_at_once_one_gets_the_seat() -> None:
    results = _accept_at_once(inviting.invite(seats.seat()), joining.accept)
    assert sorted(type(result).__name__ for result in results) == [*["Gone"] * 4, "Rater"]
    assert StudyEvent.objects.filter(kind="joined").count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_without_the_locks_and_the_conditional_update_more_than_one_would_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: the same five, when all have looked before any has taken the seat and nothing counts who was first."""
    token = inviting.invite(seats.seat())
    looked, update = threading.Barrier(5), QuerySet.update

    def unconditional(rows: Any, **values: Any) -> int:
        if rows.model is not Invitation:
            return update(rows, **values)
        looked.wait(timeout=30)
        return 1

    monkeypatch.setattr(QuerySet, "update", unconditional)
    monkeypatch.setattr(QuerySet, "select_for_update", lambda rows, **how: rows.all())
    accept = joining.accept.__wrapped__  # type: ignore[attr-defined]  # without its transaction
    results = _accept_at_once(token, accept)
    got = [result for result in results if isinstance(result, Rater)]
    assert len(got) > 1 and {seat.pk for seat in got} == {got[0].pk}, results
    assert StudyEvent.objects.filter(kind="joined").count() > 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_of_ten_who_post_one_sign_in_link_at_once_one_wins() -> None:
    seat = seats.taken(seats.seat())
    token = inviting.invite(seat)
    race = _Race(lambda: Client().post(f"/r/{token}/").status_code)
    assert sorted(race.answers) == [302, *[410] * 9]


@pytest.mark.both_databases
def test_a_token_is_compared_by_its_hash_alone(django_assert_num_queries) -> None:
    token = inviting.invite(seats.seat())
    with django_assert_num_queries(1) as asked:
        joining.find(token)
    assert token not in asked.captured_queries[0]["sql"]


def test_rating_begun_makes_links_that_lie_about_useless() -> None:
    seat = seats.taken(seats.seat())
    token = inviting.invite(seat)
    access.mark_used(seat.user)
    assert access.open_link(token, STRANGER, "rater").door == Door.GONE
