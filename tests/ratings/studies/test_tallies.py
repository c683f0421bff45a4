"""Counts of a study are cached while the study does not change, and counted again after any change."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from ratings.models import Rater, Study
from ratings.rating import next_item, submit
from ratings.studies import progress, running_raters
from tests.support import run_factory, study_factory

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def study(settings: Any) -> Study:
    settings.TALLY_SECONDS = 60
    cache.clear()
    run_factory.create_pool(6)
    sources = [{"cast": "offline", "perturbation": "none", "count": 6}]
    study = study_factory.create_open_study(raters=2, sources=sources, ratings_per_item=2, items_per_rater=None)
    study_factory.fill_all_rater_places(study)
    answer(study)
    return study


def answer(study: Study) -> None:
    """Let R01 rate the next item as plausible."""
    assignment = next_item.find_next_assignment(rater(study))
    assert assignment is not None
    submit.submit_rating(assignment, True, 3, uuid.uuid4())


def correct(study: Study) -> None:
    """Let R01 change the only answer to "cannot judge"."""
    assignment = rater(study).assignments.get(answered_at__isnull=False)
    submit.submit_rating(assignment, None, None, uuid.uuid4(), cannot_judge=True, revision=1)


def rater(study: Study) -> Rater:
    return study.raters.get(label="R01")


def queries_of(study: Study) -> int:
    with CaptureQueriesContext(connection) as asked:
        progress.count_study(study)
    return len(asked)


def test_study_counts_are_cached_while_nothing_changes(study: Study) -> None:
    first, again = queries_of(study), queries_of(study)
    assert again < first
    assert progress.count_study(study).study.given == 1


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        (answer, lambda found: found.study.given == 2),
        (correct, lambda found: found.study.cannot_judge == 1),
        (lambda study: running_raters.add_rater_places(study, 1), lambda found: len(found.raters) == 3),
        (lambda study: study.raters.filter(label="R01").update(dropped=True, withdrawn_at="2026-01-01T00:00Z"),
         lambda found: found.study.given == 0),
    ],
    ids=["an answer", "a correction", "a rater", "a rater dropped"],
)  # fmt: skip
def test_study_counts_include_a_change_at_once(
    study: Study, change: Callable[[Study], Any], seen: Callable[[progress.StudyCounts], bool]
) -> None:
    assert not seen(progress.count_study(study))
    change(study)
    assert seen(progress.count_study(study))


def test_study_counts_take_the_same_queries_for_10_and_20_ratings(settings: Any) -> None:
    settings.TALLY_SECONDS = 60
    run_factory.create_pool(20)
    asked = []
    for count in (10, 20):
        source = [{"cast": "offline", "perturbation": "none", "count": count}]
        study = study_factory.create_open_study(raters=2, sources=source, ratings_per_item=1, slug=f"study-{count}")
        for rater in study.raters.all():
            study_factory.rate_everything(rater)
        asked.append(queries_of(study))
    assert asked[0] == asked[1]
