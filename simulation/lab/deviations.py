"""How far a planted number is from the true one: its deviation, and the range from which deviations are drawn.

A deviation is relative and signed: +0.2 is a fifth too much. Errors that do not change a number, such as a wrong antibody, have none.
"""

import re
from collections.abc import Iterable
from decimal import Decimal
from functools import lru_cache
from typing import NamedTuple

from simulation.lab import quantities
from simulation.lab.differences import Difference
from simulation.lab.errors import LabError

# A careful reader who has the numbers of a step recomputes them to a tenth: a smaller deviation may pass as rounding,
# pipetting or noise. Twins below this limit form a separate stratum.
DETECTION_LIMIT = 0.1
BELOW_LIMIT, ABOVE_LIMIT, UNSIZED = "below the detection limit", "above the detection limit", "no size"
STRATA = (BELOW_LIMIT, ABOVE_LIMIT, UNSIZED)
_NUMBER = r"(?<![\w.])-?[0-9]+(?:\.[0-9]+)?(?:e[0-9]+| × 10\^-?[0-9]+)?(?![\w.])"
_MEASURE = re.compile(rf"(?P<number>{_NUMBER})(?P<unit>(?: ?%| (?:x g|[^\s\d,;:()\]}}'\"]+))?)")
# The zero of these scales is arbitrary, or their numbers are names: a relative difference has no meaning.
_UNSIZED_UNITS = ("°C", "nm")
_UNSIZED_TEXTS = re.compile(r"\bpH\b")


class SizeRange(NamedTuple):
    """The smallest and largest deviation of a subtle numeric error, as positive shares of the true value."""

    smallest: float = DETECTION_LIMIT
    largest: float = 0.4

    def contains(self, deviation: float) -> bool:
        """Return whether a deviation of either sign has a size in the range, rounded to a thousandth."""
        return self.smallest <= round(abs(deviation), 3) <= self.largest

    def check(self) -> None:
        """Raise LabError unless the sizes are ordered and within what a subtle error may be."""
        if not SMALLEST_SIZE <= self.smallest < self.largest <= LARGEST_SIZE:
            raise LabError(
                f"The size of subtle errors is from {self.smallest:.0%} to {self.largest:.0%}; it must be a range within"
                f" {SMALLEST_SIZE:.0%} to {LARGEST_SIZE:.0%}, the smaller size first"
            )


# A larger one would be obvious, and a smaller one less than the noise of every instrument here.
SMALLEST_SIZE, LARGEST_SIZE = 0.01, 0.6
DEFAULT_SIZES = SizeRange()


def parse_sizes(text: str) -> SizeRange:
    """Parse a range of sizes in percent, such as "10-40". Raises LabError."""
    match = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9])?) ?[-–] ?([0-9]{1,3}(?:\.[0-9])?) ?%?", text.strip())
    if not match:
        raise LabError(f"{text[:40]!r} is not a range of sizes; write two percentages, like 10-40")
    sizes = SizeRange(float(match[1]) / 100, float(match[2]) / 100)
    sizes.check()
    return sizes


def find_stratum(deviation: float | None) -> str:
    """Return which stratum a twin with this deviation is in: one of STRATA."""
    if deviation is None:
        return UNSIZED
    return ABOVE_LIMIT if round(abs(deviation), 3) >= DETECTION_LIMIT else BELOW_LIMIT


def measure_deviation(before: str, after: str) -> float | None:
    """Return the largest relative deviation between the numbers of two texts, or None if it is not a matter of numbers.

    It is not if anything but numbers and their units differs, or if the scale has no zero that means none: temperatures,
    wavelengths and pH.
    """
    old, new = [*_MEASURE.finditer(before)], [*_MEASURE.finditer(after)]
    if not old or _MEASURE.sub("#", before) != _MEASURE.sub("#", after) or _UNSIZED_TEXTS.search(before):
        return None
    pairs = zip(old, new, strict=True)
    ratios = [_compare_measures(first, second) for first, second in pairs if first[0] != second[0]]
    known = [ratio for ratio in ratios if ratio is not None]
    return max(known, key=abs) if known and len(known) == len(ratios) else None


def _compare_measures(before: re.Match[str], after: re.Match[str]) -> float | None:
    old_unit, new_unit = before["unit"].strip(), after["unit"].strip()
    old, new = _parse_number(before["number"]), _parse_number(after["number"])
    if old_unit in _UNSIZED_UNITS or not old:
        return None
    if old_unit != new_unit:
        factor = _find_factor(old_unit, new_unit)
        if factor is None:
            return None
        new *= factor
    return round(float((new - old) / abs(old)), 4)


@lru_cache(maxsize=1000)  # rules compare thousands of candidate errors of one step, in the same few units
def _find_factor(old_unit: str, new_unit: str) -> Decimal | None:
    """Return the size of the new unit in the old one, or None if no dimension has both."""
    for dimension in quantities.list_dimensions():
        old, new = (quantities.find_quantity(f"1 {unit}", dimension) for unit in (old_unit, new_unit))
        if old and new:
            return new.value / old.value
    return None


def _parse_number(text: str) -> Decimal:
    number, _, power = text.partition(" × 10^")
    return Decimal(number) * Decimal(10) ** int(power or 0)


def find_deviation(differences: Iterable[Difference], location: str) -> float | None:
    """Return the deviation of the differences between an original and its twin.

    It is that of the error's location, or, if it is not among the differences, of the first one that is a number.
    """
    listed = [*differences]
    # A language model names the location itself, so it may be one where nothing differs.
    located = [difference for difference in listed if difference.path == location]
    sizes = [_measure_difference(difference) for difference in located or listed]
    return next((size for size in sizes if size is not None), None)


def _measure_difference(difference: Difference) -> float | None:
    path, before, after = difference
    if not isinstance(before, str | int | float) or not isinstance(after, str | int | float):
        return None
    if isinstance(before, bool) or isinstance(after, bool) or _UNSIZED_TEXTS.search(path):
        return None
    return measure_deviation(str(before), str(after))
