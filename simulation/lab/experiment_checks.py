"""Validate an experiment file: every problem names its entry, its field and what is allowed there."""

import re
from collections.abc import Mapping
from typing import Any

from simulation.lab import material_checks, rubrics
from simulation.lab.actions import Action, ActionType, Catalogue
from simulation.lab.errors import LabError
from simulation.lab.validation import check_each, check_texts, find_duplicates, find_unknown_fields, list_names

ROLES = ("control", "calibration", "sample", "preparation", "")

_FIELDS = {
    "slug", "name", "group", "goal", "max_steps", "provenance", "materials", "truth", "protocol", "rubric",
    "manifest", "shortfalls",
}  # fmt: skip
_STEP_FIELDS = {"action", "materials", "parameters", "yields", "role"}
_MAX_MATERIALS = 1000  # maximum number of materials in an outcome
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def check_experiment(data: Any, catalogue: Catalogue) -> list[str]:
    """Return every problem of one experiment as "entry.field: what is wrong and what is allowed"."""
    if not isinstance(data, Mapping):
        return ["the file must contain one JSON object"]
    problems = find_unknown_fields(data, _FIELDS) + check_texts(data, ("slug", "name", "group", "goal", "provenance"))
    if isinstance(data.get("slug"), str) and not _SLUG.fullmatch(data["slug"]):
        problems.append(f"slug: is {data['slug']!r}; allowed: small letters and digits, joined by single hyphens")
    steps = data.get("max_steps")
    if not isinstance(steps, int) or isinstance(steps, bool) or not 1 <= steps <= 1000:
        problems.append(f"max_steps: is {steps!r}; allowed: a whole number from 1 to 1000")
    if not isinstance(data.get("truth", {}), Mapping):
        problems.append("truth: must be an object")
    lists = {key: data.get(key, []) for key in ("materials", "protocol", "rubric")}
    not_lists = [f"{key}: must be a list" for key, value in lists.items() if not isinstance(value, list)]
    if not_lists:
        return problems + not_lists
    problems += material_checks.check_materials(lists["materials"])
    problems += _check_manifest(data.get("manifest", []), lists["materials"])
    problems += _check_protocol(lists["protocol"], list_names(lists["materials"], "key"), catalogue)
    # Wells become materials of their own when the plate is used, so a rubric may name them.
    names = list_names([*lists["materials"], *material_checks.list_wells(lists["materials"])], "name")
    problems += rubrics.check_rubric(lists["rubric"], names, catalogue)
    return problems + _check_shortfalls(data.get("shortfalls", []), lists["protocol"], lists["rubric"])


def _check_manifest(manifest: Any, materials: list[Any]) -> list[str]:
    """Return the problems of a manifest: invalid or repeated materials, and contents that are not marked as known."""
    if not isinstance(manifest, list):
        return ["manifest: must be a list of materials"]
    problems = check_each("manifest", manifest, material_checks.check_material)
    for key in ("key", "name"):
        all_names = [*list_names(materials, key), *list_names(manifest, key)]
        repeated = sorted({name for name in list_names(manifest, key) if all_names.count(name) > 1})
        problems += [f"manifest: the {key} {name!r} occurs twice" for name in repeated]
    for index, entry in enumerate(manifest):
        contents = entry.get("contents", {}) if isinstance(entry, Mapping) else {}
        if isinstance(contents, Mapping):
            problems += [
                f"manifest[{index}].contents.{name}: is unknown; allowed: what everybody knows"
                for name, content in contents.items()
                # The manifest must not reveal a hidden value: an agent can request its materials at any time.
                if isinstance(content, Mapping) and content.get("known") is not True
            ]
    return problems


def _check_shortfalls(shortfalls: Any, protocol: list[Any], rubric: list[Any]) -> list[str]:
    """Return the problems of shortfalls: each names steps (from 1) and the rubric line that is missed without them."""
    if not isinstance(shortfalls, list):
        return ["shortfalls: must be a list"]
    lines = list_names(rubric, "line")

    def check_shortfall(entry: Mapping[str, Any]) -> list[str]:
        problems = find_unknown_fields(entry, {"name", "without", "missing"}) + check_texts(entry, ("name",))
        steps = entry.get("without")
        if not isinstance(steps, list) or not steps or any(step not in range(1, len(protocol) + 1) for step in steps):
            problems.append(f"without: is {steps!r}; allowed: a list of steps from 1 to {len(protocol)}")
        if entry.get("missing") not in lines:
            problems.append(f"missing: is {entry.get('missing')!r}; allowed: {', '.join(lines)}")
        return problems

    return check_each("shortfalls", shortfalls, check_shortfall) + find_duplicates("shortfalls", "name", shortfalls)


def _check_protocol(protocol: list[Any], keys: list[str], catalogue: Catalogue) -> list[str]:
    """Return the problems of a protocol. A step may use only initial materials and what earlier steps have yielded."""
    problems: list[str] = []
    references_so_far = list(keys)
    for index, step in enumerate(protocol):
        path = f"protocol[{index}]"
        if not isinstance(step, Mapping):
            problems.append(f"{path}: must be an object")
            continue
        problems += [f"{path}.{problem}" for problem in _check_step(step, references_so_far, catalogue)]
        # What this step yields is available only to later steps.
        yields = step.get("yields", {})
        references_so_far += (
            [label for label in yields if label not in references_so_far] if isinstance(yields, Mapping) else []
        )
    return problems


def _check_step(step: Mapping[str, Any], known: list[str], catalogue: Catalogue) -> list[str]:
    problems = find_unknown_fields(step, _STEP_FIELDS)
    if step.get("role", "") not in ROLES:
        problems.append(f"role: is {step.get('role')!r}; allowed: {', '.join(role or 'empty' for role in ROLES)}")
    problems += _check_yields(step.get("yields", {}), known)
    materials, parameters = step.get("materials", []), step.get("parameters", {})
    if not isinstance(materials, list) or not isinstance(parameters, Mapping):
        return [*problems, "materials and parameters: must be a list and an object"]
    refs = list(materials) + [name for value in parameters.values() for name in find_references(value)]
    problems += [f"materials: {ref!r} is not on the bench yet; allowed: {', '.join(known)}" for ref in refs
                 if ref not in known]  # fmt: skip
    action = catalogue.find_type(step["action"]) if isinstance(step.get("action"), str) else None
    if action is None:
        allowed = ", ".join(sorted(catalogue.types))
        return [*problems, f"action: is {step.get('action')!r}; allowed: {allowed}"]
    return problems + _check_parameters(action, materials, parameters)


def _check_parameters(action: ActionType, materials: list[Any], parameters: Mapping[str, Any]) -> list[str]:
    problems = []
    if not action.min_materials <= len(materials) <= action.max_materials:
        problems.append(
            f"materials: {len(materials)} given; allowed for {action.name}: "
            f"{action.min_materials} to {action.max_materials}"
        )
    try:
        # The references are replaced by bare names, because the parameter's type expects a barcode.
        action.parse_parameters(
            Action(action.name, (), {name: strip_reference_marks(value) for name, value in parameters.items()})
        )
    except LabError as error:
        problems.append(f"parameters: {error}")
    selectors = [p.name for p in action.parameters if p.type.endswith("material_selector") and p.name in parameters]
    for name in selectors:
        if not (refs := find_references(parameters[name])) or any(ref not in materials for ref in refs):
            allowed = ", ".join(f"@{ref}" for ref in materials)
            problems.append(
                f"parameters.{name}: is {parameters[name]!r}; allowed, from the step's materials: {allowed}"
            )
    return problems


def _check_yields(yields: Any, known: list[str]) -> list[str]:
    if not isinstance(yields, Mapping) or any(
        isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < _MAX_MATERIALS
        for index in yields.values()
    ):
        return [f"yields: must map labels to positions in the outcome's new materials, from 0 to {_MAX_MATERIALS - 1}"]
    return [f"yields.{label}: occurs twice; allowed: a name no material has yet" for label in yields if label in known]


def find_references(value: Any) -> list[str]:
    """Return the material references in a parameter's value: texts such as "@sample", without the @."""
    if isinstance(value, str):
        return [value[1:]] if value.startswith("@") else []
    return [name for part in value for name in find_references(part)] if isinstance(value, list | tuple) else []


def strip_reference_marks(value: Any) -> Any:
    """Return the value with the @ removed from every material reference, so that it parses like a barcode."""
    if isinstance(value, str):
        return value.removeprefix("@")
    return [strip_reference_marks(part) for part in value] if isinstance(value, list | tuple) else value
