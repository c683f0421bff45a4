"""Load and validate experiments: goal, materials, hidden truth, reference protocol, rubric."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from simulation.lab import quantities
from simulation.lab.actions import Catalogue
from simulation.lab.catalogue import load_json_file, load_json_files
from simulation.lab.experiment_files import ExperimentEntry, parse_concentration, parse_content
from simulation.lab.materials import NewMaterial
from simulation.lab.truths import draws
from wetbench_site.validation import find_problems


@dataclass(frozen=True)
class ExperimentSpec:
    """An experiment from a validated data file of fixtures/experiments.

    `materials` are (key, new material) pairs: protocol and rubric name the material by its key. `truth` has the real values of the
    unknowns: the offline transition model may read it, an agent or a classifier never does. `manifest` is what
    ManifestMaterials may add; `variants` are common ways to miss a line of the rubric,
    `alternatives` are other correct ways (see `simulation.lab.protocols`). `drawn` are the values of the draws for
    `truth_seed` (None: their reference values), which materials and truth contain; they are as secret as the truth.
    """

    slug: str
    name: str
    group: str
    goal: str
    max_steps: int
    materials: tuple[tuple[str, NewMaterial], ...]
    truth: Mapping[str, Any] = field(default_factory=dict)
    protocol: tuple[Mapping[str, Any], ...] = ()
    rubric: tuple[Mapping[str, Any], ...] = ()
    provenance: str = ""
    manifest: tuple[tuple[str, NewMaterial], ...] = ()
    variants: tuple[Mapping[str, Any], ...] = ()
    alternatives: tuple[Mapping[str, Any], ...] = ()
    truth_seed: int | None = None
    drawn: draws.Values = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)  # the data it was built from

    def draw_truth(self, truth_seed: int | None) -> "ExperimentSpec":
        """Return this experiment with the truth of another seed. The same seed gives the same truth."""
        return build_experiment(self.source, truth_seed) if truth_seed != self.truth_seed else self

    def initial_materials(self) -> tuple[NewMaterial, ...]:
        return tuple(draft for _, draft in self.materials)


def load_experiments(directory: Path, catalogue: Catalogue) -> list[tuple[ExperimentSpec, dict[str, Any]]]:
    """Return every experiment in a directory, each with its raw data. Raises CatalogueError with all problems."""
    entries = load_json_files(directory, "slug", lambda data: check_experiment(data, catalogue))
    return [(build_experiment(data), data) for data in entries]


def load_experiment(path: Path, catalogue: Catalogue) -> ExperimentSpec:
    """Return the experiment in a file. Raises CatalogueError with all problems of the file."""
    return build_experiment(load_json_file(path, "slug", lambda data: check_experiment(data, catalogue)))


def check_experiment(data: Any, catalogue: Catalogue) -> list[str]:
    """Return every problem of one experiment as "entry.field: what is wrong and what is allowed"."""
    if isinstance(data, Mapping):
        if problems := draws.find_draw_problems(data):
            return problems
        data = draws.fill_references(data, draws.draw_values(data, None))
    return find_problems(ExperimentEntry, data, catalogue)


def build_experiment(data: Mapping[str, Any], truth_seed: int | None = None) -> ExperimentSpec:
    """Build an experiment from the validated data of a file or database row, with the truth of this seed.

    Without a seed, it has the reference truth.
    """
    source, drawn = data, draws.draw_values(data, truth_seed)
    data = draws.fill_references(source, drawn)
    return ExperimentSpec(
        **{key: data[key] for key in ("slug", "name", "group", "goal", "max_steps")},
        materials=tuple((entry["key"], _build_material(entry)) for entry in data["materials"]),
        manifest=tuple((entry["key"], _build_material(entry)) for entry in data.get("manifest", ())),
        protocol=tuple(data.get("protocol", ())),
        rubric=tuple(data.get("rubric", ())),
        variants=tuple(data.get("variants", ())),
        alternatives=tuple(data.get("alternatives", ())),
        truth=data.get("truth", {}),
        provenance=data.get("provenance", ""),
        truth_seed=truth_seed,
        drawn=drawn,
        source=source,
    )


def _build_material(entry: Mapping[str, Any]) -> NewMaterial:
    same = ("name", "available_for_use", "material_type", "environmental_condition")
    return NewMaterial(
        **{key: entry[key] for key in same}, properties=_visible_properties(entry), ledger=_build_ledger(entry)
    )


def _visible_properties(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a material's properties with every known concentration or, if it has no volume, every known amount.

    Quantities are formatted like those in outcomes, so that they do not appear to change in the first step.
    """
    properties = dict(entry["properties"])
    for name in ("volume", "mass"):
        if name in properties:
            properties[name] = quantities.format_quantity(quantities.parse_quantity(properties[name], name).value, name)
    for component, content in entry.get("contents", {}).items():
        if not content["known"]:
            # The experiment has to find out an unknown concentration, so only the ledger contains it.
            continue
        if "concentration" in content and not _is_attached(entry, component, content):
            dimension, value = parse_concentration(content)
            # Formatted by the same function as outcomes: a differently written value would look like a change.
            properties[f"{component} concentration"] = quantities.format_concentration(component, value, dimension)
        elif "volume" not in properties or "concentration" in content:
            dimension, amount = parse_content(content, _parse_volume(entry))
            properties.setdefault(f"{component} amount", quantities.format_quantity(amount, dimension))
    return properties


def _is_attached(entry: Mapping[str, Any], component: str, content: Mapping[str, Any]) -> bool:
    """Return whether a component is on the wall of its vessel, so that it has no concentration in the liquid."""
    kind = content.get("kind") or ("cells" if "cells" in component else "dissolved")
    return kind == "attached" or (kind == "cells" and entry["properties"].get("phase") == "adherent culture")


def _parse_volume(entry: Mapping[str, Any]) -> Decimal | None:
    text = entry["properties"].get("volume")
    return quantities.parse_quantity(text, "volume").value if text else None


def _build_ledger(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hidden ledger. Amounts are in the base unit of their dimension; the volume is in µL, or None."""
    # Decimal text, because JSON numbers would be read back as binary fractions.
    volume = _parse_volume(entry)
    ledger = {
        "key": entry["key"],
        "components": {name: _build_component(content, volume) for name, content in entry.get("contents", {}).items()},
        "origins": {entry["key"]: "1"},
        "volume": None if volume is None else _format_decimal(volume),
    }
    if "tare" in entry:
        ledger["tare"] = _format_decimal(quantities.parse_quantity(entry["tare"], "mass").value)
    if "wells" in entry:
        ledger["wells"] = [
            {
                "well": well["well"],
                "name": well["name"],
                "properties": _visible_properties(well),
                "ledger": _build_ledger(well),
            }
            for well in entry["wells"]
        ]
    return ledger


def _build_component(content: Mapping[str, Any], volume: Decimal | None) -> dict[str, Any]:
    dimension, amount = parse_content(content, volume)
    kind = {"kind": content["kind"]} if "kind" in content else {}
    return {"dimension": dimension, "amount": _format_decimal(amount), "known": content["known"], **kind}


def _format_decimal(amount: Decimal) -> str:
    return format(amount.normalize(), "f")  # no exponent, so that equal amounts have equal text
