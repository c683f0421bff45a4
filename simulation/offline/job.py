"""One action being carried out: its typed parameters, the vessels it works on, what it makes and what it sees."""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from simulation.lab.actions import ActionType
from simulation.lab.outcomes import Observation
from simulation.offline.vessels import EMPTY, RefusalError, Vessel


@dataclass
class Job:
    """Handlers change `vessels`, add to `made` and `seen`, and say in `how` how it was computed."""

    kind: ActionType
    values: Mapping[str, Any]
    written: Mapping[str, Any]  # the parameters as the action wrote them
    vessels: Mapping[str, Vessel]  # by barcode, in the order of the action's materials
    truth: Mapping[str, Any]
    place: tuple[object, ...]  # seed and step: all noise hangs on these and the material
    names: set[str]  # of everything on the bench
    made: list[Vessel] = field(default_factory=list)
    seen: list[Observation] = field(default_factory=list)
    how: str = ""

    def named(self, parameter: str) -> Vessel:
        """The vessel a selector names; it must be something one can draw from."""
        vessel = self.vessels[self.values[parameter]]
        if vessel.is_supply:
            raise RefusalError(f"wrong material: {parameter} is {vessel.name}, which is {vessel.phase}")
        return vessel

    def samples(self, *others: Vessel) -> list[Vessel]:
        """All materials but the supplies and these others."""
        found = [
            vessel
            for vessel in self.vessels.values()
            if not vessel.is_supply and all(vessel is not other for other in others)
        ]
        if not found:
            raise RefusalError(f"no sample: {self.kind.name} takes {self.kind.inputs}")
        return found

    def changeable(self, *others: Vessel) -> list[Vessel]:
        """The samples, all of which are to be changed: none may be an unlimited supply."""
        samples = self.samples(*others)
        for vessel in samples:
            if vessel.unlimited:
                raise RefusalError(f"unlimited: {vessel.name} cannot be changed; take a portion of it first")
        return samples

    def box(self) -> Vessel:
        """The supply of empty containers among the materials."""
        if (supply := self.spare_box()) is None:
            raise RefusalError(f"no container: {self.kind.name} takes {self.kind.inputs}")
        return supply

    def spare_box(self) -> Vessel | None:
        return next((vessel for vessel in self.vessels.values() if vessel.unlimited and vessel.phase == EMPTY), None)

    def make(self, supply: Vessel, name: str) -> Vessel:
        """A new container out of a box, under a name that nothing else has."""
        vessel = Vessel.from_supply(supply, self.free_name(name))
        self.made.append(vessel)
        return vessel

    def label(self, number: int, total: int, default: str) -> str:
        """The agent's label, numbered when there are several vessels to label."""
        agent_label = self.written_label
        if not agent_label:
            return default
        return f"{agent_label} {number}" if total > 1 else agent_label

    @property
    def written_label(self) -> str:
        """What the agent writes on new vessels, as far as it can be seen; "" if nothing can."""
        agent_label = str(self.values.get("label") or "")
        printable = "".join(letter if letter.isprintable() else " " for letter in agent_label)
        return " ".join(printable.split())

    def free_name(self, name: str) -> str:
        number, candidate = 1, name[:110]
        while candidate in self.names:
            number += 1
            candidate = f"{name[:110]} ({number})"
        self.names.add(candidate)
        return candidate

    def number(self, parameter: str) -> Decimal:
        return Decimal(self.values[parameter])

    def count(self, parameter: str) -> int:
        """A whole number; anything else is refused."""
        value = self.number(parameter)
        if value != int(value):
            raise RefusalError(f"not a whole number: {parameter} is {value}")
        return int(value)

    def say(self, description: str, kind: str = "instrumental", value: str = "") -> None:
        self.seen.append(Observation(description, kind, value))

    def run_of(self, vessel: Vessel) -> str:
        """How the instrument heads its record: the action, the sample, and the settings it writes down."""
        written_settings = [(name, self.set_to(name)) for name in self.kind.echo]
        settings_as_text = [
            (name, ", ".join(map(str, v)) if isinstance(v, list | tuple) else v) for name, v in written_settings
        ]
        settings = "".join(
            f", {name.replace('_', ' ')} {value}" for name, value in settings_as_text if value is not None
        )
        return f"{self.kind.name} of {vessel.name}{settings}"

    def set_to(self, name: str) -> Any:
        """A parameter as the action wrote it, or its default."""
        default = next(parameter.default for parameter in self.kind.parameters if parameter.name == name)
        return self.written.get(name, default)

    def noise(self, vessel: Vessel, relative: Decimal, *purpose: object) -> Decimal:
        """A factor around 1 with this relative standard deviation, the same for the same seed, step and material."""
        return max(Decimal(0), 1 + self.deviate(vessel, *purpose) * relative)

    def deviate(self, vessel: Vessel, *purpose: object) -> Decimal:
        """A standard normal deviate, the same for the same seed, step and material."""
        return Decimal(str(round(self.rng(vessel, *purpose).gauss(0, 1), 6)))

    def rng(self, vessel: Vessel, *purpose: object) -> random.Random:
        return random.Random(repr((*self.place, vessel.barcode, *purpose)))

    def declared(self, kind: str) -> list[Mapping[str, Any]]:
        """What the experiment declares under this kind for this action, where the parameters fulfil its conditions."""
        return [entry for entry in self.truth.get(kind, ()) if self.applies(entry)]

    def applies(self, entry: Mapping[str, Any]) -> bool:
        action = entry["action"]
        if self.kind.name not in (action if isinstance(action, list) else [action]):
            return False
        return all(self._holds(name, condition) for name, condition in entry.get("when", {}).items())

    def _holds(self, name: str, condition: Any) -> bool:
        value = self.values.get(name)
        if value is None:
            return False
        if not isinstance(condition, Mapping):
            allowed = condition if isinstance(condition, list) else [condition]
            return any(part in allowed for part in (value if isinstance(value, tuple) else (value,)))
        action_parameter = next(parameter for parameter in self.kind.parameters if parameter.name == name)
        low, high = (
            action_parameter.read(condition[end]) if end in condition else value for end in ("minimum", "maximum")
        )
        return bool(low <= value <= high)


def present(vessel: Vessel, names: Collection[str]) -> bool:
    """Whether all of these components are in it; an unknown amount counts as there."""
    amounts = [vessel.contents.amount(name) for name in names]
    return all(amount is None or amount > 0 for amount in amounts)
