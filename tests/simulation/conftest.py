"""Fixtures with the real experiments loaded."""

import pytest

from simulation.models import Experiment
from tests.support.laboratory_rows import store_laboratory


@pytest.fixture
def lab(db: None) -> None:
    store_laboratory()


@pytest.fixture
def caffeine(lab: None) -> Experiment:
    return Experiment.objects.get(slug="caffeine-hplc-analysis")
