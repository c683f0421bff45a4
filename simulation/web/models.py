"""The page of language models: how each is reached, its prices and its lifecycle."""

import json
import os
from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from simulation.casts import cast_availability
from simulation.models import LanguageModel, ModelPrice
from simulation.providers.base import PROVIDERS, ProviderInfo
from simulation.web.access import StaffRequest, staff_only

_CLASSES = [
    ("input", "input"),
    ("cache_read", "cache read"),
    ("cache_write_5m", "cache write, 5 minutes"),
    ("cache_write_1h", "cache write, 1 hour"),
    ("output", "output"),
]


class PriceRow(NamedTuple):
    """A price with each of its classes as text; unknown ones are marked."""

    row: ModelPrice
    classes: list[tuple[str, str]]


class ModelRow(NamedTuple):
    """A model with today's price, future prices, and whether its provider has switched it off."""

    row: LanguageModel
    ended: bool
    options: list[tuple[str, str]]
    price: PriceRow | None
    later: list[PriceRow]


class ProviderRow(NamedTuple):
    """A provider with its environment variables. Only whether its key exists is included, never the key."""

    name: str
    info: ProviderInfo
    has_key: bool
    elsewhere: bool  # its base URL is set in the environment
    models: list[ModelRow]


@staff_only
@require_safe
def list_models(request: StaffRequest) -> HttpResponse:
    context = {"providers": list_providers(os.environ, timezone.localdate()), "casts": cast_availability.list_casts()}
    return render(request, "simulation/models.html", context)


def list_providers(environ: Mapping[str, str], today: date) -> list[ProviderRow]:
    """Return every provider, with or without models, with two queries."""
    rows = [_make_model_row(row, today) for row in LanguageModel.objects.prefetch_related("prices")]
    return [
        ProviderRow(
            name,
            info,
            cast_availability.has_key(name, environ),
            # Only whether the variable is set; the page shows no address.
            bool(environ.get(info.base_url_variable, "").strip()),
            [line for line in rows if line.row.provider == name],
        )
        for name, info in PROVIDERS.items()
    ]


def _make_model_row(row: LanguageModel, today: date) -> ModelRow:
    prices = [_make_price_row(price) for price in row.prices.all()]
    # Prices are ordered with the latest first.
    # The first price that is in force; later ones are listed separately.
    current = next((price for price in prices if price.row.effective_from <= today), None)
    later = [price for price in reversed(prices) if price.row.effective_from > today]
    options = [(name, _format_value(value)) for name, value in row.options.items()]
    return ModelRow(row, cast_availability.is_retired(row, today), options, current, later)


def _make_price_row(row: ModelPrice) -> PriceRow:
    amounts = [(words, getattr(row, name)) for name, words in _CLASSES]
    # No exponent and no trailing zeros.
    return PriceRow(row, [(words, "unknown" if each is None else f"{each.normalize():f}") for words, each in amounts])


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)
