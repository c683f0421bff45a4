"""Subtle errors of records: an instrument's reading that does not fit the sample it stands with."""

import random
import re
from decimal import Decimal
from itertools import combinations

from simulation.lab import quantities
from simulation.lab.outcomes import Observation
from simulation.offline.injectors.changes import Case, Planted, amount, readings, scaled, told, with_observation


def reading_off(case: Case, rng: random.Random) -> Planted | None:
    """An instrument reads a volume or mass a good part away from what lies on the bench."""
    known = [
        quantity
        for _, d in case.drafts()
        for name in ("volume", "mass")
        if (quantity := amount(d.properties.get(name), name))
    ]
    fits = [
        (i, near)
        for i, seen in enumerate(case.outcome.new_observations)
        for near in known
        if any(abs(reading - near.value) * 20 < near.value for reading in readings(seen, near.dimension))
    ]
    if not fits:
        return None
    index, near = rng.choice(fits)
    seen = case.outcome.new_observations[index]
    wrong = scaled(seen, rng.choice((Decimal("0.82"), Decimal("1.23"))), near.dimension)
    outcome = with_observation(case.outcome, index, value=wrong)
    why = f"the reading is {wrong}, the material holds {quantities.show(near.value, near.dimension)}"
    return Planted(outcome, "readings and materials agree", f"new_observations[{index}].value", why)


def replicate_off(case: Case, rng: random.Random) -> Planted | None:
    """One of several readings of the same sample has its point one place off."""
    fits = [(i, parts) for i, seen in enumerate(case.outcome.new_observations) if (parts := _replicates(seen.value))]
    if not fits:
        return None
    index, parts = rng.choice(fits)
    at = rng.randrange(len(parts))
    right, rest = parts[at].partition(" ")[::2]
    wrong = format((Decimal(right) / 10).normalize(), "f")
    others = [*parts[:at], f"{wrong} {rest}".strip(), *parts[at + 1 :]]
    outcome = with_observation(case.outcome, index, value=", ".join(others))
    why = f"reading {at + 1} is {wrong} where it was {right}; the others of this sample are ten times as high"
    return Planted(outcome, "readings of one sample agree within the noise", f"new_observations[{index}].value", why)


def _replicates(value: str) -> list[str]:
    """The readings of "101 mAU·s, 102 mAU·s" or "101, 102 mAU·s", where all are nearly the same; else nothing."""
    parts = value.split(", ")
    found = [re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)( \D+)?", part) for part in parts]
    numbers = [Decimal(match[1]) for match in found if match]
    same = len(numbers) == len(parts) > 1 and min(numbers) > 0 and max(numbers) < min(numbers) * Decimal("1.5")
    return parts if same else []


def swapped_readings(case: Case, rng: random.Random) -> Planted | None:
    """What was read of two samples stands under each other's name, where the two are known to differ."""
    seen = case.outcome.new_observations
    known = [_known_of(case, one.description) for one in seen]
    fits = [
        (i, j, name)
        for i, j in combinations(range(len(seen)), 2)
        for name in known[i].keys() & known[j].keys()
        if known[i][name] != known[j][name] and _alike(seen[i], seen[j]) and _tells(name, seen[i], seen[j])
    ]
    if not fits:
        return None
    first, second, name = rng.choice(sorted(fits))
    outcome = with_observation(case.outcome, first, value=seen[second].value)
    outcome = with_observation(outcome, second, value=seen[first].value)
    why = (
        f"{seen[second].value} was read of the other sample: "
        f"{name} is {known[first][name]} here and {known[second][name]} there"
    )
    return Planted(outcome, "a reading stands with the sample it was read of", f"new_observations[{first}].value", why)


def _known_of(case: Case, description: str) -> dict[str, str]:
    """What is openly known of the sample an observation names: its concentrations and its genotype."""
    named = [draft for draft in case.outcome.new_materials if told(draft.name, description)]
    if not named:
        return {}
    properties = max(named, key=lambda draft: len(draft.name)).properties
    return {
        name: str(value) for name, value in properties.items() if name == "genotype" or name.endswith(" concentration")
    }


def _tells(name: str, one: Observation, other: Observation) -> bool:
    """Whether the two readings differ by what is known: concentrations in a figure, genotypes in what is seen."""
    if name == "genotype":
        return one.value != other.value and "quantitative" not in (one.measurement_type, other.measurement_type)
    figures = [re.match(r"[0-9]+(?:\.[0-9]+)?", seen.value) for seen in (one, other)]
    numbers = sorted(Decimal(figure[0]) for figure in figures if figure)
    return len(numbers) == 2 and numbers[1] > numbers[0] * Decimal("1.5")


def _alike(one: Observation, other: Observation) -> bool:
    """The same thing was read of both."""
    return one.description.rpartition(": ")[2] == other.description.rpartition(": ")[2] or ":" not in one.description
