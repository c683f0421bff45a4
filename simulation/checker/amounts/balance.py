"""L02 and L07: no more liquid comes out than went in, and nobody takes more than there is."""

from decimal import Decimal

from simulation.checker.amounts.totals import all_together, show, slack, slacks
from simulation.checker.findings import Ran, Said, error, undecided, warning
from simulation.checker.reading import families, flows, matching
from simulation.checker.reading.flows import Draw, Fill
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.records import optics, replicates

ZERO = Decimal(0)
PIPETTING = Decimal("0.05")  # of the moved volume: error of a pipette
_HANDLING = Decimal("0.02")  # of the volume in the vessel: film on the wall, evaporation
_GAIN = Decimal("0.01")  # of the volume before: rounding, not an addition
_DROPLET = Decimal("0.5")  # µL; for volumes so small that a share of them is nothing


def volumes(transition: Transition) -> Said:
    """L02: compare volumes before and after, of all materials together and of each one."""
    if not transition.success:
        return
    yield from all_together(transition)
    flow = flows.of(transition)
    if flow.why:
        yield undecided("L02", transition.action, f"volumes cannot be followed: {flow.why}")
    for draw in flow.draws:
        yield from _drawn(transition, draw)
    for fill in flow.fills:
        yield from _filled(transition, fill)
    if transition.family == families.TAKE:
        yield from _split(transition)
    # Only for actions that do not pour one material into another.
    if transition.family in (families.INERT, families.HEAT, families.TAKE, *families.MEASUREMENTS):
        for before, after in transition.pairs():
            yield from _unfed(transition, before, after)


def overdraw(transition: Transition) -> Said:
    """L07: no more is moved out of a material than it holds above its dead volume."""
    if not transition.success or transition.family not in (families.MOVE, families.ADD, families.SERIAL):
        return
    for draw in flows.of(transition).draws:
        # A volume derived from what is left cannot exceed what was there.
        if draw.volume is None or draw.source.unlimited or not draw.stated:
            continue
        available = draw.source.held
        if available is None:
            yield undecided("L07", draw.source.name, "its volume is not known")
            continue
        usable = available - (draw.source.dead.value if draw.source.dead else ZERO)
        yield Ran("L07", quantity=True)
        if draw.volume > usable + slack(draw.source) + draw.volume / 100:
            yield error("L07", draw.source.name, f"at most {show(usable)}", show(draw.volume),
                        f"{show(draw.volume)} was taken from {draw.source.name}, which had a usable volume of {show(usable)}", "1 %")  # fmt: skip


def _drawn(transition: Transition, draw: Draw) -> Said:
    """What is left of a source is its volume before minus the volume taken."""
    source, remainder = draw.source, draw.left
    if (
        source.unlimited
        or remainder is None
        or remainder.gone
        or draw.volume is None
        or transition.family == families.COMBINE
    ):
        return
    if source.held is None or remainder.held is None:
        yield undecided("L02", source.name, "its volume before or after is not known")
        return
    if not draw.stated:
        return
    yield Ran("L02", quantity=True)
    expected = source.held - draw.volume
    # The same number twice is no rounding: the volume was copied and the draw forgotten.
    is_unchanged = remainder.held == source.held
    rounding = source.held / 1000 if is_unchanged else slack(remainder) + slack(source)
    tolerance_above = draw.volume * PIPETTING + rounding
    # Liquid is lost by handling but never gained, so the lower limit is wider.
    tolerance_below = draw.volume * PIPETTING + source.held * _HANDLING + rounding
    if remainder.held > expected + tolerance_above or remainder.held < expected - tolerance_below:
        yield error("L02", remainder.name, show(max(ZERO, expected)), show(remainder.held),
                    f"{source.name} held {show(source.held)}, {show(draw.volume)} was taken, and {show(remainder.held)} is left",
                    "5 % of the moved volume")  # fmt: skip


def _filled(transition: Transition, fill: Fill) -> Said:
    """The volume in a vessel is the sum of what was put into it."""
    expected, got = fill.volume, fill.output.held
    if expected is None or got is None or fill.output.volume is None:
        yield undecided("L02", fill.output.name, "the volume added or the volume now is not known")
        return
    yield Ran("L02", quantity=True)
    added = sum((part.volume or ZERO for part in fill.parts), ZERO)
    # A dissolved solid adds volume of its own, which no parameter states.
    solids = any(part.source.phase in ("solid", "pellet") for part in fill.parts)
    tolerance = (
        added * (PIPETTING * 2 if solids else Decimal("0.03"))
        + slack(fill.output)
        + slacks(p.source for p in fill.parts)
        + _DROPLET
    )
    if abs(got - expected) > tolerance:
        yield error("L02", fill.output.name, show(expected), show(got),
                    f"{_told(fill)} add up to {show(expected)}; {fill.output.name} holds {show(got)}", "3 %")  # fmt: skip


def _unfed(transition: Transition, before: View, after: View) -> Said:
    """A material to which nothing was added does not gain volume; one from which nothing was taken loses little."""
    if before.volume is None or after.volume is None or after.gone or before.unlimited:
        return
    if transition.action in (*families.ADDS_FROM_PARAMETERS, "Dialysis") or _was_fed(transition, before):
        return  # water crosses the membrane of a dialysis in both directions
    yield Ran("L02", quantity=True)
    volume_before, volume_after = before.volume.value, after.volume.value
    if volume_after > volume_before + volume_before * _GAIN + min(slack(before) + slack(after), volume_before / 50):
        yield error("L02", after.name, f"at most {show(volume_before)}", show(volume_after),
                    f"{after.name} held {show(volume_before)} and now holds {show(volume_after)}, although nothing was added", "1 %")  # fmt: skip
        return
    allowed_loss = _allowed_loss(transition, before)
    lost_too_much = (
        allowed_loss is not None
        and volume_after < volume_before - allowed_loss - slack(before) - slack(after) - _DROPLET
    )
    if lost_too_much and not _is_readings(transition, volume_before - volume_after):
        yield error("L02", after.name, f"about {show(volume_before)}", show(volume_after),
                    f"{after.name} held {show(volume_before)} and now holds only {show(volume_after)}, although nothing was removed", "2 %")  # fmt: skip
    elif transition.family == families.CONSUME:
        yield from _used(transition, before, after)


def _split(transition: Transition) -> Said:
    """Filtrate or supernatant and what remains hold no more together than the material did before."""
    for before, after in transition.pairs():
        separated = [view for view in transition.kept if transition.before(view) is None and _is_part(view, before)]
        if before.unlimited or after.gone or not separated or before.volume is None or after.held is None:
            continue
        if any(view.held is None for view in separated) or transition.action not in ("Filter", "Aspirate"):
            continue
        yield Ran("L02", quantity=True)
        total_after = after.held + sum((view.held or ZERO for view in separated), ZERO)
        if total_after > before.volume.value * (1 + _GAIN) + slacks([before, after, *separated]):
            yield error("L02", before.name, f"at most {show(before.volume.value)}", show(total_after),
                        f"{before.name} held {show(before.volume.value)}; it and what was separated from it hold {show(total_after)} together", "1 %")  # fmt: skip


def _is_part(view: View, source: View) -> bool:
    """Return whether a view names this source as its only origin, or has its name in its own.

    "Flask 1" is in the name "Filtrate of Flask 1", but not in "Filtrate of Flask 10".
    """
    origins = matching.parents(view)
    if origins:
        return list(origins) == [source.barcode]
    source_name, part_name = source.name.lower(), view.name.lower()
    position = part_name.find(source_name)
    return (
        source_name != ""
        and position >= 0
        and not part_name[position + len(source_name) : position + len(source_name) + 1].isalnum()
    )


def _was_fed(transition: Transition, before: View) -> bool:
    """Return whether another wet material of the action may have been poured onto it."""
    if transition.family in (families.INERT, families.HEAT):
        return False
    return any(key for key, view in transition.parameters.named.items() if view is not before)


def _allowed_loss(transition: Transition, before: View) -> Decimal | None:
    """Return the volume in µL that may be lost without mention, or None if no limit is known."""
    assert before.volume is not None
    volume_before = before.volume.value
    if transition.family == families.INERT:
        return volume_before * (PIPETTING if transition.action in ("Mix", "Centrifuge") else Decimal("0.1"))
    if transition.family == families.READ:
        repeats = replicates.number(transition) or 1
        return volume_before * Decimal("0.1") + repeats * sum(
            (a.value for _, a in optics.all_set(transition, "volume")), ZERO
        )
    return None


def _is_readings(transition: Transition, lost: Decimal) -> bool:
    """Return whether a loss is a whole number of readings, also if no parameter states how many."""
    if transition.family != families.READ:
        return False
    sample_volumes = {
        a.value for leaf, a in optics.all_set(transition, "volume") if "sample" in leaf.words and a.value > 0
    }
    return any(
        abs(lost - repeats * sample_volume) <= sample_volume / 50
        for sample_volume in sample_volumes
        for repeats in range(1, 7)
    )  # nobody reads a sample more often


def _used(transition: Transition, before: View, after: View) -> Said:
    """Warn if an instrument takes a stated volume of its sample and the volume stays the same."""
    used_volumes = [
        a
        for leaf, a in transition.parameters.amounts("volume")
        if {"injection", "load", "loading", "sample"} & set(leaf.words)
    ]
    if (
        before.volume is None
        or after.volume is None
        or len(used_volumes) != 1
        or after.volume.value != before.volume.value
    ):
        return
    # Many simulators do not count what an instrument uses; if this one counts it for all other samples of the
    # step, the difference is an error.
    other_volumes = [
        (b.volume.value, a.volume.value) for b, a in transition.pairs() if b is not before and b.volume and a.volume
    ]
    if (
        used_volumes[0].value * 200 >= before.volume.value
        and other_volumes
        and all(has < had for had, has in other_volumes)
    ):
        yield error("L02", after.name, f"{show(used_volumes[0].value)} less than {show(before.volume.value)}", show(after.volume.value),
                    f"{show(used_volumes[0].value)} of every sample was used up; only the volume of {after.name} is unchanged")  # fmt: skip
    elif used_volumes[0].value * 100 >= before.volume.value:
        yield warning("L02", after.name, f"{show(used_volumes[0].value)} less than {show(before.volume.value)}", show(after.volume.value),
                      f"{show(used_volumes[0].value)} of it was used up, but its volume is unchanged")  # fmt: skip


def _told(fill: Fill) -> str:
    return " and ".join(f"{show(part.volume or ZERO)} of {part.source.name}" for part in fill.parts)[:200]
