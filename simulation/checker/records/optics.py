"""L16 for what is looked through: objectives and wavelengths on record are those that were chosen."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from simulation.checker.findings import Ran, Said, error
from simulation.checker.reading import families, leaves, units
from simulation.checker.reading.leaves import Leaf
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.records import sentences

_TIMES = re.compile(r"(?<![\w.:])([0-9]{1,3})\s?[x×X](?![\w-])")


_BAND = re.compile(r"(?<![0-9])([2-9][0-9]{2})(?![0-9])")


_MAGNIFIES = ("UseMicroscope", "ImageSample", "ImageColonies")


_SPECTRUM = re.compile(
    r"\bpeak(?:s|ing)? (?:at|near|wavelength|absor|emission)|\b(?:maxim\w*|λ|spectr\w*|scan\w*|shift\w*|diameter|size|thick\w*)\b",
    re.IGNORECASE,
)


def told(transition: Transition) -> Said:
    """The objective and the wavelengths on record are those that were chosen."""
    known = " ".join(
        [*(view.name for view in transition.inputs), *(leaf.text for view in transition.inputs for leaf in view.leaves)]
    )
    if transition.action in _MAGNIFIES:
        asked = {found for leaf in transition.parameters.leaves for found in _magnifications(leaf)}
        for seen in transition.seen if asked else ():
            told = set(_TIMES.findall(seen.text[:2000])) - set(_TIMES.findall(known))
            yield Ran("L16")
            if told and not told & asked:
                yield contradicts("L16", seen.place, f"{sorted(asked)[0]}x", f"{sorted(told)[0]}x")
    lengths = {a.value for leaf, a in all_set(transition, "length") if a.value < Decimal("0.002")}
    for seen in transition.seen if lengths and transition.family in families.MEASUREMENTS else ():
        told_lengths = {
            a.value for a in sentences.amounts(seen.text, "length") if a.value < Decimal("0.002") and "nm" in a.text
        }
        stated = {a.value for a in sentences.amounts(known, "length")} | _bands(transition)
        if told_lengths and not _SPECTRUM.search(seen.text):
            yield Ran("L16", quantity=True)
            if wrong := told_lengths - lengths - stated:
                yield contradicts("L16", seen.place, _nm(lengths), _nm(wrong))


def _bands(transition: Transition) -> set[Decimal]:
    """Filters are named by their middle and width, 530/30."""
    texts = " ".join(leaf.text for leaf in transition.parameters.leaves)
    return {Decimal(number) / 1_000_000 for number in _BAND.findall(texts)}


def _magnifications(leaf: Leaf) -> Iterator[str]:
    yield from _TIMES.findall(leaf.text)
    if {"objective", "magnification"} & set(leaf.words) and leaf.text.strip().isdigit():
        yield leaf.text.strip()


def _nm(lengths: set[Decimal]) -> str:
    return ", ".join(sorted(units.show(value, "length") for value in lengths))[:80]


def all_set(transition: Transition, dimension: str) -> list[tuple[Leaf, Amount]]:
    """The amounts set and, where the catalogue has them, the defaults of those left out."""
    found = transition.parameters.amounts(dimension)
    if transition.kind is not None:
        unset = {
            p.name: p.default
            for p in transition.kind.parameters
            if p.default is not None and p.name not in transition.parameters.raw
        }
        found = found + [(leaf, a) for leaf in leaves.flatten(unset) if (a := leaf.amount(dimension))]
    for leaf in transition.parameters.leaves:
        found = found + [(leaf, a) for a in sentences.amounts(leaf.text, dimension)]
    return found


def contradicts(code: str, subject: str, wanted: str, got: str) -> Any:
    return error(code, subject, wanted, got, f"the action set {wanted}; {subject} tells of {got}")
