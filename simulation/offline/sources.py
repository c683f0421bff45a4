"""How much of each material was poured into a vessel in one step."""

from decimal import Decimal
from typing import Protocol

from simulation.lab import quantities
from simulation.offline.ledger import ZERO, Contents


class PourSource(Protocol):
    """A vessel that is poured from. It has a barcode unless it was created in the same step."""

    barcode: str
    contents: Contents

    @property
    def sources(self) -> "Sources": ...


class Sources(dict[str, tuple[Decimal | None, str]]):
    """(amount, dimension) of each source material by barcode. The amount is None if unknown."""

    def add_from_vessel(self, source: PourSource, contents: Contents) -> None:
        """Record that these contents came out of this vessel."""
        moved, dimension = _measure_contents(contents)
        if source.barcode:
            self.add_amount(source.barcode, moved, dimension)
            return
        # A vessel created in this step has no barcode yet, so its own sources are recorded instead.
        remaining, _ = _measure_contents(source.contents)
        for code, (amount, source_dimension) in source.sources.items():
            if amount is None or moved is None or remaining is None:
                self.add_amount(code, None, source_dimension)
            else:
                # The source's amounts have been scaled down to what stayed in it, unless it was emptied.
                self.add_amount(code, amount * moved / remaining if remaining else amount, source_dimension)

    def add_amount(self, code: str, amount: Decimal | None = None, dimension: str = "volume") -> None:
        noted, noted_dimension = self.get(code, (ZERO, dimension))
        # Volumes and masses cannot be added, so a source taken in both ways has an unknown amount.
        total = None if noted is None or amount is None or noted_dimension != dimension else noted + amount
        self[code] = (total, dimension)

    def scale_amounts(self, share: Decimal) -> None:
        """Multiply all amounts by the share that stays in the vessel."""
        # An emptied vessel keeps its amounts, because they are needed when its former contents are poured elsewhere.
        for code, (amount, dimension) in self.items() if share else ():
            self[code] = (None if amount is None else amount * share, dimension)

    def clear_liquids(self) -> None:
        """Set all volumes to zero, because the liquid was removed."""
        for code, (_, dimension) in self.items():
            if dimension == "volume":
                self[code] = (ZERO, dimension)

    def format_amounts(self) -> dict[str, str]:
        """Return the amounts as text for people, "" if unknown."""
        return {
            code: "" if amount is None else quantities.format_quantity(amount, dimension)
            for code, (amount, dimension) in self.items()
        }


def _measure_contents(contents: Contents) -> tuple[Decimal | None, str]:
    """Return (amount, dimension): the mass of a dry solid, else the volume."""
    if contents.volume == 0 and contents.mass is not None:
        return contents.mass, "mass"
    return contents.volume, "volume"
