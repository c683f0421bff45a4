import uuid
from typing import Any

import factories
import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from ratings import answering, interim, studies
from ratings.interim import NotAllowed, look
from ratings.models import Assignment, Membership, Study

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def study(db: None) -> Study:
    """Twenty originals and twenty subtle twins by one source, one rating each."""
    factories.pool(40)
    sources = [{"cast": "offline", "perturbation": kind, "count": 20} for kind in ("none", "subtle")]
    return factories.open_study(raters=2, sources=sources, ratings_per_item=1)


@pytest.fixture
def analyst(study: Study) -> User:
    user = User.objects.create_user("analyst")
    Membership.objects.create(study=study, user=user, role="analyst")
    return user


def rate_some(study: Study, perturbation: str, count: int, verdict: bool = True) -> list[Assignment]:
    open_ones = Assignment.objects.filter(item__study=study, rating=None, item__source__perturbation=perturbation)
    places = list(open_ones.order_by("pk")[:count])
    for place in places:
        answering.rate(place, verdict, 3, uuid.uuid4())
    return places


def told(study: Study, user: User) -> dict[str, tuple[int, int] | None]:
    return {line.perturbation: line.rate and (line.rate.k, line.rate.n) for line in look(study, user)}


def test_a_source_is_shown_from_ten_ratings_on(study: Study, analyst: User) -> None:
    rate_some(study, "none", 10)
    rate_some(study, "subtle", 9)
    assert told(study, analyst) == {"none": (10, 10), "subtle": None}


def test_only_whole_tens_are_shown_so_that_no_look_tells_a_single_rating(study: Study, analyst: User) -> None:
    rate_some(study, "none", 10)
    before = told(study, analyst)
    for _ in range(9):
        rate_some(study, "none", 1, verdict=False)
        assert told(study, analyst) == before
    rate_some(study, "none", 1, verdict=False)
    assert told(study, analyst) == {"none": (10, 20)}


def test_a_correction_does_not_tell_which_source_it_belongs_to(study: Study, analyst: User) -> None:
    *_, place = rate_some(study, "none", 10)
    before = told(study, analyst)
    answering.rate(place, False, 1, uuid.uuid4(), revision=1)
    assert told(study, analyst) == before


def test_a_correction_is_no_tenth_rating(study: Study, analyst: User) -> None:
    *_, place = rate_some(study, "none", 9)
    answering.rate(place, False, 1, uuid.uuid4(), revision=1)
    assert told(study, analyst) == {"none": None}


def test_what_counts_nowhere_is_in_no_look(study: Study, analyst: User) -> None:
    places = rate_some(study, "none", 10)
    answering.rate(rate_some_left(study), None, None, uuid.uuid4(), cannot_judge=True)
    assert told(study, analyst)["none"] == (10, 10)
    Assignment.objects.filter(pk=places[0].pk).update(slot=None, surplus=True)
    assert told(study, analyst)["none"] is None


def rate_some_left(study: Study) -> Assignment:
    return Assignment.objects.filter(item__study=study, rating=None)[0]


def test_every_look_is_in_the_log_with_its_analyst_and_none_that_was_refused(study: Study, analyst: User) -> None:
    rate_some(study, "none", 10)
    look(study, analyst)
    event = study.events.get(kind="looked")
    assert (event.by, event.detail) == (analyst, "interim look: 1 of 1 sources with 10 ratings or more")
    with pytest.raises(NotAllowed):
        look(study, User.objects.create_user("nobody"))
    assert study.events.filter(kind="looked").count() == 1


def test_who_rates_or_runs_the_study_may_not_look_superusers_included(study: Study, admin_user: User) -> None:
    rater = factories.seat(study).user
    assert "hold a seat" in interim.refusal(study, rater)
    admin = User.objects.create_user("editor")
    Membership.objects.create(study=study, user=admin, role="admin")
    assert "run this study" in interim.refusal(study, admin)
    assert interim.refusal(study, admin_user) == ""
    study.created_by = admin_user
    study.save()
    assert "run this study" in interim.refusal(study, admin_user)
    both = User.objects.create_superuser("both")
    factories.seat(study, user=both)
    assert "hold a seat" in interim.refusal(study, both)


def test_there_is_nothing_to_look_at_before_opening_and_after_unblinding(study: Study, admin_user: User) -> None:
    draft = studies.create_study(studies.read_protocol(factories.protocol(slug="draft")))
    assert "is draft" in interim.refusal(draft, admin_user)
    studies.close_and_unblind(study, None)
    study.refresh_from_db()
    assert "is unblinded" in interim.refusal(study, admin_user)


def test_reading_the_page_looks_at_nothing_and_pressing_the_button_does(
    study: Study, analyst: User, client: Any
) -> None:
    rate_some(study, "subtle", 10)
    client.force_login(analyst)
    address = reverse("ratings:interim", args=[study.slug])
    page = client.get(address)
    assert page.status_code == 200
    assert b"10 of 10" not in page.content
    assert not study.events.filter(kind="looked").exists()
    assert b"10 of 10" in client.post(address).content
    assert study.events.filter(kind="looked").count() == 1


def test_a_look_names_no_item_and_no_rater(study: Study, analyst: User, client: Any) -> None:
    rate_some(study, "subtle", 10)
    client.force_login(analyst)
    page = client.post(reverse("ratings:interim", args=[study.slug])).content.decode()
    assert not any(str(code) in page for code in study.items.values_list("code", flat=True))
    assert not any(label in page for label in study.raters.values_list("label", flat=True))
