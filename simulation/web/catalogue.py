"""Pages of the experiments, of the action catalogue, and of the language models."""

import json
import os
from collections.abc import Mapping
from datetime import date
from typing import Any, NamedTuple

from django import forms
from django.db.models import Count, Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone

from simulation.casts import cast_availability, code_cast_availability, model_obstacles
from simulation.lab.actions import KINDS
from simulation.lab.experiments import ExperimentSpec
from simulation.models import Experiment, LanguageModel, ModelPrice
from simulation.providers.base import PROVIDERS, ProviderInfo
from simulation.runs import benches
from simulation.web.access import StaffRequest, staff_page
from wetbench_site.sorted_lists import MAX_SEARCH, match_words

_PRICE_CLASSES = {
    "input": "input",
    "cache_read": "cache read",
    "cache_write_5m": "cache write, 5 minutes",
    "cache_write_1h": "cache write, 1 hour",
    "output": "output",
}


class ProtocolStep(NamedTuple):
    """A step of the reference protocol with names instead of keys."""

    action: str
    materials: list[str]
    parameters: dict[str, str]
    role: str


def _list_groups() -> list[tuple[str, str]]:
    groups = Experiment.objects.order_by("group").values_list("group", flat=True).distinct()
    return [("", "All groups"), *((group, group) for group in groups)]


class ExperimentFilter(forms.Form):
    """Filters of the list of experiments; unknown values are ignored."""

    q = forms.CharField(
        label="Search", required=False, max_length=MAX_SEARCH, widget=forms.TextInput(attrs={"type": "search"})
    )
    group = forms.ChoiceField(choices=_list_groups, required=False, label="Group")


@staff_page
def list_experiments(request: StaffRequest) -> HttpResponse:
    # The column contains the complete experiment, which a list does not need.
    rows = Experiment.objects.defer("data").annotate(played=Count("episodes")).order_by("group", "name")
    form = ExperimentFilter(request.GET)
    form.is_valid()
    text, group = form.cleaned_data.get("q", ""), form.cleaned_data.get("group", "")
    rows = rows.filter(match_words(text, "name", "goal", "group"), Q(group=group) if group else Q())
    return render(
        request, "simulation/experiments.html", {"experiments": rows, "form": form, "filtered": bool(text or group)}
    )


@staff_page
def show_experiment(request: StaffRequest, slug: str) -> HttpResponse:
    """Show the public part of an experiment; its hidden truth is never shown."""
    row = get_object_or_404(Experiment, slug=slug)
    # The specification, not the stored data: the hidden truth must not reach the template.
    spec = benches.get_specification(row)
    # The empty route first: its lines are required whatever the route.
    routes = dict.fromkeys(["", *(str(line.get("route", "")) for line in spec.rubric)])
    rubric = [(route, [line for line in spec.rubric if line.get("route", "") == route]) for route in routes]
    context = {
        "experiment": row,
        "provenance": spec.provenance,
        "materials": spec.initial_materials(),
        "protocol": list_protocol_steps(spec),
        "rubric": [{"name": route, "lines": lines} for route, lines in rubric if lines],
        "variants": spec.variants,
        "manifest": [draft for _, draft in spec.manifest],
        "played": row.episodes.count(),
    }
    return render(request, "simulation/experiment.html", context)


@staff_page
def list_actions(request: StaffRequest) -> HttpResponse:
    types = sorted(benches.get_current_catalogue().types.values(), key=lambda known: known.name)
    groups = [(kind, [known for known in types if known.kind == kind]) for kind in KINDS]
    return render(request, "simulation/actions.html", {"groups": [g for g in groups if g[1]], "total": len(types)})


def list_protocol_steps(spec: ExperimentSpec) -> list[ProtocolStep]:
    """Return the reference protocol: initial materials by name, later ones by their label from an earlier step."""
    names = {key: draft.name for key, draft in spec.materials}
    return [
        ProtocolStep(
            step["action"],
            [_name_of(key, names) for key in step.get("materials", [])],
            {name: _format_value(value, names) for name, value in step.get("parameters", {}).items()},
            step.get("role", ""),
        )
        for step in spec.protocol
    ]


def _name_of(key: str, names: Mapping[str, str]) -> str:
    return names.get(key, key.replace("_", " "))


def _format_value(value: Any, names: Mapping[str, str]) -> str:
    if isinstance(value, list):
        return ", ".join(_format_value(part, names) for part in value)
    if isinstance(value, dict):
        return ", ".join(f"{key}: {_format_value(part, names)}" for key, part in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    # "@" marks a reference to a material in the reference protocol.
    return _name_of(text[1:], names) if text.startswith("@") else text


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
    elsewhere: bool  # the environment sets another base URL than the provider's own
    models: list[ModelRow]


@staff_page
def list_models(request: StaffRequest) -> HttpResponse:
    context = {
        "providers": list_providers(os.environ, timezone.localdate()),
        "casts": cast_availability.list_casts(),
        "code_casts": code_cast_availability.list_code_casts(),
    }
    return render(request, "simulation/models.html", context)


def list_providers(environ: Mapping[str, str], today: date) -> list[ProviderRow]:
    """Return every provider, with or without models, with two queries."""
    rows = [_make_model_row(row, today) for row in LanguageModel.objects.prefetch_related("prices")]
    providers = []
    for name, info in PROVIDERS.items():
        address = environ.get(info.base_url_variable, "").strip() or info.base_url
        elsewhere = address.rstrip("/") != info.base_url.rstrip("/")
        models = [line for line in rows if line.row.provider == name]
        providers.append(ProviderRow(name, info, model_obstacles.has_key(name, environ), elsewhere, models))
    return providers


def _make_model_row(row: LanguageModel, today: date) -> ModelRow:
    prices = [_make_price_row(price) for price in row.prices.all()]
    # Prices are ordered with the latest first, so this is the price in force.
    current = next((price for price in prices if price.row.effective_from <= today), None)
    later = [price for price in reversed(prices) if price.row.effective_from > today]
    options = [(name, _format_option(value)) for name, value in row.options.items()]
    return ModelRow(row, model_obstacles.is_retired(row, today), options, current, later)


def _make_price_row(row: ModelPrice) -> PriceRow:
    amounts = [(words, getattr(row, name)) for name, words in _PRICE_CLASSES.items()]
    # No exponent and no trailing zeros.
    return PriceRow(row, [(words, "unknown" if each is None else f"{each.normalize():f}") for words, each in amounts])


def _format_option(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)
