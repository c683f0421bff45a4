"""A bench with a few materials defined by the test, with outcomes from the real rules."""

from collections.abc import Mapping, Sequence
from typing import Any

from simulation.lab.actions import Action
from simulation.lab.bench import Bench, Step
from simulation.lab.catalogue import Catalogue
from simulation.lab.experiments import build_experiment
from simulation.lab.materials import Material, build_inventory
from simulation.lab.outcomes import NOTE
from simulation.lab.protocols import strip_reference_marks
from simulation.offline.rules import RuleBasedTransitionModel


def build_material(
    key: str,
    phase: str = "liquid",
    volume: str | None = "1 mL",
    capacity: str | None = "2 mL",
    container: str = "2 mL tube",
    unlimited: bool = False,
    condition: str = "room_temp",
    contents: dict[str, str] | None = None,
    hidden: dict[str, str] | None = None,
    **properties: str,
) -> dict[str, Any]:
    """Return an initial material. `contents` are known to people, `hidden` are not. A text with a slash is a concentration."""
    properties_by_name = {
        "phase": phase,
        "volume": volume,
        "container": container,
        "container_capacity": capacity,
        **properties,
    }
    ingredients = [(contents or {}, True), (hidden or {}, False)]
    return {
        "key": key,
        "name": key.replace("_", " "),
        "properties": {name: text for name, text in properties_by_name.items() if text is not None},
        "available_for_use": "unlimited" if unlimited else "available_for_further_use",
        "material_type": "static",
        "environmental_condition": condition,
        "contents": {
            name: {"concentration" if "/" in text or text.endswith("M") else "amount": text, "known": known}
            for part, known in ingredients
            for name, text in part.items()
        },
    }


def build_tubes(key: str = "tubes", capacity: str = "2 mL", container: str = "2 mL tube") -> dict[str, Any]:
    return build_material(key, "empty container", None, capacity, container, unlimited=True)


class SmallLab:
    """One bench. Materials are named by key; new ones by the label given when a step makes them."""

    def __init__(self, catalogue: Catalogue, *materials: dict[str, Any], truth: Any = None, seed: int = 5) -> None:
        spec = build_experiment(
            {"slug": "x", "name": "x", "group": "x", "goal": "x", "max_steps": 500, "materials": materials}
        )
        self.bench = Bench("x", catalogue, build_inventory(spec.initial_materials(), seed), seed, 500)
        self.codes = {
            key: placed.barcode for (key, _), placed in zip(spec.materials, self.bench.inventory, strict=True)
        }
        self.model = RuleBasedTransitionModel(seed, truth)

    def run_step(self, action: str, keys: str, labels: str = "", **parameters: Any) -> Step:
        """Run one step. `made` labels the new materials in their order. Parameter texts "@key" become barcodes."""
        values = {
            name: self.codes[strip_reference_marks(value)]
            if isinstance(value, str) and value.startswith("@")
            else value
            for name, value in parameters.items()
        }
        step = self.run_step_by_barcode(action, [self.codes[key] for key in keys.split()], values)
        new_barcodes = [
            code for code, draft in zip(step.barcodes, step.outcome.new_materials, strict=True) if not draft.replaces
        ]
        self.codes |= dict(zip(labels.split(), new_barcodes, strict=False))
        return step

    def run_step_by_barcode(self, action: str, barcodes: Sequence[str], parameters: Mapping[str, Any]) -> Step:
        return self.bench.take_step(Action(action, tuple(barcodes), dict(parameters)), self.model)

    def get_rejection(self, action: str, keys: str, **parameters: Any) -> str:
        """Return the reason why the rules rejected the step; the bench must be unchanged."""
        before = self.bench.inventory
        step = self.run_step(action, keys, **parameters)
        assert not step.outcome.success, "the rules accepted a step that they must reject"
        assert step.outcome.rejected_by == "transition_model", step.outcome.failure_reason
        assert self.bench.inventory == before
        return step.outcome.failure_reason

    def read_values(self, action: str, keys: str, **parameters: Any) -> list[str]:
        """Return the values of all observations of the step that are no routine notes."""
        step = self.run_step(action, keys, **parameters)
        assert step.outcome.success, step.outcome.failure_reason
        return [seen.value for seen in step.outcome.new_observations if seen.measurement_type != NOTE]

    def read_notes(self, action: str, keys: str, **parameters: Any) -> list[tuple[str, str]]:
        """Return the description and value of every routine note of the step."""
        step = self.run_step(action, keys, **parameters)
        assert step.outcome.success, step.outcome.failure_reason
        notes = [seen for seen in step.outcome.new_observations if seen.measurement_type == NOTE]
        return [(seen.description, seen.value) for seen in notes]

    def __getitem__(self, key: str) -> Material:
        material = self.bench.inventory.get(self.codes[key])
        assert material is not None
        return material

    def get_property(self, key: str, name: str) -> Any:
        return self[key].properties.get(name)
