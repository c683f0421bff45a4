"""L02 and L07: what comes out is not more than what went in, and nobody takes more than there is."""

from decimal import Decimal

from simulation.checker.amounts.totals import all_together, show, slack, slacks
from simulation.checker.findings import Ran, Said, error, undecided, warning
from simulation.checker.reading import families, flows, matching
from simulation.checker.reading.flows import Draw, Fill
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.records import optics, replicates

ZERO = Decimal(0)


PIPETTING = Decimal("0.05")  # of what is moved


_HANDLING = Decimal("0.02")  # of what is there


_GAIN = Decimal("0.01")


_DROPLET = Decimal("0.5")  # µL


def volumes(transition: Transition) -> Said:
    """L02 for every action: the sum over all, and each material by itself."""
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
    if transition.family in (families.INERT, families.HEAT, families.TAKE, *families.MEASUREMENTS):
        for before, after in transition.pairs():
            yield from _unfed(transition, before, after)


def overdraw(transition: Transition) -> Said:
    """L07: no more is moved out of a material than it holds above its dead volume."""
    if not transition.success or transition.family not in (families.MOVE, families.ADD, families.SERIAL):
        return
    for draw in flows.of(transition).draws:
        if draw.volume is None or draw.source.unlimited or not draw.stated:
            continue
        have = draw.source.held
        if have is None:
            yield undecided("L07", draw.source.name, "how much it holds is not known")
            continue
        usable = have - (draw.source.dead.value if draw.source.dead else ZERO)
        yield Ran("L07", quantity=True)
        if draw.volume > usable + slack(draw.source) + draw.volume / 100:
            yield error("L07", draw.source.name, f"at most {show(usable)}", show(draw.volume),
                        f"{show(draw.volume)} were taken from {draw.source.name}, which held {show(usable)} usable", "1 %")  # fmt: skip


def _drawn(transition: Transition, draw: Draw) -> Said:
    """What is left of a source is what it held less what was taken."""
    source, left = draw.source, draw.left
    if source.unlimited or left is None or left.gone or draw.volume is None or transition.family == families.COMBINE:
        return
    if source.held is None or left.held is None:
        yield undecided("L02", source.name, "what it held or what is left of it is not known")
        return
    if not draw.stated:
        return
    yield Ran("L02", quantity=True)
    expected = source.held - draw.volume
    unchanged = left.held == source.held
    rounding = source.held / 1000 if unchanged else slack(left) + slack(source)
    above = draw.volume * PIPETTING + rounding
    below = draw.volume * PIPETTING + source.held * _HANDLING + rounding
    if left.held > expected + above or left.held < expected - below:
        yield error("L02", left.name, show(max(ZERO, expected)), show(left.held),
                    f"{source.name} held {show(source.held)}, {show(draw.volume)} were taken, and {show(left.held)} are left",
                    "5 % of what is moved")  # fmt: skip


def _filled(transition: Transition, fill: Fill) -> Said:
    """What is in a vessel is what was put into it."""
    expected, got = fill.volume, fill.output.held
    if expected is None or got is None or fill.output.volume is None:
        yield undecided("L02", fill.output.name, "what went in or what is there now is not known")
        return
    yield Ran("L02", quantity=True)
    added = sum((part.volume or ZERO for part in fill.parts), ZERO)
    solids = any(part.source.phase in ("solid", "pellet") for part in fill.parts)
    tolerance = (
        added * (PIPETTING * 2 if solids else Decimal("0.03"))
        + slack(fill.output)
        + slacks(p.source for p in fill.parts)
        + _DROPLET
    )
    if abs(got - expected) > tolerance:
        yield error("L02", fill.output.name, show(expected), show(got),
                    f"{_told(fill)} make {show(expected)}; {fill.output.name} holds {show(got)}", "3 %")  # fmt: skip


def _unfed(transition: Transition, before: View, after: View) -> Said:
    """What nothing was added to does not hold more than before; what nothing was taken from not much less."""
    if before.volume is None or after.volume is None or after.gone or before.unlimited:
        return
    if transition.action in (*families.ADDS_FROM_PARAMETERS, "Dialysis") or _was_fed(transition, before):
        return  # Water crosses the membrane of a dialysis.
    yield Ran("L02", quantity=True)
    had, has = before.volume.value, after.volume.value
    if has > had + had * _GAIN + min(slack(before) + slack(after), had / 50):
        yield error("L02", after.name, f"at most {show(had)}", show(has),
                    f"{after.name} held {show(had)} and holds {show(has)} though nothing was added", "1 %")  # fmt: skip
        return
    most = _allowed_loss(transition, before)
    lost_too_much = most is not None and has < had - most - slack(before) - slack(after) - _DROPLET
    if lost_too_much and not _is_readings(transition, had - has):
        yield error("L02", after.name, f"about {show(had)}", show(has),
                    f"{after.name} held {show(had)} and holds only {show(has)} though nothing was taken off", "2 %")  # fmt: skip
    elif transition.family == families.CONSUME:
        yield from _used(transition, before, after)


def _split(transition: Transition) -> Said:
    """A filtrate or a supernatant is missing where it came from."""
    for before, after in transition.pairs():
        parts = [view for view in transition.kept if transition.before(view) is None and _is_part(view, before)]
        if before.unlimited or after.gone or not parts or before.volume is None or after.held is None:
            continue
        if any(view.held is None for view in parts) or transition.action not in ("Filter", "Aspirate"):
            continue
        yield Ran("L02", quantity=True)
        total = after.held + sum((view.held or ZERO for view in parts), ZERO)
        if total > before.volume.value * (1 + _GAIN) + slacks([before, after, *parts]):
            yield error("L02", before.name, f"at most {show(before.volume.value)}", show(total),
                        f"{before.name} held {show(before.volume.value)}; it and what was taken from it hold {show(total)}", "1 %")  # fmt: skip


def _is_part(view: View, source: View) -> bool:
    """It says it came from this alone, or bears its name: that of "Flask 1" stands in "Filtrate of Flask 1", not of 10."""
    claimed = matching.parents(view)
    if claimed:
        return list(claimed) == [source.barcode]
    own, whole = source.name.lower(), view.name.lower()
    at = whole.find(own)
    return own != "" and at >= 0 and not whole[at + len(own) : at + len(own) + 1].isalnum()


def _was_fed(transition: Transition, before: View) -> bool:
    """Other wet materials of the action may have been poured onto it."""
    if transition.family in (families.INERT, families.HEAT):
        return False
    return any(key for key, view in transition.parameters.named.items() if view is not before)


def _allowed_loss(transition: Transition, before: View) -> Decimal | None:
    """What may go without a word, in µL; None where more may go than can be said."""
    assert before.volume is not None
    had = before.volume.value
    if transition.family == families.INERT:
        return had * (PIPETTING if transition.action in ("Mix", "Centrifuge") else Decimal("0.1"))
    if transition.family == families.READ:
        repeats = replicates.number(transition) or 1
        return had * Decimal("0.1") + repeats * sum((a.value for _, a in optics.all_set(transition, "volume")), ZERO)
    return None


def _is_readings(transition: Transition, lost: Decimal) -> bool:
    """A sample read several times is used up several times over, also where nobody says how often."""
    if transition.family != families.READ:
        return False
    each = {a.value for leaf, a in optics.all_set(transition, "volume") if "sample" in leaf.words and a.value > 0}
    return any(abs(lost - times * one) <= one / 50 for one in each for times in range(1, 7))


def _used(transition: Transition, before: View, after: View) -> Said:
    """An instrument that takes a stated volume of its sample leaves that much less; many simulators do not count it."""
    taken = [
        a
        for leaf, a in transition.parameters.amounts("volume")
        if {"injection", "load", "loading", "sample"} & set(leaf.words)
    ]
    if before.volume is None or after.volume is None or len(taken) != 1 or after.volume.value != before.volume.value:
        return
    others = [
        (b.volume.value, a.volume.value) for b, a in transition.pairs() if b is not before and b.volume and a.volume
    ]
    if taken[0].value * 200 >= before.volume.value and others and all(has < had for had, has in others):
        yield error("L02", after.name, f"{show(taken[0].value)} less than {show(before.volume.value)}", show(after.volume.value),
                    f"{show(taken[0].value)} of every sample were used up, and {after.name} alone holds what it held")  # fmt: skip
    elif taken[0].value * 100 >= before.volume.value:
        yield warning("L02", after.name, f"{show(taken[0].value)} less than {show(before.volume.value)}", show(after.volume.value),
                      f"{show(taken[0].value)} of it were used up and its volume is what it was")  # fmt: skip


def _told(fill: Fill) -> str:
    return " and ".join(f"{show(part.volume or ZERO)} of {part.source.name}" for part in fill.parts)[:200]
