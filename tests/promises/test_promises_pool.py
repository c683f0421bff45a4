"""Thirty raters rate a pool at the same time: each item gets exactly the planned number of ratings, and nobody gets an item twice."""

import uuid
from collections import Counter

import pytest

from ratings.models import Assignment, Rater, Rating, Study
from ratings.rating import next_item, submit
from tests.support import run_factory, study_factory
from tests.support.steps import run_concurrently

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]

RATERS, RATINGS_PER_ITEM, ITEMS = 30, 3, 10  # as many answers as raters, so that all compete for every item


@pytest.fixture
def study() -> Study:
    run_factory.create_pool(14)
    sources = [{"cast": "offline", "perturbation": "none", "count": ITEMS}]
    return study_factory.create_open_study(
        design="pool", sources=sources, ratings_per_item=RATINGS_PER_ITEM, raters=RATERS
    )


def rate_all_items(rater: Rater) -> list[int]:
    """Return the items this rater was given, in order."""
    item_ids = []
    while assignment := next_item.find_next_assignment(rater):
        next_item.mark_opened(assignment)
        submit.submit_rating(assignment, True, 3, uuid.uuid4())
        item_ids.append(assignment.item_id)
    return item_ids


def test_pool_with_thirty_concurrent_raters_gives_every_item_exactly_three_ratings(study: Study) -> None:
    raters = study_factory.fill_all_rater_places(study)

    results = run_concurrently(lambda: rate_all_items(raters.pop()), RATERS)

    assert [result for result in results if isinstance(result, Exception)] == []
    assert all(len(set(result)) == len(result) for result in results), "a rater was given an item twice"
    counts = Counter(item for result in results for item in result)
    assert counts == dict.fromkeys(study.items.values_list("pk", flat=True), RATINGS_PER_ITEM)
    assert Rating.objects.count() == ITEMS * RATINGS_PER_ITEM == Assignment.objects.filter(slot__isnull=False).count()
