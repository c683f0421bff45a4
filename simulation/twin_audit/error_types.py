"""Compare the type that each error was planted as with the type that its visible difference alone has."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from simulation.lab.outcomes import Perturbation
from simulation.lab.planted_errors.error_type import Change, decide_error_type
from simulation.twin_audit.pairs import ERROR_TYPES, TwinPair
from simulation.twin_audit.step_reading import list_rows

UNDECIDED = "undecided"


class TypeCount(NamedTuple):
    """How many errors planted as one type the rule calls obvious or subtle, and how many it leaves undecided."""

    error_type: str
    obvious: int
    subtle: int
    undecided: int
    disagreeing_kinds: tuple[tuple[str, int], ...]  # most frequent first

    @property
    def disagreements(self) -> int:
        return self.subtle if self.error_type == Perturbation.OBVIOUS else self.obvious

    @property
    def is_within_aim(self) -> bool:
        """No error of one type looks like the other."""
        return not self.disagreements


def count_error_types(pairs: Sequence[TwinPair]) -> list[TypeCount]:
    """Return the counts for each type of error."""
    decided = [(pair, decide_error_type(iter_changes(pair))) for pair in pairs]
    counts = []
    for error_type in ERROR_TYPES:
        chosen = [(pair.kind, decision) for pair, decision in decided if pair.error_type == error_type]
        by_decision = Counter(str(decision or UNDECIDED) for _, decision in chosen)
        kinds = Counter(kind for kind, decision in chosen if decision not in (None, error_type))
        obvious, subtle, undecided = (
            by_decision[name] for name in (Perturbation.OBVIOUS, Perturbation.SUBTLE, UNDECIDED)
        )
        counts.append(TypeCount(str(error_type), obvious, subtle, undecided, tuple(kinds.most_common())))
    return counts


def iter_changes(pair: TwinPair) -> Iterator[Change]:
    """Yield every text of the twin that differs from the original. Both have the same materials and records in one order."""
    for right, wrong in zip(list_rows(pair.original), list_rows(pair.twin), strict=True):
        for place in sorted({*right.after, *wrong.after}):
            correct, planted = right.after.get(place, ""), wrong.after.get(place, "")
            if correct != planted:
                yield Change(place, right.before.get(place, ""), correct, planted)
    for before, after in zip(pair.original.observations, pair.twin.observations, strict=True):
        for field in ("value", "description"):
            if before[field] != after[field]:
                yield Change(str(before["description"]), "", str(before[field]), str(after[field]))
