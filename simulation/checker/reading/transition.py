"""One transition as the checks see it. Ids, truth labels and reasoning are not parsed, so they cannot be evidence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from simulation.checker.reading import families, matching, parameters, reading
from simulation.checker.reading.parameters import Parameters
from simulation.checker.reading.reading import View
from simulation.lab.actions import ActionType, Catalogue

_MOST = 400  # materials or observations; a plate has 384 wells


class TransitionError(ValueError):
    """The data is not a transition; the message names the wrong part."""


@dataclass(frozen=True)
class Seen:
    """One observation: its description, and the recorded value."""

    place: str
    raw: Mapping[str, Any]
    description: str
    value: str

    @property
    def text(self) -> str:
        return f"{self.description}: {self.value}" if self.value else self.description


@dataclass(frozen=True)
class Transition:
    """Inputs, action and outcome, with each output linked to the input it continues if that is clear."""

    action: str
    family: str
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]
    seen: tuple[Seen, ...]
    parameters: Parameters
    materials: tuple[str, ...]
    outcome: Mapping[str, Any]
    links: Mapping[int, int]
    kind: ActionType | None = None
    memo: dict[str, Any] = field(default_factory=dict)  # costly results that several checks need

    @property
    def success(self) -> bool:
        # A missing success counts as one: L11 reports it, and the other checks can still run.
        return self.outcome.get("success") is not False

    @property
    def limited(self) -> list[View]:
        return [view for view in self.inputs if not view.unlimited]

    @property
    def kept(self) -> list[View]:
        """Outputs that are available for further use."""
        return [view for view in self.outputs if not view.gone]

    @cached_property
    def _places(self) -> dict[int, int]:
        """Index of each view by its identity: two materials may be equal in every field."""
        return {id(view): index for views in (self.inputs, self.outputs) for index, view in enumerate(views)}

    @cached_property
    def _onward(self) -> dict[int, int]:
        return {source: output for output, source in self.links.items()}

    def before(self, output: View) -> View | None:
        """Return the input that this output continues, or None."""
        source = self.links.get(self._places[id(output)])
        return None if source is None else self.inputs[source]

    def after(self, source: View) -> View | None:
        output = self._onward.get(self._places[id(source)])
        return None if output is None else self.outputs[output]

    def pairs(self) -> list[tuple[View, View]]:
        """Return (before, after) of every material that is continued."""
        return [(self.inputs[j], self.outputs[i]) for i, j in sorted(self.links.items())]

    @cached_property
    def told(self) -> frozenset[str]:
        """Names and property values of all inputs, exactly as written."""
        return frozenset(
            {leaf.text for view in self.inputs for leaf in view.leaves} | {view.name for view in self.inputs}
        )

    @cached_property
    def words(self) -> frozenset[str]:
        """All words of the inputs and the parameters."""
        all_words = set(self.parameters.mentions())
        for view in self.inputs:
            all_words |= view.mentions
        return frozenset(all_words)

    def held_before(self) -> list[Decimal | None]:
        return [view.held for view in self.limited]


def read(data: Any, catalogue: Catalogue | None = None) -> Transition:
    """Return the transition in a JSON object. Raises TransitionError if it is none."""
    if not isinstance(data, Mapping):
        raise TransitionError("the line is not a JSON object")
    action, outcome = _object(data, "action"), _object(data, "outcome")
    name = action.get("name")
    if not isinstance(name, str) or not name.strip():
        raise TransitionError("action.name must be a non-empty text")
    name = families.canonical(name[:100])
    inputs = _views(data.get("input_materials"), "input_materials")
    outputs = _views(outcome.get("new_materials") or [], "new_materials")
    family = families.family(name)
    return Transition(
        action=name,
        family=family,
        inputs=inputs,
        outputs=outputs,
        seen=_observations(outcome.get("new_observations") or []),
        parameters=parameters.read(action.get("parameters"), inputs),
        materials=_materials(action.get("materials")),
        outcome=outcome,
        links=matching.link(inputs, outputs, family),
        kind=catalogue.find(name) if catalogue else None,
    )


def _object(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = data.get(key)
    if not isinstance(value, Mapping):
        raise TransitionError(f"{key} must be an object")
    return value


def _views(data: Any, place: str) -> tuple[View, ...]:
    if not isinstance(data, list):
        raise TransitionError(f"{place} must be a list")
    if len(data) > _MOST or not all(isinstance(entry, Mapping) for entry in data):
        raise TransitionError(f"{place} must be a list of at most {_MOST} objects")
    return tuple(reading.view(entry, f"{place}[{index}]") for index, entry in enumerate(data))


def _observations(data: Any) -> tuple[Seen, ...]:
    if not isinstance(data, list) or len(data) > _MOST or not all(isinstance(entry, Mapping) for entry in data):
        raise TransitionError(f"new_observations must be a list of at most {_MOST} objects")
    return tuple(
        Seen(f"new_observations[{index}]", entry, _plain(entry.get("description")), _plain(entry.get("value")))
        for index, entry in enumerate(data)
    )


def _plain(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    # Converting an integer of thousands of digits to text is slow, and Python refuses above 4300 digits.
    if isinstance(value, int) and abs(value) > 10**15:
        return ""
    return str(value)[:2000]


def _materials(data: Any) -> tuple[str, ...]:
    if not isinstance(data, list):
        return ()
    codes = [entry.get("barcode") if isinstance(entry, Mapping) else entry for entry in data[:_MOST]]
    return tuple(code[:100] for code in codes if isinstance(code, str))
