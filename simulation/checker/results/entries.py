"""All numbers of a record with the words that say what they are, wherever they are written: relations across observations and materials.

Which numbers a result was computed from is often open, so `compare_results` calls a result wrong only if no choice of terms gives it.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations

from simulation.checker.findings import Findings, compare
from simulation.checker.reading import claims, units
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.transition import Transition
from simulation.checker.results.dilution_factors import read_factors

ONE = Decimal(1)
TOLERANCE = Decimal("0.03")  # share of a result; covers rounding of terms in a calculation by hand
APPROXIMATE = Decimal("0.15")  # share of a result that is stated as "about"


@dataclass(frozen=True)
class Entry:
    """A claim of the record, and all words that say what it is.

    `subject` is the path of its observation, the name of its material, or "action".
    """

    claim: Claim
    label: str
    subject: str
    is_observed: bool

    @property
    def own_label(self) -> str:
        """Return the words of this number only, or those of its observation if it has none but its unit."""
        own = self.claim.own_label.replace("_", " ")
        # "12 cells": the unit of a count is its name.
        has_unit = self.claim.dimension not in ("", "count", "number_density")
        is_named = any(
            re.search(r"[^\W\d]", word) and not (has_unit and units.find_dimension(word)) for word in own.split()
        )
        return own if is_named else self.claim.context.replace("_", " ")


def list_entries(transition: Transition) -> list[Entry]:
    """Return the claims of all observations, materials and settings of a transition, those of observations first."""
    entries = [
        Entry(claim, f"{claim.label} ; {claim.context}".replace("_", " "), seen.path, True)
        for seen, found in claims.list_observed(transition)
        for claim in found
    ]
    for view in (*transition.inputs, *transition.outputs):
        entries += [
            Entry(claim, f"{claim.label} {view.name.lower()}", view.name, False)
            for claim in claims.read_text(view.name)
        ]
        entries += [Entry(claim, claim.label, view.name, False) for claim in claims.list_claims(transition, [view])]
    for claim in claims.read_value(dict(transition.parameters.raw)):
        entries.append(Entry(claim, claim.label, "action", False))
    return entries


def list_factors(transition: Transition) -> set[Decimal]:
    """Return all numbers of a record by which a sample may have been diluted, or 1 if it states none."""
    texts = [f"{seen.description} {seen.value}" for seen in transition.observations]
    texts += [f"{leaf.key.replace('_', ' ')}: {leaf.value_text}" for leaf in transition.parameters.leaves]
    for view in transition.inputs:
        texts += [view.name, *(f"{leaf.key.replace('_', ' ')}: {leaf.value_text}" for leaf in view.leaves)]
    factors = set().union(*(read_factors(text) for text in texts))
    factors |= {factor for factor in [transition.parameters.find_dilution_factor()] if factor}
    factors |= {first * second for first, second in combinations(sorted(factors)[:12], 2)}
    return factors or {ONE}


def compare_results(stated: Entry, results: Iterable[Decimal], name: str, exact: Decimal | None = None) -> Findings:
    """Yield an error unless one of the results is the stated one, within its rounding or `exact` if that is given."""
    results = list(results)
    if not results:
        return
    claim = stated.claim
    nearest = min(results, key=lambda value: abs(value - claim.value))
    share = APPROXIMATE if claim.is_approximate else TOLERANCE
    allowed = abs(nearest) * share + claim.step * 2 if exact is None or claim.is_approximate else exact
    shown = format_number(nearest, claim.dimension), format_number(claim.value, claim.dimension)
    text = f"the {name} is {shown[0]} by the other numbers of the record, not {shown[1]}"
    yield from compare(
        "L20", stated.subject, nearest, claim.value, claim.dimension, text, allowed, allowed, shown=shown
    )


def format_number(value: Decimal, dimension: str) -> str:
    """Return a value in the base unit of its dimension as a finding shows it."""
    return f"{value:.4g}" if dimension in ("", "count") else units.format_value(value, dimension)
