"""Raters who had rated all they had are told, once, when new items wait."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail

from ratings.models import Rater, Study
from ratings.raters import recalling
from ratings.studies import lifecycle
from ratings.studies.pool import pool
from ratings.studies.seats import seating
from tests.support import run_factory, study_factory

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def site_with_mail(settings: Any) -> None:
    settings.EMAIL_HOST, settings.SITE_URL = "mail.example.org", "https://bench.example.org"


def only(count: int) -> list[dict[str, Any]]:
    return [{"cast": "offline", "perturbation": "none", "count": count}]


def study_of(**changes: Any) -> tuple[Study, Rater, Rater]:
    """Six of the pool's ten items; one rater has rated all of theirs, the other has begun."""
    run_factory.pool(10)
    study = study_factory.open_study(
        **{"sources": only(6), "ratings_per_item": 2, "raters": 2, "practice": 0, **changes}
    )
    done, begun = study_factory.seat_all(study)[:2]
    User.objects.filter(pk__in=[done.user_id, begun.user_id]).update(email="rater@example.org")
    study_factory.rate_all(done)
    return study, Rater.objects.get(pk=done.pk), Rater.objects.get(pk=begun.pk)


def add_items(study: Study) -> int:
    held = set(study.items.values_list("payload_sha256", flat=True))
    protocol = lifecycle.read_protocol({**study.protocol, "sources": only(10)})
    return seating.add_items(study, [one for one in pool.find(protocol) if one.candidate.content not in held])


@pytest.mark.parametrize("design", ["balanced", "crossed"])
def test_who_has_rated_everything_gets_one_letter_when_items_are_added(design) -> None:
    study, done, begun = study_of(design=design)
    assert recalling.tell_of_new_items() == 0 and not mail.outbox
    assert add_items(study) == 4
    assert [recalling.tell_of_new_items(), recalling.tell_of_new_items()] == [1, 0]
    [letter] = mail.outbox
    assert "there are 4 new items to rate in Small study" in letter.body and "https://bench.example.org/" in letter.body
    assert study_factory.rate_all(done) == 4
    assert Rater.objects.get(pk=begun.pk).new_items_at is None  # still has items of before: the reminder is for them


def test_in_a_pool_the_letter_says_that_items_can_be_claimed() -> None:
    study, done, _ = study_of(design="pool", ratings_per_item=1, raters=2)
    assert add_items(study) == 4
    assert recalling.tell_of_new_items() == 1
    assert "there are new items to rate in Small study" in mail.outbox[0].body
    assert study_factory.rate_all(done) == 4


def test_the_places_of_a_rater_who_leaves_are_news_as_well() -> None:
    _, done, begun = study_of(ratings_per_item=1)
    seating.withdraw(begun)
    assert recalling.tell_of_new_items() == 1
    assert study_factory.rate_all(done) == 3


def test_who_has_come_by_themselves_or_has_finished_or_cannot_be_reached_gets_none(settings: Any) -> None:
    study, done, _ = study_of()
    add_items(study)
    settings.EMAIL_HOST = ""
    assert recalling.tell_of_new_items() == 0
    assert Rater.objects.get(pk=done.pk).new_items_at is not None  # told as soon as the site sends mail
    settings.EMAIL_HOST = "mail.example.org"
    study_factory.rate_all(done)
    assert recalling.tell_of_new_items() == 0 and not mail.outbox
    assert Rater.objects.get(pk=done.pk).new_items_at is None


def test_a_paused_study_waits_with_the_letter() -> None:
    study, _, _ = study_of()
    add_items(study)
    study.refresh_from_db()
    lifecycle.pause(study)
    assert recalling.tell_of_new_items() == 0
    study.refresh_from_db()
    lifecycle.resume(study)
    assert recalling.tell_of_new_items() == 1
