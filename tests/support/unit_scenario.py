"""A row just before one of its models is called, with a bench small enough for a quick test of one unit."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.conf import settings

from simulation.engine import workers
from simulation.lab.actions import Action
from simulation.models import CatalogueEntry, Episode, Experiment, ModelCall, ProviderGate, Transition, Twin
from simulation.runs import create
from tests.support import model_casts
from tests.support.embedded_worker import run_one_unit
from tests.support.laboratory_factory import build_material
from tests.support.model_server import Server

# All actions that the models of the local server choose, and the two that end an attempt.
_ACTIONS = (
    "VisualInspection", "ImageSample", "MeasureWeight", "MeasureVolume", "Storage", "Wait", "Mix",
    "SubmitMaterialsObservationsForReview", "Quit",
)  # fmt: skip
_MAX_UNITS = 6  # no unit has more turns than three
ROLES = ("agent", "transition", "verdict", "twin")


def create_small_experiment() -> Experiment:
    """Create an experiment with two tubes and the few actions that are needed."""
    entries = [json.loads((settings.FIXTURES_DIR / f"actions/{name}.json").read_text()) for name in _ACTIONS]
    CatalogueEntry.objects.bulk_create(
        CatalogueEntry(name=data["name"], kind=data["kind"], data=data, sha256=f"small {data['name']}")
        for data in entries
    )
    fields = {
        "slug": "small",
        "name": "Small",
        "group": "Chemistry",
        "goal": "See what is in the tubes",
        "max_steps": 100,
    }
    data = {
        **fields,
        "materials": [build_material("tea", appearance="brown"), build_material("buffer", appearance="clear")],
    }
    return Experiment.objects.create(**fields, data=data, sha256="5" * 64)


class RowProgress(NamedTuple):
    """How far a row has come; for a twin its try."""

    phase: str
    number: int


class UnitScenario:
    """A row whose next unit calls the model of `role`."""

    def __init__(self, server: Server, role: str, cast: Mapping[str, Any] | None = None, **terms: Any) -> None:
        self.server, self.role = server, role
        model_casts.create_cast(**(cast or {}))
        self.run = create.create_episode_run([create_small_experiment()], "model_cast_server", 1, seed=1, **terms)
        self.code = self.run.episodes.get().code
        self.kind = "episode"
        if role in ("transition", "twin"):
            self._choose_action()
        if role == "verdict":  # as if the agent had submitted at once
            Episode.objects.update(phase="verdict")
        if role == "twin":
            self.run_unit()
            self._create_twin()
        self.asked = ModelCall.objects.count()
        self.before = self.get_progress()

    def _choose_action(self) -> None:
        """Store a chosen action: the agent inspects the first tube."""
        [first, *_] = Episode.objects.get().initial
        action = Action("VisualInspection", (first["barcode"],), {"question": "Is it clear?"})
        Episode.objects.update(phase="transition", pending=action.to_json())

    def _create_twin(self) -> None:
        self.run = create.create_twin_run(Transition.objects.all(), ["subtle"], "model_cast_server", seed=2)
        self.kind, self.code = "twin", self.run.twins.get().code

    @property
    def current_row(self) -> Episode | Twin:
        return workers.ROW_MODELS[self.kind].objects.get(code=self.code)

    def get_progress(self) -> RowProgress:
        row = self.current_row
        return (
            RowProgress(row.phase, row.next_number) if isinstance(row, Episode) else RowProgress(row.status, row.tries)
        )

    def run_unit(self) -> None:
        """Run one unit at once, ignoring all waits."""
        workers.ROW_MODELS[self.kind].objects.update(not_before=None)
        ProviderGate.objects.update(closed_until=None)
        run_one_unit(self.kind, self.code)

    def run_with_fault(self, fault: Mapping[str, Any]) -> Episode | Twin:
        """Return the row after every call met the fault until the row advanced or stopped."""
        self.server.set_faults(fault)
        for _ in range(_MAX_UNITS):
            self.run_unit()
            if self.current_row.status not in ("queued", "running") or (
                self.kind == "episode" and self.get_progress() != self.before
            ):
                break
        self.server.set_faults()
        return self.current_row

    def list_new_calls(self) -> list[ModelCall]:
        """Return the calls made since the scenario was set up."""
        return list(ModelCall.objects.order_by("pk")[self.asked :])

    def get_step_result(self) -> str:
        """Return what became of the step: "" for none, "accepted", or who rejected it."""
        transitions = Transition.objects.filter(number__gte=self.before.number) if self.role in ROLES[:2] else None
        transition = transitions.first() if transitions else None
        return "" if transition is None else transition.rejected_by or "accepted"
