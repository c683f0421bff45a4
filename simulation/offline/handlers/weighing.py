"""Measure volume, mass, density and the number of tablets from the ledger, with the noise of the instrument."""

from collections.abc import Callable
from decimal import Context, Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.handlers.loading import (
    draw_load,
    record_run,
    require_phase,
    require_volume,
    simulate_replicates,
)
from simulation.offline.responses import record_responses
from simulation.offline.vessels import ADHERENT, LIQUID, SEDIMENTED, SOLIDS, SUSPENSION, RefusalError, Vessel

_VOLUME_NOISE, _DENSITY_NOISE = "0.01", "0.0005"  # relative standard deviation if the experiment declares none
# Balance -> (capacity in µg, readability in µg, decimals of the grams it displays).
_BALANCES = {
    "micro": (Decimal("6E6"), Decimal(1), 6),
    "analytical": (Decimal("220E6"), Decimal(100), 4),
    "bench": (Decimal("6E9"), Decimal(10000), 2),
}


def measure_volume(context: ActionContext) -> None:
    for vessel in context.get_samples():
        require_phase(vessel, (LIQUID, SUSPENSION, SEDIMENTED, ADHERENT), "measured by volume")
        if (true_volume := vessel.contents.volume) is None:
            record_run(context, vessel)
            continue
        readings = simulate_replicates(context, vessel, true_volume, _VOLUME_NOISE, "volume")
        value = ", ".join(quantities.format_quantity(_round_to_four_digits(reading), "volume") for reading in readings)
        context.record_observation(f"{context.describe_run(vessel)}", "quantitative", value)
    context.reasoning = "The volume in the books with the instrument's noise; none where no volume is known."


def measure_weight(context: ActionContext) -> None:
    """Record the mass of the contents, or of container and contents, with all digits that the balance displays."""
    weighed_part = "contents" if context.values["tare"] else "container and contents"
    for vessel in context.get_samples():
        if (true_mass := _weigh_vessel(context, vessel)) is None:
            record_run(context, vessel)
        else:
            context.record_observation(
                f"{context.describe_run(vessel)}: mass of {weighed_part}",
                "quantitative",
                _format_weighings(context, vessel, true_mass),
            )
    context.reasoning = "The mass in the books with the balance's noise; none where no mass is known."


def measure_density(context: ActionContext) -> None:
    """Record declared readings, else mass divided by volume, else the density in the properties."""
    for vessel in context.get_samples():
        vessel.require_liquid("measured")
        require_volume(vessel, context.get_number("sample_volume"))
        if not record_responses(context, vessel, vessel.contents):
            _record_density(context, vessel)
        if not context.values["recover_sample"]:
            draw_load(vessel, context.get_number("sample_volume"))
    context.reasoning = "Mass by volume in the books, or the density on record, with the instrument's noise."


def count_tablets(context: ActionContext) -> None:
    """Record the number of tablets: the total mass divided by the mass of one."""
    for vessel in context.get_samples():
        require_phase(vessel, SOLIDS, "counted as tablets")
        total_mass, tablet_mass = vessel.compute_net_mass(), _get_tablet_mass(vessel)
        _weigh_vessel(context, vessel)
        if not total_mass or not tablet_mass:
            record_run(context, vessel)
        else:
            context.record_observation(
                f"{context.describe_run(vessel)}: tablets", "quantitative", str(round(total_mass / tablet_mass))
            )
    context.reasoning = "Mass of all by mass of one; no number where either is not on record."


def _get_tablet_mass(vessel: Vessel) -> Decimal | None:
    """Return the mass of one tablet in µg from the properties, or None if it is not given."""
    text = vessel.properties.get("tablet mass")
    return None if text is None else quantities.parse_quantity(text, "mass").value


def _record_density(context: ActionContext, vessel: Vessel) -> None:
    mass, volume = vessel.compute_net_mass(), vessel.contents.volume
    density_text = vessel.properties.get("density")
    if mass is not None and volume:
        true_density = mass / volume / 1000  # µg/µL to g/mL
    elif density_text:
        true_density = quantities.parse_quantity(density_text, "density").value
    else:
        record_run(context, vessel)
        return
    readings = simulate_replicates(context, vessel, true_density, _DENSITY_NOISE, "density")
    value = ", ".join(f"{reading:.4f}" for reading in readings)
    context.record_observation(context.describe_run(vessel), "quantitative", f"{value} g/mL")


def _weigh_vessel(context: ActionContext, vessel: Vessel) -> Decimal | None:
    """Return the mass that the balance displays in µg: without the container if `tare` is set. None if it is unknown.

    Raises RefusalError if the load exceeds the capacity of the balance.
    """
    net = vessel.compute_net_mass()
    gross = None if net is None or vessel.tare is None else net + vessel.tare
    balance = context.values["balance"]
    # The balance carries the container as well, even if its mass is tared.
    load, capacity = gross if gross is not None else net, _BALANCES[balance][0]
    if load is not None and load > capacity:
        weighs, carries = quantities.format_quantity(load, "mass"), quantities.format_quantity(capacity, "mass")
        raise RefusalError(f"too heavy: {vessel.name} weighs {weighs}, the {balance} balance takes {carries}")
    return net if context.values["tare"] else gross


def _format_weighings(context: ActionContext, vessel: Vessel, true_mass: Decimal) -> str:
    """Return readings in grams with all digits of the balance. Their standard deviation is one last digit."""
    _, step, places = _BALANCES[context.values["balance"]]
    readings = []
    for number, mass in enumerate(simulate_replicates(context, vessel, true_mass, "0", "mass")):
        grams = (mass + step * context.compute_deviate(vessel, "balance", number)) / 10**6
        readings.append(round(grams, places) + 0)  # adding zero turns -0 into 0: a balance shows no minus before zero
    return ", ".join(f"{reading:.{places}f} g" for reading in readings)


def _round_to_four_digits(value: Decimal) -> Decimal:
    return Context(prec=4).plus(value)


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "measure_volume": measure_volume,
    "measure_weight": measure_weight,
    "measure_density": measure_density,
    "count_tablets": count_tablets,
}
