"""Limits on the number of write requests and exports per user."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ratings.models import Study
from simulation.models import Job
from tests.support import invited_raters, job_factories
from tests.support.account_steps import PASSWORD
from wetbench_site.middleware.write_limit import TokenBuckets

pytestmark = pytest.mark.django_db


def test_write_limit_allows_a_minute_of_requests_and_refills_evenly() -> None:
    buckets = TokenBuckets()
    assert [buckets.take_token("kim", 60, 0.0) for _ in range(60)] == [0.0] * 60
    assert buckets.take_token("kim", 60, 0.0) == pytest.approx(1.0)  # one request per second is refilled
    assert buckets.take_token("lee", 60, 0.0) == 0.0
    assert buckets.take_token("kim", 60, 0.5) == pytest.approx(0.5)
    assert buckets.take_token("kim", 60, 1.0) == 0.0


def test_write_limit_shows_the_wait_and_keeps_the_form(client: Client, kim: User, settings: Any) -> None:
    client.force_login(kim)
    settings.WRITES_PER_MINUTE = 2
    answers = [client.post("/account/end-sessions/").status_code for _ in range(3)]
    assert answers == [302, 302, 429]
    late = client.post("/account/end-sessions/", headers={"HX-Request": "true"})
    assert late.status_code == 429 and 1 <= int(late["Retry-After"]) <= 30
    assert late["HX-Retarget"] == "#main" and late["HX-Reswap"] == "afterbegin"
    assert client.get("/account/").status_code == 200


@pytest.fixture
def ada(client: Client, settings: Any) -> User:
    """A signed-in member of staff who may create two archives per hour."""
    settings.EXPORTS_PER_HOUR = 2
    ada = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    client.force_login(ada)
    return ada


def add_archive(study: Study, by: User, minutes_ago: int, **fields: Any) -> Job:
    """Create a finished archive of an earlier state of the study."""
    params = {"study": str(study.code), "variant": "blinded", "state": f"state {minutes_ago} minutes ago"}
    job = job_factories.create_job(
        f"study/{study.slug}", **{"status": "done", **fields}, kind="export", params=params, asked_by=by
    )
    Job.objects.filter(pk=job.pk).update(created_at=timezone.now() - timedelta(minutes=minutes_ago))
    return job


def test_export_quota_shows_what_is_left_and_when_the_next_archive_is_possible(client: Client, ada: User) -> None:
    study = invited_raters.create_small_study(by=ada)
    address = f"/studies/{study.slug}/export/"
    assert "2 of 2 archives left this hour" in client.get(address).content.decode()
    add_archive(study, ada, 61)  # more than an hour ago
    add_archive(study, ada, 30, status="failed")
    oldest = add_archive(study, ada, 45)
    assert "1 of 2 archives left this hour" in client.get(address).content.decode()
    add_archive(study, ada, 5)
    oldest.refresh_from_db()
    clock = f"{oldest.created_at + timedelta(hours=1):%H:%M} UTC"
    page = client.get(address).content.decode()
    assert f"the next one is possible at {clock}" in page and "Create the archive" not in page
    refused = client.post(address, {"variant": "blinded"})
    assert refused.status_code == 429 and f"The next one is possible at {clock}" in refused.content.decode()
    assert 14 * 60 < int(refused["Retry-After"]) <= 15 * 60 + 1  # the one of 45 minutes ago leaves the hour in 15
    assert Job.objects.filter(kind="export").count() == 4
    Job.objects.filter(pk=oldest.pk).update(created_at=timezone.now() - timedelta(minutes=61))
    assert client.post(address, {"variant": "blinded"}).status_code == 302
    assert Job.objects.filter(kind="export").count() == 5


def test_export_quota_does_not_count_csv_files_and_archives_that_exist(client: Client, ada: User) -> None:
    study = invited_raters.create_small_study(by=ada)
    address = f"/studies/{study.slug}/export/"
    for _ in range(3):
        assert client.get(f"/studies/{study.slug}/ratings.csv").status_code == 200
        assert client.post(address, {"variant": "blinded"}).status_code == 302
    assert Job.objects.filter(kind="export").count() == 1
    assert "1 of 2 archives left this hour" in client.get(address).content.decode()
    another = invited_raters.create_small_study(by=ada, slug="another")
    add_archive(another, ada, 5)
    # The quota is used up, but the archive of this state is already under way.
    assert client.post(address, {"variant": "blinded"}).status_code == 302
    assert client.post(f"/studies/{another.slug}/export/", {"variant": "blinded"}).status_code == 429
