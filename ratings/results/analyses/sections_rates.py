"""The tables of rates, confidences, agreement and expected precision.

Values that are also in the list of results are taken from it, so that both always have the same numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from ratings.models import TRANSITION
from ratings.protocol.reference import name_contrast_group
from ratings.results.analyses.rating_columns import AnalysisData
from ratings.results.analyses.tables import Cells, Json, build_table, builds
from ratings.results.figures.tables import POOLED
from ratings.results.paper_values import DeclaredModel, PaperValue, find_paper_value, pair_with_reasons
from ratings.stats import Estimate, pairwise, proportions
from ratings.stats.estimates import FEW_ITEMS
from ratings.stats.planning import precision
from ratings.stats.ratings_table import Ints, RatingRecord, Ratings, build_ratings_table

WIDE_APART = 0.02  # a larger difference between a weighted and the unweighted rate gets a note
RHO = 0.2  # planning value: correlation of two ratings of the same item
DISPLAY_FACTORS = (("layout", "layout"), ("context", "goal and earlier steps"), ("marks", "marks"))
_CELL = "cell"
Args = Mapping[str, Any]


@builds(
    "rates", "rates_by_experiment", "rates_by_action", "rates_by_error_kind", "rates_by_rater", "rates_by_arm", "confidence",
    "spread",
)  # fmt: skip
def build_rate_tables(data: AnalysisData, kind: str, declared: Mapping[str, DeclaredModel]) -> dict[str, Json]:
    """Return the tables rates, rates_by_..., confidence and spread."""
    table = data.table
    arm_rows: list[Cells] = []
    for name, title in DISPLAY_FACTORS:
        codes, names = table.factors[name]
        # If all ratings have the same arm, there is nothing to compare.
        if sum(1 for arm in names if arm) > 1:
            arm_rows += _iter_cross_rows(table, codes, names, f"{title}: ")
    return {
        "rates": _build_rates_table(data, kind, declared),
        **{
            f"rates_by_{name}": build_table(f"rates_by_{name}", _iter_cross_rows(table, *table.factors[name]))
            for name in ("experiment", "action", "error_kind")
        },
        "rates_by_rater": build_table("rates_by_rater", _iter_cross_rows(table, table.rater, table.raters)),
        "rates_by_arm": build_table("rates_by_arm", arm_rows),
        "confidence": build_table("confidence", _iter_confidence_rows(table)),
        "spread": build_table("spread", _iter_spread_rows(table)),
    }


def find_published_rate(kind: str, declared: DeclaredModel | None, error: str) -> PaperValue | None:
    """Return the paper's rate for the declared model in its role, or None if the paper has none for such outcomes."""
    if declared is None:
        return None
    return find_paper_value("plausibility_rate", kind, model=declared.model, role=declared.role, error=error)


def _build_rates_table(data: AnalysisData, kind: str, declared: Mapping[str, DeclaredModel]) -> Json:
    intervals = _pair_intervals(proportions.estimate_rates(data.table, by="source")) if len(data.table) else {}
    # The rate with items weighted equally, and the rate with raters weighted equally.
    weighted_rates: dict[str, list[float]] = {}
    for row in proportions.estimate_weighted_rates(data.table, by="source"):
        if row.value is not None:
            weighted_rates.setdefault(row.args["source"], []).append(row.value)
    could_not_judge = data.columns.counts & (data.columns.verdict < 0)
    errors, kind_names = {fact.source: fact.error for fact in data.items}, _name_kinds(data, kind)
    sources = sorted(kind_names)
    entries = [find_published_rate(kind, declared.get(source), errors[source]) for source in sources]
    rows, notes = [], []
    for source, published, paper in zip(sources, entries, pair_with_reasons(entries), strict=True):
        n_cannot = int(np.sum(could_not_judge & (data.source_by_rating == source)))
        notes += [f"{source}: {published.description}"] if published else []
        # A source whose items nobody could judge is listed too, because it must not disappear from the table.
        if source not in intervals:
            empty_cells = [0, 0, 0, 0, *[None] * 7]
            rows.append([source, kind_names[source], *empty_cells, n_cannot, *paper, "nobody could judge its items"])
            continue
        main, wilson = intervals[source]
        by_item, by_rater = weighted_rates[source]
        cells = _list_rate_cells(main, wilson)
        rows.append([source, kind_names[source], *cells, by_item, by_rater, n_cannot, *paper, main.reason])
        if main.value is not None and max(abs(by_item - main.value), abs(by_rater - main.value)) > WIDE_APART:
            notes.append(
                f"{source}: {main.value:.1%} by ratings, {by_item:.1%} by items and {by_rater:.1%} by raters; they differ "
                "because some items or raters have more ratings than others."
            )
    parts = [f"{row[0]} {row[6]:.0%}" for row in rows if row[6] is not None]
    return build_table("rates", rows, f"Share of yes: {'; '.join(parts)}." if parts else "", notes)


def _name_kinds(data: AnalysisData, kind: str) -> dict[str, str]:
    """Return the kinds of items by source name, such as "obvious", joined; "" for records without a reference."""
    kinds_of: dict[str, set[str]] = {}
    for fact in data.items:
        kinds = kinds_of.setdefault(fact.source, set())
        if kind == TRANSITION or fact.reference:
            kinds.add(name_contrast_group(fact.error, fact.reference))
    return {source: ", ".join(sorted(kinds)) for source, kinds in kinds_of.items()}


def _list_rate_cells(main: Estimate, wilson: Estimate) -> list[Any]:
    """Return the cells k, n, items, raters, rate, low, high, wilson_low and wilson_high."""
    n = main.n
    return [
        n["yes"], n["ratings"], n["items"], n["raters"], main.value, main.low, main.high, wilson.low, wilson.high,
    ]  # fmt: skip


def _pair_intervals(rows: list[Estimate], factor: str = "source") -> dict[str, tuple[Estimate, Estimate]]:
    """Return for each group its two results: with the clustered interval, and with Wilson's interval."""
    main = {row.args[factor]: row for row in rows if "interval" not in row.args}
    return {row.args[factor]: (main[row.args[factor]], row) for row in rows if row.args.get("interval") == "wilson"}


def _iter_cross_rows(ratings: Ratings, codes: Ints, names: tuple[str, ...], prefix: str = "") -> Iterator[Cells]:
    """Yield a row for each named group and source. `codes`: the index of each rating's group in `names`."""
    has_name = np.array([bool(name) for name in names] or [False], dtype=np.bool_)[codes]
    named = ratings.select_ratings(has_name)
    if not len(named):
        return
    width = len(named.sources)
    cells = tuple(str(at) for at in range(len(names) * width))
    # Group and source are combined into one factor, because the statistics use one factor at a time.
    crossed = replace(named, factors={_CELL: (codes[has_name] * width + named.source, cells)})
    for cell, (main, wilson) in _pair_intervals(proportions.estimate_rates(crossed, by=_CELL), _CELL).items():
        group, source = divmod(int(cell), width)
        yield [f"{prefix}{names[group]}", named.sources[source], *_list_rate_cells(main, wilson), main.reason]


def _iter_confidences(ratings: Ratings) -> Iterator[tuple[str, int, Any, int]]:
    """Yield the name of each source with each verdict, the confidences with this verdict, and the source's number of ratings."""
    with_confidence = ~np.isnan(ratings.confidence)
    for source in np.unique(ratings.source[with_confidence]):
        of_source = with_confidence & (ratings.source == source)
        for verdict in (1, 0):
            values = ratings.confidence[of_source & (ratings.verdict == verdict)]
            yield ratings.sources[source], verdict, values, int(of_source.sum())


def _iter_confidence_rows(ratings: Ratings) -> Iterator[Cells]:
    """Yield the number of ratings with each verdict and confidence, by source."""
    for source, verdict, values, n_ratings in _iter_confidences(ratings):
        counts = np.bincount(values.astype(np.int64), minlength=6)
        # Combinations without a rating have rows with 0, so that every histogram has ten bars.
        yield from ([source, verdict, c, int(counts[c]), float(counts[c] / n_ratings)] for c in range(1, 6))


def _iter_spread_rows(ratings: Ratings) -> Iterator[Cells]:
    for source, verdict, values, _ in _iter_confidences(ratings):
        if len(values):
            lower, median, upper = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
            yield [source, verdict, len(values), median, float(values.mean()), lower, upper]


class _Coefficient(NamedTuple):
    """A row of the table of agreement. `fits` selects its results from all results of the same statistic."""

    name: str
    stat: str
    fits: Callable[[Args], bool] = lambda args: True


def _has(wanted: Args, args: Args) -> bool:
    return all(args.get(name) == value for name, value in wanted.items())


def _is_mean_over_raters(args: Args) -> bool:
    return "mean_over" in args


def _is_pooled(args: Args) -> bool:
    return "mean_over" not in args


def _list_coefficients(min_overlap: int) -> tuple[_Coefficient, ...]:
    overlap = partial(_has, {"min_overlap": min_overlap})
    return (
        _Coefficient("Observed agreement, mean of pairs", "avg_pairwise_agreement", overlap),
        _Coefficient("Cohen's kappa, mean of pairs", "avg_pairwise_kappa", overlap),
        _Coefficient("Cohen's kappa, mean of pairs by items", "avg_pairwise_kappa_weighted", overlap),
        _Coefficient("Largest possible kappa, mean of pairs", "kappa_max", overlap),
        _Coefficient("Fleiss' kappa", "fleiss_kappa"),
        _Coefficient("Krippendorff's alpha, verdicts", "krippendorff_alpha", partial(_has, {"level": "nominal", "of": "verdict"})),
        _Coefficient("Gwet's AC1", "gwet_ac1"),
        _Coefficient("Brennan-Prediger", "brennan_prediger"),
        _Coefficient("Krippendorff's alpha, confidence", "krippendorff_alpha", partial(_has, {"level": "ordinal", "of": "confidence"})),
        _Coefficient("Gwet's AC2, confidence", "gwet_ac2", partial(_has, {"weights": "quadratic"})),
        _Coefficient("Weighted kappa of confidence, mean of pairs", "avg_pairwise_weighted_kappa", partial(_has, {"weights": "quadratic"})),
        _Coefficient("Krippendorff's alpha, signed ratings", "krippendorff_alpha", partial(_has, {"level": "ordinal", "of": "signed"})),
        _Coefficient("Test-retest agreement", "retest_agreement", _is_pooled),
        _Coefficient("Test-retest agreement, mean of raters", "retest_agreement", _is_mean_over_raters),
        _Coefficient("Test-retest kappa", "retest_kappa", _is_pooled),
        _Coefficient("Test-retest kappa, mean of raters", "retest_kappa", _is_mean_over_raters),
    )  # fmt: skip


@builds("agreement")
def build_agreement_tables(
    results: Sequence[Estimate], ratings: Ratings, min_overlap: int, verdict_words: Mapping[int, str]
) -> dict[str, Json]:
    """Return the table `agreement`: each coefficient, over all sources and within each, with both intervals."""
    yes_shares = {row.args.get("source", ""): row.value for row in results if row.stat == "prevalence"}
    rows = [
        row
        for coefficient in _list_coefficients(min_overlap)
        for row in _iter_coefficient_rows(coefficient, results, yes_shares)
    ]
    skew_note = pairwise.describe_skew(ratings, verdict_words) if len(ratings) else ""
    summary = _summarise_agreement(results, min_overlap)
    return {"agreement": build_table("agreement", rows, summary, [skew_note] if skew_note else [])}


def _iter_coefficient_rows(
    coefficient: _Coefficient, results: Sequence[Estimate], shares: Mapping[str, float | None]
) -> Iterator[Cells]:
    # Results for single raters have the same statistic, but belong to the table of raters.
    of_stat = [row for row in results if row.stat == coefficient.stat and "rater" not in row.args]
    matching = [row for row in of_stat if coefficient.fits(row.args)]
    for_new_raters = {row.args.get("source", ""): row for row in matching if "target" in row.args}
    # The result with a target has the same value and the interval for new raters, so it is added to the first row.
    for row in matching:
        if "target" in row.args:
            continue
        source = row.args.get("source", "")
        new_raters = for_new_raters.get(source)
        yield [
            coefficient.name, source or POOLED, row.value, row.low, row.high,
            new_raters.low if new_raters else None, new_raters.high if new_raters else None, shares.get(source),
            *map(row.n.get, ("items", "raters", "ratings", "pairs_used", "pairs_undefined", "pairs_below_overlap")), row.reason,
        ]  # fmt: skip


def _summarise_agreement(results: Sequence[Estimate], min_overlap: int) -> str:
    """Return the observed agreement and kappa over all sources in one sentence."""
    pooled = {row.stat: row for row in results if dict(row.args) == {"min_overlap": min_overlap}}
    observed, kappa = pooled.get("avg_pairwise_agreement"), pooled.get("avg_pairwise_kappa")
    if observed is None or observed.value is None or kappa is None:
        return ""
    kappa_text = f"kappa is undefined: {kappa.reason}"
    if kappa.value is not None:
        caveat = f" ({FEW_ITEMS})" if kappa.reason.startswith(FEW_ITEMS) else ""
        # A hyphen in front of a number reads as a dash in running text.
        kappa_text = f"mean kappa is {kappa.value:.2f}{caveat}".replace("-", "\N{MINUS SIGN}")
    return f"Two raters agree on {observed.value:.0%} of the items they share, all sources together; {kappa_text}."


@builds("precision")
def build_precision_tables(data: AnalysisData) -> dict[str, Json]:
    """Return the table `precision`: rates and kappa of each source, and the AUC of each source with errors."""
    return {"precision": build_table("precision", map(_build_precision_row, precision.list_next_steps(data.table)))}


def build_blind_precision(verdicts: Iterable[tuple[UUID, str, bool]], kind: str, planted: float | None) -> Json:
    """Return the table `precision` while the study is sealed, all sources pooled. Each verdict is (item, rater, verdict).

    The AUC uses planning values and `planted`, the share of planted errors in the protocol. Nothing in the table depends on the
    sources of items.
    """
    rows = [RatingRecord(str(item), rater, int(verdict)) for item, rater, verdict in verdicts]
    if not rows:
        return build_table("precision", ())
    ratings = build_ratings_table(rows)
    steps, notes = list(precision.list_next_steps(ratings)), []
    if kind == TRANSITION and planted:
        design = precision.measure_design(ratings)
        steps += precision.list_planned_auc_steps(design, negative_share=planted, rho=RHO)
        notes.append("The AUC uses planning values, because the truth is sealed.")
    pooled_rows = (_build_precision_row(step._replace(source=POOLED)) for step in steps)
    return build_table("precision", pooled_rows, f"From {len(ratings):,} ratings, all sources pooled.", notes)


def _build_precision_row(step: precision.PrecisionStep) -> Cells:
    return [
        step.quantity, step.source or POOLED, step.raters, step.items, step.half_width, step.is_present, step.description,
    ]  # fmt: skip
