"""Compute which readings an experiment's declared responses can give, and compare them with the ranges of the instruments."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from simulation.lab import quantities
from simulation.lab.actions import ActionType, Catalogue
from simulation.lab.experiments import ExperimentSpec
from simulation.lab.parameters import Parameter
from simulation.offline.declared_numbers import parse_amount_ratio, parse_concentration, parse_number, parse_yield
from simulation.offline.instrument_ranges import find_range
from simulation.offline.ledger import ONE, ZERO, Contents, sum_known
from simulation.offline.responses import build_curve, parse_point
from simulation.offline.truth_units import resolve_dimensions

_Highest = dict[str, Decimal | None]  # component -> highest concentration in its base unit; None: no limit is known


class OccurringConcentrations(NamedTuple):
    """What can occur on the bench. Mixing never gives more than the most concentrated of the mixed materials has.

    `materials` are the concentrations in each initial material, `highest` that of each component anywhere, also after
    growth and reactions; None if no limit is known, as of a solid that can be dissolved in any volume.
    """

    materials: tuple[Mapping[str, Decimal | None], ...]
    highest: Mapping[str, Decimal | None]

    def compute_highest_sum(self, weights: Mapping[str, Decimal]) -> Decimal | None:
        """Return the highest weighted sum of concentrations, or None if no limit is known."""
        sums = [
            sum_known(
                None if (part := parts.get(name, ZERO)) is None else part * weight for name, weight in weights.items()
            )
            for parts in self.materials
        ]
        singles = [self.highest.get(name, ZERO) for name in weights]
        sums += [
            None if part is None else part * weight for part, weight in zip(singles, weights.values(), strict=True)
        ]
        known = [total for total in sums if total is not None]
        return max(known) if len(known) == len(sums) else None


def find_reading_problems(spec: ExperimentSpec, catalogue: Catalogue) -> list[str]:
    """Return each response whose readings leave the range of its instrument at concentrations that can occur.

    Where the author declares an `upper_limit`, only readings up to there count. Higher ones are reported as off scale.
    """
    occurring, problems = compute_occurring_concentrations(spec), []
    for index, response in enumerate(spec.truth.get("responses", ())):
        actions = response["action"] if isinstance(response["action"], list) else [response["action"]]
        for action in actions:
            if (measuring_range := find_range(action, response["unit"])) is None:
                continue
            readings = _list_readings(response, catalogue.types[action], occurring)
            low, high = min(readings), max(readings)
            if not measuring_range.covers(low, high):
                gives = f"{quantities.format_number(low)} to {quantities.format_number(high)}"
                reads = f"{measuring_range.low:f} to {measuring_range.high:f} {response['unit']}".strip()
                problems.append(
                    f"truth.responses[{index}] ({response['signal']}): gives {gives}, {action} reads {reads}; "
                    "correct the curve, or declare an upper_limit"
                )
    return problems


def compute_occurring_concentrations(spec: ExperimentSpec) -> OccurringConcentrations:
    """Return what can occur on the bench of an experiment: in the materials, after growth, or made by reactions."""
    highest: _Highest = {}
    dimensions: dict[str, str] = {}
    materials: list[Mapping[str, Decimal | None]] = []
    ledgers = [draft.ledger for draft in spec.initial_materials()]
    for ledger in [*ledgers, *(well["ledger"] for plate in ledgers for well in plate.get("wells", ()))]:
        contents = Contents.from_ledger(ledger)
        dimensions |= {name: part.dimension for name, part in contents.components.items()}
        materials.append({name: contents.compute_concentration(name) for name in contents.components})
        for name, concentration in materials[-1].items():
            _raise_highest(highest, name, concentration)
    dimensions = resolve_dimensions(spec.truth, dimensions)
    for growth in spec.truth.get("growth", ()):
        for name, concentration in _list_grown(growth, materials):
            _raise_highest(highest, name, concentration)
        for name, text in growth.get("forms", {}).items():
            # As much as the cells at the limit have formed.
            limit = parse_concentration(growth["limit"])[1] if "limit" in growth else None
            _raise_highest(highest, name, None if limit is None else limit * parse_yield(text)[1])
    # A product may be made from another product, so the reactions are applied until nothing changes.
    before: _Highest = {}
    while before != highest:
        before = dict(highest)
        for reaction in spec.truth.get("reactions", ()):
            if "makes" in reaction:
                _raise_highest(highest, reaction["makes"], _compute_highest_product(reaction, before, dimensions))
        for killing in spec.truth.get("survival", ()):
            if "into" in killing:
                for name in killing["components"]:
                    _raise_highest(highest, killing["into"], before.get(name, ZERO))
    return OccurringConcentrations(tuple(materials), highest)


def _list_grown(
    growth: Mapping[str, Any], materials: Iterable[Mapping[str, Decimal | None]]
) -> Iterator[tuple[str, Decimal | None]]:
    """Yield (component, concentration) after growth to the limit, which is one of the first component."""
    leader, *others = growth["components"]
    limit = parse_concentration(growth["limit"])[1] if "limit" in growth else None
    yield leader, limit
    for parts in materials:
        if start := parts.get(leader):
            for name in others:
                part = parts.get(name, ZERO)
                yield name, None if part is None or limit is None else part * max(ONE, limit / start)


def _raise_highest(highest: _Highest, name: str, value: Decimal | None) -> None:
    known = highest.get(name, ZERO)
    highest[name] = None if known is None or value is None else max(known, value)


def _compute_highest_product(
    reaction: Mapping[str, Any], highest: _Highest, dimensions: Mapping[str, str]
) -> Decimal | None:
    made = reaction["makes"]
    if "per_volume" in reaction:
        return parse_concentration(reaction["per_volume"])[1]
    if "poisson" in reaction:
        return highest.get(reaction["poisson"]["targets"], ZERO)
    if "consumes" in reaction:
        # The scarcest substance limits the product; one without a known limit does not.
        allowed = [
            amount / parse_amount_ratio(text, dimensions[name], dimensions[made])
            for name, text in reaction["consumes"].items()
            if (amount := highest.get(name, ZERO)) is not None
        ]
        return min(allowed, default=None)
    source = highest.get(reaction["from"], ZERO)
    ratio = parse_amount_ratio(reaction["ratio"], dimensions[made], dimensions[reaction["from"]])
    return None if source is None else source * ratio


def _list_readings(
    response: Mapping[str, Any], action: ActionType, occurring: OccurringConcentrations
) -> list[Decimal]:
    """Return the readings at both ends of what can occur and at the declared points between them."""
    parameter = next((part for part in action.parameters if part.name == response.get("parameter")), None)
    curve = build_curve(response, parameter)
    low, high = _find_bounds(response, parameter, occurring)
    points = [parse_point(response, parameter, x) for x, _ in response.get("table", ())]
    points += [parse_point(response, parameter, response["hill"]["half"])] if "hill" in response else []
    return [curve(x) for x in {low, high, *(x for x in points if low <= x <= high)}]


def _find_bounds(
    response: Mapping[str, Any], parameter: Parameter | None, occurring: OccurringConcentrations
) -> tuple[Decimal, Decimal]:
    """Return the lowest and highest x that give a number. What has no known limit counts up to the largest declared x."""
    declared = [parse_point(response, parameter, x) for x, _ in response.get("table", ())]
    low = parse_point(response, parameter, response["detection_limit"]) if "detection_limit" in response else ZERO
    if parameter is not None:
        ends = [parameter.parse_value(end) for end in (parameter.minimum, parameter.maximum)]
        condition = response.get("when", {}).get(parameter.name)
        if isinstance(condition, Mapping):
            ends = [parameter.parse_value(condition[name]) if name in condition else end
                    for name, end in zip(("minimum", "maximum"), ends, strict=True)]  # fmt: skip
        low, high = Decimal(ends[0]), Decimal(ends[1])
    elif "per" in response:
        high = max([ONE, *declared])
    else:
        weights = response.get("components") or {response["component"]: "1"}
        highest = occurring.compute_highest_sum({name: parse_number(weight) for name, weight in weights.items()})
        high = max([low, *declared]) if highest is None else highest
    if "upper_limit" in response:
        high = min(high, parse_point(response, parameter, response["upper_limit"]))
    return low, max(low, high)
