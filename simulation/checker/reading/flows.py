"""What went into each output: the input it continues, and what was added to it from where. Only where that is clear."""

from decimal import Decimal
from typing import NamedTuple

from simulation.checker.reading import families, ladders, roles
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition

ZERO = Decimal(0)


class Part(NamedTuple):
    """A volume that went in, in µL (None: unknown), out of one input."""

    source: View
    volume: Decimal | None


class Fill(NamedTuple):
    """An output and everything that was put together in it. `stated`: volumes follow from parameters alone."""

    output: View
    parts: tuple[Part, ...]
    stated: bool

    @property
    def volume(self) -> Decimal | None:
        """What the parts add up to; None if one is unknown."""
        total = ZERO
        for part in self.parts:
            if part.volume is None:
                return None
            total += part.volume
        return total


class Draw(NamedTuple):
    """A source, what left it (None: unknown), what is left of it (None: no such output); `stated` by parameters alone."""

    source: View
    volume: Decimal | None
    left: View | None
    stated: bool = False


class Flow(NamedTuple):
    """All fills and draws of a transition; `why` says what could not be told, if anything."""

    fills: tuple[Fill, ...] = ()
    draws: tuple[Draw, ...] = ()
    why: str = ""


def of(transition: Transition) -> Flow:
    """What moved, by the family of the action."""
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
    left = transition.after(source)
    others = [view for view in transition.inputs if view is not source]
    filled = [view for view in transition.outputs if view is not left and not view.gone]
    moved = transition.parameters.moved()
    each = moved.value if moved else None
    stated = each is not None
    if each is None:
        each = _lost(source, left, len(filled), transition)
    fills = []
    for output in filled:
        start = transition.before(output)
        if start is None and not _starts_empty(output, others, transition):
            return Flow(why=f"it is not clear what was in {output.name} before")
        parts = [Part(source, each)] if start is None else [Part(start, start.held), Part(source, each)]
        fills.append(Fill(output, tuple(parts), stated))
    total = each * len(filled) if each is not None and filled else None
    if total is not None and len(filled) == 1 and filled[0].volume is None:
        # One plate stands for all its wells.
        total *= transition.parameters.wells() or 1
    return Flow(tuple(fills), (Draw(source, total, left, stated),))


def _starts_empty(output: View, others: list[View], transition: Transition) -> bool:
    """A new vessel: nothing wet among the other materials is without its output."""
    open_inputs = [view for view in others if transition.after(view) is None]
    return not any(not view.supply and view.held != 0 and not view.unlimited for view in open_inputs)


def _lost(source: View, left: View | None, into: int, transition: Transition) -> Decimal | None:
    """What each of them got if no parameter says: all the source lost; of one that is not handed back, everything."""
    if source.unlimited or source.held is None or into != 1 or transition.parameters.amounts("mass"):
        return None
    if left is None or left.gone:
        return source.held
    return None if left.held is None else max(ZERO, source.held - left.held)


def _add(transition: Transition) -> Flow:
    solvent = roles.solvent_of(transition)
    if solvent is None:
        return Flow(why="it is not clear which material was added")
    left = transition.after(solvent)
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
        total = None if added is None or total is None else total + added  # type: ignore[assignment]
    stated = bool(fills) and all(fill.stated for fill in fills)
    return Flow(tuple(fills), (Draw(solvent, total if fills else None, left, stated),))


def _new_vessel(transition: Transition, sample: View) -> View | None:
    """The one new material of a dilution that leaves the rest of its sample behind."""
    left = transition.after(sample)
    new = [view for view in transition.kept if transition.before(view) is None and not view.supply]
    if left is None or left.gone or len(new) != 1 or left.held is None or sample.held is None:
        return None
    return new[0] if left.held < sample.held else None


def _diluted(transition: Transition, sample: View, solvent: View, output: View) -> Flow:
    """A portion of the sample, and what brings it to the factor or the total."""
    left, rest = transition.after(sample), transition.after(solvent)
    said = transition.parameters.portion(frozenset(sample.words))
    portion = said.value if said else None
    if portion is None and left is not None and left.held is not None and sample.held is not None:
        portion = sample.held - left.held
    total, factor = transition.parameters.total(), transition.parameters.factor()
    added = None
    if portion is not None and total is not None:
        added = max(ZERO, total.value - portion)
    elif portion is not None and factor is not None:
        added = portion * (factor - 1)
    elif solvent.held is not None and rest is not None and rest.held is not None:
        added = max(ZERO, solvent.held - rest.held)
    stated = total is not None or factor is not None
    fill = Fill(output, (Part(sample, portion), Part(solvent, added)), stated)
    return Flow((fill,), (Draw(sample, portion, left, said is not None), Draw(solvent, added, rest, stated)))


def _addition(transition: Transition, sample: View, output: View) -> tuple[Decimal | None, bool]:
    """(solvent added, whether the parameters say so)."""
    total, added, factor = transition.parameters.total(), transition.parameters.added(), transition.parameters.factor()
    if transition.action == "FillToVolume" and total is None and len(transition.parameters.volumes()) == 1:
        total, added = transition.parameters.amounts("volume")[0][1], None
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
        left = transition.after(source)
        rest = left.held if left and not left.gone else ZERO
        taken = None if source.held is None or rest is None else max(ZERO, source.held - rest)
        parts.append(Part(source, taken))
        draws.append(Draw(source, taken, left))
    parts += [Part(view, None) for view in transition.inputs if view.unlimited and not view.supply]
    return Flow((Fill(pools[0], tuple(parts), False),), tuple(draws))


def _serial(transition: Transition) -> Flow:
    """What leaves sample and diluent; what each dilution holds then follows from the ladder."""
    asked = ladders.ladder(transition)
    if asked is None:
        return Flow(why="it is not clear which material is diluted with which")
    sample, diluent, moved, added, _, steps = asked
    total = added * steps if added is not None and steps is not None else None
    draws = (
        Draw(sample, moved, transition.after(sample), moved is not None),
        Draw(diluent, total, transition.after(diluent), total is not None),
    )
    return Flow((), draws)
