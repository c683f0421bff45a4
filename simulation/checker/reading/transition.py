"""A transition as the checks receive it. Ids, truth labels and reasoning are not parsed, so no check can use them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from simulation.checker.reading import families, material_links, material_view, parameters
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.parameters import Parameters
from simulation.lab.actions import ActionType, Catalogue

_MAX_ENTRIES = 400  # maximum number of materials or observations; a plate has 384 wells


class TransitionError(ValueError):
    """Raised if the data is not a transition. The message names the invalid part."""


@dataclass(frozen=True)
class ObservationView:
    """One observation: its description, and the recorded value."""

    path: str
    raw: Mapping[str, Any]
    description: str
    value: str

    @property
    def full_text(self) -> str:
        return f"{self.description}: {self.value}" if self.value else self.description


@dataclass(frozen=True)
class Transition:
    """Inputs, action and outcome. `links` maps each output to the input that it continues, if that is clear."""

    action: str
    family: str
    inputs: tuple[MaterialView, ...]
    outputs: tuple[MaterialView, ...]
    observations: tuple[ObservationView, ...]
    parameters: Parameters
    materials: tuple[str, ...]
    outcome: Mapping[str, Any]
    links: Mapping[int, int]
    action_type: ActionType | None = None
    memo: dict[str, Any] = field(default_factory=dict)  # costly results that several checks need

    @property
    def is_success(self) -> bool:
        # A missing `success` counts as true: L11 reports it, and the other checks can still run.
        return self.outcome.get("success") is not False

    @property
    def limited_inputs(self) -> list[MaterialView]:
        return [view for view in self.inputs if not view.is_unlimited]

    @property
    def usable_outputs(self) -> list[MaterialView]:
        """Return the outputs that are available for further use."""
        return [view for view in self.outputs if not view.is_used_up]

    @cached_property
    def _indices(self) -> dict[int, int]:
        """Return the index of each view by its `id`, because two materials may be equal in every field."""
        return {id(view): index for views in (self.inputs, self.outputs) for index, view in enumerate(views)}

    @cached_property
    def _output_indices(self) -> dict[int, int]:
        return {source: output for output, source in self.links.items()}

    def find_input(self, output: MaterialView) -> MaterialView | None:
        """Return the input that this output continues, or None if it is not linked to any."""
        source = self.links.get(self._indices[id(output)])
        return None if source is None else self.inputs[source]

    def find_output(self, source: MaterialView) -> MaterialView | None:
        output = self._output_indices.get(self._indices[id(source)])
        return None if output is None else self.outputs[output]

    def list_pairs(self) -> list[tuple[MaterialView, MaterialView]]:
        """Return (input, output) of every material that is continued."""
        return [(self.inputs[j], self.outputs[i]) for i, j in sorted(self.links.items())]

    @cached_property
    def input_texts(self) -> frozenset[str]:
        """Return the names and property values of all inputs, exactly as written."""
        return frozenset(
            {leaf.value_text for view in self.inputs for leaf in view.leaves} | {view.name for view in self.inputs}
        )

    @cached_property
    def input_words(self) -> frozenset[str]:
        """Return all words of the inputs and the parameters."""
        all_words = set(self.parameters.collect_words())
        for view in self.inputs:
            all_words |= view.all_words
        return frozenset(all_words)

    def list_input_volumes(self) -> list[Decimal | None]:
        return [view.liquid_volume for view in self.limited_inputs]


def parse_transition(data: Any, catalogue: Catalogue | None = None) -> Transition:
    """Parse a transition from JSON data. Raises TransitionError if the data is not a transition."""
    if not isinstance(data, Mapping):
        raise TransitionError("the line is not a JSON object")
    action, outcome = _get_object(data, "action"), _get_object(data, "outcome")
    name = action.get("name")
    if not isinstance(name, str) or not name.strip():
        raise TransitionError("action.name must be a non-empty text")
    name = families.canonical_name(name[:100])
    inputs = _build_views(data.get("input_materials"), "input_materials")
    outputs = _build_views(outcome.get("new_materials") or [], "new_materials")
    family = families.find_family(name)
    return Transition(
        action=name,
        family=family,
        inputs=inputs,
        outputs=outputs,
        observations=_build_observations(outcome.get("new_observations") or []),
        parameters=parameters.parse_parameters(action.get("parameters"), inputs),
        materials=_parse_barcodes(action.get("materials")),
        outcome=outcome,
        links=material_links.link_materials(inputs, outputs, family),
        action_type=catalogue.find_type(name) if catalogue else None,
    )


def _get_object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    if not isinstance(value, Mapping):
        raise TransitionError(f"{key} must be an object")
    return value


def _build_views(data: Any, path: str) -> tuple[MaterialView, ...]:
    if not isinstance(data, list):
        raise TransitionError(f"{path} must be a list")
    if len(data) > _MAX_ENTRIES or not all(isinstance(entry, Mapping) for entry in data):
        raise TransitionError(f"{path} must be a list of at most {_MAX_ENTRIES} objects")
    return tuple(material_view.build_material_view(entry, f"{path}[{index}]") for index, entry in enumerate(data))


def _build_observations(data: Any) -> tuple[ObservationView, ...]:
    if not isinstance(data, list) or len(data) > _MAX_ENTRIES or not all(isinstance(entry, Mapping) for entry in data):
        raise TransitionError(f"new_observations must be a list of at most {_MAX_ENTRIES} objects")
    return tuple(
        ObservationView(
            f"new_observations[{index}]", entry, _short_text(entry.get("description")), _short_text(entry.get("value"))
        )
        for index, entry in enumerate(data)
    )


def _short_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    # Converting an integer of thousands of digits to text is slow, and Python refuses above 4300 digits.
    if isinstance(value, int) and abs(value) > 10**15:
        return ""
    return str(value)[:2000]


def _parse_barcodes(data: Any) -> tuple[str, ...]:
    if not isinstance(data, list):
        return ()
    codes = [entry.get("barcode") if isinstance(entry, Mapping) else entry for entry in data[:_MAX_ENTRIES]]
    return tuple(code[:100] for code in codes if isinstance(code, str))
