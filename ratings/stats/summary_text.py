"""Describe results in words (name, scope, numbers, sample sizes, method), alike on pages and in a terminal."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ratings.stats.estimates import FEW_ITEMS, METHODS, Estimate
from ratings.stats.ratings_table import PLANTED, WITH_ERROR, WITHOUT_ERROR


class SummaryLine(NamedTuple):
    """One result with every field as text; `interval` is "" if there is none.

    `is_unstable`: the interval is given only because it was asked for (see Estimate.withheld).
    """

    name: str
    scope: str
    value: str
    interval: str
    n: str
    method: str
    reason: str
    is_unstable: bool = False


class Section(NamedTuple):
    """A section of the summary with its first lines; `total` is the number of its results."""

    title: str
    lines: list[SummaryLine]
    total: int


_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Rates": (
        "plausibility_rate", "plausibility_rate_item_weighted", "plausibility_rate_rater_weighted", "prevalence", "mean_confidence",
    ),
    "Agreement of raters": (
        "avg_pairwise_agreement", "avg_pairwise_kappa", "avg_pairwise_kappa_weighted", "kappa_max", "fleiss_kappa",
        "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "brennan_prediger", "avg_pairwise_weighted_kappa",
    ),
    "Pairs of raters": ("percent_agreement", "cohen_kappa", "weighted_kappa"),
    "Test-retest agreement": ("retest_agreement", "retest_kappa"),
    "Areas under ROC curves": (
        "auc_confidence_correct", "type2_auc", "auc_unsigned_truth", "auc_signed", "mrmc_mean_auc", "mrmc_u_auc",
        "mrmc_u_component",
    ),
    "Signal detection": ("sensitivity", "specificity", "dprime", "criterion_c"),
    "Localisation of errors": ("localisation",),
    "People and models": (
        "model_agreement", "model_kappa", "model_difference", "leave_one_out_agreement", "leave_one_out_kappa",
    ),
    "Estimated latent truth": ("dawid_skene_prevalence", "dawid_skene_errors"),
}  # fmt: skip
OTHER_SECTION = "Other"
UNSTABLE = "unstable"  # first word of the reason of an interval that is given although it is not reliable

MEAN_CONFIDENCE, POOLED = "Mean confidence, 1 to 5", "all together"
_NAMES: Mapping[str, str] = {
    "plausibility_rate": "Share of verdict 1",
    "plausibility_rate_item_weighted": "Share of verdict 1, items weighted equally",
    "plausibility_rate_rater_weighted": "Share of verdict 1, raters weighted equally",
    "prevalence": "Prevalence",
    "mean_confidence": MEAN_CONFIDENCE,
    "avg_pairwise_agreement": "Agreement, mean over pairs of raters",
    "avg_pairwise_kappa": "Cohen's kappa, mean over pairs of raters",
    "avg_pairwise_kappa_weighted": "Cohen's kappa, mean over pairs weighted by items in common",
    "kappa_max": "Largest possible kappa with these shares of verdicts, mean over pairs",
    "fleiss_kappa": "Fleiss' kappa, missing ratings allowed",
    "krippendorff_alpha": "Krippendorff's alpha",
    "gwet_ac1": "Gwet's AC1",
    "gwet_ac2": "Gwet's AC2",
    "brennan_prediger": "Brennan and Prediger's coefficient (PABAK of two verdicts)",
    "avg_pairwise_weighted_kappa": "Weighted kappa, mean over pairs of raters",
    "weighted_kappa": "Weighted kappa of two raters",
    "percent_agreement": "Agreement of two raters",
    "cohen_kappa": "Cohen's kappa of two raters",
    "retest_agreement": "Test-retest agreement",
    "retest_kappa": "Test-retest Cohen's kappa",
    "auc_confidence_correct": "AUC of confidence for a correct verdict, ratings pooled",
    "type2_auc": "AUC of confidence for a correct verdict, within a rater (type 2)",
    "auc_unsigned_truth": "AUC of confidence regardless of the verdict: {with_error} against {without}",
    "auc_signed": "AUC of the signed rating: {with_error} against {without}, ratings pooled",
    "mrmc_mean_auc": "AUC of the signed rating: {with_error} against {without}, mean over raters",
    "mrmc_u_auc": "AUC of the signed rating: {with_error} against {without}, U-statistic over raters and items",
    "mrmc_u_component": "Variance component of the U-statistic",
    "sensitivity": "Sensitivity: {with_error} items rated not plausible",
    "specificity": "Specificity: {without} items rated plausible",
    "dprime": "d', sensitivity in standard deviations",
    "criterion_c": "Criterion c, above 0: reluctant to call errors",
    "localisation": "Localisation: called errors with a mark on the planted row",
    "model_agreement": "Agreement of a model with raters, mean over raters",
    "model_kappa": "Cohen's kappa of a model with raters, mean over raters",
    "model_difference": "Kappa of a model minus that of people, mean over raters",
    "leave_one_out_agreement": "Agreement of each rater with the others, mean over raters",
    "leave_one_out_kappa": "Cohen's kappa of each rater with the others, mean over raters",
    "contrast": "Difference",
    "dawid_skene_prevalence": "Prevalence by Dawid and Skene's model",
    "dawid_skene_errors": "A rater's answers to items of each true class, by Dawid and Skene's model",
}
_NAMED_BY_REFERENCE = (
    "auc_unsigned_truth", "auc_signed", "mrmc_mean_auc", "mrmc_u_auc", "sensitivity", "specificity",
)  # fmt: skip
_ARGS_IN_NAME = ("min_overlap", "level", "of", "weights", "family", "quantity")
_COUNTS: Mapping[str, str] = {
    "pairs_used": "pairs used",
    "pairs_undefined": "pairs undefined",
    "pairs_below_overlap": "pairs below the overlap",
    "items_with_two": "items with two ratings or more",
    "raters_used": "raters used",
    "raters_dropped": "raters left out",
    "raters_undefined": "raters undefined",
    "undefined_resamples": "resamples undefined",
    "yes": "verdicts 1",
    "k": "of these",
    "positives": "of items without an error",
    "negatives": "of items with an error",
    "false_alarms": "false alarms",
    "correct_rejections": "correct rejections",
    "untold": "without marks or a known location",
    "starts": "starts",
    "starts_alike": "starts with the same optimum",
}


def build_sections(rows: Iterable[Estimate], max_lines: int | None = None) -> list[Section]:
    """Return the results as text, in sections and in the order of the summary, at most `max_lines` of each section."""
    place = {stat: (title, index) for title, stats in _SECTIONS.items() for index, stat in enumerate(stats)}
    by_title: dict[str, list[Estimate]] = {title: [] for title in (*_SECTIONS, OTHER_SECTION)}
    for row in sorted(rows, key=lambda row: place.get(row.stat, (OTHER_SECTION, 0))[1]):
        by_title[place.get(row.stat, (OTHER_SECTION, 0))[0]].append(row)
    return [
        Section(title, [describe_estimate(row) for row in results[:max_lines]], len(results))
        for title, results in by_title.items()
        if results
    ]


def describe_estimate(row: Estimate) -> SummaryLine:
    """Return one result with its fields as text."""
    value = "undefined" if row.value is None else f"{row.value:.3f}"
    interval = "" if row.low is None or row.high is None else f"{row.low:.3f} to {row.high:.3f}"
    n = ", ".join(format_sample_size(name, count) for name, count in row.n.items())
    method = METHODS[row.method] if row.method else ""
    reason = f"{UNSTABLE}: {row.reason}" if row.is_unstable else row.reason
    name, scope = _describe_statistic(row), _describe_args(row.args)
    return SummaryLine(name, scope, value, interval, n, method, reason, row.is_unstable)


def escape_unprintable(text: str) -> str:
    """Return text from an untrusted source with every unprintable character escaped."""
    # Control sequences in an imported name could move the cursor or change what the terminal shows.
    return "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in text)


def _describe_statistic(row: Estimate) -> str:
    name = _NAMES.get(row.stat) or row.stat.replace("_", " ")
    if row.stat in _NAMED_BY_REFERENCE:
        reference = row.reference or PLANTED
        name = name.format(with_error=WITH_ERROR[reference], without=WITHOUT_ERROR[reference])
    # A mean with this reason is over pairs with fewer shared items than min_overlap.
    hidden = "min_overlap" if row.reason.startswith(FEW_ITEMS) else ""
    options = [_describe_option(key, row.args[key]) for key in _ARGS_IN_NAME if key in row.args and key != hidden]
    return f"{name} ({', '.join(options)})" if options else name


def _describe_option(key: str, value: Any) -> str:
    if key == "min_overlap":
        return f"with {value} items or more in common" if value != 1 else "with any number of items in common"
    if key == "of":
        return "of the signed rating" if value == "signed" else f"of the {value}"
    return f"{value} weights" if key == "weights" else f"between {value}" if key == "family" else str(value)


def _describe_args(args: Mapping[str, Any]) -> str:
    words = []
    for key, value in args.items():
        match key, value:
            case key, _ if key in _ARGS_IN_NAME:
                continue
            case "raters", [first, second]:
                words.append(f"{first} and {second}")
            case "target", _:
                words.append(f"for {value}")
            case "interval", "wilson":
                words.append("ratings as independent")
            case "mean_over", _:
                words.append(f"mean over {value}")
            case "truth", _:
                words.append(f"truth {value}")
            case "verdict" | "category", _:
                words.append(f"verdict {value}" if key == "verdict" else f"category {value}")
            case "source" | "rater" | "model" | "sides", _:
                words.append(str(value))
            case _:
                words.append(f"{key} {value}")
    identifying = {"source", "rater", "raters", "model", "category", "sides"} & args.keys()
    return ", ".join(words if identifying else [POOLED, *words])


def format_sample_size(name: str, count: int) -> str:
    """Return a count with its noun, such as "1 pair used" or "2 pairs used"."""
    noun = _COUNTS.get(name, name.replace("_", " "))
    return f"{count:,} {_PLURAL.sub(lambda match: _SINGULAR[match[0]], noun, count=1) if count == 1 else noun}"


_SINGULAR: Mapping[str, str] = {
    "items": "item", "raters": "rater", "ratings": "rating", "repeats": "repeat", "pairs": "pair", "hits": "hit",
    "misses": "miss", "resamples": "resample", "verdicts": "verdict", "starts": "start",
    "false alarms": "false alarm", "correct rejections": "correct rejection",
}  # fmt: skip
# Only the counted noun at the start becomes singular; what it is "of" stays plural.
_PLURAL = re.compile(rf"^({'|'.join(_SINGULAR)})\b")
