"""Temperature, time and shaking: thawing, freezing, and what the experiment declares to happen during that time."""

from collections.abc import Callable
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.chemistry import develop
from simulation.offline.job import Job
from simulation.offline.ledger import ZERO
from simulation.offline.vessels import (
    ADHERENT,
    EMPTY,
    FROZEN,
    LIQUID,
    PLATE,
    SEDIMENTED,
    SOLIDS,
    SUSPENSION,
    RefusalError,
    Vessel,
    cells_in,
    show,
)

_COLD = ("-20C", "-80C", "-196C", "dry_ice")
_BLOCK_HOLDS = Decimal(100)  # µL in a thermocycler tube
_BLOCK_FORMATS = ("PCR", "plate")
# °C and s; nothing survives this temperature for this long.
_KILLING, _KILLING_TIME = Decimal(121), Decimal(15 * 60)
_BOILS_OVER = Decimal("0.75")  # share of the capacity that may be full in an autoclave
_FLAMMABLE = ("ethanol", "methanol", "acetonitrile", "acetone", "propanol", "hexane", "toluene", "diethyl ether")


def mix(context: Job) -> None:
    for vessel in context.changeable():
        vessel.need_liquid("mixed")
        vessel.phase = SUSPENSION if vessel.phase == SEDIMENTED else vessel.phase
        develop(context, vessel)
    context.how = "A pellet is stirred up; contents stay."


def degas(context: Job) -> None:
    for vessel in context.changeable():
        vessel.need_liquid("degassed")
        vessel.properties["dissolved gas"] = "removed"
    context.how = "Dissolved gas is gone; volumes and amounts stay."


def incubate(context: Job) -> None:
    temperature, seconds = context.number("temperature"), context.number("duration")
    for vessel in context.changeable():
        need_apart(vessel)
        vessel.place("incubating_conditions", temperature=_celsius(temperature))
        _hold(context, vessel, temperature, seconds)
        # Reactions and growth need a liquid; a frozen sample does not change.
        if vessel.phase != FROZEN:
            develop(context, vessel)
    context.how = (
        "Thawing by volume, temperature and time; else only what the experiment declares for these conditions."
    )


def culture(context: Job) -> None:
    temperature = context.number("temperature")
    for vessel in context.changeable():
        if vessel.phase not in (LIQUID, SUSPENSION, ADHERENT, SEDIMENTED):
            vessel.need_liquid("cultured")
        vessel.place(
            "cell_culture_conditions",
            temperature=_celsius(temperature),
            carbon_dioxide=quantities.show(context.number("carbon_dioxide"), "ratio"),
            humidity=quantities.show(context.number("humidity"), "ratio"),
        )
        develop(context, vessel)
    context.how = "Growth by the declared doubling time, and what else the experiment declares for these conditions."


def wait(context: Job) -> None:
    for vessel in context.changeable():
        _hold(context, vessel, vessel.temperature(), context.number("duration"))
        if vessel.phase != FROZEN:
            develop(context, vessel)
    context.how = "Time passes at the temperature of the place where each material stands."


def storage(context: Job) -> None:
    condition = context.values["condition"]
    for vessel in context.changeable():
        vessel.place(condition)
        if condition in _COLD:
            vessel.freeze(vessel.temperature())
        else:
            _hold(context, vessel, vessel.temperature(), context.number("duration"))
    context.how = "Watery liquids freeze in the cold and thaw by volume, temperature and time."


def thermocycle(context: Job) -> None:
    for vessel in context.changeable():
        vessel.need_liquid("cycled")
        need_format(vessel, _BLOCK_FORMATS, "a thermocycler takes PCR tubes and PCR plates")
        if vessel.volume() > _BLOCK_HOLDS:
            raise RefusalError(
                f"too much volume: {show(vessel.volume())} in {vessel.name}, the block takes {show(_BLOCK_HOLDS)}"
            )
        develop(context, vessel)
        context.say(f"{context.run_of(vessel)}: run completed, data file recorded")
        # Tubes stay in the block, and this is the nearest condition that a material can be in.
        vessel.place("4C" if context.number("hold_temperature") <= 10 else "room_temp")
    context.how = "A product is made only where everything the declared reaction needs is in the tube."


def autoclave(context: Job) -> None:
    kills = context.number("temperature") >= _KILLING and context.number("duration") >= _KILLING_TIME
    for vessel in context.changeable():
        need_apart(vessel)
        _need_safe_to_steam(context, vessel)
        develop(context, vessel)
        if kills:
            _kill_all(vessel)
            vessel.properties["sterilised"] = f"{context.set_to('temperature')} for {context.set_to('duration')}"
        vessel.place("room_temp")
    context.how = "Volumes stay under loose caps; from 15 min at 121 °C on, cells are dead cells."


def need_apart(vessel: Vessel) -> None:
    """Raise RefusalError for a whole plate: the contents of its wells are only known once they are separated."""
    if vessel.phase == PLATE:
        raise RefusalError(f"wrong phase: {vessel.name} is a whole plate; separate its wells first")


def need_format(vessel: Vessel, formats: tuple[str, ...], rule: str) -> None:
    """Raise RefusalError if the container does not fit the instrument."""
    container = str(vessel.properties.get("container", ""))
    if not any(word.lower() in container.lower() for word in formats):
        raise RefusalError(f"wrong format: {vessel.name} is in {container or 'an unknown container'}; {rule}")


def _hold(context: Job, vessel: Vessel, temperature: Decimal, seconds: Decimal) -> None:
    before = vessel.phase
    vessel.thaw(temperature, seconds)
    vessel.freeze(temperature)
    if before == FROZEN:
        context.say(
            f"{vessel.name} after warming", "visual", "still ice in it" if vessel.phase == FROZEN else "no ice left"
        )


def _need_safe_to_steam(context: Job, vessel: Vessel) -> None:
    if vessel.phase == FROZEN:
        vessel.need_liquid("autoclaved")
    text = f"{vessel.name} {' '.join(vessel.contents.components)}".lower()
    if solvent := next((word for word in _FLAMMABLE if word in text), None):
        raise RefusalError(f"flammable: {vessel.name} holds {solvent}; its vapour explodes in an autoclave")
    if "polystyrene" in str(vessel.properties.get("container", "")).lower():
        raise RefusalError(f"wrong container: {vessel.name} is in polystyrene, which melts below 121 °C")
    if vessel.phase in (EMPTY, *SOLIDS) or not vessel.contents.volume:
        return
    if not context.values["caps_loosened"]:
        raise RefusalError(f"sealed: {vessel.name} holds {show(vessel.volume())} and would burst; loosen its cap")
    need_space(vessel, _BOILS_OVER, "boils over")


def need_space(vessel: Vessel, share: Decimal, otherwise: str) -> None:
    """Raise RefusalError if more than this share of the container is full."""
    limit = vessel.capacity() * share
    if vessel.volume() > limit:
        raise RefusalError(
            f"too full: {show(vessel.volume())} in {vessel.name}, above {show(limit)} of {show(vessel.capacity())} it {otherwise}"
        )


def _kill_all(vessel: Vessel) -> None:
    for name in cells_in(vessel.contents):
        part, dead = vessel.contents.components[name], f"dead {name}"
        # Dead cells are counted, so only a number of cells can be added to them.
        if name.startswith("dead ") or part.dimension != "count":
            continue
        before = vessel.contents.amount(dead)
        total = None if before is None or part.amount is None else before + part.amount
        vessel.contents = vessel.contents.changed(name, part._replace(amount=ZERO))
        vessel.contents = vessel.contents.changed(dead, part._replace(amount=total))


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
    "autoclave": autoclave,
}
