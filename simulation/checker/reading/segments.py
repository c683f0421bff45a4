"""The parts of a transition's records that are about one material each, found by the words that only its name has."""

import re
from typing import NamedTuple

from simulation.checker.reading import claims, words
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition

_MAX_TEXT = 2000  # characters of one observation
_WORD = re.compile(r"[A-Za-z0-9#+]+")


class Part(NamedTuple):
    """A part of a record and its claims."""

    text: str
    claims: list[Claim]


class Subject(NamedTuple):
    """One material before and after the step, and the parts of the records that are about it."""

    name: str
    before: MaterialView | None
    after: MaterialView | None
    parts: tuple[Part, ...]


def list_subjects(transition: Transition) -> list[Subject]:
    """Return the samples of a transition, each with its part of the records."""
    if "subjects" not in transition.memo:
        transition.memo["subjects"] = _build_subjects(transition)
    subjects: list[Subject] = transition.memo["subjects"]
    return subjects


def _build_subjects(transition: Transition) -> list[Subject]:
    pairs: list[tuple[MaterialView | None, MaterialView | None]] = []
    samples = [view for view in transition.limited_inputs if not transition.parameters.has_named(view)]
    # Where every sample is a vessel, the vessels are what is weighed or dried.
    for view in [view for view in samples if not view.is_empty_vessel] or samples:
        pairs.append((view, transition.find_output(view)))
    pairs += [(None, view) for view in transition.usable_outputs if transition.find_input(view) is None]
    if len(pairs) == 1:
        before, after = pairs[0]
        whole = tuple(Part(seen.full_text[:_MAX_TEXT], found) for seen, found in claims.list_observed(transition))
        return [Subject(_name(before, after), before, after, whole)]
    texts = [seen.full_text[:_MAX_TEXT] for seen in transition.observations]
    names = [frozenset(words.tokenize(_name(*pair))) for pair in pairs]
    subjects = []
    for index, (before, after) in enumerate(pairs):
        others = frozenset().union(*(name for i, name in enumerate(names) if i != index))
        # "a" is an article more often than the name of a vessel.
        own = names[index] - others - {"a"}
        other_words = others - names[index]
        parts = [part for text in texts for part in _split_text(text, own, other_words)] if own else []
        read = tuple(Part(part, claims.read_text(part)) for part in parts)
        subjects.append(Subject(_name(before, after), before, after, read))
    return subjects


def _name(before: MaterialView | None, after: MaterialView | None) -> str:
    view = before or after
    return view.name if view is not None else ""


def _split_text(text: str, own: frozenset[str], others: frozenset[str]) -> list[str]:
    """Return the parts of a text from a word of the material's name to the next word of another one's name."""
    parts, start = [], None
    for match in _WORD.finditer(text):
        found = set(words.tokenize(match[0]))
        if found & own and start is None:
            start = match.end()
        elif found & others and start is not None:
            parts.append(text[start : match.start()])
            start = None
    return [*parts, text[start:]] if start is not None else parts
