"""How planted errors are spread over kinds, fields and places, so that no place of a step attracts all attention."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from simulation.lab.outcomes import Perturbation
from simulation.twin_audit.pairs import ERROR_TYPES, TwinPair

# The two most frequent fields together may have at most this share of the obvious errors.
LARGEST_SHARE_OF_TWO_FIELDS = 0.25
_PATH = re.compile(r"(?P<part>new_materials|new_observations)\[(?P<position>\d+)\]\.(?P<field>.+)")


class Spread(NamedTuple):
    """Shares of the errors of one type: by kind and by field, most frequent first, and those in a record."""

    error_type: str
    twins: int
    kinds: tuple[tuple[str, float], ...]
    fields: tuple[tuple[str, float], ...]
    in_records: float

    @property
    def share_of_two_fields(self) -> float:
        return sum(share for _, share in self.fields[:2])

    @property
    def is_within_aim(self) -> bool:
        is_obvious = self.error_type == Perturbation.OBVIOUS
        return not is_obvious or self.share_of_two_fields <= LARGEST_SHARE_OF_TWO_FIELDS


def measure_spreads(pairs: Sequence[TwinPair]) -> list[Spread]:
    """Return the spread of each type of error."""
    return [
        _measure_spread(error_type, chosen)
        for error_type in ERROR_TYPES
        if (chosen := [pair for pair in pairs if pair.error_type == error_type])
    ]


def _measure_spread(error_type: str, pairs: Sequence[TwinPair]) -> Spread:
    records = sum(pair.field.startswith("new_observations") for pair in pairs)
    kinds, fields = Counter(pair.kind for pair in pairs), Counter(map(name_field, pairs))
    kind_shares, field_shares = (
        tuple((name, n / len(pairs)) for name, n in counts.most_common()) for counts in (kinds, fields)
    )
    return Spread(str(error_type), len(pairs), kind_shares, field_shares, records / len(pairs))


def name_field(pair: TwinPair) -> str:
    """Return the field of the error as people would group it: "volume", "concentration", "record of caffeine peak area"."""
    match = _PATH.fullmatch(pair.field)
    if not match:
        return pair.field
    if match["part"] == "new_observations":
        description = str(pair.original.observations[int(match["position"])]["description"])
        heading = "heading" if match["field"] == "description" else "record"
        # "HPLC of Sample 1, wavelength 273 nm: peak area" records a peak area, "Delivered from Sample 1" a delivery.
        return f"{heading} of {description.rpartition(': ')[2] if ': ' in description else description.split(' ')[0]}"
    name = match["field"].removeprefix("properties.")
    return "concentration" if name.endswith(" concentration") else name
