"""L13: nothing is older than it can be, and nothing grows faster than the time that passed."""

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

_LATER = Decimal("1.02")
# No cell of the bench doubles in less time than this, in seconds.
_FASTEST = Decimal(900)
_FASTEST_ANIMAL = Decimal(28800)
_ANIMAL = listed(
    "hek293t hek293 hek hela cho neuron mammalian fibroblast nih3t3 cos7 u2os jurkat astrocyte human mouse"
)
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}")


def clock(transition: Transition) -> Said:
    for view in (*transition.inputs, *transition.outputs):
        created, modified = _time(view.raw, "created_at"), _time(view.raw, "last_modified")
        if (late := _earlier(modified, created)) is not None:
            yield Ran("L13")
            if late:
                yield error(
                    "L13",
                    view.name,
                    "changed after it was made",
                    "before",
                    f"{view.name} was last changed before it was made",
                )
    for before, after in transition.pairs():
        yield from _order(before, after)
    latest = [time for view in transition.inputs if isinstance(time := _time(view.raw, "last_modified"), datetime)]
    for seen in transition.seen:
        stamp = _time(seen.raw, "timestamp")
        if isinstance(stamp, datetime) and latest:
            yield Ran("L13")
            if stamp < max(latest):
                yield error(
                    "L13",
                    seen.place,
                    "after the step before",
                    str(stamp)[:19],
                    f"{seen.place} was made before its materials were last changed",
                )
    if transition.success:
        yield from _durations(transition)
        yield from _growth(transition)


def _order(before: View, after: View) -> Said:
    """What goes on was made when it was made, and is not changed before it was."""
    made, remade = _time(before.raw, "created_at"), _time(after.raw, "created_at")
    if (early := _earlier(remade, made)) is not None:
        yield Ran("L13")
        if early:
            yield error(
                "L13", after.name, str(made), str(remade), f"{after.name} is said to have been made earlier than it was"
            )
    had, has = _time(before.raw, "last_modified"), _time(after.raw, "last_modified")
    if (before_that := _earlier(has, had)) is not None:
        yield Ran("L13")
        if before_that:
            yield error(
                "L13",
                after.name,
                f"{had} or later",
                str(has),
                f"{after.name} was changed earlier than it had been before",
            )


def _earlier(one: Decimal | datetime | None, other: Decimal | datetime | None) -> bool | None:
    """Whether one comes before the other; None if they cannot be compared."""
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one < other
    if isinstance(one, datetime) and isinstance(other, datetime):
        return one < other
    return None


def _durations(transition: Transition) -> Said:
    """Nobody incubated longer than the action lasted."""
    asked = [a.value for _, a in transition.parameters.amounts("duration")]
    had = {(leaf.key, leaf.text) for view in transition.inputs for leaf in view.leaves}
    for view in transition.kept if asked else ():
        for leaf in view.leaves:
            said = set(leaf.words)
            told = leaf.amount("duration")
            if (
                told is None
                or (leaf.key, leaf.text) in had
                or not said & {"duration", "incubated", "elapsed", "incubation"}
            ):
                continue
            yield Ran("L13")
            if told.value > sum(asked) * _LATER and not said & {"total", "cumulative"}:
                yield error("L13", view.name, f"at most {units.show(sum(asked, Decimal(0)), 'duration')}", units.show(told.value, "duration"),
                            f"{leaf.key} of {view.name} is longer than the action lasted")  # fmt: skip


def _growth(transition: Transition) -> Said:
    """Cells double once per doubling time, and never faster than any cell can."""
    if transition.family not in (families.HEAT, families.INERT) or transition.action in (
        "Centrifuge",
        "Thermocycler",
        "Autoclave",
    ):
        return
    lasted = [
        a.value for leaf, a in transition.parameters.amounts("duration") if not {"lag", "interval"} & set(leaf.words)
    ]
    for before, after in transition.pairs():
        had, has = _cells(before), _cells(after)
        if (
            had is None
            or has is None
            or had.dimension != has.dimension
            or had.value <= 0
            or has.value <= had.value * Decimal("1.05")
        ):
            continue
        if not lasted:
            yield undecided("L13", after.name, "how long it grew is not given")
            continue
        doubling, declared = _doubling(before)
        yield Ran("L13")
        generations = min(Decimal(60), max(lasted) / doubling)
        most = had.value * Decimal(2) ** generations * Decimal("1.15")
        if has.value > most:
            how = "at the declared doubling time" if declared else "however fast it grows"
            yield error("L13", after.name, f"at most {units.show(most, 'number_density')}", units.show(has.value, had.dimension),
                        f"{after.name} grew more than it can in {units.show(max(lasted), 'duration')} {how}")  # fmt: skip


def _cells(view: View) -> Amount | None:
    return view.concentrations.get("cell") or counted.amounts(view).get("cell")


def _doubling(view: View) -> tuple[Decimal, bool]:
    for leaf in view.leaves:
        if {"doubling", "generation"} & set(leaf.words) and (amount := leaf.amount("duration")) and amount.value > 0:
            return amount.value, True
    return (_FASTEST_ANIMAL if view.mentions & _ANIMAL else _FASTEST), False


def _time(raw: Mapping[str, Any], key: str) -> Decimal | datetime | None:
    """Seconds, or a date with a time of day; anything else is no time that could be compared."""
    value = raw.get(key)
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and _ISO.match(value):
        try:
            return datetime.fromisoformat(value[:32].replace("Z", "")).replace(tzinfo=None)
        except ValueError:
            return None
    if isinstance(value, int | float) and key != "timestamp":
        return units.number(value)
    found = units.read(value) if isinstance(value, str) else None
    return found.value if found and found.dimension == "duration" and key != "timestamp" else None
