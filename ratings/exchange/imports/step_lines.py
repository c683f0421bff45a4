"""Parse the steps of an uploaded line, in the format of `check_transitions`, into the form that `ratings.blinding.allow_list` expects."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ratings.exchange.imports.field_parser import FieldParser
from simulation.lab.materials import AVAILABILITY, CONDITIONS, UNLIMITED, make_barcode

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
