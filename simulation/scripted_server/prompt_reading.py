"""Extract the requested role, the materials, the number of steps and the action from a prompt of any prompt set."""

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from simulation.scripted_server.questions import Question

# These patterns match data in a prompt. They are greedy, so that an end mark inside the data does not end the match.
_TAGGED = re.compile(r"<(materials|observations|action|record|interpretation|context|item|rows)>.*</\1>", re.DOTALL)
_MARKED = re.compile(r"<<<([A-Z]+ [0-9a-f]{16})\b.*\b\1>>>", re.DOTALL)
_SUMMARY = re.compile(r"summar", re.IGNORECASE)
_BARCODE = re.compile(r"MAT-[A-Z0-9]{8}\b")
_AVAILABILITY = re.compile(r"\b(unlimited|not_available_for_further_use|available_for_further_use)\b")
_NUMBERED = re.compile(r"^\W*(?:step\s+)?(\d{1,3})[.:)]\s", re.IGNORECASE | re.MULTILINE)
_SUMMARISED = re.compile(r"^STEPS 1 TO (\d{1,3})\b", re.MULTILINE)
_LEFT = re.compile(r"\b(\d{1,3}) (?:steps?|actions?|attempts?)\s+(?:are\s+)?(?:left|remain)", re.IGNORECASE)
_ALIAS = re.compile(r"\bS\d{1,3}\b")
_OPENING = re.compile(r"[{\[]")
_NEAR = 40  # number of characters before an object in which its alias is searched
_ACTION_DATA = re.compile(r"<action>.*</action>|<<<(ACTION [0-9a-f]{16})\b.*\b\1>>>", re.DOTALL)
_ACTION_NAMED = re.compile(r"\bACTION:\W{0,3}([A-Za-z][A-Za-z0-9]{2,60})", re.IGNORECASE)


class Role(StrEnum):
    """The role in which a prompt asks the model to answer."""

    AGENT = "agent"
    PLAN = "plan"
    SUMMARY = "summary"
    TRANSITION = "transition"
    PERTURBED = "perturbed"
    CLASSIFIER = "classifier"
    RATER = "rater"


OUTCOMES = (Role.TRANSITION, Role.PERTURBED)  # roles whose answer is an outcome in JSON


class ShownMaterial(NamedTuple):
    """A material as a transition prompt shows it."""

    alias: str
    fields: Mapping[str, Any]

    @property
    def is_limited(self) -> bool:
        return self.fields.get("available_for_use") != "unlimited"


def find_role(question: Question) -> Role:
    """Return the role that the requested answer format implies. Text between data tags is ignored."""
    # Data can contain anything, so it is removed before the format of the answer is looked for.
    instructions = _MARKED.sub("", _TAGGED.sub("", question.user_text))
    # From specific to general: instructions for raters also contain words of other roles.
    if '"marks"' in question.system:
        return Role.RATER
    if "new_materials" in question.system:
        return Role.PERTURBED if "SECRET" in question.system or "SECRET" in instructions else Role.TRANSITION
    if _asks_for_action(question.system):
        return _find_agent_role(question.user_text)
    if "<verdict>" in instructions or "<verdict>" in question.system:
        return Role.CLASSIFIER
    if "new_materials" in instructions:
        return Role.PERTURBED if "SECRET" in instructions else Role.TRANSITION
    return Role.AGENT if _asks_for_action(question.user_text) else Role.SUMMARY


def _asks_for_action(text: str) -> bool:
    return 0 <= text.find("ACTION:") < text.rfind("PARAMETERS")


def _find_agent_role(asked: str) -> Role:
    if "ACTION:" in asked:
        return Role.AGENT
    if "PLAN:" in asked:
        return Role.PLAN
    return Role.SUMMARY if _SUMMARY.search(asked) else Role.AGENT


def list_limited_barcodes(asked: str) -> list[str]:
    """Return the barcodes of available, limited materials in prompt order; all barcodes if none states availability."""
    matches = list(_BARCODE.finditer(asked))
    availability: dict[str, str] = {}
    for at, this in enumerate(matches):
        # The text up to the next barcode describes this material.
        end = matches[at + 1].start() if at + 1 < len(matches) else len(asked)
        about = asked[this.end() : end]
        if word := _AVAILABILITY.search(about):
            availability[this[0]] = word[0]
    if not availability:
        return list(dict.fromkeys(match[0] for match in matches))
    return [code for code, word in availability.items() if word == "available_for_further_use"]


def count_steps_done(asked: str) -> int:
    """Return the highest step number in the history, or 0 if it has none."""
    numbers = [*_NUMBERED.findall(asked), *_SUMMARISED.findall(asked)]
    return max(map(int, numbers), default=0)


def find_steps_left(asked: str) -> int | None:
    """Return the number of remaining steps that the prompt states last, or None if it states none."""
    numbers = _LEFT.findall(asked)
    return int(numbers[-1]) if numbers else None


def list_materials(asked: str) -> list[ShownMaterial]:
    """Return the materials of an action: JSON objects with a name, properties and an alias. Each alias occurs once."""
    by_alias: dict[str, ShownMaterial] = {}
    end = 0
    for start, stop, value in _iter_objects(asked):
        # The nearest alias before the object, but not one that belongs to the previous object.
        aliases = _ALIAS.findall(asked[max(end, start - _NEAR) : start])
        for material in _iter_materials(value, aliases[-1] if aliases else ""):
            by_alias.setdefault(material.alias, material)
        end = stop
    return list(by_alias.values())


def find_action_name(asked: str) -> str:
    """Return the name of the action to be simulated, or "The action" if none is found."""
    enclosed = _ACTION_DATA.search(asked)
    for _, _, value in _iter_objects(enclosed[0]) if enclosed else ():
        if isinstance(value, Mapping) and isinstance(name := value.get("name", value.get("action")), str):
            return name[:60]
    match = _ACTION_NAMED.search(enclosed[0] if enclosed else asked)
    return match[1] if match else "The action"


def _iter_materials(value: Any, alias: str) -> Iterator[ShownMaterial]:
    if isinstance(value, list):
        for part in value:
            yield from _iter_materials(part, "")
    elif isinstance(value, Mapping) and "new_materials" not in value:
        if "name" in value and isinstance(value.get("properties"), Mapping):
            aliases = [part for key, part in value.items() if key != "name" and _is_alias(part)]
            if alias := str(aliases[0]) if aliases else alias:
                yield ShownMaterial(alias, value)
        else:
            for key, part in value.items():
                yield from _iter_materials(part, key if _is_alias(key) else "")


def _is_alias(value: Any) -> bool:
    return isinstance(value, str) and bool(_ALIAS.fullmatch(value))


def _iter_objects(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield (start, end, value) for each outermost JSON object or list in a text."""
    decoder, offset = json.JSONDecoder(), 0
    while match := _OPENING.search(text, offset):
        try:
            # The standard decoder is tried at each opening bracket; text between objects is skipped.
            value, offset = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            offset = match.end()
        else:
            yield match.start(), offset, value
