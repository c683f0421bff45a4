"""How the contents of a vessel look to the naked eye: the colour of what is dissolved, the turbidity and the sediment."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline.declared_numbers import parse_concentration
from simulation.offline.ledger import CELLS, PARTICLES, ZERO, Contents, find_original, sum_known
from simulation.offline.vessels import Phase, Vessel

# A suspension looks cloudy from about 10^7 bacteria per mL on (Madigan et al., Brock Biology of Microorganisms). Objects
# larger than the wavelength scatter in proportion to their cross-section, so the limit is one of number times the square
# of the diameter: 10^7 per mL of 1 µm.
_CLOUDY_SCATTER = Decimal("1E7")  # µm² per mL
_UNDECLARED_DIAMETER = Decimal(1)  # µm; the smallest that cells have, so that nothing is called cloudy that is not
# Precipitates are seen from about 10 µg/mL on: the turbidity limit test for chlorides of the European Pharmacopoeia
# (2.4.4) compares with the silver chloride of 5 µg/mL chloride, which is 20 µg/mL.
_CLOUDY_MASS = Decimal(20)  # µg/mL
# Share of dead cells from which a culture looks like this.
_LOOKS_OF_CELLS = (
    (Decimal("0.9"), "hardly any cells attached, the others rounded or floating, much debris"),
    (Decimal("0.2"), "many cells rounded or detached, debris in the medium"),
    (Decimal(0), "cells attached and spread"),
)
_DEAD = ("dead ", "attached dead ")


def describe_appearance(vessel: Vessel, truth: Mapping[str, Any]) -> str:
    """Return how the contents look; "" if neither the state nor a declared property or component decides it."""
    fixed = {
        Phase.FROZEN: "frozen solid", Phase.SEDIMENTED: "liquid over a sediment", Phase.PELLET: "pellet",
        "powder": "dry powder", "solid": "solid",
    }  # fmt: skip
    if vessel.phase in fixed:
        return fixed[vessel.phase]
    if vessel.phase == Phase.ADHERENT:
        return describe_attached_cells(vessel.contents, truth.get("counted", ()))
    if vessel.phase not in (Phase.LIQUID, Phase.SUSPENSION) or not vessel.contents.volume:
        return ""
    if declared := vessel.properties.get("appearance"):
        return str(declared)
    seen = {name: _find_look(vessel.contents, name, steps) for name, steps in truth.get("appearances", {}).items()}
    sediments = vessel.contents.list_components_of_kind(PARTICLES)
    colours = [text for name, text in seen.items() if text and name not in sediments]
    deposits = [text for name, text in seen.items() if text and name in sediments]
    turbidity = _describe_turbidity(vessel.contents, truth.get("retained", {}), seen)
    return ", ".join(dict.fromkeys([*colours, *([turbidity] if turbidity else []), *deposits]))


def describe_attached_cells(contents: Contents, counted: Any) -> str:
    """Return how attached cells look, by the share of dead ones: they round up and detach; "" if an amount is unknown."""
    listed = [name for names in counted.values() for name in names] if isinstance(counted, Mapping) else list(counted)
    dead_names = [name for name in contents.components if name.startswith(_DEAD)]
    alive = sum_known(map(contents.get_amount, listed or {find_original(name) for name in dead_names}))
    dead = sum_known(map(contents.get_amount, dead_names))
    if alive is None or dead is None:
        return ""
    share = dead / (alive + dead) if dead else ZERO
    return next(text for least, text in _LOOKS_OF_CELLS if share >= least)


def _find_look(contents: Contents, name: str, steps: list[tuple[str, str]]) -> str:
    """Return the text of the highest declared concentration that a component reaches, or ""."""
    concentration = contents.compute_concentration(name)
    reached = [text for least, text in steps if concentration and concentration >= parse_concentration(least)[1]]
    return reached[-1] if reached else ""


def _describe_turbidity(contents: Contents, sizes: Mapping[str, str], declared: Mapping[str, str]) -> str:
    """Return "cloudy" or "clear"; "" if an amount is unknown or too little is suspended for a certain answer.

    What has a declared look is not counted: it settles, or colours the liquid without making it turbid.
    """
    suspended = [name for name in contents.list_components_of_kind(CELLS, PARTICLES) if name not in declared]
    scatter, mass = Decimal(0), Decimal(0)
    for name in suspended:
        concentration = contents.compute_concentration(name)
        if concentration is None:
            return ""
        if contents.components[name].dimension == "count":
            size = sizes.get(name)
            diameter = quantities.parse_quantity(size, "length").value * 1000 if size else _UNDECLARED_DIAMETER
            scatter += concentration * diameter**2
        elif contents.components[name].dimension == "mass":
            mass += concentration
        else:
            return ""
    if scatter >= _CLOUDY_SCATTER or mass >= _CLOUDY_MASS:
        return "cloudy"
    return "" if suspended else "clear"
