"""Casts of language models for tests. Their models run on the local server of tests/support/model_server."""

from datetime import date
from decimal import Decimal
from typing import Any

from simulation.models import CastDefinition, LanguageModel, ModelPrice

PARAMS = {"max_tokens": 2000, "temperature": "0.7", "thinking_budget": None, "effort": ""}


def create_priced_model(name: str, provider: str = "openai", priced: bool = True, **fields: Any) -> LanguageModel:
    """Create a model (the server accepts any name): $1 per million tokens in, $2 out."""
    row = LanguageModel.objects.create(name=name, provider=provider, model_id=name, **fields)
    if priced:
        classes = ("input", "cache_read", "cache_write_5m", "cache_write_1h")
        input_prices = dict.fromkeys(classes, Decimal(1))
        ModelPrice.objects.create(model=row, effective_from=date(2020, 1, 1), output=Decimal(2), **input_prices)
    return row


def build_role(name: str, **fields: Any) -> dict[str, Any]:
    return {"model": name, "params": PARAMS, **fields}


def create_cast(name: str = "model_cast_server", priced: bool = True, panel: tuple[str, ...] = (), **roles: Any) -> str:
    """Create a cast of three models with one role each, unless `roles` names other models."""
    roles_by_name = {
        "agent": build_role("an-agent", scaffold="plain", history={"kind": "full"}),
        "transition_model": build_role("a-simulator"),
        "evidence_classifier": build_role("a-judge"),
        **roles,
    }
    for model_name in ("an-agent", "a-simulator", "a-judge", *panel):
        if not LanguageModel.objects.filter(name=model_name).exists():
            is_anthropic = model_name == "a-simulator"
            options = {"api_version": "2023-06-01", "caching": "breakpoint"} if is_anthropic else {}
            create_priced_model(model_name, "anthropic" if is_anthropic else "openai", priced, options=options)
    data = {
        "name": name,
        "description": "for tests",
        **roles_by_name,
        "panel": [build_role(name_of_model) for name_of_model in panel],
    }
    CastDefinition.objects.create(name=name, description="for tests", data=data)
    return name
