"""Looking at samples and counting what is in them: microscopes, plate readers, cameras, cytometers and counters.

Signals, counts and visible texts are the declared ones or the sample's state. No picture is drawn.
"""

import random
from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

from simulation.lab import quantities
from simulation.offline import bleaching
from simulation.offline.action_context import ActionContext, handles
from simulation.offline.appearance import describe_appearance
from simulation.offline.declarations import apply_declared_changes, react_on_contact
from simulation.offline.handlers import loading
from simulation.offline.handlers.instruments import require_wavelengths
from simulation.offline.handlers.thermal import require_container_format, require_separated_wells
from simulation.offline.ledger import ATTACHED, CELLS, ONE, PARTICLES, ZERO, Contents, sum_known
from simulation.offline.responses import record_responses
from simulation.offline.run_conditions import MOST_EVENTS_PER_SECOND, add_carryover, is_too_dense
from simulation.offline.vessels import Phase, RefusalError, Vessel, format_volume

# Words in the description of a container that fits the instrument.
_STAGE_FORMATS = ("plate", "dish", "culture flask", "slide", "chamber", "coverslip", "well")
_WELL_FORMATS = ("plate", "well")
_COLONY_FORMATS = ("plate", "dish")
_WET = (*Phase.LIQUIDS, Phase.ADHERENT)
_SMALLEST_WELL_VOLUME = Decimal(20)  # µL that cover the bottom of a well
_TOO_MANY = "too many to count"
_STATE_WORDS = ("look like", "appearance", "phase")  # words of a question about the state of a sample
_COMPOUNDS = ("compound", "second_compound")  # in the order in which they are added
_TRANSMITTED = ("bright field", "phase contrast")  # modes that show the shape of cells
_NOISE = "0.05"  # relative standard deviation of a count if the experiment declares none
_COUNTED_VOLUME = Decimal(10)  # µL that a cell counter takes for each reading
_FIELD_VOLUME = Decimal("0.5")  # µL in one image of an automated counter's chamber
_DEAD = ("dead ", "attached dead ")  # how the killed form of what is counted is called
# Variance of a count; below it a normal approximation of the binomial is poor, so events are drawn one by one.
_FEW = 25


@handles("microscope", "What was added is recorded; signals follow the declared curves, and no picture is drawn.")
def image_cells(context: ActionContext) -> None:
    """Image cells after compounds are added and during stimulation. The added compounds stay in the sample."""
    if context.values["mode"] in ("fluorescence", "confocal") and context.values["channels"] is None:
        loading.require_parameter(context, "excitation_wavelength", "name channels, or both wavelengths")
        loading.require_parameter(context, "emission_wavelength", "name channels, or both wavelengths")
    _check_times(context)
    for vessel in context.get_samples(*map(context.find_selected_vessel, _COMPOUNDS)):
        require_container_format(vessel, _STAGE_FORMATS, "the stage takes plates, dishes, culture flasks and slides")
        require_separated_wells(vessel)
        loading.require_phase(vessel, (*_WET, Phase.GEL, "tissue", "solid"), "imaged")
        if not vessel.contents.list_components_of_kind(CELLS, ATTACHED) and vessel.phase != "tissue":
            raise RefusalError(f"no cells: there is nothing to image in {vessel.name}")
        _add_compounds(context, vessel)
        if not loading.record_declared(context, vessel, vessel.contents):
            if vessel.phase == Phase.ADHERENT and context.values["mode"] in _TRANSMITTED:
                description = f"{context.describe_run(vessel)}: cells in the fields"
                context.record_observation(description, "visual", describe_appearance(vessel, context.truth))
            else:
                context.record_run(vessel)
        bleaching.add_light(context, vessel)


@handles("plate_reader", "What was added is recorded; signals follow the declared curves of the true content.")
def read_plate(context: ActionContext) -> None:
    require_wavelengths(context)
    _check_times(context)
    for vessel in context.get_samples(*map(context.find_selected_vessel, _COMPOUNDS)):
        require_container_format(vessel, _WELL_FORMATS, "the reader takes microplate wells")
        require_separated_wells(vessel)
        loading.require_phase(vessel, _WET, "read in a plate")
        loading.require_volume(vessel, _SMALLEST_WELL_VOLUME)
        _add_compounds(context, vessel)
        loading.record_readings(context, vessel, vessel.contents)


@handles("image_colonies", "Images are recorded; the simulation draws none.")
def image_colonies(context: ActionContext) -> None:
    for vessel in _get_plates(context):
        loading.record_readings(context, vessel, vessel.contents)


@handles("count_colonies", "The recorded number of colonies; none where none is known.")
def count_colonies(context: ActionContext) -> None:
    """Record the true number of colonies if it is countable, and the number per volume plated if that volume is given."""
    for vessel in _get_plates(context):
        parts = vessel.contents.components.items()
        colonies = {name: part.amount for name, part in parts if "colon" in name and part.dimension == "count"}
        known = {name: amount for name, amount in colonies.items() if amount is not None}
        for name, amount in known.items():
            _record_colonies(context, vessel, name, round(amount))
        if known:
            loading.record_declared(context, vessel, vessel.contents)
        else:
            loading.record_readings(context, vessel, vessel.contents)


@handles("inspect", "What the experiment declares to be visible, or the state of the sample.")
def inspect_samples(context: ActionContext) -> None:
    """Record every declared text that the question asks about. If there is none, record the state if asked for it."""
    question = context.values["question"].lower()

    def is_asked_about(about: Sequence[str]) -> bool:
        return any(word.lower() in question for word in about)

    relevant = [lookup for lookup in context.list_declared("lookups") if is_asked_about(lookup.get("about", ()))]
    for vessel in context.get_samples():
        answers = [loading.find_lookup_text(vessel.contents, lookup) for lookup in relevant]
        # The state is used only if no declared text matches, because a declared text is more specific.
        if not relevant and is_asked_about(_STATE_WORDS):
            is_attached = vessel.phase == Phase.ADHERENT
            looks = (
                describe_appearance(vessel, context.truth) if is_attached else vessel.properties.get("appearance", "")
            )
            answers = [vessel.phase, str(looks), vessel.container]
        answer = (", " if not relevant else "; ").join(answer for answer in answers if answer)
        suffix = "" if answer else ": nothing to be seen that answers the question"
        context.record_observation(f"Visual inspection of {vessel.name}{suffix}", "visual", answer)


@handles("photograph", "A picture is recorded; the simulation draws none.")
def photograph_samples(context: ActionContext) -> None:
    view = "the side" if context.values["view"] == "side" else "above"
    for vessel in context.get_samples():
        if not loading.record_declared(context, vessel, vessel.contents):
            context.record_observation(f"Photograph of {vessel.name} from {view}: recorded", "visual")


@handles("cytometry", "Positive events are a binomial draw from the true share of positive cells.")
def run_cytometry(context: ActionContext) -> None:
    previous = None
    for vessel in context.get_samples():
        vessel.require_liquid("run through a flow cell")
        if vessel.phase == Phase.SEDIMENTED and context.values["mix_first"]:
            vessel.phase = Phase.SUSPENSION
        if not (counted := vessel.contents.list_components_of_kind(CELLS, PARTICLES)):
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        loaded = loading.draw_load(vessel, context.get_number("sample_volume"))
        if is_too_dense(context, loaded, counted):
            aborted = f"event rate above {MOST_EVENTS_PER_SECOND:,} per second, most events aborted".replace(
                ",", " ", 1
            )
            context.record_observation(f"{context.describe_run(vessel)}: {aborted}")
            continue
        loaded = previous = add_carryover(context, previous, loaded)
        # A list, because any() on a generator would stop at the first fraction.
        recorded = [_record_fraction(context, vessel, loaded, part) for part in context.list_declared("fractions")]
        if not record_responses(context, vessel, loaded) and not any(recorded):
            context.record_run(vessel)


@handles("count_cells", "True density and viability with the counter's noise; what was counted is used up.")
def count_cells(context: ActionContext) -> None:
    """Count the cells in a portion for each reading. A sample that has settled is stirred up first."""
    if context.get_number("minimum_diameter") >= context.get_number("maximum_diameter"):
        raise RefusalError("empty range: minimum_diameter is not below maximum_diameter")
    for vessel in context.get_changeable_samples():
        vessel.require_liquid("counted")
        if not _group_counted_components(context, vessel.contents, (CELLS,)):
            raise RefusalError(f"no cells: there is nothing to count in {vessel.name}")
        if vessel.phase == Phase.SEDIMENTED:
            vessel.phase = Phase.SUSPENSION
        measured = vessel.draw_volume(_COUNTED_VOLUME * context.get_whole_number("replicates"))
        heading = f"{context.describe_run(vessel)}, {format_volume(_COUNTED_VOLUME)} a reading"
        stained = context.values["viability_stain"] != "none"
        for label, names in _group_counted_components(context, measured, (CELLS,)).items():
            dead = [prefix + name for prefix in _DEAD for name in names if measured.get_amount(prefix + name) != 0]
            # Without a stain, a counter does not tell dead cells from living ones.
            if not stained and label.startswith(_DEAD):
                continue
            _record_density(context, vessel, heading, label, names if stained else names + dead, measured)
            if stained and dead:
                _record_viability(context, measured, vessel, heading, names, dead)


@handles("count_particles", "True density of what lies within the bounds of size, with the counter's noise.")
def count_particles(context: ActionContext) -> None:
    """Count particles and cells whose size is within the bounds. Those of undeclared size are counted as well."""
    low, high = context.get_number("size_minimum"), context.get_number("size_maximum")
    if low >= high:
        raise RefusalError("empty range: size_minimum is not below size_maximum")
    declared = context.truth.get("retained", {})
    sizes = {name: quantities.parse_quantity(size, "length").value for name, size in declared.items()}
    samples = loading.get_measured_samples(context)
    for vessel in samples:
        vessel.require_liquid("counted")
        # If the sample is stirred, nothing settles while it is counted.
        stirred = context.values["stir"] if "stir" in context.values else context.values["stirring"]
        if vessel.phase == Phase.SEDIMENTED and stirred:
            vessel.phase = Phase.SUSPENSION
        # A light-beam counter draws one portion per reading, and one more if the first is discarded; a Coulter counter
        # dilutes one.
        draws = 1 if "electrolyte" in context.values else context.get_whole_number("replicates")
        draws += 1 if context.values.get("discard_first") else 0
        measured = loading.draw_load(vessel, context.get_number("sample_volume") * draws)
        recorded = False
        for label, group in _group_counted_components(context, measured, (CELLS, PARTICLES)).items():
            if names := [name for name in group if low <= sizes.get(name, low) <= high]:
                _record_density(context, vessel, context.describe_run(vessel), label, names, measured)
                recorded = True
        if not record_responses(context, vessel, measured) and not recorded:
            context.record_run(vessel)
    loading.draw_reagents(context, len(samples), len(samples))


def _record_colonies(context: ActionContext, vessel: Vessel, name: str, number: int) -> None:
    description = f"{context.describe_run(vessel)}: number of {name}"
    if number > context.get_number("countable_maximum"):
        context.record_observation(description, "quantitative", _TOO_MANY)
        return
    context.record_observation(description, "quantitative", str(number))
    if context.values["plated_volume"] is not None:
        units = number * context.get_number("dilution_factor") / context.get_number("plated_volume") * 1000
        density = f"{quantities.format_number(quantities.round_for_display(units))} per mL"
        context.record_observation(f"{description}, per volume plated", "quantitative", density)


def _get_plates(context: ActionContext) -> list[Vessel]:
    samples = context.get_samples()
    for vessel in samples:
        require_container_format(vessel, _COLONY_FORMATS, "colonies are imaged on plates and dishes of solid medium")
        if vessel.phase not in (Phase.GEL, "solid"):
            raise RefusalError(f"wrong phase: {vessel.name} is {vessel.phase}, not a solid medium")
    return samples


def _add_compounds(context: ActionContext, vessel: Vessel) -> None:
    for name in _COMPOUNDS:
        if compound := context.find_selected_vessel(name):
            # The second compound meets a mixture that has already reacted with the first.
            vessel.pour_in(compound.draw_volume(context.get_number(f"{name}_volume")), compound)
            react_on_contact(context, vessel)
    apply_declared_changes(context, vessel)


def _check_times(context: ActionContext) -> None:
    """Raise RefusalError if times contradict each other, or if a compound's volume or a light setting is missing."""
    record_time = context.get_number("record_for") if context.values["record_for"] is not None else ZERO
    for name in _COMPOUNDS:
        if context.values[name] is None:
            continue
        question = f"how much of the {name.replace('_', ' ')} goes into each sample?"
        loading.require_parameter(context, f"{name}_volume", question)
        if (added_at := context.get_number(f"{name}_at")) > record_time:
            at, end = (quantities.format_quantity(seconds, "duration") for seconds in (added_at, record_time))
            raise RefusalError(f"too late: {name} is added at {at}, the record ends at {end}")
    if context.values["second_compound"] is not None:
        loading.require_parameter(context, "compound", "a second one follows a first")
        if context.get_number("second_compound_at") < context.get_number("compound_at"):
            raise RefusalError("wrong order: second_compound_at is before compound_at")
    if (context.values["stimulation_power"] is None) != (context.values["stimulation_wavelength"] is None):
        raise RefusalError("critically unclear: light stimulates with a wavelength and a power, and one is not given")
    if context.values["frame_interval"] is not None and context.get_number("frame_interval") > record_time:
        raise RefusalError("too long: frame_interval is longer than the record")
    if context.values["frame_interval"] is not None and context.values.get("exposure_time") is not None:
        exposure, interval = context.get_number("exposure_time"), context.get_number("frame_interval")
        if exposure > interval:
            each, between = (quantities.format_quantity(seconds, "duration") for seconds in (exposure, interval))
            raise RefusalError(f"too long: an exposure of {each} does not fit between frames that are {between} apart")


def _group_counted_components(context: ActionContext, contents: Contents, kinds: Sequence[str]) -> dict[str, list[str]]:
    """Return, for each label that the counter reports, those components counted under it that are present."""
    declared = context.truth.get("counted", contents.list_components_of_kind(*kinds))
    groups = declared if isinstance(declared, Mapping) else {name: [name] for name in declared}
    present = {label: [name for name in names if contents.get_amount(name) != 0] for label, names in groups.items()}
    return {label: names for label, names in present.items() if names}


def _record_density(
    context: ActionContext, vessel: Vessel, heading: str, label: str, names: Sequence[str], contents: Contents
) -> None:
    """Record one reading of the total density per replicate, or no number if the amount of a component is unknown."""
    description, delivered = f"{heading}: density of {label}", contents.as_delivered()
    total = sum_known(delivered.compute_concentration(name) for name in names)
    if total is None:
        context.record_observation(f"{description}: run completed, data file recorded")
        return
    rounded = [
        Context(prec=3).plus(reading) for reading in loading.simulate_replicates(context, vessel, total, _NOISE, label)
    ]
    value = ", ".join(quantities.format_concentration(label, reading, "count") for reading in rounded)
    context.record_observation(description, "quantitative", value)


def _record_viability(
    context: ActionContext,
    measured: Contents,
    vessel: Vessel,
    heading: str,
    names: Sequence[str],
    dead: Sequence[str],
) -> None:
    """Record the share of cells that exclude the stain, of those in the images of each reading, unless it is unknown."""
    live, stained = (sum_known(map(measured.compute_concentration, part)) for part in (names, dead))
    if not live or stained is None:
        return
    imaged = context.get_number("fields") * _FIELD_VOLUME / context.get_number("stain_dilution") / 1000
    number, share = max(1, int((live + stained) * imaged)), float(live / (live + stained))
    rng = context.create_rng(vessel, "viability")
    shares = [
        100 * _draw_binomial(rng, number, share) / Decimal(number)
        for _ in range(context.get_whole_number("replicates"))
    ]
    context.record_observation(f"{heading}: viability", "quantitative", ", ".join(f"{part:.1f} %" for part in shares))


def _record_fraction(context: ActionContext, vessel: Vessel, loaded: Contents, fraction: Mapping[str, Any]) -> bool:
    """Record the share of positive events that an experiment declares. Return False if it cannot be computed."""
    delivered = loaded.as_delivered()
    total, part = delivered.sum_amounts(fraction["of"]), delivered.sum_amounts(fraction["part"])
    if not total or part is None:
        return False
    # A sample cannot give more events than it has cells.
    events = min(context.get_whole_number("events"), int(total))
    if events < 1:
        return False
    share, background = min(ONE, part / total), Decimal(fraction["background"])
    # Negative cells are counted as positive with the background's probability, so the share is never below it.
    positive = _draw_binomial(context.create_rng(vessel, "events"), events, float(share + background * (1 - share)))
    percent = quantities.format_number(Context(prec=4).plus(Decimal(100 * positive) / events))
    description = f"{context.describe_run(vessel)}: {fraction['signal']}"
    context.record_observation(description, "quantitative", f"{percent} % ({positive} of {events} events)")
    return True


def _draw_binomial(rng: random.Random, trials: int, share: float) -> int:
    variance = trials * share * (1 - share)
    if variance > _FEW:
        return min(trials, max(0, round(rng.gauss(trials * share, variance**0.5))))
    return sum(rng.random() < share for _ in range(trials))
