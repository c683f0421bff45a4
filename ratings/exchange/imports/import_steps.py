"""Parse the steps of an uploaded line, in the format of `check_transitions`, into the form that `ratings.blinding.allow_list` expects."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ratings.exchange.imports.import_fields import Fields
from simulation.lab.materials import AVAILABILITY, CONDITIONS, UNLIMITED, barcode

MOST_MATERIALS = 100
MOST_OBSERVATIONS = 200
MOST_PROPERTIES = 60
_OURS = re.compile(r"MAT-[A-Z0-9]{8}")

Record = dict[str, Any]


class Read(NamedTuple):
    """A step, and whether it is certain which output continues which input."""

    step: Record
    lineage: bool


def read(fields: Fields, number: int = 1, started_at: int = 0) -> Read:
    """Return the step as the bench would have recorded it. If a problem was recorded, the step must not be used."""
    outcome = fields.object("outcome")
    inputs = [_material(entry) for entry in fields.objects("input_materials", MOST_MATERIALS)]
    _once(fields, [material["barcode"] for material in inputs])
    outputs = outcome.objects("new_materials", MOST_MATERIALS, needed=False)
    new_materials, lineage = _drafts(outputs, inputs)
    success = outcome.flag("success", standing=True)
    step = {
        "number": number,
        "started_at": started_at,
        "ended_at": started_at,
        "action": _action(fields.object("action")),
        "inputs": inputs,
        "outcome": {
            "success": success,
            "new_materials": new_materials,
            "new_observations": [
                _observation(observation)
                for observation in outcome.objects("new_observations", MOST_OBSERVATIONS, needed=False)
            ],
            "failure_reason": "" if success else outcome.text("failure_reason", needed=False),
        },
        "barcodes": _barcodes(outputs, new_materials, number),
    }
    return Read(step, lineage)


def recoded(steps: Sequence[Record]) -> list[Record]:
    """Return the steps with every barcode in the form that blinding hides. Barcodes of other laboratories can have any form."""
    materials = [m for step in steps for m in (*step["inputs"], *step["outcome"]["new_materials"])]
    barcodes = {code for step in steps for code in (*(m["barcode"] for m in step["inputs"]), *step["barcodes"])}
    codes = {code: barcode(0, "imported", code) for code in sorted(barcodes) if code and not _OURS.fullmatch(code)}
    names = {material["name"] for material in materials}
    # In free text replace only what can be nothing but a barcode: a bare number could be a quantity, and a
    # material's name must stay readable.
    replaceable = {code: new for code, new in codes.items() if re.search(r"[^\W\d_]", code) and code not in names}
    return [_Renamed(codes, replaceable).step(step) for step in steps]


class _Renamed:
    """Replace barcodes: all of them in fields that contain only barcodes, and the `replaceable` ones in texts."""

    def __init__(self, codes: Mapping[str, str], spoken: Mapping[str, str]) -> None:
        self._codes, self._replaceable = codes, spoken
        # Inside a sentence only codes of five characters or more with a digit: a short one could be part
        # of a word. The longest first, since a regular expression takes the first alternative that matches.
        recognisable = sorted(
            (code for code in spoken if len(code) >= 5 and re.search(r"\d", code)), key=len, reverse=True
        )
        self._inside = (
            re.compile("|".join(rf"(?<!\w){re.escape(code)}(?!\w)" for code in recognisable)) if recognisable else None
        )

    def step(self, step: Record) -> Record:
        barcodes = [self._codes.get(code, code) for code in step["barcodes"]]
        return {**self._record(step), "barcodes": barcodes}

    def _record(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._field(key, inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._record(inner) for inner in value]
        return self._text(value) if isinstance(value, str) else value

    def _field(self, key: str, value: Any) -> Any:
        if key in ("barcode", "replaces") and isinstance(value, str):
            return self._codes.get(value, value)
        return self._record(value)

    def _text(self, text: str) -> str:
        if text in self._replaceable:
            return self._replaceable[text]
        return self._inside.sub(lambda match: self._replaceable[match.group(0)], text) if self._inside else text


def _material(entry: Fields) -> Record:
    return {
        "barcode": entry.text("barcode", 120),
        "name": entry.text("name"),
        "properties": entry.values("properties", MOST_PROPERTIES),
        "available_for_use": entry.word("available_for_use", AVAILABILITY),
        "environmental_condition": entry.word("environmental_condition", CONDITIONS),
    }


def _action(entry: Fields) -> Record:
    return {"name": entry.name("name", 80), "parameters": entry.values("parameters", MOST_PROPERTIES)}


def _observation(entry: Fields) -> Record:
    return {
        "description": entry.text("description"),
        "measurement_type": entry.text("measurement_type", 80, needed=False),
        "value": entry.written("value"),
    }


def _once(fields: Fields, codes: Sequence[str]) -> None:
    for code in sorted(code for code, count in Counter(codes).items() if code and count > 1):
        fields.wrong("input_materials", f"the barcode {code!r} appears more than once")


def _drafts(made: Sequence[Fields], inputs: Sequence[Record]) -> tuple[list[Record], bool]:
    """Return the outputs, each with the input it continues, and whether that is certain for all of them."""
    known = {material["barcode"]: material for material in inputs}
    outputs = [_draft(entry, known) for entry in made]
    is_stated = [("replaces" in entry.data or "barcode" in entry.data) for entry in made]
    name_counts = Counter(material["name"] for material in inputs) + Counter(output["name"] for output in outputs)
    by_name = {material["name"]: material["barcode"] for material in inputs}
    for output, stated in zip(outputs, is_stated, strict=True):
        # If the file does not say, only a name shared by exactly one input and one output is taken as a match.
        if not stated and output["name"] in by_name and name_counts[output["name"]] == 2:
            output["replaces"] = by_name[output["name"]]
    _no_code_twice(made, outputs)
    continued = {output["replaces"] for output in outputs}
    unused = [m for m in inputs if m["available_for_use"] != UNLIMITED and m["barcode"] not in continued]
    has_unmatched_outputs = any(
        not stated and not output["replaces"] for output, stated in zip(outputs, is_stated, strict=True)
    )
    # uncertain only if an unmatched output could continue an input that no other output continues
    return outputs, not (unused and has_unmatched_outputs)


def _draft(entry: Fields, known: Mapping[str, Record]) -> Record:
    stated_code = entry.text("replaces", 120, needed=False)
    if stated_code and known and stated_code not in known:
        entry.wrong("replaces", f"{stated_code!r} is not the barcode of any input")
    code = entry.text("barcode", 120, needed=False)
    continued = stated_code or (code if code in known else "")
    output = {**_material(_Barcoded(entry)), "replaces": continued if continued in known else "", "derived_from": []}
    del output["barcode"]
    source = known.get(output["replaces"])
    if source and source["available_for_use"] == UNLIMITED and not _alike(output, source):
        entry.wrong("replaces", f"{source['name']!r} is an unlimited supply, which raters are not shown again")
    return output


def _alike(draft: Record, source: Record) -> bool:
    return (draft["name"], draft["properties"]) == (source["name"], source["properties"])


class _Barcoded(Fields):
    """An output. Unlike an input, it may have no barcode."""

    def __init__(self, entry: Fields) -> None:
        # the parser of materials requires a barcode; the placeholder is removed from the output afterwards
        super().__init__({**entry.data, "barcode": "none"}, entry.path, entry._note)


def _no_code_twice(made: Sequence[Fields], drafts: Sequence[Record]) -> None:
    seen: set[str] = set()
    for entry, output in zip(made, drafts, strict=True):
        if output["replaces"] and output["replaces"] in seen:
            entry.wrong("replaces", f"{output['replaces']!r} is continued by two outputs")
        seen.add(output["replaces"])


def _barcodes(made: Sequence[Fields], drafts: Sequence[Record], number: int) -> list[str]:
    """Return for each output the barcode of the input it continues, its own in the file, or a new one."""
    codes = []
    for index, (entry, output) in enumerate(zip(made, drafts, strict=True)):
        own_code = entry.data.get("barcode")
        codes.append(
            output["replaces"]
            or (own_code if isinstance(own_code, str) and own_code else barcode(number, "imported", index))
        )
    return codes
