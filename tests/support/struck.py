"""A row just before one of its models is called, with a bench small enough for a quick test of one unit."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from django.conf import settings

from simulation.engine import workers
from simulation.lab.actions import Action
from simulation.models import CatalogueEntry, Episode, Experiment, ModelCall, ProviderGate, Transition, Twin
from simulation.runs import laboratory, queueing
from simulation.scripted_server import Server
from tests.support import speakers
from tests.support.laboratory_factory import material

# All actions that the models of the local server choose, and the two that end an attempt.
_ACTIONS = (
    "VisualInspection", "ImageSample", "MeasureWeight", "MeasureVolume", "Storage", "Wait", "Mix",
    "SubmitMaterialsObservationsForReview", "Quit",
)  # fmt: skip
_MOST_UNITS = 6  # no unit has more turns than three
ROLES = ("agent", "transition", "verdict", "twin")


def bench() -> Experiment:
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
    data = {**fields, "materials": [material("tea", appearance="brown"), material("buffer", appearance="clear")]}
    return Experiment.objects.create(**fields, data=data, sha256="5" * 64)


class Place(NamedTuple):
    """How far a row has come; for a twin its try."""

    phase: str
    number: int


class Scene:
    """A row whose next unit calls the model of `role`."""

    def __init__(self, server: Server, role: str, cast: Mapping[str, Any] | None = None, **terms: Any) -> None:
        self.server, self.role = server, role
        speakers.cast(**(cast or {}))
        self.run = queueing.queue_episodes([bench()], "talkers", 1, seed=1, **terms)
        self.code = self.run.episodes.get().code
        self.kind = "episode"
        if role in ("transition", "twin"):
            self._choose()
        if role == "verdict":  # as if the agent had submitted at once
            Episode.objects.update(phase="verdict")
        if role == "twin":
            self.unit()
            self._twin()
        self.asked = ModelCall.objects.count()
        self.before = self.place()

    def _choose(self) -> None:
        """Store a chosen action: the agent inspects the first tube."""
        [first, *_] = Episode.objects.get().initial
        action = Action("VisualInspection", (first["barcode"],), {"question": "Is it clear?"})
        Episode.objects.update(phase="transition", pending=action.to_json())

    def _twin(self) -> None:
        self.run = queueing.queue_twins(Transition.objects.all(), ["subtle"], "talkers", seed=2)
        self.kind, self.code = "twin", self.run.twins.get().code

    @property
    def row(self) -> Episode | Twin:
        return workers.ROWS[self.kind].objects.get(code=self.code)

    def place(self) -> Place:
        row = self.row
        return Place(row.phase, row.next_number) if isinstance(row, Episode) else Place(row.status, row.tries)

    def unit(self) -> None:
        """Run one unit at once, ignoring all waits, with empty caches as in a new process."""
        laboratory._benches = OrderedDict()
        workers.ROWS[self.kind].objects.update(not_before=None)
        ProviderGate.objects.update(closed_until=None)
        workers.play(self.kind, self.code)

    def strike(self, fault: Mapping[str, Any]) -> Episode | Twin:
        """Return the row after every call met the fault until the row advanced or stopped."""
        self.server.faults(fault)
        for _ in range(_MOST_UNITS):
            self.unit()
            if self.row.status not in ("queued", "running") or (self.kind == "episode" and self.place() != self.before):
                break
        self.server.faults()
        return self.row

    def calls(self) -> list[ModelCall]:
        """Return the calls made since the scenario was set up."""
        return list(ModelCall.objects.order_by("pk")[self.asked :])

    def step(self) -> str:
        """Return what became of the step: "" for none, "accepted", or who rejected it."""
        transitions = Transition.objects.filter(number__gte=self.before.number) if self.role in ROLES[:2] else None
        transition = transitions.first() if transitions else None
        return "" if transition is None else transition.rejected_by or "accepted"
