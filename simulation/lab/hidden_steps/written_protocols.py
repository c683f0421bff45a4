"""Write a reference protocol as an agent reads it: numbered steps, without those that are hidden.

Neither roles nor labels of steps appear. A product is named after the step that makes it, so that a later step does not
reveal what a hidden one makes.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from simulation.lab.experiments import ExperimentSpec
from simulation.lab.name_ranges import fold_names

HIDDEN_STEP = "(one step is missing here)"


def write_protocol(spec: ExperimentSpec, hidden: Collection[int]) -> str:
    """Return the protocol of an experiment as numbered lines, with a gap for each hidden step (numbers from 1).

    It is the same for every hidden truth: materials have the names on their labels, and parameters are those of the
    reference protocol.
    """
    names: dict[str, Any] = {key: draft.name for key, draft in spec.materials}
    lines = []
    for number, step in enumerate(spec.protocol, start=1):
        lines.append(f"{number}. {HIDDEN_STEP if number in hidden else _write_step(step, names)}")
        # In the order in which they appear on the bench; a label that is used again means the newer material.
        labels = sorted(step.get("yields", {}), key=step.get("yields", {}).__getitem__)
        names |= {label: _Product(number, at, len(labels)) for at, label in enumerate(labels, start=1)}
    return "\n".join(lines)


class _Product:
    """A material that a step makes: `at` is its position among the `count` that later steps use."""

    def __init__(self, step: int, at: int, count: int) -> None:
        self.step, self.at, self.count = step, at, count

    def __str__(self) -> str:
        return f"the product of step {self.step}" if self.count == 1 else f"product {self.at} of step {self.step}"


def _write_step(step: Mapping[str, Any], names: Mapping[str, Any]) -> str:
    # Divided by semicolons, because names of materials contain commas.
    used = "; ".join(_list_names([names[reference] for reference in step.get("materials", ())]))
    given = step.get("parameters", {})
    parameters = "; ".join(f"{name}={_format_value(given[name], names)}" for name in sorted(given))
    parts = [str(step["action"]), *([f"Materials: {used}"] if used else [])]
    return ". ".join([*parts, *([f"Parameters: {parameters}"] if parameters else [])])


def _list_names(materials: Sequence[Any]) -> Iterator[str]:
    """Yield the names of materials in their order, with neighbouring products of one step as one entry."""
    for step, group in groupby(materials, key=lambda material: getattr(material, "step", None)):
        members = list(group)
        if step is None:
            yield from fold_names(members)
        elif len(members) == 1:
            yield str(members[0])
        elif [product.at for product in members] == list(range(1, members[0].count + 1)):
            yield f"all {len(members)} products of step {step}"
        else:
            yield f"products {_join_numbers([product.at for product in members])} of step {step}"


def _join_numbers(numbers: Sequence[int]) -> str:
    """Return numbers as text, with three or more consecutive ones as a range: "1 to 4, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    parts = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(parts)


def _format_value(value: Any, names: Mapping[str, Any]) -> str:
    """Return a parameter's value as an agent writes it, with a name in place of each reference."""
    if isinstance(value, str):
        return str(names[value[1:]]) if value.startswith("@") else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_format_value(part, names)}" for key, part in sorted(value.items())) + "}"
    if isinstance(value, list | tuple):
        return ", ".join(_format_value(part, names) for part in value)
    return str(value)
