"""Fixtures: a signed-in rater of a small open study."""

import pytest
from django.test import Client

from ratings.models import Rater, Study
from tests.support.rating_room import create_open_study


@pytest.fixture
def study(db: None) -> Study:
    return create_open_study(items=3)


@pytest.fixture
def rater(study: Study) -> Rater:
    return study.raters.get(label="R01")


@pytest.fixture
def at_work(client: Client, rater: Rater) -> Client:
    assert rater.user is not None
    client.force_login(rater.user)
    return client
