"""The read side of a study. `rating_rows` is the one query that joins ratings to where their items came from."""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count

from ratings.models import EVIDENCE, TRANSITION, Rating, Study
from ratings.stats.agreement import Answer, ModelAgreement, PairwiseKappa, pairwise, with_model
from ratings.stats.auc import Auc, auc_confidence_correct
from ratings.stats.proportions import Rate, rate


class SealedError(PermissionError):
    """The study is not unblinded yet."""


class BlindRow(NamedTuple):
    """One rating as it may be read before unblinding."""

    item: UUID
    rater: str
    simulated: bool
    verdict: bool
    confidence: int
    opened_at: datetime
    submitted_at: datetime
    seconds: float
    position: int


class RatingRow(NamedTuple):
    """One rating joined to its item's source; `verdicts` are the classifiers' (name -> sufficient)."""

    item: UUID
    rater: str
    simulated: bool
    verdict: bool
    confidence: int
    opened_at: datetime
    submitted_at: datetime
    seconds: float
    position: int
    pair: UUID
    source: str
    perturbation: str
    truth: bool | None
    experiment: str
    action: str
    verdicts: dict[str, bool]

    @property
    def correct(self) -> bool | None:
        """Whether the verdict is the truth; None where the truth is unknown."""
        return None if self.truth is None else self.verdict == self.truth


class StudyProgress(NamedTuple):
    """Ratings given and wanted, items, and raters who have finished."""

    done: int
    total: int
    items: int
    raters: int
    raters_done: int


@dataclass(frozen=True)
class RaterLine:
    """How far one rater is. `median_seconds` is None before the first rating."""

    label: str
    simulated: bool
    invited: bool
    started: bool
    done: int
    total: int
    median_seconds: float | None


@dataclass(frozen=True)
class SourceLine:
    """What raters said of the items of one source."""

    source: str
    perturbation: str
    rate: Rate
    kappa: PairwiseKappa
    n_items: int
    n_raters: int


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
    sources: tuple[SourceLine, ...] = ()
    auc: Auc | None = None  # None while sealed and in studies of evidence, where no truth is known
    classifiers: tuple[ClassifierLine, ...] = ()


def rating_rows(study: Study) -> Iterator[RatingRow]:
    """Every rating with its source, unblinded, one query, constant memory. SealedError before the study is unblinded."""
    _check_unblinded(study)
    return _unblinded_rows(study)


def blind_rows(study: Study) -> Iterator[BlindRow]:
    """Every rating without its source, in an order that tells nothing (by random item code), one query."""
    rows = _ratings(study).values_list(*_BLIND)
    return (BlindRow(*row) for row in rows.iterator(chunk_size=500))


def study_report(study: Study) -> StudyReport:
    """The numbers of the study's page, in a constant number of queries. By source only once it is unblinded."""
    if not study.is_unblinded:
        return _sealed(study, list(blind_rows(study)))
    rows = list(rating_rows(study))
    report = _sealed(study, rows)
    truths = [(row.confidence, row.correct) for row in rows if row.correct is not None]
    return StudyReport(
        sealed=False,
        progress=report.progress,
        raters=report.raters,
        simulated=report.simulated,
        overall=report.overall,
        pooled_rate=report.pooled_rate,
        sources=_by_source(rows),
        auc=auc_confidence_correct(truths) if study.kind == TRANSITION else None,
        classifiers=_by_classifier(rows) if study.kind == EVIDENCE else (),
    )


_BLIND = (
    "assignment__item__code", "assignment__rater__label", "assignment__rater__simulated", "verdict", "confidence",
    "opened_at", "submitted_at", "seconds", "assignment__position",
)  # fmt: skip
_SOURCE = ("pair", "label", "perturbation", "truth", "experiment", "action", "verdicts")


def _check_unblinded(study: Study) -> None:
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; where its items came from is sealed until it is unblinded")


def _ratings(study: Study) -> Any:
    return Rating.objects.filter(assignment__item__study=study).order_by(
        "assignment__item__code", "assignment__rater__label"
    )


def _unblinded_rows(study: Study) -> Iterator[RatingRow]:
    source = [f"assignment__item__source__{name}" for name in _SOURCE]
    rows = _ratings(study).values_list(*_BLIND, *source)
    return (RatingRow(*row) for row in rows.iterator(chunk_size=500))


def _sealed(study: Study, rows: Sequence[BlindRow] | Sequence[RatingRow]) -> StudyReport:
    raters = _raters(study, rows)
    return StudyReport(
        sealed=True,
        progress=StudyProgress(
            done=sum(line.done for line in raters),
            total=sum(line.total for line in raters),
            items=study.items.count(),
            raters=len(raters),
            raters_done=sum(line.done == line.total for line in raters),
        ),
        raters=raters,
        simulated=_who_is_simulated(raters),
        overall=pairwise(_answers(rows)),
        pooled_rate=rate([row.verdict for row in rows]),
    )


def _raters(study: Study, rows: Iterable[BlindRow | RatingRow]) -> tuple[RaterLine, ...]:
    seconds: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        seconds[row.rater].append(row.seconds)
    seats = study.raters.annotate(total=Count("assignments")).order_by("label")
    return tuple(
        RaterLine(
            label=seat.label,
            simulated=seat.simulated,
            invited=seat.invited_at is not None,
            started=seat.started_at is not None,
            done=len(seconds[seat.label]),
            total=seat.total,
            median_seconds=statistics.median(seconds[seat.label]) if seconds[seat.label] else None,
        )
        for seat in seats
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


def _answers(rows: Iterable[BlindRow | RatingRow]) -> list[Answer]:
    return [Answer(str(row.item), row.rater, row.verdict) for row in rows]


def _by_source(rows: Iterable[RatingRow]) -> tuple[SourceLine, ...]:
    found: dict[tuple[str, str], list[RatingRow]] = defaultdict(list)
    for row in rows:
        found[row.source, row.perturbation].append(row)
    return tuple(_source_line(source, wrong, own) for (source, wrong), own in sorted(found.items()))


def _source_line(source: str, perturbation: str, rows: Sequence[RatingRow]) -> SourceLine:
    return SourceLine(
        source=source,
        perturbation=perturbation,
        rate=rate([row.verdict for row in rows]),
        kappa=pairwise(_answers(rows)),
        n_items=len({row.item for row in rows}),
        n_raters=len({row.rater for row in rows}),
    )


def _by_classifier(rows: Sequence[RatingRow]) -> tuple[ClassifierLine, ...]:
    judged: dict[str, dict[str, bool]] = defaultdict(dict)
    for row in rows:
        for classifier, sufficient in row.verdicts.items():
            judged[classifier][str(row.item)] = sufficient
    return tuple(
        ClassifierLine(name, rate(list(verdicts.values())), with_model(_answers(rows), verdicts))
        for name, verdicts in sorted(judged.items())
    )
