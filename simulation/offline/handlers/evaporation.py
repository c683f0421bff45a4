"""Evaporation of water from vessels that are not sealed: on the bench, in an incubator and in a refrigerator.

Nobody measures what has evaporated, so the recorded volume stays and the loss is a deviation from it, which instruments see as
higher concentrations. Ovens, evaporators and freeze-dryers remove solvent on purpose (`thermal.py`).
"""

import math
from decimal import Decimal

from simulation.offline.ledger import ONE, VOLUME, ZERO
from simulation.offline.vessels import Phase, Vessel

# Water into still air: 0.089 kg/(s m²) x pressure difference in kPa / heat of evaporation in kJ/kg (ASHRAE Handbook, HVAC
# Applications, indoor pools, at an air velocity of 0), with 2440 kJ/kg, in µL per cm², hour and kPa.
_RATE = 0.089 / 2440 * 3600 * 100
_ROOM_TEMPERATURE, _ROOM_HUMIDITY = 22.0, 50.0  # °C and %; air in a dry incubator is warm air of the room
# Share of the mouth through which vapour leaves. A lid of a plate or a dish, a vented cap and a watch glass leave a slit: with 5 %, a
# well of a 96-well plate loses 1.6 µL in a day at 37 °C and 95 % humidity, and 10 mL in a vented tube 2 % in a day at 30 °C.
_SLIT, _FILM, _OPEN, _SEALED = 0.05, 0.2, 1.0, 0.0
_CLOSURES = (  # by a word in the description of the container; the first match counts, and what has none is sealed
    ("pcr", _SEALED), ("deep-well", _SEALED), ("vented", _SLIT), ("well", _SLIT), ("dish", _SLIT), ("beaker", _OPEN),
    ("crucible", _OPEN), ("watch glass", _OPEN), ("cylinder", _OPEN), ("test tube", _OPEN), ("cuvette", _OPEN),
)  # fmt: skip
_COVERS = {"open": _OPEN, "gas-permeable film": _FILM}  # `cover` of Incubate; "closed" puts a lid on what is open
# Mouth in cm² of wells and dishes, by a word in the description.
_MOUTHS = (
    ("384-well", 0.06), ("96-well", 0.32), ("48-well", 0.95), ("24-well", 1.9), ("12-well", 3.8), ("6-well", 9.5),
    ("35 mm", 9.6), ("60 mm", 28.0), ("100 mm", 55.0), ("10 cm", 55.0),
)  # fmt: skip
_SLENDER = ("tube", "cylinder", "flask", "cuvette")  # a mouth like that of a cylinder four times as high as wide
_HEIGHT, _SLENDER_HEIGHT = 1.3, 4.0  # height / width
_MOST_LOST = 0.5  # share of the volume that may be missing; vessels do not dry up unnoticed


def evaporate(
    vessel: Vessel, seconds: Decimal, temperature: Decimal, humidity: Decimal | None = None, cover: str = ""
) -> None:
    """Let water evaporate from a vessel for this time, in air of this temperature in °C and relative humidity in %.

    Without a humidity it is that of the room, warmed or cooled. `cover` is an option of the parameter of that name, "" for none.
    """
    contents = vessel.contents
    share = _choose_opening(vessel.container.lower(), cover)
    if not share or vessel.unlimited or not contents.volume or vessel.phase not in (*Phase.LIQUIDS, Phase.ADHERENT):
        return
    present = ONE + contents.deviations.get(VOLUME, ZERO)
    hours = float(seconds) / 3600
    lost = (
        compute_rate(float(temperature), None if humidity is None else float(humidity))
        * _measure_mouth(vessel)
        * share
        * hours
    )
    left = max(float(present) - lost / float(contents.volume), min(float(present), 1 - _MOST_LOST))
    # Rounded, so that outcomes do not depend on the last digits of floating-point functions.
    vessel.contents = contents.with_deviation(VOLUME, Decimal(str(round(left - 1, 6))))


def compute_rate(temperature: float, humidity: float | None = None) -> float:
    """Return how much water evaporates from an open surface, in µL per cm² and hour."""
    if humidity is not None:
        vapour = _compute_saturation(temperature) * humidity / 100
    else:
        # In the cold, some of the vapour of the room's air condenses.
        coldest = min(temperature, _ROOM_TEMPERATURE)
        vapour = _compute_saturation(coldest) * _ROOM_HUMIDITY / 100
    return _RATE * max(0.0, _compute_saturation(temperature) - vapour)


def _compute_saturation(temperature: float) -> float:
    """Return the vapour pressure of water in kPa at a temperature in °C (Magnus formula of Alduchov and Eskridge 1996)."""
    return 0.61094 * math.exp(17.625 * temperature / (temperature + 243.04))


def _choose_opening(container: str, cover: str) -> float:
    if cover in _COVERS:
        return _COVERS[cover]
    opening = next((opening for word, opening in _CLOSURES if word in container), _SEALED)
    return min(opening, _SLIT) if cover else opening


def _measure_mouth(vessel: Vessel) -> float:
    """Return the area of the mouth in cm²: of a known format, else of a cylinder with the capacity of the container.

    If the capacity is unknown, it is taken to be full.
    """
    container = vessel.container.lower()
    known = next((area for word, area in _MOUTHS if word in container), None)
    if known is not None:
        return known
    height = _SLENDER_HEIGHT if any(word in container for word in _SLENDER) else _HEIGHT
    capacity = vessel.get_capacity() if vessel.properties.get("container_capacity") else vessel.contents.volume or ZERO
    millilitres = float(capacity) / 1000
    return math.pi / 4 * math.pow(4 * millilitres / (math.pi * height), 2 / 3)
