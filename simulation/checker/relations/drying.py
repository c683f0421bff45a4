"""L04: what drying leaves: everything that does not evaporate stays, and the vapour has the rest of the mass."""

import re
from decimal import Decimal

from simulation.checker.findings import Findings, compare, error_finding
from simulation.checker.reading import claims, units
from simulation.checker.reading.claims import Claim
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.relations.arithmetic import compile_label

ZERO = Decimal(0)
_ACTIONS = ("DryingOven", "Lyophilize", "Desiccate", "Evaporate")
_TOLERANCE = Decimal("0.04")
_VOLATILE = compile_label(
    r"\b(?:water|h2o|moisture|ice|solvent|methanol|meoh|ethanol|acetonitrile|mecn|acetone|vapou?r|liquid|volatile|wet|loss|lost|free)\b"
)
_WHOLE = compile_label(
    r"\b(?:total|gross|sum|tare|empty|net|soln|solution|vessel|container|crucible|boat|dish|molar|per)\b"
)
_SOLID = compile_label(r"\b(?:solute|solids?|dry|residue|dissolved)\b")
_TOTAL = compile_label(r"\b(?:total|soln|solution|wet)\b")


def check_drying(transition: Transition) -> Findings:
    """L04: yield an error if a solid is lost or made by drying, or if a condensate is not what evaporated."""
    if transition.action not in _ACTIONS:
        return
    for before, after in transition.list_kept_pairs():
        old, new = (_list_masses(transition, view) for view in (before, after))
        yield from _check_solids(after, old, new)
        yield from _check_listed(after, old, new)
        yield from _check_condensate(transition, old, new)


def _list_masses(transition: Transition, view: MaterialView) -> list[Claim]:
    return [claim for claim in claims.list_claims(transition, [view]) if claim.dimension == "mass"]


def _find_only(found: list[Claim], pattern: re.Pattern[str]) -> Claim | None:
    """Return the claim of this name, or None if there is none or several differ."""
    named = [claim for claim in found if claim.matches(pattern)]
    return named[0] if len({claim.value for claim in named}) == 1 else None


def _check_solids(after: MaterialView, old: list[Claim], new: list[Claim]) -> Findings:
    """Yield an error unless the mass of dissolved or solid matter is the same before and after."""
    had, has = _find_only(old, _SOLID), _find_only(new, _SOLID)
    # "dry mass" before and "wet mass" in one label is a share, not a mass of solids.
    if had is None or has is None or had.matches(_TOTAL) or has.matches(_TOTAL):
        return
    allowed = had.value * _TOLERANCE + had.step + has.step
    shown = [units.format_value(claim.value, "mass") for claim in (had, has)]
    text = f"{shown[0]} of solids were dried, and {shown[1]} of solids are left"
    yield from compare("L04", after.name, had.value, has.value, "mass", text, allowed, allowed)


def _check_listed(after: MaterialView, old: list[Claim], new: list[Claim]) -> Findings:
    """Yield an error if a component that cannot evaporate is missing from a list of masses that was kept."""

    def list_components(found: list[Claim]) -> dict[str, Claim]:
        return {c.label: c for c in found if not c.matches(_WHOLE) and not c.matches(_VOLATILE) and c.value > 0}

    had, has = list_components(old), list_components(new)
    has_volatile = any(claim.matches(_VOLATILE) for claim in old)
    # Only a list that goes on with the same names shows what was left out.
    if not has_volatile or not set(has) or not set(has) <= set(had):
        return
    totals = [claim.value for claim in new if claim.matches(_TOTAL)]
    for label in had.keys() - has.keys():
        lost = units.format_value(had[label].value, "mass")
        total = sum((claim.value for claim in has.values()), ZERO)
        # A total that has room for it may include it.
        if not totals or abs(totals[0] - total) < had[label].value / 2:
            text = f"{lost} of {label} does not evaporate, but is missing after drying"
            yield error_finding("L04", after.name, lost, "none", text)


def _check_condensate(transition: Transition, old: list[Claim], new: list[Claim]) -> Findings:
    """Yield an error unless the only condensate has the mass that the dried material lost."""
    condensates = [view for view in transition.usable_outputs if transition.find_input(view) is None and view.mass]
    total, left = _find_only(old, _TOTAL), _find_only(new, _SOLID)
    if len(condensates) != 1 or total is None or left is None or len(transition.list_kept_pairs()) != 1:
        return
    got = condensates[0].mass
    if got is not None and total.value > left.value:
        expected = total.value - left.value
        allowed = expected * _TOLERANCE + got.step + total.step
        shown = [units.format_value(value, "mass") for value in (expected, got.value)]
        text = f"{shown[0]} evaporated, but {condensates[0].name} has {shown[1]}"
        yield from compare("L04", condensates[0].name, expected, got.value, "mass", text, allowed, allowed)
