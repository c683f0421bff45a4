"""The parameters of an action by meaning: what dimension they have and which role their names give them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from simulation.checker.reading import leaves, units, words
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.reading import View
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed

SOURCE = listed("source from origin donor stock")
TARGET = listed("destination target to into recipient receiving dest")
SOLVENT = listed("diluent solvent buffer medium media titrant diluant with water acid base")
TOTAL = listed("final total target end desired fill")
_MOVED = listed("volume vol amount transfer aliquot dispense dispensed quantity transferred each per aliquoted size moved "
                   "sample tube well destination dest portion source ul ml")  # fmt: skip
_TAKEN = listed("sample stock aliquot portion source transfer inoculum")
_ADDED = _MOVED | SOLVENT | listed("added add resuspension")
_COUNTS = listed(
    "count number num n aliquot dilution step copie replicate point level of portion tube total no quantity serial series"
)


@dataclass(frozen=True)
class Parameters:
    """All parameters as leaves, and the materials they name."""

    leaves: tuple[Leaf, ...]
    named: Mapping[str, View]  # key of the parameter -> material
    raw: Mapping[str, Any]

    def amounts(self, dimension: str) -> list[tuple[Leaf, Amount]]:
        return [(leaf, amount) for leaf in self.leaves if (amount := leaf.amount(dimension))]

    def material(self, role: frozenset[str]) -> View | None:
        """The material a parameter of this role names; None if none or several do."""
        found = {view.place: view for key, view in self.named.items() if role & set(words.cut(key))}
        return next(iter(found.values())) if len(found) == 1 else None

    def moved(self) -> Amount | None:
        """The volume that goes into each destination."""
        return self._only("volume", _MOVED, words.VOLUME | {"amount", "quantity", "size"})

    def added(self) -> Amount | None:
        """The volume of solvent that goes into each sample."""
        return self._only("volume", _ADDED, words.VOLUME | {"amount", "quantity"})

    def portion(self, sample: frozenset[str]) -> Amount | None:
        """The volume taken of the sample: under its own name, or one for what is diluted."""
        found = [a for leaf, a in self.amounts("volume") if set(leaf.words) & (_TAKEN | sample) - words.VOLUME]
        return found[0] if len({amount.value for amount in found}) == 1 else None

    def total(self) -> Amount | None:
        """The volume each sample is to have afterwards."""
        found = [
            a
            for leaf, a in self.amounts("volume")
            if set(leaf.words) & TOTAL and not set(leaf.words) & {"max", "maximum"}
        ]
        return found[0] if len({amount.value for amount in found}) == 1 else None

    def factor(self) -> Decimal | None:
        """The dilution factor: total over portion, of "10", "10x", "1:10" or "1/10"."""
        # "dilutions: 3" beside "factor: 10" is how many there are, whichever comes first.
        named = [leaf for leaf in self.leaves if {"factor", "fold"} & set(leaf.words)]
        meant = [
            leaf for leaf in self.leaves if set(leaf.words) == {"dilution"} or {"ratio", "dilution"} <= set(leaf.words)
        ]
        return next((_factor(leaf.value) for leaf in (*named, *meant)), None)

    def count(self, *what: str) -> int | None:
        """How many of something: a whole number under a name like number_of_aliquots, n_tubes or count."""
        found = set()
        for leaf in self.leaves:
            said = set(leaf.words)
            if said <= _COUNTS and said & {"count", "number", "num", "n", "no", *what} and not leaf.unit:
                number = units.number_and_rest(leaf.value)
                if number and not number[2].strip() and number[0] == int(number[0]) and 0 < number[0] < 1000:
                    found.add(int(number[0]))
        return found.pop() if len(found) == 1 else None

    def wells(self) -> int | None:
        """How many wells a list of them names; None if there is no such list."""
        found = [leaf for leaf in self.leaves if {"well", "position"} & set(leaf.words)]
        labels = {part.strip().lower() for leaf in found for part in leaf.text.split(",")}
        return len(labels) if labels and all(words.is_well(label) for label in labels) else None

    def volumes(self) -> list[Decimal]:
        return [amount.value for _, amount in self.amounts("volume")]

    def mentions(self) -> frozenset[str]:
        found: set[str] = set()
        for leaf in self.leaves:
            found.update(leaf.words, words.cut(leaf.text))
        return frozenset(found)

    def _only(self, dimension: str, allowed: frozenset[str], core: frozenset[str]) -> Amount | None:
        found = []
        for leaf, amount in self.amounts(dimension):
            said = set(leaf.words) - {"#"}
            if (
                said <= allowed
                and said & (core | {"transfer", "aliquot", "solvent", "diluent"})
                and not said & TOTAL - {"target"}
            ):
                found.append(amount)
        return found[0] if found and len({amount.value for amount in found}) == 1 else None


def read(data: Any, inputs: Iterable[View]) -> Parameters:
    parameters = data if isinstance(data, Mapping) else {}
    flat = leaves.flatten(parameters)
    return Parameters(flat, dict(_named(flat, list(inputs))), parameters)


def _named(flat: Iterable[Leaf], inputs: list[View]) -> Iterator[tuple[str, View]]:
    """Parameters whose value is a material's barcode or its name."""
    by_code = {view.barcode: view for view in inputs if view.barcode}
    names = [view.name for view in inputs]
    by_name = {view.name: view for view in inputs if view.name and names.count(view.name) == 1}
    for number, leaf in enumerate(flat):
        text = leaf.text.strip()
        view = by_code.get(text) or by_name.get(text)
        if view is not None:
            # A list names several under one key.
            yield (f"{leaf.key} {number}" if "#" in leaf.words else leaf.key), view


def _factor(value: Any) -> Decimal | None:
    text = units.fold(str(value)[:40]).lower().strip().removesuffix("fold").rstrip("- x")
    for sign in (":", "/", " in "):
        one, found, rest = text.partition(sign)
        if found and one.strip() == "1":
            text = rest.strip()
            break
    number = units.number_and_rest(text)
    return number[0] if number and not number[2].strip() and number[0] > 1 else None
