"""Who they are, once more: what a session that signed in long ago is asked before."""

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.test import Client

from tests.support import job_factories, seats
from tests.support.account_steps import PASSWORD, stale

pytestmark = pytest.mark.django_db


def test_a_role_is_given_only_after_a_fresh_password_and_what_was_sent_is_kept(client: Client) -> None:
    ada = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    User.objects.create_user("lee")
    study = seats.study(by=ada)
    client.force_login(ada)
    stale(client)
    address, sent = f"/studies/{study.slug}/members/", {"who": "lee", "role": "analyst"}
    assert client.get(address).status_code == 200
    asked = client.post(address, sent)
    assert asked.status_code == 422 and dict(asked.context["kept"]) == sent and not study.members.exists()
    again = client.post(address, {**sent, "confirm_password": "wrong"})
    assert again.status_code == 422 and "not your password" in again.content.decode() and not study.members.exists()
    assert "wrong" not in AccessAttempt.objects.get().post_data
    assert client.post(address, {**sent, "confirm_password": PASSWORD}).status_code == 302
    assert study.members.get().role == "analyst"


def test_the_page_that_asks_leads_back_and_nowhere_else(client: Client, kim: User) -> None:
    client.force_login(kim)
    stale(client)
    assert client.get("/account/second-step/")["Location"] == "/account/confirm/?next=%2Faccount%2Fsecond-step%2F"
    for wanted, where in (("/account/second-step/", "/account/second-step/"), ("https://evil.example.org/", "/")):
        sent = {"next": wanted, "confirm_password": PASSWORD}
        assert client.post("/account/confirm/", sent)["Location"] == where
    assert client.get("/account/second-step/").status_code == 200


def test_the_back_office_changes_no_account_for_a_stale_session(client: Client, kim: User) -> None:
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    stale(client)
    address = f"/admin/auth/user/{kim.pk}/change/"
    assert client.get(address)["Location"].startswith("/account/confirm/")
    assert client.post(address, {"username": "mallory"}).status_code == 422
    kim.refresh_from_db()
    assert kim.username == "kim"


def test_the_archive_with_sources_is_not_given_to_a_stale_session(client: Client) -> None:
    study = seats.study()
    job = job_factories.job(f"study/{study.slug}", "done", kind="export", params={"variant": "with sources"})
    file = job_factories.file(job)
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    address = f"/jobs/{job.code}/files/{file.pk}/"
    assert client.get(address).status_code == 200
    stale(client)
    assert client.get(address)["Location"].startswith("/account/confirm/")
