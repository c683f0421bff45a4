"""Whether the language models of a cast can be called here: keys, addresses, and models that were switched off."""

import os
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple

from django.utils import timezone

from simulation.casts import run_config
from simulation.casts.run_config import SCRIPTED_ALONE, list_roles
from simulation.lab.errors import LabError
from simulation.models import CastDefinition, LanguageModel
from simulation.providers import connections
from simulation.providers.base import PROVIDERS, WireOptions

_CONNECTION_FIELDS = ("provider", "model_id", "aliases", "options", "context_limit")

Environment = Mapping[str, str]


class NotReadyError(LabError):
    """The cast cannot run here; the message states what is missing, `missing_keys` if it is only keys."""

    def __init__(self, message: str, missing_keys: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.missing_keys = missing_keys


class CheckedModels(NamedTuple):
    """Whether a cast has models, and what prevents a run with them."""

    speaks: bool
    why_not: str
    warnings: tuple[str, ...]
    missing_keys: tuple[str, ...]


def check_models(row: CastDefinition, models: Mapping[str, LanguageModel], environ: Environment) -> CheckedModels:
    speakers = dict.fromkeys(player["model"] for player in list_roles(row.data) if "model" in player)
    lost = sorted(set(speakers) - set(models))
    models_of_cast = [models[name] for name in speakers if name in models]
    unreachable = find_unreachable((one.provider for one in models_of_cast), environ, bool(row.data.get("scripted")))
    reasons = [describe_missing(lost) if lost else "", unreachable.reason]
    return CheckedModels(
        speaks=bool(speakers),
        why_not="; ".join(filter(None, reasons)),
        warnings=tuple(iter_warnings(models_of_cast, timezone.localdate())),
        missing_keys=() if lost else unreachable.missing_keys,
    )


def describe_models(names: Collection[str]) -> dict[str, Any]:
    """Return the connection data of these models; unknown ones are omitted."""
    rows = LanguageModel.objects.filter(name__in=names).order_by("name")
    # Only connection data: prices and lifecycles change, and are looked up when they are needed.
    return {row.name: {key: getattr(row, key) for key in _CONNECTION_FIELDS} for row in rows}


def freeze_models(cast: Mapping[str, Any]) -> dict[str, Any]:
    """Return the connection data of every model in the cast. Raises NotReadyError."""
    requested = {player["model"] for player in list_roles(cast) if "model" in player}
    described = describe_models(requested)
    if missing := sorted(requested - set(described)):
        raise NotReadyError(f"The cast {cast['name']!r} cannot run: {describe_missing(missing)}")
    return described


def check_keys(config: dict[str, Any], environ: Environment) -> dict[str, Any]:
    providers = [model["provider"] for model in config.get("models", {}).values()]
    # The key itself is never stored; only its presence is checked.
    obstacle = find_unreachable(providers, environ, bool(config.get("cast", {}).get("scripted")))
    if obstacle.reason:
        message = f"The cast {config['cast']['name']!r} cannot run: {obstacle.reason}"
        raise NotReadyError(message, obstacle.missing_keys)
    return config


def has_key(provider: str, environ: Environment = os.environ) -> bool:
    return bool(connections.get_key(provider, environ))


def is_retired(model: LanguageModel, today: date) -> bool:
    """Return whether the provider has switched the model off, or the date that it announced for this has come."""
    # A model that retires today may stop answering during the run.
    return model.lifecycle == "retired" or bool(
        model.lifecycle == "retiring" and model.retires_on and model.retires_on <= today
    )


def describe_end(model: LanguageModel) -> str:
    # The variable of the base URL may point to a compatible server, which still answers.
    day, variable = f" on {model.retires_on}" if model.retires_on else "", PROVIDERS[model.provider].base_url_variable
    return f"{model.model_id} was switched off{day}: it answers only if {variable} points elsewhere"


def describe_missing(models: list[str]) -> str:
    return f"not loaded: {', '.join(models)} (python manage.py load_models)"


class Obstacle(NamedTuple):
    """Why providers cannot be reached, "" if they can, and the variables to set if keys are all that is missing."""

    reason: str = ""
    missing_keys: tuple[str, ...] = ()


def find_unreachable(providers: Iterable[str], environ: Environment, scripted: bool = False) -> Obstacle:
    """Return what the environment lacks to reach every provider. A scripted cast may use only the scripted server."""
    needed, reasons, keys = set(providers), [], []
    # A scripted cast must not reach a real provider by accident, where it would cost money.
    if scripted and not all(run_config.uses_scripted_server(name, environ) for name in needed):
        return Obstacle(SCRIPTED_ALONE)
    # In a fixed order, so that the message does not depend on the order of a set.
    for name in PROVIDERS:
        if name in needed:
            try:
                connections.make_endpoint(name, "", WireOptions(), environ)
            except connections.MissingKey as missing:
                reasons.append(str(missing))
                keys += [PROVIDERS[name].key_variable] if not has_key(name, environ) else []
    return Obstacle("; ".join(reasons), tuple(keys) if len(keys) == len(reasons) else ())


def iter_warnings(models: Iterable[LanguageModel], today: date) -> Iterable[str]:
    for model in models:
        if is_retired(model, today):
            yield f"{describe_end(model)}."
        elif model.lifecycle == "retiring":
            yield f"{model.model_id} will be switched off on {model.retires_on}."
