"""L13: times are in order, and nothing grows faster than the time that passed allows."""

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from simulation.checker.amounts import counted
from simulation.checker.findings import Ran, Said, error, undecided
from simulation.checker.reading import families, units
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed

_LATER = Decimal("1.02")  # of the duration set: rounding of hours and minutes
# Shortest plausible doubling times in seconds.
_FASTEST = Decimal(900)  # 15 min: the fastest bacteria
_FASTEST_ANIMAL = Decimal(28800)  # 8 h
_ANIMAL = listed(
    "hek293t hek293 hek hela cho neuron mammalian fibroblast nih3t3 cos7 u2os jurkat astrocyte human mouse"
)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")


def clock(transition: Transition) -> Said:
    """L13: check creation and modification times, durations and growth."""
    for view in (*transition.inputs, *transition.outputs):
        created, modified = _time(view.raw, "created_at"), _time(view.raw, "last_modified")
        if (is_wrong := _earlier(modified, created)) is not None:
            yield Ran("L13")
            if is_wrong:
                yield error(
                    "L13",
                    view.name,
                    "changed after it was created",
                    "before",
                    f"{view.name} was last changed before it was created",
                )
    for before, after in transition.pairs():
        yield from _order(before, after)
    last_changes = [
        time for view in transition.inputs if isinstance(time := _time(view.raw, "last_modified"), datetime)
    ]
    for seen in transition.seen:
        timestamp = _time(seen.raw, "timestamp")
        if isinstance(timestamp, datetime) and last_changes:
            yield Ran("L13")
            if timestamp < max(last_changes):
                yield error(
                    "L13",
                    seen.place,
                    "after the previous step",
                    str(timestamp)[:19],
                    f"{seen.place} was recorded before its materials were last changed",
                )
    if transition.success:
        yield from _durations(transition)
        yield from _growth(transition)


def _order(before: View, after: View) -> Said:
    """A continued material keeps its creation time and is not changed earlier than before."""
    created_before, created_after = _time(before.raw, "created_at"), _time(after.raw, "created_at")
    if (is_earlier := _earlier(created_after, created_before)) is not None:
        yield Ran("L13")
        if is_earlier:
            yield error(
                "L13",
                after.name,
                str(created_before),
                str(created_after),
                f"{after.name} has an earlier creation time than before this step",
            )
    modified_before, modified_after = _time(before.raw, "last_modified"), _time(after.raw, "last_modified")
    if (is_earlier_change := _earlier(modified_after, modified_before)) is not None:
        yield Ran("L13")
        if is_earlier_change:
            yield error(
                "L13",
                after.name,
                f"{modified_before} or later",
                str(modified_after),
                f"{after.name} has an earlier modification time than before this step",
            )


def _earlier(one: Decimal | datetime | None, other: Decimal | datetime | None) -> bool | None:
    """Return whether one time is before the other, or None if they cannot be compared."""
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one < other
    if isinstance(one, datetime) and isinstance(other, datetime):
        return one < other
    return None


def _durations(transition: Transition) -> Said:
    """No duration written by this step is longer than the action lasted."""
    durations = [a.value for _, a in transition.parameters.amounts("duration")]
    properties_before = {(leaf.key, leaf.text) for view in transition.inputs for leaf in view.leaves}
    for view in transition.kept if durations else ():
        for leaf in view.leaves:
            key_words = set(leaf.words)
            duration = leaf.amount("duration")
            if (
                duration is None
                or (leaf.key, leaf.text) in properties_before
                or not key_words & {"duration", "incubated", "elapsed", "incubation"}
            ):
                continue
            yield Ran("L13")
            if duration.value > sum(durations) * _LATER and not key_words & {"total", "cumulative"}:
                yield error("L13", view.name, f"at most {units.show(sum(durations, Decimal(0)), 'duration')}", units.show(duration.value, "duration"),
                            f"{leaf.key} of {view.name} is longer than the action lasted")  # fmt: skip


def _growth(transition: Transition) -> Said:
    """Cells double at most once per doubling time, and never faster than any cell can."""
    if transition.family not in (families.HEAT, families.INERT) or transition.action in (
        "Centrifuge",
        "Thermocycler",
        "Autoclave",
    ):
        return
    durations = [
        a.value for leaf, a in transition.parameters.amounts("duration") if not {"lag", "interval"} & set(leaf.words)
    ]
    for before, after in transition.pairs():
        cells_before, cells_after = _cells(before), _cells(after)
        if (
            cells_before is None
            or cells_after is None
            or cells_before.dimension != cells_after.dimension
            or cells_before.value <= 0
            or cells_after.value <= cells_before.value * Decimal("1.05")
        ):
            continue
        if not durations:
            yield undecided("L13", after.name, "its time of growth is not stated")
            continue
        doubling_time, is_declared = _doubling(before)
        yield Ran("L13")
        # A limit of 60 keeps the power within Decimal; 2^60 cells weigh more than any vessel holds.
        generations = min(Decimal(60), max(durations) / doubling_time)
        maximum = cells_before.value * Decimal(2) ** generations * Decimal("1.15")  # error of counting
        if cells_after.value > maximum:
            limit_text = "at the declared doubling time" if is_declared else "at the fastest growth possible"
            yield error("L13", after.name, f"at most {units.show(maximum, 'number_density')}", units.show(cells_after.value, cells_before.dimension),
                        f"{after.name} grew more than it can in {units.show(max(durations), 'duration')} {limit_text}")  # fmt: skip


def _cells(view: View) -> Amount | None:
    return view.concentrations.get("cell") or counted.amounts(view).get("cell")


def _doubling(view: View) -> tuple[Decimal, bool]:
    """Return (doubling time in seconds, whether the material declares it)."""
    for leaf in view.leaves:
        if {"doubling", "generation"} & set(leaf.words) and (amount := leaf.amount("duration")) and amount.value > 0:
            return amount.value, True
    return (_FASTEST_ANIMAL if view.mentions & _ANIMAL else _FASTEST), False


def _time(raw: Mapping[str, Any], key: str) -> Decimal | datetime | None:
    """Return seconds, or a date with a time of day; None for anything that cannot be compared."""
    value = raw.get(key)
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and _ISO.match(value):
        try:
            # Without the zone: Python cannot compare a date that has one with a date that has none.
            return datetime.fromisoformat(value[:32].replace("Z", "")).replace(tzinfo=None)
        except ValueError:
            return None
    if isinstance(value, int | float) and key != "timestamp":
        return units.number(value)
    amount = units.read(value) if isinstance(value, str) else None
    return amount.value if amount and amount.dimension == "duration" and key != "timestamp" else None
