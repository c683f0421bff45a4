"""L20: readings agree with the material and with each other."""

import re
from decimal import Decimal

from simulation.checker.amounts import concentrations
from simulation.checker.findings import Decided, Findings, error_finding
from simulation.checker.reading import families, roles, units
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import ObservationView, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import word_set
from simulation.checker.records import replicates

# Share of the known amount. A measurement has noise; a remark on the amount in a vessel has none.
_TOLERANCE, _REMARK_TOLERANCE = Decimal("0.08"), Decimal("0.03")
# Components that the counting and quantifying instruments measure.
_MEASURED_COMPONENTS = {
    "NucleicAcidQuantification": word_set("dna rna nucleic acid plasmid oligo primer amplicon cdna"),
    "TotalProteinQuantification": word_set("protein bsa albumin lysate antibody"),
    "CellCounter": word_set("cell"),
}
_DENSITY_TOLERANCE = Decimal("0.4")  # counts of cells vary that much
# Words for the amount in the vessel, and words for other amounts.
_CURRENT_AMOUNT = re.compile(
    r"\b(?:volume|remaining|remains|left|contains|holds|residual|total|final|mass|weight|net)\b", re.IGNORECASE
)
_OTHER_AMOUNT = re.compile(r"\b(?:transferred|added|removed|moved|injected|aspirated|dispensed|loaded|taken|discarded|lost|evaporated|before|initial|original|"
                      r"capacity|tare|container|injection|wash(?:ed)?|gross|per)\b", re.IGNORECASE)  # fmt: skip
_PH = re.compile(
    r"\bpH\s?(?:of|is|was|=|:|reads?|reading|value)?\s?(-?[0-9]{1,4}(?:\.[0-9]{1,4})?)(?![0-9])", re.IGNORECASE
)


def check_readings(transition: Transition) -> Findings:
    """L20: yield a finding if a reading of a sample contradicts the properties of its material or other readings."""
    if not transition.is_success:
        return
    for seen in transition.observations:
        if (material := _find_observed_material(transition, seen)) is not None:
            yield from _check_amounts(transition, seen, material)
        yield from replicates.check_replicates(transition, seen)
        yield from replicates.check_share(seen)


def _find_observed_material(transition: Transition, seen: ObservationView) -> MaterialView | None:
    """Return the observed material: that with the longest name in the description, or the only one; None if unclear."""
    named_views = [view for view in transition.outputs if view.name and view.name.lower() in seen.description.lower()]
    if named_views:
        longest = max(len(view.name) for view in named_views)
        best = [view for view in named_views if len(view.name) == longest]
        return best[0] if len(best) == 1 else None
    solvent = roles.find_solvent(transition) if transition.family == families.ADD else None
    solvent_left = transition.find_output(solvent) if solvent is not None else None
    samples = [view for view in transition.outputs if not view.is_empty_vessel and view is not solvent_left]
    return samples[0] if len(samples) == 1 and transition.family != families.MOVE else None


def _check_amounts(transition: Transition, seen: ObservationView, view: MaterialView) -> Findings:
    for dimension, known_amount in (("volume", view.volume), ("mass", view.mass)):
        if known_amount is None or not _is_about_current_amount(transition, seen, dimension):
            continue
        for amount in _parse_readings(seen, dimension):
            yield Decided("L20", quantity=True)
            tolerance = _TOLERANCE if transition.family in families.MEASUREMENTS else _REMARK_TOLERANCE
            if abs(amount.value - known_amount.value) > known_amount.value * tolerance + min(
                known_amount.step, known_amount.value / 100
            ):
                yield error_finding("L20", seen.path, units.format_value(known_amount.value, dimension), units.format_value(amount.value, dimension),
                            f"{units.format_value(amount.value, dimension)} was read for {view.name}, which holds {units.format_value(known_amount.value, dimension)}", "10 %")  # fmt: skip
    yield from _check_densities(transition, seen, view)
    yield from _check_ph(transition, seen, view)


def _check_densities(transition: Transition, seen: ObservationView, view: MaterialView) -> Findings:
    """Yield an error if a count or quantification contradicts the material's known density or concentration."""
    if transition.action not in (
        "CellCounter",
        "NucleicAcidQuantification",
        "TotalProteinQuantification",
        "CoulterCount",
        "CountLiquidParticles",
    ):
        return
    # The measurement may have written its own result into the output; the input has the independent value.
    before = transition.find_input(view) or view
    components = _MEASURED_COMPONENTS.get(transition.action, word_set("cell particle"))
    known_amounts = [
        amount for name, amount in before.concentrations.items() if set(name.split()) & components or not name
    ]
    if len(known_amounts) != 1:
        return
    known_amount = known_amounts[0]
    for amount in _parse_readings(seen, known_amount.dimension):
        yield Decided("L20", quantity=True)
        if abs(amount.value - known_amount.value) > known_amount.value * _DENSITY_TOLERANCE:
            yield error_finding("L20", seen.path, concentrations.format_concentration(known_amount.value, known_amount), concentrations.format_concentration(amount.value, known_amount),
                        f"{concentrations.format_concentration(amount.value, known_amount)} was read for {view.name}, which has {concentrations.format_concentration(known_amount.value, known_amount)}", "40 %")  # fmt: skip


def _check_ph(transition: Transition, seen: ObservationView, view: MaterialView) -> Findings:
    """Yield an error if the pH that was read differs from the pH of the material by more than 0.5."""
    if transition.action not in ("MeasurepH", "AdjustpH"):
        return
    known_values = [
        n for leaf in view.leaves if set(leaf.words) == {"ph"} and (n := units.parse_number(leaf.value)) is not None
    ]
    number_parts = units.split_number(seen.value)
    value_number = (
        number_parts[0] if number_parts and number_parts[2].strip().lower() in ("", "ph", "ph units") else None
    )
    match = _PH.search(seen.full_text)
    got = value_number if value_number is not None else Decimal(match[1]) if match else None
    if len(known_values) == 1 and got is not None:
        yield Decided("L20", quantity=True)
        if abs(got - known_values[0]) > Decimal("0.5"):
            yield error_finding(
                "L20",
                seen.path,
                f"pH {known_values[0]}",
                f"pH {got}",
                f"pH {got} was read for {view.name}, which has pH {known_values[0]}",
                "0.5",
            )


def _is_about_current_amount(transition: Transition, seen: ObservationView, dimension: str) -> bool:
    """Return whether a record gives the amount that is in the vessel, not an amount that was moved."""
    if transition.action == {"volume": "MeasureVolume", "mass": "MeasureWeight"}[dimension]:
        return not re.search(
            r"\b(?:gross|tare|with (?:the )?(?:container|tube|vial)|evaporated)\b", seen.description, re.IGNORECASE
        )
    text = seen.description if seen.value else seen.full_text
    return bool(_CURRENT_AMOUNT.search(text)) and not _OTHER_AMOUNT.search(text)


def _parse_readings(seen: ObservationView, dimension: str) -> list[Amount]:
    """Return all readings of this dimension in the value or, without a value, the only one in the description."""
    parts = re.split(r"[,;]\s", seen.value[:1000]) if seen.value else []
    readings = [a for part in parts if (a := units.parse_amount(part, "", (dimension,))) and a.dimension == dimension]
    if readings or seen.value:
        return readings
    # A description may list several amounts; only a single one can be the reading.
    description_amounts = [
        units.parse_amount(seen.description[match.start() :][:40], "", (dimension,))
        for match in re.finditer(r"(?<![\w.])[0-9]", seen.description[:600])
    ]
    matching = [a for a in description_amounts if a and a.dimension == dimension]
    return matching if len(matching) == 1 else []
