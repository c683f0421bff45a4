"""Thirty raters at once over a pool: each item ends with exactly as many ratings as it wants, and nobody meets one twice."""

import uuid
from collections import Counter

import pytest

from ratings.models import Assignment, Rater, Rating, Study
from ratings.rating import answering, serving
from tests.support import run_factory, study_factory
from tests.support.steps import race

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]

RATERS, WANTED, ITEMS = 30, 3, 10  # as many answers as there are raters: all of them compete for each


@pytest.fixture
def study() -> Study:
    run_factory.pool(14)
    sources = [{"cast": "offline", "perturbation": "none", "count": ITEMS}]
    return study_factory.open_study(design="pool", sources=sources, ratings_per_item=WANTED, raters=RATERS)


def rate_what_comes(seat: Rater) -> list[int]:
    """The items this rater met, in order."""
    met = []
    while place := serving.next_assignment(seat):
        serving.mark_opened(place)
        answering.rate(place, True, 3, uuid.uuid4())
        met.append(place.item_id)
    return met


def test_thirty_raters_and_three_slots_an_item_end_with_exactly_three_each(study: Study) -> None:
    seats = study_factory.seat_all(study)

    met = race(lambda: rate_what_comes(seats.pop()), RATERS)

    assert [one for one in met if isinstance(one, Exception)] == []
    assert all(len(set(one)) == len(one) for one in met), "somebody met an item twice"
    given = Counter(item for one in met for item in one)
    assert given == dict.fromkeys(study.items.values_list("pk", flat=True), WANTED)
    assert Rating.objects.count() == ITEMS * WANTED == Assignment.objects.filter(slot__isnull=False).count()
