"""L02: repeated draws: readings that use up a portion each, reagents of the same reactions, and washes of several vessels."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import NamedTuple

from simulation.checker.findings import Findings, compare, error_finding
from simulation.checker.reading import units, words
from simulation.checker.reading.properties import MaterialView
from simulation.checker.reading.transition import Transition

ZERO = Decimal(0)
# Instruments that take a fresh portion for every reading, so n readings use n portions.
_FRESH_PORTIONS = words.word_set(
    "MeasureOsmolality NucleicAcidQuantification qPCR TotalProteinQuantification ELISA CapillaryELISA MassSpectrometry HPLC"
)
_PORTION = words.word_set("sample injection template specimen load loading aliquot")
# A reagent is pipetted with some surplus, and a rounded volume may hide a tenth of a portion.
_SURPLUS = Decimal("0.15")
_WASTE = Decimal(2)  # factor of what the readings take
_NEGLIGIBLE = Decimal("0.03")  # share of a volume
_HANDLING = Decimal("0.02")  # share of the volume before: film on the wall


class Use(NamedTuple):
    """A reagent that parameters name, the volume of one portion and the volume that it lost, both in µL."""

    name: str
    portion: Decimal
    lost: Decimal
    rounding: Decimal


def check_draws(transition: Transition) -> Findings:
    """L02: yield an error if a sample lost fewer portions than readings, or reagents of one reaction differ in number."""
    if _uses_fresh_portions(transition):
        yield from _check_readings(transition)
    if transition.family in words.MEASUREMENTS:
        yield from _check_supply(transition)
        yield from _check_reactions(transition)
    yield from _check_reagent_supply(transition)
    if transition.action == "Wash":
        yield from _check_wash(transition)


def _uses_fresh_portions(transition: Transition) -> bool:
    """Return whether every reading takes a fresh portion: of the instrument, or because the portions are not recovered."""
    settings = {**transition.defaults, **transition.parameters.raw}
    is_lost = any(
        {"recover", "recovered", "recovery", "return"} & set(words.tokenize(str(key))) and value is False
        for key, value in settings.items()
    )
    return transition.action in _FRESH_PORTIONS or is_lost


def _find_readings(transition: Transition) -> int | None:
    """Return how many readings the parameters set, or None if they do not say so."""
    counts = {
        units.parse_number(leaf.value)
        for leaf in transition.parameters.leaves
        if leaf.word_set <= {"replicate", "reading", "repeat", "injection", "number", "of", "n"}
        and leaf.word_set & {"replicate", "reading", "repeat", "injection"}
    } - {None}
    count = counts.pop() if len(counts) == 1 else None
    return int(count) if count is not None and count == int(count) and 1 < count < 50 else None


def _check_readings(transition: Transition) -> Findings:
    count = _find_readings(transition)
    portions = [
        a.value
        for leaf, a in transition.parameters.list_amounts("volume")
        if leaf.word_set & _PORTION and leaf.word_set <= _PORTION | words.VOLUME
    ]
    if count is None or len(set(portions)) != 1 or portions[0] <= 0:
        return
    portion = portions[0]
    for before, after in transition.list_kept_pairs():
        if (
            transition.parameters.has_named(before)
            or before.volume is None
            or after.volume is None
            or before.is_unlimited
        ):
            continue
        lost = before.volume.value - after.volume.value
        # Of "5.0 mL" before and "4.98 mL" after, the first is exact where the loss is a number of portions.
        steps = sorted(min(view.step, before.volume.value / 50) for view in (before.volume, after.volume))
        rounding = sum(steps, ZERO) if steps[0] * 4 > portion else steps[0] * 2
        portions_lost = round(lost / portion)
        is_multiple = abs(lost - portions_lost * portion) <= rounding
        # Rinsing and dead volumes may use as much again, but not several times what the readings take.
        most = count * portion * _WASTE + portion + rounding + before.volume.value * _HANDLING
        if lost > most and transition.action not in words.ADDS_FROM_PARAMETERS:
            expected, got = (units.format_value(value, "volume") for value in (count * portion, lost))
            text = f"{count} readings of {units.format_value(portion, 'volume')} use {expected}, but {before.name} lost {got}"
            yield error_finding("L02", after.name, expected, got, text)
        # A number of portions other than the readings is an error; any other loss may have another cause.
        if is_multiple and 0 < portions_lost < count and rounding < portion / 2:
            expected, got = (units.format_value(value, "volume") for value in (count * portion, lost))
            text = f"{count} readings of {units.format_value(portion, 'volume')} use {expected}, but {before.name} lost {got}"
            yield error_finding("L02", after.name, expected, got, text)


def _check_supply(transition: Transition) -> Findings:
    """Yield an error if all readings together need more of a sample than there was (L07)."""
    count = _find_readings(transition) or 1
    portions = {
        a.value
        for leaf, a in transition.parameters.list_amounts("volume")
        if leaf.word_set & _PORTION
        and leaf.word_set <= _PORTION | words.VOLUME | {"load", "per", "well", "reading", "reaction"}
    }
    # Most photometers and flow cells give the sample back, so that every reading can use the same portion.
    is_used_up = _uses_fresh_portions(transition)
    if len(portions) != 1:
        return
    needed = portions.pop() * (count if is_used_up else 1)
    for view in transition.limited_inputs:
        if transition.parameters.has_named(view) or view.is_empty_vessel or view.volume is None or view.is_used_up:
            continue
        had = view.volume.value
        shown = units.format_value(had, "volume"), units.format_value(needed, "volume")
        text = f"the readings need {shown[1]} of {view.name}, which had {shown[0]}"
        allowed = needed * _NEGLIGIBLE + view.volume.step
        yield from compare("L07", view.name, had, needed, "volume", text, above=allowed, shown=shown)


def _iter_uses(transition: Transition) -> Iterator[Use]:
    """Yield the use of every reagent that a parameter names and of which another parameter gives the portion."""
    for key, view in transition.parameters.materials_by_key.items():
        role = [word for word in words.tokenize(key) if word not in ("#", "s")]
        after = transition.find_output(view)
        if after is None or view.volume is None or after.volume is None or not role or view.is_unlimited:
            continue
        # "primers" has "primer_volume"; a reagent that is diluted first is used up more slowly.
        stem = role[0]
        amounts = [
            a
            for leaf, a in transition.parameters.list_amounts("volume")
            if leaf.words[:1] == (stem,) and "volume" in leaf.word_set
        ]
        is_diluted = any(
            leaf.words[:1] == (stem,) and {"dilution", "fold"} & leaf.word_set for leaf in transition.parameters.leaves
        )
        if len(amounts) == 1 and amounts[0].value > 0 and not is_diluted:
            rounding = min(view.volume.step + after.volume.step, view.volume.value / 20)
            yield Use(view.name, amounts[0].value, view.volume.value - after.volume.value, rounding)


def _check_reagent_supply(transition: Transition) -> Findings:
    """Yield an error if all portions of a reagent for one sample are more than there was of it (L07)."""
    for key, view in transition.parameters.materials_by_key.items():
        role = words.tokenize(key)[:1]
        volumes = [
            a.value
            for leaf, a in transition.parameters.list_amounts("volume")
            if leaf.words[:1] == role and "volume" in leaf.word_set
        ]
        counts = [
            units.parse_number(leaf.value)
            for leaf in transition.parameters.leaves
            if role and len(leaf.words) == 1 and leaf.words[0] in (role[0], f"{role[0]}e") and not leaf.unit
        ]
        count = next((number for number in counts if number and 0 < number < 100), Decimal(1))
        if len(volumes) != 1 or view.volume is None or view.is_unlimited:
            continue
        needed, had = volumes[0] * count, view.volume.value
        shown = units.format_value(had, "volume"), units.format_value(needed, "volume")
        text = f"{shown[1]} of {view.name} was needed, which had {shown[0]}"
        allowed = needed * _NEGLIGIBLE + view.volume.step
        yield from compare("L07", view.name, had, needed, "volume", text, above=allowed, shown=shown)


def _check_reactions(transition: Transition) -> Findings:
    """Yield an error if the volumes of the reagents stand for different numbers of reactions."""
    uses = [use for use in _iter_uses(transition) if use.lost > 0]
    if len(uses) < 2:
        return
    most = max(use.lost / use.portion for use in uses)
    for use in uses:
        expected = most * use.portion
        allowed = expected * _SURPLUS + use.rounding + use.portion / 10
        text = f"{use.name} lost {units.format_value(use.lost, 'volume')}, which is not enough for the {most:.3g} reactions of the other reagents"
        yield from compare("L02", use.name, expected, use.lost, "volume", text, below=allowed, limit="about")


def _check_wash(transition: Transition) -> Findings:
    """Yield an error unless the wash liquid lost as much as all washes of all samples take."""
    agents = [(view, role) for role, view in transition.parameters.materials_by_key.items()]
    samples = [
        view for view in transition.inputs if not transition.parameters.has_named(view) and not view.is_empty_vessel
    ]
    washes = transition.parameters.find_count("wash") or _find_wash_count(transition)
    if not samples or any(_has_several_wells(view) for view in samples):
        return
    for view, key in agents:
        role = words.tokenize(key)[:1]
        after = transition.find_output(view)
        amounts = [
            a
            for leaf, a in transition.parameters.list_amounts("volume")
            if leaf.words[:1] == role and "volume" in leaf.word_set
        ]
        if after is None or view.volume is None or after.volume is None or view.is_unlimited or len(amounts) != 1:
            continue
        count = washes if role == ("wash",) else 1
        if (
            count is None
            or len({id(other) for other, _ in agents if other is view}) != 1
            or [v for v, _ in agents].count(view) > 1
        ):
            continue
        expected, lost = amounts[0].value * count * len(samples), view.volume.value - after.volume.value
        rounding = min(view.volume.step + after.volume.step, view.volume.value / 50)
        below, above = expected * _SURPLUS + rounding, expected * _SURPLUS + rounding + view.volume.value * _HANDLING
        text = f"{count * len(samples)} portions of {units.format_value(amounts[0].value, 'volume')} were used, but {view.name} lost {units.format_value(lost, 'volume')}"
        yield from compare("L02", after.name, expected, lost, "volume", text, above, below, limit="about")


def _find_wash_count(transition: Transition) -> int | None:
    leaves = [
        leaf
        for leaf in transition.parameters.leaves
        # The tokenizer drops the plural s of "washes".
        if leaf.word_set & {"wash", "washe"}
        and leaf.word_set <= {"wash", "washe", "number", "of", "n", "count", "step"}
    ]
    number = units.parse_number(leaves[0].value) if len(leaves) == 1 else None
    return int(number) if number is not None and number == int(number) and 0 < number < 20 else None


# "well 2" and "WELL A" are one vessel, as "A2" is.
_ONE_WELL = re.compile(r"\b(?:well|dish|coverslip|pocillo|puits) (?:no\.? ?|#)?(?:[0-9]{1,3}|[A-P])\b", re.IGNORECASE)


def _has_several_wells(view: MaterialView) -> bool:
    """Return whether a material stands for several vessels, so that one portion is not that of the material."""
    is_one = any(map(words.is_well, view.name_words)) or _ONE_WELL.search(view.name[:200]) is not None
    return "plate" in view.all_words or (bool({"well", "wells", "coverslip", "dishe"} & view.all_words) and not is_one)
