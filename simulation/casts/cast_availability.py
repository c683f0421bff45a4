"""The existing casts, whether they can run here now, and their frozen configuration for a run."""

import os
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple

from django.utils import timezone

from simulation.casts.model_obstacles import (
    Environment,
    NotReadyError,
    check_keys,
    check_models,
    describe_end,
    describe_missing,
    describe_models,
    find_unreachable,
    freeze_models,
    is_retired,
    iter_warnings,
)
from simulation.casts.run_config import (
    PERSON,
    ROLES,
    RULE_BASED_CASTS,
    UnknownCastError,
    get_role_name,
    is_code_cast,
    list_roles,
)
from simulation.models import CastDefinition, LanguageModel

RATER_TOKENS = 16_000  # including thinking, for a model that rates by itself instead of as part of a cast


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
    """Return every laboratory cast, with two queries: first the rule-based casts, then those with language models, by name."""
    models = {row.name: row for row in LanguageModel.objects.all()}
    with_models = [_model_option(row, models, environ) for row in _list_laboratory_casts()]
    roles = ("name", "description", *ROLES)
    rule_based = [CastOption(*(getattr(info, role) for role in roles)) for info in RULE_BASED_CASTS.values()]
    return [*rule_based, *with_models]


def list_raters(environ: Environment = os.environ) -> list[RaterOption]:
    """Return every possible model rater, available or not, with two queries: casts first."""
    models = {row.name: row for row in LanguageModel.objects.all()}
    casts_ = {row.name: row.data for row in _list_laboratory_casts()}
    # A cast without a language model as classifier cannot rate.
    judges = {name: data["evidence_classifier"].get("model") for name, data in casts_.items()}
    of_casts = [
        _rater_option(name, models.get(model), model, environ, casts_[name]) for name, model in judges.items() if model
    ]
    # A cast precedes a model of the same name, as it does when it is requested.
    return [*of_casts, *(_rater_option(name, row, name, environ) for name, row in models.items() if name not in casts_)]


def list_names() -> list[str]:
    """Return the names of all laboratory casts."""
    return [*RULE_BASED_CASTS, *(row.name for row in _list_laboratory_casts())]


def _list_laboratory_casts() -> list[CastDefinition]:
    return [row for row in CastDefinition.objects.all() if not is_code_cast(row.data)]


def freeze_cast(name: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the frozen configuration of this cast without the prompt set; empty for a rule-based cast.

    Raises UnknownCastError, or NotReadyError, which names the variable that has no key.
    """
    return check_keys(describe_cast(name), environ)


def freeze_with_person(answering: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the frozen configuration of the cast `answering` with a person as agent instead of its own agent."""
    cast = {**_load_cast(answering), "agent": {"plays": PERSON}}
    return check_keys({"cast": cast, "models": freeze_models(cast)}, environ)


def freeze_rater(name: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the frozen configuration of a model rater, without prompts: a cast's first classifier, or a single model.

    A cast precedes a model of the same name. Raises UnknownCastError, or NotReadyError, which states what is missing.
    """
    player, row = _load_rater(name), _find_laboratory_cast(name)
    scripted = {"scripted": True} if row and row.data.get("scripted") else {}
    models = describe_models([player["model"]])
    if not models:
        raise NotReadyError(f"{name!r} cannot rate: {describe_missing([player['model']])}")
    return check_keys(
        {"cast": {"name": name, "description": "", **scripted, "rater": player}, "models": models}, environ
    )


def describe_cast(name: str) -> dict[str, Any]:
    """Return the same configuration as `freeze_cast`, without checking that the keys exist."""
    # Nothing to freeze: rules have neither models nor prompts.
    if name in RULE_BASED_CASTS:
        return {}
    cast = _load_cast(name)
    return {"cast": cast, "models": freeze_models(cast)}


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
    return [RetiredModel(row.name, casts, f"{describe_end(row)} (used by {', '.join(casts)}).") for row, casts in users]


def _find_laboratory_cast(name: str) -> CastDefinition | None:
    row = CastDefinition.objects.filter(name=name).first()
    return None if row is None or is_code_cast(row.data) else row


def _load_cast(name: str) -> dict[str, Any]:
    """Return a laboratory cast in the form of its data file."""
    if info := RULE_BASED_CASTS.get(name):
        rules = {role: {"plays": getattr(info, role)} for role in ROLES}
        return {"name": info.name, "description": info.description, **rules, "panel": []}
    row = _find_laboratory_cast(name)
    if not row:
        raise UnknownCastError(f"There is no cast {name!r}. Known casts: {', '.join(list_names())}")
    return dict(row.data)


def _load_rater(name: str) -> dict[str, Any]:
    """Return the role that rates: a cast's classifier, or a model with up to RATER_TOKENS of output."""
    if row := _find_laboratory_cast(name):
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
        f"Casts: {', '.join(row.name for row in _list_laboratory_casts()) or 'none'}. Rules: checker"
    )


def _model_option(row: CastDefinition, models: Mapping[str, LanguageModel], environ: Environment) -> CastOption:
    checked = check_models(row, models, environ)
    agent, transition_model, classifier = (get_role_name(row.data[role]) for role in ROLES)
    return CastOption(
        row.name,
        row.description,
        agent,
        transition_model,
        classifier,
        panel=tuple(get_role_name(player) for player in row.data.get("panel", ())),
        speaks=checked.speaks,
        answers_by_model="model" in row.data["transition_model"],
        why_not=checked.why_not,
        warnings=checked.warnings,
        missing_keys=checked.missing_keys,
    )


def _rater_option(
    name: str, row: LanguageModel | None, model: str, environ: Environment, cast: Mapping[str, Any] | None = None
) -> RaterOption:
    description = f"Its classifier, {model}. {cast['description']}" if cast else ""
    if row is None:
        return RaterOption(name, description, of_cast=bool(cast), why_not=describe_missing([model]))
    obstacle = find_unreachable([row.provider], environ, bool(cast and cast.get("scripted")))
    warnings = tuple(iter_warnings([row], timezone.localdate()))
    description = description or f"{row.model_id}, {row.provider}"
    return RaterOption(name, description, bool(cast), obstacle.reason, warnings, obstacle.missing_keys)
