"""Problems and notes that parsing collects about a reply."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulation.llm.replies.cleaning import quote_short


@dataclass
class ParseNotes:
    """Problems of a reply, and notes on values that were interpreted."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add_problem(self, problem: str) -> None:
        self.problems.append(problem)

    def add_note(self, note: str) -> None:
        self.notes.append(note)


def describe_kind(value: object) -> str:
    """Return the kind of value that was found instead, for a message."""
    match value:
        case None:
            return "missing"
        case str():
            return quote_short(value)
        case bool() | int() | float():
            return str(value).lower()
        case Mapping():
            return "an object"
    return "a list"
