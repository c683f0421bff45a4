"""A laboratory with finished episodes, and studies of it."""

import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from ratings.models import (
    Study,
)
from simulation.models import Experiment, Transition, Twin
from simulation.runs import create
from tests.support.audit_studies import SLUG, open_study_to_audit
from tests.support.laboratory_rows import store_laboratory
from tests.support.steps import run_to_end


@pytest.fixture(autouse=True)
def fix_randomness(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make codes and draws the same each time: otherwise one audit in a hundred finds something by chance."""
    drawn = random.Random(3).randbytes
    monkeypatch.setattr(os, "urandom", drawn)  # used by uuid4
    monkeypatch.setattr(random, "_urandom", drawn)  # used by the secrets module


@pytest.fixture(autouse=True)
def run_audits_in_place(audit_in_place: None) -> None:
    """Only tests with their own database need a copy."""


@pytest.fixture(scope="module")
def laboratory(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Zebrafish episodes with twins of both kinds, once for all tests. Every reasoning contains SECRET, as under an error prompt."""
    with django_db_blocker.unblock(), transaction.atomic():
        store_laboratory()
        experiment = Experiment.objects.get(slug=SLUG)
        for cast, replicates in (("offline", 1), ("offline-lapses", 3)):
            run_to_end(create.create_episode_run([experiment], cast, replicates, seed=5))
        run_to_end(
            create.create_twin_run(Transition.objects.filter(episode__cast="offline"), ["obvious", "subtle"], seed=6)
        )
        for row in Transition.objects.all():
            row.step["outcome"]["reasoning"] = "SECRET: none of this is ever shown to anybody at all"
            row.save(update_fields=["step"])
        for twin in Twin.objects.filter(status="done"):
            twin.outcome["reasoning"] = f"SECRET: {twin.explanation}"
            twin.save(update_fields=["outcome"])
        yield
        transaction.set_rollback(True)


@pytest.fixture
def study(laboratory: None) -> Study:
    return open_study_to_audit()


@pytest.fixture
def small(laboratory: None) -> Study:
    """Six items of one rater: what is sent with every item shows here as well, in half the time."""
    return open_study_to_audit(each=2, raters=1)


@pytest.fixture
def dealt(laboratory: None) -> Study:
    """Fourteen twins with their context. No page of it is fetched."""
    return open_study_to_audit(
        each=7, display={"layouts": ["plain"], "context": [True], "by": "item", "marks": ["off"]}
    )
