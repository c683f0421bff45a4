"""Intervals of contrasts in simulated studies: differences of rates, areas and d', one rater or a model against the other raters.

They include the most difficult cases: five items against many, different raters on both sides, both verdicts of one rating, and
the same cases read in two conditions.
"""

import zlib
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.coverage_quantities import NEW, THIS, MeasuredInterval, compute_d_prime, compute_signed_areas, get_population
from bench.reader_worlds import (
    CONFIDENCE,
    IS_YES,
    LEVEL_CUTS,
    MODEL_RATER,
    RATES,
    SD_ITEM,
    SOURCES,
    TRUTH,
    SimulatedStudy,
)
from ratings.stats.contrasts import (
    AREA,
    AREA_U,
    D_PRIME,
    Contrast,
    RatingPool,
    compute_rate_contrast,
    iter_detection_contrasts,
    iter_machine_contrasts,
    iter_rater_contrasts,
    select_pool,
)
from ratings.stats.detection import compute_design_effect
from ratings.stats.differences import Side, compare_shares

A, B, OBVIOUS, SUBTLE = (SOURCES.index(name) for name in ("A genuine", "B genuine", "obvious error", "subtle error"))


def compute_contrasts(study: SimulatedStudy, resamples: int) -> Iterator[MeasuredInterval]:
    """Yield the intervals: two sources, two error types by rate, area and d', one rater against the others, and a model against raters."""
    pool = build_pool(study)
    source = study.table.source
    for first, second in ((A, B), (A, SUBTLE), (OBVIOUS, SUBTLE)):
        names = (SOURCES[first], SOURCES[second])
        row = compute_rate_contrast("sources", names, pool, source == first, source == second)
        yield to_interval(f"difference in rate, {names[0]} less {names[1]}", NEW, RATES[first] - RATES[second], row)
    genuine = TRUTH[source] == 1
    pools = [select_pool(pool, genuine | (source == at)) for at in (OBVIOUS, SUBTLE)]
    areas = [compute_signed_areas(get_population(), study, at).mean() for at in (OBVIOUS, SUBTLE)]
    mix = study.design.source_shares * TRUTH / (study.design.source_shares @ TRUTH)
    signals = [compute_d_prime(get_population(), mix, at).mean() for at in (OBVIOUS, SUBTLE)]
    true_differences = {AREA: areas[0] - areas[1], AREA_U: areas[0] - areas[1], D_PRIME: signals[0] - signals[1]}
    for row in iter_detection_contrasts("errors", (SOURCES[OBVIOUS], SOURCES[SUBTLE]), pools[0], pools[1]):
        yield to_interval(
            f"difference in {row.quantity}, obvious less subtle", NEW, float(true_differences[row.quantity]), row
        )
    yield from contrast_one_rater(study, pool)
    row = next(iter_machine_contrasts(pool, "model", study.model))
    model_rate = MODEL_RATER.yes_probability(study.design.source_shares)[0]
    yield to_interval("rate of a model less raters'", NEW, float(model_rate - RATES @ study.design.source_shares), row)
    yield from contrast_few_items(pool)
    yield from contrast_other_raters(pool)
    yield from contrast_two_verdicts(study)
    yield from contrast_conditions(study)


FEW_ITEMS = 5


def contrast_few_items(pool: RatingPool) -> Iterator[MeasuredInterval]:
    """Yield the difference in rate between the first five items of one source and all items of another."""
    # The first items by number are as good as random ones: the simulation draws items independently.
    few = (pool.table.source == A) & (pool.table.item < FEW_ITEMS)
    row = compute_rate_contrast("sources", (SOURCES[A], SOURCES[B]), pool, few, pool.table.source == B)
    yield to_interval(
        f"difference in rate, {FEW_ITEMS} items of A genuine less B genuine", NEW, RATES[A] - RATES[B], row
    )


def contrast_other_raters(pool: RatingPool) -> Iterator[MeasuredInterval]:
    """Yield differences between two halves of the raters."""
    first_half = pool.table.rater < len(pool.table.raters) / 2
    sides = first_half & (pool.table.source == A), ~first_half & (pool.table.source == B)
    row = compute_rate_contrast("sources", ("A", "B"), pool, *sides)
    yield to_interval("difference in rate, other raters", NEW, RATES[A] - RATES[B], row)
    with_reference = (TRUTH[pool.table.source] == 1) | (pool.table.source == SUBTLE)
    yield from contrast_areas(
        "other raters", select_pool(pool, first_half & with_reference), select_pool(pool, ~first_half & with_reference)
    )


def contrast_two_verdicts(study: SimulatedStudy) -> Iterator[MeasuredInterval]:
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
        Side(verdicts[1], item, rater), Side(verdicts[0], item, rater), compute_design_effect(study.table)
    )
    method = "" if difference.low is None else "difference_paired" if difference.is_paired else "difference_clustered"
    yield MeasuredInterval(
        "difference in rate, both verdicts of a rating", method, NEW, difference.low, difference.high, 0.0
    )


CASES_PER_CLASS = 20  # per class


def contrast_conditions(study: SimulatedStudy) -> Iterator[MeasuredInterval]:
    """Yield differences between two conditions in which every rater reads the same cases; the true difference is 0."""
    # Seeded by the study's data, so that the result does not depend on the order of the studies.
    rng = np.random.default_rng(zlib.crc32(study.table.confidence.tobytes()))
    for error in (SUBTLE, OBVIOUS):
        source = np.repeat([A, error], CASES_PER_CLASS)
        centre = study.raters.latent_means.T[source] + SD_ITEM * rng.standard_normal((len(source), 1))
        pools = [simulate_condition(study, source, centre + rng.standard_normal(centre.shape)) for _ in range(2)]
        name = f"same cases, {SOURCES[error]}"
        if error == SUBTLE:
            rates = [Side(one.yes_answers, one.cluster, one.table.rater) for one in pools]
            difference = compare_shares(rates[0], rates[1], pools[0].deff)
            method = "" if difference.low is None else "difference_paired"
            yield MeasuredInterval("difference in rate, same cases", method, NEW, difference.low, difference.high, 0.0)
        yield from contrast_areas(name, pools[0], pools[1])


def simulate_condition(
    study: SimulatedStudy, source: "np.typing.NDArray[np.int64]", trace: "np.typing.NDArray[np.float64]"
) -> RatingPool:
    """Return the ratings of one condition: every rater reads every case."""
    item, rater = np.nonzero(np.ones(trace.shape, dtype=np.bool_))
    level = np.searchsorted(LEVEL_CUTS, (trace * study.raters.scale)[item, rater])
    table = replace(
        study.table,
        item=item,
        rater=rater,
        verdict=IS_YES[level].astype(np.int64),
        confidence=CONFIDENCE[level].astype(np.float64),
        reference=TRUTH[source[item]],
        source=source[item],
        items=tuple(f"case {at:03}" for at in range(len(source))),
    )
    blank = np.zeros(len(item), dtype=np.str_)
    return RatingPool(table, item, item, blank, blank, compute_design_effect(table))


def contrast_areas(description: str, first: RatingPool, second: RatingPool) -> Iterator[MeasuredInterval]:
    for row in iter_detection_contrasts("conditions", ("first", "second"), first, second):
        if row.quantity != D_PRIME:
            yield to_interval(f"difference in {row.quantity}, {description}", NEW, 0.0, row)


def contrast_one_rater(study: SimulatedStudy, pool: RatingPool) -> Iterator[MeasuredInterval]:
    """Yield the difference between one rater and the others, over the items of all sources in the shares that this rater has."""
    own_table = study.table.select_rater("R1")
    shares = np.bincount(own_table.source, minlength=len(SOURCES)) / len(own_table)
    own_rates = study.raters.marginal_probabilities[0][:, IS_YES].sum(axis=-1)
    # With two raters the application compares with the one other rater, otherwise with new raters.
    other_rates = study.raters.marginal_probabilities[1][:, IS_YES].sum(axis=-1) if study.design.raters == 2 else RATES
    for row in iter_rater_contrasts(pool, 0):
        if row.quantity == "rate":
            yield to_interval(
                "rate of one rater less the others'", THIS, float((own_rates - other_rates) @ shares), row
            )


def build_pool(study: SimulatedStudy) -> RatingPool:
    table = study.table
    names = np.array(SOURCES)[table.source]
    error = np.where(TRUTH[table.source] == 1, "none", names)
    return RatingPool(table, table.item, table.item, names, error, compute_design_effect(table))


def to_interval(quantity: str, target: str, truth: float, row: Contrast) -> MeasuredInterval:
    return MeasuredInterval(quantity, row.method, target, row.low, row.high, truth, value=row.difference)
