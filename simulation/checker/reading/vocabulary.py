"""The allowed values of a material's fields, and other spellings of these values."""

from simulation.lab.materials import AVAILABILITY, AVAILABLE, CONDITIONS, MATERIAL_TYPES, NOT_AVAILABLE

EMPTY, CONSUMABLE = "empty", "consumable"
LIQUID, SUSPENSION, FROZEN, ADHERENT, SOLID, GEL, PELLET, SEDIMENTED, PLATE, GAS = (
    "liquid", "suspension", "frozen", "adherent", "solid", "gel", "pellet", "sedimented", "plate", "gas",
)  # fmt: skip
FLUID = (LIQUID, SUSPENSION, SEDIMENTED)
FROZEN_CONDITIONS = ("-20C", "-80C", "-196C", "dry_ice")
INCUBATORS = ("incubating_conditions", "cell_culture_conditions")
# Lowest and highest plausible temperature in °C of a material in each storage condition. Wide: a material may just have been moved.
TEMPERATURES = {
    "room_temp": (-5, 60), "4C": (-3, 20), "-20C": (-40, 0), "-80C": (-100, -40), "-196C": (-220, -120),
    "ice": (-8, 15), "dry_ice": (-95, -40), "incubating_conditions": (-3, 130), "cell_culture_conditions": (0, 60),
}  # fmt: skip

_CONDITION_SPELLINGS = {
    "room_temp": "rt roomtemp roomtemperature ambient ambienttemperature 22c 25c 20c bench 18-25c 20-25c",
    "4C": "4c fridge refrigerator refrigerated 2-8c coldroom",
    "-20C": "-20c freezer -20freezer",
    "-80C": "-80c ultralowfreezer -80freezer",
    "-196C": "-196c liquidnitrogen ln2 ln2storage",
    "ice": "ice onice wetice icebath",
    "dry_ice": "dryice ondryice",
    # Spellings are in lower case, without spaces and underscores: see _match_spelling.
    "incubating_conditions": "incubatingconditions incubator 37c incubation incubating",
    "cell_culture_conditions": "cellcultureconditions 37c5%co2 co2incubator cellcultureincubator cellculture",
}
_AVAILABILITY_SPELLINGS = {
    "unlimited": "unlimited",
    AVAILABLE: "available availableforfurtheruse consumable limited",
    NOT_AVAILABLE: "consumed usedup used unavailable notavailable notavailableforfurtheruse depleted discarded",
}
# The first match counts, so specific words precede general ones: "frozen solution" is frozen.
_PHASES = (
    (EMPTY, "empty"), (CONSUMABLE, "consumable"), (FROZEN, "frozen ice"), (ADHERENT, "adherent attached monolayer"),
    (SEDIMENTED, "supernatant sedimented pelleted settled"), (PELLET, "pellet"), (GEL, "gel agar"),
    (SUSPENSION, "suspension slurry suspended"), (LIQUID, "liquid solution aqueous fluid emulsion"),
    (SOLID, "solid powder crystal crystalline tablet tissue lyophilized lyophilised dry film granule"),
    (PLATE, "plate"), (GAS, "gas gaseous"),
)  # fmt: skip


def parse_condition(value: object) -> str:
    """Return the storage condition that a value means, or "" if it is not recognised."""
    return _match_spelling(value, CONDITIONS, _CONDITION_SPELLINGS)


def parse_availability(value: object) -> str:
    return _match_spelling(value, AVAILABILITY, _AVAILABILITY_SPELLINGS)


def parse_material_type(value: object) -> str:
    return value.lower() if isinstance(value, str) and value.lower() in MATERIAL_TYPES else ""


def parse_phase(words: tuple[str, ...]) -> str:
    """Return the phase that these words name, or "". If they name several, the first one in `_PHASES` counts."""
    # "not frozen" does not determine the phase.
    if "not" in words or "no" in words or "unfrozen" in words:
        return ""
    return next((name for name, spellings in _PHASES if set(spellings.split()) & set(words)), "")


def _match_spelling(value: object, members: tuple[str, ...], spellings: dict[str, str]) -> str:
    if not isinstance(value, str):
        return ""
    if value in members:
        return value
    plain = "".join(c for c in value[:60].lower().replace("−", "-") if c.isalnum() or c in "-%")
    plain = plain if plain.startswith("-") else plain.lstrip("-")
    return next((name for name, spelling_text in spellings.items() if plain in spelling_text.split()), "")
