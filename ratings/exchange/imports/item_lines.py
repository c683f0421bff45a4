"""Parse one line of an uploaded file as an item of a study: its source, its truth, and what raters will see.

The models have the format of `check_transitions`; null means missing, and fields that are not named here are ignored.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from ratings.blinding import blind_context, blind_evidence, blind_transition, payload_digest
from ratings.blinding.allow_list import find_error_keys
from ratings.exchange.imports.json_lines import RecordProblem, has_hidden_characters
from ratings.exchange.rating_tables import format_quoted
from ratings.models import EVIDENCE, ImportedItem, Study
from ratings.protocol import StudyProtocol
from ratings.protocol.reference import find_reference
from simulation.lab.materials import AVAILABILITY, CONDITIONS, UNLIMITED, make_barcode
from wetbench_site.validation import Allowed, StrictModel, list_problems, reject, reject_parts

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
_OUR_BARCODE = re.compile(r"MAT-[A-Z0-9]{8}")
_OUTPUT_PATH = re.compile(r"(new_materials|new_observations)\[([0-9]{1,4})\](\..+)?", re.DOTALL)
_VISIBLE = "text without control characters or line breaks"
Record = dict[str, Any]


def _check_visible(text: str) -> str:
    # People compare names by eye.
    if has_hidden_characters(text):
        reject(_VISIBLE)
    return text


def _find_choice(allowed: Collection[str], value: Any) -> Any:
    """Return the allowed word that equals the value except for case, spaces and hyphens."""
    folded = {_fold(word): word for word in (*allowed, "")}
    if not isinstance(value, str) or _fold(value) not in folded:
        reject(", ".join(allowed))
    return folded[_fold(value)]


def _fold(word: str) -> str:
    return word.strip().casefold().replace(" ", "_").replace("-", "_").lstrip("_")


def _format_displayed(value: Any) -> Any:
    """Return a number as written in the file, any other value unchanged, "" if missing."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return "" if value is None else value


_Text = Annotated[str, Field(pattern=r"\S", max_length=4_000), Allowed("text of 1 to 4,000 characters")]
_LongText = Annotated[str, Field(pattern=r"\S", max_length=20_000), Allowed("text of 1 to 20,000 characters")]
_Barcode = Annotated[str, Field(pattern=r"\S", max_length=120), Allowed("text of 1 to 120 characters")]
_OptionalBarcode = Annotated[str | None, Field(max_length=120), Allowed("text of at most 120 characters")]
_Name = Annotated[
    str, AfterValidator(_check_visible), Field(pattern=r"\S", max_length=120), Allowed("text of 1 to 120 characters")
]
_ShortName = Annotated[
    str, AfterValidator(_check_visible), Field(pattern=r"\S", max_length=80), Allowed("text of 1 to 80 characters")
]
_OptionalName = Annotated[str, AfterValidator(_check_visible), Field(max_length=120)]
_OptionalShortName = Annotated[str, AfterValidator(_check_visible), Field(max_length=80)]
_Values = Annotated[dict[str, Any], Field(max_length=60), Allowed("an object with at most 60 fields")]


class _Input(StrictModel):
    """Base of the models: a null means that the field is missing, except where it has a meaning or would be dangerous."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {
            key: value for key, value in data.items() if value is not None or key in ("success", "replaces", "barcode")
        }


class _Properties(_Input):
    name: _Text
    properties: _Values = {}
    available_for_use: Annotated[str, BeforeValidator(partial(_find_choice, AVAILABILITY))] = ""
    environmental_condition: Annotated[str, BeforeValidator(partial(_find_choice, CONDITIONS))] = ""


class _Material(_Properties):
    barcode: _Barcode


class _Output(_Properties):
    barcode: _OptionalBarcode = None
    replaces: _OptionalBarcode = None

    @property
    def states_origin(self) -> bool:
        """Whether the file states what the output continues; a `replaces` of "" or null states that it is new."""
        return bool(self.model_fields_set & {"barcode", "replaces"})


class _Observation(_Input):
    description: _Text
    measurement_type: Annotated[str, Field(max_length=80)] = ""
    value: Annotated[Any, BeforeValidator(_format_displayed)] = ""


class _Action(_Input):
    name: _ShortName
    parameters: _Values = {}


class _Outcome(_Input):
    success: bool = True
    new_materials: Annotated[list[_Output], Field(max_length=100), Allowed("a list of at most 100 objects")] = []
    new_observations: Annotated[
        list[_Observation], Field(max_length=200), Allowed("a list of at most 200 objects")
    ] = []
    failure_reason: Annotated[str, Field(max_length=4_000)] = ""

    @model_validator(mode="before")
    @classmethod
    def _drop_reason_of_success(cls, data: Any) -> Any:
        if not isinstance(data, Mapping) or data.get("success", True) is not True:
            return data
        return {key: value for key, value in data.items() if key != "failure_reason"}


class _Step(_Input):
    action: _Action
    input_materials: Annotated[list[_Material], Field(max_length=100), Allowed("a list of at most 100 objects")]
    outcome: _Outcome

    @model_validator(mode="after")
    def _check_materials(self) -> Self:
        counts = Counter(material.barcode for material in self.input_materials)
        repeated = sorted(code for code, count in counts.items() if count > 1)
        problems = [("input_materials", f"the barcode {code!r} appears more than once") for code in repeated]
        sources, seen = {material.barcode: material for material in self.input_materials}, set()
        for index, (output, code) in enumerate(zip(self.outcome.new_materials, self.find_continued()[0], strict=True)):
            place, source = f"outcome.new_materials[{index}].replaces", sources.get(code)
            if output.replaces and sources and output.replaces not in sources:
                problems.append((place, f"{output.replaces!r} is not the barcode of any input"))
            is_supply = source is not None and source.available_for_use == UNLIMITED and output.states_origin
            if source and is_supply and (output.name, output.properties) != (source.name, source.properties):
                problems.append((place, f"{source.name!r} is an unlimited supply, which raters are not shown again"))
            if code and code in seen:
                problems.append((place, f"{code!r} is continued by two outputs"))
            seen.add(code)
        reject_parts(problems)
        return self

    def find_continued(self) -> tuple[list[str], bool]:
        """Return the barcode of the input that each output continues ("": none), and whether that is certain for all."""
        sources, outputs = {material.barcode: material for material in self.input_materials}, self.outcome.new_materials
        name_counts = Counter(material.name for material in (*self.input_materials, *outputs))
        by_name = {material.name: material.barcode for material in self.input_materials}
        codes = []
        for output in outputs:
            code = output.replaces or output.barcode or ""
            # If the file states no input, an output continues the input of the same name if no other material has it.
            if not output.states_origin and name_counts[output.name] == 2:
                code = by_name.get(output.name, "")
            codes.append(code if code in sources else "")
        unused = [m for m in self.input_materials if m.available_for_use != UNLIMITED and m.barcode not in codes]
        unmatched = [code for output, code in zip(outputs, codes, strict=True) if not output.states_origin and not code]
        # Uncertain only if an unmatched output could continue an input that no other output continues.
        return codes, not (unused and unmatched)

    def to_record(self, number: int = 1, started_at: int = 0) -> Record:
        """Return the step as the bench would have recorded it, in the form that `ratings.blinding.allow_list` expects."""
        codes, outputs = self.find_continued()[0], self.outcome.new_materials
        return {
            "number": number,
            "started_at": started_at,
            "ended_at": started_at,
            "action": dict(self.action),
            "inputs": [{"barcode": material.barcode, **dict(material)} for material in self.input_materials],
            "outcome": {
                "success": self.outcome.success,
                "new_materials": [_to_output(output, code) for output, code in zip(outputs, codes, strict=True)],
                "new_observations": [dict(observation) for observation in self.outcome.new_observations],
                "failure_reason": self.outcome.failure_reason,
            },
            # That of the input that the output continues, else its own in the file, else a new one.
            "barcodes": [
                code or output.barcode or make_barcode(number, "imported", index)
                for index, (output, code) in enumerate(zip(outputs, codes, strict=True))
            ],
        }  # fmt: skip


def _to_output(output: _Output, code: str) -> Record:
    fields = {key: value for key, value in output if key not in ("barcode", "replaces")}
    return {**fields, "replaces": code, "derived_from": []}


class _TimedStep(_Step):
    started_at: Annotated[float | None, Field(ge=0, le=10**9), Allowed("seconds since the start, 0 or more")] = None


def _check_order(steps: list[_TimedStep]) -> list[_TimedStep]:
    problems, time = [], 0
    for index, step in enumerate(steps):
        started = time if step.started_at is None else int(step.started_at)
        if started < time:
            message = f"is {started}, before the step above it ({time}); the record must be in order"
            problems.append((f"[{index}].started_at", message))
        time = max(time, started)
    reject_parts(problems)
    return steps


class _Line(_Input):
    id: _Name
    source: _ShortName
    pair: _OptionalName = ""
    experiment: _OptionalShortName = ""


class _TransitionLine(_Step, _Line):
    goal: Annotated[str, Field(max_length=4_000)] = ""
    steps_before: Annotated[
        list[_TimedStep], AfterValidator(_check_order), Field(max_length=150), Allowed("a list of at most 150 objects")
    ] = []


class _EvidenceLine(_Line):
    goal: _LongText
    record: Annotated[
        list[_TimedStep],
        AfterValidator(_check_order),
        Field(min_length=1, max_length=150),
        Allowed("a list of 1 to 150 objects"),
    ]
    verdicts: Annotated[dict[str, bool], Field(max_length=20), Allowed("an object with at most 20 fields")] = {}

    @field_validator("verdicts", mode="after")
    @classmethod
    def _check_classifiers(cls, verdicts: dict[str, bool]) -> dict[str, bool]:
        invalid = [name for name in verdicts if not 0 < len(name) <= 80 or has_hidden_characters(name)]
        reject_parts(
            [(name[:80], f"is the name of a classifier; it must be {_VISIBLE}, at most 80") for name in invalid]
        )
        return verdicts


class BlindedItem(NamedTuple):
    """What raters will see of an item, with its action and the location of its error."""

    payload: Record
    context: Record = {}
    target: Sequence[str] = ()
    action: str = ""


def parse_item(
    data: Mapping[str, Any], study: Study, protocol: StudyProtocol, note: RecordProblem
) -> ImportedItem | None:
    """Return the unsaved item, or None if the line has problems, which are recorded with `note`."""
    problems: list[tuple[str, str]] = []
    origin = parse_origin(data, study.kind == EVIDENCE, problems)
    paths = [] if study.kind == EVIDENCE else _parse_error_paths(data.get("field"), origin.has_error, problems)
    model = _EvidenceLine if study.kind == EVIDENCE else _TransitionLine
    line, blinded = None, None
    try:
        line = model.model_validate(data)
    except ValidationError as error:
        problems += [(problem.field, problem.message) for problem in list_problems(error, model)]
    if study.kind != EVIDENCE and True in protocol.display.context and data.get("goal") in (None, ""):
        problems.append(("goal", "is missing; this study shows raters the goal and the earlier steps"))
    if isinstance(line, _TransitionLine) and not problems:
        blinded = _blind_transition(line, paths, data.get("field"), problems)
    elif isinstance(line, _EvidenceLine) and not problems:
        blinded = BlindedItem(blind_evidence(line.goal, replace_barcodes(_to_records(line.record))))
    for field, message in problems:
        note(field, message)
    if line is None or blinded is None or problems:
        return None
    return ImportedItem(
        study=study,
        key=line.id,
        record=data,
        payload=blinded.payload,
        payload_sha256=payload_digest(blinded.payload),
        context=blinded.context,
        context_sha256=payload_digest(blinded.context),
        target=list(blinded.target),
        label=line.source,
        perturbation=origin.perturbation or "none",
        truth=origin.truth,
        reference=find_reference(origin.perturbation, origin.truth),
        pair=line.pair,
        experiment=line.experiment,
        action=blinded.action,
        verdicts=line.verdicts if isinstance(line, _EvidenceLine) else {},
    )


class Origin(NamedTuple):
    """What a line states about its item: the perturbation (none, obvious or subtle; None: not stated) and the truth."""

    perturbation: str | None
    truth: bool | None

    @property
    def has_error(self) -> bool:
        """Whether the line states that the outcome has an error."""
        return self.truth is False or self.perturbation in ("obvious", "subtle")


def parse_origin(data: Mapping[str, Any], evidence: bool, problems: list[tuple[str, str]]) -> Origin:
    """Return what the fields `perturbation` and `truth` state. Add a problem for an unknown word or a contradiction."""
    truth, perturbation = data.get("truth"), data.get("perturbation")
    word = truth.strip().lower() if isinstance(truth, str) else "" if truth is None else str(truth).lower()
    # A bare "false" states that the outcome is wrong, but not that an error was planted.
    meaning = MEANING_OF_TRUTH.get(word) if isinstance(truth, str | bool | int | None) else None
    if meaning is None or (evidence and word not in ("true", "false", "")):
        allowed = "true, false" if evidence else "correct, type1, type2, true, false"
        problems.append(("truth", f"is {format_quoted(truth)}; allowed: {allowed}; leave it out if it is not known"))
        meaning = (None, None)
    if evidence or perturbation in (None, ""):
        return Origin(*meaning)
    stated = PERTURBATION_WORDS.get(perturbation.strip().lower()) if isinstance(perturbation, str) else None
    if stated is None:
        allowed = "allowed: none, obvious, subtle; leave it out if it is not known"
        problems.append(("perturbation", f"is {format_quoted(perturbation)}; {allowed}"))
        return Origin(*meaning)
    if meaning[0] not in (None, stated) or (meaning[1] is True and stated != "none"):
        contradiction = f"is {format_quoted(perturbation)}, but truth is {format_quoted(truth)}; leave one out"
        problems.append(("perturbation", contradiction))
    return Origin(stated, meaning[1] if stated == "none" else False)


def _blind_transition(
    line: _TransitionLine, paths: Sequence[str], stated: Any, problems: list[tuple[str, str]]
) -> BlindedItem | None:
    lineage = line.find_continued()[1]
    # Replaced together: a barcode must have the same replacement in this step and in the earlier ones.
    *before, step = replace_barcodes([*_to_records(line.steps_before), line.to_record()])
    outcome_paths = [_resolve_error_path(path, step["outcome"]) for path in paths]
    # Only for lines that state a location: finding keys blinds the step once more.
    target = find_error_keys(step, step["outcome"], filter(None, outcome_paths), lineage=lineage) if paths else []
    if not all(outcome_paths) or (paths and not target):
        message = f"is {format_quoted(stated)}; no part of the outcome that raters see has this path"
        problems.append(("field", message))
        return None
    context = blind_context(line.goal, before) if line.goal or before else {}
    return BlindedItem(blind_transition(step, lineage=lineage), context, target, step["action"]["name"])


def _to_records(steps: Sequence[_TimedStep]) -> list[Record]:
    """Return the steps in order of time. A later step may use an output of an earlier one by its barcode."""
    records, time = [], 0
    for number, step in enumerate(steps, start=1):
        time = time if step.started_at is None else int(step.started_at)
        records.append(step.to_record(number, time))
    return records


def _parse_error_paths(value: Any, has_error: bool, problems: list[tuple[str, str]]) -> list[str]:
    """Return the paths of the error, such as "new_materials[0].properties.volume"; empty if not stated."""
    if value in (None, "", []):
        return []
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or len(paths) > 20 or not all(isinstance(entry, str) and entry for entry in paths):
        message = f"is {format_quoted(value)}; it must be a path in the outcome, or a list of at most 20 paths"
        problems.append(("field", message))
        return []
    if not has_error:
        message = "gives the location of an error, but neither perturbation nor truth states that there is one"
        problems.append(("field", message))
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


def replace_barcodes(steps: Sequence[Record]) -> list[Record]:
    """Return the steps with every barcode in WetBench's form, which blinding hides. Other tools use other forms."""
    materials = [m for step in steps for m in (*step["inputs"], *step["outcome"]["new_materials"])]
    barcodes = {code for step in steps for code in (*(m["barcode"] for m in step["inputs"]), *step["barcodes"])}
    foreign = [code for code in sorted(barcodes) if code and not _OUR_BARCODE.fullmatch(code)]
    codes = {code: make_barcode(0, "imported", code) for code in foreign}
    names = {material["name"] for material in materials}
    # In free text replace only what can be nothing but a barcode: a bare number could be a quantity, and a
    # material's name must stay readable.
    replaceable = {code: new for code, new in codes.items() if re.search(r"[^\W\d_]", code) and code not in names}
    # Inside a sentence only codes of five characters or more with a digit: a short one could be part of a word. The longest
    # first, since a regular expression takes the first alternative that matches.
    inside = [code for code in replaceable if len(code) >= 5 and re.search(r"\d", code)]
    words = "|".join(rf"(?<!\w){re.escape(code)}(?!\w)" for code in sorted(inside, key=len, reverse=True))

    def replace(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: replace(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [replace(inner) for inner in value]
        if not isinstance(value, str):
            return value
        if key in ("barcode", "replaces"):
            return codes.get(value, value)
        if value in replaceable or not words:
            return replaceable.get(value, value)
        return re.sub(words, lambda match: replaceable[match[0]], value)

    return [{**replace(step), "barcodes": [codes.get(code, code) for code in step["barcodes"]]} for step in steps]
