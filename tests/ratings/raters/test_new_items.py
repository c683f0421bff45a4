"""Tests of the e-mail to raters who had rated everything when new items arrive."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail

from ratings.models import Rater, Study
from ratings.raters import practice
from ratings.studies import lifecycle, pool, running_raters
from tests.support import run_factory, study_factory

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def configure_email(settings: Any) -> None:
    settings.EMAIL_HOST, settings.SITE_URL = "mail.example.org", "https://bench.example.org"


def make_sources(count: int) -> list[dict[str, Any]]:
    return [{"cast": "offline", "perturbation": "none", "count": count}]


def open_study_with_two_raters(**changes: Any) -> tuple[Study, Rater, Rater]:
    """Open a study with six of the pool's ten items; return it with a rater who has rated everything and one who has begun."""
    run_factory.create_pool(10)
    study = study_factory.create_open_study(
        **{"sources": make_sources(6), "ratings_per_item": 2, "raters": 2, "practice": 0, **changes}
    )
    done, begun = study_factory.fill_all_rater_places(study)[:2]
    User.objects.filter(pk__in=[done.user_id, begun.user_id]).update(email="rater@example.org")
    study_factory.rate_everything(done)
    return study, Rater.objects.get(pk=done.pk), Rater.objects.get(pk=begun.pk)


def add_items(study: Study) -> int:
    held = set(study.items.values_list("payload_sha256", flat=True))
    protocol = lifecycle.parse_protocol({**study.protocol, "sources": make_sources(10)})
    return running_raters.add_items(
        study, [one for one in pool.list_usable_candidates(protocol) if one.candidate.content not in held]
    )


@pytest.mark.parametrize("design", ["balanced", "crossed"])
def test_new_items_email_goes_once_to_raters_who_had_rated_everything(design) -> None:
    study, done, begun = open_study_with_two_raters(design=design)
    assert practice.announce_new_items() == 0 and not mail.outbox
    assert add_items(study) == 4
    assert [practice.announce_new_items(), practice.announce_new_items()] == [1, 0]
    [letter] = mail.outbox
    assert "There are 4 new items to rate in Small study" in letter.body and "https://bench.example.org/" in letter.body
    assert study_factory.rate_everything(done) == 4
    assert Rater.objects.get(pk=begun.pk).new_items_at is None  # has unrated older items, so gets the reminder instead


def test_new_items_email_of_a_pool_study_announces_items_without_a_number() -> None:
    study, done, _ = open_study_with_two_raters(design="pool", ratings_per_item=1, raters=2)
    assert add_items(study) == 4
    assert practice.announce_new_items() == 1
    assert "There are new items to rate in Small study" in mail.outbox[0].body
    assert study_factory.rate_everything(done) == 4


def test_new_items_email_is_sent_for_items_of_a_withdrawn_rater() -> None:
    _, done, begun = open_study_with_two_raters(ratings_per_item=1)
    running_raters.withdraw_rater(begun)
    assert practice.announce_new_items() == 1
    assert study_factory.rate_everything(done) == 3


def test_new_items_email_is_not_sent_while_email_is_off_or_after_the_rater_has_rated_them(settings: Any) -> None:
    study, done, _ = open_study_with_two_raters()
    add_items(study)
    settings.EMAIL_HOST = ""
    assert practice.announce_new_items() == 0
    assert Rater.objects.get(pk=done.pk).new_items_at is not None  # is notified when the site can send e-mail
    settings.EMAIL_HOST = "mail.example.org"
    study_factory.rate_everything(done)
    assert practice.announce_new_items() == 0 and not mail.outbox
    assert Rater.objects.get(pk=done.pk).new_items_at is None


def test_new_items_email_waits_until_a_paused_study_resumes() -> None:
    study, _, _ = open_study_with_two_raters()
    add_items(study)
    study.refresh_from_db()
    lifecycle.pause_study(study)
    assert practice.announce_new_items() == 0
    study.refresh_from_db()
    lifecycle.resume_study(study)
    assert practice.announce_new_items() == 1
