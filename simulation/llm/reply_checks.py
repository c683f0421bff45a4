"""Check a parsed outcome: its form, and what in it would distinguish a twin from its original. Physics is left for people to judge."""

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulation.checker import TransitionError, fields
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
    data = {
        "input_materials": [material.to_visible() for material in inputs],
        "action": action.to_json(),
        "outcome": outcome.to_json(),
    }
    # Nothing has to be returned by an action on unlimited materials, because they stay as they are.
    is_unlimited = bool(inputs) and all(material.available_for_use == UNLIMITED for material in inputs)
    try:
        read = transition.parse_transition(data)
        form = tuple(
            finding.text
            for check in (fields.check_enumerations, fields.check_coherence)
            for finding in check(read)
            if not isinstance(finding, Decided)
            and finding.severity == "error"
            and not (is_unlimited and finding.code == "L22" and finding.subject == action.name)
        )
        known_words = fields.find_prompt_phrases(_text_of_inputs(action, inputs))
        leaks = tuple(
            f"text of a prompt or of a planted error occurs in {place}: {', '.join(map(repr, new[:3]))}"
            for place, text in fields.iter_visible_texts(read)
            if (new := sorted(fields.find_prompt_phrases(text) - known_words))
        )
    except TransitionError as error:
        return FormatProblems((str(error),))
    return FormatProblems(form, leaks)


def _text_of_inputs(action: Action, inputs: Sequence[Material]) -> str:
    """Return the action and the inputs' names and properties as text. An outcome may repeat this text."""
    return json.dumps([action.to_json(), [[m.name, m.properties] for m in inputs]], ensure_ascii=False)


def find_tells(
    action: Action, inputs: Sequence[Material], original: Outcome, twin: Outcome, secret: str
) -> tuple[str, ...]:
    """Return what must be corrected before the twin may be shown: its success, or wording that reveals the error.

    Wording of labels, of the action or of the original may be repeated, and the explanation may quote the outcome.
    """
    before = [_text_of_inputs(action, inputs), *(text for _, text in _list_texts(original))]
    known_hints = {hint for text in before for hint in tell_words.find_tell_words(text)}
    # Sequences of words that occurred before the step are not copied from the explanation.
    runs = tell_words.unquoted_runs(secret) - tell_words.word_runs(*before)
    problems = []
    if twin.success != original.success:
        now = "true: the action is carried out" if original.success else "false: the action cannot be begun"
        problems.append(f"success must be {now}, and the mistake must be in the reported outcome")
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
