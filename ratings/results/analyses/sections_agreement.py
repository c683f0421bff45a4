"""The table of agreement coefficients.

It is built from the list of results, so that both always have the same numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ratings.results.analyses.tables import Json, build_table
from ratings.results.figures.names import POOLED
from ratings.stats import Estimate, Ratings
from ratings.stats.agreement import pairwise
from ratings.stats.estimates import FEW_ITEMS

Args = Mapping[str, Any]


class _Coefficient(NamedTuple):
    """A row of the table. `fits` selects its results from all results of the same statistic."""

    name: str
    stat: str
    fits: Callable[[Args], bool] = lambda args: True


def _match_level(level: str, quantity: str) -> Callable[[Args], bool]:
    return lambda args: bool(args["level"] == level and args["of"] == quantity)


def _match_overlap(min_overlap: int) -> Callable[[Args], bool]:
    return lambda args: bool(args["min_overlap"] == min_overlap)


def _is_mean_over_raters(args: Args) -> bool:
    return "mean_over" in args


def _is_pooled(args: Args) -> bool:
    return "mean_over" not in args


def _list_coefficients(min_overlap: int) -> tuple[_Coefficient, ...]:
    has_overlap = _match_overlap(min_overlap)
    return (
        _Coefficient("Observed agreement, mean of pairs", "avg_pairwise_agreement", has_overlap),
        _Coefficient("Cohen's kappa, mean of pairs", "avg_pairwise_kappa", has_overlap),
        _Coefficient("Cohen's kappa, mean of pairs by items", "avg_pairwise_kappa_weighted", has_overlap),
        _Coefficient("Largest possible kappa, mean of pairs", "kappa_max", has_overlap),
        _Coefficient("Fleiss' kappa", "fleiss_kappa"),
        _Coefficient("Krippendorff's alpha, verdicts", "krippendorff_alpha", _match_level("nominal", "verdict")),
        _Coefficient("Gwet's AC1", "gwet_ac1"),
        _Coefficient("Brennan-Prediger", "brennan_prediger"),
        _Coefficient("Krippendorff's alpha, confidence", "krippendorff_alpha", _match_level("ordinal", "confidence")),
        _Coefficient("Gwet's AC2, confidence", "gwet_ac2", lambda args: bool(args.get("weights") == "quadratic")),
        _Coefficient("Krippendorff's alpha, signed ratings", "krippendorff_alpha", _match_level("ordinal", "signed")),
        _Coefficient("Test-retest agreement", "retest_agreement", _is_pooled),
        _Coefficient("Test-retest agreement, mean of raters", "retest_agreement", _is_mean_over_raters),
        _Coefficient("Test-retest kappa", "retest_kappa", _is_pooled),
        _Coefficient("Test-retest kappa, mean of raters", "retest_kappa", _is_mean_over_raters),
    )


def build_agreement_tables(
    results: Sequence[Estimate], ratings: Ratings, min_overlap: int, verdict_words: Mapping[int, str]
) -> dict[str, Json]:
    """Return the table `agreement`: each coefficient over all sources, then within each source.

    Both intervals of a value, for these raters and for new raters, are in one row.
    """
    yes_shares = {row.args.get("source", ""): row.value for row in results if row.stat == "prevalence"}
    rows = [
        row
        for coefficient in _list_coefficients(min_overlap)
        for row in _iter_coefficient_rows(coefficient, results, yes_shares)
    ]
    skew_note = pairwise.describe_skew(ratings, verdict_words) if len(ratings) else ""
    return {
        "agreement": build_table(
            "agreement", rows, _summarise_agreement(results, min_overlap), [skew_note] if skew_note else []
        )
    }


def _iter_coefficient_rows(
    coefficient: _Coefficient, results: Sequence[Estimate], shares: Mapping[str, float | None]
) -> Iterator[list[Any]]:
    # Results for single raters have the same statistic, but belong to the table of raters.
    matching = [
        row
        for row in results
        if row.stat == coefficient.stat and "rater" not in row.args and coefficient.fits(row.args)
    ]
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
            row.n.get("items"), row.n.get("raters"), row.n.get("ratings"),
            row.n.get("pairs_used"), row.n.get("pairs_undefined"), row.n.get("pairs_below_overlap"), row.reason,
        ]  # fmt: skip


def _summarise_agreement(results: Sequence[Estimate], min_overlap: int) -> str:
    """Return the observed agreement and kappa over all sources in one sentence."""
    pooled_args = {"min_overlap": min_overlap}
    pooled = {row.stat: row for row in results if dict(row.args) == pooled_args}
    observed, kappa = pooled.get("avg_pairwise_agreement"), pooled.get("avg_pairwise_kappa")
    if observed is None or observed.value is None or kappa is None:
        return ""
    caveat = f" ({FEW_ITEMS})" if kappa.reason.startswith(FEW_ITEMS) else ""
    kappa_text = (
        # A hyphen in front of a number reads as a dash in running text.
        f"mean kappa is {kappa.value:.2f}{caveat}".replace("-", "\N{MINUS SIGN}")
        if kappa.value is not None
        else f"kappa is undefined: {kappa.reason}"
    )
    return f"Two raters agree on {observed.value:.0%} of the items they share, all sources together; {kappa_text}."
