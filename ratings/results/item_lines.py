"""The items of an unblinded study, each with what was said of it: counted by the database, a page at a time."""

from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import BooleanField, Case, Count, F, Q, QuerySet, Value, When

from ratings.models import Assignment, Study
from ratings.models.answers import FIRST
from ratings.protocol.reference import WITH_ERROR, WITHOUT_ERROR, read_label
from ratings.studies import SealedError

_COUNTS = Q(occasion=FIRST, released_at__isnull=True, surplus=False, rater__dropped=False, rating__isnull=False)
_JUDGED = Q(rating__verdict__isnull=False)
_SHOWN = (
    "code",
    "source__label",
    "source__perturbation",
    "source__truth",
    "source__reference",
    "source__experiment",
    "source__action",
)


class ItemLine(NamedTuple):
    """One item after unblinding: where it came from, and what was said of it."""

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


class Totals(NamedTuple):
    """How many items somebody rated, and how many of them raters dispute."""

    rated: int
    disputed: int


Lines = QuerySet[Assignment, dict[str, Any]]


def item_lines(study: Study, *, disputed: bool = False) -> Lines:
    """Every rated item as a mapping for `line`, those that raters dispute first. SealedError before unblinding."""
    rows = _counted(study, *(f"item__{name}" for name in _SHOWN))
    found: Lines = (rows.filter(is_disputed=True) if disputed else rows).order_by("-is_disputed", "item__code")
    return found


def totals(study: Study) -> Totals:
    """Of the whole study, in one query. SealedError before unblinding."""
    found = _counted(study, "item", "item__source__reference").aggregate(
        rated=Count("given"), disputed=Count("given", filter=Q(is_disputed=True))
    )
    return Totals(**found)


def _counted(study: Study, *columns: str) -> Any:
    """Each rated item, from the ratings that count: those of the study's own raters, found by their seats."""
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; where its items came from is sealed until it is unblinded")
    rows = Assignment.objects.filter(_COUNTS, rater__study=study).order_by().values(*columns)
    counted = rows.annotate(
        yes=Count("rating", filter=Q(rating__verdict=True)),
        judged=Count("rating", filter=_JUDGED),
        given=Count("rating"),
    )
    return counted.annotate(is_disputed=_disputed())


def line(row: dict[str, object]) -> ItemLine:
    """The line of one row of `item_lines`."""
    code, label, wrong, truth, reference, experiment, action, yes, judged, given, disputed = row.values()
    counts = yes, judged, given - judged, disputed  # type: ignore[operator]
    return ItemLine(code, label, wrong, truth, reference, experiment, action, *counts)  # type: ignore[arg-type]


def is_disputed(reference: str, yes: int, judged: int) -> bool:
    """Whether most of two or more raters contradict the item's reference. A flag: no number is changed by it."""
    label = read_label(reference)
    against = judged - yes if label else yes
    return label is not None and judged >= 2 and 2 * against > judged


def _disputed() -> Case:
    """The same for the database."""
    says_no, says_yes = Q(judged__gt=2 * F("yes")), Q(judged__lt=2 * F("yes"))
    against = (
        Q(item__source__reference__in=WITHOUT_ERROR) & says_no | Q(item__source__reference__in=WITH_ERROR) & says_yes
    )
    return Case(When(against & Q(judged__gte=2), then=Value(True)), default=Value(False), output_field=BooleanField())
