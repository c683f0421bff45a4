"""The existing casts, whether they can run here now, and their frozen configuration for a run."""

import os
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import Any, NamedTuple

from django.utils import timezone

from simulation.casts import casting, setups
from simulation.casts.cast_files import ROLES, player_name, players
from simulation.casts.setups import PERSON, SCRIPTED_ALONE
from simulation.lab.errors import LabError
from simulation.models import CastDefinition, LanguageModel
from simulation.providers import connections
from simulation.providers.base import PROVIDERS, WireOptions

_REACHED = ("provider", "model_id", "aliases", "options", "context_limit")
RATER_TOKENS = 16_000  # including thinking, for a model that rates by itself instead of as part of a cast

Environment = Mapping[str, str]


class NotReadyError(LabError):
    """The cast cannot run here; the message states what is missing."""


class CastLine(NamedTuple):
    """A cast as an option for people. `warnings` do not prevent a run; `why_not` does."""

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

    @property
    def ready(self) -> bool:
        return not self.why_not


class RaterLine(NamedTuple):
    """A possible model rater as an option for people: a cast's first classifier, or a model by itself."""

    name: str  # the argument of `freeze_rater`
    description: str
    of_cast: bool = False
    why_not: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def ready(self) -> bool:
        return not self.why_not


def casts(environ: Environment = os.environ) -> list[CastLine]:
    """Return every cast with two queries: rule-based ones, then those with language models by name."""
    models = {row.name: row for row in LanguageModel.objects.all()}
    with_models = [_spoken(row, models, environ) for row in CastDefinition.objects.all()]
    return [*map(_offline, casting.CASTS.values()), *with_models]


def raters(environ: Environment = os.environ) -> list[RaterLine]:
    """Return every possible model rater, available or not, with two queries: casts first."""
    models = {row.name: row for row in LanguageModel.objects.all()}
    casts_ = {row.name: row.data for row in CastDefinition.objects.all()}
    # A cast without a language model as classifier cannot rate.
    judges = {name: data["evidence_classifier"].get("model") for name, data in casts_.items()}
    of_casts = [
        _rating(
            name,
            model,
            f"Its classifier, {model}. {casts_[name]['description']}",
            models,
            environ,
            bool(casts_[name].get("scripted")),
        )._replace(of_cast=True)
        for name, model in judges.items()
        if model
    ]
    # A cast precedes a model of the same name, as it does when it is requested.
    return [*of_casts, *(_rating(name, name, "", models, environ) for name in models if name not in casts_)]


def names() -> list[str]:
    return [*casting.CASTS, *CastDefinition.objects.values_list("name", flat=True)]


def resolve(name: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the frozen configuration of this cast without the prompt set; empty for a rule-based cast.

    Raises UnknownCastError, or NotReadyError with the name of the variable that has no key.
    """
    return _with_keys(setup(name), environ)


def with_person(answering: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the same with a person as agent: that cast's transition model answers, its classifiers judge."""
    cast = {**_cast(answering), "agent": {"plays": PERSON}}
    return _with_keys({"cast": cast, "models": _models(cast)}, environ)


def rater(name: str, environ: Environment = os.environ) -> dict[str, Any]:
    """Return the frozen configuration of a model rater without its prompts: a cast's first classifier, or a model by itself.

    A cast precedes a model of the same name. Raises UnknownCastError, or NotReadyError with what is missing.
    """
    player, row = _rater(name), CastDefinition.objects.filter(name=name).first()
    scripted = {"scripted": True} if row and row.data.get("scripted") else {}
    models = reached([player["model"]])
    if not models:
        raise NotReadyError(f"{name!r} cannot rate: {_lost([player['model']])}")
    return _with_keys(
        {"cast": {"name": name, "description": "", **scripted, "rater": player}, "models": models}, environ
    )


def setup(name: str) -> dict[str, Any]:
    """Return the configuration like `freeze_cast`, whether or not the keys exist."""
    # Nothing to freeze: rules have neither models nor prompts.
    if name in casting.CASTS:
        return {}
    cast = _cast(name)
    return {"cast": cast, "models": _models(cast)}


def key_is_set(provider: str, environ: Environment = os.environ) -> bool:
    return bool(connections.key_of(provider, environ))


def ended(model: LanguageModel, today: date) -> bool:
    """Return whether its provider has switched it off, or announced to do so by today."""
    # A model that retires today may stop answering during the run.
    return model.lifecycle == "retired" or bool(
        model.lifecycle == "retiring" and model.retires_on and model.retires_on <= today
    )


class Retired(NamedTuple):
    """A model that its provider has switched off, and the casts that use it. `variable`: its base URL may point elsewhere."""

    model: str
    model_id: str
    retires_on: date | None
    casts: tuple[str, ...]
    variable: str

    @property
    def said(self) -> str:
        date_text = f" on {self.retires_on}" if self.retires_on else ""
        return (
            f"{self.model_id} was switched off{date_text}: it answers only if {self.variable} points elsewhere "
            f"(used by {', '.join(self.casts)})."
        )


def find_retired(casts: Iterable[str], today: date | None = None) -> list[Retired]:
    """Return the models of these casts that are switched off, by name. Raises UnknownCastError."""
    casts_of_model: dict[str, list[str]] = {}
    for cast in dict.fromkeys(casts):
        for name in {player["model"] for player in players(_cast(cast)) if "model" in player}:
            casts_of_model.setdefault(name, []).append(cast)
    rows = LanguageModel.objects.filter(name__in=casts_of_model).order_by("name")
    return [
        Retired(
            row.name,
            row.model_id,
            row.retires_on,
            tuple(casts_of_model[row.name]),
            PROVIDERS[row.provider].base_url_variable,
        )
        for row in rows
        if ended(row, today or timezone.localdate())
    ]


def _cast(name: str) -> dict[str, Any]:
    """Return the roles of a cast as in its data file."""
    if info := casting.CASTS.get(name):
        rules = {role: {"plays": getattr(info, role)} for role in ROLES}
        return {"name": info.name, "description": info.description, **rules, "panel": []}
    row = CastDefinition.objects.filter(name=name).first()
    if not row:
        raise casting.UnknownCastError(f"There is no cast {name!r}. Known casts: {', '.join(names())}")
    return dict(row.data)


def _rater(name: str) -> dict[str, Any]:
    """Return the role that rates: a cast's classifier, or a model with its full output length."""
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
    if name in casting.CASTS:
        raise NotReadyError(f"The cast {name!r} is rule-based; the rules that rate are called checker")
    models = ", ".join(LanguageModel.objects.order_by("name").values_list("name", flat=True))
    raise casting.UnknownCastError(
        f"There is no model and no cast {name[:80]!r} that could rate. Models: {models or 'none are loaded'}. "
        f"Casts: {', '.join(CastDefinition.objects.values_list('name', flat=True)) or 'none'}. Rules: checker"
    )


def reached(names: Collection[str]) -> dict[str, Any]:
    """Return the connection data of these models; unknown ones are omitted."""
    rows = LanguageModel.objects.filter(name__in=names).order_by("name")
    # Only connection data: prices and lifecycles change and are looked up on their day.
    return {row.name: {key: getattr(row, key) for key in _REACHED} for row in rows}


def _models(cast: Mapping[str, Any]) -> dict[str, Any]:
    """Return the connection data of every model in the cast. Raises NotReadyError."""
    requested = {player["model"] for player in players(cast) if "model" in player}
    described = reached(requested)
    if missing := sorted(requested - set(described)):
        raise NotReadyError(f"The cast {cast['name']!r} cannot run: {_lost(missing)}")
    return described


def _with_keys(made: dict[str, Any], environ: Environment) -> dict[str, Any]:
    providers = [model["provider"] for model in made.get("models", {}).values()]
    # The key itself is never stored; only its presence is checked.
    if missing := _unreached(providers, environ, bool(made.get("cast", {}).get("scripted"))):
        raise NotReadyError(f"The cast {made['cast']['name']!r} cannot run: {missing}")
    return made


def _offline(info: casting.CastInfo) -> CastLine:
    return CastLine(info.name, info.description, info.agent, info.transition_model, info.evidence_classifier)


def _spoken(row: CastDefinition, models: Mapping[str, LanguageModel], environ: Environment) -> CastLine:
    speakers = dict.fromkeys(player["model"] for player in players(row.data) if "model" in player)
    lost = sorted(set(speakers) - set(models))
    models_of_cast = [models[name] for name in speakers if name in models]
    reasons, scripted = [_lost(lost)] if lost else [], bool(row.data.get("scripted"))
    reasons += (
        [missing] if (missing := _unreached((model.provider for model in models_of_cast), environ, scripted)) else []
    )
    agent, transition_model, classifier = (player_name(row.data[role]) for role in ROLES)
    return CastLine(
        row.name,
        row.description,
        agent,
        transition_model,
        classifier,
        panel=tuple(player_name(player) for player in row.data.get("panel", ())),
        speaks=bool(speakers),
        answers_by_model="model" in row.data["transition_model"],
        why_not="; ".join(reasons),
        warnings=tuple(_warnings(models_of_cast, timezone.localdate())),
    )


def _rating(
    name: str,
    model: str,
    description: str,
    models: Mapping[str, LanguageModel],
    environ: Environment,
    scripted: bool = False,
) -> RaterLine:
    row = models.get(model)
    if row is None:
        return RaterLine(name, description, why_not=_lost([model]))
    description = description or f"{row.model_id}, {row.provider}"
    return RaterLine(
        name,
        description,
        why_not=_unreached([row.provider], environ, scripted),
        warnings=tuple(_warnings([row], timezone.localdate())),
    )


def _lost(models: list[str]) -> str:
    return f"not loaded: {', '.join(models)} (python manage.py load_models)"


def _unreached(providers: Iterable[str], environ: Environment, scripted: bool = False) -> str:
    """Return what the environment lacks, with each variable; "" if every provider can be reached. A scripted cast needs none."""
    needed, reasons = set(providers), []
    # A scripted cast must not reach a real provider by accident, where it would cost money.
    if scripted and not all(setups.leads_to_scripted_server(name, environ) for name in needed):
        return SCRIPTED_ALONE
    # In a fixed order, so that the message does not depend on the order of a set.
    for name in PROVIDERS:
        if name in needed:
            try:
                connections.endpoint(name, "", WireOptions(), environ)
            except connections.MissingKey as missing:
                reasons.append(str(missing))
    return "; ".join(reasons)


def _warnings(models: Iterable[LanguageModel], today: date) -> Iterable[str]:
    for model in models:
        variable = PROVIDERS[model.provider].base_url_variable
        if ended(model, today):
            date_text = f" on {model.retires_on}" if model.retires_on else ""
            # Only a warning: a compatible server may still answer under that address.
            yield f"{model.model_id} was switched off{date_text}: it answers only if {variable} points elsewhere."
        elif model.lifecycle == "retiring":
            yield f"{model.model_id} will be switched off on {model.retires_on}."
