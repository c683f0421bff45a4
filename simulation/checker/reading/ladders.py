"""Dilution series: what the parameters ask for, and which outputs are its steps."""

from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from simulation.checker.reading import roles
from simulation.checker.reading.parameters import SOURCE, TOTAL
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition


class Ladder(NamedTuple):
    """A dilution series: volume carried over, diluent it meets, factor and number of steps, each None if not stated."""

    sample: View
    diluent: View
    moved: Decimal | None
    added: Decimal | None
    factor: Decimal | None
    steps: int | None


def ladder(transition: Transition) -> Ladder | None:
    """The series the parameters ask for; None where it is not clear what is diluted with what."""
    solvent = roles.solvent_of(transition)
    wet = [view for view in transition.inputs if view is not solvent and not view.supply and view.held != 0]
    named = transition.parameters.material(SOURCE | {"sample"})
    samples = [named] if named is not None and named is not solvent else wet
    if solvent is None or len(samples) != 1:
        return None
    moved, added, factor = _of_series(transition)
    if factor is None and moved and added:
        factor = (moved + added) / moved
    if added is None and moved and factor:
        added = moved * (factor - 1)
    steps = transition.parameters.count("dilution", "step", "point", "level")
    return Ladder(samples[0], solvent, moved, added, factor, steps)


def _of_series(transition: Transition) -> tuple[Decimal | None, Decimal | None, Decimal | None]:
    """(carried over, diluent added, factor) as far as the parameters name them."""
    moved, added, total = None, None, None
    for leaf, amount in transition.parameters.amounts("volume"):
        said = set(leaf.words)
        if said & {"transfer", "transferred", "carry", "carried", "sample", "aliquot"}:
            moved = amount.value
        elif said & {"diluent", "solvent", "buffer"}:
            added = amount.value
        elif said & TOTAL:
            total = amount.value
    factor = transition.parameters.factor()
    if moved is None and total is not None and factor:
        moved = total / factor
    return moved, added, factor


def rungs(transition: Transition) -> Iterator[View]:
    """The dilutions of a series."""
    for output in transition.kept:
        before = transition.before(output)
        if before is None or before.supply or before.held == 0:
            yield output
