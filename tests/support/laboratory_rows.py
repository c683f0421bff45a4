"""The data files as rows of the database. They are parsed and checked once in each process; later tests store the same rows again."""

from django.conf import settings
from django.db import connection
from django.db.models import Model

from simulation.casts import load_files
from simulation.models import CastDefinition, CatalogueEntry, Experiment, LanguageModel, ModelPrice

_MODELS: tuple[type[Model], ...] = (CatalogueEntry, Experiment, LanguageModel, ModelPrice, CastDefinition)
_LOADED: list[list[Model]] = []


def store_laboratory() -> None:
    """Load the data files of `fixtures/` into a database without such rows. PostgreSQL assigns keys itself, so each test parses them."""
    if _LOADED and connection.vendor == "sqlite":
        for rows in _LOADED:
            type(rows[0])._default_manager.bulk_create(rows)
        return
    load_files.load_lab(settings.FIXTURES_DIR)
    _LOADED[:] = [list(model._default_manager.all()) for model in _MODELS]
