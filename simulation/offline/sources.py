"""How much of which material went into a vessel in one step."""

from decimal import Decimal
from typing import Protocol

from simulation.lab import quantities
from simulation.offline.ledger import ZERO, Contents


class Poured(Protocol):
    """What is poured from: it has a barcode, unless it was made in this very step."""

    barcode: str
    contents: Contents

    @property
    def sources(self) -> "Sources": ...


class Sources(dict[str, tuple[Decimal | None, str]]):
    """How much of which material, by barcode, with its dimension: None where the amount is unknown."""

    def add(self, source: Poured, contents: Contents) -> None:
        """Note what came out of a vessel. One that was made in this very step passes on what it came from."""
        moved, dimension = _size(contents)
        if source.barcode:
            self.note(source.barcode, moved, dimension)
            return
        remaining, _ = _size(source.contents)
        for code, (amount, source_dimension) in source.sources.items():
            if amount is None or moved is None or remaining is None:
                self.note(code, None, source_dimension)
            else:
                # What the source noted has been cut down to what stayed in it, unless nothing did.
                self.note(code, amount * moved / remaining if remaining else amount, source_dimension)

    def note(self, code: str, amount: Decimal | None = None, dimension: str = "volume") -> None:
        noted, noted_dimension = self.get(code, (ZERO, dimension))
        total = None if noted is None or amount is None or noted_dimension != dimension else noted + amount
        self[code] = (total, dimension)

    def scale(self, share: Decimal) -> None:
        """Keep this share of each; what is emptied keeps its notes, for whom it is poured into."""
        for code, (amount, dimension) in self.items() if share else ():
            self[code] = (None if amount is None else amount * share, dimension)

    def poured_off(self) -> None:
        """Of the liquids nothing is left."""
        for code, (_, dimension) in self.items():
            if dimension == "volume":
                self[code] = (ZERO, dimension)

    def shown(self) -> dict[str, str]:
        """As text for people; "" where unknown."""
        return {
            code: "" if amount is None else quantities.show(amount, dimension)
            for code, (amount, dimension) in self.items()
        }


def _size(contents: Contents) -> tuple[Decimal | None, str]:
    """How much of a liquid, or of a solid without one, there is."""
    if contents.volume == 0 and contents.mass is not None:
        return contents.mass, "mass"
    return contents.volume, "volume"
