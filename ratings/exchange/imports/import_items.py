"""One line of an uploaded file as an item of a study: its source, what is known of it, and what raters will see."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ratings.blinding import blind_context, blind_evidence, blind_transition, payload_digest
from ratings.blinding.allow_list import targets
from ratings.exchange.imports import import_steps
from ratings.exchange.imports.import_fields import Fields
from ratings.exchange.imports.import_lines import LONGEST_TEXT, Note, hides, shown
from ratings.models import EVIDENCE, ImportedItem, Study
from ratings.protocol import StudyProtocol
from ratings.protocol.reference import find_reference

MOST_STEPS = 150
MOST_VERDICTS = 20
# What each word of `truth` states: the perturbation (None: not stated) and the truth.
TRUTHS: Mapping[Any, tuple[str | None, bool | None]] = {
    "correct": ("none", True), "none": ("none", True), "0": ("none", True), "true": (None, True),
    "type1": ("obvious", False), "obvious": ("obvious", False), "1": ("obvious", False),
    "type2": ("subtle", False), "subtle": ("subtle", False), "2": ("subtle", False),
    "false": (None, False), "": (None, None),
}  # fmt: skip
PERTURBATIONS: Mapping[str, str] = {
    "none": "none", "unperturbed": "none", "obvious": "obvious", "type1": "obvious", "subtle": "subtle", "type2": "subtle",
}  # fmt: skip
_PLACE = re.compile(r"(new_materials|new_observations)\[([0-9]{1,4})\](\..+)?", re.DOTALL)


class Blinded(NamedTuple):
    """What raters will see of an item, and how it is filed."""

    payload: dict[str, Any]
    context: dict[str, Any]
    target: list[str]
    action: str


def read(data: Mapping[str, Any], study: Study, protocol: StudyProtocol, note: Note) -> ImportedItem | None:
    """The item, not saved yet; None after its problems were noted."""
    problems: list[str] = []

    def noted(field: str, said: str) -> None:
        problems.append(said)
        note(field, said)

    fields = Fields(data, "", noted)
    key, label = fields.name("id", 120), fields.name("source", 80)
    pair, experiment = fields.name("pair", 120, needed=False), fields.name("experiment", 80, needed=False)
    origin = read_origin(fields, study.kind == EVIDENCE)
    verdicts = _verdicts(fields) if study.kind == EVIDENCE else {}
    blinded = (
        _evidence(fields, problems)
        if study.kind == EVIDENCE
        else _transition(fields, origin.has_error, protocol, problems)
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
    """What a line states of its item: `perturbation` none, obvious or subtle, None where it is not stated; and the truth."""

    perturbation: str | None
    truth: bool | None

    @property
    def has_error(self) -> bool:
        """Whether the line states that the outcome has an error."""
        return self.truth is False or self.perturbation in ("obvious", "subtle")


def read_origin(fields: Fields, evidence: bool) -> Origin:
    """Return what the fields `perturbation` and `truth` state. A contradiction between them is a problem."""
    by_truth, truth = _truth(fields, evidence)
    stated = None if evidence else _perturbation(fields)
    if stated is None:
        return Origin(by_truth, truth)
    if by_truth not in (None, stated) or (truth is True and stated != "none"):
        fields.wrong(
            "perturbation",
            f"is {shown(fields.data['perturbation'])}, but truth is {shown(fields.data['truth'])}; leave one out",
        )
    return Origin(stated, truth if stated == "none" else False)


def _perturbation(fields: Fields) -> str | None:
    """Return the stated perturbation, or None where the line states none."""
    value = fields.data.get("perturbation")
    if value is None or value == "":
        return None
    known = PERTURBATIONS.get(value.strip().lower()) if isinstance(value, str) else None
    if known is None:
        fields.wrong(
            "perturbation", f"is {shown(value)}; allowed: none, obvious, subtle, or left out where it is not known"
        )
    return known


def _truth(fields: Fields, evidence: bool) -> tuple[str | None, bool | None]:
    """Return the perturbation and the truth that `truth` states. A bare "false" states that it is wrong, not why."""
    value = fields.data.get("truth")
    if value is None:
        return None, None
    word = str(value).lower() if isinstance(value, bool | int) else value.strip().lower() if _is_text(value) else None
    known = TRUTHS.get(word)
    if known is None or (evidence and word not in ("true", "false", "")):
        allowed = "true, false" if evidence else "correct, type1, type2, true, false"
        fields.wrong("truth", f"is {shown(value)}; allowed: {allowed}, or left out where it is not known")
        return None, None
    return known


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _transition(fields: Fields, has_error: bool, protocol: StudyProtocol, problems: list[str]) -> Blinded | None:
    step, lineage = import_steps.read(fields)
    goal = fields.text("goal", needed=False)
    earlier = _steps(fields, "steps_before", needed=False)
    if True in protocol.display.context and not goal:
        fields.wrong("goal", "is missing; this study shows raters the goal and the earlier steps")
    paths = _paths(fields, has_error)
    if problems:
        return None
    *before, step = import_steps.recoded([*earlier, step])
    told = [_inside(path, step["outcome"]) for path in paths]
    target = targets(step, step["outcome"], filter(None, told), lineage=lineage)
    if not all(told) or (paths and not target):
        fields.wrong("field", f"is {shown(fields.data['field'])}; it names nothing of the outcome that raters see")
        return None
    context = blind_context(goal, before) if goal or before else {}
    return Blinded(blind_transition(step, lineage=lineage), context, target, step["action"]["name"])


def _paths(fields: Fields, has_error: bool) -> list[str]:
    """Where the error is, if the file says so: one path or several, as "new_materials[0].properties.volume"."""
    value = fields.data.get("field")
    if value in (None, "", []):
        return []
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or len(paths) > 20 or not all(isinstance(one, str) and one for one in paths):
        fields.wrong("field", f"is {shown(value)}; it must be a path of the outcome, or a list of at most 20")
        return []
    if not has_error:
        fields.wrong(
            "field", "names the place of an error, but neither perturbation nor truth states that there is one"
        )
    return [path.removeprefix("outcome.") for path in paths]


def _inside(path: str, outcome: Mapping[str, Any]) -> str:
    """The path as blinding reads it; "" if it leads nowhere. A whole thing that is there is wrong in all its rows.

    One that is not there is something missing, unless the path leads into it.
    """
    place = _PLACE.fullmatch(path)
    if place is None:
        return path if path in ("success", "failure_reason") else ""
    whole, there = not place[3], int(place[2]) < len(outcome[place[1]])
    if not there:
        return path if whole else ""
    return f"{path}.{'properties' if place[1] == 'new_materials' else 'value'}" if whole else path


def _evidence(fields: Fields, problems: list[str]) -> Blinded | None:
    goal = fields.text("goal", LONGEST_TEXT)
    steps = _steps(fields, "record")
    if "record" in fields.data and fields.data["record"] == []:
        fields.wrong("record", "holds no step")
    if problems:
        return None
    return Blinded(blind_evidence(goal, import_steps.recoded(steps)), {}, [], "")


def _steps(fields: Fields, key: str, needed: bool = True) -> list[dict[str, Any]]:
    """Steps in order of time; what a step made may be an input of a later one, under its barcode."""
    steps: list[dict[str, Any]] = []
    now = 0
    for number, entry in enumerate(fields.objects(key, MOST_STEPS, needed), start=1):
        started = entry.seconds("started_at", now)
        if started < now:
            entry.wrong("started_at", f"is {started}, before the step above it ({now}); the record must be in order")
        now = max(now, started)
        steps.append(import_steps.read(entry, number, now).step)
    return steps


def _verdicts(fields: Fields) -> dict[str, bool]:
    """What classifiers said of it: name -> sufficient."""
    said = fields.values("verdicts", MOST_VERDICTS)
    for name, value in said.items():
        if not isinstance(value, bool) or not 0 < len(name) <= 80 or hides(name):
            fields.wrong(f"verdicts.{name[:80]}", f"is {shown(value)}; it must be true (sufficient) or false")
    return said
