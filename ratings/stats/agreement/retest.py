"""Whether raters agree with themselves: items they judged twice."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ratings.stats.estimates import Estimate, estimate, generator
from ratings.stats.intervals import CO_MINORITY
from ratings.stats.proportions import clustered
from ratings.stats.resampling import Resampled, percentile, weight_chunks, widening
from ratings.stats.table import Floats, Ints, Repeat, natural

NONE = "no item was judged twice"
ONE_ANSWER = "0/0: one and the same verdict throughout"
ALIKE = "all repeats are alike; the interval takes them as independent"
LEAST = 10  # repeats; with fewer no interval of kappa holds


class Answers(NamedTuple):
    """Repeats as columns: first and second are category codes, item and rater indices into the names."""

    item: Ints
    rater: Ints
    first: Ints
    second: Ints
    raters: tuple[str, ...]
    q: int

    def of(self, rater: int) -> "Answers":
        own = self.rater == rater
        return self._replace(**{name: getattr(self, name)[own] for name in self._fields[:4]})


def retest(repeats: Sequence[Repeat], *, seed: int = 0, resamples: int = 2000) -> list[Estimate]:
    """retest_agreement and retest_kappa: first against second verdict, all repeats together, then of each rater (args).

    Agreement has the clustered Wilson interval; kappa the one of items drawn again, all verdicts of an item together and
    whatever its source: how many of each are shown twice is chance, not design.
    The means over raters follow (args mean_over: raters), raters without a kappa left out of that mean.
    """
    if not repeats:
        return [estimate(stat, None, _counts(None), reason=NONE) for stat in ("retest_agreement", "retest_kappa")]
    answers = _answers(repeats)
    own = [answers.of(at) for at in range(len(answers.raters))]
    rng = generator(seed, "retest_kappa")
    rows = list(_two(answers, {}, rng, resamples))
    of_raters = [_two(one, {"rater": answers.raters[at]}, rng, resamples) for at, one in enumerate(own)]
    found = [list(pair) for pair in of_raters]
    rows += [row for pair in found for row in pair]
    return [*rows, *(_mean([pair[at] for pair in found], answers) for at in (0, 1))]


def _answers(repeats: Iterable[Repeat]) -> Answers:
    given = sorted(repeats, key=lambda one: (natural(one.rater), one.item))
    items = {name: at for at, name in enumerate(sorted({one.item for one in given}))}
    raters = tuple(sorted({one.rater for one in given}, key=natural))
    codes: dict[Any, int] = {}
    for one in given:
        codes.setdefault(one.first, len(codes))
        codes.setdefault(one.second, len(codes))
    columns = [(items[one.item], raters.index(one.rater), codes[one.first], codes[one.second]) for one in given]
    item, rater, first, second = np.array(columns, dtype=np.int64).T
    return Answers(item, rater, first, second, raters, len(codes))


def _counts(answers: Answers | None) -> dict[str, int]:
    if answers is None:
        return {"items": 0, "raters": 0, "repeats": 0}
    raters = len(np.unique(answers.rater))
    return {"items": len(np.unique(answers.item)), "raters": raters, "repeats": len(answers.item)}


def _two(answers: Answers, args: dict[str, str], rng: np.random.Generator, resamples: int) -> Iterator[Estimate]:
    n = _counts(answers)
    same = (answers.first == answers.second).astype(np.float64)
    agreed = clustered(same, answers.item, answers.rater)
    reason = agreed.reason or (ALIKE if np.isnan(agreed.deff) else "")
    yield estimate(
        "retest_agreement", same.mean(), n, args=args, interval=agreed.interval, method=agreed.method, reason=reason
    )
    kappa = float(_kappas(answers, np.ones((1, n["repeats"])))[0])
    if np.isnan(kappa):
        yield estimate("retest_kappa", None, n, args=args, reason=ONE_ANSWER)
        return
    found = _of_kappa(answers, rng, resamples)
    yield estimate(
        "retest_kappa", kappa, n, args=args, interval=found.interval, method="item_bootstrap_any", reason=found.reason
    )


def _of_kappa(answers: Answers, rng: np.random.Generator, resamples: int) -> Resampled:
    n, common = len(answers.item), np.argmax(np.bincount(np.concatenate([answers.first, answers.second])))
    minority = float(np.sum(answers.first != common) * np.sum(answers.second != common) / n)
    if n < LEAST or minority < CO_MINORITY:
        return Resampled(None, reason="too few repeats with the rarer verdict for an interval of kappa")
    items, item = np.unique(answers.item, return_inverse=True)
    strata = np.zeros(len(items), dtype=np.int64)
    chunks = [
        _kappas(answers, weights[:, item].astype(np.float64)) for weights in weight_chunks(strata, resamples, rng)
    ]
    return percentile(np.concatenate([np.empty(0), *chunks]), widening=widening(len(items)))


def _kappas(answers: Answers, weights: Floats) -> Floats:
    """Cohen's kappa of first and second verdict for each row of weights of the repeats; NaN for 0/0."""
    n = weights.sum(axis=1)
    shares = [weights @ np.equal.outer(codes, np.arange(answers.q)) for codes in (answers.first, answers.second)]
    by_chance = np.sum(shares[0] * shares[1], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = ((weights @ (answers.first == answers.second)) * n - by_chance) / (n**2 - by_chance)
    return found


def _mean(rows: Sequence[Estimate], answers: Answers) -> Estimate:
    values = [row.value for row in rows if row.value is not None]
    n = {**_counts(answers), "raters_used": len(values), "raters_undefined": len(rows) - len(values)}
    reason = "unweighted mean of the raters' values, without an interval" if values else "undefined for every rater"
    return estimate(
        rows[0].stat, float(np.mean(values)) if values else None, n, args={"mean_over": "raters"}, reason=reason
    )
