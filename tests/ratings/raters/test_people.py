"""Tests of the people of a study: invitations, reminders, withdrawal, roles and erasure, and what each role can see."""

import time
from datetime import date, timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import AnonymousUser, User
from django.contrib.contenttypes.models import ContentType
from django.core import mail
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from ratings.models import Invitation, Membership, PracticeAnswer, Rater, RaterProfile, Rating, Study
from ratings.raters import email_messages, erasure, invitations, mailings, rater_overview
from ratings.studies import StudyError, access
from ratings.web.account import sign_in
from tests.support import invited_raters, run_factory, study_factory, study_log_texts
from tests.support.rating_room import store_rating

pytestmark = pytest.mark.django_db


@pytest.fixture
def study_admin() -> User:
    return User.objects.create_user("boss", email="boss@example.org", is_staff=True)


@pytest.fixture
def study(study_admin: User) -> Study:
    return invited_raters.create_small_study(raters=3, by=study_admin)


@pytest.fixture
def admin_browser(client: Client, study_admin: User) -> Client:
    client.force_login(study_admin)
    return client


def wait_for_emails(n: int) -> list[Any]:
    """Return the e-mails sent, once there are n: some are sent after the response."""
    deadline = time.monotonic() + 5
    while len(mail.outbox) < n and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(mail.outbox) == n, [letter.to for letter in mail.outbox]
    return list(mail.outbox)


def build_raters_path(path: str = "") -> str:
    return f"/studies/small/raters/{path}"


def build_url(path: str) -> str:
    return f"https://lab.example.org{path}"


# Inviting


def test_invited_addresses_get_a_rater_place_and_an_email_each(admin_browser: Client, study: Study) -> None:
    admin_browser.post(
        build_raters_path("invite/"), {"addresses": "ada@example.org, Bo Li <bo@example.org>\n\ncy@example.org;"}
    )
    assert [letter.to for letter in wait_for_emails(3)] == [["ada@example.org"], ["bo@example.org"], ["cy@example.org"]]
    assert [i.email for i in Invitation.objects.order_by("pk")] == [
        "ada@example.org",
        "bo@example.org",
        "cy@example.org",
    ]
    assert all(i.sent_at and not i.send_error for i in Invitation.objects.all())
    text = admin_browser.get(build_raters_path()).content.decode()
    assert "ada@example.org" in text and "invited" in text


def test_invitation_link_gives_the_rater_place_to_the_invited_address(admin_browser: Client, study: Study) -> None:
    admin_browser.post(build_raters_path("invite/"), {"addresses": "ada@example.org"})
    assert Client().post(invited_raters.find_link(mail.outbox[0].body), invited_raters.CONSENT_FORM).status_code == 302
    assert invited_raters.get_rater(study).user.email == "ada@example.org"


def test_invitation_email_describes_the_study_and_no_item(study: Study) -> None:
    Study.objects.update(name="Study\nBcc: evil@example.org", deadline=date(2026, 12, 24))
    mailings.invite_people(study, mailings.parse_addresses("ada@example.org"), None, build_url)
    letter = mail.outbox[0]
    assert letter.subject == "Invitation to rate: Study Bcc: evil@example.org"  # on one line, so no header is injected
    assert letter.recipients() == ["ada@example.org"]
    assert "24 December 2026" in letter.body and "https://lab.example.org/r/" in letter.body
    assert all(str(item.code) not in letter.body for item in study.items.all())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("ada@example.org\nno address", "Line 2: &#x27;no address&#x27; is not an e-mail address"),
        ("ada@example.org\nADA@example.org", "Line 2: ADA@example.org is listed twice"),
        (
            "a@example.org,b@example.org,c@example.org,d@example.org",
            "4 addresses for 3 open rater places: add 1 rater place first",
        ),
        ("boss@example.org", "Line 1: boss@example.org is or was an admin or analyst"),
        ("new@example.org\nana@example.org", "Line 2: ana@example.org is or was an admin or analyst"),
        ("new@example.org, Bea@example.org", "Line 1: Bea@example.org is or was an admin or analyst"),
        ('"a\x01b"@example.org', "is not an e-mail address"),
        (" ,\n; ", "The list contains no address"),
        ("<script>alert(1)</script>", "&lt;script&gt;"),
    ],
)
def test_invitation_list_with_an_invalid_line_is_rejected_completely(
    admin_browser: Client, study: Study, text: str, problem: str
) -> None:
    for who in (User.objects.create_user("ana", email="ana@example.org"), User.objects.create_user("bea@example.org")):
        study.members.create(user=who, role="analyst")
    answer = admin_browser.post(build_raters_path("invite/"), {"addresses": text})
    assert answer.status_code == 422 and problem in answer.content.decode()
    assert not Invitation.objects.exists() and not mail.outbox


def test_invitation_of_an_invited_address_is_rejected_with_its_rater_label(admin_browser: Client, study: Study) -> None:
    admin_browser.post(build_raters_path("invite/"), {"addresses": "ada@example.org"})
    answer = admin_browser.post(build_raters_path("invite/"), {"addresses": "Ada@Example.org"})
    assert "Line 1: Ada@Example.org is already invited, as R01" in answer.content.decode()


def test_invitation_that_the_mail_server_rejects_is_reported_and_can_be_resent(
    admin_browser: Client, study: Study, settings: Any
) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 9  # no server on this port
    answer = admin_browser.post(
        build_raters_path("invite/"), {"addresses": "ada@example.org\nbo@example.org"}, follow=True
    )
    text = answer.content.decode()
    assert "The invitation to R01 could not be sent: Connection refused" in text and "to R02" in text
    assert "not sent" in text and Invitation.objects.filter(send_error__contains="refused").count() == 2
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    admin_browser.post(build_raters_path("R01/resend/"))
    assert mail.outbox[0].to == ["ada@example.org"]
    assert rater_overview.list_raters(study)[0].state == "invited"


def test_resent_invitation_has_a_new_link(admin_browser: Client, study: Study) -> None:
    admin_browser.post(build_raters_path("invite/"), {"addresses": "ada@example.org"})
    admin_browser.post(build_raters_path("R01/resend/"))
    old, new = (invited_raters.find_link(letter.body) for letter in mail.outbox)
    assert (Client().get(old).status_code, Client().get(new).status_code) == (410, 200)


def test_revoked_invitation_frees_its_rater_place(admin_browser: Client, study: Study) -> None:
    admin_browser.post(build_raters_path("invite/"), {"addresses": "ada@example.org"})
    admin_browser.post(build_raters_path("R01/revoke/"))
    assert Client().get(invited_raters.find_link(mail.outbox[0].body)).status_code == 410
    assert [rater.label for rater in mailings.open_rater_places(study)] == ["R01", "R02", "R03"]
    admin_browser.post(build_raters_path("invite/"), {"addresses": "ada@example.org"})
    assert Client().get(invited_raters.find_link(mail.outbox[1].body)).status_code == 200


def test_accepted_invitation_cannot_be_revoked_and_its_place_is_not_free(admin_browser: Client, study: Study) -> None:
    invited_raters.join_by_link(invited_raters.get_rater(study))
    assert [rater.label for rater in mailings.open_rater_places(study)] == ["R02", "R03"]
    assert "R01 has joined" in admin_browser.post(build_raters_path("R01/revoke/"), follow=True).content.decode()


def test_expired_invitation_frees_its_rater_place(study: Study) -> None:
    invitations.create_invitation(invited_raters.get_rater(study))
    Invitation.objects.update(expires_at=timezone.now())
    assert mailings.open_rater_places(study).count() == 3


def test_personal_link_made_by_an_admin_is_shown_once(admin_browser: Client, study: Study) -> None:
    text = admin_browser.post(build_raters_path("R02/link/")).content.decode()
    assert "http://testserver/r/" in text and "Personal link for R02" in text
    assert "/r/" not in admin_browser.get(build_raters_path()).content.decode().replace("/raters/", "")


def test_personal_link_uses_the_configured_site_url(admin_browser: Client, study: Study, settings: Any) -> None:
    settings.SITE_URL = "https://rate.example.org/"
    assert "https://rate.example.org/r/" in admin_browser.post(build_raters_path("R02/link/")).content.decode()


# New links by e-mail


def invite_with_expired_link(admin_browser: Client, study: Study) -> str:
    """Return the path of an invitation that was sent by e-mail and expired some time ago."""
    admin_browser.post(build_raters_path("invite/"), {"addresses": "ada@example.org"})
    long_ago = timezone.now() - timedelta(days=40)
    Invitation.objects.update(expires_at=long_ago + timedelta(days=30), created_at=long_ago)
    return invited_raters.find_link(mail.outbox[0].body)


def test_expired_link_can_be_renewed_by_email_to_the_original_address(admin_browser: Client, study: Study) -> None:
    link = invite_with_expired_link(admin_browser, study)
    answer = Client().post(link, {"again": "1"})
    assert answer.status_code == 410 and "a new one is on its way" in answer.content.decode()
    assert wait_for_emails(2)[1].to == ["ada@example.org"]
    assert Client().get(invited_raters.find_link(mail.outbox[1].body)).status_code == 200
    Client().post(link, {"again": "1"})  # a second request at once sends no second e-mail
    assert len(wait_for_emails(2)) == 2


def test_link_renewal_page_is_the_same_with_and_without_a_known_address(admin_browser: Client, study: Study) -> None:
    link = invite_with_expired_link(admin_browser, study)
    shown_to_admin = invitations.create_invitation(invited_raters.get_rater(study, "R02"))
    Invitation.objects.filter(rater__label="R02").update(expires_at=timezone.now())
    known, unknown = (Client().post(path, {"again": "1"}) for path in (link, f"/r/{shown_to_admin}/"))
    hidden = [answer.content.decode().split("<main")[1].split("csrfmiddlewaretoken")[0] for answer in (known, unknown)]
    assert hidden[0] == hidden[1] and known.status_code == unknown.status_code
    wait_for_emails(2)


def test_revoked_invitation_cannot_be_renewed(admin_browser: Client, study: Study) -> None:
    link = invite_with_expired_link(admin_browser, study)
    admin_browser.post(build_raters_path("R01/revoke/"))
    Client().post(link, {"again": "1"})
    assert len(wait_for_emails(1)) == 1 and Invitation.objects.count() == 1


def test_used_link_can_be_replaced_by_a_sign_in_link_by_email(admin_browser: Client, study: Study) -> None:
    admin_browser.post(build_raters_path("invite/"), {"addresses": "ada@example.org"})
    link = invited_raters.find_link(mail.outbox[0].body)
    Client().post(link, invited_raters.CONSENT_FORM)
    Client().post(link, {"again": "1"})
    again, browser = invited_raters.find_link(wait_for_emails(2)[1].body), Client()
    assert browser.post(again)["Location"] == "/rate/"
    assert browser.session["_auth_user_id"] == str(invited_raters.get_rater(study).user_id)


def test_link_request_by_address_sends_a_link_and_reveals_no_account(study: Study) -> None:
    invited_raters.join_by_link(invited_raters.get_rater(study), email="ada@example.org")
    answers = [Client().post("/send-me-a-link/", {"email": e}) for e in ("ada@example.org", "nobody@example.org")]
    said = [answer.content.decode().split("<main")[1] for answer in answers]
    assert answers[0].status_code == 200 and said[0] == said[1]
    assert wait_for_emails(1)[0].to == ["ada@example.org"]


def test_link_request_by_address_sends_nothing_to_staff(study_admin: User) -> None:
    User.objects.create(username="root", email="root@example.org", is_superuser=True)
    for address in ("boss@example.org", "root@example.org"):
        Client().post("/send-me-a-link/", {"email": address})
    time.sleep(0.05)
    assert not mail.outbox


def test_sign_in_dialog_returns_a_fragment_and_not_a_complete_page(study: Study) -> None:
    user = User.objects.create_user("kim", "kim@example.org", "seven grey pipettes")
    client = Client(enforce_csrf_checks=True)
    form = client.get("/sign-in-here/")
    assert form.status_code == 200 and "<html" not in form.content.decode()
    token = client.cookies["wb_csrf"].value
    wrong = client.post("/sign-in-here/", {"username": "kim", "password": "no"}, headers={"X-CSRFToken": token})
    assert wrong.status_code == 422 and "is incorrect" in wrong.content.decode()
    right = {"username": "kim@example.org", "password": "seven grey pipettes"}
    assert client.post("/sign-in-here/", right, headers={"X-CSRFToken": token}).status_code == 204
    assert client.session["_auth_user_id"] == str(user.pk)


# Reminding


def test_reminders_go_to_raters_with_items_left_and_to_open_invitations(study: Study) -> None:
    invited_raters.join_by_link(invited_raters.get_rater(study), email="ada@example.org")
    mailings.invite_people(study, mailings.parse_addresses("bo@example.org"), None, build_url)
    done = invited_raters.join_by_link(invited_raters.get_rater(study, "R03"), email="cy@example.org")
    Rater.objects.filter(pk=done.pk).update(finished_at=timezone.now())
    mail.outbox.clear()
    call_command("remind_raters", "small", url="https://lab.example.org")
    assert [letter.to for letter in mail.outbox] == [["ada@example.org"], ["bo@example.org"]]
    assert "You have 2 items left to rate" in mail.outbox[0].body
    assert "Your invitation to rate in Small study is still open" in mail.outbox[1].body
    assert Client().post(invited_raters.find_link(mail.outbox[0].body))["Location"] == "/rate/"
    assert Client().get(invited_raters.find_link(mail.outbox[1].body)).status_code == 200


def test_reminder_lists_raters_without_an_address(admin_browser: Client, study: Study) -> None:
    invited_raters.join_by_link(invited_raters.get_rater(study))
    text = admin_browser.post(build_raters_path("remind/"), follow=True).content.decode()
    assert "0 reminders sent." in text and "there is no e-mail address: R01" in text


def test_reminder_is_rejected_in_a_closed_study(admin_browser: Client, study: Study) -> None:
    Study.objects.update(status="closed")
    assert "is closed" in admin_browser.post(build_raters_path("remind/"), follow=True).content.decode()


def test_invite_raters_command_reads_addresses_from_a_file(study: Study, tmp_path: Any) -> None:
    (tmp_path / "list.txt").write_text("ada@example.org\nbo@example.org\n", encoding="utf-8")
    call_command("invite_raters", "small", str(tmp_path / "list.txt"), url="https://lab.example.org")
    assert len(mail.outbox) == 2 and "https://lab.example.org/r/" in mail.outbox[0].body
    with pytest.raises(CommandError, match="already invited, as R01"):
        call_command("invite_raters", "small", str(tmp_path / "list.txt"))
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("invite_raters", "small", str(tmp_path / "missing.txt"))


# The page of raters


def test_raters_page_shows_the_progress_of_each_rater(admin_browser: Client, study: Study) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater(study))
    now = timezone.now()
    for active, assignment in zip((30.0, 50.0), rater.assignments.all(), strict=True):
        create_rating(assignment, active)
    for key, right in (("a", True), ("b", False), ("c", True)):
        PracticeAnswer.objects.create(rater=rater, key=key, verdict=True, confidence=3, right=right)
    one, two, _ = rater_overview.list_raters(study)
    # The median of 30 and 50 active seconds is 40; two of three practice answers were right.
    assert (one.state, one.done, one.total, one.median_seconds, one.practice) == ("finished", 2, 2, 40.0, (2, 3))
    assert one.last_seen is not None and one.last_seen >= now - timedelta(seconds=5)
    assert (two.state, two.done, two.total, two.practice, two.last_seen) == ("free", 0, 2, None, None)
    text = admin_browser.get(build_raters_path()).content.decode()
    assert "2 of 3 right" in text and "40 s" in text


def create_rating(assignment: Any, active: float) -> Rating:
    return store_rating(assignment, verdict=True, confidence=4, seconds=100, active_seconds=active)


def test_raters_page_shows_analysts_labels_but_no_names_addresses_or_buttons(study: Study) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater(study), email="ada@example.org")
    mailings.invite_people(study, mailings.parse_addresses("bo@example.org"), None, build_url)
    analyst = User.objects.create_user("ann")
    Membership.objects.create(study=study, user=analyst, role="analyst")
    client = Client()
    client.force_login(analyst)
    text = client.get(build_raters_path()).content.decode()
    assert "R01" in text and "R02" in text
    assert all(word not in text for word in ("ada@", "bo@", rater.user.username, "Create link", "Invite by e-mail"))
    assert client.post(build_raters_path("invite/"), {"addresses": "cy@example.org"}).status_code == 404


def test_raters_page_hides_name_and_address_of_raters_who_have_joined(admin_browser: Client, study: Study) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater(study), email="ada@example.org")
    text = admin_browser.get(build_raters_path()).content.decode()
    assert "ada@example.org" not in text and rater.user.username not in text


def test_raters_page_needs_the_same_number_of_queries_for_two_and_twenty_raters(
    study_admin: User, client: Client
) -> None:
    counts = []
    for n in (2, 20):
        study = invited_raters.create_small_study(raters=n, slug=f"of-{n}", by=study_admin)
        for rater in study.raters.all()[: n // 2]:
            invited_raters.join_by_link(rater, email=f"{study.slug}-{rater.label}@example.org")
        client.force_login(study_admin)
        with CaptureQueriesContext(connection) as asked:
            assert client.get(f"/studies/of-{n}/raters/").status_code == 200
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_raters_page_returns_404_for_an_unknown_label(admin_browser: Client, study: Study) -> None:
    for verb in ("link", "resend", "revoke", "withdraw"):
        assert admin_browser.post(build_raters_path(f"R99/{verb}/")).status_code == 404


# Roles


def test_role_is_added_by_name_or_address_and_removed_with_a_log_entry(admin_browser: Client, study: Study) -> None:
    for name in ("ann", "bea"):
        User.objects.create_user(name, email=f"{name}@example.org")
    admin_browser.post("/studies/small/members/", {"who": "ann", "role": "analyst"})
    admin_browser.post("/studies/small/members/", {"who": "BEA@example.org", "role": "analyst"})
    assert [m.user.username for m in study.members.order_by("pk")] == ["ann", "bea"]
    member = study.members.first()
    admin_browser.post(f"/studies/small/members/{member.pk}/remove/")
    assert study.members.count() == 1
    assert study_log_texts.list_event_texts(study, "member")[0] == f"ann (account {member.user_id}) is analyst"
    changes = study.membership_changes.filter(user=member.user_id).values_list("role", "granted", "by__username")
    assert list(changes) == [("analyst", True, "boss"), ("analyst", False, "boss")]


def test_role_that_would_break_blinding_is_rejected(admin_browser: Client, study: Study) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater(study)).user
    User.objects.create_user("ann")
    for who, role, why in (
        (rater.username, "analyst", "is a rater of this study"),
        ("nobody", "analyst", "There is no account"),
        ("boss", "analyst", "already has every right in this study"),
        ("ann", "admin", "may not run studies"),
    ):
        answer = admin_browser.post("/studies/small/members/", {"who": who, "role": role})
        assert answer.status_code == 422 and why in answer.content.decode()
    with pytest.raises(StudyError, match="not a role"):
        access.add_member(study, "ann", "owner")
    assert not Membership.objects.exists()


def test_role_in_another_study_cannot_be_removed_from_this_study(admin_browser: Client, study: Study) -> None:
    other = invited_raters.create_small_study(slug="other")
    member = Membership.objects.create(study=other, user=User.objects.create_user("ann"), role="analyst")
    assert admin_browser.post(f"/studies/small/members/{member.pk}/remove/").status_code == 404
    assert Membership.objects.count() == 1


# Erasure


def test_erasure_removes_personal_data_and_keeps_label_and_ratings(admin_browser: Client, study: Study) -> None:
    client = Client()
    token = invitations.create_invitation(invited_raters.get_rater(study), email="ada@example.org")
    invited_raters.post_consent(client, token, password="seven grey pipettes")
    rater = invited_raters.get_rater(study)
    create_rating(rater.assignments.first(), 30)
    user = rater.user
    user.first_name, user.last_name = "Ada", "Byron"
    user.save()
    Rater.objects.filter(pk=rater.pk).update(finished_at=timezone.now())
    content = ContentType.objects.get_for_model(User).pk
    LogEntry.objects.create(
        user=user, content_type_id=content, object_id=str(user.pk), object_repr="Ada", action_flag=2
    )
    erasure.erase_person(user, by=user)
    user.refresh_from_db()
    assert user.username.startswith("erased-") and not user.is_active and not user.has_usable_password()
    kept = " ".join(
        str(value)
        for row in (user, RaterProfile.objects.get(), Invitation.objects.get(), LogEntry.objects.get())
        for value in vars(row).values()
    )
    assert not any(word in kept for word in ("Ada", "Byron", "ada@", "cell biology", "Doctorate"))
    assert (invited_raters.get_rater(study).label, invited_raters.get_rater(study).user_id, Rating.objects.count()) == (
        "R01",
        user.pk,
        1,
    )
    assert client.get("/rate/").status_code == 302  # the session is over
    assert study.events.get(kind="erased").by is None


def test_erasure_removes_the_address_and_revokes_invitations_in_all_studies(study: Study) -> None:
    other = invited_raters.create_small_study(slug="other")
    rater = invited_raters.join_by_link(invited_raters.get_rater(study), email="ada@example.org")
    waiting = invitations.create_invitation(invited_raters.get_rater(other), email="Ada@Example.org")
    bob = invitations.create_invitation(invited_raters.get_rater(other, "R02"), email="bob@example.org")
    erasure.erase_person(rater.user)
    assert list(Invitation.objects.exclude(email="").values_list("email", flat=True)) == ["bob@example.org"]
    assert Client().get(f"/r/{waiting}/").status_code == 410
    assert Client().get(f"/r/{bob}/").status_code == 200
    used = Invitation.objects.get(rater=rater)
    assert used.used_at and used.revoked_at is None


def test_erasure_of_a_user_without_address_revokes_no_other_invitation(study: Study) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater(study))
    link = invitations.create_invitation(invited_raters.get_rater(study, "R02"))
    erasure.erase_person(rater.user)
    assert Client().get(f"/r/{link}/").status_code == 200


def test_erasure_of_an_analyst_replaces_the_name_in_the_log_by_the_account_number(study: Study) -> None:
    ann = User.objects.create_user("ann")
    access.add_member(study, "ann", "analyst")
    erasure.erase_person(ann)
    assert study_log_texts.get_event_text(study, "member") == f"erased (account {ann.pk}) is analyst"


def test_former_analyst_cannot_be_invited(study: Study) -> None:
    User.objects.create_user("ann", email="ann@example.org")
    access.remove_member(study, access.add_member(study, "ann", "analyst"))
    with pytest.raises(mailings.AddressError, match=r"ann@example\.org is or was an admin or analyst"):
        mailings.invite_people(study, mailings.parse_addresses("ann@example.org"), None, build_url)


def test_erasure_of_staff_is_rejected(study_admin: User) -> None:
    with pytest.raises(StudyError, match="is staff"):
        erasure.erase_person(study_admin)


def test_erasure_disables_personal_links(study: Study) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater(study), email="ada@example.org")
    Rater.objects.filter(pk=rater.pk).update(finished_at=timezone.now())
    token = invitations.create_invitation(invited_raters.get_rater(study))
    erasure.erase_person(rater.user)
    assert Client().get(f"/r/{token}/").status_code == 404


def test_erasure_is_an_action_of_the_admin_site(study: Study, client: Client) -> None:
    rater = invited_raters.join_by_link(invited_raters.get_rater(study), email="ada@example.org")
    Rater.objects.filter(pk=rater.pk).update(finished_at=timezone.now())
    client.force_login(User.objects.create_superuser("root"))
    client.post("/admin/auth/user/", {"action": "erase_personal_data", "_selected_action": [rater.user_id]})
    rater.user.refresh_from_db()
    assert rater.user.email == "" and not rater.user.is_active


def test_erasure_withdraws_the_rater_from_open_studies() -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    rater = study_factory.fill_rater_place(study)
    erasure.erase_person(rater.user)
    rater.refresh_from_db()
    assert rater.withdrawn_at and not rater.dropped
    assert rater.assignments.filter(released_at=None, rating=None).count() == 0


def test_raters_page_adds_rater_places_and_withdraws_a_rater(admin_browser: Client, study_admin: User) -> None:
    run_factory.create_pool()
    study = study_factory.create_open_study()
    Study.objects.filter(pk=study.pk).update(created_by=study_admin)
    before = study.raters.count()
    admin_browser.post(f"/studies/{study.slug}/raters/add/", {"raters": "2"})
    assert study.raters.count() == before + 2
    study_factory.fill_rater_place(study, "R01")
    assert "cannot be undone" in admin_browser.get(f"/studies/{study.slug}/raters/R01/withdraw/").content.decode()
    assert study.raters.get(label="R01").withdrawn_at is None
    admin_browser.post(f"/studies/{study.slug}/raters/R01/withdraw/")
    assert study.raters.get(label="R01").withdrawn_at is not None


def test_link_request_runs_the_same_statements_before_the_response_for_known_and_unknown_addresses(
    study: Study, rf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    invited_raters.join_by_link(invited_raters.get_rater(study), email="ada@example.org")
    monkeypatch.setattr(email_messages, "_LINK_SECONDS", 0.3)
    sizes, waits = [], []
    for address in ("ada@example.org", "nobody@example.org"):
        request = rf.post("/send-me-a-link/", {"email": address})
        request.user, request.session = AnonymousUser(), {}
        request._dont_enforce_csrf_checks = True
        with CaptureQueriesContext(connection) as queries:
            response = sign_in.send_link(request)
        assert response.status_code == 200 and not queries.captured_queries
        sizes.append(len(response.content))
        began = time.monotonic()
        response.close()  # as the server does when it has sent the response
        waits.append(time.monotonic() - began)
    assert sizes[0] == sizes[1]
    assert wait_for_emails(1)[0].to == ["ada@example.org"]
    # The next request on the same connection waits equally long.
    assert all(0.3 <= wait < 0.6 for wait in waits), waits


def test_link_requests_are_limited_per_address(study: Study, settings: Any) -> None:
    settings.LINK_REQUESTS_PER_MINUTE = 5
    statuses = [
        Client().post("/send-me-a-link/", {"email": f"a{n}@example.org"}, REMOTE_ADDR="192.0.2.77").status_code
        for n in range(6)
    ]
    assert statuses == [200] * 5 + [429]
    limited = Client().post("/send-me-a-link/", {"email": "ada@example.org"}, REMOTE_ADDR="192.0.2.77")
    assert limited.status_code == 429 and 1 <= int(limited["Retry-After"]) <= 12
    other = Client().post("/send-me-a-link/", {"email": "ada@example.org"}, REMOTE_ADDR="192.0.2.78")
    assert other.status_code == 200
    # Reading the page and mistyped addresses do not count.
    for data in ({"email": "no address"}, {"email": ""}):
        assert Client().post("/send-me-a-link/", data, REMOTE_ADDR="192.0.2.79").status_code == 422
    assert Client().get("/send-me-a-link/", REMOTE_ADDR="192.0.2.77").status_code == 200
