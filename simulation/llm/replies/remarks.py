"""Problems and notes that parsing collects about a reply."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from simulation.llm.replies.cleaning import quoted


@dataclass
class Remarks:
    """Problems of a reply, and notes on values that were interpreted."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def wrong(self, problem: str) -> None:
        self.problems.append(problem)

    def told(self, note: str) -> None:
        self.notes.append(note)


def kind(value: object) -> str:
    """Return the kind of value that was found instead, for a message."""
    match value:
        case None:
            return "missing"
        case str():
            return quoted(value)
        case bool() | int() | float():
            return str(value).lower()
        case Mapping():
            return "an object"
    return "a list"
