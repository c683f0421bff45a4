"""Trace liquids: what was put into each output and what was taken from each input, where this is clear."""

from decimal import Decimal
from typing import NamedTuple

from simulation.checker.reading import dilution_series, families, roles
from simulation.checker.reading.material_view import MaterialView
from simulation.checker.reading.transition import Transition

ZERO = Decimal(0)


class Portion(NamedTuple):
    """A volume in µL that was taken out of one input and added to an output. The volume is None if unknown."""

    source: MaterialView
    volume: Decimal | None


class FilledOutput(NamedTuple):
    """An output and everything that was put into it. `is_stated` is True if the volumes follow from parameters."""

    output: MaterialView
    parts: tuple[Portion, ...]
    is_stated: bool

    @property
    def total_volume(self) -> Decimal | None:
        """Return the sum of the parts in µL, or None if any of them is unknown."""
        total = ZERO
        for part in self.parts:
            if part.volume is None:
                return None
            total += part.volume
        return total


class Withdrawal(NamedTuple):
    """A source, the volume taken out of it and the output that remains.

    The volume is None if unknown; the remainder is None if there is none. `is_stated` is True if the volume follows
    from parameters alone.
    """

    source: MaterialView
    volume: Decimal | None
    remainder: MaterialView | None
    is_stated: bool = False


class LiquidFlow(NamedTuple):
    """All fills and withdrawals of a transition. `untraced_reason` is not empty if they could not be traced."""

    fills: tuple[FilledOutput, ...] = ()
    withdrawals: tuple[Withdrawal, ...] = ()
    untraced_reason: str = ""


def trace_liquids(transition: Transition) -> LiquidFlow:
    """Return the liquid flow of a transition. The family of its action determines how it is traced."""
    # The result is stored, because most checks of amounts need it and tracing is costly.
    if "flow" not in transition.memo:
        transition.memo["flow"] = _trace_by_family(transition)
    flow: LiquidFlow = transition.memo["flow"]
    return flow


def _trace_by_family(transition: Transition) -> LiquidFlow:
    match transition.family:
        case families.MOVE:
            return _trace_transfer(transition)
        case families.ADD:
            return _trace_addition(transition)
        case families.COMBINE:
            return _trace_combination(transition)
        case families.SERIAL:
            return _trace_series(transition)
    return LiquidFlow()


def _trace_transfer(transition: Transition) -> LiquidFlow:
    source = roles.find_source(transition)
    if source is None:
        return LiquidFlow(untraced_reason="it is not clear which material was drawn from")
    remainder = transition.find_output(source)
    others = [view for view in transition.inputs if view is not source]
    filled_outputs = [view for view in transition.outputs if view is not remainder and not view.is_used_up]
    moved_volume = transition.parameters.find_moved_volume()
    volume_each = moved_volume.value if moved_volume else None
    is_stated = volume_each is not None
    if volume_each is None:
        volume_each = _find_lost_volume(source, remainder, len(filled_outputs), transition)
    fills = []
    for output in filled_outputs:
        input_before = transition.find_input(output)
        if input_before is None and not _starts_empty(output, others, transition):
            return LiquidFlow(untraced_reason=f"it is not clear what was in {output.name} before")
        parts = (
            [Portion(source, volume_each)]
            if input_before is None
            else [Portion(input_before, input_before.liquid_volume), Portion(source, volume_each)]
        )
        fills.append(FilledOutput(output, tuple(parts), is_stated))
    total = volume_each * len(filled_outputs) if volume_each is not None and filled_outputs else None
    if total is not None and len(filled_outputs) == 1 and filled_outputs[0].volume is None:
        # Simulators describe a filled plate as one material without a volume: the volume goes into each of its wells.
        total *= transition.parameters.count_wells() or 1
    return LiquidFlow(tuple(fills), (Withdrawal(source, total, remainder, is_stated),))


def _starts_empty(output: MaterialView, others: list[MaterialView], transition: Transition) -> bool:
    """Return whether an output without input was empty before: every other input with liquid has its own output."""
    open_inputs = [view for view in others if transition.find_output(view) is None]
    return not any(
        not view.is_empty_vessel and view.liquid_volume != 0 and not view.is_unlimited for view in open_inputs
    )


def _find_lost_volume(
    source: MaterialView, remainder: MaterialView | None, destinations: int, transition: Transition
) -> Decimal | None:
    """Return the volume in µL that the only destination received if no parameter states it, or None if unclear.

    It is what the source lost; a source that is not handed back lost everything.
    """
    # With several destinations it is unknown how the volume was split; the volume of a weighed portion is unknown too.
    if (
        source.is_unlimited
        or source.liquid_volume is None
        or destinations != 1
        or transition.parameters.list_amounts("mass")
    ):
        return None
    if remainder is None or remainder.is_used_up:
        return source.liquid_volume
    return None if remainder.liquid_volume is None else max(ZERO, source.liquid_volume - remainder.liquid_volume)


def _trace_addition(transition: Transition) -> LiquidFlow:
    solvent = roles.find_solvent(transition)
    if solvent is None:
        return LiquidFlow(untraced_reason="it is not clear which material was added")
    remainder = transition.find_output(solvent)
    samples = [
        view for view in transition.inputs if view is not solvent and not view.is_empty_vessel and not view.is_unlimited
    ]
    if len(samples) == 1 and (vessel := _find_new_vessel(transition, samples[0])) is not None:
        return _trace_portion_dilution(transition, samples[0], solvent, vessel)
    fills, total = [], ZERO
    for sample in samples:
        output = transition.find_output(sample)
        if output is None:
            return LiquidFlow(untraced_reason=f"it is not clear what became of {sample.name}")
        added, stated = _find_added_solvent(transition, sample, output)
        fills.append(FilledOutput(output, (Portion(sample, sample.liquid_volume), Portion(solvent, added)), stated))
        # One unknown addition makes the total unknown.
        total = None if added is None or total is None else total + added  # type: ignore[assignment]
    stated = bool(fills) and all(fill.is_stated for fill in fills)
    return LiquidFlow(tuple(fills), (Withdrawal(solvent, total if fills else None, remainder, stated),))


def _find_new_vessel(transition: Transition, sample: MaterialView) -> MaterialView | None:
    """Return the only new material of a dilution in which part of the sample remains, or None."""
    remainder = transition.find_output(sample)
    new_outputs = [
        view for view in transition.usable_outputs if transition.find_input(view) is None and not view.is_empty_vessel
    ]
    if (
        remainder is None
        or remainder.is_used_up
        or len(new_outputs) != 1
        or remainder.liquid_volume is None
        or sample.liquid_volume is None
    ):
        return None
    return new_outputs[0] if remainder.liquid_volume < sample.liquid_volume else None


def _trace_portion_dilution(
    transition: Transition, sample: MaterialView, solvent: MaterialView, output: MaterialView
) -> LiquidFlow:
    """Trace the dilution of a portion of the sample with as much solvent as the stated factor or total volume needs."""
    sample_left, solvent_left = transition.find_output(sample), transition.find_output(solvent)
    stated_portion = transition.parameters.find_portion_volume(frozenset(sample.name_words))
    portion = stated_portion.value if stated_portion else None
    if (
        portion is None
        and sample_left is not None
        and sample_left.liquid_volume is not None
        and sample.liquid_volume is not None
    ):
        portion = sample.liquid_volume - sample_left.liquid_volume
    total, factor = transition.parameters.find_total_volume(), transition.parameters.find_dilution_factor()
    added = None
    # Most certain first: the stated total, the stated factor, then what the solvent lost.
    if portion is not None and total is not None:
        added = max(ZERO, total.value - portion)
    elif portion is not None and factor is not None:
        added = portion * (factor - 1)
    elif solvent.liquid_volume is not None and solvent_left is not None and solvent_left.liquid_volume is not None:
        added = max(ZERO, solvent.liquid_volume - solvent_left.liquid_volume)
    is_stated = total is not None or factor is not None
    fill = FilledOutput(output, (Portion(sample, portion), Portion(solvent, added)), is_stated)
    return LiquidFlow(
        (fill,),
        (
            Withdrawal(sample, portion, sample_left, stated_portion is not None),
            Withdrawal(solvent, added, solvent_left, is_stated),
        ),
    )


def _find_added_solvent(
    transition: Transition, sample: MaterialView, output: MaterialView
) -> tuple[Decimal | None, bool]:
    """Return (volume of solvent added in µL, whether the parameters state it). The volume is None if unknown."""
    total, added, factor = (
        transition.parameters.find_total_volume(),
        transition.parameters.find_added_volume(),
        transition.parameters.find_dilution_factor(),
    )
    # The only volume of this action is the one to fill up to, whatever its parameter is called.
    if transition.action == "FillToVolume" and total is None and len(transition.parameters.list_volumes()) == 1:
        total, added = transition.parameters.list_amounts("volume")[0][1], None
    # The two parameters may contradict each other, so neither is used.
    if total is not None and added is not None:
        return None, False
    if sample.liquid_volume is None:
        return None, False
    if total is not None and total.value >= sample.liquid_volume:
        return total.value - sample.liquid_volume, True
    if added is not None:
        return added.value, True
    if factor is not None and total is None:
        return sample.liquid_volume * (factor - 1), True
    return (None if output.liquid_volume is None else max(ZERO, output.liquid_volume - sample.liquid_volume)), False


def _trace_combination(transition: Transition) -> LiquidFlow:
    pools = [view for view in transition.usable_outputs if transition.find_input(view) is None]
    if len(pools) != 1:
        return LiquidFlow(untraced_reason="it is not clear which material is the combined one")
    parts, draws = [], []
    for source in transition.limited_inputs:
        if source.is_empty_vessel:
            continue
        remainder = transition.find_output(source)
        volume_left = remainder.liquid_volume if remainder and not remainder.is_used_up else ZERO
        taken_volume = (
            None
            if source.liquid_volume is None or volume_left is None
            else max(ZERO, source.liquid_volume - volume_left)
        )
        parts.append(Portion(source, taken_volume))
        draws.append(Withdrawal(source, taken_volume, remainder))
    parts += [Portion(view, None) for view in transition.inputs if view.is_unlimited and not view.is_empty_vessel]
    return LiquidFlow((FilledOutput(pools[0], tuple(parts), False),), tuple(draws))


def _trace_series(transition: Transition) -> LiquidFlow:
    """Return the withdrawals from sample and diluent of a dilution series. It has no fills."""
    series = dilution_series.find_dilution_series(transition)
    if series is None:
        return LiquidFlow(untraced_reason="it is not clear which material is diluted with which")
    sample, diluent, moved_volume, added_volume, _, steps = series
    total = added_volume * steps if added_volume is not None and steps is not None else None
    draws = (
        Withdrawal(sample, moved_volume, transition.find_output(sample), moved_volume is not None),
        Withdrawal(diluent, total, transition.find_output(diluent), total is not None),
    )
    return LiquidFlow((), draws)
