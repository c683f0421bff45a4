"""Fixtures with the real experiments loaded."""

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.db.models import Model

from simulation.casts import load_files
from simulation.models import CastDefinition, CatalogueEntry, Experiment, LanguageModel, ModelPrice

LAB_MODELS: tuple[type[Model], ...] = (CatalogueEntry, Experiment, LanguageModel, ModelPrice, CastDefinition)
_LOADED: list[list[Model]] = []


@pytest.fixture
def lab(db: None) -> None:
    """Load the data files. On SQLite they are parsed once, and later tests store the same rows again; PostgreSQL assigns keys itself."""
    if _LOADED and connection.vendor == "sqlite":
        for rows in _LOADED:
            type(rows[0])._default_manager.bulk_create(rows)
        return
    load_files.load_lab(django_settings.FIXTURES_DIR)
    _LOADED[:] = [list(model._default_manager.all()) for model in LAB_MODELS]


@pytest.fixture
def caffeine(lab: None) -> Experiment:
    return Experiment.objects.get(slug="caffeine-hplc-analysis")
