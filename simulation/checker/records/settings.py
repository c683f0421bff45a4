"""L16: what the outcome tells of a setting is what the action set."""

from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.amounts import balance, totals
from simulation.checker.findings import Ran, Said
from simulation.checker.reading import flows, meaning, terms, units, words
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed
from simulation.checker.records import named, optics, sentences

_AGENTS = words.SOLVENTS | listed("wash washing elution eluent eluant replacement")


_HELD = listed("Incubate CellCultureIncubate Wait")


_SPUN = listed("spin spun centrifugation centrifuged centrifuge rcf force speed")


_SET_DIMENSIONS = ("centrifugal_force", "rotation")


_DURATION_KEYS = (frozenset({"duration"}), frozenset({"incubation", "time"}), frozenset({"incubation", "duration"}), frozenset({"spin", "time"}),
                  frozenset({"mixing", "time"}), frozenset({"centrifugation", "time"}), frozenset({"treatment", "time"}))  # fmt: skip


def echoes(transition: Transition) -> Said:
    if not transition.success:
        return
    yield from _volumes(transition)
    yield from _temperatures(transition)
    yield from optics.told(transition)
    yield from _by_dimension(transition)
    for name, value in named.every(transition):
        for seen in transition.seen:
            yield from named.recorded(transition, name, value, seen)
        for view in transition.kept:
            yield from named.shown(transition, name, value, view)
            yield from named.chosen(transition, name, value, view)


def _volumes(transition: Transition) -> Said:
    """The volume each vessel has now is the one the parameters give it."""
    for fill in flows.of(transition).fills:
        if not fill.stated or fill.volume is None or fill.output.volume is None:
            continue
        yield Ran("L16", quantity=True)
        start = fill.parts[0].volume if len(fill.parts) > 1 else Decimal(0)
        added = fill.volume - (start or 0)
        allowed = added * balance.PIPETTING + fill.volume * Decimal("0.02") + totals.slack(fill.output)
        if abs(fill.output.volume.value - fill.volume) > allowed:
            yield optics.contradicts(
                "L16", fill.output.name, totals.show(fill.volume), totals.show(fill.output.volume.value)
            )
    replaced = {"Wash": "replacement", "AttemptDNAExtraction": "elution", "SolidPhaseExtraction": "elution"}.get(
        transition.action, ""
    )
    wanted = [a for leaf, a in transition.parameters.amounts("volume") if replaced in leaf.words]
    for before, after in transition.pairs() if len(wanted) == 1 else ():
        aside = any(before is view for view in transition.parameters.named.values()) or (
            before.held is not None and after.held is not None and bool(_AGENTS & set(before.words))
        )
        if after.volume is None or aside or before.unlimited or after.gone:
            continue
        yield Ran("L16", quantity=True)
        if abs(after.volume.value - wanted[0].value) > wanted[0].value * balance.PIPETTING + totals.slack(after):
            yield optics.contradicts("L16", after.name, totals.show(wanted[0].value), totals.show(after.volume.value))


def _temperatures(transition: Transition) -> Said:
    """A material held at a temperature has it; one the step gave it is one that was set."""
    asked = [amount.value for _, amount in optics.all_set(transition, "temperature")]
    if not asked:
        return
    for before, after in transition.pairs():
        if after.temperature is None or after.gone:
            continue
        changed = before.temperature is None or before.temperature.value != after.temperature.value
        held = transition.action in _HELD and after.condition in ("incubating_conditions", "cell_culture_conditions")
        low, high = terms.TEMPERATURES.get(after.condition, (0, 0))
        fits = not held and after.condition not in terms.INCUBATORS and low <= after.temperature.value <= min(high, 26)
        if not (changed or held) or fits or (not held and 15 <= after.temperature.value <= 26):
            continue
        yield Ran("L16", quantity=True)
        if all(abs(value - after.temperature.value) > 1 for value in asked):
            yield optics.contradicts(
                "L16",
                after.name,
                units.show(asked[0], "temperature"),
                units.show(after.temperature.value, "temperature"),
            )


def _by_dimension(transition: Transition) -> Said:
    """Forces, speeds, pores and times that a material or record tells of."""
    for dimension in _SET_DIMENSIONS:
        asked = {a.value for _, a in optics.all_set(transition, dimension)}
        if dimension == "centrifugal_force" and transition.action == "Centrifuge":
            asked |= {a.value for leaf in transition.parameters.leaves for a in sentences.forces(leaf.text)}
        for place, told in _told(transition, dimension) if asked else ():
            yield Ran("L16", quantity=True)
            if all(abs(told.value - value) > value / 50 for value in asked):
                yield optics.contradicts(
                    "L16", place, units.show(min(asked), dimension), units.show(told.value, dimension)
                )
    if transition.action == "Filter":
        asked = {a.value for _, a in optics.all_set(transition, "length") if a.value < 1}
        for place, told in _told(transition, "length") if asked else ():
            yield Ran("L16", quantity=True)
            if told.value < 1 and told.value not in asked:
                yield optics.contradicts(
                    "L16", place, units.show(min(asked), "length"), units.show(told.value, "length")
                )
    yield from _durations(transition)


def _durations(transition: Transition) -> Said:
    asked = {a.value for _, a in transition.parameters.amounts("duration")}
    if not asked:
        return
    had = {(leaf.key, leaf.text) for view in transition.inputs for leaf in view.leaves}
    for view in transition.kept:
        for leaf in view.leaves:
            told = leaf.amount("duration") if any(set(leaf.words) == key for key in _DURATION_KEYS) else None
            if told is None or (leaf.key, leaf.text) in had:
                continue
            yield Ran("L16", quantity=True)
            if all(abs(told.value - value) > value / 20 for value in asked):
                yield optics.contradicts(
                    "L16", view.name, units.show(min(asked), "duration"), units.show(told.value, "duration")
                )


def _told(transition: Transition, dimension: str) -> Iterator[tuple[str, Amount]]:
    """Amounts of a dimension in what this step wrote."""
    had = transition.told
    for view in transition.kept:
        for leaf in view.leaves:
            if leaf.text not in had and dimension == "centrifugal_force" and set(leaf.words) & _SPUN:
                yield from ((view.name, amount) for amount in sentences.forces(leaf.text))
            if leaf.text not in had and not meaning.is_temperature(leaf):
                for amount in (
                    [leaf.amount(dimension)] if leaf.amount(dimension) else sentences.amounts(leaf.text, dimension)
                ):
                    if amount:
                        yield view.name, amount
    stated = {amount.value for text in had for amount in sentences.amounts(text, dimension)}
    for seen in transition.seen:
        for amount in sentences.amounts(seen.text, dimension):
            if amount.value not in stated:
                yield seen.place, amount
