"""Ranges of the sizes of planted errors. The size is the relative deviation of a number from the true one, without its sign."""

from itertools import pairwise
from typing import NamedTuple

from ratings.protocol.reference import WITHOUT_ERROR
from ratings.results.rating_rows import RatingRow
from simulation.lab.deviations import DETECTION_LIMIT

# The first bound is the detection limit: what is below it is a stratum of its own. Subtle errors are from 10 to 40 % unless
# their order states another range, obvious ones are off by a factor of two or more.
_BOUNDS = (DETECTION_LIMIT, 0.2, 0.3, 0.4, 1.0, 3.0)


class SizeRange(NamedTuple):
    """A range of sizes with its name; None: no bound on this side, or no size."""

    name: str
    smallest: float | None
    largest: float | None


BELOW_LIMIT = SizeRange(f"below {DETECTION_LIMIT:.0%}", 0.0, DETECTION_LIMIT)
ABOVE_LIMIT = (
    *(SizeRange(f"{low:.0%} to {high:.0%}".replace("%", "", 1), low, high) for low, high in pairwise(_BOUNDS)),
    SizeRange(f"{_BOUNDS[-1]:.0%} or more", _BOUNDS[-1], None),
)
UNSIZED, NO_ERROR = SizeRange("no size", None, None), SizeRange("no error", None, None)
RANGES = (BELOW_LIMIT, *ABOVE_LIMIT, UNSIZED, NO_ERROR)  # in the order of tables and figures


def name_error_size(row: RatingRow) -> str:
    """Return the name of the range of an item's error; "" if it has an error about which nothing is known."""
    if row.reference in WITHOUT_ERROR:
        return NO_ERROR.name
    if row.deviation is None:
        # Errors of imported items, and errors that are only declared, may well be numbers.
        return UNSIZED.name if row.error_kind is not None else ""
    return find_range(row.deviation).name


def find_range(deviation: float) -> SizeRange:
    """Return the range of a deviation of either sign."""
    # Rounded as in the strata of twins: 0.0999996 is 10 %.
    size = round(abs(deviation), 3)
    return next(one for one in (BELOW_LIMIT, *ABOVE_LIMIT) if one.largest is None or size < one.largest)
