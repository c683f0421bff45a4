"""What every statistic answers: one number with its interval, how it was made, what it rests on, or why there is none."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

Args = Mapping[str, Any]
N = Mapping[str, int]

LEVEL = 0.95
MAJORITY, CONSENSUS = "majority of the models", "all models"  # ensembles beside models
FEW_ITEMS = "few items"  # the reasons of point estimates from few shared items start so

# How intervals are made; the words go beside them. docs/coverage.md has their measured coverage.
METHODS: Mapping[str, str] = {
    "": "no interval",
    "wilson": "Wilson, ratings taken as independent",
    "wilson_cluster": "Wilson with the effective n of items and raters, t quantile; new raters, new items",
    "wilson_items": "Wilson with the effective n of items, t quantile; this rater, new items",
    "mean_cluster": "items and raters as clusters, t quantile; new raters, new items",
    "mean_items": "items as clusters, t quantile; this rater, new items",
    "item_bootstrap": "items resampled within source; these raters, new items",
    "item_bootstrap_any": "items resampled whatever their source; these raters, new items",
    "item_bootstrap_corrected": "items resampled within source, less the bias found there; these raters, new items",
    "item_bootstrap_fisher": "items resampled within source, on Fisher's z scale; these raters, new items",
    "item_bootstrap_rater_jackknife": "items resampled within source, raters left out in turn; new raters, new items",
    "item_bootstrap_rater_jackknife_t": (
        "items resampled within source, raters left out in turn, t quantile; new raters, new items"
    ),
    "two_way_bootstrap": "items and raters resampled; new raters, new items",
    "paired_bootstrap": "experiments resampled, both agents on the same ones",
    "wilson_tasks": "Wilson with the effective n of experiments, t quantile; new experiments",
    "delong": "DeLong; this rater, new items",
    "newcombe_score": "Newcombe's score interval, for an area near 1; this rater, new items",
    "or_hillis": "Obuchowski-Rockette with Hillis' degrees of freedom; new raters, new items",
    "or_fixed": "Obuchowski-Rockette, these raters, new items",
    "or_hillis_logit": "Obuchowski-Rockette of the logit, for an area near 1; new raters, new items",
    "or_fixed_logit": "Obuchowski-Rockette of the logit, for an area near 1; these raters, new items",
    "difference_clustered": "adjusted Wald (Agresti and Caffo), items and raters as clusters, t quantile; new raters, new items",
    "difference_paired": "adjusted Wald of pairs (Bonett and Price), items and raters as clusters, t quantile; new raters, new items",
    "difference_one_rater": "adjusted Wald, items as clusters, t quantile; this rater, new items",
    "difference_rater": "adjusted Wald, items and the other raters as clusters, t quantile; this rater, new items",
    "difference_pair": "adjusted Wald, items as clusters, t quantile; these two raters, new items",
    "difference_machines": "adjusted Wald, items as clusters, t quantile; these two machines, new items",
    "difference_machine": "adjusted Wald, items and raters as clusters, t quantile; this machine, new raters, new items",
    "difference_machine_rater": "adjusted Wald, items as clusters, t quantile; this machine, this rater, new items",
    "or_two_conditions": "Obuchowski-Rockette of two conditions with Hillis' degrees of freedom; new raters, new items",
    "u_statistic": "U-statistic of Gallas with Hillis' degrees of freedom; new raters, new items",
    "normal": "normal approximation",
    "clopper_pearson": "Clopper-Pearson, exact",
    "estimate": "an estimate of a model, not a count",
}


class Estimate(NamedTuple):
    """One result. `value` is None where it is undefined, `low` and `high` where there is no interval; then `reason` says why.

    `args` tell which of the statistic's many it is (source, rater, raters, level, ...), `n` what it rests on: items,
    raters, ratings, and what else counts (pairs_used, pairs_undefined, positives, ...). `method` is a key of METHODS,
    `reference` a key of table.REFERENCES where the number compares verdicts with one ("" where it needs none).
    """

    stat: str
    args: Args
    value: float | None
    low: float | None
    high: float | None
    method: str
    n: N
    reason: str = ""
    reference: str = ""

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def to_json(self) -> dict[str, Any]:
        """For files and pages: no NaN, no infinity, args and n in the order they were given."""
        return {**self._asdict(), "args": dict(self.args), "n": dict(self.n)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Estimate":
        return cls(**{name: data[name] for name in cls._fields})


def estimate(
    stat: str,
    value: float | None,
    n: N,
    *,
    args: Args | None = None,
    interval: tuple[float, float] | None = None,
    method: str = "",
    reason: str = "",
) -> Estimate:
    """An Estimate from Python or NumPy numbers. ValueError for a NaN, an unknown method, or a missing number without a reason."""
    if method not in METHODS:
        raise ValueError(f"{method!r} is no method; those are {', '.join(filter(None, METHODS))}")
    found = None if value is None else float(value)
    low, high = (None, None) if interval is None else (float(interval[0]), float(interval[1]))
    if any(number is not None and not math.isfinite(number) for number in (found, low, high)):
        raise ValueError(f"{stat} came out as {found}, {low} to {high}; what is undefined is None and has a reason")
    if found is None and not reason:
        raise ValueError(f"{stat} is undefined and nothing says why")
    counts = {name: int(count) for name, count in n.items()}
    return Estimate(stat, dict(args or {}), found, low, high, method if interval else "", counts, reason)


def generator(seed: int, stat: str, args: Args | None = None) -> np.random.Generator:
    """The random numbers of one statistic: its own stream of the seed, whatever else is computed before or after it."""
    name = json.dumps([stat, dict(args or {})], sort_keys=True, ensure_ascii=False)
    return np.random.default_rng([seed, int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])])
