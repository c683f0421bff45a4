"""Ratings as rows, each one read once: what reports and files know of them, and of where their items came from.

Five others join ratings to sources, each behind a door of its own: `interim` for a logged look at rates before unblinding,
and after it `item_lines` for counts by item, `results` for a rater's own answers, `archive.study_files` and `api.items` for the items' table.

A rating counts if it is of the first occasion, its place was not taken back, it is no surplus, and its rater has not
been dropped; into rates and agreement only if the rater could judge. Those of dropped raters are in no row at all.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Case, F, Q, When

from ratings.models import Rating, Study
from ratings.protocol import reference
from ratings.studies import SealedError

EVERY = Q()


def source_name(label: str, perturbation: str) -> str:
    """ "gpt-5" or "gpt-5, subtle error"."""
    return label if perturbation == "none" else f"{label}, {perturbation} error"


@dataclass(frozen=True, slots=True)
class BlindRow:
    """One rating as it may be read before unblinding. `verdict` and `confidence` are None where it could not be judged."""

    item: UUID
    rater: str
    number: int  # of the rater's label
    simulated: bool
    verdict: bool | None
    confidence: int | None
    opened_at: datetime
    submitted_at: datetime
    seconds: float
    position: int
    occasion: int
    session: int  # of a crossover study: 1 or 2; 1 in all others
    released_at: datetime | None
    surplus: bool
    layout: str
    layout_shown: str
    context: bool
    marks: str
    marked: list[str]
    first_verdict: bool | None  # confirm arm: before the balance was shown
    first_confidence: int | None
    revision: int
    active_seconds: float | None
    first_verdict_seconds: float | None
    changes: int
    hand: str
    viewport: str
    guide_version: int
    interface_version: str
    imported: bool
    note: str

    @property
    def cannot_judge(self) -> bool:
        return self.verdict is None

    @property
    def counts(self) -> bool:
        return self.occasion == 1 and self.released_at is None and not self.surplus

    @property
    def judged(self) -> bool:
        """Whether rates and agreement have it."""
        return self.counts and self.verdict is not None

    @property
    def timed(self) -> float | None:
        """Seconds it took: of activity where the browser told, else by the server's clock; None where nobody knows."""
        if self.active_seconds is not None:
            return self.active_seconds
        return None if self.imported and not self.seconds else self.seconds


@dataclass(frozen=True, slots=True)
class RatingRow(BlindRow):
    """One rating joined to its item's source; `verdicts` are the classifiers' (name -> sufficient)."""

    pair: UUID
    source: str
    perturbation: str
    truth: bool | None
    reference: str
    experiment: str
    action: str
    verdicts: dict[str, bool]
    target: list[str]
    error_kind: str | None  # which error was planted, as the twin maker names it; None where no twin of ours

    @property
    def source_name(self) -> str:
        """What the item's source is called wherever it shows: the cast, and the planted error."""
        return source_name(self.source, self.perturbation)

    @property
    def correct(self) -> bool | None:
        """Whether the verdict equals the item's reference; None where either is unknown."""
        label = reference.read_label(self.reference)
        return None if label is None or self.verdict is None else self.verdict == label

    @property
    def localised(self) -> bool | None:
        """Whether a ticked row holds the planted error; None where that is unknown or no row could be ticked.

        A verdict that nothing is wrong has not located it, as in localisation ROC studies.
        """
        if not self.target or self.marks == "off" or self.verdict is None:
            return None
        return self.verdict is False and not set(self.target).isdisjoint(self.marked)


def rating_rows(study: Study, *items: UUID, within: Q = EVERY, most: int | None = None) -> Iterator[RatingRow]:
    """Every rating with its source, unblinded, one query, constant memory. SealedError before the study is unblinded.

    With codes of items, the ratings of those alone; `within` and `most`: of a page, as for `blind_rows`.
    """
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; where its items came from is sealed until it is unblinded")
    return _unblinded_rows(study, items, within, most)


def blind_rows(study: Study, within: Q = EVERY, most: int | None = None) -> Iterator[BlindRow]:
    """Every rating without its source, in an order that tells nothing, one query: by random item code, imported ones last.

    An importer knows what their own rows are of, and must not find them beside the item's other ratings. Those `within` a
    condition alone, and the first `most` of them.
    """
    item = Case(When(imported=False, then=F(f"{_PLACE}item__code")))
    order = "imported", item, f"{_PLACE}rater__number", f"{_PLACE}rater", f"{_PLACE}occasion", f"{_PLACE}position"
    rows = _ratings(study).filter(within).order_by(*order).values_list(*_BLIND)[:most]
    return (BlindRow(*row) for row in rows.iterator(chunk_size=500))


def blind_verdicts(study: Study) -> Iterator[tuple[UUID, str, bool]]:
    """(item, rater, verdict) of the ratings that rates have, without their sources: the least that a precision is of."""
    judged = _ratings(study).filter(
        verdict__isnull=False, assignment__occasion=1, assignment__released_at=None, assignment__surplus=False
    )
    columns = f"{_PLACE}item__code", f"{_PLACE}rater__label", "verdict"
    found: Iterator[tuple[UUID, str, bool]] = judged.order_by().values_list(*columns).iterator(chunk_size=2000)
    return found


_PLACE = "assignment__"
_BLIND = (
    f"{_PLACE}item__code", f"{_PLACE}rater__label", f"{_PLACE}rater__number", f"{_PLACE}rater__simulated", "verdict",
    "confidence", "opened_at", "submitted_at", "seconds", f"{_PLACE}position", f"{_PLACE}occasion",
    f"{_PLACE}session", f"{_PLACE}released_at", f"{_PLACE}surplus", f"{_PLACE}layout", "layout_shown", f"{_PLACE}with_context",
    f"{_PLACE}marks", "marks", f"{_PLACE}first_look__verdict", f"{_PLACE}first_look__confidence", "revision",
    "active_seconds", "first_verdict_seconds", "changes", "hand", "viewport", "guide_version", "interface_version",
    "imported", "note",
)  # fmt: skip
_SOURCE = (
    "pair",
    "label",
    "perturbation",
    "truth",
    "reference",
    "experiment",
    "action",
    "verdicts",
    "target",
    "twin__kind",
)


def _ratings(study: Study) -> Any:
    rows = Rating.objects.filter(assignment__item__study=study, assignment__rater__dropped=False)
    return rows.order_by(f"{_PLACE}item__code", f"{_PLACE}rater__number", f"{_PLACE}rater", f"{_PLACE}occasion")


def _unblinded_rows(study: Study, items: Collection[UUID], within: Q, most: int | None) -> Iterator[RatingRow]:
    ratings = _ratings(study).filter(assignment__item__code__in=items) if items else _ratings(study)
    columns = (*_BLIND, *(f"{_PLACE}item__source__{name}" for name in _SOURCE))
    rows = ratings.filter(within).values_list(*columns)[:most]
    return (RatingRow(*row) for row in rows.iterator(chunk_size=500))
