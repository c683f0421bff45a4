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

from simulation.casts import roster
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


class PriceLine(NamedTuple):
    """A price with each of its classes as text; unknown ones are marked."""

    row: ModelPrice
    classes: list[tuple[str, str]]


class ModelLine(NamedTuple):
    """A model with today's price, future prices, and whether its provider has switched it off."""

    row: LanguageModel
    ended: bool
    options: list[tuple[str, str]]
    price: PriceLine | None
    later: list[PriceLine]


class ProviderLine(NamedTuple):
    """A provider with its variables. Of a key, only whether it exists."""

    name: str
    info: ProviderInfo
    has_key: bool
    elsewhere: bool  # its base URL points elsewhere
    models: list[ModelLine]


@staff_only
@require_safe
def models(request: StaffRequest) -> HttpResponse:
    context = {"providers": provider_lines(os.environ, timezone.localdate()), "casts": roster.casts()}
    return render(request, "simulation/models.html", context)


def provider_lines(environ: Mapping[str, str], today: date) -> list[ProviderLine]:
    """Return every provider, with or without models, with two queries."""
    rows = [_model_line(row, today) for row in LanguageModel.objects.prefetch_related("prices")]
    return [
        ProviderLine(
            name,
            info,
            roster.key_is_set(name, environ),
            # Only whether the variable is set; the page shows no address.
            bool(environ.get(info.base_url_variable, "").strip()),
            [line for line in rows if line.row.provider == name],
        )
        for name, info in PROVIDERS.items()
    ]


def _model_line(row: LanguageModel, today: date) -> ModelLine:
    prices = [_price_line(price) for price in row.prices.all()]
    # Prices are ordered with the latest first.
    # The first price that is in force; later ones are listed separately.
    current = next((price for price in prices if price.row.effective_from <= today), None)
    later = [price for price in reversed(prices) if price.row.effective_from > today]
    options = [(name, _written(value)) for name, value in row.options.items()]
    return ModelLine(row, roster.ended(row, today), options, current, later)


def _price_line(row: ModelPrice) -> PriceLine:
    amounts = [(words, getattr(row, name)) for name, words in _CLASSES]
    # No exponent and no trailing zeros.
    return PriceLine(row, [(words, "unknown" if each is None else f"{each.normalize():f}") for words, each in amounts])


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)
