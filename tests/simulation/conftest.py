"""A laboratory with its real experiments loaded, for tests of what plays them."""

import pytest
from django.conf import settings as django_settings

from simulation import fixtures
from simulation.models import Experiment


@pytest.fixture
def lab(db: None) -> None:
    fixtures.load_lab(django_settings.FIXTURES_DIR)


@pytest.fixture
def caffeine(lab: None) -> Experiment:
    return Experiment.objects.get(slug="caffeine-hplc-analysis")
