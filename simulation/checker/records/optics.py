"""L16 for optical settings: recorded objectives and wavelengths are those that were set."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from simulation.checker.findings import Decided, Findings, error_finding
from simulation.checker.reading import families, property_tree, units
from simulation.checker.reading.property_tree import Leaf
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.records import sentences

# "20x" but not "1:20x" or "2x-concentrated".
_MAGNIFICATION = re.compile(r"(?<![\w.:])([0-9]{1,3})\s?[x×X](?![\w-])")
_FILTER_BAND = re.compile(r"(?<![0-9])([2-9][0-9]{2})(?![0-9])")
_MAGNIFIES = ("UseMicroscope", "ImageSample", "ImageColonies")
# Words for lengths in nm that are not settings: peaks of a spectrum, sizes of particles.
_OTHER_LENGTHS = re.compile(
    r"\bpeak(?:s|ing)? (?:at|near|wavelength|absor|emission)|\b(?:maxim\w*|λ|spectr\w*|scan\w*|shift\w*|diameter|size|thick\w*)\b",
    re.IGNORECASE,
)


def check_optics(transition: Transition) -> Findings:
    """L16: yield an error if the recorded objective or wavelengths are not those that were set."""
    input_text = " ".join(
        [
            *(view.name for view in transition.inputs),
            *(leaf.value_text for view in transition.inputs for leaf in view.leaves),
        ]
    )
    if transition.action in _MAGNIFIES:
        set_magnifications = {found for leaf in transition.parameters.leaves for found in _iter_magnifications(leaf)}
        for seen in transition.observations if set_magnifications else ():
            recorded = set(_MAGNIFICATION.findall(seen.full_text[:2000])) - set(_MAGNIFICATION.findall(input_text))
            yield Decided("L16")
            if recorded and not recorded & set_magnifications:
                yield setting_error("L16", seen.path, f"{sorted(set_magnifications)[0]}x", f"{sorted(recorded)[0]}x")
    # Below 2 µm: wavelengths, not path lengths or pore sizes. Lengths are in mm.
    set_lengths = {a.value for leaf, a in list_settings(transition, "length") if a.value < Decimal("0.002")}
    for seen in transition.observations if set_lengths and transition.family in families.MEASUREMENTS else ():
        recorded_lengths = {
            a.value
            for a in sentences.find_amounts(seen.full_text, "length")
            if a.value < Decimal("0.002") and "nm" in a.text
        }
        known_lengths = {a.value for a in sentences.find_amounts(input_text, "length")} | _find_filter_bands(transition)
        if recorded_lengths and not _OTHER_LENGTHS.search(seen.full_text):
            yield Decided("L16", quantity=True)
            if wrong_lengths := recorded_lengths - set_lengths - known_lengths:
                yield setting_error("L16", seen.path, _format_lengths(set_lengths), _format_lengths(wrong_lengths))


def _find_filter_bands(transition: Transition) -> set[Decimal]:
    """Return, in mm, the wavelengths in the names of filters. The name 530/30 gives the centre and the width in nm."""
    texts = " ".join(leaf.value_text for leaf in transition.parameters.leaves)
    return {Decimal(number) / 1_000_000 for number in _FILTER_BAND.findall(texts)}


def _iter_magnifications(leaf: Leaf) -> Iterator[str]:
    yield from _MAGNIFICATION.findall(leaf.value_text)
    if {"objective", "magnification"} & set(leaf.words) and leaf.value_text.strip().isdigit():
        yield leaf.value_text.strip()


def _format_lengths(lengths: set[Decimal]) -> str:
    return ", ".join(sorted(units.format_value(value, "length") for value in lengths))[:80]


def list_settings(transition: Transition, dimension: str) -> list[tuple[Leaf, Amount]]:
    """Return the amounts set, the catalogue's defaults of parameters not set, and amounts in the parameters' texts."""
    settings = transition.parameters.list_amounts(dimension)
    if transition.action_type is not None:
        defaults = {
            p.name: p.default
            for p in transition.action_type.parameters
            if p.default is not None and p.name not in transition.parameters.raw
        }
        settings = settings + [
            (leaf, a) for leaf in property_tree.flatten_properties(defaults) if (a := leaf.parse_amount(dimension))
        ]
    for leaf in transition.parameters.leaves:
        settings = settings + [(leaf, a) for a in sentences.find_amounts(leaf.value_text, dimension)]
    return settings


def setting_error(code: str, subject: str, set_value: str, recorded_value: str) -> Any:
    return error_finding(
        code, subject, set_value, recorded_value, f"the action set {set_value}, but {subject} has {recorded_value}"
    )
