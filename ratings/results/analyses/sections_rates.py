"""The tables of rates and confidences: how often each source is rated plausible, also by experiment, action and
other factors.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ratings.models import TRANSITION
from ratings.protocol.reference import name_contrast_group
from ratings.results.analyses.rating_columns import AnalysisData
from ratings.results.analyses.tables import Cells, Json, build_table
from ratings.results.declared_models import DeclaredModel
from ratings.results.paper_values import PaperValue, find_paper_value, pair_with_reasons
from ratings.stats import Estimate, Ratings, proportions
from ratings.stats.ratings_table import Ints

WIDE_APART = 0.02  # a larger difference between a weighted and the unweighted rate gets a note


def build_rate_tables(data: AnalysisData, kind: str, declared: Mapping[str, DeclaredModel]) -> dict[str, Json]:
    """Return the tables rates, rates_by_..., confidence and spread."""
    return {
        "rates": _build_rates_table(data, kind, declared),
        "rates_by_experiment": _build_factor_table(data.table, "experiment"),
        "rates_by_action": _build_factor_table(data.table, "action"),
        "rates_by_error_kind": _build_factor_table(data.table, "error_kind"),
        "rates_by_rater": build_table(
            "rates_by_rater", _iter_cross_rows(data.table, data.table.rater, data.table.raters)
        ),
        "rates_by_arm": _build_arm_table(data.table),
        "confidence": _build_confidence_table(data.table),
        "spread": _build_confidence_summary(data.table),
    }


def map_errors_by_source(data: AnalysisData) -> Mapping[str, str]:
    """Return the planted error of each source name: none, obvious or subtle."""
    return {fact.source: fact.error for fact in data.items}


def find_published_rate(kind: str, declared: DeclaredModel | None, error: str) -> PaperValue | None:
    """Return the paper's rate for the declared model in its role, or None if the paper has none for such outcomes."""
    if declared is None:
        return None
    return find_paper_value("plausibility_rate", kind, model=declared.model, role=declared.role, error=error)


def _build_rates_table(data: AnalysisData, kind: str, declared: Mapping[str, DeclaredModel]) -> Json:
    intervals = _pair_intervals(proportions.estimate_rates(data.table, by="source")) if len(data.table) else {}
    weighted_rates = _compute_weighted_rates(data.table)
    could_not_judge = data.columns.counts & (data.columns.verdict < 0)
    rows, notes, planted, kind_names = [], [], map_errors_by_source(data), _name_kinds(data, kind)
    entries = [find_published_rate(kind, declared.get(source), planted[source]) for source in sorted(kind_names)]
    for source, published, paper in zip(sorted(kind_names), entries, pair_with_reasons(entries), strict=True):
        n_cannot = int(np.sum(could_not_judge & (data.source_by_rating == source)))
        notes += [f"{source}: {published.description}"] if published else []
        # A source whose items nobody could judge is listed too, because it must not disappear from the table.
        if source not in intervals:
            rows.append(
                [source, kind_names[source], 0, 0, 0, 0, *[None] * 7, n_cannot, *paper, "nobody could judge its items"]
            )
            continue
        main, wilson = intervals[source]
        by_item, by_rater = weighted_rates[source]
        rows.append(
            [
                source,
                kind_names[source],
                *_list_rate_cells(main, wilson),
                by_item,
                by_rater,
                n_cannot,
                *paper,
                main.reason,
            ]
        )
        if main.value is not None and max(abs(by_item - main.value), abs(by_rater - main.value)) > WIDE_APART:
            notes.append(
                f"{source}: {main.value:.1%} by ratings, {by_item:.1%} by items and {by_rater:.1%} by raters; they differ "
                "because some items or raters have more ratings than others."
            )
    return build_table("rates", rows, _summarise_rates(rows), notes)


def _name_kinds(data: AnalysisData, kind: str) -> dict[str, str]:
    """Return for each source name the kinds of its items (such as "obvious"), joined by commas.

    It is "" for evidence records without a reference.
    """
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


def _summarise_rates(rows: list[list[Any]]) -> str:
    parts = [f"{row[0]} {row[6]:.0%}" for row in rows if row[6] is not None]
    return f"Share of yes: {'; '.join(parts)}." if parts else ""


def _pair_intervals(rows: list[Estimate], factor: str = "source") -> dict[str, tuple[Estimate, Estimate]]:
    """Return for each group its two results: with the clustered interval, and with Wilson's interval."""
    main = {row.args[factor]: row for row in rows if "interval" not in row.args}
    return {row.args[factor]: (main[row.args[factor]], row) for row in rows if row.args.get("interval") == "wilson"}


def _compute_weighted_rates(ratings: Ratings) -> dict[str, list[float]]:
    """Return for each source the rate with items weighted equally, and the rate with raters weighted equally."""
    rates: dict[str, list[float]] = {}
    for row in proportions.estimate_weighted_rates(ratings, by="source"):
        if row.value is not None:
            rates.setdefault(row.args["source"], []).append(row.value)
    return rates


def _build_factor_table(ratings: Ratings, name: str) -> Json:
    codes, names = ratings.factors[name]
    return build_table(f"rates_by_{name}", _iter_cross_rows(ratings, codes, names))


def _build_arm_table(ratings: Ratings) -> Json:
    """Return the table of rates by display arm, for each element of the display that was varied."""
    rows: list[Cells] = []
    for name, title in (("layout", "layout"), ("context", "goal and earlier steps"), ("marks", "marks")):
        codes, names = ratings.factors[name]
        # If all ratings have the same arm, there is nothing to compare.
        if sum(1 for arm in names if arm) > 1:
            rows += _iter_cross_rows(ratings, codes, names, lambda arm, title=title: f"{title}: {arm}")  # type: ignore[misc]
    return build_table("rates_by_arm", rows)


def _iter_cross_rows(
    ratings: Ratings, codes: Ints, names: tuple[str, ...], format_group: Callable[[str], str] = str
) -> Iterator[Cells]:
    """Yield a row for each combination of group and source. Ratings whose group has no name are left out.

    `codes`: index of each rating's group in `names`.
    """
    has_name = (
        np.array([bool(name) for name in names], dtype=np.bool_)[codes] if len(codes) else np.zeros(0, dtype=np.bool_)
    )
    ratings_with_name = ratings.select_ratings(has_name)
    if not len(ratings_with_name):
        return
    width = len(ratings_with_name.sources)
    cells = tuple(str(at) for at in range(len(names) * width))
    # Group and source are combined into one factor, because the statistics use one factor at a time.
    crossed = replace(ratings_with_name, factors={_CELL: (codes[has_name] * width + ratings_with_name.source, cells)})
    for cell, (main, wilson) in _pair_intervals(proportions.estimate_rates(crossed, by=_CELL), _CELL).items():
        group, source = divmod(int(cell), width)
        yield [
            format_group(names[group]),
            ratings_with_name.sources[source],
            *_list_rate_cells(main, wilson),
            main.reason,
        ]


_CELL = "cell"


def _build_confidence_table(ratings: Ratings) -> Json:
    """Return the table of the number of ratings with each verdict and confidence, by source."""
    rows = []
    with_confidence = ~np.isnan(ratings.confidence)
    for source in np.unique(ratings.source[with_confidence]):
        of_source = with_confidence & (ratings.source == source)
        for verdict in (1, 0):
            counts = np.bincount(
                ratings.confidence[of_source & (ratings.verdict == verdict)].astype(np.int64), minlength=6
            )
            n_ratings = int(of_source.sum())
            # Combinations without a rating have rows with 0, so that every histogram has ten bars.
            rows += [
                [ratings.sources[source], verdict, c, int(counts[c]), float(counts[c] / n_ratings)] for c in range(1, 6)
            ]
    return build_table("confidence", rows)


def _build_confidence_summary(ratings: Ratings) -> Json:
    rows = []
    with_confidence = ~np.isnan(ratings.confidence)
    for source in np.unique(ratings.source[with_confidence]):
        for verdict in (1, 0):
            values = ratings.confidence[with_confidence & (ratings.source == source) & (ratings.verdict == verdict)]
            if len(values):
                lower, median, upper = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
                mean = float(values.mean())
                rows.append([ratings.sources[source], verdict, len(values), median, mean, lower, upper])
    return build_table("spread", rows)
