"""Sum inputs and outputs: the balance sheet shows sums with their terms and judges nothing.

There are two kinds of lines. Stated values (volume, mass, amount, cells) are added as they are. Concentrations are
multiplied by the volume for each material that states both; their sums are rounded to four significant figures. A
value that `quantities` cannot parse, and an unlimited supply, is listed as not summed: nothing is guessed.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Context, Decimal
from typing import NamedTuple

from ratings.blinding.material_rows import Payload, align_materials
from ratings.blinding.pseudonyms import AVAILABILITY, UNLIMITED, format_label
from simulation.lab import notation, quantities
from simulation.lab.quantities import PER_VOLUME, Quantity, QuantityError

# Line -> the labels (in small letters) under which a material states it, and its possible dimensions.
_STATED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Volume": (("volume", "liquid volume", "total volume", "current volume", "remaining volume"), ("volume",)),
    "Mass": (("mass", "total mass", "remaining mass", "weight"), ("mass",)),
    "Amount": (("amount", "amount of substance"), ("amount", "mass", "count", "enzyme_units")),
    "Cells": (("cells", "cell count", "total cells", "number of cells"), ("count",)),
    "Viable cells": (("viable cells", "live cells", "viable cell count"), ("count",)),
}
_CONCENTRATION = re.compile(r"(.+) concentration|concentration of (.+)", re.IGNORECASE | re.DOTALL)
_DENSITIES = {"cell density": "cells", "viable cell density": "viable cells"}
# Ratios have no amount: multiplying one by a volume gives no substance.
_AMOUNT_DIMENSION = {of: amount for amount, of in PER_VOLUME.items() if of != "ratio"}
_FOUR_FIGURES = Context(prec=4)
_MAX_VALUE = Decimal(10) ** 15  # above it a value is more likely misread than measured


class BalanceSide(NamedTuple):
    """A sum and its terms as written. Equal terms are listed once with their number: ("500 µL", 12).

    `sum` is "" if there is nothing to sum.
    """

    sum: str
    terms: tuple[tuple[str, int], ...]


class BalanceLine(NamedTuple):
    """One line of the sheet. `unsummed` lists values that could not be added, each with the letter of its material."""

    name: str
    into: BalanceSide
    out: BalanceSide
    difference: str
    unsummed: tuple[tuple[str, str], ...]


class BalanceSheet(NamedTuple):
    """Stated quantities, and those computed as volume times concentration."""

    stated: tuple[BalanceLine, ...]
    computed: tuple[BalanceLine, ...]


class _Entry(NamedTuple):
    """One material's contribution to a line; `amount` is None if the value could not be parsed."""

    ref: str
    amount: Quantity | None
    written: str


def build_balance_sheet(payload: Payload) -> BalanceSheet:
    """Return the balance of a transition. Lines that no material states are left out."""
    rows = align_materials(payload)
    # A material that is not declared gone remains, also where the step lists no output for it: an unlimited supply, or
    # every input of a rejected action.
    before = [lane.before for lane in rows if lane.before is not None]
    after = [stands for lane in rows if not lane.gone and (stands := lane.after or lane.before) is not None]
    sides = (before, after)
    stated = [_build_line(name, *(list(_find_stated_entries(name, side)) for side in sides)) for name in _STATED]
    substances = sorted({name for material in (*before, *after) for name in _find_concentrations(material)})
    computed = [
        _build_line(format_label(name), *(list(_compute_entries(name, side)) for side in sides), round_sum=True)
        for name in substances
    ]
    return BalanceSheet(tuple(line for line in stated if line), tuple(line for line in computed if line))


def _build_line(name: str, before: list[_Entry], after: list[_Entry], *, round_sum: bool = False) -> BalanceLine | None:
    # The first parsed amount decides the dimension, because a sum can only have one.
    parsed = [entry.amount for entry in (*before, *after) if entry.amount]
    unsummed = tuple(dict.fromkeys((e.ref, e.written) for e in (*before, *after) if not _is_addable(e, parsed)))
    if not before and not after:
        return None
    if not parsed:
        return BalanceLine(name, BalanceSide("", ()), BalanceSide("", ()), "", unsummed)
    dimension, sums, terms = parsed[0].dimension, [], []
    for side in (before, after):
        addable = [entry for entry in side if _is_addable(entry, parsed)]
        total = sum((entry.amount.value for entry in addable if entry.amount), Decimal(0))
        # Rounded only where concentrations were multiplied: stated values are added exactly.
        sums.append(_FOUR_FIGURES.plus(total) if round_sum else total)
        terms.append(tuple(Counter(entry.written for entry in addable).items()))
    # Both sides use the unit of the larger sum, so that they can be compared without converting.
    unit = quantities.format_quantity(max(sums, key=abs), dimension).partition(" ")[2]
    into, out = (BalanceSide(_format_amount(sums[at], dimension, unit), terms[at]) for at in (0, 1))
    change = sums[1] - sums[0]
    sign = "+" if change > 0 else "−" if change < 0 else ""
    return BalanceLine(name, into, out, f"{sign}{_format_amount(abs(change), dimension, unit)}", unsummed)


def _is_addable(entry: _Entry, parsed: list[Quantity]) -> bool:
    """Return whether an amount can be added to the others: cells cannot be added to grams."""
    return entry.amount is not None and entry.amount.dimension == parsed[0].dimension


def _format_amount(value: Decimal, dimension: str, unit: str) -> str:
    """Return the amount as text like `quantities`, in the notation of all items."""
    return notation.write_value(quantities.format_quantity(value, dimension, unit))


def _find_stated_entries(name: str, materials: Iterable[Payload]) -> Iterator[_Entry]:
    """Yield each material's stated value. A material with two different values is not summed: either may be meant."""
    labels, dimensions = _STATED[name]
    for material in materials:
        # The same value under two labels is one statement.
        written = list(dict.fromkeys(value for label, value in material["properties"] if label.lower() in labels))
        if len(written) == 1:
            yield _make_entry(material, _parse_amount(written[0], dimensions), written[0])
        elif written:
            yield _Entry(material["ref"], None, " or ".join(written))


def _compute_entries(substance: str, materials: Iterable[Payload]) -> Iterator[_Entry]:
    for material in materials:
        # A material that does not state the substance is left out; to assume zero would be a guess.
        if (written := _find_concentrations(material).get(substance)) is None:
            continue
        unknown = _Entry(material["ref"], None, "no volume stated")
        volume = next(_find_stated_entries("Volume", [material]), unknown)
        content = _parse_amount(written, tuple(_AMOUNT_DIMENSION))
        amount = None
        if volume.amount and content:
            # The volume is in µL, the concentration per mL or in µM (1000 µM is 1 nmol per µL).
            amount = Quantity(volume.amount.value * content.value / 1000, _AMOUNT_DIMENSION[content.dimension])
        text = f"{volume.written} at {written}" if volume.amount else f"{written}, {volume.written}"
        yield _make_entry(material, amount, text)


def _make_entry(material: Payload, amount: Quantity | None, written: str) -> _Entry:
    if material["availability"] == AVAILABILITY[UNLIMITED]:
        return _Entry(material["ref"], None, AVAILABILITY[UNLIMITED])
    return _Entry(material["ref"], amount, written)


def _find_concentrations(material: Payload) -> dict[str, str]:
    """Return, for each substance, its concentration as written; different values are joined by "or"."""
    values_by_substance: dict[str, list[str]] = {}
    for label, value in material["properties"]:
        match = _CONCENTRATION.fullmatch(label)
        if name := (match[1] or match[2]) if match else _DENSITIES.get(label.lower()):
            values_by_substance.setdefault(name, []).append(value)
    return {name: " or ".join(dict.fromkeys(values)) for name, values in values_by_substance.items()}


def _parse_amount(written: str, dimensions: Iterable[str]) -> Quantity | None:
    """Return a value in any notation as an amount of the first dimension that fits."""
    if (parsed := notation.parse_number(written)) is None:
        return None
    for dimension in dimensions:
        try:
            amount = quantities.parse_quantity(f"{parsed.number} {parsed.unit}".replace("per mL", "1/mL"), dimension)
        except QuantityError:  # not this dimension; the next one may fit
            continue
        return amount if abs(amount.value) <= _MAX_VALUE else None
    return None
