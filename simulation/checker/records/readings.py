"""L20: what was read agrees with the material and with itself."""

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

# A reading has noise; what a simulator tells of its own amounts has none.
_TOLERANCE, _TOLD = Decimal("0.08"), Decimal("0.03")


# What the instruments that count and quantify are about, by the words of a component.
_COUNTED = {
    "NucleicAcidQuantification": listed("dna rna nucleic acid plasmid oligo primer amplicon cdna"),
    "TotalProteinQuantification": listed("protein bsa albumin lysate antibody"),
    "CellCounter": listed("cell"),
}
_NUMBER_DENSITY = Decimal("0.4")


_ABOUT_NOW = re.compile(
    r"\b(?:volume|remaining|remains|left|contains|holds|residual|total|final|mass|weight|net)\b", re.IGNORECASE
)


_NOT_NOW = re.compile(r"\b(?:transferred|added|removed|moved|injected|aspirated|dispensed|loaded|taken|discarded|lost|evaporated|before|initial|original|"
                      r"capacity|tare|container|injection|wash(?:ed)?|gross|per)\b", re.IGNORECASE)  # fmt: skip


_PH = re.compile(
    r"\bpH\s?(?:of|is|was|=|:|reads?|reading|value)?\s?(-?[0-9]{1,4}(?:\.[0-9]{1,4})?)(?![0-9])", re.IGNORECASE
)


def agreement(transition: Transition) -> Said:
    """L20: what is read off a sample is what its material shows."""
    if not transition.success:
        return
    for seen in transition.seen:
        if (about := _about(transition, seen)) is not None:
            yield from _amounts(transition, seen, about)
        yield from replicates.readings(transition, seen)
        yield from replicates.share(seen)


def _about(transition: Transition, seen: Seen) -> View | None:
    """The one material an observation speaks of: the longest name in its description, or the only one there is."""
    named = [view for view in transition.outputs if view.name and view.name.lower() in seen.description.lower()]
    if named:
        longest = max(len(view.name) for view in named)
        best = [view for view in named if len(view.name) == longest]
        return best[0] if len(best) == 1 else None
    solvent = roles.solvent_of(transition) if transition.family == families.ADD else None
    rest = transition.after(solvent) if solvent is not None else None
    samples = [view for view in transition.outputs if not view.supply and view is not rest]
    return samples[0] if len(samples) == 1 and transition.family != families.MOVE else None


def _amounts(transition: Transition, seen: Seen, view: View) -> Said:
    for dimension, known in (("volume", view.volume), ("mass", view.mass)):
        if known is None or not _speaks_of(transition, seen, dimension):
            continue
        for amount in _read(seen, dimension):
            yield Ran("L20", quantity=True)
            share = _TOLERANCE if transition.family in families.MEASUREMENTS else _TOLD
            if abs(amount.value - known.value) > known.value * share + min(known.step, known.value / 100):
                yield error("L20", seen.place, units.show(known.value, dimension), units.show(amount.value, dimension),
                            f"{units.show(amount.value, dimension)} was read of {view.name}, which holds {units.show(known.value, dimension)}", "10 %")  # fmt: skip
    yield from _densities(transition, seen, view)
    yield from _acidity(transition, seen, view)


def _densities(transition: Transition, seen: Seen, view: View) -> Said:
    """A count against a density on record, a quantification against a concentration on record."""
    if transition.action not in (
        "CellCounter",
        "NucleicAcidQuantification",
        "TotalProteinQuantification",
        "CoulterCount",
        "CountLiquidParticles",
    ):
        return
    before = transition.before(view) or view
    about = _COUNTED.get(transition.action, listed("cell particle"))
    found = [amount for name, amount in before.concentrations.items() if set(name.split()) & about or not name]
    if len(found) != 1:
        return
    known = found[0]
    for amount in _read(seen, known.dimension):
        yield Ran("L20", quantity=True)
        if abs(amount.value - known.value) > known.value * _NUMBER_DENSITY:
            yield error("L20", seen.place, concentrations.show(known.value, known), concentrations.show(amount.value, known),
                        f"{concentrations.show(amount.value, known)} was read of {view.name}, on record with {concentrations.show(known.value, known)}", "40 %")  # fmt: skip


def _acidity(transition: Transition, seen: Seen, view: View) -> Said:
    """The pH read is the pH the material shows."""
    if transition.action not in ("MeasurepH", "AdjustpH"):
        return
    known = [n for leaf in view.leaves if set(leaf.words) == {"ph"} and (n := units.number(leaf.value)) is not None]
    read = units.number_and_rest(seen.value)
    plain = read[0] if read and read[2].strip().lower() in ("", "ph", "ph units") else None
    found = _PH.search(seen.text)
    got = plain if plain is not None else Decimal(found[1]) if found else None
    if len(known) == 1 and got is not None:
        yield Ran("L20", quantity=True)
        if abs(got - known[0]) > Decimal("0.5"):
            yield error(
                "L20",
                seen.place,
                f"pH {known[0]}",
                f"pH {got}",
                f"pH {got} was read of {view.name}, which has pH {known[0]}",
                "0.5",
            )


def _speaks_of(transition: Transition, seen: Seen, dimension: str) -> bool:
    """What the record says is the amount in the vessel, not one that was moved."""
    if transition.action == {"volume": "MeasureVolume", "mass": "MeasureWeight"}[dimension]:
        return not re.search(
            r"\b(?:gross|tare|with (?:the )?(?:container|tube|vial)|evaporated)\b", seen.description, re.IGNORECASE
        )
    text = seen.description if seen.value else seen.text
    return bool(_ABOUT_NOW.search(text)) and not _NOT_NOW.search(text)


def _read(seen: Seen, dimension: str) -> list[Amount]:
    """Every reading of this dimension in the value, or the only one in the description."""
    parts = re.split(r"[,;]\s", seen.value[:1000]) if seen.value else []
    found = [a for part in parts if (a := units.read(part, "", (dimension,))) and a.dimension == dimension]
    if found or seen.value:
        return found
    told = [
        units.read(seen.description[at.start() :][:40], "", (dimension,))
        for at in re.finditer(r"(?<![\w.])[0-9]", seen.description[:600])
    ]
    own = [a for a in told if a and a.dimension == dimension]
    return own if len(own) == 1 else []
