"""Contrasts in simulated studies: differences of rates, of areas and of d', of one rater and of a model against raters."""

from collections.abc import Iterator

import numpy as np

from bench.coverage_quantities import NEW, THIS, Interval, d_prime, everyone, signed_areas
from bench.reader_worlds import MODEL_RATER, RATES, SOURCES, TRUTH, YES, Played
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

A, B, OBVIOUS, SUBTLE = (SOURCES.index(name) for name in ("A genuine", "B genuine", "obvious error", "subtle error"))


def contrasts(study: Played, resamples: int) -> Iterator[Interval]:
    """Two sources, two error types by rate, area and d', one rater against the others, and a model against raters."""
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
    true = {AREA: areas[0] - areas[1], AREA_U: areas[0] - areas[1], D_PRIME: signals[0] - signals[1]}
    for row in contrast_detection("errors", (SOURCES[OBVIOUS], SOURCES[SUBTLE]), pools[0], pools[1]):
        yield _as(f"difference in {row.quantity}, obvious less subtle", NEW, float(true[row.quantity]), row)
    yield from _one_rater(study, pool)
    row = next(contrast_machine(pool, "model", study.model))
    modelled = MODEL_RATER.yes(study.design.mix)[0]
    yield _as("rate of a model less raters'", NEW, float(modelled - RATES @ study.design.mix), row)


def _one_rater(study: Played, pool: Pool) -> Iterator[Interval]:
    """Over the items of all sources in the proportions in which this rater has them; against new raters, or the one other."""
    own = study.table.of_rater("R1")
    shares = np.bincount(own.source, minlength=len(SOURCES)) / len(own)
    mine = study.raters.marginal[0][:, YES].sum(axis=-1)
    others = study.raters.marginal[1][:, YES].sum(axis=-1) if study.design.raters == 2 else RATES
    for row in contrast_rater(pool, 0):
        if row.quantity == "rate":
            yield _as("rate of one rater less the others'", THIS, float((mine - others) @ shares), row)


def _pool(study: Played) -> Pool:
    table = study.table
    names = np.array(SOURCES)[table.source]
    error = np.where(TRUTH[table.source] == 1, "none", names)
    return Pool(table, table.item, table.item, names, error, find_design_effect(table))


def _as(quantity: str, target: str, truth: float, row: Contrast) -> Interval:
    return Interval(quantity, row.method, target, row.low, row.high, truth, value=row.difference)
