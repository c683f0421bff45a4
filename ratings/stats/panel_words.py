"""Statistics in words: what each is called, what it is of, and its numbers as text. Page and terminal say the same."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ratings.stats.estimates import FEW_ITEMS, METHODS, Estimate
from ratings.stats.table import PLANTED, WITH_ERROR, WITHOUT_ERROR


class Line(NamedTuple):
    """One result, every field ready to be shown; value is "undefined" where there is none, interval "" likewise."""

    name: str
    of: str
    value: str
    interval: str
    n: str
    method: str
    reason: str


class Section(NamedTuple):
    title: str
    lines: list[Line]


_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Rates": (
        "plausibility_rate", "plausibility_rate_item_weighted", "plausibility_rate_rater_weighted", "prevalence", "mean_confidence",
    ),
    "Agreement of raters": (
        "avg_pairwise_agreement", "avg_pairwise_kappa", "avg_pairwise_kappa_weighted", "kappa_max", "fleiss_kappa",
        "krippendorff_alpha", "gwet_ac1", "gwet_ac2", "brennan_prediger",
    ),
    "Pairs of raters": ("percent_agreement", "cohen_kappa"),
    "Raters with themselves": ("retest_agreement", "retest_kappa"),
    "Areas under ROC curves": (
        "auc_confidence_correct", "type2_auc", "auc_unsigned_truth", "auc_signed", "mrmc_mean_auc",
    ),
    "Errors as signals": ("sensitivity", "specificity", "dprime", "criterion_c"),
    "Right for the right reason": ("localisation",),
    "People and models": (
        "model_agreement", "model_kappa", "model_difference", "leave_one_out_agreement", "leave_one_out_kappa",
    ),
    "Latent truth, estimated": ("dawid_skene_prevalence", "dawid_skene_errors"),
}  # fmt: skip
FURTHER = "Further"

MEAN_CONFIDENCE, POOLED = "Mean confidence, 1 to 5", "all together"
_NAMES: Mapping[str, str] = {
    "plausibility_rate": "Share of verdict 1",
    "plausibility_rate_item_weighted": "Share of verdict 1, every item alike",
    "plausibility_rate_rater_weighted": "Share of verdict 1, every rater alike",
    "prevalence": "Prevalence",
    "mean_confidence": MEAN_CONFIDENCE,
    "avg_pairwise_agreement": "Agreement, mean over pairs of raters",
    "avg_pairwise_kappa": "Cohen's kappa, mean over pairs of raters",
    "avg_pairwise_kappa_weighted": "Cohen's kappa, mean over pairs weighted by items in common",
    "kappa_max": "Largest kappa these shares of verdicts allow, mean over pairs",
    "fleiss_kappa": "Fleiss' kappa, missing ratings allowed",
    "krippendorff_alpha": "Krippendorff's alpha",
    "gwet_ac1": "Gwet's AC1",
    "gwet_ac2": "Gwet's AC2",
    "brennan_prediger": "Brennan and Prediger's coefficient (PABAK of two verdicts)",
    "percent_agreement": "Agreement of two",
    "cohen_kappa": "Cohen's kappa of two",
    "retest_agreement": "Agreement with oneself",
    "retest_kappa": "Cohen's kappa with oneself",
    "auc_confidence_correct": "AUC of confidence for a correct verdict, ratings pooled",
    "type2_auc": "AUC of confidence for a correct verdict, within a rater (type 2)",
    "auc_unsigned_truth": "AUC of confidence, whatever the verdict: {with_error} against {without}",
    "auc_signed": "AUC of the signed rating: {with_error} against {without}, ratings pooled",
    "mrmc_mean_auc": "AUC of the signed rating: {with_error} against {without}, mean over raters",
    "sensitivity": "Sensitivity: {with_error} items called implausible",
    "specificity": "Specificity: {without} items called plausible",
    "dprime": "d', sensitivity in standard deviations",
    "criterion_c": "Criterion c, above 0: reluctant to call errors",
    "localisation": "Localisation: called errors whose mark hits the planted row",
    "model_agreement": "Agreement of a model with raters, mean over raters",
    "model_kappa": "Cohen's kappa of a model with raters, mean over raters",
    "model_difference": "Kappa of a model less that of people, mean over raters",
    "leave_one_out_agreement": "Agreement of each rater with the others, mean over raters",
    "leave_one_out_kappa": "Cohen's kappa of each rater with the others, mean over raters",
    "contrast": "Difference",
    "dawid_skene_prevalence": "Prevalence by Dawid and Skene's model",
    "dawid_skene_errors": "What a rater says of an item of each true class, by Dawid and Skene's model",
}
_OF_REFERENCE = ("auc_unsigned_truth", "auc_signed", "mrmc_mean_auc", "sensitivity", "specificity")
_IN_NAME = ("min_overlap", "level", "of", "weights", "family", "quantity")
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
    "untold": "without marks or a known place",
    "starts": "starts",
    "starts_alike": "starts that ended alike",
}


def sections(rows: Iterable[Estimate]) -> list[Section]:
    """The results in the panel's order, in words; sections without a result are left out."""
    title_of = {stat: title for title, stats in _SECTIONS.items() for stat in stats}
    place = {stat: at for at, stat in enumerate(stat for stats in _SECTIONS.values() for stat in stats)}
    found: dict[str, list[Estimate]] = {title: [] for title in (*_SECTIONS, FURTHER)}
    for row in rows:
        found[title_of.get(row.stat, FURTHER)].append(row)
    return [
        Section(title, [line(row) for row in sorted(own, key=lambda row: place.get(row.stat, len(place)))])
        for title, own in found.items()
        if own
    ]


def line(row: Estimate) -> Line:
    """One result in words."""
    interval = "" if row.low is None or row.high is None else f"{row.low:.3f} to {row.high:.3f}"
    return Line(
        name=_name(row),
        of=_of(row.args),
        value="undefined" if row.value is None else f"{row.value:.3f}",
        interval=interval,
        n=", ".join(counted(name, count) for name, count in row.n.items()),
        method=METHODS[row.method] if row.method else "",
        reason=row.reason,
    )


def said_of(text: str) -> str:
    """Text of unknown origin as a terminal may print it: nothing in it steers."""
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in text)


def _name(row: Estimate) -> str:
    name = _NAMES.get(row.stat) or row.stat.replace("_", " ")
    if row.stat in _OF_REFERENCE:
        reference = row.reference or PLANTED
        name = name.format(with_error=WITH_ERROR[reference], without=WITHOUT_ERROR[reference])
    few = row.reason.startswith(FEW_ITEMS)  # then the mean is over pairs that do not have so many items in common
    about = [_option(key, row.args[key]) for key in _IN_NAME if key in row.args and not (few and key == "min_overlap")]
    return f"{name} ({', '.join(about)})" if about else name


def _option(key: str, value: Any) -> str:
    if key == "min_overlap":
        return f"with {value} items or more in common" if value != 1 else "whatever they have in common"
    if key == "of":
        return "of the signed rating" if value == "signed" else f"of the {value}"
    return f"{value} weights" if key == "weights" else f"between {value}" if key == "family" else str(value)


def _of(args: Mapping[str, Any]) -> str:
    words = []
    for key, value in args.items():
        match key, value:
            case key, _ if key in _IN_NAME:
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
                words.append(f"says {value}" if key == "verdict" else f"category {value}")
            case "source" | "rater" | "model" | "sides", _:
                words.append(str(value))
            case _:
                words.append(f"{key} {value}")
    placed = {"source", "rater", "raters", "model", "category", "sides"} & args.keys()
    return ", ".join(words if placed else [POOLED, *words])


def counted(name: str, count: int) -> str:
    """A count with its noun: "1 pair used", "2 pairs used"."""
    word = _COUNTS.get(name, name.replace("_", " "))
    return f"{count:,} {_PLURAL.sub(lambda found: _ONE[found[0]], word, count=1) if count == 1 else word}"


_ONE: Mapping[str, str] = {
    "items": "item", "raters": "rater", "ratings": "rating", "repeats": "repeat", "pairs": "pair", "hits": "hit",
    "misses": "miss", "resamples": "resample", "verdicts": "verdict", "starts": "start",
    "false alarms": "false alarm", "correct rejections": "correct rejection",
}  # fmt: skip
_PLURAL = re.compile(rf"^({'|'.join(_ONE)})\b")  # the noun that is counted stands first; what it is "of" stays plural
