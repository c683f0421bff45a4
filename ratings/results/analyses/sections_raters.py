"""Raters and items: pace, practice, drift, what is disputed, and who said what of which item."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from django.db.models import Count, Q

from ratings.models import PracticeAnswer, Study
from ratings.protocol.reference import read_label
from ratings.results.analyses.reading import ItemFacts, Reading
from ratings.results.analyses.tables import FORMS, Cells, Json, made, table
from ratings.results.item_lines import is_disputed
from ratings.stats import pairing, proportions
from ratings.stats.agreement import agreement
from ratings.stats.estimates import FEW_ITEMS
from ratings.stats.table import Bools, Floats, Ints

PARTS = 10  # of the raters' orders in the table of drift
MATRIX_ITEMS, MATRIX_RATERS, CONTESTED = 200, 60, 500
FEW = 10  # answers below which nothing unusual is told of a rater
FELL = 0.15  # by so much the share correct must fall from the first half to the second to be told


class Seat(NamedTuple):
    """A rater as the study has them. `who`: person, simulated or imported."""

    label: str
    who: str
    items_left: int
    practice_right: int
    practice_of: int


def seats(study: Study) -> list[Seat]:
    """Everybody whose ratings were not dropped, in two queries."""
    waiting = Q(assignments__rating__isnull=True, assignments__released_at__isnull=True)
    rows = (
        study.raters.filter(dropped=False).annotate(left=Count("assignments", filter=waiting)).order_by("number", "pk")
    )
    practised: dict[int, Counter[bool]] = defaultdict(Counter)
    for rater, right in PracticeAnswer.objects.filter(rater__study=study).values_list("rater_id", "right"):
        practised[rater][right] += 1
    return [
        Seat(
            row.label,
            "simulated" if row.simulated else "imported" if row.imported_as else "person",
            row.left,
            practised[row.pk][True],
            practised[row.pk].total(),
        )
        for row in rows
    ]


def tables(read: Reading, every: list[Seat], filtered: bool, min_overlap: int) -> dict[str, Json]:
    """raters, drift, contested, matrix. `filtered`: raters without a rating among these are left out."""
    rated = set(read.raters)
    shown = [seat for seat in every if seat.label in rated or not filtered]
    return {
        "raters": table("raters", _raters(read, shown, min_overlap)),
        "drift": _drift(read),
        "contested": _contested(read),
        "matrix": _matrix(read),
    }


def _raters(read: Reading, every: list[Seat], min_overlap: int) -> Iterator[Cells]:
    kappas, same = _kappas(read, min_overlap), _same_again(read)
    place = {label: at for at, label in enumerate(read.raters)}
    own = {seat.label: _own(read, place.get(seat.label, -1)) for seat in every}
    medians = [one.seconds for one in own.values() if one.seconds is not None]
    usual = float(np.median(medians)) if medians else None
    for seat in every:
        one, kappa = own[seat.label], kappas.get(seat.label, _Kappa(None, 0, ""))
        yield [
            seat.label, seat.who, one.n, seat.items_left, one.yes, one.correct, kappa.value, kappa.shared, one.seconds,
            seat.practice_right, seat.practice_of, *one.halves, *same.get(seat.label, (0, 0)),
            "; ".join(filter(None, [_flags(one, usual), kappa.flag])),
        ]  # fmt: skip


class _Own(NamedTuple):
    """One rater's answers that count. Shares are None where there is nothing to take a share of."""

    n: int
    verdicts: Ints
    confidences: Ints
    yes: float | None
    correct: float | None
    halves: tuple[float | None, float | None]
    seconds: float | None


def _own(read: Reading, at: int) -> _Own:
    columns, reference = read.columns, read.reference
    mine = columns.counts & (columns.rater == at)
    judged = mine & (columns.verdict >= 0)
    known = np.flatnonzero(judged & (reference >= 0))
    known = known[np.argsort(columns.position[known], kind="stable")]
    right = columns.verdict[known] == reference[known]
    half = (len(right) + 1) // 2
    return _Own(
        n=int(mine.sum()),
        verdicts=columns.verdict[judged],
        confidences=columns.confidence[judged],
        yes=_share(columns.verdict[judged] == 1),
        correct=_share(right),
        halves=(_share(right[:half]), _share(right[half:])),
        seconds=_median(columns.seconds[mine]),
    )


def _share(of: Bools) -> float | None:
    return float(of.mean()) if len(of) else None


def _median(seconds: Floats) -> float | None:
    known = seconds[~np.isnan(seconds)]
    return float(np.median(known)) if len(known) else None


def _flags(one: _Own, usual: float | None) -> str:
    """What a reader may want to look at, in words; "" for a rater like the others."""
    if len(one.verdicts) < FEW:
        return ""
    found = []
    if len(set(one.verdicts.tolist())) == 1:
        found.append("one verdict throughout")
    if len(set(one.confidences.tolist())) == 1:
        found.append("one confidence throughout")
    if one.seconds is not None and usual and one.seconds < usual / 2:
        found.append("less than half the usual time")
    first, second = one.halves
    if first is not None and second is not None and first - second > FELL:
        found.append(f"{100 * (first - second):.0f} points fewer correct in the second half")
    return "; ".join(found)


class _Kappa(NamedTuple):
    """Mean kappa of a rater with others, None where undefined. shared: the most items shared with one of them; flag: that
    these are few, in words."""

    value: float | None
    shared: int
    flag: str


def _kappas(read: Reading, min_overlap: int) -> dict[str, _Kappa]:
    """Return each rater's mean kappa with the others who share enough items, or, where none does, with all who share one."""
    pairs = pairing.pairs_of(read.table)
    found = {}
    for at in np.unique(np.concatenate([pairs.first, pairs.second])):
        own = (pairs.first == at) | (pairs.second == at)
        shared, kappas = pairs.n[own], pairs.kappa[own]
        kappas = kappas[agreement.choose_pairs(shared, min_overlap) & ~np.isnan(kappas)]
        flag = f"kappa from {FEW_ITEMS}" if len(kappas) and agreement.explain_few(shared, min_overlap) else ""
        value = float(kappas.mean()) if len(kappas) else None
        found[read.table.raters[at]] = _Kappa(value, int(shared.max()), flag)
    return found


def _same_again(read: Reading) -> dict[str, tuple[int, int]]:
    of = Counter(repeat.rater for repeat in read.repeats)
    same = Counter(repeat.rater for repeat in read.repeats if repeat.first == repeat.second)
    return {rater: (same[rater], n) for rater, n in of.items()}


def _drift(read: Reading) -> Json:
    """Correct answers, or where no reference is known the pace alone."""
    rows = _parts(read)
    known = not rows or any(row[3] is not None for row in rows)
    return made(FORMS["drift"] if known else FORMS["drift"]._replace(title="Pace from first to last item"), rows)


def _parts(read: Reading) -> list[Cells]:
    """Each tenth of the longest order, all raters together; how ratings from elsewhere were ordered is not known."""
    columns, reference = read.columns, read.reference
    mine = columns.judged & ~columns.imported
    if not mine.any():
        return []
    width = -(-int(columns.position[mine].max()) // PARTS)
    part = (columns.position - 1) // width
    found = _correct_shares(read, (part - part.min())[columns.judged], mine[columns.judged])
    rows: list[Cells] = []
    for at in np.unique(part[mine]):
        here = mine & (part == at)
        share = found.get(str(at - part.min()), _NO_SHARE)
        n = int((here & (reference >= 0)).sum()) if share[0] is not None else int(here.sum())
        rows.append([int(at * width + 1), int((at + 1) * width), n, *share, _median(columns.seconds[here])])
    return rows


_NO_SHARE: tuple[None, None, None] = (None, None, None)


def _correct_shares(
    read: Reading, part: Ints, mine: Bools
) -> dict[str, tuple[float | None, float | None, float | None]]:
    """Share of correct verdicts in each part with its interval; nothing where no reference is known.

    The table holds the judged ratings in the order of the columns, so that their parts fit it.
    """
    known = mine & (read.table.reference >= 0)
    own = read.table.where(known)
    if not len(own):
        return {}
    names = tuple(str(at) for at in range(int(part.max()) + 1))
    right = replace(own, verdict=own.correct.astype(np.int64), factors={"part": (part[known], names)})
    rows = [row for row in proportions.rates(right, by="part") if "interval" not in row.args]
    return {row.args["part"]: (row.value, row.low, row.high) for row in rows}


def _contested(read: Reading) -> Json:
    """Disputed ones first, then by how much raters disagree, then by code."""
    yes, of = _said(read)
    rows = [_line(fact, int(yes[at]), int(of[at])) for at, fact in enumerate(read.items) if of[at]]
    rows.sort(key=lambda row: (not row[9], -row[8], row[0]))
    disputed = sum(bool(row[9]) for row in rows)
    notes = [f"The first {CONTESTED:,} of {len(rows):,} items."] if len(rows) > CONTESTED else []
    said = f"Most raters contradict the reference of {disputed:,} of {len(rows):,} items."
    return table("contested", rows[:CONTESTED], said if disputed else "", notes)


def contested(read: Reading) -> int:
    """Return how many items raters disagree about, whatever their reference."""
    yes, of = _said(read)
    return int(np.sum((yes > 0) & (yes < of)))


def _said(read: Reading) -> tuple[Ints, Ints]:
    """Of each item: the ratings that say yes, and all with a verdict."""
    judged = read.columns.judged
    yes = np.bincount(read.columns.item[judged & (read.columns.verdict == 1)], minlength=len(read.items))
    return yes, np.bincount(read.columns.item[judged], minlength=len(read.items))


def _line(fact: ItemFacts, yes: int, judged: int) -> list[Any]:
    disputed = is_disputed(fact.reference, yes, judged)
    spread = 1 - abs(2 * yes - judged) / judged
    return [
        fact.code,
        fact.source,
        fact.experiment,
        fact.action,
        read_label(fact.reference),
        fact.truth,
        yes,
        judged,
        spread,
        disputed,
    ]


def _matrix(read: Reading) -> Json:
    """Who said what of which item: a row for each judged rating, raters and items in order."""
    columns = read.columns
    items, raters = np.unique(columns.item[columns.judged]), np.unique(columns.rater[columns.judged])
    shown_items = {int(items[at]) for at in _spread_out(len(items), MATRIX_ITEMS)}
    shown_raters = {int(rater) for rater in raters[:MATRIX_RATERS]}
    rows = []
    for at in np.flatnonzero(columns.judged):
        item, rater = int(columns.item[at]), int(columns.rater[at])
        if item in shown_items and rater in shown_raters:
            fact, verdict = read.items[item], int(columns.verdict[at])
            label = read_label(fact.reference)
            correct = None if label is None else verdict == label
            confidence = int(columns.confidence[at]) or None
            rows.append([read.raters[rater], fact.code, fact.source, verdict, confidence, correct])
    return table("matrix", rows, notes=_cut(len(items), len(raters)))


def _spread_out(n: int, most: int) -> list[int]:
    """At most so many of n items, evenly over the order of their codes, which says nothing of them."""
    return list(range(n)) if n <= most else [at * n // most for at in range(most)]


def _cut(items: int, raters: int) -> tuple[str, ...]:
    """What is told of these where they are too many."""
    if items <= MATRIX_ITEMS and raters <= MATRIX_RATERS:
        return ()
    return (
        f"{min(items, MATRIX_ITEMS)} of {items:,} items and {min(raters, MATRIX_RATERS)} of {raters:,} raters are shown; "
        "the ratings file has all.",
    )
