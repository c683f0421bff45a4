"""L16 by name: a record or property named like a setting has the value that was set."""

from collections.abc import Iterator
from typing import Any

from simulation.checker.findings import Ran, Said
from simulation.checker.reading import units, words
from simulation.checker.reading.reading import View
from simulation.checker.reading.transition import Seen, Transition
from simulation.checker.records import optics


def recorded(transition: Transition, name: str, value: Any, seen: Seen) -> Said:
    """A record that names a setting gives the value that was set."""
    at = seen.description.lower().find(f" {name} ")
    if at < 0 or any(name in view.name.lower() for view in transition.inputs[:100]):
        return
    told = (
        seen.description[at + len(name) + 2 :][:60]
        .lstrip(":= ")
        .removeprefix("of ")
        .removeprefix("was ")
        .removeprefix("is ")
        .removeprefix("set to ")
    )
    wanted, got = units.read(value), units.read(told)
    if wanted and got and wanted.dimension == got.dimension:
        yield Ran("L16", quantity=True)
        if abs(wanted.value - got.value) > abs(wanted.value) / 100 + wanted.step / 100:
            yield optics.contradicts("L16", seen.place, f"{name} {str(value)[:40]}", f"{name} {told[:30]}")
    elif isinstance(value, str) and (others := _options(transition, name, value)):
        yield Ran("L16")
        other = next((o for o in others if told.lower().startswith(o.lower())), "")
        if not told.lower().startswith(value.lower()) and other:
            yield optics.contradicts("L16", seen.place, f"{name} {value[:40]}", f"{name} {other[:40]}")


def shown(transition: Transition, name: str, value: Any, view: View) -> Said:
    """A property named like a setting has its value, if this step wrote it."""
    said = frozenset(words.cut(name))
    if said & {
        "volume",
        "amount",
        "mass",
        "temperature",
        "concentration",
        "time",
        "duration",
        "source",
        "name",
        "label",
        "container",
        "count",
    }:
        return
    wanted = units.read(value)
    before = transition.before(view)
    old = {leaf.text for leaf in before.leaves if frozenset(leaf.words) == said} if before else set()
    for leaf in view.leaves:
        if frozenset(leaf.words) != said or leaf.text in old:
            continue
        got = leaf.amount()
        if wanted and got and wanted.dimension == got.dimension:
            yield Ran("L16", quantity=True)
            if abs(wanted.value - got.value) > abs(wanted.value) / 50:
                yield optics.contradicts("L16", view.name, f"{name} {str(value)[:40]}", f"{name} {leaf.text[:40]}")
        elif (
            isinstance(value, str)
            and leaf.text
            and wanted is None
            and not set(words.cut(value)) & set(words.cut(leaf.text))
        ):
            options = _options(transition, name, value)
            if any(option.lower() == leaf.text.lower() for option in options):
                yield optics.contradicts("L16", view.name, f"{name} {value[:40]}", f"{name} {leaf.text[:40]}")


def chosen(transition: Transition, name: str, value: Any, view: View) -> Said:
    """A property this step wrote tells the option that was chosen, not another one."""
    options = (
        [option for option in _options(transition, name, value) if len(option) > 2] if isinstance(value, str) else []
    )
    had = transition.told
    for leaf in view.leaves if options else ():
        said = f" {leaf.text.lower()} "
        if (
            leaf.text in had
            or f" {str(value).lower()} " in said
            or set(leaf.words) & {"medium", "container", "phase", "label"}
        ):
            continue
        about = "through" in leaf.words or set(words.cut(name)) & set(leaf.words)
        other = next((option for option in options if f" {option.lower()} " in said), "")
        if about and other:
            yield optics.contradicts("L16", view.name, f"{name} {value}", f"{name} {other}")


def every(transition: Transition) -> Iterator[tuple[str, Any]]:
    """(name in words, value) of every parameter set, and of those left at the catalogue's default."""
    for leaf in transition.parameters.leaves:
        # Of several values chosen under one name a record may tell any.
        several = "#" in leaf.words or (isinstance(leaf.value, str) and "," in leaf.value)
        if isinstance(leaf.value, str | int | float) and not isinstance(leaf.value, bool) and not several:
            yield leaf.key.replace("_", " ").lower(), leaf.value
    if transition.kind is not None:
        for parameter in transition.kind.parameters:
            if parameter.default is not None and parameter.name not in transition.parameters.raw:
                yield parameter.name.replace("_", " "), parameter.default


def _options(transition: Transition, name: str, value: str) -> list[str]:
    """What else could have been chosen, where the catalogue knows the parameter."""
    kind = transition.kind
    known = [p for p in kind.parameters if p.name.replace("_", " ") == name] if kind else []
    return [option for p in known for option in p.options if option.lower() != value.lower()]
