"""Thirty raters rate a pool at the same time: each item gets exactly the planned number of ratings, and nobody gets an item twice."""

import uuid
from collections import Counter

import pytest

from ratings.models import Assignment, Rater, Rating, Study
from ratings.rating import answering, serving
from tests.support import run_factory, study_factory
from tests.support.steps import race

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]

RATERS, WANTED, ITEMS = 30, 3, 10  # as many answers as raters, so that all compete for every item


@pytest.fixture
def study() -> Study:
    run_factory.pool(14)
    sources = [{"cast": "offline", "perturbation": "none", "count": ITEMS}]
    return study_factory.open_study(design="pool", sources=sources, ratings_per_item=WANTED, raters=RATERS)


def rate_what_comes(seat: Rater) -> list[int]:
    """Return the items this rater was given, in order."""
    item_ids = []
    while assignment := serving.next_assignment(seat):
        serving.mark_opened(assignment)
        answering.rate(assignment, True, 3, uuid.uuid4())
        item_ids.append(assignment.item_id)
    return item_ids


def test_pool_with_thirty_concurrent_raters_gives_every_item_exactly_three_ratings(study: Study) -> None:
    raters = study_factory.seat_all(study)

    results = race(lambda: rate_what_comes(raters.pop()), RATERS)

    assert [result for result in results if isinstance(result, Exception)] == []
    assert all(len(set(result)) == len(result) for result in results), "a rater was given an item twice"
    counts = Counter(item for result in results for item in result)
    assert counts == dict.fromkeys(study.items.values_list("pk", flat=True), WANTED)
    assert Rating.objects.count() == ITEMS * WANTED == Assignment.objects.filter(slot__isnull=False).count()
