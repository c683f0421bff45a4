"""Two simulators whose outcomes have no known truth: what simulated raters detect of each is recovered."""

import math
from collections.abc import Iterator, Mapping
from statistics import NormalDist, fmean
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.special import ndtr

from ratings.raters.simulated_raters import CONFIDENCE_STEPS, RATER_SPREAD, Skill, judge_transition
from ratings.results.analyses import rating_columns, sections_contrasts
from ratings.results.analyses.rating_columns import AnalysisData
from ratings.results.analyses.tables import list_records
from ratings.stats import detection, proportions
from tests.support.rating_rows import build_rating_row

SKILLS: Mapping[str, Skill] = {"gpt": Skill(0.85, 0.65, 0.90), "qwen": Skill(0.85, 0.45, 0.80)}
RATERS, ITEMS = 12, 60  # of each simulator: half unperturbed, half with a subtle error
SPREAD = math.sqrt(1 + RATER_SPREAD**2)


class Found(NamedTuple):
    """A number of one study with its interval, and its true value."""

    quantity: str
    value: float
    low: float | None
    high: float | None
    truth: float


def play(seed: int) -> AnalysisData:
    """A study in which every rater judges every item of both simulators; no item has a truth."""
    rows = []
    for at, (name, skill) in enumerate(sorted(SKILLS.items())):
        for item in range(ITEMS):
            error = ("none", "subtle")[item % 2]
            planted = {"perturbation": error, "reference": "planted"} if item % 2 else {}
            for label in (f"R{number}" for number in range(1, RATERS + 1)):
                verdict, sure = judge_transition(error, f"{name}{item}", label, skill, seed, label)
                rows.append(
                    build_rating_row(1 + item + 100_000 * at, label, verdict, sure, source=name, truth=None, **planted)
                )
    return rating_columns.build_analysis_data(rows)


def find_area(skill: Skill) -> float:
    """The mean over raters of the area of the signed rating, subtle errors against unperturbed: an integral over raters."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    steps = np.array(CONFIDENCE_STEPS)
    cuts = np.concatenate([-steps[::-1], [0.0], steps])
    shares = []
    for called in (1 - skill.specificity, skill.subtle):
        centre = NormalDist().inv_cdf(called) * SPREAD
        below = ndtr(cuts - (centre - RATER_SPREAD * nodes)[:, None])
        shares.append(np.diff(below, axis=1, prepend=0, append=1))
    unperturbed, wrong = shares
    lower = np.cumsum(unperturbed, axis=1) - unperturbed / 2
    return float(weights / weights.sum() @ (wrong * lower).sum(axis=1))


def find_d_prime(skill: Skill) -> float:
    """The mean over raters of d'."""
    return SPREAD * (NormalDist().inv_cdf(skill.subtle) + NormalDist().inv_cdf(skill.specificity))


def find_numbers(read: AnalysisData) -> Iterator[Found]:
    """Sensitivity and specificity of each simulator and together, and what differs between the simulators."""
    for one in detection.estimate_detection(read.table):
        if one.stat == "sensitivity" and "source" in one.args and "rater" not in one.args:
            name = one.args["source"].partition(",")[0]
            yield Found(f"sensitivity, {name}", one.value or 0.0, one.low, one.high, SKILLS[name].subtle)
        if one.stat == "specificity" and not one.args:
            mean = fmean(skill.specificity for skill in SKILLS.values())
            yield Found("specificity, both", one.value or 0.0, one.low, one.high, mean)
    for one in proportions.estimate_rates(read.table):
        if one.args["source"] in SKILLS and "interval" not in one.args:
            name = one.args["source"]
            yield Found(f"specificity, {name}", one.value or 0.0, one.low, one.high, SKILLS[name].specificity)
    lines = list_records(sections_contrasts.build_contrast_tables(read, (), {})["contrasts"])
    first, second = SKILLS["gpt"], SKILLS["qwen"]
    wrong = ("gpt, subtle error", "qwen, subtle error")
    for quantity, names, said, truth in (
        ("sensitivity, difference", wrong, "rate", second.subtle - first.subtle),  # of verdicts that say plausible
        ("specificity, difference", ("gpt", "qwen"), "rate", first.specificity - second.specificity),
        ("area, difference", wrong, "AUC", find_area(first) - find_area(second)),
        ("d', difference", wrong, "d'", find_d_prime(first) - find_d_prime(second)),
    ):
        line = next(
            line
            for line in lines
            if line["family"] == ("sources" if said == "rate" else "simulators")
            and (line["first"], line["second"], line["quantity"]) == (*names, said)
        )
        yield Found(quantity, line["difference"], line["low"], line["high"], truth)


def gather_numbers(worlds: int) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for seed in range(worlds):
        for one in find_numbers(play(5_000 + seed)):
            found.setdefault(one.quantity, []).append(one)
    return found


def count_held(own: list[Found]) -> tuple[int, int]:
    """Return how many intervals contain the true value, and how many there are."""
    given: list[Any] = [one for one in own if one.low is not None]
    return sum(one.low <= one.truth <= one.high for one in given), len(given)


def test_detection_rates_of_two_simulators_are_recovered_without_declared_truths() -> None:
    found = gather_numbers(8)
    assert len(found) == 9
    for quantity, own in found.items():
        held, given = count_held(own)
        # Of eight intervals that hold 95 % of the time, more than two miss in 6 of 1,000 such tests. Some of d' are withheld.
        assert given >= (6 if quantity.startswith("d'") else 8) and held >= given - 2, quantity
        wide = 0.25 if quantity.startswith("d'") else 0.06
        assert fmean(one.value for one in own) == pytest.approx(own[0].truth, abs=wide), quantity


@pytest.mark.thorough
def test_intervals_of_two_simulators_contain_the_true_value_in_95_of_100_studies() -> None:
    worlds = 300
    error = math.sqrt(0.95 * 0.05 / worlds)
    shares = {}
    for quantity, own in gather_numbers(worlds).items():
        held, given = count_held(own)
        assert given > (0.8 if quantity.startswith("d'") else 0.99) * worlds, quantity
        shares[quantity] = held / given
    # The interval of a difference of d' is withheld in one study of nine here, and wide in the others.
    most = {name: 1.0 if name.startswith("d'") else 0.97 + error for name in shares}
    outside = {name: share for name, share in shares.items() if not 0.93 - error <= share <= most[name]}
    assert outside == {}
