"""Tests of personal links: accepting an invitation and signing in again as a rater."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.accounts.signing_in import LinkEffect
from ratings.models import Invitation, Membership, Rater, RaterProfile, SignInLink, Study, StudyEvent
from ratings.models.study_events import InterimLook
from ratings.raters import invitations
from ratings.studies import StudyClosed, StudyError, access, lifecycle
from tests.support import invited_raters
from tests.support.invited_raters import STRANGER
from tests.support.steps import run_concurrently

pytestmark = pytest.mark.django_db


def expire_links(model: type[Invitation] | type[SignInLink]) -> None:
    model.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def test_invitation_stores_only_the_hash_of_its_token() -> None:
    token = invitations.create_invitation(invited_raters.get_rater())
    invitation = Invitation.objects.get()
    assert len(token) >= 43  # 256 bits in base64
    assert all(token not in str(value) for value in vars(invitation).values())
    assert invitation.expires_at - invitation.created_at == timedelta(days=7)


def test_consent_page_describes_the_study_and_does_not_use_the_link(client: Client) -> None:
    study = invited_raters.create_small_study(contact="lab@example.org", consent="You may stop at any time.")
    token = invitations.create_invitation(invited_raters.get_rater(study))
    for _ in range(3):  # a mail scanner, a link preview and a person
        page = client.get(f"/r/{token}/")
    text = page.content.decode()
    assert page.status_code == 200
    assert all(
        said in text for said in ("Small study", "Could this be?", "You may stop at any time.", "lab@example.org")
    )
    # 2 items at 2 minutes and 10 minutes of reading are 14 minutes, rounded to 15
    assert "About 15 minutes in all" in text
    assert page.headers["Cache-Control"] == "no-store" and page.headers["Referrer-Policy"] == "same-origin"
    assert Invitation.objects.get().used_at is None and not User.objects.exists()


@pytest.mark.both_databases
def test_consent_assigns_the_rater_place_signs_in_and_redirects_to_rating(client: Client) -> None:
    rater = invited_raters.get_rater()
    answer = invited_raters.post_consent(client, invitations.create_invitation(rater))
    rater.refresh_from_db()
    assert (answer.status_code, answer["Location"]) == (302, f"/rate/study/{rater.code}/")
    assert rater.consented_at and client.session["_auth_user_id"] == str(rater.user_id)
    profile = RaterProfile.objects.get(user=rater.user)
    assert (profile.degree, profile.field, profile.years) == ("Doctorate (PhD, DPhil, MD)", "cell biology", 9)
    assert not rater.user.has_usable_password() and rater.user.username.startswith("rater-")


def test_consent_form_without_the_tick_is_rejected(client: Client) -> None:
    token = invitations.create_invitation(invited_raters.get_rater())
    answer = client.post(f"/r/{token}/", invited_raters.PROFILE)
    assert answer.status_code == 422 and "Tick the box to take part." in answer.content.decode()
    assert not User.objects.exists() and Invitation.objects.get().used_at is None


@pytest.mark.parametrize("hidden", ["\u202ebiology", "cell\x07biology", "bio\u200blogy"])
def test_rater_profile_rejects_hidden_characters(client: Client, hidden: str) -> None:
    answer = invited_raters.post_consent(
        client, invitations.create_invitation(invited_raters.get_rater()), field=hidden
    )
    assert answer.status_code == 422 and "Hidden characters" in answer.content.decode()


def test_rater_profile_is_requested_only_once_per_account(client: Client) -> None:
    first, second = (
        invited_raters.get_rater(invited_raters.create_small_study(slug="one")),
        invited_raters.get_rater(invited_raters.create_small_study(slug="two")),
    )
    invited_raters.post_consent(client, invitations.create_invitation(first))
    token = invitations.create_invitation(second)
    assert 'name="degree"' not in client.get(f"/r/{token}/").content.decode()
    assert invited_raters.post_consent(client, token, field="astrology").status_code == 302
    first.refresh_from_db()
    second.refresh_from_db()
    assert second.user == first.user
    assert RaterProfile.objects.get(user=first.user).field == "cell biology"


def test_consent_form_ignores_additional_fields(client: Client) -> None:
    token = invitations.create_invitation(invited_raters.get_rater())
    invited_raters.post_consent(
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


def test_consent_form_password_is_optional_and_must_be_strong(client: Client) -> None:
    token = invitations.create_invitation(invited_raters.get_rater(), email="ada@example.org")
    for bad in ("short", "password1234", "ada@example.org"):
        assert invited_raters.post_consent(client, token, password=bad).status_code == 422
    assert invited_raters.post_consent(client, token, password="seven grey pipettes").status_code == 302
    elsewhere = Client()
    assert elsewhere.login(username="ADA@example.org", password="seven grey pipettes")
    assert elsewhere.login(username=User.objects.get().username, password="seven grey pipettes")


@pytest.mark.parametrize("token", ["x", "A" * 43, "é" * 500, "%2e%2e"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_link_with_an_unknown_token_returns_404(client: Client, token: str, method: str) -> None:
    invitations.create_invitation(invited_raters.get_rater())
    assert getattr(client, method)(f"/r/{token}/").status_code == 404
    assert client.get(f"/sign-in/{token}/").status_code == 404


@pytest.mark.both_databases
def test_used_invitation_redirects_its_rater_and_returns_410_in_another_browser(client: Client) -> None:
    rater = invited_raters.get_rater()
    token = invitations.create_invitation(rater)
    invited_raters.post_consent(client, token)
    elsewhere = Client().get(f"/r/{token}/")
    assert elsewhere.status_code == 410 and "This link has been used." in elsewhere.content.decode()
    assert client.get(f"/r/{token}/")["Location"] == f"/rate/study/{rater.code}/"
    assert Client().post(f"/r/{token}/", invited_raters.CONSENT_FORM).status_code == 410


@pytest.mark.both_databases
def test_expired_or_revoked_invitation_returns_410_with_the_reason(client: Client) -> None:
    study = invited_raters.create_small_study()
    first, second = (
        invitations.create_invitation(invited_raters.get_rater(study)),
        invitations.create_invitation(invited_raters.get_rater(study, "R02")),
    )
    invitations.revoke_invitation(invited_raters.get_rater(study, "R02"))
    Invitation.objects.filter(rater__label="R01").update(expires_at=timezone.now())
    for token, why in ((first, "has expired"), (second, "was revoked")):
        page = client.get(f"/r/{token}/")
        assert page.status_code == 410 and why in page.content.decode()
        assert invited_raters.post_consent(client, token).status_code == 410
    assert not User.objects.exists()


@pytest.mark.parametrize("change", ["used_at", "revoked_at", "expires_at"])
@pytest.mark.both_databases
def test_invitation_that_ends_while_its_page_is_open_is_not_accepted(change: str) -> None:
    invitation = invitations.find_invitation(invitations.create_invitation(invited_raters.get_rater()))
    assert invitation is not None and invitations.describe_expiry(invitation) == ""
    Invitation.objects.update(**{change: timezone.now()})
    with pytest.raises(invitations.InvitationExpired):
        invitations.accept_invitation(invitation, STRANGER, invitations.JoinForm())
    assert not User.objects.exists() and not Rater.objects.filter(user__isnull=False).exists()


def test_new_invitation_replaces_the_old_link(client: Client) -> None:
    rater = invited_raters.get_rater()
    old, new = invitations.create_invitation(rater), invitations.create_invitation(rater)
    assert client.get(f"/r/{old}/").status_code == 410
    assert client.get(f"/r/{new}/").status_code == 200


@pytest.mark.parametrize("change", [{"withdrawn_at": timezone.now()}, {"simulated": True, "invited_at": None}])
def test_invitation_to_a_withdrawn_or_simulated_rater_is_not_accepted(client: Client, change: dict) -> None:
    rater = invited_raters.get_rater()
    token = invitations.create_invitation(rater)
    Rater.objects.filter(pk=rater.pk).update(**change)
    assert invited_raters.post_consent(client, token).status_code == 410
    assert not User.objects.exists()


@pytest.mark.parametrize(("status", "answer"), [("open", 200), ("paused", 200), ("closed", 410), ("unblinded", 410)])
def test_invitation_works_only_in_an_open_or_paused_study(client: Client, status: str, answer: int) -> None:
    study = invited_raters.create_small_study()
    token = invitations.create_invitation(invited_raters.get_rater(study))
    type(study).objects.update(status=status)
    assert client.get(f"/r/{token}/").status_code == answer


@pytest.mark.parametrize("status", ["draft", "closed", "unblinded"])
def test_invitation_cannot_be_created_unless_the_study_is_open_or_paused(status: str) -> None:
    study = invited_raters.create_small_study()
    type(study).objects.update(status=status)
    with pytest.raises(StudyClosed):
        invitations.create_invitation(invited_raters.get_rater(study))


@pytest.mark.parametrize("change", [{"simulated": True}, {"imported_as": "expert 3"}, {"withdrawn_at": timezone.now()}])
def test_invitation_cannot_be_created_for_simulated_imported_or_withdrawn_raters(change: dict) -> None:
    rater = invited_raters.get_rater()
    Rater.objects.filter(pk=rater.pk).update(**change)
    with pytest.raises(StudyError):
        invitations.create_invitation(rater)


def test_invitation_opened_by_staff_asks_before_signing_them_out(client: Client) -> None:
    boss, rater = User.objects.create_user("boss", is_staff=True), invited_raters.get_rater()
    client.force_login(boss)
    link = f"/r/{invitations.create_invitation(rater)}/"
    assert "signs boss out" in client.get(link).content.decode()
    assert client.session["_auth_user_id"] == str(boss.pk)
    assert (
        client.post(link, invited_raters.CONSENT_FORM).status_code == 200
    )  # asked again, because the consent was not given by the rater
    assert client.post(link, {"sign_out": "1"})["Location"] == link
    assert "_auth_user_id" not in client.session
    assert client.post(link, invited_raters.CONSENT_FORM).status_code == 302
    rater.refresh_from_db()
    assert rater.user != boss


def test_invitation_cannot_be_accepted_by_an_analyst_of_the_study(client: Client) -> None:
    study, analyst = invited_raters.create_small_study(), User.objects.create_user("ann", email="ann@example.org")
    Membership.objects.create(study=study, user=analyst, role="analyst")
    client.force_login(analyst)
    token = invitations.create_invitation(invited_raters.get_rater(study), email="ann@example.org")
    for visitor in (client, Client()):  # signed out they would become a new user who knows as much
        page = visitor.get(f"/r/{token}/")
        assert page.status_code == 410 and "has or had a role in this study" in page.content.decode()
        assert invited_raters.post_consent(visitor, token).status_code == 410
    with pytest.raises(StudyError):
        invitations.accept_invitation(invitations.find_invitation(token), analyst, invitations.JoinForm())
    told = invitations.create_invitation(invited_raters.get_rater(study))  # an invitation without an address
    assert "signs ann out" in client.get(f"/r/{told}/").content.decode()
    assert invited_raters.get_rater(study).user is None


@pytest.mark.parametrize("past", ["analyst", "renamed", "looked", "made it", "paused it"])
def test_invitation_cannot_be_accepted_by_people_with_a_former_role_in_the_study(past: str) -> None:
    study, ann = invited_raters.create_small_study(), User.objects.create_user("ann", email="ann@example.org")
    if past in ("analyst", "renamed"):
        access.remove_member(study, access.add_member(study, "ann", "analyst"))
        User.objects.filter(pk=ann.pk).update(username="ann" if past == "analyst" else "anna")
    elif past == "looked":
        lifecycle.log_event(study, InterimLook(ratings=0, planned=4, shown=0, sources=1), ann)
    elif past == "made it":  # and is no longer staff
        Study.objects.filter(pk=study.pk).update(created_by=ann)
    else:
        lifecycle.pause_study(study, ann)
    ann.refresh_from_db()
    invitation = invitations.find_invitation(invitations.create_invitation(invited_raters.get_rater(study)))
    assert invitations.refusal_reason(invitation, ann) == "member"
    with pytest.raises(StudyError):
        invitations.accept_invitation(invitation, ann, invitations.JoinForm())
    assert invited_raters.get_rater(study).user is None


def test_invitation_can_be_accepted_by_people_with_a_role_in_another_study() -> None:
    other, ann = invited_raters.create_small_study(slug="other"), User.objects.create_user("ann")
    access.remove_member(other, access.add_member(other, "ann", "analyst"))
    assert (
        invitations.accept_invitation(
            invitations.find_invitation(invitations.create_invitation(invited_raters.get_rater())),
            ann,
            invitations.JoinForm(),
        ).user
        == ann
    )


@pytest.mark.both_databases
def test_invitation_cannot_give_one_user_two_places_in_a_study(client: Client) -> None:
    study = invited_raters.create_small_study()
    first = invitations.create_invitation(invited_raters.get_rater(study))
    invited_raters.post_consent(client, first)
    second = invitations.create_invitation(invited_raters.get_rater(study, "R02"))
    page = client.get(f"/r/{second}/").content.decode()
    assert "You have a place in this study" in page and str(invited_raters.get_rater(study).code) in page
    assert client.post(f"/r/{second}/", invited_raters.CONSENT_FORM).status_code == 200
    assert invited_raters.get_rater(study, "R02").user is None


@pytest.mark.both_databases
def test_invitation_by_email_signs_in_the_account_of_its_address(client: Client) -> None:
    known = User.objects.create_user("kim", email="kim@example.org")
    invited_raters.post_consent(
        client, invitations.create_invitation(invited_raters.get_rater(), email="KIM@example.org")
    )
    assert client.session["_auth_user_id"] == str(known.pk)


def test_invitation_by_email_never_signs_in_a_staff_account(client: Client) -> None:
    User.objects.create_user("boss", email="boss@example.org", is_staff=True)
    rater = invited_raters.get_rater()
    assert (
        invited_raters.post_consent(client, invitations.create_invitation(rater, email="boss@example.org")).status_code
        == 410
    )
    rater.refresh_from_db()
    assert rater.user is None and User.objects.count() == 1  # and no second account is created


def test_invitation_without_an_address_creates_an_account_without_one(client: Client) -> None:
    invited_raters.post_consent(client, invitations.create_invitation(invited_raters.get_rater()))
    assert User.objects.get().email == ""


def test_joining_is_logged_with_the_rater_label_and_no_user() -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater())
    event = StudyEvent.objects.get(kind="joined")
    assert (event.data, event.by) == ({"rater": rater.label}, None)


def test_link_for_a_rater_who_has_joined_signs_them_in_once(client: Client) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater())
    token = invitations.create_invitation(rater)
    assert client.get(f"/r/{token}/").status_code == 200 and "_auth_user_id" not in client.session
    assert client.post(f"/r/{token}/")["Location"] == "/rate/"
    assert client.session["_auth_user_id"] == str(rater.user_id)
    assert Client().post(f"/r/{token}/").status_code == 410
    assert client.get(f"/r/{token}/")["Location"] == "/rate/"


@pytest.mark.parametrize("power", ["staff", "superuser", "password", "analyst elsewhere", "rater elsewhere"])
def test_link_cannot_be_created_for_an_account_with_other_rights_than_rating(power: str) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater())
    user = rater.user
    assert user is not None
    user.is_staff, user.is_superuser = power == "staff", power == "superuser"
    if power == "password":
        user.set_password("a good long password")
    user.save()
    elsewhere = invited_raters.create_small_study(slug="elsewhere")
    if power == "analyst elsewhere":
        Membership.objects.create(study=elsewhere, user=user, role="analyst")
    if power == "rater elsewhere":
        elsewhere.raters.filter(label="R01").update(user=user)
    with pytest.raises(StudyError, match="access to more than this study"):
        invitations.create_invitation(Rater.objects.get(pk=rater.pk))
    assert not SignInLink.objects.exists()


def test_sign_in_link_opened_again_does_not_count_as_reauthentication(client: Client, admin_user: User) -> None:
    """An admin's link works all day. Opened from the history of an unattended browser, it must not allow unblinding."""
    token = signing_in.create_link(admin_user, "admin")
    client.get(f"/sign-in/{token}/")
    assert client.session.pop("came_by_link_at")
    again = Client()
    again.get(f"/sign-in/{token}/")
    assert again.session["_auth_user_id"] == str(admin_user.pk) and "came_by_link_at" not in again.session


def test_link_works_only_for_its_own_purpose(client: Client, admin_user: User) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater())
    assert client.get(f"/sign-in/{invitations.create_invitation(rater)}/").status_code == 404
    assert client.post(f"/r/{signing_in.create_link(admin_user, 'admin')}/").status_code == 404


def test_admin_sign_in_link_works_until_it_expires_or_is_replaced(admin_user: User) -> None:
    token = signing_in.create_link(admin_user, "admin")
    assert signing_in.open_link(token, STRANGER, "admin").user == admin_user
    assert signing_in.open_link(token, STRANGER, "admin").user == admin_user
    expire_links(SignInLink)
    assert signing_in.open_link(token, STRANGER, "admin").why == "This link has expired."
    signing_in.create_link(admin_user, "admin")
    assert signing_in.open_link(token, STRANGER, "admin").effect == LinkEffect.GONE


def test_link_of_a_deactivated_user_is_unknown() -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater())
    token = invitations.create_invitation(rater)
    User.objects.filter(pk=rater.user_id).update(is_active=False)
    assert signing_in.open_link(token, STRANGER, "rater").effect == LinkEffect.UNKNOWN


def test_signing_in_by_link_creates_a_new_session_key(client: Client) -> None:
    client.get("/login/")
    session = client.session
    session["planted"] = "1"
    session.save()
    before = session.session_key
    invited_raters.post_consent(client, invitations.create_invitation(invited_raters.get_rater()))
    assert client.session.session_key != before


class ConcurrentRequests:
    """Run the same action in ten threads at once."""

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
def test_invitation_posted_ten_times_at_once_is_accepted_once() -> None:
    rater = invited_raters.get_rater()
    token = invitations.create_invitation(rater)
    race = ConcurrentRequests(lambda: invited_raters.post_consent(Client(), token).status_code)
    assert sorted(race.answers) == [302, *[410] * 9]
    rater.refresh_from_db()
    assert User.objects.count() == 1 and rater.user == User.objects.get()


def accept_at_once(token: str, accept: Any) -> list[Any]:
    """Let five signed-in users accept one invitation at once; return the rater or the error of each."""
    people = [User.objects.create_user(f"user-{n}") for n in range(5)]
    return run_concurrently(lambda: accept(invitations.find_invitation(token), people.pop(), invitations.JoinForm()), 5)


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_invitation_accepted_by_five_users_at_once_is_given_to_one() -> None:
    results = accept_at_once(invitations.create_invitation(invited_raters.get_rater()), invitations.accept_invitation)
    assert sorted(type(result).__name__ for result in results) == [*["InvitationExpired"] * 4, "Rater"]
    assert StudyEvent.objects.filter(kind="joined").count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_control_invitation_is_accepted_several_times_without_locks_and_conditional_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Control: all five users check the invitation before the first accepts it, and the update is unconditional."""
    token = invitations.create_invitation(invited_raters.get_rater())
    looked, update = threading.Barrier(5), QuerySet.update

    def unconditional(rows: Any, **values: Any) -> int:
        if rows.model is not Invitation:
            return update(rows, **values)
        looked.wait(timeout=30)
        return 1

    monkeypatch.setattr(QuerySet, "update", unconditional)
    monkeypatch.setattr(QuerySet, "select_for_update", lambda rows, **how: rows.all())
    accept = invitations.accept_invitation.__wrapped__  # type: ignore[attr-defined]  # without its transaction
    results = accept_at_once(token, accept)
    got = [result for result in results if isinstance(result, Rater)]
    assert len(got) > 1 and {rater.pk for rater in got} == {got[0].pk}, results
    assert StudyEvent.objects.filter(kind="joined").count() > 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_sign_in_link_posted_ten_times_at_once_works_once() -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater())
    token = invitations.create_invitation(rater)
    race = ConcurrentRequests(lambda: Client().post(f"/r/{token}/").status_code)
    assert sorted(race.answers) == [302, *[410] * 9]


@pytest.mark.both_databases
def test_invitation_lookup_uses_only_the_hash_of_the_token(django_assert_num_queries) -> None:
    token = invitations.create_invitation(invited_raters.get_rater())
    with django_assert_num_queries(1) as asked:
        invitations.find_invitation(token)
    assert token not in asked.captured_queries[0]["sql"]


def test_sign_in_links_of_a_rater_become_invalid_when_rating_starts() -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater())
    token = invitations.create_invitation(rater)
    signing_in.expire_unused_links(rater.user)
    assert signing_in.open_link(token, STRANGER, "rater").effect == LinkEffect.GONE
