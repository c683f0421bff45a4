"""The result type of every statistic: a number with interval, method and sample sizes, or the reason for its absence."""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

Args = Mapping[str, Any]
SampleSizes = Mapping[str, int]

LEVEL = 0.95
MAJORITY, CONSENSUS = "majority of the models", "all models"  # names of the ensembles in tables of models
FEW_ITEMS = "few items"  # first words of the reason why an estimate from few shared items has no interval; callers test for them

# The key is stored in documents and CSV files; the text is shown beside the interval.
# bench/results/coverage.md has the measured coverage of each.
METHODS: Mapping[str, str] = {
    "": "no interval",
    "wilson": "Wilson, ratings treated as independent",
    "wilson_cluster": "Wilson with the effective n of items and raters, t quantile; new raters, new items",
    "wilson_items": "Wilson with the effective n of items, t quantile; this rater, new items",
    "mean_cluster": "items and raters as clusters, t quantile; new raters, new items",
    "mean_items": "items as clusters, t quantile; this rater, new items",
    "item_bootstrap": "items resampled within source; these raters, new items",
    "item_bootstrap_any": "items resampled across sources; these raters, new items",
    "item_bootstrap_corrected": "items resampled within source, bias-corrected; these raters, new items",
    "item_bootstrap_fisher": "items resampled within source, on Fisher's z scale; these raters, new items",
    "item_bootstrap_rater_jackknife": "items resampled within source, jackknife over raters; new raters, new items",
    "item_bootstrap_rater_jackknife_t": (
        "items resampled within source, jackknife over raters, t quantile; new raters, new items"
    ),
    "two_way_bootstrap": "items and raters resampled; new raters, new items",
    "paired_bootstrap": "experiments resampled, the same draws for both agents",
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
    """One result of a statistic. `value` is None if undefined, `low` and `high` if there is no interval; `reason` states why.

    `args` distinguishes the results of the same statistic (source, rater, raters, level, ...). `n` has the sample sizes:
    items, raters, ratings and other counts (pairs_used, pairs_undefined, positives, ...). `method` is a key of METHODS.
    `reference` is a key of ratings_table.REFERENCES if the result compares verdicts with a reference, else "".
    `withheld`: the sample is too small for this interval to contain the true value as often as it should (`reason` states
    why). Such an interval is not given unless it was asked for; then it is unstable, and every output marks it.
    """

    stat: str
    args: Args
    value: float | None
    low: float | None
    high: float | None
    method: str
    n: SampleSizes
    reason: str = ""
    reference: str = ""
    withheld: bool = False

    @property
    def is_unstable(self) -> bool:
        """Return whether the result has an interval that is given only because it was asked for."""
        return self.withheld and self.low is not None

    @property
    def half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    def to_dict(self) -> dict[str, Any]:
        """Return a dictionary for files and pages; it has no NaN or infinity, and keeps the order of `args` and `n`.

        An interval that is not reliable adds a key that is true: `withheld` if it is left out, `unstable` if it is given.
        """
        values = {**self._asdict(), "args": dict(self.args), "n": dict(self.n)}
        del values["withheld"]
        return values | ({"unstable" if self.is_unstable else "withheld": True} if self.withheld else {})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Estimate":
        known = {name: values[name] for name in cls._fields if name != "withheld"}
        return cls(**known, withheld=bool(values.get("withheld") or values.get("unstable")))


def build_estimate(
    stat: str,
    value: float | None,
    n: SampleSizes,
    args: Args | None = None,
    interval: tuple[float, float] | None = None,
    method: str = "",
    reason: str = "",
) -> Estimate:
    """Return an Estimate. Raises ValueError for NaN, infinity, an unknown method, or None without a reason."""
    if method not in METHODS:
        raise ValueError(f"{method!r} is not a method; use one of {', '.join(filter(None, METHODS))}")
    number = None if value is None else float(value)
    low, high = (None, None) if interval is None else (float(interval[0]), float(interval[1]))
    # JSON has no NaN and no infinity, and a page would show them as numbers.
    if any(bound is not None and not math.isfinite(bound) for bound in (number, low, high)):
        raise ValueError(f"{stat} is {number}, {low} to {high}; pass None with a reason for what is undefined")
    if number is None and not reason:
        raise ValueError(f"{stat} is undefined and has no reason")
    # NumPy integers cannot be written as JSON.
    counts = {name: int(count) for name, count in n.items()}
    # Without an interval there is nothing for a method to describe.
    return Estimate(stat, dict(args or {}), number, low, high, method if interval else "", counts, reason)


def build_generator(seed: int, stat: str, args: Args | None = None) -> "np.random.Generator":
    """Return the random generator of one statistic, whose stream no other statistic uses."""
    import numpy as np

    # The stream depends on the seed, the statistic and its args, so adding a statistic does not change other results.
    stream = json.dumps([stat, dict(args or {})], sort_keys=True, ensure_ascii=False)
    return np.random.default_rng([seed, int.from_bytes(hashlib.sha256(stream.encode()).digest()[:8])])


NORMAL = 1.959963984540054  # normal_quantile((1 + LEVEL) / 2), written down because few pages need SciPy


def normal_quantile(share: float) -> float:
    """Return the value below which this share of the standard normal distribution lies."""
    from scipy.special import ndtri  # a thirtieth of the time of scipy.stats

    return float(ndtri(share))


def student_quantile(df: float) -> float:
    """Return the quantile of Student's t for a 95% interval; the normal quantile if `df` is infinite."""
    from scipy.special import stdtrit

    return NORMAL if math.isinf(df) else float(stdtrit(df, (1 + LEVEL) / 2))
