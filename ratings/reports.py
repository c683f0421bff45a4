"""The read side of a study: what its page shows, computed from the rows that its exports hold."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from django.db.models import Count, Q

from ratings.models import EVIDENCE, TRANSITION, Study
from ratings.rows import BlindRow, RatingRow, SealedError, blind_rows, rating_rows
from ratings.stats.agreement import Answer, Kappa, ModelAgreement, PairwiseKappa, cohen, pairwise, with_model
from ratings.stats.auc import Auc, auc_confidence_correct
from ratings.stats.proportions import Rate, rate

__all__ = ["BlindRow", "RatingRow", "SealedError", "blind_rows", "item_lines", "rating_rows", "study_report"]

Row = TypeVar("Row", bound=BlindRow)


class StudyProgress(NamedTuple):
    """Ratings given and wanted on the first occasion, items, and raters who have done all they have.

    `missing`: what items lack. An item with more ratings than it wants makes up for none that has too few.
    """

    done: int
    total: int
    items: int
    raters: int
    raters_done: int
    missing: int = 0


@dataclass(frozen=True)
class RaterLine:
    """How far one rater is, repeats included. `median_seconds` is None before the first rating."""

    label: str
    simulated: bool
    invited: bool
    started: bool
    done: int
    total: int
    median_seconds: float | None
    imported_as: str = ""
    withdrawn: bool = False
    dropped: bool = False


@dataclass(frozen=True)
class SourceLine:
    """What raters said of the items of one source. `localised`: planted errors whose row was ticked."""

    source: str
    perturbation: str
    rate: Rate
    kappa: PairwiseKappa
    n_items: int
    n_raters: int
    cannot_judge: int = 0
    localised: Rate | None = None


@dataclass(frozen=True)
class ClassifierLine:
    """A classifier against the raters, on the items it judged. `rate` is its share of "sufficient" among those items."""

    classifier: str
    rate: Rate
    agreement: ModelAgreement


@dataclass(frozen=True)
class StudyReport:
    """What the study's page shows. While `sealed`, nothing in it depends on where an item came from."""

    sealed: bool
    progress: StudyProgress
    raters: tuple[RaterLine, ...]
    simulated: str  # who of the raters is simulated, in a sentence; "" if nobody
    overall: PairwiseKappa
    pooled_rate: Rate
    cannot_judge: int = 0
    surplus: int = 0
    imported: str = ""  # how many ratings were collected elsewhere, in a sentence; "" if none
    retest: Kappa | None = None  # of the same raters on the same items, raters pooled; None without repeats
    sources: tuple[SourceLine, ...] = ()
    auc: Auc | None = None  # None while sealed, and in studies of evidence where no truth is known
    classifiers: tuple[ClassifierLine, ...] = ()
    disputed: int = 0


class ItemLine(NamedTuple):
    """One item after unblinding: where it came from, and what was said of it."""

    code: UUID
    source: str
    perturbation: str
    truth: bool | None
    experiment: str
    action: str
    yes: int
    judged: int
    cannot_judge: int
    disputed: bool


def study_report(study: Study) -> StudyReport:
    """The numbers of the study's page, in a constant number of queries. By source only once it is unblinded."""
    if not study.is_unblinded:
        return _sealed(study, list(blind_rows(study)))
    rows = list(rating_rows(study))
    truths = [(row.confidence, row.correct) for row in _judged(rows) if row.confidence and row.correct is not None]
    return replace(
        _sealed(study, rows),
        sealed=False,
        sources=_by_source(rows),
        auc=auc_confidence_correct(truths) if study.kind == TRANSITION or truths else None,
        classifiers=_by_classifier(rows) if study.kind == EVIDENCE else (),
        disputed=sum(line.disputed for line in lines_of(rows)),
    )


def item_lines(study: Study) -> list[ItemLine]:
    """Every rated item of an unblinded study, those that raters dispute first. One query."""
    return sorted(lines_of(rating_rows(study)), key=lambda line: (not line.disputed, str(line.code)))


def lines_of(rows: Iterable[RatingRow]) -> list[ItemLine]:
    """A line for each item that these rows count for."""
    by_item: dict[UUID, list[RatingRow]] = defaultdict(list)
    for row in rows:
        if row.counts:
            by_item[row.item].append(row)
    return [_item(own) for own in by_item.values()]


def _item(own: Sequence[RatingRow]) -> ItemLine:
    first, judged = own[0], _judged(own)
    yes = sum(row.verdict is True for row in judged)
    return ItemLine(
        first.item, first.source, first.perturbation, first.truth, first.experiment, first.action,
        yes, len(judged), len(own) - len(judged), _is_disputed(first.truth, yes, len(judged)),
    )  # fmt: skip


def _is_disputed(truth: bool | None, yes: int, judged: int) -> bool:
    """Most of two or more raters say otherwise than the truth the item came with. A flag: no number is changed by it."""
    against = judged - yes if truth else yes
    return truth is not None and judged >= 2 and 2 * against > judged


def _judged(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.judged]


def _sealed(study: Study, rows: Sequence[BlindRow]) -> StudyReport:
    raters, items = _raters(study, rows), study.items.count()
    counting, judged = [row for row in rows if row.counts], _judged(rows)
    missing = _missing(items, study.ratings_per_item, counting)
    return StudyReport(
        sealed=True,
        progress=StudyProgress(
            done=len(counting),
            total=len(counting) + missing,
            items=items,
            raters=len(raters),
            raters_done=sum(line.done == line.total for line in raters),
            missing=missing,
        ),
        raters=raters,
        simulated=_who_is_simulated(raters),
        overall=pairwise(_answers(judged)),
        pooled_rate=rate(_verdicts(judged)),
        cannot_judge=len(counting) - len(judged),
        surplus=sum(row.surplus for row in rows),
        imported=_what_is_imported(counting),
        retest=_retest(rows),
    )


def _missing(items: int, each: int, counting: Sequence[BlindRow]) -> int:
    given = Counter(row.item for row in counting)
    return items * each - sum(min(n, each) for n in given.values())


def _raters(study: Study, rows: Iterable[BlindRow]) -> tuple[RaterLine, ...]:
    seconds: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.timed is not None:
            seconds[row.rater].append(row.timed)
    given = Q(assignments__rating__isnull=False)
    seats = study.raters.annotate(
        done=Count("assignments", filter=given),
        total=Count("assignments", filter=given | Q(assignments__released_at__isnull=True)),
    )
    return tuple(_rater(seat, seconds[seat.label]) for seat in seats.order_by("number", "pk"))


def _rater(seat: Any, seconds: Sequence[float]) -> RaterLine:
    return RaterLine(
        label=seat.label,
        simulated=seat.simulated,
        invited=seat.invited_at is not None,
        started=seat.started_at is not None,
        done=seat.done,
        total=seat.total,
        median_seconds=statistics.median(seconds) if seconds else None,
        imported_as=seat.imported_as,
        withdrawn=seat.withdrawn_at is not None,
        dropped=seat.dropped,
    )


def _who_is_simulated(raters: Sequence[RaterLine]) -> str:
    simulated = [line for line in raters if line.simulated]
    if not simulated:
        return ""
    if len(simulated) == len(raters):
        return f"All {len(raters)} raters are simulated."
    given = sum(line.done for line in simulated)
    every = sum(line.done for line in raters)
    return f"{len(simulated)} of {len(raters)} raters are simulated; they gave {given} of {every} ratings."


def _what_is_imported(counting: Sequence[BlindRow]) -> str:
    count = sum(row.imported for row in counting)
    return f"{count} of {len(counting)} ratings were collected elsewhere and imported." if count else ""


def _retest(rows: Iterable[BlindRow]) -> Kappa | None:
    """Kappa of each rater's first and second answer to one item, raters pooled. The only reader of occasion 2."""
    answers: dict[tuple[UUID, str], dict[int, bool]] = defaultdict(dict)
    repeats = 0
    for row in rows:
        repeats += row.occasion == 2
        if row.verdict is not None and row.released_at is None:
            answers[row.item, row.rater][row.occasion] = row.verdict
    both = [(given[1], given[2]) for given in answers.values() if len(given) == 2]
    return cohen(both) if repeats else None


def _verdicts(rows: Iterable[BlindRow]) -> list[bool]:
    return [row.verdict for row in rows if row.verdict is not None]


def _answers(judged: Iterable[BlindRow]) -> list[Answer]:
    return [Answer(str(row.item), row.rater, row.verdict) for row in judged if row.verdict is not None]


def _by_source(rows: Iterable[RatingRow]) -> tuple[SourceLine, ...]:
    found: dict[tuple[str, str], list[RatingRow]] = defaultdict(list)
    for row in rows:
        if row.counts:
            found[row.source, row.perturbation].append(row)
    return tuple(_source_line(source, wrong, own) for (source, wrong), own in sorted(found.items()))


def _source_line(source: str, perturbation: str, rows: Sequence[RatingRow]) -> SourceLine:
    judged = _judged(rows)
    located = [row.localised for row in judged if row.localised is not None]
    return SourceLine(
        source=source,
        perturbation=perturbation,
        rate=rate(_verdicts(judged)),
        kappa=pairwise(_answers(judged)),
        n_items=len({row.item for row in judged}),
        n_raters=len({row.rater for row in judged}),
        cannot_judge=len(rows) - len(judged),
        localised=rate(located) if located else None,
    )


def _by_classifier(rows: Iterable[RatingRow]) -> tuple[ClassifierLine, ...]:
    judged: dict[str, dict[str, bool]] = defaultdict(dict)
    counting = _judged(rows)
    for row in counting:
        for classifier, sufficient in row.verdicts.items():
            judged[classifier][str(row.item)] = sufficient
    return tuple(
        ClassifierLine(name, rate(list(verdicts.values())), with_model(_answers(counting), verdicts))
        for name, verdicts in sorted(judged.items())
    )
