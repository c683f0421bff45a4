"""Run all checks on one transition and derive the verdict."""

from collections.abc import Callable, Iterator
from typing import Any

from simulation.checker.amounts import (
    balance,
    calibration,
    concentrations,
    counted_amounts,
    dilutions,
    inheritance,
    masses,
    wells,
)
from simulation.checker.findings import Decided, Finding, Findings, Report, build_report, undecided_finding
from simulation.checker.materials import containers, materials, outputs, ranges, states, storage_conditions, times
from simulation.checker.reading import transition
from simulation.checker.records import fields, observables, readings, sentences, settings, unit_errors
from simulation.lab.actions import Catalogue

# In order of the codes. The order does not affect the result: a report sorts its findings.
CHECKS: tuple[tuple[str, Callable[[transition.Transition], Findings]], ...] = (
    ("L01", materials.check_origins),
    ("L02", balance.check_volumes),
    ("L03", dilutions.check_dilutions),
    # One code may have several checks: concentrations, weighed solids and counted amounts have little code in
    # common.
    ("L04", concentrations.check_component_amounts),
    ("L04", masses.check_masses),
    ("L04", counted_amounts.check_counted_amounts),
    ("L05", containers.check_containers),
    ("L06", states.check_physical_states),
    ("L07", balance.check_overdraw),
    ("L08", materials.check_used_up),
    ("L09", materials.check_unlimited_supplies),
    ("L10", fields.check_leaks),
    ("L11", fields.check_enumerations),
    ("L12", unit_errors.check_units),
    ("L13", times.check_times),
    ("L14", storage_conditions.check_storage_conditions),
    ("L15", observables.check_measured_quantities),
    ("L16", settings.check_settings),
    ("L16", sentences.check_sentences),
    ("L17", observables.check_limits),
    ("L18", outputs.check_output_count),
    ("L19", inheritance.check_identity),
    ("L20", readings.check_readings),
    ("L20", calibration.check_signal_order),
    ("L21", wells.check_wells),
    ("L22", fields.check_coherence),
    ("L23", ranges.check_ranges),
)


def check_transition(data: Any, catalogue: Catalogue | None = None) -> Report:
    """Return the report of all checks L01 to L24 on a transition given as plain JSON.

    Raises TransitionError if the data is not a transition.
    """
    transition_read = transition.parse_transition(data, catalogue)
    return build_report(item for code, run in CHECKS for item in _run_check(code, run, transition_read))


def _run_check(
    code: str, run: Callable[[transition.Transition], Findings], parsed: transition.Transition
) -> Iterator[Finding | Decided]:
    try:
        yield from run(parsed)
    except ArithmeticError:
        # Foreign data may contain numbers near the limits of Decimal. One such number must not stop the other checks.
        yield undecided_finding(code, parsed.action, "numbers too large or too small to compare")
