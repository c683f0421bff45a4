"""Show why an item is held: each finding in its sentence, with the place in words."""

import re
from typing import Any, NamedTuple

from ratings.studies.quarantine import HeldItem, Reason, iter_texts

MAX_SHOWN = 260  # characters of a text that are shown whole
_AROUND = 110  # characters shown on each side of a finding in a longer text
_QUOTED = re.compile("“(.+)”", re.DOTALL)
_PLACE = re.compile(r"(before|after|observations|steps|materials|made)\[([0-9]{1,4})\]")
_SIDES = {"before": "before the action", "after": "after the action", "made": "after the step"}
_FIELDS = {
    "goal": "goal", "rejected": "reason for the rejection", "description": "description", "value": "value", "type": "type",
    "name": "name",
}  # fmt: skip


class Excerpt(NamedTuple):
    """One finding: where it is, what it is, and its sentence. `match` is "" if the spelling hides it in the text."""

    where: str
    what: str
    before: str
    match: str
    after: str


def build_excerpts(held: HeldItem) -> list[Excerpt]:
    """Return every reason to hold the item in its context."""
    texts = dict([*iter_texts(held.found.payload), *iter_texts(held.found.context, "context")])
    return [_build_excerpt(reason, texts.get(reason[0], ""), held.found.payload) for reason in held.reasons]


def _build_excerpt(reason: Reason, text: str, payload: dict[str, Any]) -> Excerpt:
    place, what = reason
    start, end = _find_quoted(what, text)
    first = 0 if len(text) <= MAX_SHOWN else _start_of_word(text, max(0, start - _AROUND))
    last = len(text) if len(text) <= MAX_SHOWN else _end_of_word(text, min(len(text), end + _AROUND))
    before = f"{'…' if first else ''}{text[first:start]}"
    after = f"{text[end:last]}{'…' if last < len(text) else ''}"
    return Excerpt(describe_place(place, payload), what, before, text[start:end], after)


def describe_place(place: str, payload: dict[str, Any]) -> str:
    """Return a place of `iter_texts` in words: "observations[1].description" is "Observation 2, description"."""
    words = ["earlier steps"] if place.startswith("context.") else []
    for kind, index in _PLACE.findall(place):
        number = int(index)
        if kind == "observations":
            words.append(f"observation {number + 1}")
        elif kind == "steps":
            words.append(f"step {number + 1}")
        elif kind == "materials":
            words.append(f"material {number + 1}")
        else:
            words.append(f"{_name_material(payload, kind, number)} {_SIDES[kind]}")
    last = place.rpartition(".")[2]
    if place.startswith(("action", "context.")) and "action" in place:
        words.append("action")
    words.append("property" if "properties" in last else "setting" if "parameters" in last else _FIELDS.get(last, ""))
    text = ", ".join(word for word in words if word)
    return f"{text[:1].upper()}{text[1:]}"


def _name_material(payload: dict[str, Any], side: str, number: int) -> str:
    materials = payload.get(side, [])
    material = materials[number] if number < len(materials) else {}
    return str(material.get("name", "")) if isinstance(material, dict) else "material"


def _find_quoted(what: str, text: str) -> tuple[int, int]:
    """Return where the words that a finding quotes are in the text; an empty range at its start if they are not found."""
    quoted = _QUOTED.search(what)
    parts = re.findall(r"\w+", quoted[1]) if quoted else []
    if not parts:
        return 0, 0
    # A finding has the words in small letters and without what is between them.
    match = re.search(r"\W{0,9}".join(re.escape(part) for part in parts), text, re.IGNORECASE)
    return match.span() if match else (0, 0)


def _start_of_word(text: str, at: int) -> int:
    return text.rfind(" ", 0, at) + 1


def _end_of_word(text: str, at: int) -> int:
    space = text.find(" ", at)
    return len(text) if space < 0 else space
