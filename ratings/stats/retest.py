"""Agreement of raters with themselves, from items that they judged twice."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratings.stats import resampling
from ratings.stats.estimates import Estimate, build_estimate, build_generator
from ratings.stats.proportions import compute_clustered_interval
from ratings.stats.ratings_table import Floats, Ints, RepeatedRating
from wetbench_site.text import natural_sort_key

_RETEST = ("retest_agreement", "retest_kappa")
_TOO_FEW_REPEATS = "too few repeats with the rarer verdict for an interval of kappa"
_ALL_REPEATS_ALIKE = "all repeats are alike; the interval treats them as independent"
MIN_REPEATS = 10  # repeats; with fewer, intervals of kappa did not reach 95% coverage


class RepeatAnswers(NamedTuple):
    """Repeated answers as columns, one entry per item and rater: indices, and codes of two verdicts in `q` categories."""

    item: Ints
    rater: Ints
    first: Ints
    second: Ints
    raters: tuple[str, ...]
    q: int

    def select_rater(self, rater: int) -> "RepeatAnswers":
        is_rater = self.rater == rater
        return self._replace(**{name: getattr(self, name)[is_rater] for name in self._fields[:4]})

    @property
    def sample_sizes(self) -> dict[str, int]:
        return {"items": len(np.unique(self.item)), "raters": len(np.unique(self.rater)), "repeats": len(self.item)}


def estimate_retest(
    repeats: Sequence[RepeatedRating], *, seed: int = 0, resamples: int = 2000, show_unstable: bool = False
) -> list[Estimate]:
    """Return retest_agreement and retest_kappa of first and second verdicts: for all repeats together, then for each rater (args).

    The interval of the agreement is the clustered Wilson interval; that of kappa comes from resampled items, and is withheld
    unless `show_unstable` where it is not reliable.
    The means over raters follow (args mean_over: raters); raters without a kappa are left out of the mean kappa.
    """
    if not repeats:
        n = {"items": 0, "raters": 0, "repeats": 0}
        return [build_estimate(stat, None, n, reason="no item was judged twice") for stat in _RETEST]
    answers = _encode_repeats(repeats)
    rng = build_generator(seed, "retest_kappa")
    # Unstable intervals have a stream of their own, so that asking for them changes no other interval.
    unstable_rng = build_generator(seed, "retest_kappa", {"unstable": True}) if show_unstable else None
    rows = list(_estimate_agreement_and_kappa(answers, {}, rng, unstable_rng, resamples))
    for index, name in enumerate(answers.raters):
        of_rater = answers.select_rater(index)
        rows += _estimate_agreement_and_kappa(of_rater, {"rater": name}, rng, unstable_rng, resamples)
    for place, stat in enumerate(_RETEST):
        by_rater = [row.value for row in rows[2 + place :: 2]]
        values = [value for value in by_rater if value is not None]
        counts = {"raters_used": len(values), "raters_undefined": len(answers.raters) - len(values)}
        reason = "unweighted mean of the raters' values, without an interval" if values else "undefined for every rater"
        mean = float(np.mean(values)) if values else None
        n = {**answers.sample_sizes, **counts}
        rows.append(build_estimate(stat, mean, n, {"mean_over": "raters"}, reason=reason))
    return rows


def _encode_repeats(repeats: Iterable[RepeatedRating]) -> RepeatAnswers:
    ordered = sorted(repeats, key=lambda repeat: (natural_sort_key(repeat.rater), repeat.item))
    items = {name: index for index, name in enumerate(sorted({repeat.item for repeat in ordered}))}
    raters = tuple(sorted({repeat.rater for repeat in ordered}, key=natural_sort_key))
    codes: dict[Any, int] = {}
    for repeat in ordered:
        codes.setdefault(repeat.first, len(codes))
        codes.setdefault(repeat.second, len(codes))
    columns = [
        (items[item], raters.index(rater), codes[first], codes[second]) for item, rater, first, second in ordered
    ]
    item_codes, rater_codes, first_codes, second_codes = np.array(columns, dtype=np.int64).T
    return RepeatAnswers(item_codes, rater_codes, first_codes, second_codes, raters, len(codes))


def _estimate_agreement_and_kappa(
    answers: RepeatAnswers,
    args: dict[str, str],
    rng: np.random.Generator,
    unstable_rng: np.random.Generator | None,
    resamples: int,
) -> Iterator[Estimate]:
    """Yield the agreement and the kappa; an unreliable interval of kappa is given only with an `unstable_rng`."""
    n = answers.sample_sizes
    is_same = (answers.first == answers.second).astype(np.float64)
    agreement = compute_clustered_interval(is_same, answers.item, answers.rater)
    reason = agreement.reason or (_ALL_REPEATS_ALIKE if np.isnan(agreement.deff) else "")
    yield build_estimate("retest_agreement", is_same.mean(), n, args, agreement.interval, agreement.method, reason)
    kappa = float(_compute_kappas(answers, np.ones((1, n["repeats"])))[0])
    if np.isnan(kappa):
        yield build_estimate("retest_kappa", None, n, args=args, reason="0/0: one and the same verdict throughout")
        return
    withheld = _TOO_FEW_REPEATS if _has_few_repeats(answers) else ""
    chosen_rng = unstable_rng if withheld else rng
    resampled = _resample_kappa(answers, chosen_rng, resamples) if chosen_rng else resampling.NOT_RESAMPLED
    reason = withheld or resampled.reason
    row = build_estimate("retest_kappa", kappa, n, args, resampled.interval, "item_bootstrap_any", reason)
    yield row._replace(withheld=bool(withheld))


def _has_few_repeats(answers: RepeatAnswers) -> bool:
    """Return whether there are too few repeats, or too few with the rarer verdict, for a reliable interval of kappa."""
    n, commonest = len(answers.item), np.argmax(np.bincount(np.concatenate([answers.first, answers.second])))
    co_minority = float(np.sum(answers.first != commonest) * np.sum(answers.second != commonest) / n)
    return n < MIN_REPEATS or co_minority < resampling.CO_MINORITY


def _resample_kappa(answers: RepeatAnswers, rng: np.random.Generator, resamples: int) -> resampling.ResampledInterval:
    items, item = np.unique(answers.item, return_inverse=True)
    # All items form one stratum: the number of repeated items per source is random, not part of the design, and intervals
    # resampled within sources included the true value less often.
    weight_chunks = resampling.iter_weight_chunks(np.zeros(len(items), dtype=np.int64), resamples, rng)
    chunks = [_compute_kappas(answers, weights[:, item].astype(np.float64)) for weights in weight_chunks]
    return resampling.compute_percentile_interval(
        np.concatenate([np.empty(0), *chunks]), widening=resampling.compute_widening(len(items))
    )


def _compute_kappas(answers: RepeatAnswers, weights: Floats) -> Floats:
    """Return Cohen's kappa of first and second verdicts for each row of weights, shape (rows, repeats); NaN for 0/0."""
    n = weights.sum(axis=1)
    shares = [weights @ np.equal.outer(codes, np.arange(answers.q)) for codes in (answers.first, answers.second)]
    by_chance = np.sum(shares[0] * shares[1], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        kappas: Floats = ((weights @ (answers.first == answers.second)) * n - by_chance) / (n**2 - by_chance)
    return kappas
