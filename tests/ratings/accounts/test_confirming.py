"""Tests of the actions that require re-authentication in a session that signed in long ago."""

from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ratings.accounts import signing_in
from ratings.studies import lifecycle
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


def test_admin_without_a_password_confirms_with_one_click_on_a_site_of_one_machine(client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    study = invited_raters.create_small_study()
    make_sign_in_stale(client)
    User.objects.create_user("lee")
    address, sent = f"/studies/{study.slug}/members/", {"who": "lee", "role": "analyst"}
    asked = client.post(address, sent)
    page = asked.content.decode()
    assert asked.status_code == 422 and "one click is enough" in page and 'type="password"' not in page
    assert not study.members.exists()
    assert client.post(address, {**sent, "confirm_password": ""}).status_code == 302
    assert study.members.get().role == "analyst"


def test_page_of_a_user_without_a_password_in_production_names_the_command_and_keeps_the_form(
    client: Client, settings: Any
) -> None:
    settings.PRODUCTION = True
    client.force_login(root := User.objects.create_superuser("root"))
    study = invited_raters.create_small_study()
    make_sign_in_stale(client)
    User.objects.create_user("lee")
    address, sent = f"/studies/{study.slug}/members/", {"who": "lee", "role": "analyst"}
    page = client.post(address, sent).content.decode()
    assert "manage.py sign_in_link root" in page and 'name="who" value="lee"' in page
    again = client.post(address, {**sent, "confirm_password": ""})
    assert again.status_code == 422 and "No new sign-in link has been opened" in again.content.decode()
    # The link is opened in another tab of the same browser; then the first page continues.
    client.get(f"/sign-in/{signing_in.create_link(root, 'admin')}/")
    assert client.post(address, {**sent, "confirm_password": ""}).status_code == 302
    assert study.members.get().role == "analyst"


def test_user_without_a_password_is_invited_to_set_one(client: Client) -> None:
    client.force_login(root := User.objects.create_superuser("root"))
    assert "You have no password yet" in client.get("/start/").content.decode()
    make_sign_in_stale(client)
    sent = {"new_password1": PASSWORD, "new_password2": PASSWORD}
    assert client.post("/account/", sent).status_code == 302
    root.refresh_from_db()
    assert root.check_password(PASSWORD)
    assert "You have no password yet" not in client.get("/start/").content.decode()


def test_archive_with_sources_requires_reauthentication_only_if_people_rated(client: Client) -> None:
    study = invited_raters.create_small_study()
    study.raters.update(simulated=True)
    job = job_factories.create_job(f"study/{study.slug}", "done", kind="export", params={"variant": "with sources"})
    file = job_factories.create_job_file(job)
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    make_sign_in_stale(client)
    address = f"/jobs/{job.code}/files/{file.pk}/"
    assert client.get(address).status_code == 200
    study.raters.filter(pk=study.raters.first().pk).update(simulated=False)  # an empty place
    assert client.get(address).status_code == 200
    study.raters.filter(simulated=False).update(answered_items=1)
    assert client.get(address)["Location"].startswith("/account/confirm/")


def test_exports_with_sources_require_reauthentication_only_if_people_rated(client: Client) -> None:
    ada = User.objects.create_superuser("ada", password=PASSWORD)
    study = invited_raters.create_small_study(by=ada)
    study.raters.update(simulated=True)
    lifecycle.close_and_unblind(study, ada)
    client.force_login(ada)
    make_sign_in_stale(client)
    csv, page = f"/studies/{study.slug}/ratings.csv", f"/studies/{study.slug}/export/"
    assert client.get(csv).status_code == 200
    assert client.post(page, {"variant": "full"}).status_code == 302
    study.raters.filter(pk=study.raters.first().pk).update(simulated=False, consented_at=timezone.now())
    assert client.get(csv)["Location"].startswith("/account/confirm/")
    assert client.post(page, {"variant": "full"}).status_code == 422


def test_archive_with_sources_requires_reauthentication(client: Client) -> None:
    study = invited_raters.create_small_study()
    study.raters.update(consented_at=timezone.now())
    job = job_factories.create_job(f"study/{study.slug}", "done", kind="export", params={"variant": "with sources"})
    file = job_factories.create_job_file(job)
    client.force_login(User.objects.create_superuser("root", password=PASSWORD))
    address = f"/jobs/{job.code}/files/{file.pk}/"
    assert client.get(address).status_code == 200
    make_sign_in_stale(client)
    assert client.get(address)["Location"].startswith("/account/confirm/")
