"""Balances: the mass of contents or of container and contents, and what a warm or damp sample does to a reading.

An object that is warmer than the balance is buoyed up by warm air and weighs too little; its reading rises while it cools. A
residue that is not dry weighs too much.
"""

from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext, handles
from simulation.offline.handlers import loading
from simulation.offline.handlers.dryness import COOLED_IN_AIR, DAMP, HOT, LOOKS_DRY, is_cooled, set_cold
from simulation.offline.ledger import ZERO
from simulation.offline.vessels import Phase, RefusalError, Vessel

# Balance -> (capacity in µg, readability in µg, decimals of the grams it displays).
_BALANCES = {
    "micro": (Decimal("6E6"), Decimal(1), 6),
    "analytical": (Decimal("220E6"), Decimal(100), 4),
    "bench": (Decimal("6E9"), Decimal(10000), 2),
}
# µg. Of our choosing, in the order that textbooks of gravimetry give: warm air around a crucible from a drying oven lifts
# it by milligrams, a damp residue and its filter plate hold a few tenths of a millilitre, a precipitate dried below the
# boiling point of water keeps some tenths of a percent, and glass cooled in air adsorbs some tenths of a milligram.
_LIFT = (Decimal(1000), Decimal(3000))
_WATER_HELD = (Decimal(200_000), Decimal(400_000))
_WATER_ADSORBED = (Decimal("0.004"), Decimal("0.010"))  # share of the precipitate's mass
_ON_GLASS = (Decimal(100), Decimal(400))
_LIFT_LEFT = Decimal("0.9")  # share of the lift that is left at the next reading


@handles("measure_weight", balance=_BALANCES)
def measure_weight(context: ActionContext) -> None:
    """Record the mass of the contents, or of container and contents, with all digits that the balance displays."""
    weighed_part = "contents" if context.values["tare"] else "container and contents"
    for vessel in context.get_samples():
        if context.values["cool_first"] and is_cooled(context.get_number("cooling_time")):
            set_cold(vessel)
        if (true_mass := _weigh_vessel(context, vessel)) is None:
            context.record_run(vessel)
        else:
            description = f"{context.describe_run(vessel)}: mass of {weighed_part}"
            context.record_observation(description, "quantitative", _format_weighings(context, vessel, true_mass))
    context.reasoning = "The recorded mass with the balance's noise; no reading if no mass is known."


@handles(
    "count_tablets",
    "Total mass divided by the mass of one tablet; no number if either is not on record.",
    balance=_BALANCES,
)
def count_tablets(context: ActionContext) -> None:
    """Record the number of tablets: the total mass divided by the mass of one."""
    for vessel in context.get_samples():
        loading.require_phase(vessel, Phase.SOLIDS, "counted as tablets")
        total_mass, text = vessel.compute_net_mass(), vessel.properties.get("tablet mass")
        tablet_mass = None if text is None else quantities.parse_quantity(text, "mass").value
        _weigh_vessel(context, vessel)
        if not total_mass or not tablet_mass:
            context.record_run(vessel)
        else:
            number = str(round(total_mass / tablet_mass))
            context.record_observation(f"{context.describe_run(vessel)}: tablets", "quantitative", number)


def _draw_between(context: ActionContext, vessel: Vessel, bounds: tuple[Decimal, Decimal], purpose: str) -> Decimal:
    """Return a seeded number between the bounds, the same at every weighing of this vessel."""
    share = Decimal(str(round(context.create_lasting_rng(vessel, purpose).random(), 6)))
    return bounds[0] + share * (bounds[1] - bounds[0])


def _compute_water_left(context: ActionContext, vessel: Vessel, net: Decimal) -> Decimal:
    """Return the mass in µg of the water in a residue that is not dry, or on glass that cooled in air."""
    moisture = vessel.properties.get("moisture")
    if moisture == DAMP:
        return _draw_between(context, vessel, _WATER_HELD, "water held")
    water = net * _draw_between(context, vessel, _WATER_ADSORBED, "water adsorbed") if moisture == LOOKS_DRY else ZERO
    if vessel.properties.get("condition") == COOLED_IN_AIR:
        water += _draw_between(context, vessel, _ON_GLASS, "water on glass")
    return water


def _weigh_vessel(context: ActionContext, vessel: Vessel) -> Decimal | None:
    """Return the mass displayed in µg, or None if unknown. Raises RefusalError if the load is too heavy."""
    net = vessel.compute_net_mass()
    net = None if net is None else net + _compute_water_left(context, vessel, net)
    gross = None if net is None or vessel.tare is None else net + vessel.tare
    balance = context.values["balance"]
    # The balance carries the container as well, even if its mass is tared.
    load, capacity = gross if gross is not None else net, _BALANCES[balance][0]
    if load is not None and load > capacity:
        weighs, carries = quantities.format_quantity(load, "mass"), quantities.format_quantity(capacity, "mass")
        raise RefusalError(
            f"too heavy: {vessel.name} weighs {weighs}, but the {balance} balance takes at most {carries}"
        )
    return net if context.values["tare"] else gross


def _format_weighings(context: ActionContext, vessel: Vessel, true_mass: Decimal) -> str:
    """Return readings in grams with all digits of the balance. Their standard deviation is one last digit."""
    _, step, places = _BALANCES[context.values["balance"]]
    is_hot = vessel.properties.get("condition") == HOT
    lift = _draw_between(context, vessel, _LIFT, "lift") if is_hot else ZERO
    readings = []
    for number, mass in enumerate(loading.simulate_replicates(context, vessel, true_mass, "0", "mass")):
        shown = mass - lift * _LIFT_LEFT**number
        grams = (shown + step * context.compute_deviate(vessel, "balance", number)) / 10**6
        readings.append(round(grams, places) + 0)  # adding zero turns -0 into 0: a balance shows no minus before zero
    return ", ".join(f"{reading:.{places}f} g" for reading in readings)
