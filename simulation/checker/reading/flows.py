"""Trace liquids: what was put into each output and what was taken from each input, where this is clear."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from simulation.checker.reading import units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import SOLVENT, SOURCE, TARGET, TOTAL, Transition

ZERO = Decimal(0)
_PLATES = words.word_set("plate wells strip rack dishe coverslip microplate")
_VESSEL_NAMES = words.word_set("well tube vial dish dishe coverslip flask plate replicate")
_COUNTED_VESSELS = _VESSEL_NAMES | words.word_set("used filled number of count n total in use")
_NUMBER_OF_VESSELS = re.compile(
    r"(?<![\w.-])([0-9]{1,3}) (?:wells|tubes|vials|dishes|coverslips|flasks)\b|\b(?:wells|tubes|vials|dishes|flasks)\s?[x×] ?([0-9]{1,3})\b"
)


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
        volumes = [part.volume for part in self.parts if part.volume is not None]
        return sum(volumes, ZERO) if len(volumes) == len(self.parts) else None


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


class DilutionSeries(NamedTuple):
    """A dilution series: sample, diluent and, if stated, volume moved and diluent added per step, factor and steps."""

    sample: MaterialView
    diluent: MaterialView
    moved: Decimal | None
    added: Decimal | None
    factor: Decimal | None
    steps: int | None


def find_source(transition: Transition) -> MaterialView | None:
    """Return the source of a move: named by a parameter, else the only filled input, else the only one that shrank."""
    # If parameters name several sources, the volume taken cannot be assigned to one of them.
    if named_sources := transition.parameters.list_materials(SOURCE):
        return named_sources[0] if len(named_sources) == 1 else None
    targets = transition.parameters.list_materials(TARGET)
    filled = [view for view in _list_filled(transition) if all(view is not target for target in targets)]
    if len(filled) == 1:
        return filled[0]
    shrunk = [view for view in filled if (left := transition.find_output(view)) and has_shrunk(view, left)]
    return shrunk[0] if len(shrunk) == 1 else None


def find_solvent(transition: Transition) -> MaterialView | None:
    """Return the material that is added to the samples: named by a parameter, else the only solvent by name."""
    if (named_solvent := transition.parameters.find_material(SOLVENT)) is not None:
        return named_solvent
    full = [view for view in transition.inputs if not view.is_empty_vessel]
    # "glutamate in Tyrode" is the sample, "Tyrode" the solvent.
    solvents = [view for view in full if words.SOLVENTS & set(words.tokenize(view.name.split(" in ")[0]))]
    return solvents[0] if len(solvents) == 1 and len(full) > 1 else None


def has_shrunk(before: MaterialView, after: MaterialView) -> bool:
    """Return whether both volumes are known and the second is smaller."""
    volume_before, volume_after = before.liquid_volume, after.liquid_volume
    return volume_before is not None and volume_after is not None and volume_after < volume_before


def _list_filled(transition: Transition) -> list[MaterialView]:
    return [view for view in transition.inputs if not view.is_empty_vessel and view.liquid_volume != 0]


def find_dilution_series(transition: Transition) -> DilutionSeries | None:
    """Return the series that the parameters request, or None if it is unclear which material is diluted with which."""
    solvent = find_solvent(transition)
    named_sample = transition.parameters.find_material(SOURCE | {"sample"})
    samples = [view for view in _list_filled(transition) if view is not solvent]
    # "box of tubes" may not say that they are empty; an unlimited supply is rarely what is diluted.
    samples = [view for view in samples if not view.is_unlimited] or samples
    if named_sample is not None and named_sample is not solvent:
        samples = [named_sample]
    if solvent is None or len(samples) != 1:
        return None
    moved_volume, added_volume, total_volume = None, None, None
    for leaf, amount in transition.parameters.list_amounts("volume"):
        key_words = leaf.word_set
        if key_words & {"transfer", "transferred", "carry", "carried", "sample", "aliquot"}:
            moved_volume = amount.value
        elif key_words & {"diluent", "solvent", "buffer"}:
            added_volume = amount.value
        elif key_words & TOTAL:
            total_volume = amount.value
    factor = transition.parameters.find_dilution_factor()
    if moved_volume is None and total_volume is not None and factor:
        moved_volume = total_volume / factor
    # Two of carried volume, diluent and factor determine the third.
    if factor is None and moved_volume and added_volume:
        factor = (moved_volume + added_volume) / moved_volume
    if added_volume is None and moved_volume and factor:
        added_volume = moved_volume * (factor - 1)
    steps = transition.parameters.find_count("dilution", "step", "point", "level")
    return DilutionSeries(samples[0], solvent, moved_volume, added_volume, factor, steps)


def iter_new_outputs(transition: Transition) -> Iterator[MaterialView]:
    """Yield the usable outputs that are new materials, or in vessels that were empty before."""
    for output in transition.usable_outputs:
        before = transition.find_input(output)
        if before is None or before.is_empty_vessel or before.liquid_volume == 0:
            yield output


def trace_liquids(transition: Transition) -> LiquidFlow:
    """Return the liquid flow of a transition. The family of its action determines how it is traced."""
    # The result is stored, because most checks of amounts need it and tracing is costly.
    if "flow" not in transition.memo:
        tracers = {words.MOVE: _trace_transfer, words.ADD: _trace_addition}
        tracers |= {words.COMBINE: _trace_combination, words.SERIAL: _trace_series}
        trace = tracers.get(transition.family)
        transition.memo["flow"] = trace(transition) if trace else LiquidFlow()
    flow: LiquidFlow = transition.memo["flow"]
    return flow


def _trace_transfer(transition: Transition) -> LiquidFlow:
    source = find_source(transition)
    if source is None:
        return LiquidFlow(untraced_reason="it is not clear which material was drawn from")
    remainder = transition.find_output(source)
    filled_outputs = [view for view in transition.outputs if view is not remainder and not view.is_used_up]
    moved_volume = transition.parameters.find_moved_volume()
    volume_each = (
        moved_volume.value if moved_volume else _find_lost_volume(source, remainder, len(filled_outputs), transition)
    )
    # A new output was empty before if every other input with liquid has its own output.
    others = [view for view in transition.inputs if view is not source and transition.find_output(view) is None]
    starts_empty = all(view.is_empty_vessel or view.liquid_volume == 0 or view.is_unlimited for view in others)
    fills = []
    for output in filled_outputs:
        before = transition.find_input(output)
        if before is None and len(filled_outputs) == 1:
            before = _find_renamed_target(transition, source, output, volume_each)
        if before is None and not starts_empty:
            return LiquidFlow(untraced_reason=f"it is not clear what was in {output.name} before")
        parts = () if before is None else (Portion(before, before.liquid_volume),)
        fills.append(FilledOutput(output, (*parts, Portion(source, volume_each)), moved_volume is not None))
    total = volume_each * len(filled_outputs) if volume_each is not None and filled_outputs else None
    if total is not None and len(filled_outputs) == 1 and filled_outputs[0].volume is None:
        # Simulators describe a filled plate as one material without a volume: the volume goes into each of its wells.
        wells = (
            transition.parameters.count_wells()
            or count_vessels(filled_outputs[0])
            or (transition.parameters.find_count("aliquot") if transition.action == "Aliquot" else None)
        )
        is_plate = _PLATES & filled_outputs[0].all_words and not any(map(words.is_well, filled_outputs[0].all_words))
        total = total * wells if wells else None if is_plate else total
    return LiquidFlow(tuple(fills), (Withdrawal(source, total, remainder, moved_volume is not None),))


def _find_renamed_target(
    transition: Transition, source: MaterialView, output: MaterialView, moved: Decimal | None
) -> MaterialView | None:
    """Return the only vessel with liquid that the only new material can continue under a new name, or None."""
    targets = [
        view
        for view in transition.limited_inputs
        if view is not source and view.liquid_volume and transition.find_output(view) is None
    ]
    if len(targets) != 1 or moved is None or output.liquid_volume is None or targets[0].volume is None:
        return None
    # The new material has the contents of both, not only the portion that was moved.
    together = (targets[0].liquid_volume or ZERO) + moved
    return targets[0] if abs(output.liquid_volume - together) <= together / 20 else None


def count_vessels(view: MaterialView) -> int | None:
    """Return how many wells or vessels a material stands for, or None if it does not say so."""
    counts = set()
    for leaf in view.leaves:
        if leaf.word_set <= _COUNTED_VESSELS and leaf.word_set & _VESSEL_NAMES and not leaf.unit:
            number = units.split_number(leaf.value)
            if number and not number[2].strip() and number[0] == int(number[0]) and 0 < number[0] <= 384:
                counts.add(int(number[0]))
    # "24-well plate" is the format of a plate, "12 wells" or "x 12" the number of wells in use.
    counts |= {int(number) for match in _NUMBER_OF_VESSELS.findall(view.name[:200]) for number in match if number}
    return counts.pop() if len(counts) == 1 else None


def _find_lost_volume(
    source: MaterialView, remainder: MaterialView | None, destinations: int, transition: Transition
) -> Decimal | None:
    """Return the volume in µL that the only destination received, which is what the source lost, or None if unclear."""
    # With several destinations it is unknown how the volume was split; the volume of a weighed portion is unknown too.
    is_unclear = source.is_unlimited or destinations != 1 or transition.parameters.list_amounts("mass")
    if is_unclear or remainder is None or remainder.is_used_up:
        return None if is_unclear else source.liquid_volume
    return _find_difference(source.liquid_volume, remainder.liquid_volume)


def _volume_of(view: MaterialView | None) -> Decimal | None:
    return None if view is None else view.liquid_volume


def _find_difference(before: Decimal | None, after: Decimal | None) -> Decimal | None:
    """Return by how much a volume decreased, at least 0, or None if it is unknown."""
    return None if before is None or after is None else max(ZERO, before - after)


def _trace_addition(transition: Transition) -> LiquidFlow:
    solvent = find_solvent(transition)
    if solvent is None:
        return LiquidFlow(untraced_reason="it is not clear which material was added")
    samples = [
        view for view in transition.inputs if view is not solvent and not view.is_empty_vessel and not view.is_unlimited
    ]
    if len(samples) == 1 and (vessel := _find_new_vessel(transition, samples[0])) is not None:
        return _trace_portion_dilution(transition, samples[0], solvent, vessel)
    fills = []
    for sample in samples:
        output = transition.find_output(sample)
        if output is None:
            return LiquidFlow(untraced_reason=f"it is not clear what became of {sample.name}")
        added, is_stated = _find_added_solvent(transition, sample, output)
        parts = (Portion(sample, sample.liquid_volume), Portion(solvent, added))
        fills.append(FilledOutput(output, parts, is_stated))
    # One unknown addition makes the total unknown.
    added_volumes = [fill.parts[1].volume for fill in fills if fill.parts[1].volume is not None]
    total = sum(added_volumes, ZERO) if fills and len(added_volumes) == len(fills) else None
    is_stated = bool(fills) and all(fill.is_stated for fill in fills)
    return LiquidFlow(tuple(fills), (Withdrawal(solvent, total, transition.find_output(solvent), is_stated),))


def _find_new_vessel(transition: Transition, sample: MaterialView) -> MaterialView | None:
    """Return the only new material of a dilution in which part of the sample remains, or None."""
    remainder = transition.find_output(sample)
    new_outputs = [
        view for view in transition.usable_outputs if transition.find_input(view) is None and not view.is_empty_vessel
    ]
    remains = remainder is not None and not remainder.is_used_up and has_shrunk(sample, remainder)
    return new_outputs[0] if remains and len(new_outputs) == 1 else None


def _trace_portion_dilution(
    transition: Transition, sample: MaterialView, solvent: MaterialView, output: MaterialView
) -> LiquidFlow:
    """Trace the dilution of a portion of the sample with as much solvent as the stated factor or total volume needs."""
    sample_left, solvent_left = transition.find_output(sample), transition.find_output(solvent)
    stated_portion = transition.parameters.find_portion_volume(frozenset(sample.name_words))
    portion = (
        stated_portion.value if stated_portion else _find_difference(sample.liquid_volume, _volume_of(sample_left))
    )
    total, factor = transition.parameters.find_total_volume(), transition.parameters.find_dilution_factor()
    # Most certain first: the stated total, the stated factor, then what the solvent lost.
    added: Decimal | None
    if portion is not None and total is not None:
        added = max(ZERO, total.value - portion)
    elif portion is not None and factor is not None:
        added = portion * (factor - 1)
    else:
        added = _find_difference(solvent.liquid_volume, _volume_of(solvent_left))
    is_stated = total is not None or factor is not None
    fill = FilledOutput(output, (Portion(sample, portion), Portion(solvent, added)), is_stated)
    sample_draw = Withdrawal(sample, portion, sample_left, stated_portion is not None)
    return LiquidFlow((fill,), (sample_draw, Withdrawal(solvent, added, solvent_left, is_stated)))


def _find_added_solvent(
    transition: Transition, sample: MaterialView, output: MaterialView
) -> tuple[Decimal | None, bool]:
    """Return (volume of solvent added in µL, whether the parameters state it). The volume is None if unknown."""
    parameters = transition.parameters
    total, added = parameters.find_total_volume(), parameters.find_added_volume()
    factor = parameters.find_dilution_factor()
    # The only volume of this action is the one to fill up to, whatever its parameter is called.
    if transition.action == "FillToVolume" and total is None and len(parameters.list_amounts("volume")) == 1:
        total, added = parameters.list_amounts("volume")[0][1], None
    # The two parameters may contradict each other, so neither is used.
    if sample.liquid_volume is None or (total is not None and added is not None):
        return None, False
    if total is not None and total.value >= sample.liquid_volume:
        return total.value - sample.liquid_volume, True
    if added is not None:
        return added.value, True
    if factor is not None and total is None:
        return sample.liquid_volume * (factor - 1), True
    return _find_difference(output.liquid_volume, sample.liquid_volume), False


def _trace_combination(transition: Transition) -> LiquidFlow:
    pools = [view for view in transition.usable_outputs if transition.find_input(view) is None]
    if len(pools) != 1:
        return LiquidFlow(untraced_reason="it is not clear which material is the combined one")
    draws = []
    for source in transition.limited_inputs:
        if not source.is_empty_vessel:
            remainder = transition.find_output(source)
            volume_left = remainder.liquid_volume if remainder and not remainder.is_used_up else ZERO
            draws.append(Withdrawal(source, _find_difference(source.liquid_volume, volume_left), remainder))
    supplies = [view for view in transition.inputs if view.is_unlimited and not view.is_empty_vessel]
    parts = (*(Portion(draw.source, draw.volume) for draw in draws), *(Portion(view, None) for view in supplies))
    return LiquidFlow((FilledOutput(pools[0], parts, False),), tuple(draws))


def _trace_series(transition: Transition) -> LiquidFlow:
    """Return the withdrawals from sample and diluent of a dilution series. It has no fills."""
    series = find_dilution_series(transition)
    if series is None:
        return LiquidFlow(untraced_reason="it is not clear which material is diluted with which")
    sample, diluent, moved_volume, added_volume, _, steps = series
    total = added_volume * steps if added_volume is not None and steps is not None else None
    draws = (
        Withdrawal(sample, moved_volume, transition.find_output(sample), moved_volume is not None),
        Withdrawal(diluent, total, transition.find_output(diluent), total is not None),
    )
    return LiquidFlow((), draws)
