"""L20: what a record of qPCR derives: relative quantities from differences of cycles, and efficiencies from slopes."""

from decimal import Decimal

from simulation.checker.findings import Findings
from simulation.checker.reading import claims
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compare_computed, compile_label, find_term

_DOUBLE_DELTA = compile_label(r"(?:ΔΔ|\bdd|delta ?-?delta ?-?)c[tqp]\b")
_RELATIVE_QUANTITY = compile_label(r"\bfold\b|\brq\b|\brelative (?:quantity|expression|amount)\b|2\^\(?-")
_SLOPE, _EFFICIENCY = (
    compile_label(r"\bslope\b|\bsteigung\b|\bpente\b|\bpendiente\b"),
    compile_label(r"\beffi[cz]i\w+\b|\beficien\w+\b"),
)


def check_relative_quantities(transition: Transition) -> Findings:
    """L20: yield an error unless a relative quantity is 2^-ΔΔCt and an efficiency is 10^(-1/slope) - 1."""
    found = [claim for _, claims_of in claims.list_observed(transition) for claim in claims_of]
    cycles = find_term([c for c in found if not _RELATIVE_QUANTITY.search(c.own_label)], _DOUBLE_DELTA)
    quantity = find_term(
        [c for c in found if c.value > 0 and _RELATIVE_QUANTITY.search(c.own_label)], _RELATIVE_QUANTITY
    )
    if transition.action == "qPCR" and cycles and quantity and abs(cycles.value) < 30:
        # A decrease may be written as a factor above 1.
        possible = (
            [Decimal(2) ** -cycles.value, Decimal(2) ** cycles.value]
            if quantity.value > 1
            else [Decimal(2) ** -cycles.value]
        )
        expected = min(possible, key=lambda value: abs(value - quantity.value))
        text = f"a ΔΔCt of {cycles.value} is a relative quantity of"
        yield from compare_computed(
            "L20", "qPCR", expected, (), quantity, text, tolerance=Decimal("0.05") + cycles.step
        )
    slope, efficiency = find_term(found, _SLOPE), find_term(found, _EFFICIENCY, ("", "ratio"))
    if transition.action == "qPCR" and slope and efficiency and -6 < slope.value < -2:
        base = Decimal(10) ** (-1 / slope.value)
        possible = [(base - 1) * 100] if efficiency.dimension == "ratio" else [base, base - 1]
        expected = min(possible, key=lambda value: abs(value - efficiency.value))
        text = f"a slope of {slope.value} is an efficiency of"
        yield from compare_computed("L20", "qPCR", expected, (), efficiency, text, tolerance=Decimal("0.04"))
