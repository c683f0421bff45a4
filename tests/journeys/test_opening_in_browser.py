"""Open a large study in a real browser: a worker opens it, and the page shows its progress."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from ratings.models import Study
from ratings.studies import lifecycle, opening_jobs
from tests.support import run_factory, study_factory
from tests.support.browser_steps import BOTH_SIZES, NewContext, check_accessible, open_page_as_ada
from tests.support.embedded_worker import run_until_idle

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_large_study_is_opened_by_keyboard_and_its_page_shows_the_job_until_it_is_open(
    new_context: NewContext, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening_jobs, "MIN_JOB_ITEMS", 10)
    run_factory.create_pool()
    page = open_page_as_ada(new_context(), live_server.url, "/")
    protocol = lifecycle.parse_protocol(study_factory.build_protocol(slug="large"))
    lifecycle.create_study(protocol, by=User.objects.get(username="ada"))
    page.goto(live_server.url + "/studies/large/")
    page.get_by_role("button", name="Open the study").press("Enter")
    job = page.get_by_role("region", name="Opening of a study")
    expect(job).to_contain_text("Queued")
    check_accessible(page, BOTH_SIZES)
    run_until_idle()
    expect(job).to_contain_text("The study is open. You can now invite raters.")
    check_accessible(page, BOTH_SIZES)
    job.get_by_role("link", name="The study").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Small study")
    expect(page.get_by_text("Opened by ada")).to_be_visible()
    assert Study.objects.get(slug="large").is_open
