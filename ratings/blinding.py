"""What a rater may see of a record: built from an allow-list, in one order for every source.

A payload has these keys and no others:
  transition: kind, action {name, parameters [[label, value]]}, before [{ref, name, properties [[label, value]],
    condition, availability}], after [the same, and continues: the ref it goes on from, or ""],
    observations [{type, description, value}], rejected (the reason, or "")
  evidence: kind, goal, steps [{number, time, action, materials [{ref, name}], made (as `after`), observations, rejected}]
A ref is a letter (A, B, ...) that stands for one material throughout the payload; barcodes never appear.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

Record = Mapping[str, Any]
Payload = dict[str, Any]

_CONDITIONS = {
    "room_temp": "room temperature",
    "4C": "4 °C",
    "-20C": "−20 °C",
    "-80C": "−80 °C",
    "-196C": "−196 °C, liquid nitrogen",
    "incubating_conditions": "incubator",
    "cell_culture_conditions": "cell culture incubator",
    "ice": "on ice",
    "dry_ice": "on dry ice",
}
_UNLIMITED = "unlimited"
_AVAILABILITY = {
    _UNLIMITED: "unlimited supply",
    "available_for_further_use": "can be used further",
    "not_available_for_further_use": "used up",
}
_BARCODE = re.compile(r"(\s?\()?MAT-[A-Z0-9]{8}(?(1)\))")
# Control characters, lone surrogates and what turns or hides text: a reader must see all there is, as it is.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
_PH = re.compile(r"\bph\b")
_DIGITS = re.compile(r"([0-9]{1,15})")
_QUANTITY = re.compile(
    r"([+-]?[0-9]{1,15}(?:\.[0-9]{1,12})?)\s?(%|(?![eE][0-9])[A-Za-zµμ°][A-Za-z0-9µμ°/%·^-]{0,15}(?: g)?)?"
)


def blind_transition(step: Record, perturbed: Record | None = None) -> Payload:
    """One step as its raters see it; with the outcome of a twin in place of its own, if one is given."""
    outcome = step["outcome"] if perturbed is None else perturbed
    names = _Names()
    before = [_material(material, names.add(material["barcode"], material["name"])) for material in step["inputs"]]
    return {
        "kind": "transition",
        "action": _action(step["action"], names),
        "before": [names.clean(material) for material in before],
        "after": _after(outcome, step["inputs"], names),
        "observations": [_observation(observation, names) for observation in outcome["new_observations"]],
        "rejected": "" if outcome["success"] else names.text(outcome["failure_reason"]) or "no reason given",
    }


def blind_evidence(goal: str, steps: Sequence[Record]) -> Payload:
    """An episode's goal and steps in order, as its raters see them: what any classifier gets, without barcodes."""
    names = _Names()
    return {"kind": "evidence", "goal": names.text(goal), "steps": [_evidence_step(step, names) for step in steps]}


def payload_digest(payload: Payload) -> str:
    """SHA-256 of the payload in canonical form: equal digests mean nobody could tell the two apart."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Row(NamedTuple):
    """One property before and after; "" where there is none. `difference` only where both are numbers of one unit."""

    label: str
    before: str
    after: str
    changed: bool
    difference: str


class Lane(NamedTuple):
    """One material across the action. `before` or `after` is None where there is none; `gone`: it had to come back."""

    ref: str
    before: Payload | None
    after: Payload | None
    rows: tuple[Row, ...]
    gone: bool


def lanes(payload: Payload) -> list[Lane]:
    """Each material before the action beside what it became, in order; then the new ones."""
    continued = {material["continues"]: material for material in payload["after"] if material["continues"]}
    found = [_lane(material, continued.get(material["ref"]), payload) for material in payload["before"]]
    new = [material for material in payload["after"] if not material["continues"]]
    return found + [Lane(material["ref"], None, material, _rows(None, material), False) for material in new]


class _Names:
    """Which letter stands for which barcode, and the names to put in the place of barcodes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def add(self, barcode: str, name: str) -> str:
        """The material's letter; a new one for a new barcode."""
        ref = self._known[barcode][0] if barcode in self._known else _letters(len(self._known))
        self._known[barcode] = (ref, _visible(_BARCODE.sub("", name)))
        return ref

    def ref(self, barcode: str) -> str:
        return self._known[barcode][0] if barcode in self._known else ""

    def name(self, barcode: str) -> str:
        """The material's name, with its letter where another material has the same name."""
        if barcode not in self._known:
            return "a material"
        ref, name = self._known[barcode]
        alone = sum(1 for _, other in self._known.values() if other == name) == 1
        return name if alone else f"{name} ({ref})"

    def text(self, value: Any) -> str:
        """Any value as text: barcodes replaced by names, nested values written out in a fixed order."""
        match value:
            case None:
                return ""
            case bool():
                return "yes" if value else "no"
            case Mapping():
                return "; ".join(f"{self.text(_label(key))}: {self.text(value[key])}" for key in sorted(value))
            case list() | tuple():
                return ", ".join(self.text(part) for part in value)
            case _:
                return _BARCODE.sub(self._replace, _visible(str(value)))

    def clean(self, material: Payload) -> Payload:
        """The material with every shown text freed of barcodes."""
        shown = [[self.text(label), self.text(value)] for label, value in material["properties"]]
        return {**material, "name": self.text(material["name"]), "properties": shown}

    def _replace(self, match: re.Match[str]) -> str:
        return "" if match.group(1) else self.name(match.group(0))


def _action(action: Record, names: _Names) -> Payload:
    parameters = action["parameters"]
    return {
        "name": names.text(action["name"]),
        "parameters": [[_label(key), names.text(_in_words(parameters[key]))] for key in sorted(parameters)],
    }


def _in_words(value: Any) -> Any:
    """A place that an action names, as a material's place is said; anything else as it is."""
    return _CONDITIONS.get(value, value) if isinstance(value, str) else value


def _material(material: Record, ref: str) -> Payload:
    condition, availability = material["environmental_condition"], material["available_for_use"]
    properties = material["properties"]
    return {
        "ref": ref,
        "name": material["name"],
        "properties": [[_label(key), properties[key]] for key in sorted(properties)],
        "condition": _CONDITIONS.get(condition, "not stated"),
        "availability": _AVAILABILITY.get(availability, "not stated"),
    }


def _after(outcome: Record, inputs: Sequence[Record], names: _Names) -> list[Payload]:
    """What stands there afterwards: what goes on, in the order before; then what is new, by name and properties."""
    order = [material["barcode"] for material in inputs]
    unlimited = {material["barcode"] for material in inputs if material["available_for_use"] == _UNLIMITED}
    drafts = [draft for draft in outcome["new_materials"] if draft["replaces"] not in unlimited]
    going_on = sorted((d for d in drafts if d["replaces"] in order), key=lambda d: order.index(d["replaces"]))
    new = sorted((d for d in drafts if d["replaces"] not in order), key=_fingerprint)
    shown = [{**_material(draft, (ref := names.ref(draft["replaces"]))), "continues": ref} for draft in going_on]
    shown += [{**_material(draft, _letters(len(order) + index)), "continues": ""} for index, draft in enumerate(new)]
    return [names.clean(material) for material in shown]


def _fingerprint(draft: Record) -> list[Any]:
    """Sorts by name, "well 2" before "well 10", then by properties: the same however a model lists what it made."""
    parts = _DIGITS.split(draft["name"].casefold())
    natural = [(at % 2, int(part) if at % 2 else 0, part) for at, part in enumerate(parts)]  # every other one is digits
    return [natural, json.dumps([draft["name"], draft["properties"]], sort_keys=True, default=str)]


def _observation(observation: Record, names: _Names) -> Payload:
    return {
        "type": names.text(observation["measurement_type"]),
        "description": names.text(observation["description"]),
        "value": names.text(observation["value"]),
    }


def _evidence_step(step: Record, names: _Names) -> Payload:
    outcome = step["outcome"]
    inputs = [{"ref": names.add(m["barcode"], m["name"]), "name": m["name"]} for m in step["inputs"]]
    going_on = {material["barcode"] for material in step["inputs"]}
    made = []
    for barcode, draft in zip(step["barcodes"], outcome["new_materials"], strict=True):
        ref = names.add(barcode, draft["name"])
        made.append({**_material(draft, ref), "continues": ref if barcode in going_on else ""})
    return {
        "number": step["number"],
        "time": _elapsed(step["started_at"]),
        "action": _action(step["action"], names),
        "materials": [{"ref": m["ref"], "name": names.text(m["name"])} for m in inputs],
        "made": [names.clean(material) for material in made],
        "observations": [_observation(observation, names) for observation in outcome["new_observations"]],
        "rejected": "" if outcome["success"] else names.text(outcome["failure_reason"]) or "no reason given",
    }


def _lane(before: Payload, after: Payload | None, payload: Payload) -> Lane:
    stays = before["availability"] == _AVAILABILITY[_UNLIMITED] or bool(payload["rejected"])
    rows = _rows(before, before if after is None and stays else after)
    return Lane(before["ref"], before, after, rows, gone=after is None and not stays)


def _rows(before: Payload | None, after: Payload | None) -> tuple[Row, ...]:
    old, new = _facts(before), _facts(after)
    return tuple(_row(key, old.get(key, ""), new.get(key, "")) for key in [*old, *(k for k in new if k not in old)])


def _facts(material: Payload | None) -> dict[tuple[str, str], str]:
    """A material's properties, then its name, place and availability: a property may be called the same."""
    if material is None:
        return {}
    facts = {("property", label): value for label, value in material["properties"]}
    kept, availability = material["condition"], material["availability"]
    return {**facts, ("", "Name"): material["name"], ("", "Kept at"): kept, ("", "Availability"): availability}


def _row(key: tuple[str, str], before: str, after: str) -> Row:
    return Row(key[1], before, after, before != after, difference(before, after) if before != after else "")


def difference(before: str, after: str) -> str:
    """After minus before, signed, if both are a plain number with the same unit; else ""."""
    old, new = _QUANTITY.fullmatch(before.strip()), _QUANTITY.fullmatch(after.strip())
    if old is None or new is None or (old[2] or "").strip() != (new[2] or "").strip():
        return ""
    change = Decimal(new[1]) - Decimal(old[1])
    sign = "+" if change > 0 else "−" if change < 0 else ""
    size = f"{abs(change):f}"
    size = size.rstrip("0").rstrip(".") if "." in size else size
    return f"{sign}{size} {(new[2] or '').strip()}".strip()


def _visible(text: str) -> str:
    return _UNSEEN.sub("\ufffd", text)


def _label(key: Any) -> str:
    """A property's name as a heading; one that begins with a symbol (pH, dNTP, mCherry) keeps it as it is written."""
    words = _PH.sub("pH", str(key).replace("_", " ").strip())
    first = words.partition(" ")[0]
    return words[:1].upper() + words[1:] if first.islower() else words


def _letters(index: int) -> str:
    """0 is A, 25 is Z, 26 is AA."""
    letters = ""
    index += 1
    while index:
        index, digit = divmod(index - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


def _elapsed(seconds: int) -> str:
    """Time since the episode began: "after 1 h 05 min"; never a time of day."""
    hours, minutes = divmod(seconds // 60, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"after {days} d {hours} h {minutes:02d} min"
    return f"after {hours} h {minutes:02d} min" if hours else f"after {minutes} min"
