"""The context of one action in progress: its typed parameters, its vessels, and what it has produced so far."""

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar

from simulation.lab.actions import ActionType
from simulation.lab.errors import LabError
from simulation.lab.outcomes import Observation
from simulation.lab.parameters import Parameter
from simulation.offline import damage
from simulation.offline.ledger import Contents
from simulation.offline.vessels import Phase, RefusalError, Vessel


@dataclass
class ActionContext:
    """One action in progress.

    Handlers change `vessels`, append to `new_vessels` and `observations`, and explain the computation in `reasoning`.
    """

    action_type: ActionType
    values: Mapping[str, Any]
    parameters_as_written: Mapping[
        str, Any
    ]  # before units and defaults are resolved; records of instruments quote these
    vessels: Mapping[str, Vessel]  # by barcode, in the order of the action's materials, as in the outcome
    truth: Mapping[str, Any]
    seed_parts: tuple[object, ...]  # (seed, step); all noise is drawn from these and the material
    taken_names: set[str]  # names of everything on the bench, so that new vessels get names of their own
    new_vessels: list[Vessel] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    with_precipitate: list[Vessel] = field(default_factory=list)  # in which particles formed as liquids met
    reasoning: str = ""

    def list_selected_vessels(self, parameter: str) -> list[Vessel]:
        """Return the vessels that a selector names. Raises RefusalError if one of them is a supply."""
        value = self.values[parameter]
        vessels = [self.vessels[code] for code in ((value,) if isinstance(value, str) else value or ())]
        for vessel in vessels:
            if vessel.is_supply:
                raise RefusalError(f"wrong material: {parameter} is {vessel.name}, which is {vessel.phase}")
        return vessels

    def find_selected_vessel(self, parameter: str) -> Vessel | None:
        """Return the vessel that an optional selector names, or None. Raises RefusalError if it is a supply."""
        return next(iter(self.list_selected_vessels(parameter)), None)

    def get_selected_vessel(self, parameter: str) -> Vessel:
        """Return the vessel that a required selector names. Raises RefusalError if it is a supply."""
        return self.list_selected_vessels(parameter)[0]

    def get_samples(self, *others: Vessel | None) -> list[Vessel]:
        """Return all materials of the action except supplies and `others`. Raises RefusalError if none is left."""
        excluded = {id(vessel) for vessel in others}
        samples = [vessel for vessel in self.vessels.values() if not vessel.is_supply and id(vessel) not in excluded]
        if not samples:
            raise RefusalError(f"no sample: {self.action_type.name} takes {self.action_type.inputs}")
        return samples

    def get_changeable_samples(self, *others: Vessel | None) -> list[Vessel]:
        """Return the samples of an action that changes all of them. Raises RefusalError if one is an unlimited supply."""
        samples = self.get_samples(*others)
        for vessel in samples:
            if vessel.unlimited:
                raise RefusalError(f"unlimited: {vessel.name} cannot be changed; take a portion of it first")
        return samples

    def list_container_supplies(self) -> list[Vessel]:
        return [vessel for vessel in self.vessels.values() if vessel.unlimited and vessel.phase == Phase.EMPTY]

    def get_container_supply(self) -> Vessel:
        """Return the supply of empty containers among the materials. Raises RefusalError if there is none."""
        if (supply := self.find_container_supply()) is None:
            raise RefusalError(f"no container: {self.action_type.name} takes {self.action_type.inputs}")
        return supply

    def find_container_supply(self) -> Vessel | None:
        return next(iter(self.list_container_supplies()), None)

    def create_vessel(self, supply: Vessel, name: str) -> Vessel:
        """Take a new container out of a supply and give it a name that nothing else has."""
        vessel = Vessel.from_supply(supply, self.reserve_name(name))
        self.new_vessels.append(vessel)
        return vessel

    def store_waste(self, name: str, parts: Collection[tuple[Contents, Vessel]]) -> None:
        """Store what one action discards as a new used-up material, so that all amounts are conserved."""
        everything = sum((contents for contents, _ in parts), Contents())
        waste = Vessel(self.reserve_name(name), {}, everything, Phase.LIQUID, used_up=True)
        for contents, source in parts:
            waste.sources.add_from_vessel(source, contents)
        self.new_vessels.append(waste)

    @property
    def printable_label(self) -> str:
        """The label that the agent gave for new vessels, without unprintable characters; "" if nothing is left."""
        agent_label = str(self.values.get("label") or "")
        return " ".join("".join(letter if letter.isprintable() else " " for letter in agent_label).split())

    def format_label(self, number: int, total: int, default: str) -> str:
        """Return the agent's label, numbered if there are several vessels to label, or the default if the agent gave none."""
        label = self.printable_label
        return default if not label else f"{label} {number}" if total > 1 else label

    def reserve_name(self, name: str) -> str:
        """Return the name, with a number appended if it is taken, and mark it as taken."""
        # 110 characters leave room for the number: a vessel cuts its name at 120.
        number, candidate = 1, name[:110]
        while candidate in self.taken_names:
            number += 1
            candidate = f"{name[:110]} ({number})"
        self.taken_names.add(candidate)
        return candidate

    def get_number(self, parameter: str) -> Decimal:
        return Decimal(self.values[parameter])

    def get_whole_number(self, parameter: str) -> int:
        """Return a parameter as an integer. Raises RefusalError if it has decimals."""
        value = self.get_number(parameter)
        if value != int(value):
            raise RefusalError(f"not a whole number: {parameter} is {value}")
        return int(value)

    def record_observation(self, description: str, kind: str = "instrumental", value: str = "") -> None:
        self.observations.append(Observation(description, kind, value))

    def describe_run(self, vessel: Vessel) -> str:
        """Return the heading of an instrument's record: the action, the sample, and the settings that the record quotes."""
        return f"{self.action_type.name} of {vessel.name}{self.format_quoted_settings()}"

    def format_quoted_settings(self) -> str:
        """Return the settings that the instrument's record quotes, such as ", cycles 35"; "" if it quotes none."""
        settings = ""
        for name in self.action_type.echo:
            value = self.get_written_setting(name)
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            settings += "" if text is None else f", {name.replace('_', ' ')} {text}"
        return settings

    def record_run(self, vessel: Vessel) -> None:
        """Record only that the run was completed, without a number, because no reading is declared."""
        self.record_observation(f"{self.describe_run(vessel)}: run completed, data file recorded")

    def find_parameter(self, name: str) -> Parameter:
        return next(parameter for parameter in self.action_type.parameters if parameter.name == name)

    def get_written_setting(self, name: str) -> Any:
        """Return a parameter as the action wrote it, or its default."""
        return self.parameters_as_written.get(name, self.find_parameter(name).default)

    def format_written_settings(self, value: str, duration: str) -> str:
        """Return two parameters as the action wrote them, such as "60 °C for 2 h"."""
        return f"{self.get_written_setting(value)} for {self.get_written_setting(duration)}"

    def compute_noise_factor(self, vessel: Vessel, relative: Decimal, *purpose: object) -> Decimal:
        """Return a seeded normal factor with mean 1 and this relative standard deviation, at least 0."""
        return max(Decimal(0), 1 + self.compute_deviate(vessel, *purpose) * relative)

    def compute_deviate(self, vessel: Vessel, *purpose: object) -> Decimal:
        """Return a standard normal deviate. The same seed, step, material and purpose give the same deviate."""
        # Rounded, so that outcomes do not depend on the last digits of floating-point functions.
        return Decimal(str(round(self.create_rng(vessel, *purpose).gauss(0, 1), 6)))

    def create_rng(self, vessel: Vessel, *purpose: object) -> random.Random:
        # One generator per purpose instead of one for the run: noise does not depend on the order in which handlers
        # ask for it, and another process can continue an episode. Random hashes text with SHA-512, so the result
        # does not depend on PYTHONHASHSEED.
        return random.Random(repr((*self.seed_parts, vessel.barcode, *purpose)))

    def create_lasting_rng(self, vessel: Vessel, *purpose: object) -> random.Random:
        """Return a generator that is the same in every step: for what a vessel keeps from one reading to the next."""
        return random.Random(repr((self.seed_parts[0], vessel.barcode, *purpose)))

    def expose(self, vessel: Vessel, seconds: Decimal, temperature: Decimal) -> None:
        """Apply what this time at this temperature does to the contents of a vessel."""
        vessel.contents = damage.age(vessel.contents, seconds, temperature, self.truth.get("decays", ()))

    def list_declared(self, kind: str) -> list[Mapping[str, Any]]:
        """Return the hidden truth's entries of this kind that name this action and whose conditions are met."""
        return [entry for entry in self.truth.get(kind, ()) if self.is_applicable(entry)]

    def is_applicable(self, entry: Mapping[str, Any]) -> bool:
        action = entry["action"]
        if self.action_type.name not in (action if isinstance(action, list) else [action]):
            return False
        return all(self._meets_condition(name, condition) for name, condition in entry.get("when", {}).items())

    def _meets_condition(self, name: str, condition: Any) -> bool:
        value = self.values.get(name)
        if value is None:
            return isinstance(condition, Mapping) and bool(condition.get("absent"))
        if isinstance(condition, Mapping) and "all" in condition:
            return set(condition["all"]) <= set(value)
        if not isinstance(condition, Mapping):
            allowed = condition if isinstance(condition, list) else [condition]
            return any(part in allowed for part in (value if isinstance(value, tuple) else (value,)))
        parse = self.find_parameter(name).parse_value
        low, high = (parse(condition[end]) if end in condition else value for end in ("minimum", "maximum"))
        return bool(low <= value <= high)


Handler = Callable[[ActionContext], None]
_HandlerT = TypeVar("_HandlerT", bound=Handler)
HANDLERS: dict[str, Handler] = {}  # by the name in an action file's `handler`
REASONINGS: dict[str, str] = {}  # the explanation of an outcome, by handler
_TABLES: dict[str, tuple[Collection[str], Callable[[str], Mapping[str, Collection[str]]]]] = {}


def handles(
    name: str,
    reasoning: str = "",
    actions: Collection[str] = (),
    options_of: Callable[[str], Mapping[str, Collection[str]]] | None = None,
    **options: Collection[str],
) -> Callable[[_HandlerT], _HandlerT]:
    """Declare a function as the handler of this name. Raises LabError if there is one already.

    `reasoning` is the explanation of an outcome for which the function gives none. If the function looks up the action in
    a table, `actions` is that table. If it looks up the option of a parameter, `options` has the table under the
    parameter's name, or `options_of` returns such tables for an action.
    """

    def declare(function: _HandlerT) -> _HandlerT:
        if name in HANDLERS:
            raise LabError(f"two handlers are named {name!r}; the second is declared in {function.__module__}")
        HANDLERS[name], REASONINGS[name], _TABLES[name] = (
            function,
            reasoning,
            (actions, options_of or (lambda _: options)),
        )
        return function

    return declare


def describe_missing_part(action_type: ActionType) -> str:
    """Return what the handlers lack to carry out an action, as "is 'value'; allowed: ...", or "" if nothing."""
    name = action_type.handler
    if name not in HANDLERS:
        return f"is {name!r}; allowed: {', '.join(sorted(HANDLERS))}"
    actions, options_of = _TABLES[name]
    if actions and action_type.name not in actions:
        return f"is {name!r}, whose tables lack {action_type.name}; allowed: {', '.join(actions)}"
    options = options_of(action_type.name)
    for parameter in action_type.parameters:
        table = options.get(parameter.name, parameter.options)
        if unknown := [option for option in parameter.options if option not in table]:
            return f"is {name!r}, whose tables lack {parameter.name} {unknown[0]!r}; allowed: {', '.join(table)}"
    return ""
