"""Casts of language models for tests: their models live on the local server of simulation/scripted_server."""

from datetime import date
from decimal import Decimal
from typing import Any

from simulation.models import CastDefinition, LanguageModel, ModelPrice

PARAMS = {"max_tokens": 2000, "temperature": "0.7", "thinking_budget": None, "effort": ""}


def model(name: str, provider: str = "openai", priced: bool = True, **fields: Any) -> LanguageModel:
    """A model as the server knows any name; 1 dollar a million tokens in, 2 dollars out."""
    row = LanguageModel.objects.create(name=name, provider=provider, model_id=name, **fields)
    if priced:
        classes = ("input", "cache_read", "cache_write_5m", "cache_write_1h")
        dollar = dict.fromkeys(classes, Decimal(1))
        ModelPrice.objects.create(model=row, effective_from=date(2020, 1, 1), output=Decimal(2), **dollar)
    return row


def player(name: str, **fields: Any) -> dict[str, Any]:
    return {"model": name, "params": PARAMS, **fields}


def cast(name: str = "talkers", priced: bool = True, panel: tuple[str, ...] = (), **roles: Any) -> str:
    """A cast of three models, each with a role of its own, unless `roles` names other players."""
    known = {
        "agent": player("an-agent", scaffold="plain", history={"kind": "full"}),
        "transition_model": player("a-simulator"),
        "evidence_classifier": player("a-judge"),
        **roles,
    }
    for role in ("an-agent", "a-simulator", "a-judge", *panel):
        if not LanguageModel.objects.filter(name=role).exists():
            claude = role == "a-simulator"
            options = {"api_version": "2023-06-01", "caching": "breakpoint"} if claude else {}
            model(role, "anthropic" if claude else "openai", priced, options=options)
    data = {"name": name, "description": "for tests", **known, "panel": [player(one) for one in panel]}
    CastDefinition.objects.create(name=name, description="for tests", data=data)
    return name
