"""Run all checks on one transition and derive the verdict."""

from collections.abc import Callable, Iterator
from typing import Any

from simulation.checker.amounts import (
    balance,
    calibration,
    concentrations,
    counted,
    dilutions,
    inheritance,
    masses,
    wells,
)
from simulation.checker.findings import Finding, Ran, Report, Said, report, undecided
from simulation.checker.materials import containers, materials, outputs, ranges, states, surroundings, times
from simulation.checker.reading import transition
from simulation.checker.records import fields, observables, readings, sentences, settings, slips
from simulation.lab.actions import Catalogue

# In order of the codes. The order does not affect the result: a report sorts its findings.
CHECKS: tuple[tuple[str, Callable[[transition.Transition], Said]], ...] = (
    ("L01", materials.origins),
    ("L02", balance.volumes),
    ("L03", dilutions.dilutions),
    # One code may have several checks: concentrations, weighed solids and counted amounts have little code in
    # common.
    ("L04", concentrations.amounts),
    ("L04", masses.solids),
    ("L04", counted.kept),
    ("L05", containers.containers),
    ("L06", states.physical),
    ("L07", balance.overdraw),
    ("L08", materials.consumed),
    ("L09", materials.supplies),
    ("L10", fields.leaks),
    ("L11", fields.enums),
    ("L12", slips.unit_slips),
    ("L13", times.clock),
    ("L14", surroundings.conditions),
    ("L15", observables.measured),
    ("L16", settings.echoes),
    ("L16", sentences.told),
    ("L17", observables.limits),
    ("L18", outputs.counts),
    ("L19", inheritance.inheritance),
    ("L20", readings.agreement),
    ("L20", calibration.order),
    ("L21", wells.wells),
    ("L22", fields.coherence),
    ("L23", ranges.ranges),
)


def check(data: Any, catalogue: Catalogue | None = None) -> Report:
    """Return the report of all checks L01 to L24 on a transition given as plain JSON.

    Raises TransitionError if the data is not a transition.
    """
    transition_read = transition.read(data, catalogue)
    return report(item for code, run in CHECKS for item in _said(code, run, transition_read))


def _said(
    code: str, one: Callable[[transition.Transition], Said], read: transition.Transition
) -> Iterator[Finding | Ran]:
    try:
        yield from one(read)
    except ArithmeticError:
        # Input is foreign and may hold numbers near the limits of Decimal. One such number must not stop the other checks.
        yield undecided(code, read.action, "numbers too large or too small to compare")
