"""L02, L05 and L07: volumes are conserved, fit their containers, and no more is taken than there is."""

from collections.abc import Iterable
from decimal import Decimal

from simulation.checker.findings import Findings, compare, error_finding, require, undecided_finding, warning_finding
from simulation.checker.reading import flows, linking, units, words
from simulation.checker.reading.flows import FilledOutput, Withdrawal
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set

ZERO = Decimal(0)
PIPETTING = Decimal("0.05")  # share of the moved volume: error of a pipette
_HANDLING = Decimal("0.02")  # share of the volume in the vessel: film on the wall, evaporation
_SURPLUS = Decimal("0.15")  # share by which rounded volumes of a transfer may differ
_GAIN = Decimal("0.01")  # share of the volume before: rounding, not an addition
_FILM = Decimal("0.06")  # share of the medium that stays on cells when it is replaced
_DROPLET = Decimal("0.5")  # µL; for volumes so small that a relative tolerance is too strict
_PORTION_LEFT = 5  # µL that a pipette leaves behind in a vessel
_MAX_READINGS = 6  # more readings of one sample are implausible
# Containers hold a little more than their nominal size: a 500 mL bottle takes 550 mL.
_NOMINAL = Decimal("1.15")
_FILL_ROUNDING = Decimal("0.005")  # share of the capacity; exactly full is allowed
# Containers whose size is the volume of one filling, unlike that of a plate or a box.
_SIZED = word_set(
    "tube vial flask bottle beaker falcon eppendorf cuvette microtube cryovial cylinder jar microcentrifuge conical"
)
_NOT_SIZED = word_set("box well plate rack")
# For instruments that do not take every container: those that fit, those that do not, and what is expected.
_FLAT = word_set("plate microplate well dish slide flask chamber coverslip chip petri")
_NOT_FLAT = word_set("tube vial bottle beaker falcon eppendorf bag cylinder conical cryovial microtube")
_FORMATS = {
    "UsePlateReader": (
        word_set("plate microplate well chamber coverslip chip"), _NOT_FLAT | word_set("flask dish cuvette"), "a microplate"
    ),
    "UseMicroscope": (_FLAT, _NOT_FLAT, "a plate, dish, flask or slide"),
}  # fmt: skip
_MIN_TOO_LARGE = 1500  # µL; PCR tubes hold 0.2 mL, and 1.5 mL and more never fit a thermocycler


def check_volumes(transition: Transition) -> Findings:
    """L02: compare the volumes before and after the step, for all materials together and for each material."""
    yield from _check_total_volume(transition)
    yield from _check_gains(transition)
    flow = flows.trace_liquids(transition)
    if flow.untraced_reason:
        yield undecided_finding("L02", transition.action, f"volumes cannot be followed: {flow.untraced_reason}")
    for draw in flow.withdrawals:
        yield from _check_remainder(transition, draw)
    for fill in flow.fills:
        yield from _check_filled_volume(fill)
    if transition.action in ("Filter", "Aspirate"):
        yield from _check_separated_volumes(transition)
    # Only for actions that do not pour one material into another.
    if transition.family in (words.INERT, words.HEAT, words.TAKE, *words.MEASUREMENTS):
        for before, after in transition.list_kept_pairs():
            yield from _check_unfed_volume(transition, before, after)


def check_overdraw(transition: Transition) -> Findings:
    """L07: yield an error if more is moved out of a material than its volume minus its dead volume."""
    if transition.family not in (words.MOVE, words.ADD, words.SERIAL):
        return
    for source, volume, _, is_stated in flows.trace_liquids(transition).withdrawals:
        # A volume derived from what is left cannot exceed what was there.
        if volume is None or source.is_unlimited or not is_stated:
            continue
        if source.liquid_volume is None:
            yield undecided_finding("L07", source.name, "its volume is not known")
            continue
        usable = source.liquid_volume - (source.dead_volume.value if source.dead_volume else ZERO)
        text = f"{format_volume(volume)} was taken from {source.name}, which had a usable volume of {format_volume(usable)}"
        allowed = rounding_slack(source) + volume / 100
        yield from compare("L07", source.name, usable, volume, "volume", text, above=allowed)


def _check_total_volume(transition: Transition) -> Findings:
    """Compare the total volume of the outputs with that of the inputs, unless an unknown volume may have been added."""
    # A gel is cast from reagents that are not among the materials.
    outputs = [view for view in transition.usable_outputs if view.phase != words.GEL]
    inputs = transition.limited_inputs
    # An unlimited supply adds an unknown volume.
    has_supply = any(view.is_unlimited and not view.is_empty_vessel for view in transition.inputs)
    if (
        has_supply
        or transition.family in (words.MAKE, words.CONTROL)
        or transition.action in words.ADDS_FROM_PARAMETERS
        or all(view.liquid_volume in (None, ZERO) for view in outputs)
    ):
        return
    if any(view.liquid_volume is None for view in inputs):
        yield undecided_finding("L02", transition.action, "not every volume that went in is known")
        return
    total_in, total_out = (sum((view.liquid_volume or ZERO for view in views), ZERO) for views in (inputs, outputs))
    text = f"{format_volume(total_out)} came out, but only {format_volume(total_in)} went in"
    allowed = total_in * _GAIN + _total_rounding_slack([*inputs, *outputs]) + _DROPLET
    yield from compare("L02", transition.action, total_in, total_out, "volume", text, above=allowed)
    if transition.family not in (words.MOVE, words.COMBINE, words.SERIAL, words.ADD):
        return
    # Volume is missing after pipetting. A source that is not handed back is left to check L18.
    is_complete = all(view.liquid_volume is not None for view in outputs) and (
        transition.family == words.COMBINE
        or all(transition.find_output(view) is not None for view in inputs if view.liquid_volume)
    )
    if is_complete:
        text = f"{format_volume(total_in - total_out)} of {format_volume(total_in)} is missing afterwards"
        allowed = (
            total_in * _HANDLING
            + _total_rounding_slack([*inputs, *transition.usable_outputs])
            + _PORTION_LEFT * len(outputs)
        )
        yield from compare("L02", transition.action, total_in, total_out, "volume", text, below=allowed, limit="about")


def _check_gains(transition: Transition) -> Findings:
    """Yield an error if the vessels of a transfer gained clearly more than its sources lost, however large they are."""
    filled = [view for view in transition.inputs if not view.is_empty_vessel]
    if transition.family != words.MOVE or any(view.is_unlimited for view in filled):
        return
    pairs = [(view, transition.find_output(view)) for view in filled]
    new_outputs = [view for view in transition.usable_outputs if transition.find_input(view) not in filled]
    changes, rounding = [view.liquid_volume for view in new_outputs], ZERO
    for before, after in pairs:
        had, has = before.liquid_volume, after.liquid_volume if after is not None else None
        changes.append(None if had is None or has is None else has - had)
        if after is not None and had != has:
            rounding += rounding_slack(before) + rounding_slack(after)
    known = [change for change in changes if change is not None]
    if len(known) < len(changes) or not known or any(view.phase for view in new_outputs):
        return
    gained, lost = sum((c for c in known if c > 0), ZERO), -sum((c for c in known if c < 0), ZERO)
    text = f"the vessels gained {format_volume(gained)} together, but the sources lost {format_volume(lost)}"
    allowed = lost * _SURPLUS + rounding + _DROPLET
    if lost > 0:
        yield from compare("L02", transition.action, lost, gained, "volume", text, above=allowed, limit="at most")


def _check_remainder(transition: Transition, draw: Withdrawal) -> Findings:
    """Yield an error unless the volume left of a source is its volume before minus the volume taken."""
    source, volume, remainder, is_stated = draw
    if source.is_unlimited or remainder is None or remainder.is_used_up or transition.family == words.COMBINE:
        return
    if volume is None:
        return
    had, has = source.liquid_volume, remainder.liquid_volume
    if had is None or has is None:
        yield undecided_finding("L02", source.name, "its volume before or after is not known")
        return
    if not is_stated:
        return
    expected = had - volume
    # An unchanged number is not due to rounding: the volume was copied and the withdrawal forgotten.
    rounding = had / 1000 if has == had else rounding_slack(remainder) + rounding_slack(source)
    allowed = volume * PIPETTING + rounding
    text = (
        f"{source.name} held {format_volume(had)}, {format_volume(volume)} was taken, and {format_volume(has)} is left"
    )
    # Liquid is lost by handling but never gained, so the lower limit is wider. Less than nothing cannot be left.
    shown = max(ZERO, expected)
    above, below = expected + allowed - shown, shown - expected + allowed + had * _HANDLING
    yield from compare("L02", remainder.name, shown, has, "volume", text, above, below)


def _check_filled_volume(fill: FilledOutput) -> Findings:
    """Yield an error unless the volume in a vessel is the sum of the volumes that were put into it."""
    output, expected = fill.output, fill.total_volume
    if expected is None or output.volume is None:
        yield undecided_finding("L02", output.name, "the volume added or the volume now is not known")
        return
    # A dissolved solid adds volume of its own, which no parameter states.
    has_solids = any(part.source.phase in (words.SOLID, words.PELLET) for part in fill.parts)
    allowed = expected * (PIPETTING * 2 if has_solids else Decimal("0.03")) + _DROPLET
    allowed += _total_rounding_slack([output, *(part.source for part in fill.parts)])
    parts = " and ".join(f"{format_volume(part.volume or ZERO)} of {part.source.name}" for part in fill.parts)[:200]
    got = output.volume.value
    text = f"{parts} add up to {format_volume(expected)}; {output.name} holds {format_volume(got)}"
    yield from compare("L02", output.name, expected, got, "volume", text, allowed, allowed)


def _check_unfed_volume(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a material gains volume although nothing was added, or loses much although none was taken."""
    if before.volume is None or after.volume is None or _was_fed(transition, before):
        return
    had, has = before.volume.value, after.volume.value
    rounding = rounding_slack(before) + rounding_slack(after)
    text = f"{after.name} held {format_volume(had)} and now holds {format_volume(has)}, although nothing was added"
    gain = had * _GAIN + min(rounding, had / 50)
    yield from compare("L02", after.name, had, has, "volume", text, above=gain)
    loss = _allowed_loss(transition, had)
    if loss is not None and not _is_loss_by_readings(transition, had - has):
        text = f"{after.name} held {format_volume(had)} and now holds only {format_volume(has)}, although nothing was removed"
        loss += rounding + _DROPLET
        yield from compare("L02", after.name, had, has, "volume", text, below=loss, limit="about")
    elif transition.family == words.CONSUME and has == had:
        yield from _check_instrument_use(transition, before, after)


def _was_fed(transition: Transition, before: MaterialView) -> bool:
    """Return whether another material may have been added: the action allows it, and a parameter names a wet one."""
    # Water crosses the membrane of a dialysis in both directions.
    if transition.action in (*words.ADDS_FROM_PARAMETERS, "Dialysis"):
        return True
    may_add = transition.family not in (words.INERT, words.HEAT) or transition.action == "FreezeCells"
    named_views = transition.parameters.materials_by_key.values() if may_add else ()
    return any(view is not before and view.liquid_volume != 0 for view in named_views)


def _allowed_loss(transition: Transition, volume: Decimal) -> Decimal | None:
    """Return the volume in µL that a material may lose without an error, or None if there is no limit."""
    if transition.family == words.INERT:
        return volume * (PIPETTING if transition.action in ("Mix", "Centrifuge") else Decimal("0.1"))
    if transition.family == words.READ:
        sample_volume = sum((amount.value for _, amount in transition.list_settings("volume")), ZERO)
        return volume * Decimal("0.1") + (transition.find_replicate_count() or 1) * sample_volume
    return None


def _is_loss_by_readings(transition: Transition, lost: Decimal) -> bool:
    """Return whether a lost volume equals that of one or more readings, even if no parameter states their number."""
    settings = transition.list_settings("volume") if transition.family == words.READ else []
    samples = [amount.value for leaf, amount in settings if "sample" in leaf.words and amount.value > 0]
    counts = range(1, _MAX_READINGS + 1)
    return any(abs(lost - count * volume) <= volume / 50 for volume in samples for count in counts)


def _check_instrument_use(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield a finding if an instrument uses a stated volume of a sample whose volume stays the same."""
    used_words = {"injection", "load", "loading", "sample"}
    used_volumes = [a.value for leaf, a in transition.parameters.list_amounts("volume") if used_words & leaf.word_set]
    if len(used_volumes) != 1 or before.volume is None:
        return
    used, had = used_volumes[0], before.volume.value
    others = [
        (b.volume.value, a.volume.value)
        for b, a in transition.list_pairs()
        if b is not before and b.volume and a.volume
    ]
    expected = f"{format_volume(used)} less than {format_volume(had)}"
    if used * 200 >= had and others and all(has < had_before for had_before, has in others):
        text = f"{format_volume(used)} of every sample was used up; only the volume of {after.name} is unchanged"
        yield error_finding("L02", after.name, expected, format_volume(had), text)
    # Only a warning, because many simulators do not subtract what an instrument uses.
    elif used * 100 >= had:
        text = f"{format_volume(used)} of it was used up, but its volume is unchanged"
        yield warning_finding("L02", after.name, expected, format_volume(had), text)


def _check_separated_volumes(transition: Transition) -> Findings:
    """Yield an error if filtrate or supernatant and what remains hold more together than the material did before."""
    new_outputs = [view for view in transition.usable_outputs if transition.find_input(view) is None]
    for before, after in transition.list_kept_pairs():
        parts = [after, *(view for view in new_outputs if _is_part(view, before))]
        if before.volume is None or len(parts) == 1 or any(view.liquid_volume is None for view in parts):
            continue
        had, total = before.volume.value, sum((view.liquid_volume or ZERO for view in parts), ZERO)
        text = f"{before.name} held {format_volume(had)}; it and what was separated from it hold {format_volume(total)} together"
        allowed = had * _GAIN + _total_rounding_slack([before, *parts])
        yield from compare("L02", before.name, had, total, "volume", text, above=allowed)


def _is_part(view: MaterialView, source: MaterialView) -> bool:
    """Return whether a material comes from this source alone, by its stated origins or else by its name."""
    # "Flask 1" is in the name "Filtrate of Flask 1", but not in "Filtrate of Flask 10".
    if origins := linking.parent_barcodes(view):
        return list(origins) == [source.barcode]
    _, name, rest = view.name.lower().partition(source.name.lower()) if source.name else ("", "", "")
    return name != "" and not rest[:1].isalnum()


def check_containers(transition: Transition) -> Findings:
    """L05: yield an error if a container holds too much or too little, or does not fit into the instrument."""
    for output in transition.usable_outputs:
        if output.volume is not None:
            yield from _check_fill_level(output, transition.find_input(output), output.volume.value)
    if transition.action in (*_FORMATS, "Thermocycler"):
        for view in transition.inputs:
            if not view.is_empty_vessel and not transition.parameters.has_named(view):
                yield from _check_format(transition, view)


def _check_fill_level(output: MaterialView, before: MaterialView | None, volume: Decimal) -> Findings:
    capacity = output.capacity or (before.capacity if before else None)
    nominal_size = _parse_nominal_size(output) or (_parse_nominal_size(before) if before else None)
    if capacity is None and nominal_size is None:
        yield undecided_finding("L05", output.name, "the capacity of its container is not known")
        return
    maximum = capacity.value if capacity else (nominal_size or ZERO) * _NOMINAL
    text = f"{output.name} holds {format_volume(volume)} in a container for at most {format_volume(maximum)}"
    yield from compare("L05", output.name, maximum, volume, "volume", text, above=maximum * _FILL_ROUNDING)
    # Only for new materials: in other containers, taking a portion may leave less than the minimum.
    if output.minimum_volume is not None and volume > 0 and before is None:
        minimum = output.minimum_volume.value
        text = f"{output.name} holds less than the {format_volume(minimum)} that its container needs"
        yield from compare("L05", output.name, minimum, volume, "volume", text, below=ZERO)


def _parse_nominal_size(view: MaterialView) -> Decimal | None:
    """Return the volume in a container's name, such as "1.5 mL tube", or None. Plates and boxes are ignored."""
    container_words = set(words.tokenize(view.container))
    size = units.parse_amount(view.container, "", ("volume",))
    is_size = size and size.dimension == "volume" and container_words & _SIZED and not container_words & _NOT_SIZED
    return size.value if size and is_size else None


def _check_format(transition: Transition, view: MaterialView) -> Findings:
    container_words = set(words.tokenize(view.container))
    if not container_words:
        yield undecided_finding("L05", view.name, "its container is not known")
        return
    if transition.action == "Thermocycler":
        size = None if container_words & {"pcr", "plate", "well", "strip"} else _parse_nominal_size(view)
        fits, expected = size is None or size < _MIN_TOO_LARGE, "a PCR tube or plate"
    else:
        suitable, unsuitable, expected = _FORMATS[transition.action]
        fits = bool(container_words & suitable) or not container_words & unsuitable
    container = view.container[:60]
    yield from require(
        "L05", fits, view.name, expected, container, f"{transition.action} does not take {view.name} in {container}"
    )


def rounding_slack(view: MaterialView) -> Decimal:
    """Return the largest difference in µL between a written volume and the true one that rounding may explain."""
    if view.volume is None:
        return ZERO
    # Capped at 0.5 %: "1 L" may be rounded from 1.4 L, which would hide every error.
    return min(view.volume.step, abs(view.volume.value) / 200)


def _total_rounding_slack(views: Iterable[MaterialView]) -> Decimal:
    return sum((rounding_slack(view) for view in views), ZERO)


def format_volume(volume: Decimal) -> str:
    return units.format_value(volume, "volume")


def find_film(transition: Transition, washed: MaterialView) -> Decimal:
    """Return the largest volume in µL that a wash leaves behind: a film, or what the wash volume does not replace."""
    volumes_of_wash = [a.value for leaf, a in transition.parameters.list_amounts("volume") if "wash" in leaf.word_set]
    before = washed.liquid_volume or Decimal(0)
    kept = before - volumes_of_wash[0] if len(volumes_of_wash) == 1 else Decimal(0)
    return max(before * _FILM, kept)


def has_left(before: MaterialView, after: MaterialView, portions: Iterable[Decimal]) -> bool:
    """Return whether a material has what is left after one of these portions in µL was taken."""
    had, has = before.liquid_volume, after.liquid_volume
    if had is None or has is None:
        return False
    return any(had > portion > 0 and abs(had - portion - has) <= (had - portion) * PIPETTING for portion in portions)
