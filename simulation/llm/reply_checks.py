"""Check a parsed outcome: its form, and what in it would distinguish a twin from its original. Physics is left for people to judge."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulation.checker import Finding, TransitionError, fields
from simulation.checker.findings import Decided
from simulation.checker.reading import transition
from simulation.lab import tell_words
from simulation.lab.actions import Action
from simulation.lab.materials import UNLIMITED, Material
from simulation.lab.outcomes import Outcome
from simulation.llm.reply_text import quote_short


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


def find_tells(
    action: Action, inputs: Sequence[Material], original: Outcome, twin: Outcome, secret: str
) -> tuple[str, ...]:
    """Return what must be corrected before the twin may be shown: its success, or wording that reveals the error.

    Wording of labels, of the action or of the original may be repeated, and the explanation may quote the outcome.
    """
    before = [text_of_inputs(action, inputs), *(text for _, text in _list_texts(original))]
    known_hints = {hint for text in before for hint in tell_words.find_tell_words(text)}
    # Sequences of words that occurred before the step are not copied from the explanation.
    runs = tell_words.unquoted_runs(secret) - tell_words.word_runs(*before)
    problems = [_describe_success_problem(original)] if twin.success != original.success else []
    for place, text in _list_texts(twin):
        if hints := sorted(set(tell_words.find_tell_words(text)) - known_hints):
            problems.append(
                f"{place} reveals the mistake by the word {quote_short(hints[0])}; describe only what is seen"
            )
        if shared := sorted(tell_words.word_runs(text) & runs):
            said = quote_short(" ".join(shared[0]))
            problems.append(
                f"{place} and what follows SECRET: both contain {said}; put one of them in other words or in quotes"
            )
    return tuple(problems)


def _describe_success_problem(original: Outcome) -> str:
    now = "true: the action is carried out" if original.success else "false: the action cannot be begun"
    return f"success must be {now}, and the mistake must be in the reported outcome"


def _list_texts(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield every text that raters read, with its path."""
    for index, draft in enumerate(outcome.new_materials):
        yield f"new_materials[{index}].name", draft.name
        yield f"new_materials[{index}].properties", json.dumps(draft.properties, ensure_ascii=False)
    for index, observation in enumerate(outcome.new_observations):
        yield f"new_observations[{index}].description", observation.description
        yield f"new_observations[{index}].measurement_type", observation.measurement_type
        yield f"new_observations[{index}].value", observation.value
    yield "failure_reason", outcome.failure_reason
