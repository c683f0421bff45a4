"""Steps of an uploaded line, in the contract of `check_transitions`, as `ratings.blinding.allow_list` takes them."""

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
    """A step, and whether it is certain which output goes on from which input."""

    step: Record
    lineage: bool


def read(fields: Fields, number: int = 1, started_at: int = 0) -> Read:
    """The step as the bench would have recorded it. Where something is wrong it was noted, and the step is of no use."""
    outcome = fields.object("outcome")
    inputs = [_material(entry) for entry in fields.objects("input_materials", MOST_MATERIALS)]
    _once(fields, [material["barcode"] for material in inputs])
    made = outcome.objects("new_materials", MOST_MATERIALS, needed=False)
    drafts, lineage = _drafts(made, inputs)
    success = outcome.flag("success", standing=True)
    step = {
        "number": number,
        "started_at": started_at,
        "ended_at": started_at,
        "action": _action(fields.object("action")),
        "inputs": inputs,
        "outcome": {
            "success": success,
            "new_materials": drafts,
            "new_observations": [
                _observation(seen) for seen in outcome.objects("new_observations", MOST_OBSERVATIONS, needed=False)
            ],
            "failure_reason": "" if success else outcome.text("failure_reason", needed=False),
        },
        "barcodes": _barcodes(made, drafts, number),
    }
    return Read(step, lineage)


def recoded(steps: Sequence[Record]) -> list[Record]:
    """The steps with every barcode in the form that blinding hides: those of other laboratories may look like anything.

    In texts only what can be nothing but a barcode is replaced: no bare number, and no material's own name.
    """
    materials = [m for step in steps for m in (*step["inputs"], *step["outcome"]["new_materials"])]
    given = {code for step in steps for code in (*(m["barcode"] for m in step["inputs"]), *step["barcodes"])}
    codes = {code: barcode(0, "imported", code) for code in sorted(given) if code and not _OURS.fullmatch(code)}
    names = {material["name"] for material in materials}
    spoken = {code: new for code, new in codes.items() if re.search(r"[^\W\d_]", code) and code not in names}
    return [_Renamed(codes, spoken).step(step) for step in steps]


class _Renamed:
    """Puts new barcodes in the place of others: everywhere where only a barcode can stand, and in texts those `spoken`."""

    def __init__(self, codes: Mapping[str, str], spoken: Mapping[str, str]) -> None:
        self._codes, self._spoken = codes, spoken
        telling = sorted((code for code in spoken if len(code) >= 5 and re.search(r"\d", code)), key=len, reverse=True)
        self._inside = re.compile("|".join(rf"(?<!\w){re.escape(code)}(?!\w)" for code in telling)) if telling else None

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
        if text in self._spoken:
            return self._spoken[text]
        return self._inside.sub(lambda match: self._spoken[match.group(0)], text) if self._inside else text


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
        fields.wrong("input_materials", f"the barcode {code!r} stands there more than once")


def _drafts(made: Sequence[Fields], inputs: Sequence[Record]) -> tuple[list[Record], bool]:
    """Outputs with what each goes on from. Where the file does not say, only a name that fits nothing else does."""
    known = {material["barcode"]: material for material in inputs}
    drafts = [_draft(entry, known) for entry in made]
    told = [("replaces" in entry.data or "barcode" in entry.data) for entry in made]
    named = Counter(material["name"] for material in inputs) + Counter(draft["name"] for draft in drafts)
    by_name = {material["name"]: material["barcode"] for material in inputs}
    for draft, certain in zip(drafts, told, strict=True):
        if not certain and draft["name"] in by_name and named[draft["name"]] == 2:
            draft["replaces"] = by_name[draft["name"]]
    _no_code_twice(made, drafts)
    gone_on = {draft["replaces"] for draft in drafts}
    left = [m for m in inputs if m["available_for_use"] != UNLIMITED and m["barcode"] not in gone_on]
    open_ends = any(not certain and not draft["replaces"] for draft, certain in zip(drafts, told, strict=True))
    return drafts, not (left and open_ends)


def _draft(entry: Fields, known: Mapping[str, Record]) -> Record:
    said = entry.text("replaces", 120, needed=False)
    if said and known and said not in known:
        entry.wrong("replaces", f"{said!r} is the barcode of no input")
    code = entry.text("barcode", 120, needed=False)
    goes_on = said or (code if code in known else "")
    draft = {**_material(_Barcoded(entry)), "replaces": goes_on if goes_on in known else "", "derived_from": []}
    del draft["barcode"]
    source = known.get(draft["replaces"])
    if source and source["available_for_use"] == UNLIMITED and not _alike(draft, source):
        entry.wrong("replaces", f"{source['name']!r} is an unlimited supply, which raters are not shown again")
    return draft


def _alike(draft: Record, source: Record) -> bool:
    return (draft["name"], draft["properties"]) == (source["name"], source["properties"])


class _Barcoded(Fields):
    """An output: unlike an input it may come without a barcode."""

    def __init__(self, entry: Fields) -> None:
        super().__init__({**entry.data, "barcode": "none"}, entry.place, entry._note)


def _no_code_twice(made: Sequence[Fields], drafts: Sequence[Record]) -> None:
    seen: set[str] = set()
    for entry, draft in zip(made, drafts, strict=True):
        if draft["replaces"] and draft["replaces"] in seen:
            entry.wrong("replaces", f"{draft['replaces']!r} is handed back twice")
        seen.add(draft["replaces"])


def _barcodes(made: Sequence[Fields], drafts: Sequence[Record], number: int) -> list[str]:
    """Of each output: what it goes on from, what the file calls it, or a new one."""
    codes = []
    for at, (entry, draft) in enumerate(zip(made, drafts, strict=True)):
        own = entry.data.get("barcode")
        codes.append(draft["replaces"] or (own if isinstance(own, str) and own else barcode(number, "imported", at)))
    return codes
