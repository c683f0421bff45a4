"""The five key numbers of a study."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from django.db.models import Count, Exists, OuterRef, QuerySet

from ratings.models import TRANSITION, ItemSource, Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol.reference import CHOICES, UNPERTURBED, name_contrast_group
from ratings.protocol.reference import PLANTED as PLANTED_ITEM
from ratings.results.analyses.rating_columns import AnalysisData, DisplayArm
from ratings.results.analyses.sections_raters import RaterSummary, count_contested
from ratings.results.analyses.sections_rates import find_published_rate
from ratings.results.analyses.tables import Json, list_records
from ratings.results.paper_values import NOT_REPORTED, DeclaredModel, PaperValue, find_paper_value, load_paper_values
from ratings.stats import Estimate, Ratings, proportions
from ratings.stats.proportions import NO_RATINGS
from ratings.stats.ratings_table import (
    DECLARED,
    MISSING_REFERENCE_REASONS,
    MIXED,
    PLANTED,
    UNKNOWN,
    WITH_ERROR,
    WITHOUT_ERROR,
    explain_missing,
)
from ratings.studies.progress import StopStatus
from wetbench_site.text import format_count

_PLAUSIBLE = {
    PLANTED: "Plausible, no planted error",
    DECLARED: "Plausible, declared right",
    MIXED: "Plausible, no planted or declared error",
    UNKNOWN: "Plausible, no planted error",
}


class Published(NamedTuple):
    """The paper's value for one of our key numbers, and a sentence about it (`said`).

    `value` is None if the paper's value is not for the same model as ours, or is for several models.
    """

    value: float | None
    said: str


def build_key_numbers(
    study: Study,
    data: AnalysisData,
    stop: StopStatus,
    tables: Mapping[str, Json],
    results: Sequence[Estimate],
    declared: Mapping[str, DeclaredModel],
) -> list[Json]:
    """Return the key numbers, each as a dictionary.

    Its entries are: key; name; kind (count, share or number); value; low and high, the ends of the interval; said, the data on
    which the number is based; published, the paper's value and a sentence about it, or None; reason, why a number or an
    interval is missing.
    """
    collected = _build_collected(data, stop)
    if study.kind == TRANSITION:
        entries = [
            collected,
            _build_plausible(data, study.kind, declared),
            _build_subtle_detected(data),
            _build_agreement(study, results),
            _build_auc(data, results),
        ]
    else:
        entries = [
            collected,
            _build_sufficient(data),
            _build_agreement(study, results),
            *_build_classifier_entries(data, tables),
        ]
    return [_note_simulated(data, entry) for entry in entries]


def _note_simulated(data: AnalysisData, entry: Json) -> Json:
    """Return the entry; if raters are simulated, a sentence after the paper's number states this."""
    simulated = data.columns.simulated[data.columns.is_judged]
    if entry["published"] is None or not simulated.any():
        return entry
    ours = "Our raters are simulated." if simulated.all() else "Some of our raters are simulated."
    return {**entry, "published": {**entry["published"], "said": f"{entry['published']['said']} {ours}"}}


def _build_entry(
    key: str,
    name: str,
    kind: str,
    value: float | None,
    basis: str,
    *,
    interval: tuple[float | None, float | None] = (None, None),
    paper: Published | None = None,
    reason: str = "",
) -> Json:
    return {
        "key": key,
        "name": name,
        "kind": kind,
        "value": value,
        "low": interval[0],
        "high": interval[1],
        "said": basis,
        "published": paper._asdict() if paper else None,
        "reason": reason,
    }


def _build_collected(data: AnalysisData, stop: StopStatus) -> Json:
    n = int(data.columns.counts.sum())
    target_text = f"{stop.wanted:,} planned" if stop.wanted else "no target number"
    raters = len(np.unique(data.columns.rater[data.columns.counts]))
    items = len(np.unique(data.columns.item[data.columns.counts]))
    n_unable = int(np.sum(data.columns.counts & (data.columns.verdict < 0)))
    parts = [f"by {format_count(raters, 'rater')} on {format_count(items, 'item')}"]
    parts += [f"{n_unable:,} could not be judged"] if n_unable else []
    # If filters are active, the target applies to the full study and not to the selected ratings, so the text states both.
    parts.append(target_text if n == stop.given else f"in the full study {stop.given:,} count, {target_text}")
    return _build_entry("collected", "Ratings collected", "count", n, "; ".join(parts))


def _format_published(entry: PaperValue | None) -> Published | None:
    return Published(entry.value, entry.description) if entry else None


def _find_published_rates(kind: str, models: Sequence[DeclaredModel | None]) -> Published | None:
    """Return the paper's rates for unperturbed outcomes.

    It has a value only if all sources are from one model of the paper.
    """
    of_sources = {find_published_rate(kind, model, "none") for model in models}
    # A mixture of models has no published value of its own.
    single = of_sources.pop() if len(of_sources) == 1 else None
    if single is not None:
        return _format_published(single)
    paper_rates = [
        entry
        for entry in load_paper_values()
        if (entry.quantity, entry.study, entry.error) == ("plausibility_rate", kind, "none")
    ]
    rates_text = " and ".join(
        f"{entry.value:.0%} for {entry.model}" for entry in paper_rates if entry.value is not None
    )
    return Published(None, f"Published: {rates_text} ({NOT_REPORTED}).") if rates_text else None


def _build_plausible(data: AnalysisData, kind: str, declared: Mapping[str, DeclaredModel]) -> Json:
    unperturbed = data.table.select_ratings(data.table.reference == 1)
    paper = _find_published_rates(kind, [declared.get(unperturbed.sources[i]) for i in np.unique(unperturbed.source)])
    name = data.table.reference_name
    reason = explain_missing(name, 1) if len(data.table) else NO_RATINGS
    return _build_share("plausible_unperturbed", _PLAUSIBLE[name], unperturbed, _keep_comparable(data, paper), reason)


def _keep_comparable(data: AnalysisData, paper: Published | None) -> Published | None:
    """Return the paper's value if our reference is also what was done to each item, as in the paper; otherwise None."""
    return paper if data.table.reference_name in (PLANTED, UNKNOWN) else None


def _build_subtle_detected(data: AnalysisData) -> Json:
    codes, names = data.table.factors["error"]
    # If the study has no subtle error, the factor has no level "subtle".
    is_subtle = codes == names.index("subtle") if "subtle" in names else np.zeros(len(data.table), dtype=np.bool_)
    subtle = data.table.select_ratings(is_subtle & (data.table.reference == 0))
    # An error is detected by the verdict 0, so the verdicts are inverted and the rate of 1 is computed.
    as_detected = replace(subtle, verdict=1 - subtle.verdict)
    return _build_share("subtle_caught", "Subtle errors detected", as_detected, None, _explain_no_subtle(data.table))


def _explain_no_subtle(ratings: Ratings) -> str:
    """Return why no rating is of a subtle planted error."""
    if not len(ratings):
        return NO_RATINGS
    if ratings.reference_name == DECLARED:
        return "no item states its perturbation: import a column `perturbation`"
    return MISSING_REFERENCE_REASONS.get(ratings.reference_name, "no subtle error was planted")


def _build_sufficient(data: AnalysisData) -> Json:
    return _build_share("sufficient", "Judged sufficient", data.table, None, NO_RATINGS)


def _build_share(key: str, name: str, ratings: Ratings, paper: Published | None, missing: str) -> Json:
    """Return the key number for the share of verdict 1, all sources pooled.

    `missing`: the reason if there are no ratings.
    """
    results: list[Estimate] = proportions.estimate_rates(ratings, by=None)
    pooled = results[0]
    sources = len(np.unique(ratings.source))
    pooling_note = f"; {sources:,} sources pooled" if sources > 1 else ""
    basis = f"{pooled.n.get('yes', 0):,} of {format_count(pooled.n['ratings'], 'rating')}, {format_count(pooled.n['items'], 'item')}{pooling_note}"
    return _build_entry(
        key,
        name,
        "share",
        pooled.value,
        basis,
        interval=(pooled.low, pooled.high),
        paper=paper,
        reason=pooled.reason if len(ratings) else missing,
    )


def _build_agreement(study: Study, results: Sequence[Estimate]) -> Json:
    """Return the key number for the mean pairwise kappa over all sources, as in the paper, with the observed
    agreement.
    """
    main, observed = (
        _find_pooled_result(results, "avg_pairwise_kappa"),
        _find_pooled_result(results, "avg_pairwise_agreement"),
    )
    # If nearly all verdicts are alike, kappa can be low although agreement is high, so both are always shown.
    observed_text = f"observed agreement {observed.value:.0%}; " if observed and observed.value is not None else ""
    pairs = main.n.get("pairs_used", 0) if main else 0
    basis = f"{observed_text}{'one pair' if pairs == 1 else f'mean of {pairs:,} pairs'} of raters, all sources pooled"
    return _build_result_entry(
        "agreement",
        "Agreement, mean kappa",
        main,
        basis,
        _format_published(find_paper_value("avg_pairwise_kappa", study.kind, role="human")),
    )


def _build_auc(data: AnalysisData, results: Sequence[Estimate]) -> Json:
    main = _find_pooled_result(results, "auc_confidence_correct")
    rated_text = format_count(main.n.get("ratings", 0) if main else 0, "rating")
    name = data.table.reference_name
    basis = f"confidence of correct against incorrect verdicts, {rated_text} of {WITH_ERROR[name]} and {WITHOUT_ERROR[name]} items"
    return _build_result_entry(
        "auc",
        "AUC of confidence, correct against incorrect",
        main,
        basis,
        _keep_comparable(data, _format_published(find_paper_value("auc_confidence_correct", TRANSITION))),
    )


def _build_result_entry(key: str, name: str, main: Estimate | None, basis: str, paper: Published | None) -> Json:
    if main is None:
        return _build_entry(key, name, "number", None, basis, paper=paper, reason=NO_RATINGS)
    return _build_entry(
        key, name, "number", main.value, basis, interval=(main.low, main.high), paper=paper, reason=main.reason
    )


def _find_pooled_result(results: Sequence[Estimate], stat: str) -> Estimate | None:
    """Return the result of a statistic over all sources, with its interval for these raters; None if there is none."""
    # Results for one source have the argument "source", and results for other raters the argument "target".
    return next((row for row in results if row.stat == stat and not {"source", "target"} & set(row.args)), None)


def _build_classifier_entries(data: AnalysisData, tables: Mapping[str, Json]) -> list[Json]:
    why_none = "no classifier judged these records" if len(data.table) else NO_RATINGS
    names = "human_model", "fractions"
    agreement_rows, share_rows = (
        [row for row in list_records(tables[name]) if row["kind"] == "classifier"] for name in names
    )
    return [_build_model_agreement(agreement_rows, why_none), _build_classifier_fraction(share_rows, why_none)]


def _build_model_agreement(rows: Sequence[Json], why_none: str) -> Json:
    if not rows:
        return _build_entry("model_agreement", "Agreement with the classifier", "number", None, "", reason=why_none)
    best = max(rows, key=lambda row: (row["kappa"] is not None, row["kappa"] or 0))
    based_on = f"{format_count(best['raters_used'], 'rater')} on {format_count(best['items'], 'item')}"
    interval = best["kappa_low"], best["kappa_high"]
    return _build_entry("model_agreement", "Agreement with the classifier", "number", best["kappa"],
                  f"mean kappa of {best['who']} with {based_on}", interval=interval, reason=best["reason"])  # fmt: skip


def _build_classifier_fraction(rows: Sequence[Json], why_none: str) -> Json:
    """Return the key number for the share of records that classifiers judge sufficient; it has an interval for one
    classifier.
    """
    if not rows:
        return _build_entry("fraction", "Classifiers: judged sufficient", "share", None, "", reason=why_none)
    k, n, is_single = sum(row["k"] for row in rows), sum(row["n"] for row in rows), len(rows) == 1
    interval = (rows[0]["low"], rows[0]["high"]) if is_single else (None, None)
    reason = "" if is_single else f"{len(rows)} classifiers pooled; the table has an interval for each"
    basis = f"{k:,} of {format_count(n, 'verdict')} of {'the classifier' if is_single else 'classifiers'}"
    return _build_entry(
        "fraction", "Classifiers: judged sufficient", "share", k / n, basis, interval=interval, reason=reason
    )


def build_composition(study: Study, data: AnalysisData, raters: list[RaterSummary]) -> Json:
    """Return the composition of the study and of the ratings in `data`.

    The following entries are for the whole study, regardless of filters, because they describe what raters saw:

    - planted_share: share of planted items among the rated items that are planted or unperturbed; None if none is planted
    - references: number of rated items by reference ("not known" if it is not stated)
    - references_said: the same in words, if planted_share does not include all rated items
    - errors: number of rated items by planted error, or by declared truth if the perturbation is not stated
    - arms: share of the ratings by display arm

    The other entries are for the ratings in `data`; `contested` is the number of items on which raters disagree.
    """
    counting = data.columns.counts
    # The ratings are not taken from `data`, because filters do not change what raters saw.
    ratings = Rating.objects.filter(
        assignment__item__study=study, assignment__rater__dropped=False, assignment__occasion=FIRST,
        assignment__released_at__isnull=True, assignment__surplus=False,
    )  # fmt: skip
    kinds = _count_kinds(study, ratings)
    errors, references = Counter[str](), Counter[str]()
    for (perturbation, reference), n in kinds.items():
        errors[name_contrast_group(perturbation, reference)] += n
        references[reference] += n
    planted = references[PLANTED_ITEM]
    machines = study.machine_raters.order_by("pk").values_list("label", "name")
    return {
        "planted_share": planted / (planted + references[UNPERTURBED]) if planted else None,
        "references": {name: references[value] for value, name in CHOICES if references[value]},
        "references_said": _summarise_references(references),
        "errors": dict(sorted(errors.items())),
        "arms": _compute_arm_shares(ratings),
        "simulated": _describe_simulated(data, raters),
        "imported": _describe_imported(data),
        "machines": [f"{label}, {name}" for label, name in machines],
        "contested": count_contested(data),
        "cannot_judge": int(np.sum(counting & (data.columns.verdict < 0))),
        "surplus": int(np.sum((data.columns.occasion == 1) & ~counting)),
    }


def _count_kinds(study: Study, ratings: QuerySet[Rating]) -> Counter[tuple[str, str]]:
    """Count the items that have one of these ratings, by perturbation and reference."""
    rated_sources = ItemSource.objects.filter(
        Exists(ratings.filter(assignment__item=OuterRef("item"))), item__study=study
    )
    rows = rated_sources.order_by().values_list("perturbation", "reference").annotate(n=Count("pk"))
    return Counter({(perturbation, reference): n for perturbation, reference, n in rows})


def _summarise_references(references: Counter[str]) -> str:
    """Return the numbers of items by reference, such as "8 planted, 8 unperturbed, 8 not known".

    It is "" if no item is planted, or if planted_share includes all items.
    """
    others = references.keys() - {PLANTED_ITEM, UNPERTURBED}
    if not others or not references[PLANTED_ITEM]:
        return ""
    return ", ".join(f"{references[value]:,} {name}" for value, name in CHOICES if references[value])


def _compute_arm_shares(ratings: QuerySet[Rating]) -> dict[str, dict[str, float]]:
    """Return the share of the ratings in each display arm; ratings collected elsewhere are left out."""
    collected_here = ratings.filter(imported=False).order_by()
    columns = "assignment__layout", "assignment__with_context", "assignment__marks"
    counts = list(collected_here.values_list(*columns).annotate(n=Count("pk")))
    shares: dict[str, dict[str, float]] = {}
    for name in DisplayArm._fields:
        by_arm: Counter[str] = Counter()
        for layout, context, marks, n in counts:
            by_arm[getattr(DisplayArm(layout, "yes" if context else "no", marks), name)] += n
        shares[name] = {arm: n / by_arm.total() for arm, n in sorted(by_arm.items()) if n}
    return shares


def _describe_simulated(data: AnalysisData, raters: list[RaterSummary]) -> Json:
    """Return the numbers of simulated raters and of their ratings, and `said`, a sentence about them ("" if there
    are none).
    """
    counting = data.columns.counts
    with_ratings = {data.raters[at] for at in np.unique(data.columns.rater[counting])}
    simulated_labels = {rater.label for rater in raters if rater.who == "simulated"} & with_ratings
    ratings, n_ratings = int(np.sum(counting & data.columns.simulated)), int(counting.sum())
    return {
        "raters": len(simulated_labels),
        "of_raters": len(with_ratings),
        "ratings": ratings,
        "of_ratings": n_ratings,
        "said": _format_simulated(len(simulated_labels), len(with_ratings), ratings, n_ratings),
    }


def _format_simulated(simulated: int, raters: int, ratings: int, n_ratings: int) -> str:
    if not simulated:
        return ""
    if simulated == raters:
        return f"All {raters} raters are simulated: these are not human data."
    return f"{simulated} of {raters} raters are simulated; they gave {ratings:,} of {n_ratings:,} ratings."


def _describe_imported(data: AnalysisData) -> dict[str, Any]:
    ratings, n_ratings = int(np.sum(data.columns.counts & data.columns.imported)), int(data.columns.counts.sum())
    sentence = f"{ratings:,} of {n_ratings:,} ratings were collected elsewhere and imported." if ratings else ""
    return {"ratings": ratings, "of_ratings": n_ratings, "said": sentence}
