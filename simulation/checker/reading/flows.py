"""Trace liquid: the input that each output continues, and what was added to it. Only where that is clear."""

from decimal import Decimal
from typing import NamedTuple

from simulation.checker.reading import families, ladders, roles
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition

ZERO = Decimal(0)


class Part(NamedTuple):
    """A volume in µL that was taken out of one input and added to an output; None if unknown."""

    source: View
    volume: Decimal | None


class Fill(NamedTuple):
    """An output and everything that was put into it. `stated`: the volumes follow from parameters alone."""

    output: View
    parts: tuple[Part, ...]
    stated: bool

    @property
    def volume(self) -> Decimal | None:
        """Sum of the parts in µL, or None if one is unknown."""
        total = ZERO
        for part in self.parts:
            if part.volume is None:
                return None
            total += part.volume
        return total


class Draw(NamedTuple):
    """A source, the volume taken out of it and the output that remains.

    The volume is None if unknown, the output is None if there is none. `stated`: the volume follows from parameters alone.
    """

    source: View
    volume: Decimal | None
    left: View | None
    stated: bool = False


class Flow(NamedTuple):
    """All fills and withdrawals of a transition; `why` is the reason if they could not be traced."""

    fills: tuple[Fill, ...] = ()
    draws: tuple[Draw, ...] = ()
    why: str = ""


def of(transition: Transition) -> Flow:
    """Return the liquid flow of a transition, by the family of its action."""
    # Most checks of amounts need the flow; tracing links parameters, inputs and outputs and is the costly part.
    if "flow" not in transition.memo:
        transition.memo["flow"] = _of(transition)
    flow: Flow = transition.memo["flow"]
    return flow


def _of(transition: Transition) -> Flow:
    match transition.family:
        case families.MOVE:
            return _move(transition)
        case families.ADD:
            return _add(transition)
        case families.COMBINE:
            return _combine(transition)
        case families.SERIAL:
            return _serial(transition)
    return Flow()


def _move(transition: Transition) -> Flow:
    source = roles.source_of(transition)
    if source is None:
        return Flow(why="it is not clear which material was drawn from")
    remainder = transition.after(source)
    others = [view for view in transition.inputs if view is not source]
    filled_outputs = [view for view in transition.outputs if view is not remainder and not view.gone]
    moved_volume = transition.parameters.moved()
    volume_each = moved_volume.value if moved_volume else None
    is_stated = volume_each is not None
    if volume_each is None:
        volume_each = _lost(source, remainder, len(filled_outputs), transition)
    fills = []
    for output in filled_outputs:
        input_before = transition.before(output)
        if input_before is None and not _starts_empty(output, others, transition):
            return Flow(why=f"it is not clear what was in {output.name} before")
        parts = (
            [Part(source, volume_each)]
            if input_before is None
            else [Part(input_before, input_before.held), Part(source, volume_each)]
        )
        fills.append(Fill(output, tuple(parts), is_stated))
    total = volume_each * len(filled_outputs) if volume_each is not None and filled_outputs else None
    if total is not None and len(filled_outputs) == 1 and filled_outputs[0].volume is None:
        # Simulators describe a filled plate as one material without a volume: the volume goes into each of its wells.
        total *= transition.parameters.wells() or 1
    return Flow(tuple(fills), (Draw(source, total, remainder, is_stated),))


def _starts_empty(output: View, others: list[View], transition: Transition) -> bool:
    """Return whether an output without input is a new vessel: every other input with liquid has its own output."""
    open_inputs = [view for view in others if transition.after(view) is None]
    return not any(not view.supply and view.held != 0 and not view.unlimited for view in open_inputs)


def _lost(source: View, left: View | None, into: int, transition: Transition) -> Decimal | None:
    """Return the volume that one destination received if no parameter states it, or None.

    It is what the source lost; a source that is not handed back lost everything.
    """
    # With several destinations the split is unknown; with a weighed portion the loss in volume is another
    # quantity.
    if source.unlimited or source.held is None or into != 1 or transition.parameters.amounts("mass"):
        return None
    if left is None or left.gone:
        return source.held
    return None if left.held is None else max(ZERO, source.held - left.held)


def _add(transition: Transition) -> Flow:
    solvent = roles.solvent_of(transition)
    if solvent is None:
        return Flow(why="it is not clear which material was added")
    remainder = transition.after(solvent)
    samples = [view for view in transition.inputs if view is not solvent and not view.supply and not view.unlimited]
    if len(samples) == 1 and (vessel := _new_vessel(transition, samples[0])) is not None:
        return _diluted(transition, samples[0], solvent, vessel)
    fills, total = [], ZERO
    for sample in samples:
        output = transition.after(sample)
        if output is None:
            return Flow(why=f"it is not clear what became of {sample.name}")
        added, stated = _addition(transition, sample, output)
        fills.append(Fill(output, (Part(sample, sample.held), Part(solvent, added)), stated))
        # One unknown addition makes the total unknown.
        total = None if added is None or total is None else total + added  # type: ignore[assignment]
    stated = bool(fills) and all(fill.stated for fill in fills)
    return Flow(tuple(fills), (Draw(solvent, total if fills else None, remainder, stated),))


def _new_vessel(transition: Transition, sample: View) -> View | None:
    """Return the one new material of a dilution that leaves the rest of its sample behind, or None."""
    remainder = transition.after(sample)
    new_outputs = [view for view in transition.kept if transition.before(view) is None and not view.supply]
    if remainder is None or remainder.gone or len(new_outputs) != 1 or remainder.held is None or sample.held is None:
        return None
    return new_outputs[0] if remainder.held < sample.held else None


def _diluted(transition: Transition, sample: View, solvent: View, output: View) -> Flow:
    """Trace a portion of the sample plus the solvent that reaches the stated factor or total."""
    sample_left, solvent_left = transition.after(sample), transition.after(solvent)
    stated_portion = transition.parameters.portion(frozenset(sample.words))
    portion = stated_portion.value if stated_portion else None
    if portion is None and sample_left is not None and sample_left.held is not None and sample.held is not None:
        portion = sample.held - sample_left.held
    total, factor = transition.parameters.total(), transition.parameters.factor()
    added = None
    # Most certain first: the stated total, the stated factor, then what the solvent lost.
    if portion is not None and total is not None:
        added = max(ZERO, total.value - portion)
    elif portion is not None and factor is not None:
        added = portion * (factor - 1)
    elif solvent.held is not None and solvent_left is not None and solvent_left.held is not None:
        added = max(ZERO, solvent.held - solvent_left.held)
    is_stated = total is not None or factor is not None
    fill = Fill(output, (Part(sample, portion), Part(solvent, added)), is_stated)
    return Flow(
        (fill,),
        (Draw(sample, portion, sample_left, stated_portion is not None), Draw(solvent, added, solvent_left, is_stated)),
    )


def _addition(transition: Transition, sample: View, output: View) -> tuple[Decimal | None, bool]:
    """Return (volume of solvent added, whether the parameters state it)."""
    total, added, factor = transition.parameters.total(), transition.parameters.added(), transition.parameters.factor()
    # The only volume of this action is the one to fill up to, whatever its parameter is called.
    if transition.action == "FillToVolume" and total is None and len(transition.parameters.volumes()) == 1:
        total, added = transition.parameters.amounts("volume")[0][1], None
    # The two parameters may contradict each other, so neither is used.
    if total is not None and added is not None:
        return None, False
    if sample.held is None:
        return None, False
    if total is not None and total.value >= sample.held:
        return total.value - sample.held, True
    if added is not None:
        return added.value, True
    if factor is not None and total is None:
        return sample.held * (factor - 1), True
    return (None if output.held is None else max(ZERO, output.held - sample.held)), False


def _combine(transition: Transition) -> Flow:
    pools = [view for view in transition.kept if transition.before(view) is None]
    if len(pools) != 1:
        return Flow(why="it is not clear which material is the combined one")
    parts, draws = [], []
    for source in transition.limited:
        if source.supply:
            continue
        remainder = transition.after(source)
        volume_left = remainder.held if remainder and not remainder.gone else ZERO
        taken_volume = None if source.held is None or volume_left is None else max(ZERO, source.held - volume_left)
        parts.append(Part(source, taken_volume))
        draws.append(Draw(source, taken_volume, remainder))
    parts += [Part(view, None) for view in transition.inputs if view.unlimited and not view.supply]
    return Flow((Fill(pools[0], tuple(parts), False),), tuple(draws))


def _serial(transition: Transition) -> Flow:
    """Return what leaves sample and diluent; the volume of each dilution follows from the series."""
    series = ladders.ladder(transition)
    if series is None:
        return Flow(why="it is not clear which material is diluted with which")
    sample, diluent, moved_volume, added_volume, _, steps = series
    total = added_volume * steps if added_volume is not None and steps is not None else None
    draws = (
        Draw(sample, moved_volume, transition.after(sample), moved_volume is not None),
        Draw(diluent, total, transition.after(diluent), total is not None),
    )
    return Flow((), draws)
