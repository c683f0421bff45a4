"""Temperature, time and shaking: thawing, freezing, and what the experiment declares to happen during that time."""

from collections.abc import Callable
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext
from simulation.offline.chemistry import apply_declared_changes
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
    format_volume,
    list_cell_components,
)

_FREEZING_CONDITIONS = ("-20C", "-80C", "-196C", "dry_ice")
_LARGEST_REACTION = Decimal(100)  # µL in a thermocycler tube
_BLOCK_FORMATS = ("PCR", "plate")
# °C and s; no cell survives this temperature for this time.
_KILLING_TEMPERATURE, _KILLING_TIME = Decimal(121), Decimal(15 * 60)
_MOST_FILLED = Decimal("0.75")  # share of the capacity that may be full in an autoclave
_FLAMMABLE = ("ethanol", "methanol", "acetonitrile", "acetone", "propanol", "hexane", "toluene", "diethyl ether")


def mix_samples(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("mixed")
        vessel.phase = SUSPENSION if vessel.phase == SEDIMENTED else vessel.phase
        apply_declared_changes(context, vessel)
    context.reasoning = "A pellet is stirred up; contents stay."


def degas_samples(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("degassed")
        vessel.properties["dissolved gas"] = "removed"
    context.reasoning = "Dissolved gas is gone; volumes and amounts stay."


def incubate_samples(context: ActionContext) -> None:
    temperature, seconds = context.get_number("temperature"), context.get_number("duration")
    for vessel in context.get_changeable_samples():
        require_separated_wells(vessel)
        vessel.move_to_condition("incubating_conditions", temperature=_format_temperature(temperature))
        _hold_temperature(context, vessel, temperature, seconds)
        # Reactions and growth need a liquid; a frozen sample does not change.
        if vessel.phase != FROZEN:
            apply_declared_changes(context, vessel)
    context.reasoning = (
        "Thawing by volume, temperature and time; else only what the experiment declares for these conditions."
    )


def culture_cells(context: ActionContext) -> None:
    temperature = context.get_number("temperature")
    for vessel in context.get_changeable_samples():
        if vessel.phase not in (LIQUID, SUSPENSION, ADHERENT, SEDIMENTED):
            vessel.require_liquid("cultured")
        vessel.move_to_condition(
            "cell_culture_conditions",
            temperature=_format_temperature(temperature),
            carbon_dioxide=quantities.format_quantity(context.get_number("carbon_dioxide"), "ratio"),
            humidity=quantities.format_quantity(context.get_number("humidity"), "ratio"),
        )
        apply_declared_changes(context, vessel)
    context.reasoning = (
        "Growth by the declared doubling time, and what else the experiment declares for these conditions."
    )


def wait_in_place(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        _hold_temperature(context, vessel, vessel.get_temperature(), context.get_number("duration"))
        if vessel.phase != FROZEN:
            apply_declared_changes(context, vessel)
    context.reasoning = "Time passes at the temperature of the place where each material stands."


def store_samples(context: ActionContext) -> None:
    condition = context.values["condition"]
    for vessel in context.get_changeable_samples():
        vessel.move_to_condition(condition)
        if condition in _FREEZING_CONDITIONS:
            vessel.freeze_if_cold(vessel.get_temperature())
        else:
            _hold_temperature(context, vessel, vessel.get_temperature(), context.get_number("duration"))
    context.reasoning = "Watery liquids freeze in the cold and thaw by volume, temperature and time."


def run_thermocycler(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("cycled")
        require_container_format(vessel, _BLOCK_FORMATS, "a thermocycler takes PCR tubes and PCR plates")
        if vessel.get_volume() > _LARGEST_REACTION:
            raise RefusalError(
                f"too much volume: {format_volume(vessel.get_volume())} in {vessel.name}, the block takes {format_volume(_LARGEST_REACTION)}"
            )
        apply_declared_changes(context, vessel)
        context.record_observation(f"{context.describe_run(vessel)}: run completed, data file recorded")
        # The tubes stay in the block. Of all conditions that a material can have, this is the nearest.
        vessel.move_to_condition("4C" if context.get_number("hold_temperature") <= 10 else "room_temp")
    context.reasoning = "A product is made only where everything the declared reaction needs is in the tube."


def autoclave_samples(context: ActionContext) -> None:
    kills = (
        context.get_number("temperature") >= _KILLING_TEMPERATURE and context.get_number("duration") >= _KILLING_TIME
    )
    for vessel in context.get_changeable_samples():
        require_separated_wells(vessel)
        _require_safe_to_autoclave(context, vessel)
        apply_declared_changes(context, vessel)
        if kills:
            _kill_cells(vessel)
            vessel.properties["sterilised"] = (
                f"{context.get_written_setting('temperature')} for {context.get_written_setting('duration')}"
            )
        vessel.move_to_condition("room_temp")
    context.reasoning = "Volumes stay under loose caps; from 15 min at 121 °C on, cells are dead cells."


def require_separated_wells(vessel: Vessel) -> None:
    """Raise RefusalError for a whole plate, because its contents are known only after its wells are separated."""
    if vessel.phase == PLATE:
        raise RefusalError(f"wrong phase: {vessel.name} is a whole plate; separate its wells first")


def require_container_format(vessel: Vessel, formats: tuple[str, ...], rule: str) -> None:
    """Raise RefusalError if the container does not fit the instrument."""
    container = str(vessel.properties.get("container", ""))
    if not any(word.lower() in container.lower() for word in formats):
        raise RefusalError(f"wrong format: {vessel.name} is in {container or 'an unknown container'}; {rule}")


def _hold_temperature(context: ActionContext, vessel: Vessel, temperature: Decimal, seconds: Decimal) -> None:
    before = vessel.phase
    vessel.thaw_if_warm(temperature, seconds)
    vessel.freeze_if_cold(temperature)
    if before == FROZEN:
        context.record_observation(
            f"{vessel.name} after warming", "visual", "still ice in it" if vessel.phase == FROZEN else "no ice left"
        )


def _require_safe_to_autoclave(context: ActionContext, vessel: Vessel) -> None:
    if vessel.phase == FROZEN:
        vessel.require_liquid("autoclaved")
    text = f"{vessel.name} {' '.join(vessel.contents.components)}".lower()
    if solvent := next((word for word in _FLAMMABLE if word in text), None):
        raise RefusalError(f"flammable: {vessel.name} holds {solvent}; its vapour explodes in an autoclave")
    if "polystyrene" in str(vessel.properties.get("container", "")).lower():
        raise RefusalError(f"wrong container: {vessel.name} is in polystyrene, which melts below 121 °C")
    if vessel.phase in (EMPTY, *SOLIDS) or not vessel.contents.volume:
        return
    if not context.values["caps_loosened"]:
        raise RefusalError(
            f"sealed: {vessel.name} holds {format_volume(vessel.get_volume())} and would burst; loosen its cap"
        )
    require_headspace(vessel, _MOST_FILLED, "boils over")


def require_headspace(vessel: Vessel, share: Decimal, otherwise: str) -> None:
    """Raise RefusalError if more than this share of the container is full."""
    limit = vessel.get_capacity() * share
    if vessel.get_volume() > limit:
        raise RefusalError(
            f"too full: {format_volume(vessel.get_volume())} in {vessel.name}, above {format_volume(limit)} of {format_volume(vessel.get_capacity())} it {otherwise}"
        )


def _kill_cells(vessel: Vessel) -> None:
    for name in list_cell_components(vessel.contents):
        part, dead = vessel.contents.components[name], f"dead {name}"
        # Dead cells are given as a number, so only components given as a number can be added to them.
        if name.startswith("dead ") or part.dimension != "count":
            continue
        before = vessel.contents.get_amount(dead)
        total = None if before is None or part.amount is None else before + part.amount
        vessel.contents = vessel.contents.with_component(name, part._replace(amount=ZERO))
        vessel.contents = vessel.contents.with_component(dead, part._replace(amount=total))


def _format_temperature(temperature: Decimal) -> str:
    return quantities.format_quantity(temperature, "temperature")


HANDLERS: dict[str, Callable[[ActionContext], None]] = {
    "mix": mix_samples,
    "degas": degas_samples,
    "incubate": incubate_samples,
    "culture": culture_cells,
    "thermocycle": run_thermocycler,
    "wait": wait_in_place,
    "storage": store_samples,
    "autoclave": autoclave_samples,
}
