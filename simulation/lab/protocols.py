"""Protocols as data: their steps, and edits that turn the reference protocol into a variant or an alternative of it.

A *variant* is a common way in which a record is insufficient: the edited protocol must be judged INVALID because of the
rubric line `missing`. An *alternative* is another correct way: the edited protocol must be judged VALID. All step numbers
of an edit are those of the reference protocol, counted from 1, whatever the other edits do.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from simulation.lab.actions import Action, Catalogue
from simulation.lab.errors import LabError
from wetbench_site.validation import Allowed, StrictModel, Text, format_problem, reject_parts

_MAX_MATERIALS = 1000  # maximum number of materials in an outcome

StepNumber = Annotated[int, Field(ge=1)]
Yields = Annotated[
    dict[str, Annotated[int, Field(ge=0, le=_MAX_MATERIALS - 1)]],
    Allowed(f"an object of labels and positions from 0 to {_MAX_MATERIALS - 1}"),
]


class StepEntry(StrictModel):
    """A step of the protocol. `yields` maps labels to positions among the new materials of the outcome."""

    action: str
    materials: list[str] = []
    parameters: dict[str, Any] = {}
    yields: Yields = {}
    role: Literal["control", "calibration", "sample", "preparation", ""] = ""

    def check_action(self, catalogue: Catalogue) -> list[tuple[str, str]]:
        """Return (field, message) of everything that the catalogue does not allow."""
        action = catalogue.find_type(self.action)
        if action is None:
            return [("action", format_problem(self.action, ", ".join(sorted(catalogue.types))))]
        problems: list[tuple[str, str]] = []
        if not action.min_materials <= len(self.materials) <= action.max_materials:
            allowed = f"allowed for {action.name}: {action.min_materials} to {action.max_materials}"
            problems.append(("materials", f"{len(self.materials)} given; {allowed}"))
        try:
            # The references are replaced by bare names, because the parameter's type expects a barcode.
            bare = {name: strip_reference_marks(value) for name, value in self.parameters.items()}
            action.parse_parameters(Action(action.name, (), bare))
        except LabError as error:
            problems.append(("parameters", str(error)))
        for parameter in action.parameters:
            if parameter.type.endswith("material_selector") and parameter.name in self.parameters:
                value = self.parameters[parameter.name]
                refs = find_references(value)
                if not refs or not set(refs) <= set(self.materials):
                    allowed = ", ".join(f"@{ref}" for ref in self.materials)
                    message = f"is {value!r}; allowed, from the step's materials: {allowed}"
                    problems.append((f"parameters.{parameter.name}", message))
        return problems

    def check_materials(self, known: Sequence[str]) -> list[tuple[str, str]]:
        """Return (field, message) of every material that is not among the `known` keys and labels."""
        refs = [*self.materials, *(ref for value in self.parameters.values() for ref in find_references(value))]
        return [
            ("materials", f"{ref!r} is not on the bench yet; allowed: {', '.join(known)}")
            for ref in refs
            if ref not in known
        ]


class ChangeEntry(StrictModel):
    """What is different in some steps: the same change in each of `steps`.

    `parameters` are set; null removes one. `replace` writes another material for one, in the materials and in the
    parameters, and `omit` leaves materials out. `materials` and `yields` replace those of the step.
    """

    steps: Annotated[list[StepNumber], Field(min_length=1)]
    action: str = ""
    parameters: dict[str, Any] = {}
    materials: list[str] | None = None
    replace: dict[str, str] = {}
    omit: list[str] = []
    yields: Yields | None = None

    def apply(self, step: Mapping[str, Any]) -> dict[str, Any]:
        """Return the changed step."""
        materials = step.get("materials", []) if self.materials is None else self.materials
        parameters = {**step.get("parameters", {}), **self.parameters}
        return {
            **step,
            "action": self.action or step["action"],
            "materials": [self.replace.get(name, name) for name in materials if name not in self.omit],
            "parameters": {
                name: _replace_references(value, self.replace)
                for name, value in parameters.items()
                if value is not None
            },
            "yields": step.get("yields", {}) if self.yields is None else self.yields,
        }


class InsertEntry(StrictModel):
    """Steps that are added before a step; the number after the last adds them at the end."""

    before: StepNumber
    steps: Annotated[list[StepEntry], Field(min_length=1)]


class MoveEntry(StrictModel):
    """Steps that are done at another time: before a step that stays where it is."""

    steps: Annotated[list[StepNumber], Field(min_length=1)]
    before: StepNumber


class EditedProtocol(StrictModel):
    """A named edit of the reference protocol."""

    name: Text
    without: list[StepNumber] = []
    change: list[ChangeEntry] = []
    insert: list[InsertEntry] = []
    move: list[MoveEntry] = []

    @model_validator(mode="after")
    def _need_edit(self) -> Self:
        if not (self.without or self.change or self.insert or self.move):
            raise ValueError("changes nothing; allowed: at least one of without, change, insert, move")
        return self

    def edit(self, protocol: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], bool]]:
        """Return the steps of the edited protocol, and whether each was changed, inserted or moved."""
        steps = dict(enumerate(protocol, start=1))
        moved = {number for entry in self.move for number in entry.steps}
        edited = {number for entry in self.change for number in entry.steps} | moved
        for change in self.change:
            steps |= {number: change.apply(steps[number]) for number in change.steps}
        result: list[tuple[Mapping[str, Any], bool]] = []
        for number in range(1, len(protocol) + 2):
            result += [(steps[other], True) for entry in self.move if entry.before == number for other in entry.steps]
            result += [
                (step.model_dump(), True) for entry in self.insert if entry.before == number for step in entry.steps
            ]
            if number in steps and number not in self.without and number not in moved:
                result.append((steps[number], number in edited))
        return result

    def check(
        self, protocol: Sequence[StepEntry], initial: Sequence[str], catalogue: Catalogue
    ) -> Iterator[tuple[str, str]]:
        """Yield (field, message) of every problem of this edit. `initial` are the keys of the materials on the bench."""
        wrong = list(self._check_numbers(len(protocol)))
        if wrong:
            yield from wrong
            return
        known = list(initial)
        for data, is_edited in self.edit([step.model_dump() for step in protocol]):
            step = StepEntry.model_validate(data)
            # A step that the edit does not touch may lack its materials: it is then left out, too.
            if is_edited:
                problems = [*step.check_action(catalogue), *step.check_materials(known)]
                yield from (("", f"{step.action}: {field}: {message}") for field, message in problems)
            known += step.yields

    def _check_numbers(self, n_steps: int) -> Iterator[tuple[str, str]]:
        numbered = [("without", self.without, n_steps)]
        for index, change in enumerate(self.change):
            numbered.append((f"change[{index}].steps", change.steps, n_steps))
        for index, insert in enumerate(self.insert):
            numbered.append((f"insert[{index}].before", [insert.before], n_steps + 1))
        for index, move in enumerate(self.move):
            numbered.append((f"move[{index}].steps", move.steps, n_steps))
            numbered.append((f"move[{index}].before", [move.before], n_steps + 1))
        for path, numbers, last in numbered:
            if not set(numbers) <= set(range(1, last + 1)):
                value = numbers[0] if path.endswith("before") else numbers
                yield path, format_problem(value, f"steps from 1 to {last}")
        moved = [number for entry in self.move for number in entry.steps]
        for index, entry in enumerate(self.move):
            if len(set(moved)) < len(moved) or set(moved) & set(self.without):
                yield f"move[{index}].steps", format_problem(entry.steps, "steps that are not moved twice or left out")


class VariantEntry(EditedProtocol):
    """A common way to miss the goal: the edited protocol must not meet the rubric line `missing`."""

    reason: Text
    missing: str


class AlternativeEntry(EditedProtocol):
    """Another correct way to the goal: the edited protocol must be VALID."""


def apply_edits(protocol: Sequence[Mapping[str, Any]], entry: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the protocol as edited by the data of a variant or an alternative that was validated before."""
    edits = {name: entry[name] for name in EditedProtocol.model_fields if name in entry}
    return tuple(step for step, _ in EditedProtocol.model_validate(edits).edit(protocol))


def reject_invalid_edits(
    entries: Sequence[EditedProtocol],
    protocol: Sequence[StepEntry],
    initial: Sequence[str],
    catalogue: Catalogue,
) -> None:
    """Raise one error for every problem of these variants or alternatives. Return if there are none."""
    reject_parts(
        [
            (f"[{index}].{field}".rstrip("."), message)
            for index, entry in enumerate(entries)
            for field, message in entry.check(protocol, initial, catalogue)
        ]
    )


def find_references(value: Any) -> list[str]:
    """Return the material references in a parameter's value: texts such as "@sample", without the @."""
    if isinstance(value, str):
        return [value[1:]] if value.startswith("@") else []
    return [name for part in value for name in find_references(part)] if isinstance(value, list | tuple) else []


def strip_reference_marks(value: Any) -> Any:
    """Return the value with the @ removed from every material reference, so that it parses like a barcode."""
    return _map_texts(value, lambda text: text.removeprefix("@"))


def _replace_references(value: Any, names: Mapping[str, str]) -> Any:
    """Return the value with other materials in place of those that are keys of `names`."""
    return _map_texts(value, lambda text: f"@{names.get(text[1:], text[1:])}" if text.startswith("@") else text)


def _map_texts(value: Any, convert: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return convert(value)
    return [_map_texts(part, convert) for part in value] if isinstance(value, list | tuple) else value
