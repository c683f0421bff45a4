"""Volume, mass, density and number out of the books, with the noise of the instrument."""

from collections.abc import Callable
from decimal import Context, Decimal

from simulation.lab import quantities
from simulation.offline.handlers.loading import need_phase, need_volume, noisy, record, use
from simulation.offline.job import Job
from simulation.offline.responses import read_responses
from simulation.offline.vessels import ADHERENT, LIQUID, SEDIMENTED, SOLIDS, SUSPENSION, RefusalError, Vessel

_VOLUME_NOISE, _DENSITY_NOISE = "0.01", "0.0005"  # relative, where the experiment declares none
# Balance -> what it carries and how finely it reads, in µg, and the decimals of the grams it shows.
_BALANCES = {
    "micro": (Decimal("6E6"), Decimal(1), 6),
    "analytical": (Decimal("220E6"), Decimal(100), 4),
    "bench": (Decimal("6E9"), Decimal(10000), 2),
}


def measure_volume(job: Job) -> None:
    for vessel in job.samples():
        need_phase(vessel, (LIQUID, SUSPENSION, SEDIMENTED, ADHERENT), "measured by volume")
        if (true := vessel.contents.volume) is None:
            record(job, vessel)
            continue
        readings = noisy(job, vessel, true, _VOLUME_NOISE, "volume")
        value = ", ".join(quantities.show(_four(reading), "volume") for reading in readings)
        job.say(f"{job.run_of(vessel)}", "quantitative", value)
    job.how = "The volume in the books with the instrument's noise; none where no volume is known."


def measure_weight(job: Job) -> None:
    """The mass of the contents, or of container and contents, to the last digit of the balance."""
    what = "contents" if job.values["tare"] else "container and contents"
    for vessel in job.samples():
        if (true := _on_the_balance(job, vessel)) is None:
            record(job, vessel)
        else:
            job.say(f"{job.run_of(vessel)}: mass of {what}", "quantitative", _weighed(job, vessel, true))
    job.how = "The mass in the books with the balance's noise; none where no mass is known."


def measure_density(job: Job) -> None:
    """Declared readings first, then mass by volume, then the density on record."""
    for vessel in job.samples():
        vessel.need_liquid("measured")
        need_volume(vessel, job.number("sample_volume"))
        if not read_responses(job, vessel, vessel.contents):
            _say_density(job, vessel)
        if not job.values["recover_sample"]:
            use(vessel, job.number("sample_volume"))
    job.how = "Mass by volume in the books, or the density on record, with the instrument's noise."


def count_tablets(job: Job) -> None:
    """All tablets together, by the mass of one."""
    for vessel in job.samples():
        need_phase(vessel, SOLIDS, "counted as tablets")
        whole, one = vessel.net_mass(), _tablet_mass(vessel)
        _on_the_balance(job, vessel)
        if not whole or not one:
            record(job, vessel)
        else:
            job.say(f"{job.run_of(vessel)}: tablets", "quantitative", str(round(whole / one)))
    job.how = "Mass of all by mass of one; no number where either is not on record."


def _tablet_mass(vessel: Vessel) -> Decimal | None:
    """In µg, as the label says; None where it says none."""
    written = vessel.properties.get("tablet mass")
    return None if written is None else quantities.parse(written, "mass").value


def _say_density(job: Job, vessel: Vessel) -> None:
    mass, volume = vessel.net_mass(), vessel.contents.volume
    written = vessel.properties.get("density")
    if mass is not None and volume:
        true = mass / volume / 1000  # µg in a µL, as grams in a mL
    elif written:
        true = quantities.parse(written, "density").value
    else:
        record(job, vessel)
        return
    readings = noisy(job, vessel, true, _DENSITY_NOISE, "density")
    value = ", ".join(f"{reading:.4f}" for reading in readings)
    job.say(job.run_of(vessel), "quantitative", f"{value} g/mL")


def _on_the_balance(job: Job, vessel: Vessel) -> Decimal | None:
    """What rests on the balance in µg, less the container if that is subtracted; None if not known."""
    net = vessel.net_mass()
    gross = None if net is None or vessel.tare is None else net + vessel.tare
    balance = job.values["balance"]
    heavy, most = gross if gross is not None else net, _BALANCES[balance][0]
    if heavy is not None and heavy > most:
        weighs, carries = quantities.show(heavy, "mass"), quantities.show(most, "mass")
        raise RefusalError(f"too heavy: {vessel.name} weighs {weighs}, the {balance} balance takes {carries}")
    return net if job.values["tare"] else gross


def _weighed(job: Job, vessel: Vessel, true: Decimal) -> str:
    """Readings in grams with all the digits of the balance; they scatter by the last of them."""
    _, step, places = _BALANCES[job.values["balance"]]
    readings = []
    for number, mass in enumerate(noisy(job, vessel, true, "0", "mass")):
        read = (mass + step * job.deviate(vessel, "balance", number)) / 10**6
        readings.append(round(read, places) + 0)  # a balance shows no minus before zero
    return ", ".join(f"{reading:.{places}f} g" for reading in readings)


def _four(value: Decimal) -> Decimal:
    """Rounded to four significant digits."""
    return Context(prec=4).plus(value)


HANDLERS: dict[str, Callable[[Job], None]] = {
    "measure_volume": measure_volume,
    "measure_weight": measure_weight,
    "measure_density": measure_density,
    "count_tablets": count_tablets,
}
