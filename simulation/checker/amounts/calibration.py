"""L20 across samples: where concentrations are on record, more of a substance reads higher."""

import re
from decimal import Decimal
from itertools import combinations

from simulation.checker.findings import Ran, Said, error
from simulation.checker.reading import units
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Seen, Transition

# Their signal rises with the concentration of what they are set to.
_RISING = ("HPLC", "NucleicAcidQuantification", "TotalProteinQuantification", "UsePhotospectrometer")
_APART = Decimal("1.5")
_FALLS = re.compile(r"transmi|quench|internal standard|ratio", re.IGNORECASE)


def order(transition: Transition) -> Said:
    """Two samples whose one component is known to differ are not read the other way round."""
    if not transition.success or transition.action not in _RISING:
        return
    read = [(seen, *found) for seen in transition.seen if (found := _read(transition, seen))]
    for (one, first, low, signal), (other, second, high, same) in combinations(read, 2):
        shared = first.concentrations.keys() & second.concentrations.keys()
        if signal != same or len(shared) != 1 or first is second or not signal:
            continue
        name = next(iter(shared))
        had, has = first.concentrations[name], second.concentrations[name]
        if had.dimension != has.dimension or min(had.value, has.value, low, high) <= 0:
            continue
        known, found_ratio = had.value / has.value, low / high
        if known < 1:
            known, found_ratio = 1 / known, 1 / found_ratio
        if known > _APART:
            yield Ran("L20", quantity=True)
            if found_ratio * _APART < 1:
                yield error("L20", one.place, "the higher reading with the higher concentration", "the other way round",
                            f"{first.name} and {second.name} are read the other way round: {one.value[:40]} and {other.value[:40]}")  # fmt: skip


def _read(transition: Transition, seen: Seen) -> tuple[View, Decimal, str] | None:
    """(sample, first figure, what was read) of an observation that names exactly one sample."""
    if _FALLS.search(seen.text[:1000]):
        return None
    named = [view for view in transition.outputs if view.name and view.name in seen.description]
    longest = max((len(view.name) for view in named), default=0)
    best = [view for view in named if len(view.name) == longest]
    number = units.number(seen.value)
    if len(best) != 1 or number is None:
        return None
    return best[0], number, seen.description.replace(best[0].name, "")
