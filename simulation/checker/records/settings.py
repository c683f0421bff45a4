"""L16: settings that the outcome mentions have the values that the action set."""

from collections.abc import Iterator
from decimal import Decimal

from simulation.checker.amounts import balance, totals
from simulation.checker.findings import Ran, Said
from simulation.checker.reading import flows, meaning, terms, units, words
from simulation.checker.reading.transition import Transition
from simulation.checker.reading.units import Amount
from simulation.checker.reading.words import listed
from simulation.checker.records import named, optics, sentences

# Materials of a wash or elution that are not the washed sample.
_AGENTS = words.SOLVENTS | listed("wash washing elution eluent eluant replacement")
# Actions that keep a material at the temperature they set.
_HELD = listed("Incubate CellCultureIncubate Wait")
# In a property with one of these words, "300 g" is a force.
_SPUN = listed("spin spun centrifugation centrifuged centrifuge rcf force speed")
_SET_DIMENSIONS = ("centrifugal_force", "rotation")
# Only these keys give the duration of the action; others may be an age or a doubling time.
_DURATION_KEYS = (frozenset({"duration"}), frozenset({"incubation", "time"}), frozenset({"incubation", "duration"}), frozenset({"spin", "time"}),
                  frozenset({"mixing", "time"}), frozenset({"centrifugation", "time"}), frozenset({"treatment", "time"}))  # fmt: skip


def echoes(transition: Transition) -> Said:
    """L16: check volumes, temperatures, optics, other amounts and settings by name."""
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
    """The volume in each vessel is the one that the parameters determine."""
    for fill in flows.of(transition).fills:
        if not fill.stated or fill.volume is None or fill.output.volume is None:
            continue
        yield Ran("L16", quantity=True)
        volume_before = fill.parts[0].volume if len(fill.parts) > 1 else Decimal(0)
        added_volume = fill.volume - (volume_before or 0)
        tolerance = added_volume * balance.PIPETTING + fill.volume * Decimal("0.02") + totals.slack(fill.output)
        if abs(fill.output.volume.value - fill.volume) > tolerance:
            yield optics.contradicts(
                "L16", fill.output.name, totals.show(fill.volume), totals.show(fill.output.volume.value)
            )
    # The parameter of these actions that states the final volume of the sample.
    volume_word = {"Wash": "replacement", "AttemptDNAExtraction": "elution", "SolidPhaseExtraction": "elution"}.get(
        transition.action, ""
    )
    set_volumes = [a for leaf, a in transition.parameters.amounts("volume") if volume_word in leaf.words]
    for before, after in transition.pairs() if len(set_volumes) == 1 else ():
        is_agent = any(before is view for view in transition.parameters.named.values()) or (
            before.held is not None and after.held is not None and bool(_AGENTS & set(before.words))
        )
        if after.volume is None or is_agent or before.unlimited or after.gone:
            continue
        yield Ran("L16", quantity=True)
        if abs(after.volume.value - set_volumes[0].value) > set_volumes[0].value * balance.PIPETTING + totals.slack(
            after
        ):
            yield optics.contradicts(
                "L16", after.name, totals.show(set_volumes[0].value), totals.show(after.volume.value)
            )


def _temperatures(transition: Transition) -> Said:
    """A material kept at a temperature has it; a temperature written by this step is one that was set."""
    set_values = [amount.value for _, amount in optics.all_set(transition, "temperature")]
    if not set_values:
        return
    for before, after in transition.pairs():
        if after.temperature is None or after.gone:
            continue
        is_changed = before.temperature is None or before.temperature.value != after.temperature.value
        is_tempered = transition.action in _HELD and after.condition in (
            "incubating_conditions",
            "cell_culture_conditions",
        )
        # Back in storage or at 15 to 26 °C on the bench a material has cooled down or warmed up since.
        low, high = terms.TEMPERATURES.get(after.condition, (0, 0))
        fits_storage = (
            not is_tempered
            and after.condition not in terms.INCUBATORS
            and low <= after.temperature.value <= min(high, 26)
        )
        if not (is_changed or is_tempered) or fits_storage or (not is_tempered and 15 <= after.temperature.value <= 26):
            continue
        yield Ran("L16", quantity=True)
        if all(abs(value - after.temperature.value) > 1 for value in set_values):
            yield optics.contradicts(
                "L16",
                after.name,
                units.show(set_values[0], "temperature"),
                units.show(after.temperature.value, "temperature"),
            )


def _by_dimension(transition: Transition) -> Said:
    """Forces, speeds, pores and durations that a material or record mentions."""
    for dimension in _SET_DIMENSIONS:
        set_values = {a.value for _, a in optics.all_set(transition, dimension)}
        if dimension == "centrifugal_force" and transition.action == "Centrifuge":
            set_values |= {a.value for leaf in transition.parameters.leaves for a in sentences.forces(leaf.text)}
        for subject, amount in _told(transition, dimension) if set_values else ():
            yield Ran("L16", quantity=True)
            if all(abs(amount.value - value) > value / 50 for value in set_values):
                yield optics.contradicts(
                    "L16", subject, units.show(min(set_values), dimension), units.show(amount.value, dimension)
                )
    if transition.action == "Filter":
        # Pores are smaller than 1 mm; larger lengths are those of membranes and columns.
        set_values = {a.value for _, a in optics.all_set(transition, "length") if a.value < 1}
        for subject, amount in _told(transition, "length") if set_values else ():
            yield Ran("L16", quantity=True)
            if amount.value < 1 and amount.value not in set_values:
                yield optics.contradicts(
                    "L16", subject, units.show(min(set_values), "length"), units.show(amount.value, "length")
                )
    yield from _durations(transition)


def _durations(transition: Transition) -> Said:
    set_values = {a.value for _, a in transition.parameters.amounts("duration")}
    if not set_values:
        return
    properties_before = {(leaf.key, leaf.text) for view in transition.inputs for leaf in view.leaves}
    for view in transition.kept:
        for leaf in view.leaves:
            duration = leaf.amount("duration") if any(set(leaf.words) == key for key in _DURATION_KEYS) else None
            if duration is None or (leaf.key, leaf.text) in properties_before:
                continue
            yield Ran("L16", quantity=True)
            if all(abs(duration.value - value) > value / 20 for value in set_values):
                yield optics.contradicts(
                    "L16", view.name, units.show(min(set_values), "duration"), units.show(duration.value, "duration")
                )


def _told(transition: Transition, dimension: str) -> Iterator[tuple[str, Amount]]:
    """Yield (subject, amount) of a dimension in everything that this step wrote."""
    input_texts = transition.told
    for view in transition.kept:
        for leaf in view.leaves:
            if leaf.text not in input_texts and dimension == "centrifugal_force" and set(leaf.words) & _SPUN:
                yield from ((view.name, amount) for amount in sentences.forces(leaf.text))
            if leaf.text not in input_texts and not meaning.is_temperature(leaf):
                for amount in (
                    [leaf.amount(dimension)] if leaf.amount(dimension) else sentences.amounts(leaf.text, dimension)
                ):
                    if amount:
                        yield view.name, amount
    # An observation may repeat amounts of the inputs, which are no settings of this step.
    known_values = {amount.value for text in input_texts for amount in sentences.amounts(text, dimension)}
    for seen in transition.seen:
        for amount in sentences.amounts(seen.text, dimension):
            if amount.value not in known_values:
                yield seen.place, amount
