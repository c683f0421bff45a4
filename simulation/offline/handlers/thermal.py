"""Temperature, time and shaking: thawing, freezing, drying, and what the experiment declares to happen during that time.

Drying removes solvent. Dissolved substances stay completely. The solvent that leaves becomes a material of its own.
"""

from dataclasses import replace
from decimal import Decimal

from simulation.lab import quantities
from simulation.offline.action_context import ActionContext, handles
from simulation.offline.declarations import apply_declared_changes
from simulation.offline.handlers.dryness import COLD, HOT, drive_off_moisture, is_cooled, set_cold
from simulation.offline.handlers.evaporation import evaporate
from simulation.offline.ledger import CELLS, ZERO, Component, Contents, round_to_grain
from simulation.offline.vessels import Phase, RefusalError, Vessel, format_volume

_FREEZING_CONDITIONS = ("-20C", "-80C", "-196C", "dry_ice")
_LARGEST_REACTION = Decimal(100)  # µL in a thermocycler tube
_BLOCK_FORMATS = ("PCR", "plate")
# °C and s; no cell survives this temperature for this time.
_KILLING_TEMPERATURE, _KILLING_TIME = Decimal(121), Decimal(15 * 60)
# Shares of the capacity that may be full: in an autoclave, and in the cold, because ice takes more room than water.
_MOST_AUTOCLAVED, _MOST_FROZEN = Decimal("0.75"), Decimal("0.9")
_FLAMMABLE = ("ethanol", "methanol", "acetonitrile", "acetone", "propanol", "hexane", "toluene", "diethyl ether")
_VOLATILE = (*_FLAMMABLE, "acetic acid", "formic acid", "ammonia")  # leave with the solvent
_CRACKING_CONTAINERS = ("glass", "polystyrene")  # containers that crack in the bath
_CRYOPROTECTANTS = ("DMSO", "dimethyl sulfoxide", "glycerol", "freezing medium", "cryoprotectant")

# µL of solvent that leave one vessel per hour: in an oven above each temperature in °C, in each evaporator, and from ice.
_OVEN_RATES = ((Decimal(100), 10_000), (Decimal(60), 2_000), (ZERO, 200))
_EVAPORATOR_RATES = {"centrifugal vacuum concentrator": 1000, "rotary evaporator": 300_000, "nitrogen blow-down": 5000}
_SUBLIMATION_RATE = 500
_PLASTIC_LIMIT = Decimal(120)  # °C, the most that plastic withstands
# Words in the description of a container. Glass is checked first: a "glass tube" has a plastic word too.
_GLASS = ("glass", "crucible", "porcelain", "quartz", "ceramic", "beaker", "volumetric", "weighing")
_PLASTIC = ("tube", "plate", "plastic", "poly", "flask", "cryovial", "dish")
_HUMID = Decimal(95)  # % relative humidity over a tray of water, as in a carbon dioxide incubator
_MOISTURE = "water"  # the component that drying removes from a solid


@handles("mix", "A pellet is stirred up; contents stay.")
def mix_samples(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("mixed")
        vessel.phase = Phase.SUSPENSION if vessel.phase == Phase.SEDIMENTED else vessel.phase
        apply_declared_changes(context, vessel)


@handles("degas", "Dissolved gas is gone; volumes and amounts stay.")
def degas_samples(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("degassed")
        vessel.properties["dissolved gas"] = "removed"


@handles(
    "incubate", "Thawing by volume, temperature and time; else only what the experiment declares for these conditions."
)
def incubate_samples(context: ActionContext) -> None:
    temperature = context.get_number("temperature")
    for vessel in context.get_changeable_samples():
        require_separated_wells(vessel)
        shown = quantities.format_quantity(temperature, "temperature")
        vessel.move_to_condition("incubating_conditions", temperature=shown)
        _hold_temperature(context, vessel, temperature)
        # Reactions and growth need a liquid; a frozen sample does not change.
        if vessel.phase != Phase.FROZEN:
            apply_declared_changes(context, vessel)
            context.expose(vessel, context.get_number("duration"), temperature)
            humidity = _HUMID if context.values["atmosphere"] == "humid air" else None
            evaporate(vessel, context.get_number("duration"), temperature, humidity, context.values["cover"])


@handles("culture", "Growth by the declared doubling time, and what else the experiment declares for these conditions.")
def culture_cells(context: ActionContext) -> None:
    settings = {"temperature": "temperature", "carbon_dioxide": "ratio", "humidity": "ratio"}
    for vessel in context.get_changeable_samples():
        if vessel.phase not in (*Phase.LIQUIDS, Phase.ADHERENT):
            vessel.require_liquid("cultured")
        numbers = {name: (context.get_number(name), unit) for name, unit in settings.items()}
        surroundings = {name: quantities.format_quantity(*number) for name, number in numbers.items()}
        vessel.move_to_condition("cell_culture_conditions", **surroundings)
        apply_declared_changes(context, vessel)
        duration, temperature = context.get_number("duration"), context.get_number("temperature")
        context.expose(vessel, duration, temperature)
        evaporate(vessel, duration, temperature, context.get_number("humidity"))


@handles("wait", "Time passes at the temperature of the place where each material stands.")
def wait_in_place(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        _hold_temperature(context, vessel, vessel.get_temperature())
        if vessel.phase != Phase.FROZEN:
            apply_declared_changes(context, vessel)
            context.expose(vessel, context.get_number("duration"), vessel.get_temperature())
            evaporate(vessel, context.get_number("duration"), vessel.get_temperature())


@handles("storage", "Watery liquids freeze in the cold and thaw by volume, temperature and time.")
def store_samples(context: ActionContext) -> None:
    condition = context.values["condition"]
    for vessel in context.get_changeable_samples():
        vessel.move_to_condition(condition)
        if condition in _FREEZING_CONDITIONS:
            vessel.freeze_if_cold(vessel.get_temperature())
        else:
            _hold_temperature(context, vessel, vessel.get_temperature())


@handles("thermocycle", "A product is made only where everything the declared reaction needs is in the tube.")
def run_thermocycler(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("cycled")
        require_container_format(vessel, _BLOCK_FORMATS, "a thermocycler takes PCR tubes and PCR plates")
        if vessel.get_volume() > _LARGEST_REACTION:
            held, most = format_volume(vessel.get_volume()), format_volume(_LARGEST_REACTION)
            raise RefusalError(f"too much volume: {held} in {vessel.name}, the block takes {most}")
        apply_declared_changes(context, vessel)
        # The tubes stay in the block. Of all conditions that a material can have, this is the nearest.
        vessel.move_to_condition("4C" if context.get_number("hold_temperature") <= 10 else "room_temp")


@handles("autoclave", "Volumes stay under loose caps; cells, viruses and proteins do not survive the heat.")
def autoclave_samples(context: ActionContext) -> None:
    hot_enough = context.get_number("temperature") >= _KILLING_TEMPERATURE
    sterile = hot_enough and context.get_number("duration") >= _KILLING_TIME
    for vessel in context.get_changeable_samples():
        require_separated_wells(vessel)
        _require_safe_to_autoclave(context, vessel)
        apply_declared_changes(context, vessel)
        context.expose(vessel, context.get_number("duration"), context.get_number("temperature"))
        if sterile:
            vessel.properties["sterilised"] = context.format_written_settings("temperature", "duration")
        vessel.move_to_condition("room_temp")


@handles("flash_freeze", "Frozen at once; amounts stay.")
def flash_freeze(context: ActionContext) -> None:
    for vessel in context.get_changeable_samples():
        if any(word in vessel.container.lower() for word in _CRACKING_CONTAINERS):
            raise RefusalError(f"wrong container: {vessel.name} is in {vessel.container}, which cracks in the bath")
        if vessel.phase in (Phase.EMPTY, Phase.CONSUMABLE, Phase.GEL):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; there is nothing to freeze")
        _freeze_down(context, vessel)


@handles("freeze_cells", "Frozen; without a cryoprotectant, ice kills almost all cells.")
def freeze_cells(context: ActionContext) -> None:
    """Freeze cells slowly, with or without a cryoprotectant."""
    protectant = context.find_selected_vessel("cryoprotectant")
    if protectant and context.values["cryoprotectant_volume"] is None:
        raise RefusalError(f"critically unclear: how much of {protectant.name} is added to each")
    for vessel in context.get_changeable_samples(protectant):
        vessel.require_liquid("frozen in suspension")
        if not vessel.contents.list_components_of_kind(CELLS):
            raise RefusalError(f"no cells: there is nothing to freeze slowly in {vessel.name}")
        if protectant:
            vessel.pour_in(protectant.draw_volume(context.get_number("cryoprotectant_volume")), protectant)
        text = f"{vessel.name} {vessel.properties.get('medium', '')} {' '.join(vessel.contents.components)}".lower()
        present = next((word for word in _CRYOPROTECTANTS if word.lower() in text), "none")
        vessel.properties["cryoprotectant"] = protectant.name if protectant else present
        # Declared survival depends on the cryoprotectant, so it is applied after the cryoprotectant is added.
        apply_declared_changes(context, vessel)
        _freeze_down(context, vessel)


@handles("dry_in_oven")
def dry_in_oven(context: ActionContext) -> None:
    temperature = context.get_number("temperature")
    hourly = next(rate for above, rate in _OVEN_RATES if temperature >= above)
    driven_off = []
    for vessel in context.get_changeable_samples():
        if vessel.phase not in (Phase.EMPTY, *Phase.SOLIDS):
            vessel.require_liquid("dried in an oven")
        container = vessel.container.lower()
        plastic = any(word in container for word in _PLASTIC) and not any(word in container for word in _GLASS)
        if plastic and temperature > _PLASTIC_LIMIT:
            raise RefusalError(
                f"too hot: {temperature} °C for {vessel.name} in {container}, plastic stands {_PLASTIC_LIMIT} °C at most"
            )
        context.expose(vessel, context.get_number("duration"), temperature)
        limit, treatment = _compute_removable_volume(context, "duration", hourly), ("temperature", "duration")
        driven_off.append(_dry(context, vessel, limit, "solid", context.format_written_settings(*treatment)))
        drive_off_moisture(vessel, temperature, context.get_number("duration"))
        is_cold = context.values["cool_in_desiccator"] and is_cooled(context.get_number("cooling_time"))
        vessel.properties["condition"] = COLD if is_cold else HOT
    _store_driven_off(context, "Vapour driven off by", driven_off)
    most = format_volume(Decimal(hourly))
    context.reasoning = f"Up to {most} of solvent leave each vessel in an hour at {temperature} °C; all else stays."


@handles("evaporate", method=_EVAPORATOR_RATES)
def evaporate_solvent(context: ActionContext) -> None:
    """Remove solvent until the target volume, dryness or the end of the time is reached."""
    hourly = _EVAPORATOR_RATES[context.values["method"]]
    stop_at = context.values["target_volume"] or ZERO
    driven_off = []
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("evaporated")
        if vessel.get_volume() <= stop_at:
            held, target = format_volume(vessel.get_volume()), format_volume(stop_at)
            raise RefusalError(f"nothing to take off: {vessel.name} holds {held}, no more than {target}")
        context.expose(vessel, context.get_number("duration"), context.get_number("temperature"))
        limit = _compute_removable_volume(context, "duration", hourly)
        treatment = f"evaporated at {context.get_written_setting('temperature')}"
        driven_off.append(_dry(context, vessel, limit, "solid", treatment, stop_at))
    _store_driven_off(context, "Condensate from", driven_off)
    most = format_volume(Decimal(hourly))
    context.reasoning = f"Up to {most} of solvent leave each vessel in an hour; all that was in it stays."


@handles("lyophilize")
def freeze_dry(context: ActionContext) -> None:
    """Sublime the ice. Raises RefusalError if there is too much of it for the given time."""
    limit = _compute_removable_volume(context, "primary_drying_time", _SUBLIMATION_RATE)
    hourly, driven_off = format_volume(Decimal(_SUBLIMATION_RATE)), []
    for vessel in context.get_changeable_samples():
        if vessel.phase != Phase.FROZEN:
            vessel.require_liquid("freeze-dried")
        if vessel.get_volume() > limit:
            hours = vessel.get_volume() / _SUBLIMATION_RATE
            held, given = format_volume(vessel.get_volume()), context.get_written_setting("primary_drying_time")
            needs = f"{held} in {vessel.name} need {hours.normalize():f} h of primary drying"
            raise RefusalError(f"too short: {needs} ({hourly} an hour), {given} given")
        vessel.move_to_condition("room_temp")
        driven_off.append(_dry(context, vessel, limit, "powder", "freeze-dried"))
        vessel.drop_properties("moisture")
    _store_driven_off(context, "Ice in the trap of", driven_off)
    context.reasoning = f"Up to {hourly} of ice leave each vessel in an hour; all that was in it stays."


@handles("desiccate", "Moisture left the solid if it held any; all else stays.")
def dry_over_desiccant(context: ActionContext) -> None:
    treatment = f"over {context.values['desiccant']} for {context.get_written_setting('duration')}"
    driven_off = []
    for vessel in context.get_changeable_samples():
        if vessel.phase not in Phase.SOLIDS or vessel.contents.volume:
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}; a desiccator dries solids")
        driven_off.append(_dry(context, vessel, ZERO, vessel.phase, treatment))
        drive_off_moisture(vessel, context.get_number("temperature"), context.get_number("duration"))
        if is_cooled(context.get_number("duration")):
            set_cold(vessel)
    _store_driven_off(context, "Moisture taken up by", driven_off)


def require_separated_wells(vessel: Vessel) -> None:
    """Raise RefusalError for a whole plate, because its contents are known only after its wells are separated."""
    if vessel.phase == Phase.PLATE:
        raise RefusalError(f"wrong phase: {vessel.name} is a whole plate; separate its wells first")


def require_container_format(vessel: Vessel, formats: tuple[str, ...], rule: str) -> None:
    """Raise RefusalError if the container does not fit the instrument."""
    if not any(word.lower() in vessel.container.lower() for word in formats):
        raise RefusalError(f"wrong format: {vessel.name} is in {vessel.container or 'an unknown container'}; {rule}")


def _hold_temperature(context: ActionContext, vessel: Vessel, temperature: Decimal) -> None:
    """Thaw or freeze the vessel during the action."""
    was_frozen = vessel.phase == Phase.FROZEN
    vessel.thaw_if_warm(temperature, context.get_number("duration"))
    vessel.freeze_if_cold(temperature)
    if was_frozen:
        appearance = "still ice in it" if vessel.phase == Phase.FROZEN else "no ice left"
        context.record_observation(f"{vessel.name} after warming", "visual", appearance)


def _require_safe_to_autoclave(context: ActionContext, vessel: Vessel) -> None:
    if vessel.phase == Phase.FROZEN:
        vessel.require_liquid("autoclaved")
    text = f"{vessel.name} {' '.join(vessel.contents.components)}".lower()
    if solvent := next((word for word in _FLAMMABLE if word in text), None):
        raise RefusalError(f"flammable: {vessel.name} holds {solvent}; its vapour explodes in an autoclave")
    if "polystyrene" in vessel.container.lower():
        raise RefusalError(f"wrong container: {vessel.name} is in polystyrene, which melts below 121 °C")
    if vessel.phase in (Phase.EMPTY, *Phase.SOLIDS) or not vessel.contents.volume:
        return
    if not context.values["caps_loosened"]:
        held = format_volume(vessel.get_volume())
        raise RefusalError(f"sealed: {vessel.name} holds {held} and would burst; loosen its cap")
    _require_headspace(vessel, _MOST_AUTOCLAVED, "boils over")


def _require_headspace(vessel: Vessel, share: Decimal, otherwise: str) -> None:
    """Raise RefusalError if more than this share of the container is full."""
    capacity, volume = vessel.get_capacity(), vessel.get_volume()
    if volume > capacity * share:
        most, full = format_volume(capacity * share), format_volume(capacity)
        raise RefusalError(f"too full: {format_volume(volume)} in {vessel.name}, above {most} of {full} it {otherwise}")


def _freeze_down(context: ActionContext, vessel: Vessel) -> None:
    """Move the vessel to its cold storage and freeze the contents. Raises RefusalError if the vessel would burst."""
    if vessel.phase in (*Phase.LIQUIDS, Phase.ADHERENT):
        _require_headspace(vessel, _MOST_FROZEN, "bursts its container when it freezes")
    vessel.move_to_condition(context.values["store_at"])
    vessel.freeze_if_cold(vessel.get_temperature())


def _compute_removable_volume(context: ActionContext, parameter: str, hourly: int) -> Decimal:
    return context.get_number(parameter) * hourly / 3600


def _dry(
    context: ActionContext, vessel: Vessel, limit: Decimal, phase: str, treatment: str, stop_at: Decimal = ZERO
) -> tuple[Contents, Vessel]:
    """Remove the vapour: solvent, an equal share of each liquid component and, at dryness, moisture.

    Return it with the vessel, whose phase and properties become those of a dry sample if it is dry, as is recorded.
    """
    available = vessel.get_volume()
    removed = round_to_grain(min(available - stop_at, limit))
    share, dry = removed / available if available else ZERO, removed == available
    leaving: dict[str, Component] = {}
    for name, part in vessel.contents.components.items():
        amount = _compute_loss(name, part, share, dry)
        if amount is None or amount > 0:
            leaving[name] = part._replace(amount=amount)
    for name, part in leaving.items():
        # At dryness nothing is left, which is certain even where the amount was unknown.
        total = vessel.contents.components[name].amount
        remaining = ZERO if dry else None if total is None or part.amount is None else total - part.amount
        vessel.contents = vessel.contents.with_component(name, part._replace(amount=remaining))
    mass = _compute_mass_left(vessel.contents.mass, removed, leaving)
    vessel.contents = replace(vessel.contents, volume=available - removed, mass=mass)
    vessel.drop_liquid_properties()
    if vessel.contents.volume:
        appearance = f"still wet, {format_volume(vessel.get_volume())} of liquid in it"
    else:
        vessel.drop_properties("medium")
        vessel.phase = vessel.phase if vessel.phase in (Phase.EMPTY, *Phase.SOLIDS) else phase
        vessel.properties["dried"] = treatment
        appearance = "dry"
    context.record_observation(f"{vessel.name} afterwards", "visual", appearance)
    return Contents(leaving, {}, removed, None), vessel


def _compute_loss(name: str, part: Component, share: Decimal, dry: bool) -> Decimal | None:
    """Return the amount of a component that leaves, or None if it is unknown."""
    if part.dimension == "volume" or any(word in name.lower() for word in _VOLATILE):
        return part.amount if dry else None if part.amount is None else round_to_grain(part.amount * share)
    return part.amount if name == _MOISTURE and dry else ZERO


def _compute_mass_left(mass: Decimal | None, removed: Decimal, leaving: dict[str, Component]) -> Decimal | None:
    """Return a solid's mass without its moisture, or None if it is unknown, as after the loss of any liquid."""
    if mass is None or removed:
        return None
    moisture = leaving.get(_MOISTURE)
    if moisture is None:
        return mass
    return mass - moisture.amount if moisture.dimension == "mass" and moisture.amount is not None else None


def _store_driven_off(context: ActionContext, label: str, parts: list[tuple[Contents, Vessel]]) -> None:
    """Store the solvent that left as a used-up material, so that amounts are conserved."""
    if non_empty := [(contents, vessel) for contents, vessel in parts if contents.volume or contents.components]:
        context.store_waste(f"{label} {context.action_type.name}", non_empty)
