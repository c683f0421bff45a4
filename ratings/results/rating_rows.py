"""Load ratings as rows for reports and files. The rows have the sources of their items only after unblinding.

Six other modules join ratings to sources, each with its own access check: before unblinding, `interim` for a logged interim
analysis; after unblinding, `list_items` for counts per item, `own_results` and `item_review` for a rater's own answers,
and `archive.study_files` and `api.items` for the table of items.

A rating counts if it is the rater's first answer to the item (not a repeat), its assignment was not reassigned, it is
not surplus, and the rater was not removed. Rates and agreement also leave out ratings of items that the rater could
not judge. Ratings of removed raters are in no row at all.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import BooleanField, Case, Count, F, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce, NullIf

from ratings.models import Assignment, Item, Rating, Study
from ratings.protocol import reference
from ratings.studies import SealedError

# An empty condition, which selects every rating of the study.
ALL_RATINGS = Q()


def format_source_name(label: str, perturbation: str) -> str:
    """Return the display name of a source, such as "gpt-5" or "gpt-5, subtle error"."""
    return label if perturbation == "none" else f"{label}, {perturbation} error"


# Slots save memory, because an analysis builds one of these objects per rating.
@dataclass(frozen=True, slots=True)
class BlindRow:
    """One rating as shown before unblinding. `verdict`, `confidence`: None if the rater could not judge."""

    item: UUID
    rater: str
    number: int  # the number in the rater's label: 7 in R07
    simulated: bool
    verdict: bool | None
    confidence: int | None
    opened_at: datetime
    submitted_at: datetime
    seconds: float
    position: int
    occasion: int
    session: int  # 1 or 2 in a crossover study; 1 in all other studies
    released_at: datetime | None
    surplus: bool
    layout: str
    layout_shown: str
    context: bool
    marks: str
    marked: list[str]
    first_verdict: bool | None  # confirm layout: the verdict before the balance sheet was shown
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
    def is_judged(self) -> bool:
        """Return whether rates and agreement include this rating."""
        return self.counts and self.verdict is not None

    @property
    def response_seconds(self) -> float | None:
        """Return the active time if it was measured, else the time from opening to submission; None if unknown."""
        if self.active_seconds is not None:
            return self.active_seconds
        # An imported rating without a time is stored with 0 seconds, so 0 stands for an unknown time there.
        return None if self.imported and not self.seconds else self.seconds


@dataclass(frozen=True, slots=True)
class RatingRow(BlindRow):
    """One rating with its item's source. `verdicts`: whether each classifier judged the evidence sufficient."""

    pair: UUID
    source: str
    perturbation: str
    truth: bool | None
    reference: str
    experiment: str
    action: str
    verdicts: dict[str, bool]
    target: list[str]
    error_kind: str | None  # the kind of planted error, as named by the twin maker; None if not one of our twins
    deviation: (
        float | None
    )  # of the planted number from the true one, relative; None if unknown, or if the error does not change a number

    @property
    def source_name(self) -> str:
        """Return the display name of the source: the cast and the planted error."""
        return format_source_name(self.source, self.perturbation)

    @property
    def is_correct(self) -> bool | None:
        """Return whether the verdict equals the item's reference, or None if either is unknown."""
        label = reference.reference_to_label(self.reference)
        return None if label is None or self.verdict is None else self.verdict == label

    @property
    def localised(self) -> bool | None:
        """Return whether the rater marked a row with the planted error; None if unknown, or if marks were not offered."""
        return is_localised(self.verdict, self.marks, self.marked, self.target)


def is_localised(verdict: bool | None, marks: str, marked: Iterable[str], target: Collection[str]) -> bool | None:
    """Return whether one of the marked rows is in the target; None if that is unknown, or if marks were not offered."""
    if not target or marks == "off" or verdict is None:
        return None
    # If the verdict is that nothing is wrong, the error counts as not localised, as in localisation ROC studies.
    return verdict is False and not set(target).isdisjoint(marked)


_ASSIGNMENT = "assignment__"
# The columns have the order of BlindRow's fields, because rows are built by position.
_BLIND_COLUMNS = (
    f"{_ASSIGNMENT}item__code", f"{_ASSIGNMENT}rater__label", f"{_ASSIGNMENT}rater__number", f"{_ASSIGNMENT}rater__simulated", "verdict",
    "confidence", "opened_at", "submitted_at", "seconds", f"{_ASSIGNMENT}position", f"{_ASSIGNMENT}occasion",
    f"{_ASSIGNMENT}session", f"{_ASSIGNMENT}released_at", f"{_ASSIGNMENT}surplus", f"{_ASSIGNMENT}layout", "layout_shown", f"{_ASSIGNMENT}with_context",
    f"{_ASSIGNMENT}marks", "marks", f"{_ASSIGNMENT}initial_rating__verdict", f"{_ASSIGNMENT}initial_rating__confidence", "revision",
    "active_seconds", "first_verdict_seconds", "changes", "hand", "viewport", "guide_version", "interface_version",
    "imported", "note",
)  # fmt: skip
# The columns have the order of the fields that RatingRow adds.
_SOURCE_COLUMNS = (
    "pair", "label", "perturbation", "truth", "reference", "experiment", "action", "verdicts", "target", "twin__kind",
    "twin__deviation",
)  # fmt: skip


def iter_rating_rows(
    study: Study, *items: UUID, within: Q = ALL_RATINGS, limit: int | None = None
) -> Iterator[RatingRow]:
    """Yield every rating with its source, in one query and constant memory.

    `items` limits the rows to these item codes. `within` is a further condition, `limit` the largest number of rows.

    Raises SealedError before the study is unblinded.
    """
    ratings = select_ratings(study, blinded=False).filter(within)
    if items:
        ratings = ratings.filter(assignment__item__code__in=items)
    columns = (*_BLIND_COLUMNS, *(f"{_ASSIGNMENT}item__source__{name}" for name in _SOURCE_COLUMNS))
    # A generator over a cursor: results of any size are read in constant memory.
    return (RatingRow(*row) for row in ratings.values_list(*columns)[:limit].iterator(chunk_size=500))


def check_unsealed(study: Study) -> None:
    """Raise SealedError before the study is unblinded."""
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; the sources of its items are sealed until it is unblinded")


def iter_blind_rows(study: Study) -> Iterator[BlindRow]:
    """Yield every rating without its source, in one query."""
    ratings = select_ratings(study, blinded=True)
    return (BlindRow(*row) for row in ratings.values_list(*_BLIND_COLUMNS).iterator(chunk_size=500))


def iter_blind_verdicts(study: Study) -> Iterator[tuple[UUID, str, bool]]:
    """Yield (item, rater, verdict) of the ratings that enter rates, without sources, to compute the expected precision."""
    # The same conditions as BlindRow.is_judged, as SQL.
    judged = select_ratings(study, blinded=True).filter(
        verdict__isnull=False, assignment__occasion=1, assignment__released_at=None, assignment__surplus=False
    )
    columns = f"{_ASSIGNMENT}item__code", f"{_ASSIGNMENT}rater__label", "verdict"
    verdicts: Iterator[tuple[UUID, str, bool]] = judged.order_by().values_list(*columns).iterator(chunk_size=2000)
    return verdicts


def select_ratings(study: Study, *, blinded: bool) -> QuerySet[Rating]:
    """Return the ratings of all raters who were not removed, in the order of every file.

    Raises SealedError unless the study is unblinded or the ratings are for a blinded file. Blinded ratings are sorted by
    random item code, with imported ratings last, so the order reveals no source.
    """
    ratings = Rating.objects.filter(assignment__item__study=study, assignment__rater__dropped=False)
    of_item = [f"{_ASSIGNMENT}{name}" for name in ("rater__number", "rater_id", "occasion", "position")]
    if not blinded:
        # The check is here and not only in views, because exports, jobs and the API also call this function.
        check_unsealed(study)
        return ratings.order_by(f"{_ASSIGNMENT}item__code", *of_item)
    # The person who imported ratings knows the items of the imported rows. If these rows were sorted by item code, their
    # positions would reveal which other ratings are of the same item, so their sort key has no item code.
    item = Case(When(imported=False, then=F(f"{_ASSIGNMENT}item__code")))
    return ratings.order_by("imported", item, *of_item)


# The conditions of BlindRow.counts as a database expression: assignments with a rating that counts, of raters not removed.
_COUNTS = Q(occasion=1, released_at__isnull=True, surplus=False, rater__dropped=False, rating__isnull=False)
_SHOWN_OF_SOURCE = (
    "source__label", "source__perturbation", "source__truth", "source__reference", "source__experiment", "source__action",
)  # fmt: skip


def list_items(study: Study) -> QuerySet[Item]:
    """Return the items of the study with their source, and with the numbers of ratings that count.

    Each has `yes`, `judged` and `given` (ratings with the verdict yes, with a verdict, all), the `share` of yes (None without a
    verdict), `is_split` (verdicts differ) and `is_disputed`. Raises SealedError before the study is unblinded.
    """
    check_unsealed(study)
    # Subqueries, so that a page counts only the ratings of its own rows.
    numbers = {
        "yes": _count_ratings(rating__verdict=True),
        "judged": _count_ratings(rating__verdict__isnull=False),
        "given": _count_ratings(),
    }
    # The condition of `is_disputed`. Counts are doubled rather than halved, to avoid a division. A tie is not disputed.
    against = (
        Q(source__reference__in=reference.WITHOUT_ERROR, judged__gt=2 * F("yes"))
        | Q(source__reference__in=reference.WITH_ERROR, judged__lt=2 * F("yes"))
    )  # fmt: skip
    items = Item.objects.filter(study=study).select_related("source").only("code", "name", *_SHOWN_OF_SOURCE)
    return items.annotate(**numbers).annotate(
        share=F("yes") * 1.0 / NullIf(F("judged"), 0),
        is_split=_as_flag(Q(yes__gt=0, yes__lt=F("judged"))),
        is_disputed=_as_flag(against & Q(judged__gte=2)),
    )


def _count_ratings(**conditions: Any) -> Coalesce:
    counted = Assignment.objects.filter(_COUNTS, item=OuterRef("pk"), **conditions).order_by().values("item")
    return Coalesce(Subquery(counted.annotate(n=Count("pk")).values("n")), 0)


def _as_flag(condition: Q) -> Case:
    return Case(When(condition, then=Value(True)), default=Value(False), output_field=BooleanField())


def is_disputed(item_reference: str, yes: int, n_judged: int) -> bool:
    """Return whether at least two raters judged the item and most contradict its reference; only a flag."""
    label = reference.reference_to_label(item_reference)
    against = n_judged - yes if label else yes
    return label is not None and n_judged >= 2 and 2 * against > n_judged
