"""How dry and how cold a sample is after drying: the states that a balance notices, kept as properties of the vessel."""

from decimal import Decimal

from simulation.offline.vessels import Vessel

# The property "condition": where the vessel cooled after the oven.
HOT = "hot from the oven"
COOLED_IN_AIR = "cooled in air"
COLD = "cooled in a desiccator"
# The property "moisture" of a filter residue. It is absent once the residue is dry.
DAMP = "damp"
LOOKS_DRY = "dry to the eye"

_COOLING_TIME = Decimal(30 * 60)  # s until a crucible has the temperature of the balance
_DRYING_TEMPERATURE, _DRYING_TIME = Decimal(100), Decimal(30 * 60)  # °C and s that drive adsorbed water off


def is_cooled(seconds: Decimal) -> bool:
    """Return whether a hot vessel has the temperature of the balance after this time."""
    return seconds >= _COOLING_TIME


def set_cold(vessel: Vessel) -> None:
    """Record that a hot vessel has cooled in a desiccator."""
    if vessel.properties.get("condition") in (HOT, COOLED_IN_AIR):
        vessel.properties["condition"] = COLD


def cool_in_air(vessel: Vessel, seconds: Decimal) -> None:
    """Let a vessel that was left hot at the bench cool by itself if this much time has passed."""
    if vessel.properties.get("condition") == HOT and is_cooled(seconds):
        vessel.properties["condition"] = COOLED_IN_AIR


def drive_off_moisture(vessel: Vessel, temperature: Decimal, seconds: Decimal) -> None:
    """Dry a filter residue: completely if it is hot enough for long enough, else only to the eye."""
    if temperature >= _DRYING_TEMPERATURE and seconds >= _DRYING_TIME:
        vessel.drop_properties("moisture")
    elif vessel.properties.get("moisture") == DAMP:
        vessel.properties["moisture"] = LOOKS_DRY
