"""The phases that a material can have, the temperatures of the places where it is kept, and how fast it thaws there."""

from decimal import Decimal


class Phase:
    """The phases that a material can have."""

    EMPTY, CONSUMABLE = "empty container", "consumable"
    LIQUID, SUSPENSION, FROZEN, ADHERENT = "liquid", "suspension", "frozen", "adherent culture"
    GEL, PLATE = "gel", "plate"
    PELLET, SEDIMENTED = "pellet", "pellet and supernatant"
    LIQUIDS = (LIQUID, SUSPENSION, SEDIMENTED)
    SOLIDS = ("solid", "powder", "tissue", PELLET)


PHASES = (
    Phase.EMPTY, Phase.CONSUMABLE, Phase.LIQUID, Phase.SUSPENSION, Phase.FROZEN, Phase.ADHERENT, Phase.GEL, Phase.PLATE,
    Phase.SEDIMENTED, *Phase.SOLIDS,
)  # fmt: skip

INCUBATORS = ("incubating_conditions", "cell_culture_conditions")
# °C of each environmental condition. Incubators have these only if the material shows no temperature of its own.
TEMPERATURES = {
    "room_temp": "22", "4C": "4", "-20C": "-20", "-80C": "-80", "-196C": "-196", "ice": "0.5", "dry_ice": "-78",
    "incubating_conditions": "37", "cell_culture_conditions": "37",
}  # fmt: skip
# (temperature in °C, seconds): above this temperature each started millilitre takes this long to thaw.
THAWING_TIMES = ((Decimal(30), 120), (Decimal(15), 600), (Decimal(0), 3600))
