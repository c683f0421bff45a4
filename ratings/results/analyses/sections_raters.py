"""The tables of raters and items: pace, practice, drift, contested items, and the verdict of each rater on each
item.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from django.db.models import Count, Q

from ratings.models import PracticeAnswer, Study
from ratings.protocol.reference import reference_to_label
from ratings.results.analyses.rating_columns import AnalysisData, ItemFacts
from ratings.results.analyses.tables import TABLE_SPECS, Cells, Json, build_custom_table, build_table
from ratings.results.item_summaries import is_disputed
from ratings.stats import proportions, rater_pairs
from ratings.stats.agreement import pairwise
from ratings.stats.estimates import FEW_ITEMS
from ratings.stats.ratings_table import Bools, Floats, Ints

PARTS = 10  # number of parts into which the table of drift divides the raters' orders of items
MATRIX_ITEMS, MATRIX_RATERS, CONTESTED = 200, 60, 500  # most entries of a table; the ratings file has all
FEW = 10  # a rater with fewer answers gets no flags
FELL = 0.15  # a larger fall of the share correct from the first to the second half is flagged


class RaterSummary(NamedTuple):
    """A rater of the study. `who`: person, simulated or imported."""

    label: str
    who: str
    items_left: int
    practice_right: int
    practice_of: int


def list_raters(study: Study) -> list[RaterSummary]:
    """Return all raters who were not removed, in two queries."""
    unrated = Q(assignments__rating__isnull=True, assignments__released_at__isnull=True)
    rows = (
        study.raters.filter(dropped=False).annotate(left=Count("assignments", filter=unrated)).order_by("number", "pk")
    )
    # Practice answers need a query of their own: in a join with assignments, each count would be multiplied by the other.
    practice_answers: dict[int, Counter[bool]] = defaultdict(Counter)
    for rater, is_right in PracticeAnswer.objects.filter(rater__study=study).values_list("rater_id", "right"):
        practice_answers[rater][is_right] += 1
    return [
        RaterSummary(
            row.label,
            "simulated" if row.simulated else "imported" if row.imported_as else "person",
            row.left,
            practice_answers[row.pk][True],
            practice_answers[row.pk].total(),
        )
        for row in rows
    ]


def build_rater_tables(
    data: AnalysisData, raters: list[RaterSummary], filtered: bool, min_overlap: int
) -> dict[str, Json]:
    """Return the tables raters, drift, contested and matrix.

    With `filtered`, raters without a rating in `data` are left out.
    """
    with_ratings = set(data.raters)
    listed = [rater for rater in raters if rater.label in with_ratings or not filtered]
    return {
        "raters": build_table("raters", _iter_rater_rows(data, listed, min_overlap)),
        "drift": _build_drift_table(data),
        "contested": _build_contested_table(data),
        "matrix": _build_matrix_table(data),
    }


def _iter_rater_rows(data: AnalysisData, every: list[RaterSummary], min_overlap: int) -> Iterator[Cells]:
    kappas, repeats = _compute_mean_kappas(data, min_overlap), _count_repeats(data)
    index_of = {label: i for i, label in enumerate(data.raters)}
    answers_of = {rater.label: _collect_answers(data, index_of.get(rater.label, -1)) for rater in every}
    medians = [answers.seconds for answers in answers_of.values() if answers.seconds is not None]
    usual_seconds = float(np.median(medians)) if medians else None
    for rater in every:
        answers, kappa = answers_of[rater.label], kappas.get(rater.label, _MeanKappa(None, 0, ""))
        yield [
            rater.label, rater.who, answers.n, rater.items_left, answers.yes, answers.correct, kappa.value, kappa.shared, answers.seconds,
            rater.practice_right, rater.practice_of, *answers.halves, *repeats.get(rater.label, (0, 0)),
            "; ".join(filter(None, [_describe_flags(answers, usual_seconds), kappa.flag])),
        ]  # fmt: skip


class _RaterAnswers(NamedTuple):
    """A summary of one rater's answers that count. A share is None if no answer enters it.

    `halves`: share correct in the first and in the second half of the answers, in the rater's order.
    """

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
    with_reference = with_reference[np.argsort(columns.position[with_reference], kind="stable")]
    is_correct = columns.verdict[with_reference] == reference[with_reference]
    # Answers are in the order in which the rater worked, because a fall in the second half is a sign of fatigue.
    half = (len(is_correct) + 1) // 2
    return _RaterAnswers(
        n=int(by_rater.sum()),
        verdicts=columns.verdict[is_judged],
        confidences=columns.confidence[is_judged],
        yes=_compute_share(columns.verdict[is_judged] == 1),
        correct=_compute_share(is_correct),
        halves=(_compute_share(is_correct[:half]), _compute_share(is_correct[half:])),
        seconds=_compute_median(columns.seconds[by_rater]),
    )


def _compute_share(mask: Bools) -> float | None:
    return float(mask.mean()) if len(mask) else None


def _compute_median(seconds: Floats) -> float | None:
    measured = seconds[~np.isnan(seconds)]
    return float(np.median(measured)) if len(measured) else None


def _describe_flags(answers: _RaterAnswers, usual_seconds: float | None) -> str:
    """Return the unusual features of a rater's answers that an analyst may want to check; "" if there are none."""
    if len(answers.verdicts) < FEW:
        return ""
    flags = []
    if len(set(answers.verdicts.tolist())) == 1:
        flags.append("same verdict throughout")
    if len(set(answers.confidences.tolist())) == 1:
        flags.append("same confidence throughout")
    if answers.seconds is not None and usual_seconds and answers.seconds < usual_seconds / 2:
        flags.append("less than half the usual time")
    first, second = answers.halves
    if first is not None and second is not None and first - second > FELL:
        flags.append(f"{100 * (first - second):.0f} points fewer correct in the second half")
    return "; ".join(flags)


class _MeanKappa(NamedTuple):
    """The mean kappa of a rater with other raters (`value`), None if undefined.

    `shared`: largest number of items shared with one other rater. `flag`: a note if this number is small, or "".
    """

    value: float | None
    shared: int
    flag: str


def _compute_mean_kappas(data: AnalysisData, min_overlap: int) -> dict[str, _MeanKappa]:
    """Return each rater's mean kappa with the raters who share at least `min_overlap` items with this rater.

    If there is no such rater, all raters who share an item are used.
    """
    pairs = rater_pairs.tabulate_pairs(data.table)
    kappa_of = {}
    for rater in np.unique(np.concatenate([pairs.first, pairs.second])):
        pairs_of_rater = (pairs.first == rater) | (pairs.second == rater)
        shared, kappas = pairs.shared_items[pairs_of_rater], pairs.cohen_kappa[pairs_of_rater]
        kappas = kappas[pairwise.choose_pairs(shared, min_overlap) & ~np.isnan(kappas)]
        flag = f"kappa from {FEW_ITEMS}" if len(kappas) and pairwise.explain_few_items(shared, min_overlap) else ""
        value = float(kappas.mean()) if len(kappas) else None
        kappa_of[data.table.raters[rater]] = _MeanKappa(value, int(shared.max()), flag)
    return kappa_of


def _count_repeats(data: AnalysisData) -> dict[str, tuple[int, int]]:
    judged_twice = Counter(repeat.rater for repeat in data.repeats)
    judged_alike = Counter(repeat.rater for repeat in data.repeats if repeat.first == repeat.second)
    return {rater: (judged_alike[rater], n) for rater, n in judged_twice.items()}


def _build_drift_table(data: AnalysisData) -> Json:
    """Return the table of the share correct and the pace by position; it has only the pace if no reference is known."""
    rows = _build_drift_rows(data)
    has_reference = not rows or any(row[3] is not None for row in rows)
    return build_custom_table(
        TABLE_SPECS["drift"] if has_reference else TABLE_SPECS["drift"]._replace(title="Pace by position"), rows
    )


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
        rows.append(
            [int(number * width + 1), int((number + 1) * width), n, *share, _compute_median(columns.seconds[in_part])]
        )
    return rows


_NO_SHARE: tuple[None, None, None] = (None, None, None)


def _correct_shares(
    data: AnalysisData, part: Ints, selected: Bools
) -> dict[str, tuple[float | None, float | None, float | None]]:
    """Return the share of correct verdicts in each part, with its interval; an empty dictionary if no reference is
    known.
    """
    with_reference = selected & (data.table.reference >= 0)
    # The ratings of the table are the judged ratings in the order of the columns, like the entries of `part`.
    ratings = data.table.select_ratings(with_reference)
    if not len(ratings):
        return {}
    names = tuple(str(i) for i in range(int(part.max()) + 1))
    as_correct = replace(
        ratings, verdict=ratings.is_correct.astype(np.int64), factors={"part": (part[with_reference], names)}
    )
    rows = [row for row in proportions.estimate_rates(as_correct, by="part") if "interval" not in row.args]
    return {row.args["part"]: (row.value, row.low, row.high) for row in rows}


def _build_contested_table(data: AnalysisData) -> Json:
    """Return the table of items with their verdicts: disputed items first, then by disagreement, then by code."""
    yes, n_judged = _count_verdicts(data)
    rows = [
        _build_contested_row(fact, int(yes[i]), int(n_judged[i])) for i, fact in enumerate(data.items) if n_judged[i]
    ]
    rows.sort(key=lambda row: (not row[9], -row[8], row[0]))
    disputed = sum(bool(row[9]) for row in rows)
    notes = [f"The first {CONTESTED:,} of {len(rows):,} items."] if len(rows) > CONTESTED else []
    summary = f"Most raters contradict the reference of {disputed:,} of {len(rows):,} items."
    return build_table("contested", rows[:CONTESTED], summary if disputed else "", notes)


def count_contested(data: AnalysisData) -> int:
    """Count the items on which raters disagree, whatever their reference."""
    yes, n_judged = _count_verdicts(data)
    return int(np.sum((yes > 0) & (yes < n_judged)))


def _count_verdicts(data: AnalysisData) -> tuple[Ints, Ints]:
    """Return for each item the number of ratings with the verdict yes, and the number of ratings with a verdict."""
    is_judged = data.columns.is_judged
    yes = np.bincount(data.columns.item[is_judged & (data.columns.verdict == 1)], minlength=len(data.items))
    return yes, np.bincount(data.columns.item[is_judged], minlength=len(data.items))


def _build_contested_row(fact: ItemFacts, yes: int, n_judged: int) -> list[Any]:
    disputed = is_disputed(fact.reference, yes, n_judged)
    spread = 1 - abs(2 * yes - n_judged) / n_judged
    return [
        fact.code,
        fact.source,
        fact.experiment,
        fact.action,
        reference_to_label(fact.reference),
        fact.truth,
        yes,
        n_judged,
        spread,
        disputed,
    ]


def _build_matrix_table(data: AnalysisData) -> Json:
    """Return the table of each rater's verdict on each item, with a row for each judged rating."""
    columns = data.columns
    items, raters = np.unique(columns.item[columns.is_judged]), np.unique(columns.rater[columns.is_judged])
    shown_items = {int(items[i]) for i in _choose_evenly(len(items), MATRIX_ITEMS)}
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
    return build_table("matrix", rows, notes=_note_omitted(len(items), len(raters)))


def _choose_evenly(n: int, limit: int) -> list[int]:
    """Return the indices of at most `limit` of n items, evenly spaced."""
    # Items are sorted by their random codes, so the choice favours no kind of item.
    return list(range(n)) if n <= limit else [i * n // limit for i in range(limit)]


def _note_omitted(items: int, raters: int) -> tuple[str, ...]:
    if items <= MATRIX_ITEMS and raters <= MATRIX_RATERS:
        return ()
    return (
        f"{min(items, MATRIX_ITEMS)} of {items:,} items and {min(raters, MATRIX_RATERS)} of {raters:,} raters are shown; "
        "the ratings file has all of them.",
    )
