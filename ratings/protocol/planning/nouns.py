"""What a plan is made of."""

from collections.abc import Mapping
from typing import NamedTuple

Source = tuple[str, str]  # cast and perturbation
FIRST, SECOND = 1, 2  # occasions


class PlanError(ValueError):
    """The study asked for cannot be made; the message says what is missing or which number would work."""


class Candidate(NamedTuple):
    """Something that could become an item. Equal `pair`: versions of one thing. Equal `content`: nobody can tell them apart."""

    key: str
    source: Source
    pair: str
    content: str
    experiment: str
    action: str


class Planned(NamedTuple):
    """An item and how many raters it still needs; in a crossover also which condition it is (1 or 2)."""

    key: str
    source: Source
    pair: str
    needed: int
    condition: int = 0


class Alike(NamedTuple):
    """Of the cases that both sources of a crossover have, how many have one outcome alone: nobody can tell the two apart."""

    cases: int = 0
    of: int = 0


class Arm(NamedTuple):
    """One way of showing an item."""

    layout: str = "aligned"
    with_context: bool = False
    marks: str = "off"


class Place(NamedTuple):
    """One assignment: rater number (0, 1, ...), item, position in that rater's order (1, 2, ...).

    `slot` is which of the item's wanted ratings it is to be (1, 2, ...); on occasion 2 there is none.
    """

    rater: int
    key: str
    position: int
    occasion: int = FIRST
    slot: int | None = None
    layout: str = "aligned"
    with_context: bool = False
    marks: str = "off"
    session: int = 1


class Row(NamedTuple):
    """What one rater is to get: so many of each source on the first occasion, and so many items a second time."""

    rater: int
    counts: Mapping[Source, int]
    total: int
    repeats: int
    arms: tuple[Arm, ...]


class Matrix(NamedTuple):
    """The reader x item picture before opening. `shared` is the fewest and the most items that two raters have in common."""

    sources: tuple[Source, ...]
    rows: tuple[Row, ...]
    shared: tuple[int, int]
