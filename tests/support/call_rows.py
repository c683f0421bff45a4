"""Rows of the call log as the call replay writes them, and models with prices."""

from datetime import date
from decimal import Decimal
from typing import Any

from simulation.models import Episode, LanguageModel, ModelCall, ModelPrice
from tests.support import run_factory


def create_call(of: Episode | None = None, **fields: Any) -> ModelCall:
    """Create one call of an episode's agent, by default in the next free turn."""
    episode = of or (Episode.objects.first() or run_factory.create_episode())
    place = {
        "role": "agent", "speaker": "gpt", "model_name": "gpt", "number": 1, "attempt": 1, "fence": 1,
        "turn": ModelCall.objects.filter(episode=episode).count(),
    }  # fmt: skip
    wire = {
        "purpose": "act", "gate": "openai:00000000", "provider": "openai", "requested_model": "gpt",
        "prompt_set": "0" * 64, "request_sha256": "0" * 64, "request": {},
    }  # fmt: skip
    return ModelCall.objects.create(run=episode.run, episode=episode, **{**place, **wire, **fields})


def create_model(name: str = "gpt", **options: Any) -> LanguageModel:
    return LanguageModel.objects.create(name=name, provider="openai", model_id=name, options=options)


def create_price(of: LanguageModel, day: str, **classes: str) -> ModelPrice:
    return ModelPrice.objects.create(
        model=of, effective_from=date.fromisoformat(day), source="a page", **{k: Decimal(v) for k, v in classes.items()}
    )
