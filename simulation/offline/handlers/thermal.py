"""Temperature, time and shaking: thawing, freezing, and what the experiment declares to develop meanwhile."""

from collections.abc import Callable
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.chemistry import develop
from simulation.offline.job import Job
from simulation.offline.vessels import ADHERENT, FROZEN, LIQUID, SEDIMENTED, SUSPENSION, RefusalError, Vessel, show

_COLD = ("-20C", "-80C", "-196C", "dry_ice")
_BLOCK_HOLDS = Decimal(100)  # µL in a thermocycler tube
_BLOCK_FORMATS = ("PCR", "plate")


def mix(job: Job) -> None:
    for vessel in job.changeable():
        vessel.need_liquid("mixed")
        vessel.phase = SUSPENSION if vessel.phase == SEDIMENTED else vessel.phase
        develop(job, vessel)
    job.how = "A pellet is stirred up; contents stay."


def degas(job: Job) -> None:
    for vessel in job.changeable():
        vessel.need_liquid("degassed")
        vessel.properties["dissolved gas"] = "removed"
    job.how = "Dissolved gas is gone; volumes and amounts stay."


def incubate(job: Job) -> None:
    temperature, seconds = job.number("temperature"), job.number("duration")
    for vessel in job.changeable():
        vessel.place("incubating_conditions", temperature=_celsius(temperature))
        _hold(job, vessel, temperature, seconds)
        if vessel.phase != FROZEN:
            develop(job, vessel)
    job.how = "Thawing by volume, temperature and time; else only what the experiment declares for these conditions."


def culture(job: Job) -> None:
    temperature = job.number("temperature")
    for vessel in job.changeable():
        if vessel.phase not in (LIQUID, SUSPENSION, ADHERENT, SEDIMENTED):
            vessel.need_liquid("cultured")
        vessel.place(
            "cell_culture_conditions",
            temperature=_celsius(temperature),
            carbon_dioxide=quantities.show(job.number("carbon_dioxide"), "ratio"),
            humidity=quantities.show(job.number("humidity"), "ratio"),
        )
        develop(job, vessel)
    job.how = "Growth by the declared doubling time, and what else the experiment declares for these conditions."


def wait(job: Job) -> None:
    for vessel in job.changeable():
        _hold(job, vessel, vessel.temperature(), job.number("duration"))
        if vessel.phase != FROZEN:
            develop(job, vessel)
    job.how = "Time passes at the temperature of the place where each material stands."


def storage(job: Job) -> None:
    condition = job.values["condition"]
    for vessel in job.changeable():
        vessel.place(condition)
        if condition in _COLD:
            vessel.freeze(vessel.temperature())
        else:
            _hold(job, vessel, vessel.temperature(), job.number("duration"))
    job.how = "Watery liquids freeze in the cold and thaw by volume, temperature and time."


def thermocycle(job: Job) -> None:
    for vessel in job.changeable():
        vessel.need_liquid("cycled")
        need_format(vessel, _BLOCK_FORMATS, "a thermocycler takes PCR tubes and PCR plates")
        if vessel.volume() > _BLOCK_HOLDS:
            raise RefusalError(
                f"too much volume: {show(vessel.volume())} in {vessel.name}, the block takes {show(_BLOCK_HOLDS)}"
            )
        develop(job, vessel)
        job.say(f"{job.run_of(vessel)}: run completed, data file recorded")
        vessel.place("4C" if job.number("hold_temperature") <= 10 else "room_temp")
    job.how = "A product is made only where everything the declared reaction needs is in the tube."


def need_format(vessel: Vessel, formats: tuple[str, ...], rule: str) -> None:
    """Refuse a container that does not fit the instrument."""
    container = str(vessel.properties.get("container", ""))
    if not any(word.lower() in container.lower() for word in formats):
        raise RefusalError(f"wrong format: {vessel.name} is in {container or 'an unknown container'}; {rule}")


def _hold(job: Job, vessel: Vessel, temperature: Decimal, seconds: Decimal) -> None:
    before = vessel.phase
    vessel.thaw(temperature, seconds)
    vessel.freeze(temperature)
    if before == FROZEN:
        job.say(
            f"{vessel.name} after warming", "visual", "still ice in it" if vessel.phase == FROZEN else "no ice left"
        )


def _celsius(temperature: Decimal) -> str:
    return quantities.show(temperature, "temperature")


HANDLERS: dict[str, Callable[[Job], None]] = {
    "mix": mix,
    "degas": degas,
    "incubate": incubate,
    "culture": culture,
    "thermocycle": thermocycle,
    "wait": wait,
    "storage": storage,
}
