"""Limits on the number of write requests and exports per user."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from tests.support import invited_raters
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


def test_sixth_export_within_an_hour_is_rejected(client: Client, settings: Any) -> None:
    settings.EXPORTS_PER_HOUR = 5
    ada = User.objects.create_user("ada", password=PASSWORD, is_staff=True)
    study = invited_raters.create_small_study(by=ada)
    client.force_login(ada)
    address = f"/studies/{study.slug}/ratings.csv"
    assert [client.get(address).status_code for _ in range(6)] == [*[200] * 5, 429]
    assert client.post(f"/studies/{study.slug}/export/", {"variant": "blinded"}).status_code == 429
    first = study.events.filter(kind="exported").order_by("at").first()
    study.events.filter(pk=first.pk).update(at=timezone.now() - timedelta(minutes=61))
    assert client.get(address).status_code == 200
