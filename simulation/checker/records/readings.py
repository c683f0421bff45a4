"""L20: readings agree with the material and with each other."""

import re
from decimal import Decimal

from simulation.checker.amounts import concentrations
from simulation.checker.findings import Ran, Said, error
from simulation.checker.reading import families, roles, units
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Seen, Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed
from simulation.checker.records import replicates

# Share of the known amount. A measurement has noise; a remark on the amount in a vessel has none.
_TOLERANCE, _TOLD = Decimal("0.08"), Decimal("0.03")
# Components that the counting and quantifying instruments measure.
_COUNTED = {
    "NucleicAcidQuantification": listed("dna rna nucleic acid plasmid oligo primer amplicon cdna"),
    "TotalProteinQuantification": listed("protein bsa albumin lysate antibody"),
    "CellCounter": listed("cell"),
}
_NUMBER_DENSITY = Decimal("0.4")  # counts of cells vary that much
# Words for the amount in the vessel, and words for other amounts.
_ABOUT_NOW = re.compile(
    r"\b(?:volume|remaining|remains|left|contains|holds|residual|total|final|mass|weight|net)\b", re.IGNORECASE
)
_NOT_NOW = re.compile(r"\b(?:transferred|added|removed|moved|injected|aspirated|dispensed|loaded|taken|discarded|lost|evaporated|before|initial|original|"
                      r"capacity|tare|container|injection|wash(?:ed)?|gross|per)\b", re.IGNORECASE)  # fmt: skip
_PH = re.compile(
    r"\bpH\s?(?:of|is|was|=|:|reads?|reading|value)?\s?(-?[0-9]{1,4}(?:\.[0-9]{1,4})?)(?![0-9])", re.IGNORECASE
)


def agreement(transition: Transition) -> Said:
    """L20: a reading of a sample agrees with the properties of its material."""
    if not transition.success:
        return
    for seen in transition.seen:
        if (material := _about(transition, seen)) is not None:
            yield from _amounts(transition, seen, material)
        yield from replicates.readings(transition, seen)
        yield from replicates.share(seen)


def _about(transition: Transition, seen: Seen) -> View | None:
    """Return the material of an observation: the longest name in its description, or the only material. None if unclear."""
    named_views = [view for view in transition.outputs if view.name and view.name.lower() in seen.description.lower()]
    if named_views:
        longest = max(len(view.name) for view in named_views)
        best = [view for view in named_views if len(view.name) == longest]
        return best[0] if len(best) == 1 else None
    solvent = roles.solvent_of(transition) if transition.family == families.ADD else None
    solvent_left = transition.after(solvent) if solvent is not None else None
    samples = [view for view in transition.outputs if not view.supply and view is not solvent_left]
    return samples[0] if len(samples) == 1 and transition.family != families.MOVE else None


def _amounts(transition: Transition, seen: Seen, view: View) -> Said:
    for dimension, known_amount in (("volume", view.volume), ("mass", view.mass)):
        if known_amount is None or not _speaks_of(transition, seen, dimension):
            continue
        for amount in _read(seen, dimension):
            yield Ran("L20", quantity=True)
            tolerance = _TOLERANCE if transition.family in families.MEASUREMENTS else _TOLD
            if abs(amount.value - known_amount.value) > known_amount.value * tolerance + min(
                known_amount.step, known_amount.value / 100
            ):
                yield error("L20", seen.place, units.show(known_amount.value, dimension), units.show(amount.value, dimension),
                            f"{units.show(amount.value, dimension)} was read for {view.name}, which holds {units.show(known_amount.value, dimension)}", "10 %")  # fmt: skip
    yield from _densities(transition, seen, view)
    yield from _acidity(transition, seen, view)


def _densities(transition: Transition, seen: Seen, view: View) -> Said:
    """A count agrees with the recorded density, a quantification with the recorded concentration."""
    if transition.action not in (
        "CellCounter",
        "NucleicAcidQuantification",
        "TotalProteinQuantification",
        "CoulterCount",
        "CountLiquidParticles",
    ):
        return
    # The measurement may have written its own result into the output; the input has the independent value.
    before = transition.before(view) or view
    components = _COUNTED.get(transition.action, listed("cell particle"))
    known_amounts = [
        amount for name, amount in before.concentrations.items() if set(name.split()) & components or not name
    ]
    if len(known_amounts) != 1:
        return
    known_amount = known_amounts[0]
    for amount in _read(seen, known_amount.dimension):
        yield Ran("L20", quantity=True)
        if abs(amount.value - known_amount.value) > known_amount.value * _NUMBER_DENSITY:
            yield error("L20", seen.place, concentrations.show(known_amount.value, known_amount), concentrations.show(amount.value, known_amount),
                        f"{concentrations.show(amount.value, known_amount)} was read for {view.name}, which has {concentrations.show(known_amount.value, known_amount)}", "40 %")  # fmt: skip


def _acidity(transition: Transition, seen: Seen, view: View) -> Said:
    """The pH that was read is the pH of the material."""
    if transition.action not in ("MeasurepH", "AdjustpH"):
        return
    known_values = [
        n for leaf in view.leaves if set(leaf.words) == {"ph"} and (n := units.number(leaf.value)) is not None
    ]
    number_parts = units.number_and_rest(seen.value)
    value_number = (
        number_parts[0] if number_parts and number_parts[2].strip().lower() in ("", "ph", "ph units") else None
    )
    match = _PH.search(seen.text)
    got = value_number if value_number is not None else Decimal(match[1]) if match else None
    if len(known_values) == 1 and got is not None:
        yield Ran("L20", quantity=True)
        if abs(got - known_values[0]) > Decimal("0.5"):
            yield error(
                "L20",
                seen.place,
                f"pH {known_values[0]}",
                f"pH {got}",
                f"pH {got} was read for {view.name}, which has pH {known_values[0]}",
                "0.5",
            )


def _speaks_of(transition: Transition, seen: Seen, dimension: str) -> bool:
    """Return whether a record gives the amount in the vessel, not one that was moved."""
    if transition.action == {"volume": "MeasureVolume", "mass": "MeasureWeight"}[dimension]:
        return not re.search(
            r"\b(?:gross|tare|with (?:the )?(?:container|tube|vial)|evaporated)\b", seen.description, re.IGNORECASE
        )
    text = seen.description if seen.value else seen.text
    return bool(_ABOUT_NOW.search(text)) and not _NOT_NOW.search(text)


def _read(seen: Seen, dimension: str) -> list[Amount]:
    """Return all readings of this dimension in the value, or the only one in the description."""
    parts = re.split(r"[,;]\s", seen.value[:1000]) if seen.value else []
    readings = [a for part in parts if (a := units.read(part, "", (dimension,))) and a.dimension == dimension]
    if readings or seen.value:
        return readings
    # A description may list several amounts; only a single one can be the reading.
    description_amounts = [
        units.read(seen.description[match.start() :][:40], "", (dimension,))
        for match in re.finditer(r"(?<![\w.])[0-9]", seen.description[:600])
    ]
    matching = [a for a in description_amounts if a and a.dimension == dimension]
    return matching if len(matching) == 1 else []
