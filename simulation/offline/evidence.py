"""The evidence in a transcript: what was done to each material, where it came from, what was observed, and what counts for a line of a rubric."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any

from simulation.lab import quantities
from simulation.lab.outcomes import NOTE
from simulation.lab.roles import TranscriptStep
from simulation.lab.rubrics import NeverEntry, RubricLine

# These actions change the composition of a liquid, so shares by volume no longer describe it.
_CONCENTRATING = (
    "Evaporate", "Lyophilize", "DryingOven", "Desiccate", "Dialysis", "SolidPhaseExtraction", "AttemptDNAExtraction",
)  # fmt: skip
_SEPARATING_ACTION = "SeparateWells"  # each well becomes an origin of its own
_ROUNDING = Decimal("0.002")  # relative; volumes in a transcript are rounded
_ALIKE_RATIO = Decimal("1.1")  # ratio of two amounts up to which they agree
_UNIT = re.compile(r"[0-9] ?([^0-9\s,][^0-9,]*)$")
_IN_BRACKETS = re.compile(r" \([^()]*\)$")
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


@dataclass(frozen=True)
class Reading:
    """One material in one accepted step.

    `origins` are names of initial materials and of wells. `ancestors` are barcodes, including the material's own.
    `shares` are v/v shares of initial materials by name, and of ancestors by barcode, as far as they can be computed.
    `taken_from` are names of the initial materials that this step itself took for the material. `position` is that of the
    material among those of the step.
    If the step changed the material, `properties` are those after the step. Times are in seconds since the start of the
    episode.
    """

    step: int
    started_at: int
    position: int
    action: str
    parameters: Mapping[str, Any]
    barcode: str
    origins: frozenset[str]
    ancestors: frozenset[str]
    taken_from: frozenset[str]
    shares: Mapping[str, Decimal]
    properties: Mapping[str, Any]
    observations: tuple[tuple[str, str], ...]  # description and value

    @property
    def observed_values(self) -> tuple[str, ...]:
        return tuple(value for _, value in self.observations if value)

    def filter_observations(self, words: Sequence[str]) -> "Reading":
        """Return a copy with only the observations that contain one of these words."""
        matching = [pair for pair in self.observations if any(word.lower() in " ".join(pair).lower() for word in words)]
        return replace(self, observations=tuple(matching))

    def find_value(self, name: str) -> Any:
        """Return the value of a visible property, or of a parameter of the step if there is no such property, or None."""
        return self.properties.get(name, self.parameters.get(name))

    @property
    def first_number(self) -> Decimal | None:
        """The first number in the observed values, or None if there is none."""
        return None if self._first_match is None else Decimal(self._first_match[0])

    @property
    def mean_number(self) -> Decimal | None:
        """The mean of the numbers in the first observed value that contains one, such as two weighings; else None."""
        numbers = list(map(Decimal, _NUMBER.findall(self._first_match.string))) if self._first_match else []
        return sum(numbers, Decimal(0)) / len(numbers) if numbers else None

    @property
    def unit(self) -> str:
        """What follows the numbers of the first observed value that contains one: "g" of "31.2045 g, 31.2046 g"; else "".

        Counts in brackets belong to a share: the unit of "12.3 % (1230 of 10000 events)" is "%".
        """
        found = _UNIT.search(_IN_BRACKETS.sub("", self._first_match.string)) if self._first_match else None
        return found[1] if found else ""

    @property
    def _first_match(self) -> re.Match[str] | None:
        return next((match for value in self.observed_values if (match := _NUMBER.search(value))), None)


@dataclass(frozen=True)
class _Lineage:
    origins: frozenset[str]
    ancestors: frozenset[str]
    shares: Mapping[str, Decimal]
    known: bool  # whether the shares of initial materials are complete


def collect_readings(transcript: Sequence[TranscriptStep]) -> list[Reading]:
    """Return a reading for every material of every accepted step, in order. Lineage follows `replaces` and `derived_from`."""
    known: dict[str, _Lineage] = {}
    collected: list[Reading] = []
    for step in transcript:
        if not step.rejected:
            collected += _iter_step_readings(step, known)
    return collected


def _iter_step_readings(step: TranscriptStep, lineages: dict[str, _Lineage]) -> Iterator[Reading]:
    for material in step.inputs:
        # An initial material is its own origin; any other without a history has none.
        names = {material["name"]} if material["created_at"] == 0 else set()
        own_code, shares = frozenset({material["barcode"]}), dict.fromkeys(names, Decimal(1))
        lineages.setdefault(material["barcode"], _Lineage(frozenset(names), own_code, shares, True))
    # A copy: outputs of a step descend from materials as they were before it, not from each other.
    before = dict(lineages)
    initial_names = {material["barcode"]: material["name"] for material in step.inputs if material["created_at"] == 0}
    outputs = {material["barcode"]: material for material in step.outputs}
    for code, output in outputs.items():
        lineages[code] = _trace_lineage(step.action, output, before)
    read = {material["barcode"]: material for material in step.inputs}
    # Inputs first: their order is that in which an instrument reads them.
    for position, (code, material) in enumerate((read | outputs | read).items()):
        after = outputs[code]["properties"] if code in outputs else {}
        sources = outputs[code]["derived_from"] if code in outputs else ()
        observations = _find_observations(step, material)
        yield Reading(
            step=step.number,
            started_at=step.started_at,
            position=position,
            action=step.action,
            parameters=step.parameters,
            barcode=code,
            origins=lineages[code].origins,
            ancestors=lineages[code].ancestors,
            taken_from=frozenset(initial_names[source] for source in sources if source in initial_names),
            shares=lineages[code].shares,
            properties={**material["properties"], **after},
            observations=tuple((shown["description"], str(shown["value"])) for shown in observations),
        )


def _trace_lineage(action: str, output: Mapping[str, Any], before: Mapping[str, _Lineage]) -> _Lineage:
    sources = [code for code in (output["replaces"], *output["derived_from"]) if code in before]
    origins = frozenset[str]().union(*(before[code].origins for code in sources))
    ancestors = frozenset({output["barcode"]}).union(*(before[code].ancestors for code in sources))
    if action == _SEPARATING_ACTION:
        return _Lineage(origins | {output["name"]}, ancestors, {output["name"]: Decimal(1)}, True)
    if action in _CONCENTRATING:
        return _Lineage(origins, ancestors, {}, False)
    return _Lineage(origins, ancestors, *_compute_shares(output, before))


def _compute_shares(output: Mapping[str, Any], before: Mapping[str, _Lineage]) -> tuple[dict[str, Decimal], bool]:
    """Return (v/v shares by the volumes taken and left, as far as displayed; whether those of initial materials are complete)."""
    own_code = output["replaces"]
    volumes_taken = {code: _parse_volume(text) for code, text in output.get("taken", {}).items()}
    if set(output["derived_from"]) - set(volumes_taken) or None in volumes_taken.values():
        return {}, False
    poured = {code: volume for code, volume in volumes_taken.items() if volume}
    if not poured:
        return (dict(before[own_code].shares), before[own_code].known) if own_code in before else ({}, False)
    total = _parse_volume(output["properties"].get("volume"))
    if not total or not before.keys() >= poured.keys():
        return {}, False
    own_volume = total - sum(poured.values(), Decimal(0))
    # Displayed volumes are rounded, so a difference within the rounding means that the vessel was empty.
    if abs(own_volume) <= total * _ROUNDING:
        own_volume = Decimal(0)
    elif own_volume < 0 or own_code not in before:
        return {}, False
    parts = {code: volume / total for code, volume in poured.items()}
    if own_volume:
        parts[own_code] = parts.get(own_code, Decimal(0)) + own_volume / total
    shares: dict[str, Decimal] = {}
    for code, part in parts.items():
        for name, share in {code: Decimal(1), **before[code].shares}.items():
            shares[name] = shares.get(name, Decimal(0)) + share * part
    if all(before[code].known for code in parts):
        return shares, True
    return {name: share for name, share in shares.items() if name in before}, False


def _parse_volume(text: Any) -> Decimal | None:
    """Return a volume in µL, zero for a mass, or None for anything else."""
    quantity = quantities.find_quantity(text, "volume", "mass")
    return None if quantity is None else quantity.value if quantity.dimension == "volume" else Decimal(0)


def _find_observations(step: TranscriptStep, material: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the observations of a material, found by its name in the description, else by its position among the inputs."""
    names = [other["name"] for other in step.inputs]
    codes = [other["barcode"] for other in step.inputs]
    name = material["name"]
    # Routine notes are no measurements.
    observations = [shown for shown in step.observations if shown["measurement_type"] != NOTE]
    if material["barcode"] not in codes:
        return []
    # Two inputs of the same name cannot be distinguished by name, only by position.
    if names.count(name) == 1:
        mentioning = [shown for shown in observations if _mentions_material(shown["description"], name, names)]
        if mentioning:
            return mentioning
    if len(observations) == len(codes):
        return [observations[codes.index(material["barcode"])]]
    return observations if len(codes) == 1 else []


def _mentions_material(description: str, name: str, others: Sequence[str]) -> bool:
    """Return whether the description mentions this material itself, not only one whose longer name contains its name."""
    for other in others:
        if name != other and name in other:
            description = description.replace(other, "")
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", description) is not None


_MENTIONS: dict[str, Callable[[Iterable[bool]], bool]] = {"mentions": any, "mentions_all": all}


def collect_distinct_values(readings: Sequence[Reading], name: str) -> set[object]:
    """Return the distinct values of a visible property, or of a parameter of the step if there is no such property."""
    values = [reading.find_value(name) for reading in readings]
    # Amounts are compared as quantities: "50 µL" and "0.05 mL" are equal.
    return {_find_any_quantity(str(value)) or str(value) for value in values if value is not None}


@lru_cache(maxsize=10_000)
def _find_any_quantity(text: str) -> quantities.Quantity | None:
    return quantities.find_quantity(text, *quantities.list_dimensions())


def agree_in(names: Iterable[str], first: Reading, second: Reading) -> bool:
    """Return whether two readings agree in every named visible property or parameter: amounts within 10 %, other values exactly."""
    return all(_are_alike(first.find_value(name), second.find_value(name)) for name in names)


def _are_alike(first: Any, second: Any) -> bool:
    if first is None or second is None:
        return first is second
    one, other = _format_value(first), _format_value(second)
    if one == other:
        return True
    amounts = _find_amounts(one, other)
    if amounts is None:
        return False
    low, high = sorted(amounts, key=abs)
    return low * high >= 0 and abs(high) <= abs(low) * _ALIKE_RATIO


def collect_values(readings: Iterable[Reading], name: str) -> list[Decimal]:
    """Return the amounts or numbers that a visible property or a parameter of the step has, in base units."""
    values = [reading.find_value(name) for reading in readings]
    pairs = [_find_amounts(text, text) for text in map(_format_value, values) if text != "None"]
    return [pair[0] for pair in pairs if pair]


def matches_step(entry: RubricLine | NeverEntry, reading: Reading) -> bool:
    """Return whether the reading is of one of the actions, with these conditions on the step and the material."""
    conditions = [(condition, reading.parameters.get(name)) for name, condition in entry.parameters.items()]
    conditions += [(condition, reading.properties.get(name)) for name, condition in entry.properties.items()]
    return (
        reading.action in entry.actions
        and reading.origins.issuperset(entry.of)
        and not reading.origins.intersection(entry.not_of)
        and all(_meets_condition(condition, value) for condition, value in conditions)
    )


def matches_line(line: RubricLine, reading: Reading) -> bool:
    number = reading.first_number
    return (
        matches_step(line, reading)
        and (not line.direct or not reading.taken_from.isdisjoint(line.direct))
        # A pooled sample does not count for any of the materials listed in `each`.
        and (not line.each or len(reading.origins.intersection(line.each)) == 1)
        and (not line.value or bool(reading.observed_values))
        and (line.value != "numeric" or number is not None)
        and (not line.signal or (number is not None and _is_within(line.signal, number, reading.unit)))
    )


def _is_within(bounds: Mapping[str, str], number: Decimal, unit: str) -> bool:
    """Return whether a reading lies between bounds like "0.1 AU". A bound with another unit is not met."""
    for name, text in bounds.items():
        bound, _, bound_unit = text.partition(" ")
        if bound_unit and bound_unit != unit:
            return False
        if number < Decimal(bound) if name == "at_least" else number > Decimal(bound):
            return False
    return True


def agrees_with_earlier_lines(
    limits: Mapping[str, str], reading: Reading, earlier: Mapping[str, Sequence[Reading]]
) -> bool:
    """Return whether the mean reading differs by at most the limit from the last one that each line counted of the same material."""
    return all(
        _agrees_with_last(Decimal(limit.partition(" ")[0]), limit.partition(" ")[2], reading, earlier[name])
        for name, limit in limits.items()
    )


def _agrees_with_last(limit: Decimal, unit: str, reading: Reading, earlier: Sequence[Reading]) -> bool:
    before = [other for other in earlier if other.barcode == reading.barcode and other.step < reading.step]
    last = max(before, key=lambda other: other.step, default=None)
    if last is None or reading.mean_number is None or last.mean_number is None:
        return False
    return reading.unit == last.unit == unit and abs(reading.mean_number - last.mean_number) <= limit


def follows_earlier_lines(reading: Reading, earlier: Sequence[Sequence[Reading]]) -> bool:
    """Return whether each line named in `after` counted the material, or an ancestor of it, in an earlier step."""
    return all(any(precedes(other, reading) for other in counted) for counted in earlier)


def precedes(earlier: Reading, reading: Reading) -> bool:
    """Return whether a reading is of the same material or an ancestor of it, in an earlier step."""
    return earlier.barcode in reading.ancestors and earlier.step < reading.step


def repeats_earlier_lines(
    again: Mapping[str, Sequence[str]], reading: Reading, earlier: Mapping[str, Sequence[Reading]]
) -> bool:
    """Return whether each line in `again` counted the material, or an ancestor, in an earlier step with the same values."""
    return all(
        any(precedes(other, reading) and agree_in(values, other, reading) for other in earlier[name])
        for name, values in again.items()
    )


def follows_all_of(reading: Reading, earlier: Sequence[Reading]) -> bool:
    """Return whether the reading comes after the first reading of each of these materials, and there is one."""
    first: dict[str, tuple[int, int]] = {}
    for other in earlier:
        first.setdefault(other.barcode, (other.step, other.position))
    return bool(first) and max(first.values()) < (reading.step, reading.position)


def _meets_condition(condition: Mapping[str, Any], value: Any) -> bool:
    """Return whether a value meets every part of a condition. Amounts are compared as quantities, not as text."""
    if value is None:
        return "absent" in condition
    text = ", ".join(map(_format_value, value)) if isinstance(value, list | tuple) else _format_value(value)
    for kind, requested in condition.items():
        if kind == "absent":
            continue
        if kind in _MENTIONS:
            words = requested if isinstance(requested, list) else [requested]
            if not _MENTIONS[kind](word.lower() in text.lower() for word in words):
                return False
        elif not _compare_amounts(kind, text, str(requested)):
            return False
    return True


def _format_value(value: Any) -> str:
    """Return the value as an agent writes it: `true`, not Python's True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compare_amounts(kind: str, written: str, requested: str) -> bool:
    if kind == "equals" and written.strip() == requested:
        return True
    amounts = _find_amounts(written, requested)
    if amounts is None:
        return False
    actual, required = amounts
    return {"equals": actual == required, "at_least": actual >= required, "at_most": actual <= required}[kind]


# The same few texts are compared in every line and step: without the cache, four fifths of a verdict go into parsing.
@lru_cache(maxsize=10_000)
def _find_amounts(first: str, second: str) -> tuple[Decimal, Decimal] | None:
    """Return both amounts in the base unit of the first dimension in which both texts are amounts, or None."""
    for dimension in quantities.list_dimensions():
        one, other = quantities.find_quantity(first, dimension), quantities.find_quantity(second, dimension)
        if one and other:
            return one.value, other.value
    return None
