"""A step for a page: what was done, what changed, what was observed. The simulator's hidden ledger is not included."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from simulation.lab.bench import step_from_json
from simulation.lab.materials import CONDITION_NAMES
from simulation.lab.name_ranges import fold_names, group_names
from simulation.lab.notation import write_text, write_value
from simulation.lab.observation_tables import GroupedObservations, group_observations
from simulation.lab.outcomes import RejectedBy
from simulation.lab.roles import TranscriptStep
from simulation.models import Transition

_VALUE_LABELS = {
    "available_for_further_use": "available",
    "not_available_for_further_use": "used up",
    "unlimited": "unlimited",
    **CONDITION_NAMES,
}
_REJECTION_TEXTS = {
    RejectedBy.PARSER: "The action could not be parsed, so nothing was tried.",
    RejectedBy.CATALOGUE: "The action catalogue rejected it before anything was simulated.",
    RejectedBy.TRANSITION_MODEL: "The transition model rejected it.",
}


class PropertyRow(NamedTuple):
    """One property; `before` or `after` is empty where the material did not exist."""

    name: str
    before: str
    after: str
    changed: bool


class MaterialRow(NamedTuple):
    """A material through one step: kept, changed, new or used up."""

    barcodes: tuple[str, ...]  # of several materials if the step did the same to all of them
    name: str
    fate: str
    origins: tuple[str, ...]
    changed: list[PropertyRow]
    same: list[PropertyRow]


class CheckerReport(NamedTuple):
    """The checker's verdict, its errors and warnings with their titles, and the number of undecided checks."""

    verdict: str
    findings: list[Mapping[str, Any]]
    undecided: int


class StepView(NamedTuple):
    row: Transition
    number: int
    action: str
    start: str
    took: str
    parameters: list[tuple[str, str]]
    lanes: list[MaterialRow]
    observations: GroupedObservations
    rejected: str
    refuser: str
    fidelity: str
    reasoning: str
    checked: CheckerReport | None


def build_step_view(row: Transition) -> StepView:
    """Return everything a page shows of a stored step, without a query."""
    step = step_from_json(row.step)
    transcript_step = step.to_transcript()
    names = {material.barcode: material.name for material in step.inputs}
    parameters = step.action.parameters.items()
    return StepView(
        row=row,
        number=row.number,
        action=row.action_name,
        start=format_clock(step.started_at),
        took=format_duration(step.ended_at - step.started_at),
        parameters=[(humanise_name(name), _format_with_names(value, names)) for name, value in parameters],
        lanes=_fold_equal(_align_materials(transcript_step)),
        observations=group_observations([_write_observation(seen) for seen in transcript_step.observations]),
        rejected=transcript_step.rejected,
        refuser=_REJECTION_TEXTS.get(RejectedBy(row.rejected_by), "") if not row.accepted else "",
        fidelity=step.outcome.fidelity,
        reasoning=step.outcome.reasoning,
        checked=build_checker_report(row.findings),
    )


def build_checker_report(report: Mapping[str, Any] | None) -> CheckerReport | None:
    """Return a stored report for people; None if the step was never checked."""
    if not report:
        return None
    from simulation.checker.checks import CHECK_TITLES  # imports every check, which few pages need

    # Findings without a verdict are counted only: listing them would hide the errors.
    decided = [finding for finding in report["findings"] if finding["severity"] != "info"]
    findings: list[Any] = [{**finding, "law": CHECK_TITLES.get(finding["code"], "")} for finding in decided]
    return CheckerReport(report["verdict"], findings, len(report["findings"]) - len(findings))


def format_clock(seconds: int) -> str:
    """Return the time since the episode began, as day and hh:mm:ss."""
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"day {days + 1}, {text}" if days else text  # day 1 is not written


def format_duration(seconds: int) -> str:
    """Return a duration in its two largest units; "" for zero."""
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])  # two units are precise enough for a duration


def humanise_name(name: str) -> str:
    """Return a field's name for people."""
    return re.sub(r"\bph\b", "pH", name.replace("_", " "))


def format_value(value: Any) -> str:
    """Return a value as text, unchanged if it is text already."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(format_value(part) for part in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{humanise_name(str(key))}: {format_value(part)}" for key, part in value.items())
    return "" if value is None else str(value)


def _format_with_names(value: Any, names: Mapping[str, str]) -> str:
    """Return a parameter's value; barcodes of materials in the step are preceded by their names."""
    if isinstance(value, list):
        known = [names[part] for part in value if isinstance(part, str) and part in names]
        folded = fold_names(known)
        # "HeLa wells 1 to 18" instead of eighteen names; the barcodes are with the materials below.
        if len(known) == len(value) and len(folded) < len(known):
            return ", ".join(folded)
        return ", ".join(_format_with_names(part, names) for part in value)
    if isinstance(value, str) and value in names:
        return f"{names[value]} ({value})"
    return write_value(display_value(format_value(value)))


def _write_observation(seen: Mapping[str, Any]) -> dict[str, str]:
    return {
        "type": str(seen["measurement_type"]),
        "description": write_text(str(seen["description"])),
        "value": write_value(format_value(seen["value"])),
    }


def _fold_equal(lanes: Sequence[MaterialRow]) -> list[MaterialRow]:
    """Return the materials, with those that differ only in the number of their name as one: "HeLa wells 1 to 18"."""
    groups: dict[str, list[MaterialRow]] = {}
    for lane in lanes:
        groups.setdefault(repr(lane._replace(barcodes=(), name="")), []).append(lane)
    folded = []
    for group in groups.values():
        for entry in group_names(lane.name for lane in group):
            barcodes = tuple(code for at in entry.positions for code in group[at].barcodes)
            folded.append(
                (lanes.index(group[entry.positions[0]]), group[0]._replace(barcodes=barcodes, name=entry.name))
            )
    return [lane for _, lane in sorted(folded, key=lambda entry: entry[0])]


def _align_materials(step: TranscriptStep) -> list[MaterialRow]:
    """Return each output beside the input it continues; then the inputs that no output continues."""
    inputs = {material["barcode"]: material for material in step.inputs}
    names = {code: str(material["name"]) for code, material in inputs.items()}
    lanes, continued = [], set()
    for output in step.outputs:
        continued.add(output["replaces"])
        before = inputs.get(output["replaces"])
        # The input that it replaces is shown beside it; origins are the others.
        origins = tuple(names[code] for code in output["derived_from"] if code in names and code != output["replaces"])
        lanes.append(_make_material_row(before, output, "changed" if before else "new", origins))
    for code, material in inputs.items():
        if code not in continued:
            unlimited = material["available_for_use"] == "unlimited"
            # A rejected action changes nothing, and an unlimited supply is never used up.
            fate = "unchanged" if step.rejected or unlimited else "used up"
            lanes.append(_make_material_row(material, material if fate == "unchanged" else None, fate, ()))
    return lanes


def _make_material_row(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, fate: str, origins: tuple[str, ...]
) -> MaterialRow:
    old, new = _list_properties(before), _list_properties(after)
    rows = []
    # New properties in the order of the outcome, then those that have disappeared.
    for name in dict.fromkeys((*new, *old)):
        had, has = old.get(name), new.get(name)
        rows.append(PropertyRow(humanise_name(name), had or "", has or "", had != has))
    changed = [row for row in rows if row.changed] if fate == "changed" else rows if fate == "new" else []
    # A material that is returned without any change is called unchanged.
    final_fate = fate if fate != "changed" or changed else "unchanged"
    material, same = after or before or {}, [row for row in rows if row not in changed]
    return MaterialRow(
        (str(material["barcode"]),), write_text(str(material["name"])), final_fate, origins, changed, same
    )


def _list_properties(material: Mapping[str, Any] | None) -> dict[str, str]:
    """Return everything that a card about the material shows, in reading order."""
    if material is None:
        return {}
    properties = {key: write_value(format_value(value), key) for key, value in material["properties"].items()}
    return {
        **properties,
        "storage": display_value(material["environmental_condition"]),
        "supply": display_value(material["available_for_use"]),
        "kind": str(material["material_type"]),
    }


def display_value(text: Any) -> str:
    """Return the display text of a closed value (availability, condition); anything else unchanged."""
    return _VALUE_LABELS.get(str(text), str(text))
