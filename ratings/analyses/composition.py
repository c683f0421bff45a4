"""What the numbers are of: shares that every reader of a rate needs beside it."""

from collections import Counter
from typing import Any

import numpy as np

from ratings.analyses.reading import Arm, Reading
from ratings.analyses.sections_raters import Seat, contested
from ratings.analyses.tables import Json
from ratings.models import Study


def of(study: Study, read: Reading, seats: list[Seat]) -> Json:
    """planted_share: rated items with a planted error, None where there is none; arms: ratings by how items were shown;
    contested: items that raters are not of one mind about."""
    counting = read.columns.counts
    rated = np.unique(read.columns.item[counting])
    errors = Counter(read.items[at].error for at in rated)
    wrong = errors.total() - errors["none"]
    machines = study.machine_raters.order_by("pk").values_list("label", "name")
    return {
        "planted_share": wrong / errors.total() if wrong else None,
        "errors": dict(sorted(errors.items())),
        "arms": _arms(read),
        "simulated": _simulated(read, seats),
        "imported": _imported(read),
        "machines": [f"{label}, {name}" for label, name in machines],
        "contested": contested(read),
        "cannot_judge": int(np.sum(counting & (read.columns.verdict < 0))),
        "surplus": int(np.sum((read.columns.occasion == 1) & ~counting)),
    }


def _arms(read: Reading) -> dict[str, dict[str, float]]:
    """By what was varied or not: the share of the ratings given in each arm, those from elsewhere left out."""
    here = read.columns.counts & ~read.columns.imported
    counts = np.bincount(read.columns.arm[here], minlength=len(read.arms))
    found: dict[str, dict[str, float]] = {}
    for name in Arm._fields:
        by_arm: Counter[str] = Counter()
        for arm, n in zip(read.arms, counts, strict=True):
            by_arm[getattr(arm, name)] += int(n)
        found[name] = {arm: n / by_arm.total() for arm, n in sorted(by_arm.items()) if n}
    return found


def _simulated(read: Reading, seats: list[Seat]) -> Json:
    """How many raters are simulated, and how many of the ratings are theirs; `said` is "" if none."""
    counting = read.columns.counts
    with_ratings = {read.raters[at] for at in np.unique(read.columns.rater[counting])}
    made = {seat.label for seat in seats if seat.who == "simulated"} & with_ratings
    ratings, every = int(np.sum(counting & read.columns.simulated)), int(counting.sum())
    return {
        "raters": len(made),
        "of_raters": len(with_ratings),
        "ratings": ratings,
        "of_ratings": every,
        "said": _simulated_said(len(made), len(with_ratings), ratings, every),
    }


def _simulated_said(made: int, raters: int, ratings: int, every: int) -> str:
    if not made:
        return ""
    if made == raters:
        return f"All {raters} raters are simulated: these numbers say nothing of people."
    return f"{made} of {raters} raters are simulated; they gave {ratings:,} of {every:,} ratings."


def _imported(read: Reading) -> dict[str, Any]:
    ratings, every = int(np.sum(read.columns.counts & read.columns.imported)), int(read.columns.counts.sum())
    said = f"{ratings:,} of {every:,} ratings were collected elsewhere and imported." if ratings else ""
    return {"ratings": ratings, "of_ratings": every, "said": said}
