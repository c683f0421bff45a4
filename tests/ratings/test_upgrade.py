"""The upgrade from the release with one user for each seat."""

from datetime import timedelta
from importlib import import_module

import pytest
import seats
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from ratings import signing_in
from ratings.models import GuideVersion, Invitation, Rater, SignInLink, Study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
fill = import_module("ratings.migrations.0003_fill").fill


@pytest.fixture
def study() -> Study:
    """As the earlier release left it: a placeholder for a user in every seat."""
    study = seats.study(seats=3)
    for seat in study.raters.all():
        seat.user = User.objects.create_user(f"rater-{seat.label}")
        seat.save()
    GuideVersion.objects.all().delete()
    return study


def handed_out(study: Study, label: str, **fields: object) -> str:
    """A link made by the earlier release."""
    seat, token, now = seats.seat(study, label), signing_in.new_token(), timezone.now()
    Rater.objects.filter(pk=seat.pk).update(invited_at=now)
    values = {"token_sha256": signing_in.digest(token), "expires_at": now + timedelta(days=9), "purpose": "rater"}
    SignInLink.objects.create(user=seat.user, **{**values, **fields})
    return token


def test_a_link_that_nobody_has_used_yet_leads_to_its_seat_after_the_upgrade(study: Study, client: Client) -> None:
    token = handed_out(study, "R02")
    expires = SignInLink.objects.get().expires_at

    fill(apps, None)

    assert [seat.user for seat in study.raters.all()] == [None] * 3
    assert [seat.invited_at is not None for seat in study.raters.order_by("number")] == [False, True, False]
    invitation = Invitation.objects.get()
    assert (invitation.seat.label, invitation.expires_at, invitation.used_at) == ("R02", expires, None)
    assert not User.objects.exists() and not SignInLink.objects.exists()
    assert client.get(f"/r/{token}/").status_code == 200
    assert seats.accept(client, token).status_code == 302
    assert seats.seat(study, "R02").user is not None


def test_a_link_that_was_withdrawn_stays_so_and_its_seat_is_free(study: Study, client: Client) -> None:
    token = handed_out(study, "R01", revoked_at=timezone.now())
    fill(apps, None)
    assert client.get(f"/r/{token}/").status_code == 410
    assert seats.seat(study, "R01").invited_at is None


def test_who_has_begun_keeps_account_and_seat(study: Study) -> None:
    begun = timezone.now()
    Rater.objects.filter(label="R03").update(started_at=begun)
    fill(apps, None)
    seat = seats.seat(study, "R03")
    assert seat.user is not None and (seat.user.username, seat.consented_at) == ("rater-R03", begun)
