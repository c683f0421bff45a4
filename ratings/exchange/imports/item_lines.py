"""Parse one line of an uploaded file as an item of a study: its source, its truth, and what raters will see."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ratings.blinding import blind_context, blind_evidence, blind_transition, payload_digest
from ratings.blinding.allow_list import find_error_keys
from ratings.exchange.imports import step_lines
from ratings.exchange.imports.field_parser import FieldParser
from ratings.exchange.imports.json_lines import MAX_TEXT_LENGTH, RecordProblem, format_quoted, has_hidden_characters
from ratings.models import EVIDENCE, ImportedItem, Study
from ratings.protocol import StudyProtocol
from ratings.protocol.reference import find_reference

MAX_STEPS = 150
MAX_VERDICTS = 20
# The meaning of each word in `truth`: the perturbation (None: not stated) and the truth (None: not known).
MEANING_OF_TRUTH: Mapping[Any, tuple[str | None, bool | None]] = {
    "correct": ("none", True), "none": ("none", True), "0": ("none", True), "true": (None, True),
    "type1": ("obvious", False), "obvious": ("obvious", False), "1": ("obvious", False),
    "type2": ("subtle", False), "subtle": ("subtle", False), "2": ("subtle", False),
    "false": (None, False), "": (None, None),
}  # fmt: skip
PERTURBATION_WORDS: Mapping[str, str] = {
    "none": "none", "unperturbed": "none", "obvious": "obvious", "type1": "obvious", "subtle": "subtle", "type2": "subtle",
}  # fmt: skip
_OUTPUT_PATH = re.compile(r"(new_materials|new_observations)\[([0-9]{1,4})\](\..+)?", re.DOTALL)


class BlindedItem(NamedTuple):
    """What raters will see of an item, with its action and the location of its error."""

    payload: dict[str, Any]
    context: dict[str, Any]
    target: list[str]
    action: str


def parse_item(
    data: Mapping[str, Any], study: Study, protocol: StudyProtocol, note: RecordProblem
) -> ImportedItem | None:
    """Return the unsaved item, or None if the line has problems, which are recorded with `note`."""
    problems: list[str] = []

    def record_problem(field: str, message: str) -> None:
        problems.append(message)
        note(field, message)

    fields = FieldParser(data, "", record_problem)
    key, label = fields.parse_name("id", 120), fields.parse_name("source", 80)
    pair, experiment = (
        fields.parse_name("pair", 120, required=False),
        fields.parse_name("experiment", 80, required=False),
    )
    origin = parse_origin(fields, study.kind == EVIDENCE)
    verdicts = _parse_verdicts(fields) if study.kind == EVIDENCE else {}
    blinded = (
        _parse_evidence(fields, problems)
        if study.kind == EVIDENCE
        else _parse_transition(fields, origin.has_error, protocol, problems)
    )
    if blinded is None:
        return None
    return ImportedItem(
        study=study,
        key=key,
        record=data,
        payload=blinded.payload,
        payload_sha256=payload_digest(blinded.payload),
        context=blinded.context,
        context_sha256=payload_digest(blinded.context),
        target=blinded.target,
        label=label,
        perturbation=origin.perturbation or "none",
        truth=origin.truth,
        reference=find_reference(origin.perturbation, origin.truth),
        pair=pair,
        experiment=experiment,
        action=blinded.action,
        verdicts=verdicts,
    )


class Origin(NamedTuple):
    """What a line states about its item: the perturbation (none, obvious or subtle; None: not stated) and the truth."""

    perturbation: str | None
    truth: bool | None

    @property
    def has_error(self) -> bool:
        """Whether the line states that the outcome has an error."""
        return self.truth is False or self.perturbation in ("obvious", "subtle")


def parse_origin(fields: FieldParser, evidence: bool) -> Origin:
    """Return what the fields `perturbation` and `truth` state. Record a problem if they contradict each other."""
    implied, truth = _parse_truth(fields, evidence)
    stated = None if evidence else _parse_perturbation(fields)
    if stated is None:
        return Origin(implied, truth)
    if implied not in (None, stated) or (truth is True and stated != "none"):
        fields.add_problem(
            "perturbation",
            f"is {format_quoted(fields.data['perturbation'])}, but truth is {format_quoted(fields.data['truth'])}; leave one out",
        )
    return Origin(stated, truth if stated == "none" else False)


def _parse_perturbation(fields: FieldParser) -> str | None:
    """Return the stated perturbation, or None if the line states none."""
    value = fields.data.get("perturbation")
    if value is None or value == "":
        return None
    known = PERTURBATION_WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        fields.add_problem(
            "perturbation",
            f"is {format_quoted(value)}; allowed: none, obvious, subtle; leave it out if it is not known",
        )
    return known


def _parse_truth(fields: FieldParser, evidence: bool) -> tuple[str | None, bool | None]:
    """Return the perturbation and the truth that the field `truth` states."""
    value = fields.data.get("truth")
    if value is None:
        return None, None
    word = str(value).lower() if isinstance(value, bool | int) else value.strip().lower() if _is_text(value) else None
    # a bare "false" states that the outcome is wrong, but not that an error was planted
    known = MEANING_OF_TRUTH.get(word)
    if known is None or (evidence and word not in ("true", "false", "")):
        allowed = "true, false" if evidence else "correct, type1, type2, true, false"
        fields.add_problem("truth", f"is {format_quoted(value)}; allowed: {allowed}; leave it out if it is not known")
        return None, None
    return known


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _parse_transition(
    fields: FieldParser, has_error: bool, protocol: StudyProtocol, problems: list[str]
) -> BlindedItem | None:
    step, lineage = step_lines.parse_step(fields)
    goal = fields.parse_text("goal", required=False)
    earlier = _parse_steps(fields, "steps_before", needed=False)
    if True in protocol.display.context and not goal:
        fields.add_problem("goal", "is missing; this study shows raters the goal and the earlier steps")
    paths = _parse_error_paths(fields, has_error)
    if problems:
        return None
    # replaced together: a barcode must have the same replacement in this step and in the earlier ones
    *before, step = step_lines.replace_barcodes([*earlier, step])
    outcome_paths = [_resolve_error_path(path, step["outcome"]) for path in paths]
    target = find_error_keys(step, step["outcome"], filter(None, outcome_paths), lineage=lineage)
    if not all(outcome_paths) or (paths and not target):
        fields.add_problem(
            "field", f"is {format_quoted(fields.data['field'])}; no part of the outcome that raters see has this path"
        )
        return None
    context = blind_context(goal, before) if goal or before else {}
    return BlindedItem(blind_transition(step, lineage=lineage), context, target, step["action"]["name"])


def _parse_error_paths(fields: FieldParser, has_error: bool) -> list[str]:
    """Return the paths of the error, such as "new_materials[0].properties.volume"; empty if not stated."""
    value = fields.data.get("field")
    if value in (None, "", []):
        return []
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or len(paths) > 20 or not all(isinstance(entry, str) and entry for entry in paths):
        fields.add_problem(
            "field", f"is {format_quoted(value)}; it must be a path in the outcome, or a list of at most 20 paths"
        )
        return []
    if not has_error:
        fields.add_problem(
            "field", "gives the location of an error, but neither perturbation nor truth states that there is one"
        )
    return [path.removeprefix("outcome.") for path in paths]


def _resolve_error_path(path: str, outcome: Mapping[str, Any]) -> str:
    """Return the path in the form that blinding expects, or "" if it is not a valid path of this outcome.

    The path of a complete output means that all its rows are wrong. If the outcome has no output of that number, the
    error is that the output is missing.
    """
    match = _OUTPUT_PATH.fullmatch(path)
    if match is None:
        return path if path in ("success", "failure_reason") else ""
    is_complete, exists = not match[3], int(match[2]) < len(outcome[match[1]])
    if not exists:
        return path if is_complete else ""
    return f"{path}.{'properties' if match[1] == 'new_materials' else 'value'}" if is_complete else path


def _parse_evidence(fields: FieldParser, problems: list[str]) -> BlindedItem | None:
    goal = fields.parse_text("goal", MAX_TEXT_LENGTH)
    steps = _parse_steps(fields, "record")
    if "record" in fields.data and fields.data["record"] == []:
        fields.add_problem("record", "has no steps")
    if problems:
        return None
    return BlindedItem(blind_evidence(goal, step_lines.replace_barcodes(steps)), {}, [], "")


def _parse_steps(fields: FieldParser, key: str, needed: bool = True) -> list[dict[str, Any]]:
    """Return the steps in order of time. A later step may use an output of an earlier one by its barcode."""
    steps: list[dict[str, Any]] = []
    time = 0
    for number, entry in enumerate(fields.parse_objects(key, MAX_STEPS, needed), start=1):
        started = entry.parse_seconds("started_at", time)
        if started < time:
            entry.add_problem(
                "started_at", f"is {started}, before the step above it ({time}); the record must be in order"
            )
        time = max(time, started)
        steps.append(step_lines.parse_step(entry, number, time).step)
    return steps


def _parse_verdicts(fields: FieldParser) -> dict[str, bool]:
    """Return the verdicts of classifiers by name; true means sufficient."""
    verdicts = fields.parse_values("verdicts", MAX_VERDICTS)
    for name, value in verdicts.items():
        if not isinstance(value, bool) or not 0 < len(name) <= 80 or has_hidden_characters(name):
            fields.add_problem(
                f"verdicts.{name[:80]}", f"is {format_quoted(value)}; it must be true (sufficient) or false"
            )
    return verdicts
