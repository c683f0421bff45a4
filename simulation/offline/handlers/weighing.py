"""Volume, mass, density and number from the hidden account, with the noise of the instrument."""

from collections.abc import Callable
from decimal import Context, Decimal

from simulation.lab import quantities
from simulation.offline.handlers.loading import need_phase, need_volume, noisy, record, use
from simulation.offline.job import Job
from simulation.offline.responses import read_responses
from simulation.offline.vessels import ADHERENT, LIQUID, SEDIMENTED, SOLIDS, SUSPENSION, RefusalError, Vessel

_VOLUME_NOISE, _DENSITY_NOISE = "0.01", "0.0005"  # relative, where the experiment declares none
# Balance -> (capacity in µg, readability in µg, decimals of the grams it displays).
_BALANCES = {
    "micro": (Decimal("6E6"), Decimal(1), 6),
    "analytical": (Decimal("220E6"), Decimal(100), 4),
    "bench": (Decimal("6E9"), Decimal(10000), 2),
}


def measure_volume(context: Job) -> None:
    for vessel in context.samples():
        need_phase(vessel, (LIQUID, SUSPENSION, SEDIMENTED, ADHERENT), "measured by volume")
        if (true_volume := vessel.contents.volume) is None:
            record(context, vessel)
            continue
        readings = noisy(context, vessel, true_volume, _VOLUME_NOISE, "volume")
        value = ", ".join(quantities.show(_four(reading), "volume") for reading in readings)
        context.say(f"{context.run_of(vessel)}", "quantitative", value)
    context.how = "The volume in the books with the instrument's noise; none where no volume is known."


def measure_weight(context: Job) -> None:
    """Record the mass of the contents, or of container and contents, to the last digit of the balance."""
    weighed_part = "contents" if context.values["tare"] else "container and contents"
    for vessel in context.samples():
        if (true_mass := _on_the_balance(context, vessel)) is None:
            record(context, vessel)
        else:
            context.say(
                f"{context.run_of(vessel)}: mass of {weighed_part}",
                "quantitative",
                _weighed(context, vessel, true_mass),
            )
    context.how = "The mass in the books with the balance's noise; none where no mass is known."


def measure_density(context: Job) -> None:
    """Record declared readings, else mass divided by volume, else the density in the properties."""
    for vessel in context.samples():
        vessel.need_liquid("measured")
        need_volume(vessel, context.number("sample_volume"))
        if not read_responses(context, vessel, vessel.contents):
            _say_density(context, vessel)
        if not context.values["recover_sample"]:
            use(vessel, context.number("sample_volume"))
    context.how = "Mass by volume in the books, or the density on record, with the instrument's noise."


def count_tablets(context: Job) -> None:
    """Record the number of tablets: the total mass divided by the mass of one."""
    for vessel in context.samples():
        need_phase(vessel, SOLIDS, "counted as tablets")
        total_mass, tablet_mass = vessel.net_mass(), _tablet_mass(vessel)
        _on_the_balance(context, vessel)
        if not total_mass or not tablet_mass:
            record(context, vessel)
        else:
            context.say(f"{context.run_of(vessel)}: tablets", "quantitative", str(round(total_mass / tablet_mass)))
    context.how = "Mass of all by mass of one; no number where either is not on record."


def _tablet_mass(vessel: Vessel) -> Decimal | None:
    """Return the mass of one tablet in µg as the label gives it, or None."""
    text = vessel.properties.get("tablet mass")
    return None if text is None else quantities.parse(text, "mass").value


def _say_density(context: Job, vessel: Vessel) -> None:
    mass, volume = vessel.net_mass(), vessel.contents.volume
    density_text = vessel.properties.get("density")
    if mass is not None and volume:
        true_density = mass / volume / 1000  # µg/µL to g/mL
    elif density_text:
        true_density = quantities.parse(density_text, "density").value
    else:
        record(context, vessel)
        return
    readings = noisy(context, vessel, true_density, _DENSITY_NOISE, "density")
    value = ", ".join(f"{reading:.4f}" for reading in readings)
    context.say(context.run_of(vessel), "quantitative", f"{value} g/mL")


def _on_the_balance(context: Job, vessel: Vessel) -> Decimal | None:
    """Return the load on the balance in µg, less the container if that is tared, or None if unknown."""
    net = vessel.net_mass()
    gross = None if net is None or vessel.tare is None else net + vessel.tare
    balance = context.values["balance"]
    # The balance carries the container as well, even if its mass is tared.
    load, capacity = gross if gross is not None else net, _BALANCES[balance][0]
    if load is not None and load > capacity:
        weighs, carries = quantities.show(load, "mass"), quantities.show(capacity, "mass")
        raise RefusalError(f"too heavy: {vessel.name} weighs {weighs}, the {balance} balance takes {carries}")
    return net if context.values["tare"] else gross


def _weighed(context: Job, vessel: Vessel, true_mass: Decimal) -> str:
    """Return readings in grams with all digits of the balance. They scatter by the last digit."""
    _, step, places = _BALANCES[context.values["balance"]]
    readings = []
    for number, mass in enumerate(noisy(context, vessel, true_mass, "0", "mass")):
        grams = (mass + step * context.deviate(vessel, "balance", number)) / 10**6
        readings.append(round(grams, places) + 0)  # adding zero turns -0 into 0: a balance shows no minus before zero
    return ", ".join(f"{reading:.{places}f} g" for reading in readings)


def _four(value: Decimal) -> Decimal:
    return Context(prec=4).plus(value)


HANDLERS: dict[str, Callable[[Job], None]] = {
    "measure_volume": measure_volume,
    "measure_weight": measure_weight,
    "measure_density": measure_density,
    "count_tablets": count_tablets,
}
