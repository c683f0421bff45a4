"""The declarations of the checks L01 to L24, and the functions that run them on one transition or on a file of them."""

import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from simulation.checker import (
    availability,
    concentrations,
    conditions,
    dilutions,
    identity,
    measurable,
    observations,
    origins,
    replacements,
    settings,
    stated_units,
    values,
    volumes,
    weights,
)
from simulation.checker.findings import Decided, Finding, Findings, Report, build_report, undecided_finding
from simulation.checker.reading import transition
from simulation.checker.reading.transition import Transition, TransitionError
from simulation.checker.relations import (
    arithmetic,
    capacities,
    classes,
    clocks,
    cultures,
    detection,
    differences,
    draws,
    drying,
    echoes,
    fragments,
    limits,
    molarity,
    multiplicity,
    ranges_set,
    recipes,
    records,
    shares,
    tallies,
    weighing,
)
from simulation.checker.results import calculations, derivations, dilution_factors, formulas, named_ratios
from simulation.lab.actions import Catalogue
from wetbench_site.text import reject_constant

MAX_LINE_BYTES = 4_000_000  # maximum length of one line; limits the memory that a foreign file can use


class Check(NamedTuple):
    """What a code stands for. A title is shown beside findings; docs/checker.md has `about` and `decided_if`.

    Actions that failed are left out, unless `on_failure` is True.
    """

    code: str
    title: str
    about: str
    decided_if: str
    functions: tuple[Callable[[Transition], Findings], ...]
    on_failure: bool = False


# To add a check, add one row. The order of the functions does not affect the result: a report sorts its findings.
CHECKS = (
    Check("L01", "origin of materials", "origin: materials, components and barcodes come from the inputs",
          "the name is that of a ready-made reagent, or the step mixes nothing; otherwise a warning", (origins.check_origins,)),
    Check("L02", "volume balance", "volume: no more comes out than went in, withdrawals, readings, reactions and washes are subtracted, additions are added",
          "the volumes are known", (volumes.check_volumes, draws.check_draws)),
    Check("L03", "dilution", "C1 V1 = C2 V2, serial factors, salts weighed in, compounds added while reading, stated dilutions, the medium after a wash",
          "concentrations and volumes are known", (dilutions.check_dilutions, recipes.check_recipes, dilution_factors.check_dilution_factors)),
    Check("L04", "conservation of amounts", "amounts of a component and of weighed materials, totals, molarities, gross and tare, loss on drying; no output is more concentrated than the strongest input",
          "amounts are known and no reaction uses them up",
          (concentrations.check_component_amounts, weights.check_masses, weights.check_counted_amounts, weighing.check_weighing, differences.check_differences, molarity.check_molar_amounts, records.check_records, recipes.check_portions, recipes.check_moved_amounts, drying.check_drying)),
    Check("L05", "container capacity", "overfilling, below the minimum filling, a container that the instrument does not take, forces above the rating of a vessel, balances",
          "capacity or container is known", (volumes.check_containers, limits.check_equipment, capacities.check_capacities)),
    Check("L06", "physical state", "frozen, attached, dry: what can be pipetted and measured; materials keep their state",
          "phase or storage condition is known", (conditions.check_physical_states, conditions.check_attached_cells)),
    Check("L07", "dead volume", "no more is taken than there is above the dead volume", "the volume is known", (volumes.check_overdraw,)),
    Check("L08", "used-up materials", "what is used up stays used up", "always", (availability.check_used_up,)),
    Check("L09", "unlimited supplies", "an unlimited supply is neither changed nor handed back", "always", (availability.check_unlimited_supplies,), True),
    Check("L10", "barcode in a text", "no barcode in names, properties and observations (warning)", "always", (values.check_barcodes,), True),
    Check("L11", "fields and allowed values", "required fields and their closed lists; other spellings of a value are accepted",
          "always", (values.check_enumerations,), True),
    Check("L12", "units", "units that are missing, of another dimension, or wrong by a prefix", "a quantity is given", (stated_units.check_units, stated_units.check_announced_units, stated_units.check_measured_units, limits.check_osmolality)),
    Check("L13", "times and growth", "times in order; age, passage and growth of cultures fit the time that passed",
          "times, densities and duration are known", (conditions.check_times, cultures.check_cultures, clocks.check_clocks), True),
    Check("L14", "storage conditions", "the storage condition fits temperature and action; what comes into an incubator states temperature and CO2, and what stays does not lose them",
          "always", (conditions.check_storage_conditions,)),
    Check("L15", "measurable quantities", "no number of a quantity that the action does not measure",
          "the quantity is named in words", (measurable.check_measured_quantities, ranges_set.check_elements)),
    Check("L16", "settings of the action", "volumes, temperatures, objectives, wavelengths, forces, pores, times and cycles are those that were set",
          "the outcome mentions them", (settings.check_settings, settings.check_sentences, settings.check_new_texts, echoes.check_echoes)),
    Check("L17", "limits of seeing and pipetting", "what is too small to be visible is not reported as seen; readings within what gels, stains and detectors can show; nothing is pipetted below 0.1 µL (2.4 nL by sound)",
          "the claim is in words", (observations.check_limits, limits.check_detection, detection.check_instrument_ranges, limits.check_ranges_set, ranges_set.check_stated_ranges)),
    Check("L18", "number of outputs", "as many outputs as the catalogue promises; a remainder if something is left",
          "counts are given", (availability.check_output_count,)),
    Check("L19", "identity of materials", "identity and vessel of a material do not change; an action that changes nothing drops no property",
          "the property is given", (identity.check_identity, identity.check_cell_lines, replacements.check_replacements)),
    Check("L20", "agreement of readings", "readings agree with the material and with each other: sums, shares, ratios, counts; they rise with known concentrations",
          "both are numbers", (observations.check_readings, observations.check_signal_order, arithmetic.check_arithmetic, calculations.check_calculations, tallies.check_tallies, shares.check_shares, classes.check_classes, fragments.check_relative_quantities, multiplicity.check_multiplicity, fragments.check_fragments, derivations.check_derivations, formulas.check_formulas, named_ratios.check_named_ratios)),
    Check("L21", "separating wells", "separating wells and manifesting materials change nothing and take no time", "always", (identity.check_wells,)),
    Check("L22", "success and reason for failure", "success and reason for failure agree; a failed action changes nothing",
          "always", (values.check_coherence,), True),
    Check("L23", "possible values", "pH 0 to 14, temperature above -273.15 °C, parts within the whole, nothing below zero, cells not packed beyond their volume",
          "a number is given", (values.check_ranges, values.check_recorded_values, limits.check_packing), True),
    Check("L24", "prompt text", "no text of a prompt or of a planted error in what people read (warning)", "always", (values.check_prompt_text,), True),
)  # fmt: skip


def validate_checks(checks: Sequence[Check]) -> None:
    """Raise ValueError if a code is missing or occurs twice, or if a part of a check is missing or used twice."""
    problems = [
        f"check {number} has the code {check.code}; it must be L{number:02}"
        for number, check in enumerate(checks, 1)
        if check.code != f"L{number:02}"
    ]
    for check in checks:
        parts = check._asdict().items()
        problems += [f"{check.code} has no {part}" for part, value in parts if not value and part != "on_failure"]
    titles = Counter(check.title for check in checks)
    functions = Counter(function.__qualname__ for check in checks for function in check.functions)
    problems += [f"{name} is declared {count} times" for name, count in (titles + functions).items() if count > 1]
    if problems:
        raise ValueError("; ".join(problems))


validate_checks(CHECKS)
CHECK_TITLES = {check.code: check.title for check in CHECKS}
CODES = tuple(CHECK_TITLES)


def check_transition(data: Any, catalogue: Catalogue | None = None) -> Report:
    """Return the report of all checks on a transition as JSON. Raises TransitionError if the data is no transition."""
    parsed = transition.parse_transition(data, catalogue)
    items: list[Finding | Decided] = []
    for check in CHECKS:
        for function in check.functions if parsed.is_success or check.on_failure else ():
            try:
                items += function(parsed)
            except ArithmeticError:
                # Foreign data may contain numbers near the limits of Decimal. One such number must not stop the other checks.
                items.append(undecided_finding(check.code, parsed.action, "numbers too large or too small to compare"))
    return build_report(items)


class CheckedLine(NamedTuple):
    """The result for one line of a file: its report, or the error that explains why there is no report."""

    number: int
    data: dict[str, Any]
    report: Report | None
    error: str = ""


def check_lines(stream: BinaryIO, catalogue: Catalogue | None = None) -> Iterator[CheckedLine]:
    """Yield the result for every line that is not blank. An invalid line does not stop the check of later lines."""
    number = 0
    while raw := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if number == 1:
            # Windows editors start a file with a byte order mark, which JSON does not allow.
            raw = raw.removeprefix(BOM_UTF8)
        if len(raw) > MAX_LINE_BYTES:
            # The rest of the line is skipped in pieces, so that the whole line is never in memory.
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(MAX_LINE_BYTES)
            yield CheckedLine(number, {}, None, f"longer than {MAX_LINE_BYTES} bytes")
        elif raw.strip():
            yield _check_line(number, raw, catalogue)


def _check_line(number: int, raw: bytes, catalogue: Catalogue | None) -> CheckedLine:
    try:
        # NaN and Infinity are no JSON, but Python accepts them; no check could compare them.
        data = json.loads(raw.decode("utf-8"), parse_constant=reject_constant)
        report = check_transition(data, catalogue)
    except TransitionError as error:
        return CheckedLine(number, {}, None, str(error))
    # Python's JSON parser recurses; a line of 100,000 brackets must not end the command.
    except RecursionError:
        return CheckedLine(number, {}, None, "nested too deep")
    except ValueError as error:
        return CheckedLine(number, {}, None, f"not JSON: {str(error)[:200]}")
    return CheckedLine(number, data, report)
