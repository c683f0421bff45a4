"""Intervals of contrasts in simulated studies: differences of rates, areas and d', one rater or a model against the other raters.

They include the most difficult cases: five items against many, different raters on both sides, both verdicts of one rating, and
the same cases read in two conditions.
"""

import zlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.coverage_quantities import NEW, THIS, Interval, d_prime, everyone, signed_areas
from bench.reader_worlds import (
    CONFIDENCE,
    CUTS,
    MODEL_RATER,
    RATES,
    SD_ITEM,
    SOURCES,
    TRUTH,
    YES,
    Played,
)
from ratings.stats.contrasts import (
    AREA,
    AREA_U,
    D_PRIME,
    Contrast,
    Pool,
    contrast_detection,
    contrast_machine,
    contrast_rater,
    contrast_rates,
    restrict,
)
from ratings.stats.detection import find_design_effect
from ratings.stats.differences import Side, compare_shares

A, B, OBVIOUS, SUBTLE = (SOURCES.index(name) for name in ("A genuine", "B genuine", "obvious error", "subtle error"))


def contrasts(study: Played, resamples: int) -> Iterator[Interval]:
    """Yield the intervals: two sources, two error types by rate, area and d', one rater against the others, and a model against raters."""
    pool = _pool(study)
    source = study.table.source
    for first, second in ((A, B), (A, SUBTLE), (OBVIOUS, SUBTLE)):
        names = (SOURCES[first], SOURCES[second])
        row = contrast_rates("sources", names, pool, source == first, source == second)
        yield _as(f"difference in rate, {names[0]} less {names[1]}", NEW, RATES[first] - RATES[second], row)
    genuine = TRUTH[source] == 1
    pools = [restrict(pool, genuine | (source == at)) for at in (OBVIOUS, SUBTLE)]
    areas = [signed_areas(everyone(), study, at).mean() for at in (OBVIOUS, SUBTLE)]
    mix = study.design.mix * TRUTH / (study.design.mix @ TRUTH)
    signals = [d_prime(everyone(), mix, at).mean() for at in (OBVIOUS, SUBTLE)]
    true_differences = {AREA: areas[0] - areas[1], AREA_U: areas[0] - areas[1], D_PRIME: signals[0] - signals[1]}
    for row in contrast_detection("errors", (SOURCES[OBVIOUS], SOURCES[SUBTLE]), pools[0], pools[1]):
        yield _as(f"difference in {row.quantity}, obvious less subtle", NEW, float(true_differences[row.quantity]), row)
    yield from _one_rater(study, pool)
    row = next(contrast_machine(pool, "model", study.model))
    model_rate = MODEL_RATER.yes(study.design.mix)[0]
    yield _as("rate of a model less raters'", NEW, float(model_rate - RATES @ study.design.mix), row)
    yield from _few_items(pool)
    yield from _other_raters(pool)
    yield from _two_looks(study)
    yield from _crossover(study)


FEW = 5


def _few_items(pool: Pool) -> Iterator[Interval]:
    """Yield the difference in rate between the first five items of one source and all items of another."""
    # The first items by number are as good as random ones: the simulation draws items independently.
    few = (pool.table.source == A) & (pool.table.item < FEW)
    row = contrast_rates("sources", (SOURCES[A], SOURCES[B]), pool, few, pool.table.source == B)
    yield _as(f"difference in rate, {FEW} items of A genuine less B genuine", NEW, RATES[A] - RATES[B], row)


def _other_raters(pool: Pool) -> Iterator[Interval]:
    """Yield differences between two halves of the raters."""
    first_half = pool.table.rater < len(pool.table.raters) / 2
    sides = first_half & (pool.table.source == A), ~first_half & (pool.table.source == B)
    row = contrast_rates("sources", ("A", "B"), pool, *sides)
    yield _as("difference in rate, other raters", NEW, RATES[A] - RATES[B], row)
    with_reference = (TRUTH[pool.table.source] == 1) | (pool.table.source == SUBTLE)
    yield from _areas(
        "other raters", restrict(pool, first_half & with_reference), restrict(pool, ~first_half & with_reference)
    )


def _two_looks(study: Played) -> Iterator[Interval]:
    """Yield the difference between both verdicts of one rating, compared as the initial and the final verdict are."""
    items = {name: index for index, name in enumerate(study.table.items)}
    raters = {name: index for index, name in enumerate(study.table.raters)}
    item, rater = (
        np.array(codes)
        for codes in zip(*((items[repeat.item], raters[repeat.rater]) for repeat in study.repeats), strict=True)
    )
    verdicts = [
        np.array([getattr(repeat, name) for repeat in study.repeats], dtype=np.float64) for name in ("first", "second")
    ]
    difference = compare_shares(
        Side(verdicts[1], item, rater), Side(verdicts[0], item, rater), find_design_effect(study.table)
    )
    method = "" if difference.low is None else "difference_paired" if difference.is_paired else "difference_clustered"
    yield Interval("difference in rate, both verdicts of a rating", method, NEW, difference.low, difference.high, 0.0)


CASES = 20  # per class


def _crossover(study: Played) -> Iterator[Interval]:
    """Yield differences between two conditions in which every rater reads the same cases; the true difference is 0."""
    # Seeded by the study's data, so that the result does not depend on the order of the studies.
    rng = np.random.default_rng(zlib.crc32(study.table.confidence.tobytes()))
    for error in (SUBTLE, OBVIOUS):
        source = np.repeat([A, error], CASES)
        centre = study.raters.means.T[source] + SD_ITEM * rng.standard_normal((len(source), 1))
        pools = [_read(study, source, centre + rng.standard_normal(centre.shape)) for _ in range(2)]
        name = f"same cases, {SOURCES[error]}"
        if error == SUBTLE:
            rates = [Side(one.rate, one.cluster, one.table.rater) for one in pools]
            difference = compare_shares(rates[0], rates[1], pools[0].deff)
            method = "" if difference.low is None else "difference_paired"
            yield Interval("difference in rate, same cases", method, NEW, difference.low, difference.high, 0.0)
        yield from _areas(name, pools[0], pools[1])


def _read(study: Played, source: "np.typing.NDArray[np.int64]", trace: "np.typing.NDArray[np.float64]") -> Pool:
    """Return the ratings of one condition: every rater reads every case."""
    item, rater = np.nonzero(np.ones(trace.shape, dtype=np.bool_))
    level = np.searchsorted(CUTS, (trace * study.raters.scale)[item, rater])
    table = replace(
        study.table,
        item=item,
        rater=rater,
        verdict=YES[level].astype(np.int64),
        confidence=CONFIDENCE[level].astype(np.float64),
        reference=TRUTH[source[item]],
        source=source[item],
        items=tuple(f"case {at:03}" for at in range(len(source))),
    )
    blank = np.zeros(len(item), dtype=np.str_)
    return Pool(table, item, item, blank, blank, find_design_effect(table))


def _areas(what: str, first: Pool, second: Pool) -> Iterator[Interval]:
    for row in contrast_detection("conditions", ("first", "second"), first, second):
        if row.quantity != D_PRIME:
            yield _as(f"difference in {row.quantity}, {what}", NEW, 0.0, row)


def _one_rater(study: Played, pool: Pool) -> Iterator[Interval]:
    """Yield the difference between one rater and the others, over the items of all sources in the shares that this rater has."""
    own_table = study.table.of_rater("R1")
    shares = np.bincount(own_table.source, minlength=len(SOURCES)) / len(own_table)
    own_rates = study.raters.marginal[0][:, YES].sum(axis=-1)
    # With two raters the application compares with the one other rater, otherwise with new raters.
    other_rates = study.raters.marginal[1][:, YES].sum(axis=-1) if study.design.raters == 2 else RATES
    for row in contrast_rater(pool, 0):
        if row.quantity == "rate":
            yield _as("rate of one rater less the others'", THIS, float((own_rates - other_rates) @ shares), row)


def _pool(study: Played) -> Pool:
    table = study.table
    names = np.array(SOURCES)[table.source]
    error = np.where(TRUTH[table.source] == 1, "none", names)
    return Pool(table, table.item, table.item, names, error, find_design_effect(table))


def _as(quantity: str, target: str, truth: float, row: Contrast) -> Interval:
    return Interval(quantity, row.method, target, row.low, row.high, truth, value=row.difference)
