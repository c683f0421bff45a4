"""The checker's findings about the format of an outcome, which a model is asked to repair. Physics is left for people to judge."""

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
    """Format errors, and texts of a prompt that raters would read."""

    form: tuple[str, ...]
    leaks: tuple[str, ...] = ()


def problems(action: Action, inputs: Sequence[Material], outcome: Outcome) -> Problems:
    """Return the findings L11, L22 and L24: fields and closed lists, consistency, text of a prompt where raters read.

    L10 cannot occur, because parsing has replaced or dropped every barcode; all other codes are about matter.
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
    """Return the text of labels and action before the step, which an outcome may repeat."""
    return json.dumps([action.to_json(), [[m.name, m.properties] for m in inputs]], ensure_ascii=False)


def _found(read: transition.Transition, action: Action, inputs: Sequence[Material]) -> Iterator[str]:
    for check in (fields.enums, fields.coherence):
        for finding in check(read):
            if isinstance(finding, Ran) or finding.severity != "error" or _nothing_to_tell(finding, action, inputs):
                continue
            yield finding.text


def _leaks(read: transition.Transition, before: str) -> Iterator[str]:
    known_words = fields.prompt_words(before)
    for place, text in fields.read_by_people(read):
        if new := sorted(fields.prompt_words(text) - known_words):
            yield f"text of a prompt or of a planted error stands in {place}: {', '.join(map(repr, new[:3]))}"


def _nothing_to_tell(finding: Finding, action: Action, inputs: Sequence[Material]) -> bool:
    """Return whether the action uses only unlimited materials: they stay as they are, so it may have no results."""
    unlimited = all(material.available_for_use == UNLIMITED for material in inputs)
    # Nothing has to be returned, because unlimited materials stay as they are.
    return finding.code == "L22" and finding.subject == action.name and bool(inputs) and unlimited
