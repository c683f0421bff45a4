"""Find the dilution series that the parameters request, and the outputs that are its dilutions."""

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from simulation.checker.reading import roles
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.parameters import SOURCE, TOTAL
from simulation.checker.reading.transition import Transition


class DilutionSeries(NamedTuple):
    """A dilution series: sample, diluent and, if stated, volume moved and diluent added per step, factor and steps."""

    sample: MaterialView
    diluent: MaterialView
    moved: Decimal | None
    added: Decimal | None
    factor: Decimal | None
    steps: int | None


def find_dilution_series(transition: Transition) -> DilutionSeries | None:
    """Return the series that the parameters request, or None if it is unclear which material is diluted with which."""
    solvent = roles.find_solvent(transition)
    liquids = [
        view
        for view in transition.inputs
        if view is not solvent and not view.is_empty_vessel and view.liquid_volume != 0
    ]
    named_sample = transition.parameters.find_material(SOURCE | {"sample"})
    samples = [named_sample] if named_sample is not None and named_sample is not solvent else liquids
    if solvent is None or len(samples) != 1:
        return None
    moved_volume, added_volume, factor = _parse_series_volumes(transition)
    # Two of carried volume, diluent and factor determine the third.
    if factor is None and moved_volume and added_volume:
        factor = (moved_volume + added_volume) / moved_volume
    if added_volume is None and moved_volume and factor:
        added_volume = moved_volume * (factor - 1)
    steps = transition.parameters.find_count("dilution", "step", "point", "level")
    return DilutionSeries(samples[0], solvent, moved_volume, added_volume, factor, steps)


def _parse_series_volumes(transition: Transition) -> tuple[Decimal | None, Decimal | None, Decimal | None]:
    """Return (volume carried over, diluent added, factor). Each is None if the parameters do not determine it."""
    moved_volume, added_volume, total_volume = None, None, None
    for leaf, amount in transition.parameters.list_amounts("volume"):
        key_words = set(leaf.words)
        if key_words & {"transfer", "transferred", "carry", "carried", "sample", "aliquot"}:
            moved_volume = amount.value
        elif key_words & {"diluent", "solvent", "buffer"}:
            added_volume = amount.value
        elif key_words & TOTAL:
            total_volume = amount.value
    factor = transition.parameters.find_dilution_factor()
    if moved_volume is None and total_volume is not None and factor:
        moved_volume = total_volume / factor
    return moved_volume, added_volume, factor


def iter_dilutions(transition: Transition) -> Iterator[MaterialView]:
    """Yield the outputs that are dilutions of a series."""
    for output in transition.usable_outputs:
        input_before = transition.find_input(output)
        # A dilution is a new material, or a vessel that was empty before.
        if input_before is None or input_before.is_empty_vessel or input_before.liquid_volume == 0:
            yield output
