"""Tests of the actions that require re-authentication in a session that signed in long ago."""

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.test import Client

from tests.support import invited_raters, job_factories
from tests.support.account_steps import PASSWORD, make_sign_in_stale

pytestmark = pytest.mark.django_db


def test_adding_a_role_requires_reauthentication_and_keeps_the_form_values(client: Client) -> None:
    ada = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    User.objects.create_user("lee")
    study = invited_raters.create_small_study(by=ada)
    client.force_login(ada)
    make_sign_in_stale(client)
    address, sent = f"/studies/{study.slug}/members/", {"who": "lee", "role": "analyst"}
    assert client.get(address).status_code == 200
    asked = client.post(address, sent)
    assert asked.status_code == 422 and dict(asked.context["kept"]) == sent and not study.members.exists()
    again = client.post(address, {**sent, "confirm_password": "wrong"})
    assert again.status_code == 422 and "not your password" in again.content.decode() and not study.members.exists()
    assert "wrong" not in AccessAttempt.objects.get().post_data
    assert client.post(address, {**sent, "confirm_password": PASSWORD}).status_code == 302
    assert study.members.get().role == "analyst"


def test_reauthentication_page_redirects_back_but_not_to_other_sites(client: Client, kim: User) -> None:
    client.force_login(kim)
    make_sign_in_stale(client)
    assert client.get("/account/second-step/")["Location"] == "/account/confirm/?next=%2Faccount%2Fsecond-step%2F"
    for wanted, where in (("/account/second-step/", "/account/second-step/"), ("https://evil.example.org/", "/")):
        sent = {"next": wanted, "confirm_password": PASSWORD}
        assert client.post("/account/confirm/", sent)["Location"] == where
    assert client.get("/account/second-step/").status_code == 200


def test_admin_site_requires_reauthentication_to_change_an_account(client: Client, kim: User) -> None:
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    make_sign_in_stale(client)
    address = f"/admin/auth/user/{kim.pk}/change/"
    assert client.get(address)["Location"].startswith("/account/confirm/")
    assert client.post(address, {"username": "mallory"}).status_code == 422
    kim.refresh_from_db()
    assert kim.username == "kim"


def test_archive_with_sources_requires_reauthentication(client: Client) -> None:
    study = invited_raters.create_small_study()
    job = job_factories.create_job(f"study/{study.slug}", "done", kind="export", params={"variant": "with sources"})
    file = job_factories.create_job_file(job)
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    address = f"/jobs/{job.code}/files/{file.pk}/"
    assert client.get(address).status_code == 200
    make_sign_in_stale(client)
    assert client.get(address)["Location"].startswith("/account/confirm/")
