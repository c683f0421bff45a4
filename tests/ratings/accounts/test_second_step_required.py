"""Tests of required two-factor authentication: who needs it, and that no page bypasses it."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django_otp.plugins.otp_totp.models import TOTPDevice

from ratings.accounts import two_factor
from simulation.models import Job
from tests.support import invited_raters, job_factories
from tests.support.account_steps import PASSWORD, compute_app_code, create_app_device, post_login

pytestmark = pytest.mark.django_db


def test_required_two_factor_blocks_staff_until_they_set_it_up(client: Client, settings: Any) -> None:
    settings.SECOND_STEP_REQUIRED = True
    root = User.objects.create_superuser("root", password=PASSWORD)
    client.force_login(root)
    for address in ("/", "/studies/", "/account/", "/experiments/"):
        assert client.get(address)["Location"] == "/account/second-step/"
    assert client.get("/admin/").status_code == 404
    assert client.get("/studies/", headers={"HX-Request": "true"})["HX-Redirect"] == "/account/second-step/"
    client.post("/account/second-step/", {"do": "begin"})
    client.post("/account/second-step/", {"do": "turn on", "code": compute_app_code(TOTPDevice.objects.get())})
    assert client.get("/studies/").status_code == 200 and client.get("/admin/").status_code == 200


def test_required_two_factor_applies_to_study_admins_but_not_to_raters(client: Client, settings: Any) -> None:
    settings.SECOND_STEP_REQUIRED = True
    rater = invited_raters.join_by_link(invited_raters.get_rater())
    client.force_login(rater.user)
    assert client.get("/rate/").status_code == 302 and client.get("/rate/")["Location"] != "/account/second-step/"
    lee = User.objects.create_user("lee")
    rater.study.members.create(user=lee, role="admin")
    client.force_login(lee)
    assert client.get(f"/studies/{rater.study.slug}/")["Location"] == "/account/second-step/"
    rater.study.members.update(role="analyst")
    assert client.get(f"/studies/{rater.study.slug}/").status_code == 200


def test_required_two_factor_protects_jobs_files_and_tokens_of_study_admins(client: Client, settings: Any) -> None:
    study = invited_raters.create_small_study()
    job = job_factories.create_job(f"study/{study.slug}", "done", kind="export", params={"variant": "with sources"})
    lee = User.objects.create_user("lee")
    study.members.create(user=lee, role="admin")
    client.force_login(lee)
    addresses = [
        f"/jobs/{job.code}/",
        f"/jobs/{job.code}/files/{job_factories.create_job_file(job).pk}/",
        "/account/tokens/",
    ]
    for address in (*addresses, "/studies/"):
        settings.SECOND_STEP_REQUIRED = True
        assert client.get(address).headers.get("Location") == "/account/second-step/", address
        settings.SECOND_STEP_REQUIRED = False
        assert client.get(address).status_code == 200, address
    settings.SECOND_STEP_REQUIRED = True
    for address in (f"/jobs/{job.code}/cancel/", f"/jobs/{job.code}/retry/", "/account/tokens/"):
        assert client.post(address).headers.get("Location") == "/account/second-step/", address
    assert Job.objects.count() == 1
    study.members.update(role="analyst")
    assert client.get("/studies/").status_code == 200


def test_required_two_factor_ignores_a_device_that_was_turned_off(client: Client, kim: User, settings: Any) -> None:
    device = create_app_device(kim)
    post_login(client, "kim", PASSWORD)
    client.post("/login/code/", {"code": compute_app_code(device)})
    off = {"do": "turn off", "password": PASSWORD, "code": compute_app_code(device, 1)}
    assert client.post("/account/second-step/", off).status_code == 302
    settings.SECOND_STEP_REQUIRED = True
    User.objects.update(is_staff=True)
    assert client.get("/studies/")["Location"] == "/account/second-step/"


def test_required_two_factor_cannot_be_turned_off_by_a_study_admin(client: Client, kim: User, settings: Any) -> None:
    settings.SECOND_STEP_REQUIRED = True
    device = create_app_device(kim)
    invited_raters.create_small_study().members.create(user=kim, role="admin")
    post_login(client, "kim", PASSWORD)
    client.post("/login/code/", {"code": compute_app_code(device)})
    off = {"do": "turn off", "password": PASSWORD, "code": compute_app_code(device, 1)}
    assert client.post("/account/second-step/", off).status_code == 422 and two_factor.find_device(kim)
    assert "Turn off" not in client.get("/account/").content.decode()
