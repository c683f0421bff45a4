"""Parse one line of an uploaded file as an item of a study: its source, its truth, and what raters will see."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from ratings.blinding import blind_context, blind_evidence, blind_transition, payload_digest
from ratings.blinding.allow_list import find_error_keys
from ratings.exchange.imports.json_lines import MAX_TEXT_LENGTH, RecordProblem, format_quoted, has_hidden_characters
from ratings.models import EVIDENCE, ImportedItem, Study
from ratings.protocol import StudyProtocol
from ratings.protocol.reference import find_reference
from simulation.lab.materials import AVAILABILITY, CONDITIONS, UNLIMITED, make_barcode

_MAX_TEXT_LENGTH = 4_000


class FieldParser:
    """Parse the fields of one JSON object.

    If a field is wrong, every method records the problem with `add_problem` and still returns a usable value.
    So one pass finds all problems of a line.
    """

    def __init__(self, data: Mapping[str, Any], path: str, note: RecordProblem) -> None:
        self.data, self.path, self._note = data, path, note

    def add_problem(self, key: str, message: str) -> None:
        self._note(f"{self.path}.{key}".strip("."), message)

    def parse_text(self, key: str, max_length: int = _MAX_TEXT_LENGTH, required: bool = True) -> str:
        value = self.data.get(key)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or len(value) > max_length or (required and not value.strip()):
            problem = "is missing" if value is None else f"is {format_quoted(value)}"
            self.add_problem(key, f"{problem}; it must be text of {int(required)} to {max_length:,} characters")
            return ""
        return value

    def parse_name(self, key: str, max_length: int, required: bool = True) -> str:
        """Return a name: text on one line without invisible characters, because people compare names by eye."""
        value = self.parse_text(key, max_length, required)
        if has_hidden_characters(value):
            self.add_problem(key, f"is {format_quoted(value)}; it must not contain control characters or line breaks")
        return value

    def get_displayed_value(self, key: str) -> Any:
        """Return the value for display: a number as written in the file, any other value unchanged, "" if missing."""
        value = self.data.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        return "" if value is None else value

    def parse_choice(self, key: str, allowed: Collection[str]) -> str:
        """Return the allowed word that equals the field except for case, spaces and hyphens; "" if it is missing."""
        value = self.data.get(key)
        if value is None or value == "":
            return ""
        folded = {_normalise_word(word): word for word in allowed}
        if not isinstance(value, str) or _normalise_word(value) not in folded:
            self.add_problem(key, f"is {format_quoted(value)}; allowed: {', '.join(allowed)}")
            return ""
        return folded[_normalise_word(value)]

    def parse_flag(self, key: str, default: bool) -> bool:
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            self.add_problem(key, f"is {format_quoted(value)}; it must be true or false")
        return value is True

    def parse_seconds(self, key: str, default: int) -> int:
        value = self.data.get(key, default)
        # bool is a subclass of int; NaN fails the comparison
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 10**9:
            self.add_problem(key, f"is {format_quoted(value)}; it must be seconds since the start, 0 or more")
            return default
        return int(value)

    def parse_object(self, key: str, required: bool = True) -> "FieldParser":
        value = self.data.get(key)
        if isinstance(value, Mapping) or (value is None and not required):
            return FieldParser(value or {}, f"{self.path}.{key}".strip("."), self._note)
        self.add_problem(key, "is missing; it must be an object" if value is None else "must be an object")
        return FieldParser({}, "", lambda field, message: None)  # do not report its missing fields as well

    def parse_objects(self, key: str, max_entries: int, required: bool = True) -> list["FieldParser"]:
        value = self.data.get(key)
        if value is None and not required:
            return []
        if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
            self.add_problem(key, "is missing; it must be a list" if value is None else "must be a list of objects")
            return []
        if len(value) > max_entries:
            self.add_problem(key, f"has {len(value)} entries; at most {max_entries} can be shown")
            return []
        path = f"{self.path}.{key}".strip(".")
        return [FieldParser(entry, f"{path}[{index}]", self._note) for index, entry in enumerate(value)]

    def parse_values(self, key: str, max_entries: int) -> dict[str, Any]:
        """Return an object whose values may have any type; raters see them as written in the file."""
        values = dict(self.parse_object(key, required=False).data)
        if len(values) > max_entries:
            self.add_problem(key, f"has {len(values)} entries; at most {max_entries} can be shown")
            return {}
        return values


def _normalise_word(word: str) -> str:
    return word.strip().casefold().replace(" ", "_").replace("-", "_").lstrip("_")


MAX_MATERIALS = 100
MAX_OBSERVATIONS = 200
MAX_PROPERTIES = 60
_OUR_BARCODE = re.compile(r"MAT-[A-Z0-9]{8}")

Record = dict[str, Any]


class ParsedStep(NamedTuple):
    """A step, and whether it is certain which output continues which input."""

    step: Record
    lineage: bool


def parse_step(fields: FieldParser, number: int = 1, started_at: int = 0) -> ParsedStep:
    """Return the step as the bench would have recorded it. If a problem was recorded, the step must not be used."""
    outcome = fields.parse_object("outcome")
    inputs = [_parse_material(entry) for entry in fields.parse_objects("input_materials", MAX_MATERIALS)]
    _check_barcodes_are_unique(fields, [material["barcode"] for material in inputs])
    outputs = outcome.parse_objects("new_materials", MAX_MATERIALS, required=False)
    new_materials, lineage = _parse_outputs(outputs, inputs)
    success = outcome.parse_flag("success", default=True)
    step = {
        "number": number,
        "started_at": started_at,
        "ended_at": started_at,
        "action": _parse_action(fields.parse_object("action")),
        "inputs": inputs,
        "outcome": {
            "success": success,
            "new_materials": new_materials,
            "new_observations": [
                _parse_observation(observation)
                for observation in outcome.parse_objects("new_observations", MAX_OBSERVATIONS, required=False)
            ],
            "failure_reason": "" if success else outcome.parse_text("failure_reason", required=False),
        },
        "barcodes": _list_output_barcodes(outputs, new_materials, number),
    }
    return ParsedStep(step, lineage)


def replace_barcodes(steps: Sequence[Record]) -> list[Record]:
    """Return the steps with every barcode in WetBench's form, which blinding hides. Other tools use other forms."""
    materials = [m for step in steps for m in (*step["inputs"], *step["outcome"]["new_materials"])]
    barcodes = {code for step in steps for code in (*(m["barcode"] for m in step["inputs"]), *step["barcodes"])}
    codes = {
        code: make_barcode(0, "imported", code)
        for code in sorted(barcodes)
        if code and not _OUR_BARCODE.fullmatch(code)
    }
    names = {material["name"] for material in materials}
    # In free text replace only what can be nothing but a barcode: a bare number could be a quantity, and a
    # material's name must stay readable.
    replaceable = {code: new for code, new in codes.items() if re.search(r"[^\W\d_]", code) and code not in names}
    return [_BarcodeReplacer(codes, replaceable).replace_in_step(step) for step in steps]


class _BarcodeReplacer:
    """Replace barcodes: all of them in fields that contain only barcodes, and the `replaceable` ones in texts."""

    def __init__(self, codes: Mapping[str, str], replaceable: Mapping[str, str]) -> None:
        self._codes, self._replaceable = codes, replaceable
        # Inside a sentence only codes of five characters or more with a digit: a short one could be part
        # of a word. The longest first, since a regular expression takes the first alternative that matches.
        recognisable = sorted(
            (code for code in replaceable if len(code) >= 5 and re.search(r"\d", code)), key=len, reverse=True
        )
        self._inside = (
            re.compile("|".join(rf"(?<!\w){re.escape(code)}(?!\w)" for code in recognisable)) if recognisable else None
        )

    def replace_in_step(self, step: Record) -> Record:
        barcodes = [self._codes.get(code, code) for code in step["barcodes"]]
        return {**self._replace_in_value(step), "barcodes": barcodes}

    def _replace_in_value(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._replace_in_field(key, inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._replace_in_value(inner) for inner in value]
        return self._replace_in_text(value) if isinstance(value, str) else value

    def _replace_in_field(self, key: str, value: Any) -> Any:
        if key in ("barcode", "replaces") and isinstance(value, str):
            return self._codes.get(value, value)
        return self._replace_in_value(value)

    def _replace_in_text(self, text: str) -> str:
        if text in self._replaceable:
            return self._replaceable[text]
        return self._inside.sub(lambda match: self._replaceable[match.group(0)], text) if self._inside else text


def _parse_material(entry: FieldParser) -> Record:
    return {
        "barcode": entry.parse_text("barcode", 120),
        "name": entry.parse_text("name"),
        "properties": entry.parse_values("properties", MAX_PROPERTIES),
        "available_for_use": entry.parse_choice("available_for_use", AVAILABILITY),
        "environmental_condition": entry.parse_choice("environmental_condition", CONDITIONS),
    }


def _parse_action(entry: FieldParser) -> Record:
    return {"name": entry.parse_name("name", 80), "parameters": entry.parse_values("parameters", MAX_PROPERTIES)}


def _parse_observation(entry: FieldParser) -> Record:
    return {
        "description": entry.parse_text("description"),
        "measurement_type": entry.parse_text("measurement_type", 80, required=False),
        "value": entry.get_displayed_value("value"),
    }


def _check_barcodes_are_unique(fields: FieldParser, codes: Sequence[str]) -> None:
    for code in sorted(code for code, count in Counter(codes).items() if code and count > 1):
        fields.add_problem("input_materials", f"the barcode {code!r} appears more than once")


def _parse_outputs(entries: Sequence[FieldParser], inputs: Sequence[Record]) -> tuple[list[Record], bool]:
    """Return the outputs, each with the input it continues, and whether that is certain for all of them."""
    known = {material["barcode"]: material for material in inputs}
    outputs = [_parse_output(entry, known) for entry in entries]
    is_stated = [("replaces" in entry.data or "barcode" in entry.data) for entry in entries]
    name_counts = Counter(material["name"] for material in inputs) + Counter(output["name"] for output in outputs)
    by_name = {material["name"]: material["barcode"] for material in inputs}
    for output, stated in zip(outputs, is_stated, strict=True):
        # If the file states no input, an output continues the input of the same name if no other material has it.
        if not stated and output["name"] in by_name and name_counts[output["name"]] == 2:
            output["replaces"] = by_name[output["name"]]
    _check_inputs_continue_once(entries, outputs)
    continued = {output["replaces"] for output in outputs}
    unused = [m for m in inputs if m["available_for_use"] != UNLIMITED and m["barcode"] not in continued]
    has_unmatched_outputs = any(
        not stated and not output["replaces"] for output, stated in zip(outputs, is_stated, strict=True)
    )
    # uncertain only if an unmatched output could continue an input that no other output continues
    return outputs, not (unused and has_unmatched_outputs)


def _parse_output(entry: FieldParser, known: Mapping[str, Record]) -> Record:
    stated_code = entry.parse_text("replaces", 120, required=False)
    if stated_code and known and stated_code not in known:
        entry.add_problem("replaces", f"{stated_code!r} is not the barcode of any input")
    code = entry.parse_text("barcode", 120, required=False)
    continued = stated_code or (code if code in known else "")
    output = {
        **_parse_material(_OptionalBarcode(entry)),
        "replaces": continued if continued in known else "",
        "derived_from": [],
    }
    del output["barcode"]
    source = known.get(output["replaces"])
    if source and source["available_for_use"] == UNLIMITED and not _is_unchanged(output, source):
        entry.add_problem("replaces", f"{source['name']!r} is an unlimited supply, which raters are not shown again")
    return output


def _is_unchanged(output: Record, source: Record) -> bool:
    return (output["name"], output["properties"]) == (source["name"], source["properties"])


class _OptionalBarcode(FieldParser):
    """An output. Unlike an input, it may have no barcode."""

    def __init__(self, entry: FieldParser) -> None:
        # the parser of materials requires a barcode; the placeholder is removed from the output afterwards
        super().__init__({**entry.data, "barcode": "none"}, entry.path, entry._note)


def _check_inputs_continue_once(entries: Sequence[FieldParser], outputs: Sequence[Record]) -> None:
    seen: set[str] = set()
    for entry, output in zip(entries, outputs, strict=True):
        if output["replaces"] and output["replaces"] in seen:
            entry.add_problem("replaces", f"{output['replaces']!r} is continued by two outputs")
        seen.add(output["replaces"])


def _list_output_barcodes(entries: Sequence[FieldParser], outputs: Sequence[Record], number: int) -> list[str]:
    """Return the barcode of each output: that of the input it continues, else its own in the file, else a new one."""
    codes = []
    for index, (entry, output) in enumerate(zip(entries, outputs, strict=True)):
        own_code = entry.data.get("barcode")
        codes.append(
            output["replaces"]
            or (own_code if isinstance(own_code, str) and own_code else make_barcode(number, "imported", index))
        )
    return codes


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
    step, lineage = parse_step(fields)
    goal = fields.parse_text("goal", required=False)
    earlier = _parse_steps(fields, "steps_before", needed=False)
    if True in protocol.display.context and not goal:
        fields.add_problem("goal", "is missing; this study shows raters the goal and the earlier steps")
    paths = _parse_error_paths(fields, has_error)
    if problems:
        return None
    # replaced together: a barcode must have the same replacement in this step and in the earlier ones
    *before, step = replace_barcodes([*earlier, step])
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
    return BlindedItem(blind_evidence(goal, replace_barcodes(steps)), {}, [], "")


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
        steps.append(parse_step(entry, number, time).step)
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
