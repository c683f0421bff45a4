"""API tokens: who can create which, on the page and by the command; shown once, stored as a hash."""

import re
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from ratings.api import tokens
from ratings.api.tokens import SCOPE_DESCRIPTIONS, TokenError
from ratings.models import ApiToken, Membership, Study
from ratings.raters import erasure
from tests.support import run_factory, study_factory
from tests.support.api_client import ApiProgram, get_last_token
from wetbench_site.text import hash_text

ADDRESS = "/account/tokens/"
SECRET = re.compile(r"wb_[\w-]{43}")


@pytest.fixture
def study(db: None) -> Study:
    run_factory.create_pool()
    return study_factory.create_open_study()


@pytest.fixture
def ann(study: Study, client: Client) -> User:
    """An analyst who has just signed in."""
    ann = User.objects.create_user("ann", password="enough-of-ann")
    Membership.objects.create(study=study, user=ann, role="analyst")
    client.post("/login/", {"username": "ann", "password": "enough-of-ann"})
    return ann


def form(client: Client, **changes: Any) -> dict[str, Any]:
    """Return the data of the token form."""
    code = re.search(r'name="code" value="([^"]+)"', client.get(ADDRESS).content.decode())
    assert code
    return {"code": code[1], "name": "notebook", "scopes": ["studies:read"], "days": "90", **changes}


def test_token_is_shown_once_and_stored_as_a_hash(ann: User, client: Client) -> None:
    answer = client.post(ADDRESS, form(client))
    text = SECRET.findall(answer.content.decode())
    assert len(text) == 1 and answer["Cache-Control"].count("no-store")
    assert not SECRET.search(client.get(ADDRESS).content.decode())
    made = get_last_token()
    assert text[0] not in str(vars(made)) and made.token_sha256 == hash_text(text[0])
    assert timedelta(days=89) < made.expires_at - timezone.now() <= timedelta(days=90)
    assert ApiProgram(text[0]).send_request("/studies").status_code == 200


def test_token_form_sent_twice_creates_one_token(ann: User, client: Client) -> None:
    sent = form(client)
    assert [client.post(ADDRESS, sent).status_code for _ in range(2)] == [200, 422]
    assert ApiToken.objects.count() == 1


def test_token_creation_requires_a_recent_sign_in_and_then_continues(ann: User, client: Client) -> None:
    sent = form(client)
    session = client.session
    session["confirmed_at"] = session["confirmed_at"] - 16 * 60
    session.save()
    asked = client.post(ADDRESS, sent)
    assert "Please sign in again" in asked.content.decode() and not ApiToken.objects.exists()
    wrong = client.post(ADDRESS, {**sent, "confirm_password": "guessed"})
    assert wrong.status_code == 422 and not ApiToken.objects.exists()
    assert SECRET.search(client.post(ADDRESS, {**sent, "confirm_password": "enough-of-ann"}).content.decode())


def test_token_scope_of_the_laboratory_is_offered_to_staff_only(ann: User, client: Client, ada: User) -> None:
    assert "episodes:read" not in client.get(ADDRESS).content.decode()
    assert client.post(ADDRESS, form(client, scopes=["episodes:read"])).status_code == 422
    client.force_login(ada)
    assert "episodes:read" in client.get(ADDRESS).content.decode()


def test_token_can_be_limited_to_studies(ann: User, client: Client, study: Study) -> None:
    client.post(ADDRESS, form(client, studies=[study.slug]))
    assert get_last_token().limited and list(get_last_token().studies.all()) == [study]
    assert f"only {study.slug}" in client.get(ADDRESS).content.decode()


def test_token_page_returns_404_to_raters_and_users_without_a_role(study: Study, client: Client) -> None:
    rater = study_factory.fill_rater_place(study).user
    for user in (rater, User.objects.create_user("nobody")):
        client.force_login(user)
        assert client.get(ADDRESS).status_code == 404
        with pytest.raises(TokenError, match="cannot read any study"):
            tokens.create_token(user, "x", ["studies:read"])


def test_account_page_links_to_tokens_for_users_who_can_have_them(ann: User, study: Study, client: Client) -> None:
    assert ADDRESS in client.get("/account/").content.decode()
    client.force_login(study_factory.fill_rater_place(study).user)
    assert ADDRESS not in client.get("/account/").content.decode()


def test_token_can_be_revoked_only_by_its_owner(ann: User, client: Client, ada: User) -> None:
    own, text = tokens.create_token(ann, "mine", ["studies:read"])
    foreign, _ = tokens.create_token(ada, "hers", ["studies:read"])
    assert client.post(reverse("ratings:revoke_token", args=[foreign.code])).status_code == 404
    assert client.post(reverse("ratings:revoke_token", args=[own.code])).status_code == 302
    assert ApiProgram(text).send_request("/studies").status_code == 401
    foreign.refresh_from_db()
    assert foreign.validity_state == "live" and "revoked" in client.get(ADDRESS).content.decode()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"scopes": []}, "at least one scope"),
        ({"scopes": ["all"]}, "Unknown scope all"),
        ({"days": 366}, "1 to 365 days"),
        ({"days": 0}, "1 to 365 days"),
        ({"name": " "}, "Give the token a name"),
        ({"studies": []}, "Choose the studies"),
        ({"scopes": ["episodes:read"]}, "Only staff"),
    ],
)
def test_token_form_explains_invalid_values(ann: User, changes: dict[str, Any], said: str) -> None:
    plain: dict[str, Any] = {"name": "x", "scopes": ["studies:read"], "days": 1}
    with pytest.raises(TokenError, match=said):
        tokens.create_token(ann, **(plain | changes))


def test_erasing_a_user_deletes_their_tokens(ann: User) -> None:
    tokens.create_token(ann, "notebook of ann", ["studies:read"])
    erasure.erase_person(ann)
    assert not ApiToken.objects.exists()


def test_token_cannot_be_limited_to_a_study_without_a_role(ann: User) -> None:
    with pytest.raises(TokenError, match="has no role in one of these studies"):
        tokens.create_token(
            ann, "x", ["studies:read"], studies=[study_factory.create_open_study(name="Other", slug="other")]
        )


def test_token_command_creates_lists_and_revokes(ann: User, study: Study) -> None:
    def said(*words: str, **options: Any) -> str:
        out = StringIO()
        call_command("api_token", *words, stdout=out, **options)
        return out.getvalue().strip()

    text = said("create", "ann", name="cron", scope=["studies:read", "ratings:read"], study=[study.slug], days=7)
    assert SECRET.fullmatch(text) and ApiProgram(text).send_request("/studies").status_code == 200
    listed = said("list")
    assert listed.startswith(str(get_last_token().code)) and "ann  cron  live" in listed and text not in listed
    assert said("list", "ann") == listed
    assert said("revoke", str(get_last_token().code)) == "cron of ann revoked"
    assert ApiProgram(text).send_request("/studies").status_code == 401
    for words in (("create", "nobody"), ("create", "ann"), ("revoke", "x")):
        with pytest.raises(CommandError):
            said(*words)


def test_token_page_describes_every_scope(ada: User, client: Client) -> None:
    client.force_login(ada)
    page = client.get(ADDRESS).content.decode()
    assert all(name in page for name in SCOPE_DESCRIPTIONS)
