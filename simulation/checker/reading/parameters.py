"""Interpret the parameters of an action by their dimension and by the role that their names give them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from simulation.checker.reading import property_tree, units, words
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.property_tree import Leaf
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set

# Words in the names of parameters that give the named material or volume its role.
SOURCE = word_set("source from origin donor stock")
TARGET = word_set("destination target to into recipient receiving dest")
SOLVENT = word_set("diluent solvent buffer medium media titrant diluant with water acid base")
TOTAL = word_set("final total target end desired fill")
# All words that may occur in the name of the moved volume: one other word, as in "mixing_volume", rules it out.
_MOVED_WORDS = word_set("volume vol amount transfer aliquot dispense dispensed quantity transferred each per aliquoted size moved "
                   "sample tube well destination dest portion source ul ml")  # fmt: skip
_PORTION_WORDS = word_set("sample stock aliquot portion source transfer inoculum")
_ADDED_WORDS = _MOVED_WORDS | SOLVENT | word_set("added add resuspension")
_COUNT_WORDS = word_set(
    "count number num n aliquot dilution step copie replicate point level of portion tube total no quantity serial series"
)


@dataclass(frozen=True)
class Parameters:
    """The parameters of an action as leaves, and the materials that they name."""

    leaves: tuple[Leaf, ...]
    materials_by_key: Mapping[str, MaterialView]  # key of the parameter -> material
    raw: Mapping[str, Any]

    def list_amounts(self, dimension: str) -> list[tuple[Leaf, Amount]]:
        return [(leaf, amount) for leaf in self.leaves if (amount := leaf.parse_amount(dimension))]

    def find_material(self, role: frozenset[str]) -> MaterialView | None:
        """Return the only material that parameters of this role name, or None if they name none or several."""
        materials = {view.path: view for key, view in self.materials_by_key.items() if role & set(words.tokenize(key))}
        return next(iter(materials.values())) if len(materials) == 1 else None

    def find_moved_volume(self) -> Amount | None:
        """Return the volume that the parameters state for each destination, or None if unclear."""
        return self._find_single_amount("volume", _MOVED_WORDS, words.VOLUME | {"amount", "quantity", "size"})

    def find_added_volume(self) -> Amount | None:
        """Return the volume of solvent that the parameters state for each sample, or None if unclear."""
        return self._find_single_amount("volume", _ADDED_WORDS, words.VOLUME | {"amount", "quantity"})

    def find_portion_volume(self, sample: frozenset[str]) -> Amount | None:
        """Return the volume taken from the sample, or None. The parameter is named after the sample or a portion."""
        amounts = [
            a for leaf, a in self.list_amounts("volume") if set(leaf.words) & (_PORTION_WORDS | sample) - words.VOLUME
        ]
        return amounts[0] if len({amount.value for amount in amounts}) == 1 else None

    def find_total_volume(self) -> Amount | None:
        """Return the volume that each sample must have afterwards according to the parameters, or None if unclear."""
        amounts = [
            a
            for leaf, a in self.list_amounts("volume")
            if set(leaf.words) & TOTAL and not set(leaf.words) & {"max", "maximum"}
        ]
        return amounts[0] if len({amount.value for amount in amounts}) == 1 else None

    def find_dilution_factor(self) -> Decimal | None:
        """Return the dilution factor (total over portion), written like "10", "10x", "1:10" or "1/10", or None."""
        # Beside "factor: 10", "dilutions: 3" is a number of steps, whichever comes first.
        factors = [leaf for leaf in self.leaves if {"factor", "fold"} & set(leaf.words)]
        dilutions = [
            leaf for leaf in self.leaves if set(leaf.words) == {"dilution"} or {"ratio", "dilution"} <= set(leaf.words)
        ]
        return next((_parse_factor(leaf.value) for leaf in (*factors, *dilutions)), None)

    def find_count(self, *things: str) -> int | None:
        """Return the whole number in a parameter like number_of_aliquots, n_tubes or count, or None if unclear."""
        counts = set()
        for leaf in self.leaves:
            key_words = set(leaf.words)
            if (
                key_words <= _COUNT_WORDS
                and key_words & {"count", "number", "num", "n", "no", *things}
                and not leaf.unit
            ):
                number = units.split_number(leaf.value)
                # More than 1000 is no count of tubes or steps but a size or an amount without a unit.
                if number and not number[2].strip() and number[0] == int(number[0]) and 0 < number[0] < 1000:
                    counts.add(int(number[0]))
        return counts.pop() if len(counts) == 1 else None

    def count_wells(self) -> int | None:
        """Return the number of wells in a list of wells, or None if there is no such list."""
        leaves_of_wells = [leaf for leaf in self.leaves if {"well", "position"} & set(leaf.words)]
        labels = {part.strip().lower() for leaf in leaves_of_wells for part in leaf.value_text.split(",")}
        return len(labels) if labels and all(words.is_well(label) for label in labels) else None

    def list_volumes(self) -> list[Decimal]:
        return [amount.value for _, amount in self.list_amounts("volume")]

    def collect_words(self) -> frozenset[str]:
        all_words: set[str] = set()
        for leaf in self.leaves:
            all_words.update(leaf.words, words.tokenize(leaf.value_text))
        return frozenset(all_words)

    def _find_single_amount(self, dimension: str, allowed: frozenset[str], core: frozenset[str]) -> Amount | None:
        amounts = []
        for leaf, amount in self.list_amounts(dimension):
            key_words = set(leaf.words) - {"#"}
            if (
                key_words <= allowed
                and key_words & (core | {"transfer", "aliquot", "solvent", "diluent"})
                and not key_words & TOTAL - {"target"}
            ):
                amounts.append(amount)
        # If suitable parameters have different values, the meaning is unclear.
        return amounts[0] if amounts and len({amount.value for amount in amounts}) == 1 else None


def parse_parameters(data: Any, inputs: Iterable[MaterialView]) -> Parameters:
    parameters = data if isinstance(data, Mapping) else {}
    flat_leaves = property_tree.flatten_properties(parameters)
    return Parameters(flat_leaves, dict(_iter_named_materials(flat_leaves, list(inputs))), parameters)


def _iter_named_materials(
    flat_leaves: Iterable[Leaf], inputs: list[MaterialView]
) -> Iterator[tuple[str, MaterialView]]:
    """Yield (key, material) of every parameter whose value is the barcode or the unique name of a material."""
    by_code = {view.barcode: view for view in inputs if view.barcode}
    names = [view.name for view in inputs]
    # A name that two materials share identifies neither.
    by_name = {view.name: view for view in inputs if view.name and names.count(view.name) == 1}
    for index, leaf in enumerate(flat_leaves):
        text = leaf.value_text.strip()
        view = by_code.get(text) or by_name.get(text)
        if view is not None:
            # A list has several materials under one key; the index keeps the keys of the result unique.
            yield (f"{leaf.key} {index}" if "#" in leaf.words else leaf.key), view


def _parse_factor(value: Any) -> Decimal | None:
    text = units.normalise_text(str(value)[:40]).lower().strip().removesuffix("fold").rstrip("- x")
    for sign in (":", "/", " in "):
        numerator, separator, denominator = text.partition(sign)
        if separator and numerator.strip() == "1":
            text = denominator.strip()
            break
    number = units.split_number(text)
    # A factor up to 1 dilutes nothing; it is the portion's share or a mistake.
    return number[0] if number and not number[2].strip() and number[0] > 1 else None
