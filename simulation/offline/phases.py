"""The phases that a material can have: what it looks like and how it can be handled."""


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
