"""The checker's findings about the format of an outcome, which a model is asked to repair. Physics is left for people to judge."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulation.checker import Finding, TransitionError
from simulation.checker.findings import Decided
from simulation.checker.reading import transition
from simulation.checker.records import fields
from simulation.lab.actions import Action
from simulation.lab.materials import UNLIMITED, Material
from simulation.lab.outcomes import Outcome


class FormatProblems(NamedTuple):
    """Format errors (`form`), and text from a prompt that raters would read in the outcome (`leaks`)."""

    form: tuple[str, ...]
    leaks: tuple[str, ...] = ()


def find_problems(action: Action, inputs: Sequence[Material], outcome: Outcome) -> FormatProblems:
    """Return the findings L11 (fields, closed lists), L22 (consistency) and L24 (prompt text where raters read).

    L10 cannot occur, because parsing has replaced or dropped every barcode; all other codes concern physics.
    """
    told = {
        "input_materials": [material.to_visible() for material in inputs],
        "action": action.to_json(),
        "outcome": outcome.to_json(),
    }
    try:
        read = transition.parse_transition(told)
        return FormatProblems(
            tuple(_find_format_errors(read, action, inputs)),
            tuple(_find_prompt_text(read, text_of_inputs(action, inputs))),
        )
    except TransitionError as error:
        return FormatProblems((str(error),))


def text_of_inputs(action: Action, inputs: Sequence[Material]) -> str:
    """Return the action and the inputs' names and properties as text. An outcome may repeat this text."""
    return json.dumps([action.to_json(), [[m.name, m.properties] for m in inputs]], ensure_ascii=False)


def _find_format_errors(read: transition.Transition, action: Action, inputs: Sequence[Material]) -> Iterator[str]:
    for check in (fields.check_enumerations, fields.check_coherence):
        for finding in check(read):
            if isinstance(finding, Decided) or finding.severity != "error" or _is_no_op(finding, action, inputs):
                continue
            yield finding.text


def _find_prompt_text(read: transition.Transition, before: str) -> Iterator[str]:
    known_words = fields.find_prompt_phrases(before)
    for place, text in fields.iter_visible_texts(read):
        if new := sorted(fields.find_prompt_phrases(text) - known_words):
            yield f"text of a prompt or of a planted error occurs in {place}: {', '.join(map(repr, new[:3]))}"


def _is_no_op(finding: Finding, action: Action, inputs: Sequence[Material]) -> bool:
    """Return whether the finding only reports that an action on unlimited materials has no results. That is allowed."""
    unlimited = all(material.available_for_use == UNLIMITED for material in inputs)
    # Nothing has to be returned, because unlimited materials stay as they are.
    return finding.code == "L22" and finding.subject == action.name and bool(inputs) and unlimited
