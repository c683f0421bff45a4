"""L16 for optical settings: recorded objectives and wavelengths are those that were set."""

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

# "20x" but not "1:20x" or "2x-concentrated".
_TIMES = re.compile(r"(?<![\w.:])([0-9]{1,3})\s?[x×X](?![\w-])")
_BAND = re.compile(r"(?<![0-9])([2-9][0-9]{2})(?![0-9])")
_MAGNIFIES = ("UseMicroscope", "ImageSample", "ImageColonies")
# A spectrum has peaks anywhere, and lengths in nm may be sizes of particles.
_SPECTRUM = re.compile(
    r"\bpeak(?:s|ing)? (?:at|near|wavelength|absor|emission)|\b(?:maxim\w*|λ|spectr\w*|scan\w*|shift\w*|diameter|size|thick\w*)\b",
    re.IGNORECASE,
)


def told(transition: Transition) -> Said:
    """L16: the recorded objective and wavelengths are those that were set."""
    input_text = " ".join(
        [*(view.name for view in transition.inputs), *(leaf.text for view in transition.inputs for leaf in view.leaves)]
    )
    if transition.action in _MAGNIFIES:
        set_magnifications = {found for leaf in transition.parameters.leaves for found in _magnifications(leaf)}
        for seen in transition.seen if set_magnifications else ():
            recorded = set(_TIMES.findall(seen.text[:2000])) - set(_TIMES.findall(input_text))
            yield Ran("L16")
            if recorded and not recorded & set_magnifications:
                yield contradicts("L16", seen.place, f"{sorted(set_magnifications)[0]}x", f"{sorted(recorded)[0]}x")
    # Below 2 µm: wavelengths, not path lengths or pore sizes. Lengths are in mm.
    set_lengths = {a.value for leaf, a in all_set(transition, "length") if a.value < Decimal("0.002")}
    for seen in transition.seen if set_lengths and transition.family in families.MEASUREMENTS else ():
        recorded_lengths = {
            a.value for a in sentences.amounts(seen.text, "length") if a.value < Decimal("0.002") and "nm" in a.text
        }
        known_lengths = {a.value for a in sentences.amounts(input_text, "length")} | _bands(transition)
        if recorded_lengths and not _SPECTRUM.search(seen.text):
            yield Ran("L16", quantity=True)
            if wrong_lengths := recorded_lengths - set_lengths - known_lengths:
                yield contradicts("L16", seen.place, _nm(set_lengths), _nm(wrong_lengths))


def _bands(transition: Transition) -> set[Decimal]:
    """Return the wavelengths in the names of filters in mm; 530/30 is the centre and the width in nm."""
    texts = " ".join(leaf.text for leaf in transition.parameters.leaves)
    return {Decimal(number) / 1_000_000 for number in _BAND.findall(texts)}


def _magnifications(leaf: Leaf) -> Iterator[str]:
    yield from _TIMES.findall(leaf.text)
    if {"objective", "magnification"} & set(leaf.words) and leaf.text.strip().isdigit():
        yield leaf.text.strip()


def _nm(lengths: set[Decimal]) -> str:
    return ", ".join(sorted(units.show(value, "length") for value in lengths))[:80]


def all_set(transition: Transition, dimension: str) -> list[tuple[Leaf, Amount]]:
    """Return the amounts set and, if the catalogue has them, the defaults of parameters not set."""
    settings = transition.parameters.amounts(dimension)
    if transition.kind is not None:
        defaults = {
            p.name: p.default
            for p in transition.kind.parameters
            if p.default is not None and p.name not in transition.parameters.raw
        }
        settings = settings + [(leaf, a) for leaf in leaves.flatten(defaults) if (a := leaf.amount(dimension))]
    for leaf in transition.parameters.leaves:
        settings = settings + [(leaf, a) for a in sentences.amounts(leaf.text, dimension)]
    return settings


def contradicts(code: str, subject: str, wanted: str, got: str) -> Any:
    return error(code, subject, wanted, got, f"the action set {wanted}, but {subject} has {got}")
