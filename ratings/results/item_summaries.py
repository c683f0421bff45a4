"""List the items of an unblinded study, each with a summary of its ratings.

The database counts the ratings of one page at a time.
"""

from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import BooleanField, Case, Count, F, Q, QuerySet, Value, When

from ratings.models import Assignment, Study
from ratings.models.answers import FIRST
from ratings.protocol.reference import WITH_ERROR, WITHOUT_ERROR, reference_to_label
from ratings.studies import SealedError

# The conditions of BlindRow.counts as a database expression: assignments with a rating that counts, of raters not removed.
_COUNTS = Q(occasion=FIRST, released_at__isnull=True, surplus=False, rater__dropped=False, rating__isnull=False)
_JUDGED = Q(rating__verdict__isnull=False)
_ITEM_COLUMNS = (
    "code",
    "source__label",
    "source__perturbation",
    "source__truth",
    "source__reference",
    "source__experiment",
    "source__action",
)


class ItemSummary(NamedTuple):
    """One item after unblinding: its source, and the numbers of its verdicts."""

    code: UUID
    source: str
    perturbation: str
    truth: bool | None
    reference: str
    experiment: str
    action: str
    yes: int
    judged: int
    cannot_judge: int
    disputed: bool


class ItemTotals(NamedTuple):
    """The number of items with a rating, and the number of these items that are disputed."""

    rated: int
    disputed: int


ItemRows = QuerySet[Assignment, dict[str, Any]]


def list_item_rows(study: Study, *, disputed: bool = False) -> ItemRows:
    """Return a row for each rated item, disputed items first; `build_item_summary` converts a row.

    With `disputed`, only disputed items are returned. Raises SealedError before the study is unblinded.
    """
    rows = _annotate_counts(study, *(f"item__{name}" for name in _ITEM_COLUMNS))
    item_rows: ItemRows = (rows.filter(is_disputed=True) if disputed else rows).order_by("-is_disputed", "item__code")
    return item_rows


def count_items(study: Study) -> ItemTotals:
    """Count the rated and the disputed items of the study in one query. Raises SealedError before unblinding."""
    numbers = _annotate_counts(study, "item", "item__source__reference").aggregate(
        rated=Count("given"), disputed=Count("given", filter=Q(is_disputed=True))
    )
    return ItemTotals(**numbers)


def _annotate_counts(study: Study, *columns: str) -> Any:
    """Return each rated item of the study with the numbers of its ratings that count."""
    # The check is in this function because both public functions call it, so neither can omit the check.
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; the sources of its items are sealed until it is unblinded")
    rows = Assignment.objects.filter(_COUNTS, rater__study=study).order_by().values(*columns)
    counted = rows.annotate(
        yes=Count("rating", filter=Q(rating__verdict=True)),
        judged=Count("rating", filter=_JUDGED),
        given=Count("rating"),
    )
    return counted.annotate(is_disputed=_disputed_condition())


def build_item_summary(row: dict[str, object]) -> ItemSummary:
    """Return the summary of one row of `list_item_rows`."""
    # Values are unpacked by position: _ITEM_COLUMNS, then the annotations in the order in which they were added.
    code, label, perturbation, truth, reference, experiment, action, yes, n_judged, n_ratings, disputed = row.values()
    numbers = yes, n_judged, n_ratings - n_judged, disputed  # type: ignore[operator]
    return ItemSummary(code, label, perturbation, truth, reference, experiment, action, *numbers)  # type: ignore[arg-type]


def is_disputed(reference: str, yes: int, n_judged: int) -> bool:
    """Return whether two or more raters judged the item and most of them contradict its reference.

    Disputed items are only flagged; no result depends on this.
    """
    label = reference_to_label(reference)
    against = n_judged - yes if label else yes
    return label is not None and n_judged >= 2 and 2 * against > n_judged


def _disputed_condition() -> Case:
    """Return the condition of `is_disputed` as a database expression."""
    # Counts are doubled rather than halved, to avoid a division. A tie is not disputed.
    mostly_no, mostly_yes = Q(judged__gt=2 * F("yes")), Q(judged__lt=2 * F("yes"))
    against = (
        Q(item__source__reference__in=WITHOUT_ERROR) & mostly_no
        | Q(item__source__reference__in=WITH_ERROR) & mostly_yes
    )
    return Case(When(against & Q(judged__gte=2), then=Value(True)), default=Value(False), output_field=BooleanField())
