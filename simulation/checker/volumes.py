"""L02, L05 and L07: volumes are conserved, fit their containers, and no more is taken than there is."""

from collections.abc import Iterable
from decimal import Decimal

from simulation.checker.findings import Decided, Findings, error_finding, undecided_finding, warning_finding
from simulation.checker.reading import families, flows, linking, units, words
from simulation.checker.reading.flows import FilledOutput, Withdrawal
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.words import word_set


def check_total_volume(transition: Transition) -> Findings:
    """Compare the total volume of the outputs with that of the inputs, unless an unknown volume may have been added."""
    # A gel is cast from reagents that are not among the materials.
    outputs = [view for view in transition.usable_outputs if view.phase != "gel"]
    volumes_before, volumes_after = (
        [view.liquid_volume for view in transition.limited_inputs],
        [view.liquid_volume for view in outputs],
    )
    if transition.family in (families.MAKE, families.CONTROL) or transition.action in families.ADDS_FROM_PARAMETERS:
        return
    # An unlimited supply adds an unknown volume.
    if any(view.is_unlimited and not view.is_empty_vessel for view in transition.inputs):
        return
    if not outputs or all(held in (None, ZERO) for held in volumes_after):
        return
    if any(held is None for held in volumes_before):
        yield undecided_finding("L02", transition.action, "not every volume that went in is known")
        return
    total_in = sum((held for held in volumes_before if held is not None), ZERO)
    total_out = sum((held for held in volumes_after if held is not None), ZERO)
    yield Decided("L02", quantity=True)
    allowed = total_in * _GAIN + total_rounding_slack([*transition.limited_inputs, *outputs]) + _DROPLET
    if total_out > total_in + allowed:
        yield error_finding("L02", transition.action, f"at most {format_volume(total_in)}", format_volume(total_out),
                    f"{format_volume(total_out)} came out, but only {format_volume(total_in)} went in", "1 %")  # fmt: skip
    elif transition.family in (families.MOVE, families.COMBINE, families.SERIAL, families.ADD):
        yield from _check_lost_volume(transition, total_in, total_out, volumes_after)


def _check_lost_volume(
    transition: Transition, total_in: Decimal, total_out: Decimal, volumes_after: list[Decimal | None]
) -> Findings:
    """Yield an error if volume is missing after pipetting. A source that is not handed back is left to check L18."""
    is_complete = all(held is not None for held in volumes_after)
    all_handed_back = (
        all(transition.find_output(v) is not None for v in transition.limited_inputs if v.liquid_volume)
        or transition.family == families.COMBINE
    )
    # 5 µL for each vessel: what a pipette leaves behind.
    allowed = (
        total_in * _HANDLING
        + total_rounding_slack(transition.limited_inputs)
        + total_rounding_slack(transition.usable_outputs)
        + 5 * len(volumes_after)
    )
    if is_complete and all_handed_back and total_out < total_in - allowed:
        yield error_finding("L02", transition.action, f"about {format_volume(total_in)}", format_volume(total_out),
                    f"{format_volume(total_in - total_out)} of {format_volume(total_in)} is missing afterwards", "2 %")  # fmt: skip


def rounding_slack(view: MaterialView) -> Decimal:
    """Return the largest difference in µL between a written volume and the true one that rounding may explain."""
    if view.volume is None:
        return ZERO
    # Capped at 0.5 %: "1 L" may be rounded from 1.4 L, which would hide every error.
    return min(view.volume.step, abs(view.volume.value) / 200)


def total_rounding_slack(views: Iterable[MaterialView]) -> Decimal:
    return sum((rounding_slack(view) for view in views), ZERO)


def format_volume(volume: Decimal) -> str:
    return units.format_value(volume, "volume")


ZERO = Decimal(0)
PIPETTING = Decimal("0.05")  # share of the moved volume: error of a pipette
_HANDLING = Decimal("0.02")  # share of the volume in the vessel: film on the wall, evaporation
_GAIN = Decimal("0.01")  # share of the volume before: rounding, not an addition
_DROPLET = Decimal("0.5")  # µL; for volumes so small that a relative tolerance is too strict


def check_volumes(transition: Transition) -> Findings:
    """L02: compare the volumes before and after the step, for all materials together and for each material."""
    if not transition.is_success:
        return
    yield from check_total_volume(transition)
    flow = flows.trace_liquids(transition)
    if flow.untraced_reason:
        yield undecided_finding("L02", transition.action, f"volumes cannot be followed: {flow.untraced_reason}")
    for draw in flow.withdrawals:
        yield from _check_remainder(transition, draw)
    for fill in flow.fills:
        yield from _check_filled_volume(transition, fill)
    if transition.family == families.TAKE:
        yield from _check_separated_volumes(transition)
    # Only for actions that do not pour one material into another.
    if transition.family in (families.INERT, families.HEAT, families.TAKE, *families.MEASUREMENTS):
        for before, after in transition.list_pairs():
            yield from _check_unfed_volume(transition, before, after)


def check_overdraw(transition: Transition) -> Findings:
    """L07: yield an error if more is moved out of a material than its volume minus its dead volume."""
    if not transition.is_success or transition.family not in (families.MOVE, families.ADD, families.SERIAL):
        return
    for draw in flows.trace_liquids(transition).withdrawals:
        # A volume derived from what is left cannot exceed what was there.
        if draw.volume is None or draw.source.is_unlimited or not draw.is_stated:
            continue
        available = draw.source.liquid_volume
        if available is None:
            yield undecided_finding("L07", draw.source.name, "its volume is not known")
            continue
        usable = available - (draw.source.dead_volume.value if draw.source.dead_volume else ZERO)
        yield Decided("L07", quantity=True)
        if draw.volume > usable + rounding_slack(draw.source) + draw.volume / 100:
            yield error_finding("L07", draw.source.name, f"at most {format_volume(usable)}", format_volume(draw.volume),
                        f"{format_volume(draw.volume)} was taken from {draw.source.name}, which had a usable volume of {format_volume(usable)}", "1 %")  # fmt: skip


def _check_remainder(transition: Transition, draw: Withdrawal) -> Findings:
    """Yield an error unless the volume left of a source is its volume before minus the volume taken."""
    source, remainder = draw.source, draw.remainder
    if (
        source.is_unlimited
        or remainder is None
        or remainder.is_used_up
        or draw.volume is None
        or transition.family == families.COMBINE
    ):
        return
    if source.liquid_volume is None or remainder.liquid_volume is None:
        yield undecided_finding("L02", source.name, "its volume before or after is not known")
        return
    if not draw.is_stated:
        return
    yield Decided("L02", quantity=True)
    expected = source.liquid_volume - draw.volume
    # An unchanged number is not due to rounding: the volume was copied and the withdrawal forgotten.
    is_unchanged = remainder.liquid_volume == source.liquid_volume
    rounding = source.liquid_volume / 1000 if is_unchanged else rounding_slack(remainder) + rounding_slack(source)
    tolerance_above = draw.volume * PIPETTING + rounding
    # Liquid is lost by handling but never gained, so the lower limit is wider.
    tolerance_below = draw.volume * PIPETTING + source.liquid_volume * _HANDLING + rounding
    if remainder.liquid_volume > expected + tolerance_above or remainder.liquid_volume < expected - tolerance_below:
        yield error_finding("L02", remainder.name, format_volume(max(ZERO, expected)), format_volume(remainder.liquid_volume),
                    f"{source.name} held {format_volume(source.liquid_volume)}, {format_volume(draw.volume)} was taken, and {format_volume(remainder.liquid_volume)} is left",
                    "5 % of the moved volume")  # fmt: skip


def _check_filled_volume(transition: Transition, fill: FilledOutput) -> Findings:
    """Yield an error unless the volume in a vessel is the sum of the volumes that were put into it."""
    expected, got = fill.total_volume, fill.output.liquid_volume
    if expected is None or got is None or fill.output.volume is None:
        yield undecided_finding("L02", fill.output.name, "the volume added or the volume now is not known")
        return
    yield Decided("L02", quantity=True)
    added = sum((part.volume or ZERO for part in fill.parts), ZERO)
    # A dissolved solid adds volume of its own, which no parameter states.
    solids = any(part.source.phase in ("solid", "pellet") for part in fill.parts)
    tolerance = (
        added * (PIPETTING * 2 if solids else Decimal("0.03"))
        + rounding_slack(fill.output)
        + total_rounding_slack(p.source for p in fill.parts)
        + _DROPLET
    )
    if abs(got - expected) > tolerance:
        yield error_finding("L02", fill.output.name, format_volume(expected), format_volume(got),
                    f"{_describe_parts(fill)} add up to {format_volume(expected)}; {fill.output.name} holds {format_volume(got)}", "3 %")  # fmt: skip


def _check_unfed_volume(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield an error if a material gains volume although nothing was added, or loses much although none was taken."""
    if before.volume is None or after.volume is None or after.is_used_up or before.is_unlimited:
        return
    if transition.action in (*families.ADDS_FROM_PARAMETERS, "Dialysis") or _was_fed(transition, before):
        return  # water crosses the membrane of a dialysis in both directions
    yield Decided("L02", quantity=True)
    volume_before, volume_after = before.volume.value, after.volume.value
    if volume_after > volume_before + volume_before * _GAIN + min(
        rounding_slack(before) + rounding_slack(after), volume_before / 50
    ):
        yield error_finding("L02", after.name, f"at most {format_volume(volume_before)}", format_volume(volume_after),
                    f"{after.name} held {format_volume(volume_before)} and now holds {format_volume(volume_after)}, although nothing was added", "1 %")  # fmt: skip
        return
    allowed_loss = _allowed_loss(transition, before)
    lost_too_much = (
        allowed_loss is not None
        and volume_after < volume_before - allowed_loss - rounding_slack(before) - rounding_slack(after) - _DROPLET
    )
    if lost_too_much and not _is_loss_by_readings(transition, volume_before - volume_after):
        yield error_finding("L02", after.name, f"about {format_volume(volume_before)}", format_volume(volume_after),
                    f"{after.name} held {format_volume(volume_before)} and now holds only {format_volume(volume_after)}, although nothing was removed", "2 %")  # fmt: skip
    elif transition.family == families.CONSUME:
        yield from _check_instrument_use(transition, before, after)


def _check_separated_volumes(transition: Transition) -> Findings:
    """Yield an error if filtrate or supernatant and what remains hold more together than the material did before."""
    for before, after in transition.list_pairs():
        separated = [
            view for view in transition.usable_outputs if transition.find_input(view) is None and _is_part(view, before)
        ]
        if (
            before.is_unlimited
            or after.is_used_up
            or not separated
            or before.volume is None
            or after.liquid_volume is None
        ):
            continue
        if any(view.liquid_volume is None for view in separated) or transition.action not in ("Filter", "Aspirate"):
            continue
        yield Decided("L02", quantity=True)
        total_after = after.liquid_volume + sum((view.liquid_volume or ZERO for view in separated), ZERO)
        if total_after > before.volume.value * (1 + _GAIN) + total_rounding_slack([before, after, *separated]):
            yield error_finding("L02", before.name, f"at most {format_volume(before.volume.value)}", format_volume(total_after),
                        f"{before.name} held {format_volume(before.volume.value)}; it and what was separated from it hold {format_volume(total_after)} together", "1 %")  # fmt: skip


def _is_part(view: MaterialView, source: MaterialView) -> bool:
    """Return whether a material comes from this source alone, by its stated origins or else by its name.

    "Flask 1" is in the name "Filtrate of Flask 1", but not in "Filtrate of Flask 10".
    """
    origins = linking.parent_barcodes(view)
    if origins:
        return list(origins) == [source.barcode]
    source_name, part_name = source.name.lower(), view.name.lower()
    position = part_name.find(source_name)
    return (
        source_name != ""
        and position >= 0
        and not part_name[position + len(source_name) : position + len(source_name) + 1].isalnum()
    )


def _was_fed(transition: Transition, before: MaterialView) -> bool:
    """Return whether another material may have been added: the action allows it, and a parameter names another one."""
    if transition.family in (families.INERT, families.HEAT):
        return False
    return any(key for key, view in transition.parameters.materials_by_key.items() if view is not before)


def _allowed_loss(transition: Transition, before: MaterialView) -> Decimal | None:
    """Return the volume in µL that a material may lose without an error, or None if there is no limit."""
    assert before.volume is not None
    volume_before = before.volume.value
    if transition.family == families.INERT:
        return volume_before * (PIPETTING if transition.action in ("Mix", "Centrifuge") else Decimal("0.1"))
    if transition.family == families.READ:
        repeats = transition.find_replicate_count() or 1
        return volume_before * Decimal("0.1") + repeats * sum(
            (a.value for _, a in transition.list_settings("volume")), ZERO
        )
    return None


def _is_loss_by_readings(transition: Transition, lost: Decimal) -> bool:
    """Return whether a lost volume equals that of one to six readings, even if no parameter states their number."""
    if transition.family != families.READ:
        return False
    sample_volumes = {
        a.value for leaf, a in transition.list_settings("volume") if "sample" in leaf.words and a.value > 0
    }
    return any(
        abs(lost - repeats * sample_volume) <= sample_volume / 50
        for sample_volume in sample_volumes
        for repeats in range(1, 7)
    )  # more than six readings are implausible


def _check_instrument_use(transition: Transition, before: MaterialView, after: MaterialView) -> Findings:
    """Yield a finding if an instrument uses a stated volume of a sample, but the sample's volume stays the same.

    It is an error if all other samples of the step lost volume, otherwise a warning.
    """
    used_volumes = [
        a
        for leaf, a in transition.parameters.list_amounts("volume")
        if {"injection", "load", "loading", "sample"} & set(leaf.words)
    ]
    if (
        before.volume is None
        or after.volume is None
        or len(used_volumes) != 1
        or after.volume.value != before.volume.value
    ):
        return
    # Many simulators do not subtract what an instrument uses. If this one subtracts it from all other samples of the
    # step, the unchanged volume is an error.
    other_volumes = [
        (b.volume.value, a.volume.value)
        for b, a in transition.list_pairs()
        if b is not before and b.volume and a.volume
    ]
    if (
        used_volumes[0].value * 200 >= before.volume.value
        and other_volumes
        and all(has < had for had, has in other_volumes)
    ):
        yield error_finding("L02", after.name, f"{format_volume(used_volumes[0].value)} less than {format_volume(before.volume.value)}", format_volume(after.volume.value),
                    f"{format_volume(used_volumes[0].value)} of every sample was used up; only the volume of {after.name} is unchanged")  # fmt: skip
    elif used_volumes[0].value * 100 >= before.volume.value:
        yield warning_finding("L02", after.name, f"{format_volume(used_volumes[0].value)} less than {format_volume(before.volume.value)}", format_volume(after.volume.value),
                      f"{format_volume(used_volumes[0].value)} of it was used up, but its volume is unchanged")  # fmt: skip


def _describe_parts(fill: FilledOutput) -> str:
    return " and ".join(f"{format_volume(part.volume or ZERO)} of {part.source.name}" for part in fill.parts)[:200]


# Containers hold a little more than their nominal size: a 500 mL bottle takes 550 mL.
_NOMINAL = Decimal("1.15")
# Containers whose size is the volume of one filling, unlike that of a plate or a box.
_SIZED = word_set(
    "tube vial flask bottle beaker falcon eppendorf cuvette microtube cryovial cylinder jar microcentrifuge conical"
)
# Formats for plate readers and microscopes, and formats that do not fit them.
_FLAT = word_set("plate microplate well dish slide flask chamber coverslip chip petri")
_NOT_FLAT = word_set("tube vial bottle beaker falcon eppendorf bag cylinder conical cryovial microtube")


def check_containers(transition: Transition) -> Findings:
    """L05: yield an error if a container holds too much or too little, or does not fit into the instrument."""
    if not transition.is_success:
        return
    for output in transition.usable_outputs:
        yield from _check_fill_level(transition, output)
    if transition.action in ("UsePlateReader", "UseMicroscope", "Thermocycler"):
        for view in transition.inputs:
            yield from _check_format(transition, view)


def _check_fill_level(transition: Transition, output: MaterialView) -> Findings:
    input_before = transition.find_input(output)
    stated_capacity = output.capacity or (input_before.capacity if input_before else None)
    nominal_size = _parse_nominal_size(output) or (_parse_nominal_size(input_before) if input_before else None)
    if output.volume is None or (stated_capacity is None and nominal_size is None):
        if output.volume is not None:
            yield undecided_finding("L05", output.name, "the capacity of its container is not known")
        return
    maximum = stated_capacity.value if stated_capacity else (nominal_size or Decimal(0)) * _NOMINAL
    yield Decided("L05", quantity=True)
    # Exactly full is allowed; 0.5 % for the rounding of both numbers.
    if output.volume.value > maximum * Decimal("1.005"):
        yield error_finding("L05", output.name, f"at most {_format_volume(maximum)}", _format_volume(output.volume.value),
                    f"{output.name} holds {_format_volume(output.volume.value)} in a container for at most {_format_volume(maximum)}", "0.5 %")  # fmt: skip
    minimum = output.minimum_volume
    # Only for new materials: in other containers, taking a portion may leave less than the minimum.
    if minimum is not None and 0 < output.volume.value < minimum.value and input_before is None:
        yield error_finding("L05", output.name, f"at least {_format_volume(minimum.value)}", _format_volume(output.volume.value),
                    f"{output.name} holds less than the {_format_volume(minimum.value)} that its container needs")  # fmt: skip


def _parse_nominal_size(view: MaterialView) -> Decimal | None:
    """Return the volume in a container's name, such as "1.5 mL tube", or None. Plates and boxes are ignored."""
    container_words = set(words.tokenize(view.container))
    size = units.parse_amount(view.container, "", ("volume",))
    if (
        size is None
        or size.dimension != "volume"
        or not container_words & _SIZED
        or container_words & {"box", "well", "plate", "rack"}
    ):
        return None
    return size.value


def _check_format(transition: Transition, view: MaterialView) -> Findings:
    if view.is_empty_vessel or any(view is other for other in transition.parameters.materials_by_key.values()):
        return
    container_words = set(words.tokenize(view.container))
    if not container_words:
        yield undecided_finding("L05", view.name, "its container is not known")
        return
    yield Decided("L05")
    text = f"{transition.action} does not take {view.name} in {view.container[:60]}"
    if (
        transition.action == "UsePlateReader"
        and not container_words & (_FLAT - {"flask", "dish", "slide", "petri"})
        and container_words & (_NOT_FLAT | {"flask", "dish", "cuvette"})
    ):
        yield error_finding("L05", view.name, "a microplate", view.container[:60], text)
    elif transition.action == "UseMicroscope" and not container_words & _FLAT and container_words & _NOT_FLAT:
        yield error_finding("L05", view.name, "a plate, dish, flask or slide", view.container[:60], text)
    elif transition.action == "Thermocycler" and not container_words & {"pcr", "plate", "well", "strip"}:
        size = _parse_nominal_size(view)
        # PCR tubes hold 0.2 mL; 1.5 mL and more never fit a thermocycler.
        if size is not None and size >= 1500:
            yield error_finding("L05", view.name, "a PCR tube or plate", view.container[:60], text)


def _format_volume(volume: Decimal) -> str:
    return units.format_value(volume, "volume")
