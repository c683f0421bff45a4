"""The key numbers of a study, and its composition: the shares of items and ratings that are needed to interpret a rate."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from django.db.models import Count, Exists, OuterRef, QuerySet

from ratings.models import TRANSITION, ItemSource, Rating, Study
from ratings.models.answers import FIRST
from ratings.protocol import reference as references
from ratings.protocol.reference import name_contrast_group
from ratings.results import paper_values
from ratings.results.analyses.rating_columns import AnalysisData, DisplayArm
from ratings.results.analyses.sections_raters import RaterSummary, count_contested
from ratings.results.analyses.sections_rates import find_published_rate
from ratings.results.analyses.tables import Json, list_records
from ratings.stats import Estimate, proportions, ratings_table
from ratings.stats.proportions import NO_RATINGS
from ratings.stats.ratings_table import Ratings
from ratings.studies.progress import StopStatus
from wetbench_site.text import format_count

_PLAUSIBLE = {
    ratings_table.PLANTED: "Plausible, no planted error",
    ratings_table.DECLARED: "Plausible, declared right",
    ratings_table.MIXED: "Plausible, no planted or declared error",
    ratings_table.UNKNOWN: "Plausible, no planted error",
}


def build_key_numbers(
    study: Study,
    data: AnalysisData,
    stop: StopStatus,
    tables: Mapping[str, Json],
    results: Sequence[Estimate],
    declared: Mapping[str, paper_values.DeclaredModel],
) -> list[Json]:
    """Return the key numbers, each as a dictionary.

    Its entries are: key; name; kind (count, share or number); value; low and high, the ends of the interval; said, the data on
    which the number is based; published, the paper's value and a sentence about it, or None; reason, why a number or an
    interval is missing.
    """
    collected, agreement = _build_collected(data, stop), _build_agreement(study, results)
    if study.kind == TRANSITION:
        plausible = _build_plausible(data, study.kind, declared)
        obvious, subtle = (_build_detected(data, size) for size in ("obvious", "subtle"))
        entries = [collected, plausible, obvious, subtle, agreement, _build_auc(data, results)]
    else:
        sufficient = _build_share("sufficient", "Judged sufficient", data.table, None, NO_RATINGS)
        entries = [collected, sufficient, agreement, *_build_classifier_entries(data, tables)]
    return entries


def _build_entry(
    key: str,
    name: str,
    kind: str,
    value: float | None,
    basis: str = "",
    *,
    interval: tuple[float | None, float | None] = (None, None),
    paper: Json | None = None,
    reason: str = "",
) -> Json:
    return {
        "key": key, "name": name, "kind": kind, "value": value, "low": interval[0], "high": interval[1], "said": basis,
        "published": paper, "reason": reason,
    }  # fmt: skip


def _build_collected(data: AnalysisData, stop: StopStatus) -> Json:
    counts = data.columns.counts
    n = int(counts.sum())
    raters, items = len(np.unique(data.columns.rater[counts])), len(np.unique(data.columns.item[counts]))
    n_unable = int(np.sum(counts & (data.columns.verdict < 0)))
    parts = [f"by {format_count(raters, 'rater')} on {format_count(items, 'item')}"]
    parts += [f"{n_unable:,} could not be judged"] if n_unable else []
    target = f"{stop.wanted:,} planned" if stop.wanted else "no target number"
    # If filters are active, the target applies to the full study and not to the selected ratings, so the text states both.
    parts.append(target if n == stop.given else f"in the full study {stop.given:,} count, {target}")
    return _build_entry("collected", "Ratings collected", "count", n, "; ".join(parts))


def _format_published(entry: paper_values.PaperValue | None) -> Json | None:
    """Return the paper's value for one of our key numbers, and a sentence about it."""
    return {"value": entry.value, "said": entry.description} if entry else None


def _find_published_rates(kind: str, models: Collection[paper_values.DeclaredModel | None]) -> Json | None:
    """Return the paper's rates for unperturbed outcomes; a value only if all sources are from one of its models."""
    of_sources = {find_published_rate(kind, model, "none") for model in models}
    # A mixture of models has no published value of its own.
    if len(of_sources) == 1 and (single := of_sources.pop()):
        return _format_published(single)
    paper_rates = paper_values.iter_values(
        lambda entry: (entry.quantity, entry.study, entry.error) == ("plausibility_rate", kind, "none")
    )
    rates = [f"{entry.value:.0%} for {entry.model}" for entry in paper_rates if entry.value is not None]
    rates_text = " and ".join(rates)
    return {"value": None, "said": f"Published: {rates_text} ({paper_values.NOT_REPORTED})."} if rates_text else None


def _build_plausible(data: AnalysisData, kind: str, declared: Mapping[str, paper_values.DeclaredModel]) -> Json:
    unperturbed = data.table.select_ratings(data.table.reference == 1)
    paper = _find_published_rates(kind, [declared.get(unperturbed.sources[i]) for i in np.unique(unperturbed.source)])
    name = data.table.reference_name
    reason = ratings_table.explain_missing(name, 1) if len(data.table) else NO_RATINGS
    return _build_share("plausible_unperturbed", _PLAUSIBLE[name], unperturbed, _keep_comparable(data, paper), reason)


def _keep_comparable(data: AnalysisData, paper: Json | None) -> Json | None:
    """Return the paper's value if our reference is also what was done to each item, as in the paper; otherwise None."""
    return paper if data.table.reference_name in (ratings_table.PLANTED, ratings_table.UNKNOWN) else None


def _build_detected(data: AnalysisData, size: str) -> Json:
    """Return the share of planted errors of this size, "obvious" or "subtle", that were detected."""
    table = data.table
    codes, names = table.factors["error"]
    # If the study has no error of this size, the factor has no such level.
    has_size = codes == names.index(size) if size in names else np.zeros(len(table), dtype=np.bool_)
    planted = table.select_ratings(has_size & (table.reference == 0))
    # An error is detected by the verdict 0, so the verdicts are inverted and the rate of 1 is computed.
    as_detected = replace(planted, verdict=1 - planted.verdict)
    reason = ratings_table.MISSING_REFERENCE_REASONS.get(table.reference_name, f"no {size} error was planted")
    if not len(table):
        reason = NO_RATINGS
    elif table.reference_name == ratings_table.DECLARED:
        reason = "no item states its perturbation: import a column `perturbation`"
    return _build_share(f"{size}_caught", f"{size.capitalize()} errors detected", as_detected, None, reason)


def _build_share(key: str, name: str, ratings: Ratings, paper: Json | None, missing: str) -> Json:
    """Return the share of verdict 1, all sources pooled. `missing`: the reason if there are no ratings."""
    pooled = proportions.estimate_rates(ratings, by=None)[0]
    sources = len(np.unique(ratings.source))
    pooling_note = f"; {sources:,} sources pooled" if sources > 1 else ""
    n_ratings, n_items = format_count(pooled.n["ratings"], "rating"), format_count(pooled.n["items"], "item")
    basis = f"{pooled.n.get('yes', 0):,} of {n_ratings}, {n_items}{pooling_note}"
    interval, reason = (pooled.low, pooled.high), pooled.reason if len(ratings) else missing
    return _build_entry(key, name, "share", pooled.value, basis, interval=interval, paper=paper, reason=reason)


def _build_agreement(study: Study, results: Sequence[Estimate]) -> Json:
    """Return the key number for the mean pairwise kappa over all sources, as in the paper, with the observed agreement."""
    main = _find_pooled_result(results, "avg_pairwise_kappa")
    observed = _find_pooled_result(results, "avg_pairwise_agreement")
    # If nearly all verdicts are alike, kappa can be low although agreement is high, so both are always shown.
    observed_text = f"observed agreement {observed.value:.0%}; " if observed and observed.value is not None else ""
    pairs = main.n.get("pairs_used", 0) if main else 0
    basis = f"{observed_text}{'one pair' if pairs == 1 else f'mean of {pairs:,} pairs'} of raters, all sources pooled"
    paper = _format_published(paper_values.find_paper_value("avg_pairwise_kappa", study.kind, role="human"))
    return _build_result_entry("agreement", "Agreement, mean kappa", main, basis, paper)


def _build_auc(data: AnalysisData, results: Sequence[Estimate]) -> Json:
    main, name = _find_pooled_result(results, "auc_confidence_correct"), data.table.reference_name
    rated_text = format_count(main.n.get("ratings", 0) if main else 0, "rating")
    basis = f"confidence of correct against incorrect verdicts, {rated_text} of {ratings_table.WITH_ERROR[name]} and {ratings_table.WITHOUT_ERROR[name]} items"
    paper = _keep_comparable(
        data, _format_published(paper_values.find_paper_value("auc_confidence_correct", TRANSITION))
    )
    return _build_result_entry("auc", "AUC of confidence, correct against incorrect", main, basis, paper)


def _build_result_entry(key: str, name: str, main: Estimate | None, basis: str, paper: Json | None) -> Json:
    if main is None:
        return _build_entry(key, name, "number", None, basis, paper=paper, reason=NO_RATINGS)
    interval = (main.low, main.high)
    return _build_entry(key, name, "number", main.value, basis, interval=interval, paper=paper, reason=main.reason)


def _find_pooled_result(results: Sequence[Estimate], stat: str) -> Estimate | None:
    """Return the result of a statistic over all sources, with its interval for these raters; None if there is none."""
    # Results for one source have the argument "source", and results for other raters the argument "target".
    return next((row for row in results if row.stat == stat and not {"source", "target"} & set(row.args)), None)


def _build_classifier_entries(data: AnalysisData, tables: Mapping[str, Json]) -> list[Json]:
    """Return the agreement of raters with the best classifier, and the share that classifiers judge sufficient."""
    why_none = "no classifier judged these records" if len(data.table) else NO_RATINGS
    records = (list_records(tables[name]) for name in ("human_model", "fractions"))
    agreements, shares = ([row for row in rows if row["kind"] == "classifier"] for rows in records)
    agreement = "model_agreement", "Agreement with the classifier", "number"
    fraction = "fraction", "Classifiers: judged sufficient", "share"
    entries = [_build_entry(*agreement, None, reason=why_none), _build_entry(*fraction, None, reason=why_none)]
    if agreements:
        best = max(agreements, key=lambda row: (row["kappa"] is not None, row["kappa"] or 0))
        based_on = f"{format_count(best['raters_used'], 'rater')} on {format_count(best['items'], 'item')}"
        basis, interval = f"mean kappa of {best['who']} with {based_on}", (best["kappa_low"], best["kappa_high"])
        entries[0] = _build_entry(*agreement, best["kappa"], basis, interval=interval, reason=best["reason"])
    if shares:
        k, n, is_single = sum(row["k"] for row in shares), sum(row["n"] for row in shares), len(shares) == 1
        interval = (shares[0]["low"], shares[0]["high"]) if is_single else (None, None)
        reason = "" if is_single else f"{len(shares)} classifiers pooled; the table has an interval for each"
        basis = f"{k:,} of {format_count(n, 'verdict')} of {'the classifier' if is_single else 'classifiers'}"
        entries[1] = _build_entry(*fraction, k / n, basis, interval=interval, reason=reason)
    return entries


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
    is_rated = Exists(ratings.filter(assignment__item=OuterRef("item")))
    sources = ItemSource.objects.filter(is_rated, item__study=study).order_by().values_list("perturbation", "reference")
    errors, by_reference = Counter[str](), Counter[str]()
    for perturbation, reference, n in sources.annotate(n=Count("pk")):
        errors[name_contrast_group(perturbation, reference)] += n
        by_reference[reference] += n
    planted, unperturbed = by_reference[references.PLANTED], by_reference[references.UNPERTURBED]
    named = {name: by_reference[value] for value, name in references.CHOICES if by_reference[value]}
    has_others = planted and sum(named.values()) > planted + unperturbed
    machines = study.machine_raters.order_by("pk").values_list("label", "name")
    return {
        "planted_share": planted / (planted + unperturbed) if planted else None,
        "references": named,
        "references_said": ", ".join(f"{n:,} {name}" for name, n in named.items()) if has_others else "",
        "errors": dict(sorted(errors.items())),
        "arms": _compute_arm_shares(ratings),
        "simulated": _describe_simulated(data, raters),
        "imported": _describe_imported(data),
        "machines": [f"{label}, {name}" for label, name in machines],
        "contested": count_contested(data),
        "cannot_judge": int(np.sum(counting & (data.columns.verdict < 0))),
        "surplus": int(np.sum((data.columns.occasion == 1) & ~counting)),
    }


def _compute_arm_shares(ratings: QuerySet[Rating]) -> dict[str, dict[str, float]]:
    """Return the share of the ratings in each display arm; ratings collected elsewhere are left out."""
    columns = "assignment__layout", "assignment__with_context", "assignment__marks"
    counts = ratings.filter(imported=False).order_by().values_list(*columns).annotate(n=Count("pk"))
    by_arm: dict[str, Counter[str]] = {name: Counter() for name in DisplayArm._fields}
    for layout, context, marks, n in counts:
        for name, arm in DisplayArm(layout, "yes" if context else "no", marks)._asdict().items():
            by_arm[name][arm] += n
    return {name: {arm: n / arms.total() for arm, n in sorted(arms.items()) if n} for name, arms in by_arm.items()}


def _describe_simulated(data: AnalysisData, raters: list[RaterSummary]) -> Json:
    """Return the numbers of simulated raters and of their ratings, and `said`, a sentence about them."""
    counting = data.columns.counts
    with_ratings = {data.raters[at] for at in np.unique(data.columns.rater[counting])}
    simulated = len({rater.label for rater in raters if rater.who == "simulated"} & with_ratings)
    n_raters, n_ratings = len(with_ratings), int(counting.sum())
    ratings = int((counting & data.columns.simulated).sum())
    sentence = f"{simulated} of {n_raters} raters are simulated; they gave {ratings:,} of {n_ratings:,} ratings."
    if not simulated:
        sentence = ""
    elif simulated == n_raters:
        sentence = f"All {n_raters} raters are simulated: these are not human data."
    return {
        "raters": simulated, "of_raters": n_raters, "ratings": ratings, "of_ratings": n_ratings, "said": sentence,
    }  # fmt: skip


def _describe_imported(data: AnalysisData) -> Json:
    ratings, n_ratings = int(np.sum(data.columns.counts & data.columns.imported)), int(data.columns.counts.sum())
    sentence = f"{ratings:,} of {n_ratings:,} ratings were collected elsewhere and imported." if ratings else ""
    return {"ratings": ratings, "of_ratings": n_ratings, "said": sentence}
