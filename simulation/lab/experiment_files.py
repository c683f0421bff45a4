"""Validate an experiment file: materials with their contents and wells, the protocol, the rubric and the variants."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from simulation.lab import quantities
from simulation.lab.actions import Catalogue
from simulation.lab.catalogue import parse_amount
from simulation.lab.errors import CatalogueError, LabError
from simulation.lab.materials import AVAILABILITY, CONDITIONS, CONTENT_KINDS, MATERIAL_TYPES
from simulation.lab.protocols import AlternativeEntry, StepEntry, VariantEntry, reject_invalid_edits
from simulation.lab.rubrics import RubricLine, find_reference_problems
from wetbench_site.validation import (
    Allowed,
    StrictModel,
    Text,
    format_problem,
    need_unique,
    one_of,
    reject,
    reject_parts,
)

_MEASURED = {
    "volume": "volume",
    "mass": "mass",
    "container_capacity": "volume",
    "dead_volume": "volume",
    "temperature": "temperature",
    "freezing point": "temperature",
    "density": "density",
    "tablet mass": "mass",
}
# Dimension of a concentration -> (dimension of the amount, divisor of the concentration times the volume in µL).
_CONCENTRATIONS = {
    "mass_concentration": ("mass", Decimal(1000)),
    "molar_concentration": ("amount", Decimal(1000)),
    "number_density": ("count", Decimal(1000)),
    "ratio": ("volume", Decimal(100)),  # percentage by volume
    "activity": ("enzyme_units", Decimal(1000)),
}
_AMOUNTS = ("mass", "amount", "count", "volume", "enzyme_units")


def parse_content(content: Mapping[str, Any], volume: Decimal | None) -> tuple[str, Decimal]:
    """Return (dimension, amount in its base unit) of a component. `volume` is the volume of its material in µL.

    Raises CatalogueError if the content is invalid.
    """
    # If both were given, they could contradict each other.
    if ("concentration" in content) == ("amount" in content):
        raise CatalogueError('must contain either "concentration" or "amount"')
    if "amount" in content:
        return _parse_any(content["amount"], _AMOUNTS)
    dimension, value = _parse_any(content["concentration"], _CONCENTRATIONS)
    if volume is None:
        raise CatalogueError('a "concentration" needs the material\'s properties.volume; allowed besides: "amount"')
    amount_dimension, divisor = _CONCENTRATIONS[dimension]
    return amount_dimension, value * volume / divisor


def parse_concentration(content: Mapping[str, Any]) -> tuple[str, Decimal]:
    """Return (dimension of the component's amount, concentration in the base unit of its own dimension)."""
    dimension, value = _parse_any(content["concentration"], _CONCENTRATIONS)
    return _CONCENTRATIONS[dimension][0], value


def find_amount_dimension(content: Mapping[str, Any]) -> str:
    """Return the dimension of a component's amount. Raises CatalogueError if the content is invalid."""
    return parse_concentration(content)[0] if "concentration" in content else _parse_any(content["amount"], _AMOUNTS)[0]


def _parse_any(text: Any, dimensions: Iterable[str]) -> tuple[str, Decimal]:
    found = quantities.find_quantity(text, *dimensions) if isinstance(text, str) else None
    if found and found.value >= 0:
        return found.dimension, found.value
    units = ", ".join(unit for dimension in dimensions for unit in quantities.list_units(dimension) if unit)
    raise CatalogueError(f"is {text!r}; allowed: zero or more, as text with a unit of {units}")


def _parse_volume(properties: Mapping[str, Any], name: str = "volume") -> Decimal | None:
    found = quantities.find_quantity(properties.get(name), "volume")
    return found.value if found else None


def _need_mass(text: str) -> str:
    return text if parse_amount(text, "mass").value > 0 else reject("more than zero")


Key = Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,59}$"), Allowed("small letters, digits and underscores")]
Slug = Annotated[
    str, Field(pattern="^[a-z0-9]+(-[a-z0-9]+)*$"), Allowed("small letters and digits, joined by single hyphens")
]


class ContentEntry(StrictModel):
    """A component of a material. Of an unknown one, only the hidden ledger has the amount."""

    concentration: Any = None
    amount: Any = None
    known: bool
    kind: Annotated[str, *one_of(CONTENT_KINDS)] = CONTENT_KINDS[0]


_CONTENT = Allowed('an object like {"concentration" or "amount": "1 mg/mL", "known": true or false}')


class _Contained(StrictModel):
    """What materials and wells have in common."""

    key: Key
    name: Text
    properties: Annotated[dict[str, Any], Allowed("an object of texts")]
    contents: dict[str, Annotated[ContentEntry, _CONTENT]] = {}

    @field_validator("properties")
    @classmethod
    def _need_quantities(cls, properties: dict[str, Any]) -> dict[str, Any]:
        reject_parts(
            [(name, message) for name, value in properties.items() if (message := _check_property(name, value))]
        )
        volume, capacity = _parse_volume(properties), _parse_volume(properties, "container_capacity")
        if volume is not None and capacity is not None and volume > capacity:
            reject_parts([("volume", format_problem(properties["volume"], "no more than container_capacity"))])
        return properties

    @field_validator("contents")
    @classmethod
    def _need_amounts(cls, contents: dict[str, ContentEntry], info: ValidationInfo) -> dict[str, ContentEntry]:
        if "properties" not in info.data:
            return contents
        volume, problems = _parse_volume(info.data["properties"]), []
        for component, entry in contents.items():
            try:
                parse_content(entry.model_dump(exclude_unset=True), volume)
            except LabError as error:
                problems.append((component, str(error)))
        reject_parts(problems)
        return contents

    @model_validator(mode="after")
    def _need_same_concentrations(self) -> Self:
        """Check that no property shows a concentration that `contents` hides, or a different one."""
        problems = []
        for component, content in self.contents.items():
            name = f"{component} concentration"
            shown, written = self.properties.get(name), content.concentration
            if shown is None:
                continue
            # The file itself must not reveal what it declares as unknown.
            if not content.known:
                problems.append((f"properties.{name}", f"shows what contents.{component} hides; allowed: omit it"))
            elif _find_concentration(shown) is None or _find_concentration(shown) != _find_concentration(written):
                problems.append((f"properties.{name}", format_problem(shown, f"{written!r}, as in contents")))
        reject_parts(problems)
        return self


class WellEntry(_Contained):
    """A well of a plate. When the plate is used, each well becomes a material."""

    well: Text


class MaterialEntry(_Contained):
    """A material on the initial bench or of the manifest."""

    available_for_use: Annotated[str, *one_of(AVAILABILITY)]
    material_type: Annotated[str, *one_of(MATERIAL_TYPES)]
    environmental_condition: Annotated[str, *one_of(CONDITIONS)]
    tare: Annotated[str, AfterValidator(_need_mass)] | None = None
    wells: Annotated[list[WellEntry], Field(min_length=1), need_unique("well")] | None = None

    @model_validator(mode="after")
    def _need_temperature(self) -> Self:
        if self.environmental_condition.endswith("_conditions") and "temperature" not in self.properties:
            reject_parts([("properties.temperature", "is missing; allowed: that of the incubator")])
        return self


def _check_property(name: str, value: Any) -> str:
    """Return what is wrong with a property of a material, or ""."""
    if not isinstance(value, str) or not value:
        return format_problem(value, "text, not empty")
    dimension = _MEASURED.get(name)
    try:
        if dimension and quantities.parse_quantity(value, dimension).value < 0 and dimension != "temperature":
            return format_problem(value, "no less than zero")
    except quantities.QuantityError as error:
        return str(error)
    return ""


def _find_concentration(text: Any) -> quantities.Quantity | None:
    return quantities.find_quantity(text, *_CONCENTRATIONS)


class ExperimentEntry(StrictModel):
    """The file of one experiment. See `experiments.ExperimentSpec`; the offline cast checks `truth`."""

    slug: Slug
    name: Text
    group: Text
    goal: Text
    max_steps: Annotated[int, Field(ge=1, le=1000)]
    provenance: Text
    materials: Annotated[list[MaterialEntry], Field(min_length=1), Allowed("a list of at least one material")]
    draws: dict[str, Any] = {}  # checked by simulation.lab.truths.draws before the references to them are filled in
    truth: dict[str, Any] = {}
    protocol: list[StepEntry] = []
    rubric: Annotated[
        list[RubricLine], Field(min_length=1), need_unique("line"), Allowed("a list of at least one line")
    ]
    manifest: list[MaterialEntry] = []
    variants: Annotated[list[VariantEntry], need_unique("name")] = []
    alternatives: Annotated[list[AlternativeEntry], need_unique("name")] = []

    @field_validator("materials")
    @classmethod
    def _need_unique_materials(cls, materials: list[MaterialEntry]) -> list[MaterialEntry]:
        reject_parts(_find_repeated(list_materials_and_wells(materials)))
        return materials

    @field_validator("protocol")
    @classmethod
    def _need_known_materials(cls, protocol: list[StepEntry], info: ValidationInfo) -> list[StepEntry]:
        """Check that a step uses only initial materials and what earlier steps have yielded."""
        if "materials" not in info.data:
            return protocol
        catalogue: Catalogue = info.context  # type: ignore[assignment]
        known, problems = [entry.key for entry in info.data["materials"]], []
        for index, step in enumerate(protocol):
            problems += [(f"[{index}].{field}", message) for field, message in step.check_action(catalogue)]
            problems += [(f"[{index}].{field}", message) for field, message in step.check_materials(known)]
            for label in step.yields:
                if label in known:
                    problems.append((f"[{index}].yields.{label}", "occurs twice; allowed: a name no material has yet"))
                else:
                    known.append(label)
        reject_parts(problems)
        return protocol

    @field_validator("rubric")
    @classmethod
    def _need_known_names(cls, rubric: list[RubricLine], info: ValidationInfo) -> list[RubricLine]:
        # Wells become materials of their own when the plate is used, so a rubric may name them.
        if "materials" in info.data:
            names = [entry.name for entry in list_materials_and_wells(info.data["materials"])]
            reject_parts(find_reference_problems(rubric, names))
        return rubric

    @field_validator("manifest")
    @classmethod
    def _need_new_known_materials(cls, manifest: list[MaterialEntry], info: ValidationInfo) -> list[MaterialEntry]:
        reject_parts(
            [
                (f"[{index}].contents.{name}", "is unknown; allowed: what everybody knows")
                for index, entry in enumerate(manifest)
                for name, content in entry.contents.items()
                # The manifest must not reveal a hidden value: an agent can request its materials at any time.
                if not content.known
            ]
            + _find_repeated([*info.data.get("materials", ()), *manifest])
        )
        return manifest

    @field_validator("variants", "alternatives")
    @classmethod
    def _need_possible_edits(
        cls, entries: list[VariantEntry] | list[AlternativeEntry], info: ValidationInfo
    ) -> list[VariantEntry] | list[AlternativeEntry]:
        if "protocol" not in info.data or "materials" not in info.data:
            return entries
        catalogue: Catalogue = info.context  # type: ignore[assignment]
        initial = [entry.key for entry in info.data["materials"]]
        reject_invalid_edits(entries, info.data["protocol"], initial, catalogue)
        return entries

    @field_validator("variants")
    @classmethod
    def _need_known_lines(cls, variants: list[VariantEntry], info: ValidationInfo) -> list[VariantEntry]:
        lines = [line.line for line in info.data.get("rubric", ())]
        reject_parts(
            [
                (f"[{index}].missing", format_problem(entry.missing, ", ".join(lines)))
                for index, entry in enumerate(variants)
                if entry.missing not in lines and "rubric" in info.data
            ]
        )
        return variants


def list_materials_and_wells(materials: Sequence[MaterialEntry]) -> list[_Contained]:
    """Return the materials and the wells of all plates among them."""
    return [*materials, *(well for entry in materials for well in entry.wells or ())]


def _find_repeated(entries: Sequence[_Contained]) -> list[tuple[str, str]]:
    problems = []
    for field in ("key", "name"):
        values = [getattr(entry, field) for entry in entries]
        repeated = sorted({value for value in values if values.count(value) > 1})
        problems += [("", f"the {field} {value!r} occurs twice") for value in repeated]
    return problems
