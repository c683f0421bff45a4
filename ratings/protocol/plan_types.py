"""The types of a plan."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ratings.blinding import Payload

Source = tuple[str, str]  # cast and perturbation
FIRST, SECOND = 1, 2  # occasions


class PlanError(ValueError):
    """The requested study is impossible. The message states what is missing or which number would work."""


class Candidate(NamedTuple):
    """A possible item. Versions of one thing share a `pair`; raters cannot tell apart those with the same `content`."""

    key: str
    source: Source
    pair: str
    content: str
    experiment: str
    action: str


class PlannedItem(NamedTuple):
    """An item and how many raters it still needs; in a crossover also its condition (1 or 2)."""

    key: str
    source: Source
    pair: str
    needed: int
    condition: int = 0


class IdenticalCases(NamedTuple):
    """In a crossover of sources, `cases` have identical outcomes, out of the `of` cases that both sources have."""

    cases: int = 0
    of: int = 0


class Arm(NamedTuple):
    """One way of displaying an item: layout, context or not, and marks."""

    layout: str = "aligned"
    with_context: bool = False
    marks: str = "off"


class PlannedAssignment(NamedTuple):
    """A rater (0, 1, ...), item and position (1, 2, ...). `slot` numbers the item's ratings; None on occasion 2."""

    rater: int
    key: str
    position: int
    occasion: int = FIRST
    slot: int | None = None
    layout: str = "aligned"
    with_context: bool = False
    marks: str = "off"
    session: int = 1


class MatrixRow(NamedTuple):
    """One rater's items: how many of each source on the first occasion, and how many repeated ones."""

    rater: int
    counts: Mapping[Source, int]
    total: int
    repeats: int
    arms: tuple[Arm, ...]


class AssignmentMatrix(NamedTuple):
    """The raters and their items before opening. `shared`: fewest and most items that two raters share."""

    sources: tuple[Source, ...]
    rows: tuple[MatrixRow, ...]
    shared: tuple[int, int]


class CandidateItem(NamedTuple):
    """A candidate with the payload that raters will see, and the fields of its ItemSource that it lacks."""

    candidate: Candidate
    payload: Payload
    context: dict[str, Any]
    origin: dict[str, Any]
    screen: int = 0  # in a crossover of screens: which of the two screens (1 or 2) shows the item
