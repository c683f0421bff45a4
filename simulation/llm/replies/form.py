"""The checker's findings on the form of an outcome: those a model is asked to repair. Physics is for people to judge."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulation.checker import Finding, TransitionError
from simulation.checker.findings import Ran
from simulation.checker.reading import transition
from simulation.checker.records import fields
from simulation.lab.actions import Action
from simulation.lab.materials import UNLIMITED, Material
from simulation.lab.outcomes import Outcome


class Problems(NamedTuple):
    """What is wrong with the form, and which texts of a prompt stand where people read."""

    form: tuple[str, ...]
    leaks: tuple[str, ...] = ()


def problems(action: Action, inputs: Sequence[Material], outcome: Outcome) -> Problems:
    """What L11, L22 and L24 find: fields and closed lists, agreement with itself, text of a prompt where people read.

    L10 has nothing to do here, for parsing has replaced or dropped every barcode; all other codes are about matter.
    """
    told = {
        "input_materials": [material.seen() for material in inputs],
        "action": action.to_json(),
        "outcome": outcome.to_json(),
    }
    try:
        read = transition.read(told)
        return Problems(tuple(_found(read, action, inputs)), tuple(_leaks(read, brought(action, inputs))))
    except TransitionError as error:
        return Problems((str(error),))


def brought(action: Action, inputs: Sequence[Material]) -> str:
    """What stood on the labels and in the action before: an outcome may carry it on."""
    return json.dumps([action.to_json(), [[m.name, m.properties] for m in inputs]], ensure_ascii=False)


def _found(read: transition.Transition, action: Action, inputs: Sequence[Material]) -> Iterator[str]:
    for check in (fields.enums, fields.coherence):
        for said in check(read):
            if isinstance(said, Ran) or said.severity != "error" or _nothing_to_tell(said, action, inputs):
                continue
            yield said.text


def _leaks(read: transition.Transition, before: str) -> Iterator[str]:
    known = fields.prompt_words(before)
    for place, text in fields.read_by_people(read):
        if new := sorted(fields.prompt_words(text) - known):
            yield f"text of a prompt or of a planted error stands in {place}: {', '.join(map(repr, new[:3]))}"


def _nothing_to_tell(finding: Finding, action: Action, inputs: Sequence[Material]) -> bool:
    """An action on unlimited materials alone may lead to nothing: they stay as they are."""
    unlimited = all(material.available_for_use == UNLIMITED for material in inputs)
    return finding.code == "L22" and finding.subject == action.name and bool(inputs) and unlimited
