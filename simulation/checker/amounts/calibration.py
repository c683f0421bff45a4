"""L20 across samples: a sample with a higher known concentration has a higher reading."""

import re
from decimal import Decimal
from itertools import combinations

from simulation.checker.findings import Decided, Findings, error_finding
from simulation.checker.reading import units
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition

# Instruments whose signal rises with the concentration of the substance they measure.
_RISING_SIGNAL = ("HPLC", "NucleicAcidQuantification", "TotalProteinQuantification", "UsePhotospectrometer")
_MIN_RATIO = Decimal("1.5")  # smallest ratio of concentrations, and of readings, that noise cannot reverse
# Words for readings that fall with the concentration or do not depend on it.
_NOT_RISING = re.compile(r"transmi|quench|internal standard|ratio", re.IGNORECASE)


def check_signal_order(transition: Transition) -> Findings:
    """L20: yield an error if the readings of two samples contradict the order of their known concentrations.

    Only samples that have exactly one component in common are compared.
    """
    if not transition.is_success or transition.action not in _RISING_SIGNAL:
        return
    readings = [(seen, *found) for seen in transition.observations if (found := _parse_signal(transition, seen))]
    for (first_seen, first, low, signal), (second_seen, second, high, other_signal) in combinations(readings, 2):
        common = first.concentrations.keys() & second.concentrations.keys()
        # Only readings of the same kind are compared, and only if no second component could explain the difference.
        if signal != other_signal or len(common) != 1 or first is second or not signal:
            continue
        component = next(iter(common))
        first_amount, second_amount = first.concentrations[component], second.concentrations[component]
        if (
            first_amount.dimension != second_amount.dimension
            or min(first_amount.value, second_amount.value, low, high) <= 0
        ):
            continue
        known_ratio, found_ratio = first_amount.value / second_amount.value, low / high
        if known_ratio < 1:
            known_ratio, found_ratio = 1 / known_ratio, 1 / found_ratio
        if known_ratio > _MIN_RATIO:
            yield Decided("L20", quantity=True)
            if found_ratio * _MIN_RATIO < 1:
                yield error_finding("L20", first_seen.path, "the higher reading with the higher concentration", "the other way round",
                            f"the readings of {first.name} and {second.name} are in reverse order: {first_seen.value[:40]} and {second_seen.value[:40]}")  # fmt: skip


def _parse_signal(transition: Transition, seen: ObservationView) -> tuple[MaterialView, Decimal, str] | None:
    """Return (sample, number read, description without the sample's name), or None unless one sample is named."""
    if _NOT_RISING.search(seen.full_text[:1000]):
        return None
    named_views = [view for view in transition.outputs if view.name and view.name in seen.description]
    # The longest name counts: "Sample 1" is also in "Sample 10".
    longest = max((len(view.name) for view in named_views), default=0)
    best = [view for view in named_views if len(view.name) == longest]
    number = units.parse_number(seen.value)
    if len(best) != 1 or number is None:
        return None
    return best[0], number, seen.description.replace(best[0].name, "")
