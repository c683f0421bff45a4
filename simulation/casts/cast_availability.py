"""The existing casts, whether they can run here now, and their frozen configuration for a run."""

import os
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple

from django.utils import timezone

from simulation.casts import run_config
from simulation.casts.run_config import (
    PERSON,
    ROLES,
    RULE_BASED_CASTS,
    SCRIPTED_ALONE,
    UnknownCastError,
    get_role_name,
    list_roles,
)
from simulation.lab.errors import LabError
from simulation.models import CastDefinition, LanguageModel
from simulation.providers import connections
from simulation.providers.base import PROVIDERS, WireOptions

_CONNECTION_FIELDS = ("provider", "model_id", "aliases", "options", "context_limit")
RATER_TOKENS = 16_000  # including thinking, for a model that rates by itself instead of as part of a cast

Environment = Mapping[str, str]


class NotReadyError(LabError):
    """The cast cannot run here; the message states what is missing, `missing_keys` if it is only keys."""

    def __init__(self, message: str, missing_keys: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.missing_keys = missing_keys


class CastOption(NamedTuple):
    """A cast that people can choose. `warnings` do not prevent a run; a `why_not` that is not empty does."""

    name: str
    description: str
    agent: str
    transition_model: str
    evidence_classifier: str
    panel: tuple[str, ...] = ()
    speaks: bool = False  # contains a language model
    answers_by_model: bool = False  # its transition model is a language model
    why_not: str = ""
    warnings: tuple[str, ...] = ()
    missing_keys: tuple[str, ...] = ()  # variables of the keys that it needs and the environment lacks

    @property
    def is_ready(self) -> bool:
        return not self.why_not


class RaterOption(NamedTuple):
    """A possible model rater that people can choose: a cast's first classifier, or a model by itself."""

    name: str  # the argument of `freeze_rater`
    description: str
    of_cast: bool = False
    why_not: str = ""
    warnings: tuple[str, ...] = ()
    missing_keys: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        return not self.why_not


def list_casts(environ: Environment = os.environ) -> list[CastOption]:
    """Return every cast, with two queries: first the rule-based casts, then those with language models, by name."""
    models = {row.name: row for row in LanguageModel.objects.all()}
    with_models = [_model_option(row, models, environ) for row in CastDefinition.objects.all()]
    roles = ("name", "description", *ROLES)
    rule_based = [CastOption(*(getattr(info, role) for role in roles)) for info in RULE_BASED_CASTS.values()]
    return [*rule_based, *with_models]


def list_raters(environ: Environment = os.environ) -> list[RaterOption]:
    """Return every possible model rater, available or not, with two queries: casts first."""
    models = {row.name: row for row in LanguageModel.objects.all()}
    casts_ = {row.name: row.data for row in CastDefinition.objects.all()}
    # A cast without a language model as classifier cannot rate.
    judges = {name: data["evidence_classifier"].get("model") for name, data in casts_.items()}
    of_casts = [
        _rater_option(name, models.get(model), model, environ, casts_[name]) for name, model in judges.items() if model
    ]
    # A cast precedes a model of the same name, as it does when it is requested.
    return [*of_casts, *(_rater_option(name, row, name, environ) for name, row in models.items() if name not in casts_)]


def list_names() -> list[str]:
    return [*RULE_BASED_CASTS, *CastDefinition.objects.values_list("name", flat=True)]


def freeze_cast(name: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the frozen configuration of this cast without the prompt set; empty for a rule-based cast.

    Raises UnknownCastError, or NotReadyError, which names the variable that has no key.
    """
    return _check_keys(describe_cast(name), environ)


def freeze_with_person(answering: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the frozen configuration of the cast `answering` with a person as agent instead of its own agent."""
    cast = {**_load_cast(answering), "agent": {"plays": PERSON}}
    return _check_keys({"cast": cast, "models": _freeze_models(cast)}, environ)


def freeze_rater(name: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the frozen configuration of a model rater, without prompts: a cast's first classifier, or a single model.

    A cast precedes a model of the same name. Raises UnknownCastError, or NotReadyError, which states what is missing.
    """
    player, row = _load_rater(name), CastDefinition.objects.filter(name=name).first()
    scripted = {"scripted": True} if row and row.data.get("scripted") else {}
    models = describe_models([player["model"]])
    if not models:
        raise NotReadyError(f"{name!r} cannot rate: {_describe_missing([player['model']])}")
    return _check_keys(
        {"cast": {"name": name, "description": "", **scripted, "rater": player}, "models": models}, environ
    )


def describe_cast(name: str) -> dict[str, Any]:
    """Return the same configuration as `freeze_cast`, without checking that the keys exist."""
    # Nothing to freeze: rules have neither models nor prompts.
    if name in RULE_BASED_CASTS:
        return {}
    cast = _load_cast(name)
    return {"cast": cast, "models": _freeze_models(cast)}


def has_key(provider: str, environ: Environment = os.environ) -> bool:
    return bool(connections.get_key(provider, environ))


def is_retired(model: LanguageModel, today: date) -> bool:
    """Return whether the provider has switched the model off, or the date that it announced for this has come."""
    # A model that retires today may stop answering during the run.
    return model.lifecycle == "retired" or bool(
        model.lifecycle == "retiring" and model.retires_on and model.retires_on <= today
    )


class RetiredModel(NamedTuple):
    """A model that its provider has switched off, the casts that use it, and the same as a sentence."""

    model: str
    casts: tuple[str, ...]
    message: str


def find_retired(casts: Iterable[str], today: date | None = None) -> list[RetiredModel]:
    """Return the models of these casts that are switched off, by name. Raises UnknownCastError."""
    casts_of_model: dict[str, list[str]] = {}
    for cast in dict.fromkeys(casts):
        for name in {player["model"] for player in list_roles(_load_cast(cast)) if "model" in player}:
            casts_of_model.setdefault(name, []).append(cast)
    rows = LanguageModel.objects.filter(name__in=casts_of_model).order_by("name")
    retired = [row for row in rows if is_retired(row, today or timezone.localdate())]
    users = [(row, tuple(casts_of_model[row.name])) for row in retired]
    return [
        RetiredModel(row.name, casts, f"{_describe_end(row)} (used by {', '.join(casts)}).") for row, casts in users
    ]


def _describe_end(model: LanguageModel) -> str:
    # The variable of the base URL may point to a compatible server, which still answers.
    day, variable = f" on {model.retires_on}" if model.retires_on else "", PROVIDERS[model.provider].base_url_variable
    return f"{model.model_id} was switched off{day}: it answers only if {variable} points elsewhere"


def _load_cast(name: str) -> dict[str, Any]:
    """Return a cast in the form of its data file."""
    if info := RULE_BASED_CASTS.get(name):
        rules = {role: {"plays": getattr(info, role)} for role in ROLES}
        return {"name": info.name, "description": info.description, **rules, "panel": []}
    row = CastDefinition.objects.filter(name=name).first()
    if not row:
        raise UnknownCastError(f"There is no cast {name!r}. Known casts: {', '.join(list_names())}")
    return dict(row.data)


def _load_rater(name: str) -> dict[str, Any]:
    """Return the role that rates: a cast's classifier, or a model with up to RATER_TOKENS of output."""
    if row := CastDefinition.objects.filter(name=name).first():
        player = dict(row.data["evidence_classifier"])
        if "model" not in player:
            raise NotReadyError(
                f"The cast {name!r} judges by rules ({player['plays']}); choose one of its models instead"
            )
        return player
    if model := LanguageModel.objects.filter(name=name).first():
        # Never more than the model can write.
        max_tokens = min(RATER_TOKENS, model.options.get("output_limit") or RATER_TOKENS)
        return {
            "model": name,
            "params": {"max_tokens": max_tokens, "temperature": None, "thinking_budget": None, "effort": ""},
        }
    if name in RULE_BASED_CASTS:
        raise NotReadyError(f"The cast {name!r} is rule-based; the rules that rate are called checker")
    models = ", ".join(LanguageModel.objects.order_by("name").values_list("name", flat=True))
    raise UnknownCastError(
        f"There is no model and no cast {name[:80]!r} that could rate. Models: {models or 'none are loaded'}. "
        f"Casts: {', '.join(CastDefinition.objects.values_list('name', flat=True)) or 'none'}. Rules: checker"
    )


def describe_models(names: Collection[str]) -> dict[str, Any]:
    """Return the connection data of these models; unknown ones are omitted."""
    rows = LanguageModel.objects.filter(name__in=names).order_by("name")
    # Only connection data: prices and lifecycles change, and are looked up when they are needed.
    return {row.name: {key: getattr(row, key) for key in _CONNECTION_FIELDS} for row in rows}


def _freeze_models(cast: Mapping[str, Any]) -> dict[str, Any]:
    """Return the connection data of every model in the cast. Raises NotReadyError."""
    requested = {player["model"] for player in list_roles(cast) if "model" in player}
    described = describe_models(requested)
    if missing := sorted(requested - set(described)):
        raise NotReadyError(f"The cast {cast['name']!r} cannot run: {_describe_missing(missing)}")
    return described


def _check_keys(config: dict[str, Any], environ: Environment) -> dict[str, Any]:
    providers = [model["provider"] for model in config.get("models", {}).values()]
    # The key itself is never stored; only its presence is checked.
    obstacle = _find_unreachable(providers, environ, bool(config.get("cast", {}).get("scripted")))
    if obstacle.reason:
        message = f"The cast {config['cast']['name']!r} cannot run: {obstacle.reason}"
        raise NotReadyError(message, obstacle.missing_keys)
    return config


def _model_option(row: CastDefinition, models: Mapping[str, LanguageModel], environ: Environment) -> CastOption:
    speakers = dict.fromkeys(player["model"] for player in list_roles(row.data) if "model" in player)
    lost = sorted(set(speakers) - set(models))
    models_of_cast = [models[name] for name in speakers if name in models]
    unreachable = _find_unreachable((one.provider for one in models_of_cast), environ, bool(row.data.get("scripted")))
    reasons = [_describe_missing(lost) if lost else "", unreachable.reason]
    agent, transition_model, classifier = (get_role_name(row.data[role]) for role in ROLES)
    return CastOption(
        row.name,
        row.description,
        agent,
        transition_model,
        classifier,
        panel=tuple(get_role_name(player) for player in row.data.get("panel", ())),
        speaks=bool(speakers),
        answers_by_model="model" in row.data["transition_model"],
        why_not="; ".join(filter(None, reasons)),
        warnings=tuple(_iter_warnings(models_of_cast, timezone.localdate())),
        missing_keys=() if lost else unreachable.missing_keys,
    )


def _rater_option(
    name: str, row: LanguageModel | None, model: str, environ: Environment, cast: Mapping[str, Any] | None = None
) -> RaterOption:
    description = f"Its classifier, {model}. {cast['description']}" if cast else ""
    if row is None:
        return RaterOption(name, description, of_cast=bool(cast), why_not=_describe_missing([model]))
    obstacle = _find_unreachable([row.provider], environ, bool(cast and cast.get("scripted")))
    warnings = tuple(_iter_warnings([row], timezone.localdate()))
    description = description or f"{row.model_id}, {row.provider}"
    return RaterOption(name, description, bool(cast), obstacle.reason, warnings, obstacle.missing_keys)


def _describe_missing(models: list[str]) -> str:
    return f"not loaded: {', '.join(models)} (python manage.py load_models)"


class _Obstacle(NamedTuple):
    """Why providers cannot be reached, "" if they can, and the variables to set if keys are all that is missing."""

    reason: str = ""
    missing_keys: tuple[str, ...] = ()


def _find_unreachable(providers: Iterable[str], environ: Environment, scripted: bool = False) -> _Obstacle:
    """Return what the environment lacks to reach every provider. A scripted cast may use only the scripted server."""
    needed, reasons, keys = set(providers), [], []
    # A scripted cast must not reach a real provider by accident, where it would cost money.
    if scripted and not all(run_config.uses_scripted_server(name, environ) for name in needed):
        return _Obstacle(SCRIPTED_ALONE)
    # In a fixed order, so that the message does not depend on the order of a set.
    for name in PROVIDERS:
        if name in needed:
            try:
                connections.make_endpoint(name, "", WireOptions(), environ)
            except connections.MissingKey as missing:
                reasons.append(str(missing))
                keys += [PROVIDERS[name].key_variable] if not has_key(name, environ) else []
    return _Obstacle("; ".join(reasons), tuple(keys) if len(keys) == len(reasons) else ())


def _iter_warnings(models: Iterable[LanguageModel], today: date) -> Iterable[str]:
    for model in models:
        if is_retired(model, today):
            yield f"{_describe_end(model)}."
        elif model.lifecycle == "retiring":
            yield f"{model.model_id} will be switched off on {model.retires_on}."
