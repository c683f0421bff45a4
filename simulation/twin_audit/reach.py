"""How much of a step its error reaches: one replicate or all of them, records or materials; and whether seeing it needs science."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from simulation.lab.outcomes import NOTE, Perturbation
from simulation.offline.injectors.edits import INJECTORS
from simulation.twin_audit.pairs import ERROR_TYPES, ShownStep, TwinPair
from simulation.twin_audit.step_reading import LAST_NUMBER

# Systematic errors are to be about half of those that hit replicates.
SYSTEMATIC_AIM = (0.4, 0.6)
ALL, ONE = "all replicates", "one replicate"
_SHARED = re.compile(r"[0-9]+ ×|[0-9]+ volumes,")


class Reach(NamedTuple):
    """Counts of the errors of one type.

    `systematic` and `single` are the errors in all replicates and in one of them. The others are in no replicate, such as
    an error in the only source. The pairs are (errors in records, errors) of steps with measurements, and of steps whose
    only records are notes. `without_records` are the errors of steps without any record. `scientific` is the number of
    errors of kinds that need biology or chemistry.
    """

    error_type: str
    twins: int
    systematic: int
    single: int
    measured: tuple[int, int]
    noted: tuple[int, int]
    without_records: int
    scientific: int

    @property
    def systematic_share(self) -> float:
        return self.systematic / max(self.systematic + self.single, 1)

    @property
    def is_within_aim(self) -> bool:
        low, high = SYSTEMATIC_AIM
        return not self.systematic + self.single or low <= self.systematic_share <= high


def measure_reach(pairs: Sequence[TwinPair]) -> list[Reach]:
    """Return the counts for each type of error that occurs."""
    return [
        _count_reach(error_type, chosen)
        for error_type in ERROR_TYPES
        if (chosen := [pair for pair in pairs if pair.error_type == error_type])
    ]


def _count_reach(error_type: Perturbation, pairs: Sequence[TwinPair]) -> Reach:
    scopes = Counter(map(find_scope, pairs))
    measured = [pair for pair in pairs if _has_measurements(pair.original)]
    noted = [pair for pair in pairs if pair.original.observations and not _has_measurements(pair.original)]
    kinds = INJECTORS[error_type]
    return Reach(
        str(error_type),
        len(pairs),
        scopes[ALL],
        scopes[ONE],
        (_count_in_records(measured), len(measured)),
        (_count_in_records(noted), len(noted)),
        len(pairs) - len(measured) - len(noted),
        sum(pair.kind in kinds and kinds[pair.kind].science for pair in pairs),
    )


def _has_measurements(step: ShownStep) -> bool:
    return any(record["measurement_type"] != NOTE for record in step.observations)


def _count_in_records(pairs: Sequence[TwinPair]) -> int:
    return sum(pair.field.startswith("new_observations") for pair in pairs)


def find_scope(pair: TwinPair) -> str:
    """Return ALL if the twin differs in most replicates or in a note on several vessels, ONE if in one, "" if in none."""
    groups: dict[str, list[bool]] = {}
    for right, wrong in zip(pair.original.materials, pair.twin.materials, strict=True):
        groups.setdefault(f"material {_fold(right['name'])}", []).append(right != wrong)
    names = sorted({str(one["name"]) for one in (*pair.original.materials, *pair.original.inputs)}, key=len)
    is_note_shared = False
    for right, wrong in zip(pair.original.observations, pair.twin.observations, strict=True):
        if right["measurement_type"] == NOTE:
            is_shared = _SHARED.search(str(right["value"])) or "each" in str(right["description"])
            is_note_shared |= right != wrong and bool(is_shared)
            continue
        description = str(right["description"])
        subject = next((name for name in reversed(names) if name in description), "")
        base = description.replace(subject, _fold(subject)) if subject else description
        groups.setdefault(f"record {base}", []).append(right != wrong)
    hit = [group for group in groups.values() if len(group) > 1 and any(group)]
    if is_note_shared or any(sum(group) * 2 > len(group) for group in hit):
        return ALL
    return ONE if hit else ""


def _fold(name: str) -> str:
    return LAST_NUMBER.sub("#", name)
