"""The checker's findings on the form of an outcome: those a model is asked to repair. Physics is for people to judge."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from simulation.checker import TransitionError, fields, transition
from simulation.checker.findings import Finding, Ran
from simulation.lab.actions import Action
from simulation.lab.materials import UNLIMITED, Material
from simulation.lab.outcomes import Outcome

_LEAK = "L24"


def problems(action: Action, inputs: Sequence[Material], outcome: Outcome) -> tuple[str, ...]:
    """What L11, L22 and L24 find: fields and closed lists, agreement with itself, text of a prompt where people read.

    L10 has nothing to do here, for parsing has replaced or dropped every barcode; all other codes are about matter.
    """
    told = outcome.to_json()
    try:
        found = list(_found(action, inputs, told))
        leaked = any(finding.code == _LEAK for finding in found) and not _brought(action, inputs)
    except TransitionError as error:
        return (str(error),)
    return tuple(
        finding.text
        for finding in found
        if (finding.severity == "error" and not _nothing_to_tell(finding, action, inputs))
        or (finding.code == _LEAK and leaked)
    )


def _found(action: Action, inputs: Sequence[Material], told: dict[str, Any]) -> Iterator[Finding]:
    read = transition.read(
        {"input_materials": [material.seen() for material in inputs], "action": action.to_json(), "outcome": told}
    )
    for check in (fields.enums, fields.coherence, fields.leaks):
        yield from (said for said in check(read) if not isinstance(said, Ran) and said.code != "L10")


def _brought(action: Action, inputs: Sequence[Material]) -> bool:
    """Whether such text stood on a label or in the action before: then the outcome may carry it on."""
    text = json.dumps([action.to_json(), [[m.name, m.properties] for m in inputs]], ensure_ascii=False)
    told = {
        "success": True,
        "new_observations": [{"description": text[at : at + 2000]} for at in range(0, len(text), 1900)][:400],
    }
    return any(finding.code == _LEAK for finding in _found(action, inputs, told))


def _nothing_to_tell(finding: Finding, action: Action, inputs: Sequence[Material]) -> bool:
    """An action on unlimited materials alone may lead to nothing: they stay as they are."""
    unlimited = all(material.available_for_use == UNLIMITED for material in inputs)
    return finding.code == "L22" and finding.subject == action.name and bool(inputs) and unlimited
