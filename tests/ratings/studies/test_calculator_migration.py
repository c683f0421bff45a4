"""The upgrade that brings the calculator states in the documents of earlier studies that they had none."""

from importlib import import_module
from typing import Any

import pytest
from django.apps import apps

from ratings.models import Study
from ratings.protocol import study_protocol

migration: Any = import_module("ratings.migrations.0012_calculator_and_review")
pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
LAYOUTS = {"layouts": ["plain"], "by": "rater"}


def create_study(status: str, **document: Any) -> Study:
    protocol = {"name": "Old", "kind": "transition_plausibility", "sources": [], "ratings_per_item": 1, "seed": 1}
    return Study.objects.create(
        slug=status, name="Old", kind=protocol["kind"], question="?", seed=1, ratings_per_item=1, status=status,
        protocol={**protocol, **document},
    )  # fmt: skip


@pytest.mark.parametrize("status", ["open", "paused", "closed", "unblinded"])
def test_migration_writes_that_an_opened_study_has_no_calculator(status: str) -> None:
    study = create_study(status, display=LAYOUTS)
    migration.state_that_opened_studies_had_no_calculator(apps, None)
    study.refresh_from_db()
    assert study.protocol["display"] == {**LAYOUTS, "calculator": False}
    assert not study_protocol.load_protocol(study.protocol).display.calculator


def test_migration_leaves_drafts_as_they_are_so_that_they_offer_the_calculator_when_they_open() -> None:
    study = create_study("draft", display=LAYOUTS)
    migration.state_that_opened_studies_had_no_calculator(apps, None)
    study.refresh_from_db()
    assert study.protocol["display"] == LAYOUTS
    assert study_protocol.load_protocol(study.protocol).display.calculator
