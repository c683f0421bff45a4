"""Tests of invitations from lists, links to copy, and the wording of invitations."""

import csv
import html
import io
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from ratings.exchange.imports import invitation_lists
from ratings.models import Invitation, InvitationText, Study
from ratings.raters import erasure, invitation_texts, invitations, mailings, rater_overview
from ratings.raters.invitation_texts import DEFAULT_BODY, Wording
from tests.support import invited_raters

pytestmark = pytest.mark.django_db
CONSOLE = "django.core.mail.backends.console.EmailBackend"


@pytest.fixture
def study_admin() -> User:
    return User.objects.create_user("boss", email="boss@example.org", is_staff=True)


@pytest.fixture
def study(study_admin: User) -> Study:
    return invited_raters.create_small_study(raters=3, by=study_admin)


@pytest.fixture
def admin_browser(client: Client, study_admin: User, study: Study) -> Client:
    client.force_login(study_admin)
    return client


def build_path(path: str = "") -> str:
    return f"/studies/small/raters/{path}"


def build_url(path: str) -> str:
    return f"https://lab.example.org{path}"


def find_signed(text: str) -> str:
    """Return the hidden field with a checked list or with new links."""
    match = re.search(r'name="signed" value="([^"]+)"', text)
    assert match is not None
    return html.unescape(match[1])


def find_copied_lines(text: str) -> list[list[str]]:
    """Return the cells of the text that "Copy all links" copies."""
    match = re.search(r"<textarea[^>]*>(.*?)</textarea>", text, re.DOTALL)
    assert match is not None
    return [line.split("\t") for line in html.unescape(match[1]).strip("\n").split("\n")]


def read_csv(content: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"))))


# Links to copy


def test_links_of_all_open_places_are_shown_as_one_text_for_a_spreadsheet(admin_browser: Client, study: Study) -> None:
    invited_raters.join_by_link(invited_raters.get_rater(study))
    text = admin_browser.post(build_path("links/")).content.decode()
    lines = find_copied_lines(text)
    assert [line[:3] for line in lines] == [["R02", "", ""], ["R03", "", ""]]  # R01 is taken
    assert all(Client().get(line[3]).status_code == 200 for line in lines)
    assert "Copy all links" in text and mail.outbox == []


def test_new_links_are_saved_as_csv_without_creating_others(admin_browser: Client, study: Study) -> None:
    shown = admin_browser.post(build_path("links/")).content.decode()
    answer = admin_browser.post(build_path("links.csv"), {"signed": find_signed(shown)})
    assert answer["Content-Disposition"] == 'attachment; filename="small-links.csv"'
    rows = read_csv(answer.content)
    assert rows == [["rater", "name", "email", "link"], *find_copied_lines(shown)]
    assert len(rows) == 4 and Invitation.objects.count() == 3
    assert "no-store" in answer["Cache-Control"]


def test_links_csv_contains_no_formula(admin_browser: Client, study: Study) -> None:
    mailings.invite_people(study, [mailings.Invitee(2, "a@example.org", "=1+1")], None, build_url)
    shown = admin_browser.post(build_path("selected/"), {"rater": ["R01", "R02"], "do": "links"}).content.decode()
    answer = admin_browser.post(build_path("links.csv"), {"signed": find_signed(shown)})
    assert read_csv(answer.content)[1][1] == "'=1+1"


def test_links_csv_is_refused_for_text_that_another_user_or_study_signed(
    admin_browser: Client, study: Study, study_admin: User
) -> None:
    invited_raters.create_small_study(raters=2, slug="other", by=study_admin)
    foreign = find_signed(admin_browser.post("/studies/other/raters/links/").content.decode())
    for signed in (foreign, "nonsense", ""):
        answer = admin_browser.post(build_path("links.csv"), {"signed": signed}, follow=True)
        assert "can no longer be saved as CSV" in answer.content.decode()


def test_links_without_an_open_place_are_refused_with_what_to_do(admin_browser: Client, study: Study) -> None:
    admin_browser.post(build_path("links/"))
    answer = admin_browser.post(build_path("links/"), follow=True)  # every place has a valid link now
    assert "There is no open rater place. Add rater places first" in answer.content.decode()


def test_copied_link_gives_no_access_to_the_account_of_the_invited_address(study: Study) -> None:
    """The admin has seen the link, so opening it does not prove that the mailbox is the visitor's."""
    ada = User.objects.create_user("ada", email="ada@example.org")
    copied = mailings.create_links([invited_raters.get_rater(study)], None, build_url)[0][0]
    assert copied.email == ""
    token = invitations.create_invitation(invited_raters.get_rater(study), email="ada@example.org", shown_to_admin=True)
    client = Client()
    invited_raters.post_consent(client, token)
    joined = invited_raters.get_rater(study).user
    assert joined != ada and joined.email == ""
    assert client.session["_auth_user_id"] == str(joined.pk)


# Without e-mail


def test_invitations_without_a_mail_server_are_not_reported_as_sent(
    admin_browser: Client, study: Study, settings: Any
) -> None:
    settings.EMAIL_BACKEND = CONSOLE
    text = admin_browser.post(
        build_path("invite/"), {"addresses": "Ada Byron <ada@example.org>\nbo@example.org"}
    ).content.decode()
    lines = find_copied_lines(text)
    assert [line[:3] for line in lines] == [["R01", "Ada Byron", "ada@example.org"], ["R02", "", "bo@example.org"]]
    assert "E-mail is not set up on this site" in text and "invitations sent" not in text
    assert [row.state for row in rater_overview.list_raters(study)] == ["link created", "link created", "free"]
    assert not Invitation.objects.exclude(sent_at=None).exists()


def test_raters_page_states_permanently_that_email_is_not_set_up(
    admin_browser: Client, study: Study, settings: Any
) -> None:
    assert "E-mail is not set up" not in admin_browser.get(build_path()).content.decode()
    settings.EMAIL_BACKEND = CONSOLE
    for path in ("", "invite-list/", "wording/"):
        assert "E-mail is not set up on this site" in admin_browser.get(build_path(path)).content.decode()
    text = admin_browser.get(build_path()).content.decode()
    assert "Remind all" not in text and "Send reminders" not in text and "Send invitations" not in text


def test_reminders_and_resent_invitations_without_a_mail_server_are_refused(
    admin_browser: Client, study: Study, settings: Any
) -> None:
    settings.EMAIL_BACKEND = CONSOLE
    for path in ("remind/", "R01/resend/"):
        text = admin_browser.post(build_path(path), follow=True).content.decode()
        assert "nothing was sent. Select the raters and create links instead" in text
    assert not study.events.filter(kind="reminded").exists()


def test_sign_in_link_pages_without_a_mail_server_name_the_person_to_ask(study: Study, settings: Any) -> None:
    settings.EMAIL_BACKEND = CONSOLE
    text = Client().get("/send-me-a-link/").content.decode()
    assert "This site cannot send e-mail" in text and "<form" not in text.split("<main")[1]
    token = invitations.create_invitation(invited_raters.get_rater(study))
    Invitation.objects.update(expires_at=timezone.now())
    gone = Client().get(f"/r/{token}/").content.decode()
    assert "ask the person who invited you for a new link" in gone and "by e-mail</button>" not in gone


def test_invite_raters_command_without_a_mail_server_prints_links(
    study: Study, settings: Any, tmp_path: Any, capsys: Any
) -> None:
    settings.EMAIL_BACKEND = CONSOLE
    (tmp_path / "list.txt").write_text("ada@example.org\n", encoding="utf-8")
    call_command("invite_raters", "small", str(tmp_path / "list.txt"), url="https://lab.example.org")
    first, notice, link = capsys.readouterr().out.strip().splitlines()
    assert first == "0 sent" and "nothing was sent" in notice
    assert link.startswith("R01\tada@example.org\thttps://lab.example.org/r/")


# Lists with names


def test_list_is_previewed_before_anything_is_sent_and_then_sent_with_names(
    admin_browser: Client, study: Study
) -> None:
    file = SimpleUploadedFile("people.csv", b"name,email\nAda Byron,ada@example.org\nBo Li,bo@example.org\n")
    preview = admin_browser.post(build_path("invite-list/"), {"file": file}).content.decode()
    assert "Send 2 invitations" in preview and "Hello Ada Byron," in preview
    assert mail.outbox == [] and not Invitation.objects.exists()
    answer = admin_browser.post(build_path("invite-list/"), {"signed": find_signed(preview)}, follow=True)
    assert "2 invitations sent." in answer.content.decode()
    assert [letter.to for letter in mail.outbox] == [["ada@example.org"], ["bo@example.org"]]
    assert mail.outbox[0].body.startswith("Hello Ada Byron,\n") and mail.outbox[1].body.startswith("Hello Bo Li,\n")
    names = Invitation.objects.order_by("pk").values_list("rater__label", "name")
    assert list(names) == [("R01", "Ada Byron"), ("R02", "Bo Li")]


def test_list_pasted_from_a_spreadsheet_gives_links_to_people_without_an_address(
    admin_browser: Client, study: Study
) -> None:
    table = "Name\tE-mail\nAda\tada@example.org\nBench 4\t\n"
    preview = admin_browser.post(build_path("invite-list/"), {"table": table}).content.decode()
    assert "Send 1 invitation and show the other links" in preview
    shown = admin_browser.post(build_path("invite-list/"), {"signed": find_signed(preview)}).content.decode()
    assert "1 invitation sent by e-mail." in shown and "Personal link for R02" in shown
    assert [letter.to for letter in mail.outbox] == [["ada@example.org"]]


def test_list_with_problems_lists_each_by_line_and_column_and_invites_nobody(
    admin_browser: Client, study: Study
) -> None:
    table = f"name,email\nAda,ada@example.org\nBo,no address\n{'x' * 121},cy@example.org\nDee,ADA@example.org\n,\n"
    parsed = invitation_lists.parse_list(table)
    with pytest.raises(mailings.AddressError) as refused:
        mailings.plan_invitations(study, parsed.invitees)
    assert [(problem.line, problem.field) for problem in refused.value.located] == [
        (3, "email"), (4, "name"), (5, "email"),
    ]  # fmt: skip
    answer = admin_browser.post(build_path("invite-list/"), {"table": table})
    text = answer.content.decode()
    assert answer.status_code == 422 and "3 problems: nobody was invited" in text
    assert "&#x27;no address&#x27; is not an e-mail address" in text and "is longer than 120 characters" in text
    assert "ADA@example.org is listed twice" in text and table.splitlines()[1] in text  # what was pasted is kept
    assert not Invitation.objects.exists()


@pytest.mark.parametrize(
    ("table", "line", "field", "message"),
    [
        ("", 0, "", "the table is empty"),
        ("ada@example.org\n", 1, "", "the first line must name the columns: name, email"),
        ("name,email\n", 0, "", "the table has no rows below the first line"),
        ("email,E-Mail\na@example.org,b@example.org\n", 1, "e-mail", "appears twice in the first line"),
        ("name,email\nAda,ada@example.org,x\n", 2, "", "has 3 cells, the first line 2"),
        ('name,email\n"Ada,ada@example.org\n', 2, "", "not a table"),
    ],
)
def test_list_that_is_not_such_a_table_is_rejected_with_the_reason(
    table: str, line: int, field: str, message: str
) -> None:
    problem = invitation_lists.parse_list(table).problems[0]
    assert (problem.line, problem.field) == (line, field) and message in problem.message


def test_list_file_in_another_encoding_is_rejected_with_its_line() -> None:
    parsed = invitation_lists.parse_list_file(io.BytesIO("name,email\nJos\u00e9,j@example.org\n".encode("latin-1")))
    assert parsed.problems[0].line == 2 and "UTF-8" in parsed.problems[0].message


def test_list_with_more_people_than_places_is_rejected(admin_browser: Client, study: Study) -> None:
    table = "name\n" + "".join(f"Person {n}\n" for n in range(4))
    text = admin_browser.post(build_path("invite-list/"), {"table": table}).content.decode()
    assert "4 rows for 3 open rater places: add 1 rater place first" in text


def test_list_restores_cells_that_an_export_protected_from_formulas() -> None:
    parsed = invitation_lists.parse_list("name,email\n'=Ada,ada@example.org\n")
    assert parsed.invitees == [mailings.Invitee(2, "ada@example.org", "=Ada")]


def test_checked_list_that_was_changed_is_refused(admin_browser: Client, study: Study) -> None:
    answer = admin_browser.post(build_path("invite-list/"), {"signed": "forged"})
    assert answer.status_code == 422 and "no longer available" in answer.content.decode()


# The wording


def post_wording(client: Client, do: str = "save", **changes: str) -> Any:
    fields = {"subject": "Invitation", "body": "Dear {name},\n{link}", "sender": "", "duration": "", "payment": ""}
    return client.post(build_path("wording/"), {**fields, **changes, "do": do})


def test_wording_fills_every_placeholder_and_names_the_sender(admin_browser: Client, study: Study) -> None:
    body = "Dear {name},\r\n{study} takes {duration} and pays {payment}.\r\nWithin {days} days: {link}\r\n{sender}"
    answer = post_wording(
        admin_browser, subject="{study} for {name}", body=body, sender="Dr. Vogel", duration="an hour", payment="$40"
    )
    assert answer.status_code == 302
    mailings.invite_people(study, [mailings.Invitee(1, "ada@example.org", "Ada")], None, build_url)
    letter = mail.outbox[0]
    url = re.search(r"https://\S+", letter.body)
    assert url is not None
    assert letter.subject == "Small study for Ada" and letter.from_email.startswith('"Dr. Vogel" <')
    expected = f"Dear Ada,\nSmall study takes an hour and pays $40.\nWithin 7 days: {url[0]}\nDr. Vogel\n"
    assert letter.body == expected and Client().get(invited_raters.find_link(letter.body)).status_code == 200


def test_wording_without_a_name_leaves_out_the_blank_before_it(study: Study) -> None:
    letter = invitation_texts.write_invitation("a@example.org", study, "https://x/", 7)
    assert letter.body.startswith("Hello,\n\nYou are invited")
    assert invitation_texts.write_invitation("a@example.org", study, "https://x/", 7, "Bo").body.startswith("Hello Bo,")


def test_wording_fills_no_placeholder_inside_a_value(study: Study) -> None:
    letter = invitation_texts.write_invitation("a@example.org", study, "https://x/", 7, "{link}{payment}")
    assert letter.body.startswith("Hello {link}{payment},") and letter.body.count("https://x/") == 1


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"body": "Hi\n{nmae} {link}"}, "body", "Line 2: {nmae} is not a placeholder. Allowed: {name}, {link}, {study}, {days}, {duration}, {payment}, {sender}."),
        ({"body": "Dear {name}"}, "body", "The text does not contain {link}, so nobody could open the study. Add it."),
        ({"body": "{link} {name"}, "body", "Line 1: a brace without its counterpart. Braces are for placeholders: {name}, {link}, {study}, {days}, {duration}, {payment}, {sender}."),
        ({"subject": "{link}"}, "subject", "The subject must not contain {link}: mail servers log subjects."),
        ({"subject": "{days}{x}"}, "subject", "{x} is not a placeholder. Allowed: {name}, {study}, {days}, {duration}, {payment}, {sender}."),
        ({"body": "{link} {payment}"}, "payment", "The text contains {payment}: fill in “Payment”, or remove it."),
    ],
)  # fmt: skip
def test_wording_with_a_problem_is_rejected_with_field_and_allowed_values(
    admin_browser: Client, study: Study, changes: dict[str, str], field: str, message: str
) -> None:
    answer = post_wording(admin_browser, **changes)
    assert answer.status_code == 422 and answer.context["form"].errors[field] == [message]
    assert not InvitationText.objects.exists()


def test_wording_is_previewed_without_being_saved_and_can_be_reset(admin_browser: Client, study: Study) -> None:
    text = post_wording(admin_browser, "preview", body="Dear {name}, look: {link}").content.decode()
    assert "Dear Ada Byron, look: https://…/r/…/" in text and "not saved yet" in text
    assert not InvitationText.objects.exists()
    post_wording(admin_browser)
    assert invitation_texts.load_wording(study).body == "Dear {name},\n{link}"
    admin_browser.post(build_path("wording/"), {"do": "reset"})
    assert invitation_texts.load_wording(study) == Wording() and DEFAULT_BODY in html.unescape(
        admin_browser.get(build_path("wording/")).content.decode()
    )


def test_wording_ends_with_the_contact_of_the_study(study: Study) -> None:
    Study.objects.update(protocol={**study.protocol, "contact": "vogel@example.org"})
    study.refresh_from_db()
    letter = invitation_texts.write_invitation("a@example.org", study, "https://x/", 7, wording=Wording(body="{link}"))
    assert letter.body == "https://x/\n\nQuestions: vogel@example.org\n"


# Status, and what remains of a name


def test_invitation_status_goes_from_created_to_opened_to_joined(admin_browser: Client, study: Study) -> None:
    rater = invited_raters.get_rater(study)
    token = invitations.create_invitation(rater, name="Ada Byron", shown_to_admin=True)
    assert rater_overview.list_raters(study)[0].state == "link created"
    Client().head(f"/r/{token}/")
    assert rater_overview.list_raters(study)[0].state == "link created"
    Client().get(f"/r/{token}/")
    assert rater_overview.list_raters(study)[0].state == "link opened"
    assert "Ada Byron" in admin_browser.get(build_path("R01/")).content.decode()
    invited_raters.post_consent(Client(), token)
    assert rater_overview.list_invitations(invited_raters.get_rater(study))[0].state == "joined"


def test_name_is_erased_when_its_owner_joins_and_no_page_shows_the_address_any_more(
    admin_browser: Client, study: Study
) -> None:
    mailings.invite_people(study, [mailings.Invitee(1, "ada@example.org", "Ada Byron")], None, build_url)
    assert "Ada Byron" in admin_browser.get(build_path()).content.decode()
    Client().post(invited_raters.find_link(mail.outbox[0].body), invited_raters.CONSENT_FORM)
    assert Invitation.objects.get().name == ""
    for path in ("", "R01/", "?q=ada"):
        text = admin_browser.get(build_path(path)).content.decode().split("<main")[1]
        assert "Ada Byron" not in text and "ada@example.org" not in text
    with pytest.raises(mailings.AddressError, match=r"Line 1: ada@example\.org has already joined this study$"):
        mailings.invite_people(study, mailings.parse_addresses("ada@example.org"), None, build_url)


def test_erasure_removes_the_name_from_invitations(study: Study) -> None:
    other = invited_raters.create_small_study(slug="other")
    rater = invited_raters.join_by_link(invited_raters.get_rater(study), email="ada@example.org")
    invitations.create_invitation(invited_raters.get_rater(other), email="ada@example.org", name="Ada Byron")
    erasure.erase_person(rater.user)
    assert set(Invitation.objects.values_list("email", "name")) == {("", "")}
