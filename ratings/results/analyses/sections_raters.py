"""The tables of raters, items, and the detection of errors by rater and source.

Values of detection that are also in the list of results are taken from it, so that both agree.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ratings.models import PracticeAnswer, Study
from ratings.protocol.reference import reference_to_label
from ratings.results.analyses.rating_columns import AnalysisData
from ratings.results.analyses.tables import Cells, Json, build_table, builds
from ratings.results.rating_rows import is_disputed
from ratings.stats import Estimate, areas, pairwise, proportions, rater_pairs
from ratings.stats.detection import LOCALISATION, CalledError, estimate_localisation
from ratings.stats.estimates import FEW_ITEMS
from ratings.stats.ratings_table import REFERENCES, UNKNOWN, Bools, Ints
from ratings.stats.u_statistic import U_AUC

PARTS = 10  # number of parts into which the table of drift divides the raters' orders of items
MATRIX_ITEMS, MATRIX_RATERS, CONTESTED = 200, 60, 500  # most entries of a table; the ratings file has all
FEW = 10  # a rater with fewer answers gets no flags
FELL = 0.15  # a larger fall of the share correct from the first to the second half is flagged
EVERYBODY, EVERY_ERROR = "all raters", "all errors"
_OF_RATERS = ("dprime", "criterion_c")
_STATS = ("sensitivity", "specificity", *_OF_RATERS, "mrmc_mean_auc")
_NO_SHARE: tuple[None, None, None] = (None, None, None)
EstimatesByCell = Mapping[tuple[str, str, str], Estimate]


class RaterSummary(NamedTuple):
    """A rater of the study. `who`: person, simulated or imported."""

    label: str
    who: str
    items_left: int
    practice_right: int
    practice_of: int


def list_raters(study: Study) -> list[RaterSummary]:
    """Return all raters who were not removed, in two queries."""
    raters = study.raters.filter(dropped=False)
    practice: dict[int, Counter[bool]] = defaultdict(Counter)
    for rater, is_right in PracticeAnswer.objects.filter(rater__study=study).values_list("rater_id", "right"):
        practice[rater][is_right] += 1
    summaries = []
    for row in raters.order_by("number", "pk"):
        who, counts = "simulated" if row.simulated else "imported" if row.imported_as else "person", practice[row.pk]
        summaries.append(RaterSummary(row.label, who, row.waiting_items, counts[True], counts.total()))
    return summaries


@builds("raters", "drift", "contested", "matrix")
def build_rater_tables(
    data: AnalysisData, raters: list[RaterSummary], filtered: bool, min_overlap: int
) -> dict[str, Json]:
    """Return the tables raters, drift, contested and matrix; `filtered` omits raters without a rating in `data`."""
    with_ratings = set(data.raters)
    listed = [rater for rater in raters if rater.label in with_ratings or not filtered]
    drift = build_table("drift", rows := _build_drift_rows(data))
    if rows and all(row[3] is None for row in rows):  # no reference is known
        drift["title"] = "Pace by position"
    return {
        "raters": build_table("raters", _iter_rater_rows(data, listed, min_overlap)),
        "drift": drift,
        "contested": _build_contested_table(data),
        "matrix": _build_matrix_table(data),
    }


def _iter_rater_rows(data: AnalysisData, raters: list[RaterSummary], min_overlap: int) -> Iterator[Cells]:
    kappas = _compute_mean_kappas(data, min_overlap)
    judged_twice = Counter(repeat.rater for repeat in data.repeats)
    judged_alike = Counter(repeat.rater for repeat in data.repeats if repeat.first == repeat.second)
    index_of = {label: i for i, label in enumerate(data.raters)}
    answers_of = {rater.label: _collect_answers(data, index_of.get(rater.label, -1)) for rater in raters}
    medians = [answers.seconds for answers in answers_of.values() if answers.seconds is not None]
    usual_seconds = float(np.median(medians)) if medians else None
    for rater in raters:
        label, answers = rater.label, answers_of[rater.label]
        kappa, shared, flag = kappas.get(label, (None, 0, ""))
        yield [
            label, rater.who, answers.n, rater.items_left, answers.yes, answers.correct, kappa, shared, answers.seconds,
            rater.practice_right, rater.practice_of, *answers.halves, judged_alike[label], judged_twice[label],
            "; ".join(filter(None, [*_list_flags(answers, usual_seconds), flag])),
        ]  # fmt: skip


class _RaterAnswers(NamedTuple):
    """One rater's answers that count. `halves`: share correct in each half, in the rater's order. None: no answer."""

    n: int
    verdicts: Ints
    confidences: Ints
    yes: float | None
    correct: float | None
    halves: tuple[float | None, float | None]
    seconds: float | None


def _collect_answers(data: AnalysisData, rater: int) -> _RaterAnswers:
    columns, reference = data.columns, data.reference_by_rating
    by_rater = columns.counts & (columns.rater == rater)
    is_judged = by_rater & (columns.verdict >= 0)
    with_reference = np.flatnonzero(is_judged & (reference >= 0))
    # Answers are in the order in which the rater worked, because a fall in the second half is a sign of fatigue.
    with_reference = with_reference[np.argsort(columns.position[with_reference], kind="stable")]
    is_correct = columns.verdict[with_reference] == reference[with_reference]
    half = (len(is_correct) + 1) // 2
    return _RaterAnswers(
        n=int(by_rater.sum()),
        verdicts=columns.verdict[is_judged],
        confidences=columns.confidence[is_judged],
        yes=_compute_share(columns.verdict[is_judged] == 1),
        correct=_compute_share(is_correct),
        halves=(_compute_share(is_correct[:half]), _compute_share(is_correct[half:])),
        seconds=_compute_median_seconds(data, by_rater),
    )


def _compute_share(mask: Bools) -> float | None:
    return float(mask.mean()) if len(mask) else None


def _compute_median_seconds(data: AnalysisData, selected: Bools) -> float | None:
    seconds = data.columns.seconds[selected]
    measured = seconds[~np.isnan(seconds)]
    return float(np.median(measured)) if len(measured) else None


def _list_flags(answers: _RaterAnswers, usual_seconds: float | None) -> list[str]:
    """Return the unusual features of a rater's answers that an analyst may want to check."""
    if len(answers.verdicts) < FEW:
        return []
    first, second = answers.halves
    fall = first - second if first is not None and second is not None else 0
    is_fast = answers.seconds is not None and usual_seconds and answers.seconds < usual_seconds / 2
    flags = {
        "same verdict throughout": len(np.unique(answers.verdicts)) == 1,
        "same confidence throughout": len(np.unique(answers.confidences)) == 1,
        "less than half the usual time": is_fast,
        f"{100 * fall:.0f} points fewer correct in the second half": fall > FELL,
    }
    return [flag for flag, is_raised in flags.items() if is_raised]


def _compute_mean_kappas(data: AnalysisData, min_overlap: int) -> dict[str, tuple[float | None, int, str]]:
    """Return each rater's mean kappa, None if undefined, the largest number of items shared with one other rater, and a
    note if this number is small.

    The mean is over the raters who share at least `min_overlap` items, or, if there are none, over all who share an item.
    """
    pairs = rater_pairs.tabulate_pairs(data.table)
    kappa_of = {}
    for rater in np.unique(np.concatenate([pairs.first, pairs.second])):
        pairs_of_rater = (pairs.first == rater) | (pairs.second == rater)
        shared, kappas = pairs.shared_items[pairs_of_rater], pairs.cohen_kappa[pairs_of_rater]
        kappas = kappas[pairwise.choose_pairs(shared, min_overlap) & ~np.isnan(kappas)]
        flag = f"kappa from {FEW_ITEMS}" if len(kappas) and pairwise.explain_few_items(shared, min_overlap) else ""
        value = float(kappas.mean()) if len(kappas) else None
        kappa_of[data.table.raters[rater]] = (value, int(shared.max()), flag)
    return kappa_of


def _build_drift_rows(data: AnalysisData) -> list[Cells]:
    """Return a row for each tenth of the longest order, all raters pooled."""
    columns, reference = data.columns, data.reference_by_rating
    # Ratings collected elsewhere are left out, because their order is not known.
    ordered_here = columns.is_judged & ~columns.imported
    if not ordered_here.any():
        return []
    # The width is rounded up, so that there are at most PARTS parts; the last may be shorter.
    width = -(-int(columns.position[ordered_here].max()) // PARTS)
    part = (columns.position - 1) // width
    correct_shares = _correct_shares(data, (part - part.min())[columns.is_judged], ordered_here[columns.is_judged])
    rows: list[Cells] = []
    for number in np.unique(part[ordered_here]):
        in_part = ordered_here & (part == number)
        share = correct_shares.get(str(number - part.min()), _NO_SHARE)
        n = int((in_part & (reference >= 0)).sum()) if share[0] is not None else int(in_part.sum())
        ends = int(number * width + 1), int((number + 1) * width)
        rows.append([*ends, n, *share, _compute_median_seconds(data, in_part)])
    return rows


def _correct_shares(
    data: AnalysisData, part: Ints, selected: Bools
) -> dict[str, tuple[float | None, float | None, float | None]]:
    """Return the share of correct verdicts in each part, with its interval; none if no reference is known."""
    with_reference = selected & (data.table.reference >= 0)
    # The ratings of the table are the judged ratings in the order of the columns, like the entries of `part`.
    ratings = data.table.select_ratings(with_reference)
    if not len(ratings):
        return {}
    names = tuple(str(i) for i in range(int(part.max()) + 1))
    is_correct, factors = ratings.is_correct.astype(np.int64), {"part": (part[with_reference], names)}
    rows = proportions.estimate_rates(replace(ratings, verdict=is_correct, factors=factors), by="part")
    return {row.args["part"]: (row.value, row.low, row.high) for row in rows if "interval" not in row.args}


def _build_contested_table(data: AnalysisData) -> Json:
    """Return the table of items with their verdicts: disputed items first, then by disagreement, then by code."""
    rows = []
    for fact, yes, n_judged in zip(data.items, *(counts.tolist() for counts in _count_verdicts(data)), strict=True):
        if n_judged:
            spread, disputed = 1 - abs(2 * yes - n_judged) / n_judged, is_disputed(fact.reference, yes, n_judged)
            rows.append([
                fact.code, fact.source, fact.experiment, fact.action, reference_to_label(fact.reference), fact.truth, yes,
                n_judged, spread, disputed,
            ])  # fmt: skip
    rows.sort(key=lambda row: (not row[9], -row[8], row[0]))
    n_disputed = sum(bool(row[9]) for row in rows)
    notes = [f"The first {CONTESTED:,} of {len(rows):,} items."] if len(rows) > CONTESTED else []
    summary = f"Most raters contradict the reference of {n_disputed:,} of {len(rows):,} items."
    return build_table("contested", rows[:CONTESTED], summary if n_disputed else "", notes)


def count_contested(data: AnalysisData) -> int:
    """Count the items on which raters disagree, whatever their reference."""
    yes, n_judged = _count_verdicts(data)
    return int(np.sum((yes > 0) & (yes < n_judged)))


def _count_verdicts(data: AnalysisData) -> tuple[Ints, Ints]:
    """Return for each item the number of ratings with the verdict yes, and the number of ratings with a verdict."""
    is_judged = data.columns.is_judged
    yes = np.bincount(data.columns.item[is_judged & (data.columns.verdict == 1)], minlength=len(data.items))
    return yes, np.bincount(data.columns.item[is_judged], minlength=len(data.items))


def _build_matrix_table(data: AnalysisData) -> Json:
    """Return the table of each rater's verdict on each item, with a row for each judged rating."""
    columns = data.columns
    items, raters = np.unique(columns.item[columns.is_judged]), np.unique(columns.rater[columns.is_judged])
    n_items, n_raters = len(items), len(raters)
    # Evenly spaced items: they are sorted by their random codes, so the choice favours no kind of item.
    shown_items = {int(items[max(i, i * n_items // MATRIX_ITEMS)]) for i in range(min(n_items, MATRIX_ITEMS))}
    shown_raters = {int(rater) for rater in raters[:MATRIX_RATERS]}
    rows = []
    for n in np.flatnonzero(columns.is_judged):
        item, rater = int(columns.item[n]), int(columns.rater[n])
        if item in shown_items and rater in shown_raters:
            fact, verdict = data.items[item], int(columns.verdict[n])
            label = reference_to_label(fact.reference)
            correct = None if label is None else verdict == label
            confidence = int(columns.confidence[n]) or None
            rows.append([data.raters[rater], fact.code, fact.source, verdict, confidence, correct])
    notes = []
    if n_items > MATRIX_ITEMS or n_raters > MATRIX_RATERS:
        notes.append(
            f"{min(n_items, MATRIX_ITEMS)} of {n_items:,} items and {min(n_raters, MATRIX_RATERS)} of {n_raters:,} raters are shown; "
            "the ratings file has all of them."
        )
    return build_table("matrix", rows, notes=notes)


@builds("roc", "localisation", "detection")
def build_detection_tables(data: AnalysisData, results: Sequence[Estimate]) -> dict[str, Json]:
    """Return the tables roc, localisation and detection. They are empty if no item is known to have an error."""
    curves, name = areas.build_roc_curves(data.table), data.table.reference_name
    points = [
        [curve.source, at.threshold, at.false_alarm_rate, at.hit_rate, curve.n_error, curve.n_genuine, name]
        for curve in curves
        for at in curve.points
    ]
    rows = list(_iter_detection_rows(data, results))
    located = [
        [
            row.args.get("rater", EVERYBODY), row.args.get("source", EVERY_ERROR), row.n["k"], row.n["ratings"], row.value, row.low,
            row.high, row.n["items"], row.n["raters"], row.n["untold"], row.reason, row.reference,
        ]
        for row in results
        if row.stat == LOCALISATION
    ]  # fmt: skip
    missing = [f"{curve.source}: {curve.reason}." for curve in curves if curve.reason]
    return {
        "roc": build_table("roc", points, notes=[*missing, *describe_reference(data, bool(points))]),
        "localisation": build_table("localisation", located, notes=describe_reference(data, bool(located))),
        "detection": build_table(
            "detection", rows, notes=[*describe_reference(data, bool(rows)), *_describe_u_statistics(results)]
        ),
    }


def describe_reference(data: AnalysisData, has_rows: bool) -> list[str]:
    """Return the sentence that names the reference labels against which a table was computed; [] if it is not needed."""
    if not has_rows and data.table.reference_name != UNKNOWN:
        return []
    return [f"Reference: {REFERENCES[data.table.reference_name]}."]


def _describe_u_statistics(results: Sequence[Estimate]) -> list[str]:
    """Return a sentence with the areas as U-statistics, to read beside the mean areas of the table; [] if there are none."""
    areas_by_source = []
    for row in results:
        if row.stat == U_AUC and row.value is not None:
            interval = "" if row.low is None else f" ({row.low:.2f} to {row.high:.2f})"
            areas_by_source.append(f"{row.args.get('source', EVERY_ERROR)} {row.value:.2f}{interval}")
    weighting = "AUC as a U-statistic, which weights raters by the pairs of items they rated"
    return [f"{weighting}: {'; '.join(areas_by_source)}."] if areas_by_source else []


def _iter_detection_rows(data: AnalysisData, results: Sequence[Estimate]) -> Iterator[Cells]:
    """Yield rows for all raters together and then for each rater; each has a row for all errors, then one per error source."""
    sources = data.table.error_sources
    if not sources:
        return
    estimates: EstimatesByCell = {
        (row.stat, row.args.get("rater", ""), row.args.get("source", "")): row
        for row in results
        if row.stat in _STATS and not {"mean_over", "target"} & set(row.args)
    }
    rater_means: EstimatesByCell = {
        (row.stat, "", row.args.get("source", "")): row
        for row in results
        if row.stat in _OF_RATERS and "mean_over" in row.args
    }
    for rater in ("", *(data.table.raters[at] for at in np.unique(data.table.rater))):
        for source in ("", *sources):
            # A combination of rater and source without a result for d' has no row.
            if ("dprime", rater, source) in estimates:
                yield _build_detection_row(data, estimates, rater_means, rater, source)


def _build_detection_row(
    data: AnalysisData, estimates: EstimatesByCell, rater_means: EstimatesByCell, rater: str, source: str
) -> Cells:
    """Return the row of one rater, or of all raters together if `rater` is ""."""
    # In the row of all raters, d', c and the area are means over raters that generalise to new raters; the counts are
    # pooled.
    pooled, cells = estimates["dprime", rater, source], estimates if rater else {**estimates, **rater_means}
    d_prime, criterion = cells["dprime", rater, source], cells["criterion_c", rater, source]
    sensitivity, specificity = estimates["sensitivity", rater, source], estimates["specificity", rater, ""]
    if rater:
        area = areas.estimate_signed(data.table.select_rater(rater), source or None)
    else:
        area = estimates["mrmc_mean_auc", "", source]
    reasons = [(sensitivity, "sensitivity"), (d_prime, "d'"), (area, "AUC")]
    return [
        rater or EVERYBODY, source or EVERY_ERROR, *map(pooled.n.get, ("hits", "misses", "false_alarms", "correct_rejections")),
        sensitivity.value, sensitivity.low, sensitivity.high, specificity.value,
        d_prime.value, d_prime.low, d_prime.high, criterion.value, area.value, area.low, area.high, *_count_located(data, rater, source),
        "; ".join(f"{name}: {row.reason}" for row, name in reasons if row.reason), data.table.reference_name,
    ]  # fmt: skip


def compute_localisation(data: AnalysisData) -> list[Estimate]:
    """Return the shares of reported errors in which the planted row was marked.

    They are computed over all, by source, by rater, and by rater and source. The list is empty if no judged rating could
    have marks, or none is of an item with an error.
    """
    columns = data.columns
    asks_for_marks = np.array([arm.marks not in ("", "off") for arm in data.arms], dtype=np.bool_)[columns.arm]
    with_error = columns.is_judged & (data.reference_by_rating == 0)
    # Without marks or errors nothing can be localised, and a table of empty rows would suggest missing data.
    if not (asks_for_marks & columns.is_judged).any() or not with_error.any():
        return []
    reported = []
    for n in np.flatnonzero(with_error & (columns.verdict == 0)):
        localised = None if columns.localised[n] < 0 else bool(columns.localised[n])
        code, rater = data.items[columns.item[n]].code, data.raters[columns.rater[n]]
        reported.append(CalledError(code, rater, str(data.source_by_rating[n]), localised))
    return [row._replace(reference=data.table.reference_name) for row in estimate_localisation(reported)]


def _count_located(data: AnalysisData, rater: str, source: str) -> list[int]:
    """Return two numbers of reported errors: those whose planted row was marked, and those where this is known."""
    columns = data.columns
    selected: Bools = columns.is_judged & (columns.localised >= 0) & (columns.verdict == 0)
    selected = selected & (data.reference_by_rating == 0)
    if rater:
        selected = selected & (columns.rater == data.raters.index(rater))
    if source:
        selected = selected & (data.source_by_rating == source)
    return [int((columns.localised[selected] == 1).sum()), int(selected.sum())]
