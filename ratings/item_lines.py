"""The items of an unblinded study, each with what was said of it: counted by the database, a page at a time."""

from typing import NamedTuple
from uuid import UUID

from django.db.models import BooleanField, Case, Count, F, Q, QuerySet, Value, When

from ratings.models import Item, Study
from ratings.models.answers import FIRST
from ratings.rows import SealedError

_LIVE = Q(
    assignments__rating__isnull=False,
    assignments__occasion=FIRST,
    assignments__released_at__isnull=True,
    assignments__surplus=False,
    assignments__rater__dropped=False,
)
_JUDGED = _LIVE & Q(assignments__rating__verdict__isnull=False)


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


Lines = QuerySet[Item, dict[str, object]]


def item_lines(study: Study, *, disputed: bool = False) -> Lines:
    """Every rated item as a mapping for `line`, those that raters dispute first. SealedError before unblinding."""
    if not study.is_unblinded:
        raise SealedError(f"{study.name} is {study.status}; where its items came from is sealed until it is unblinded")
    counted = Item.objects.filter(study=study).annotate(
        given=Count("assignments__rating", filter=_LIVE),
        judged=Count("assignments__rating", filter=_JUDGED),
        yes=Count("assignments__rating", filter=_JUDGED & Q(assignments__rating__verdict=True)),
    )
    rated = counted.filter(given__gt=0).annotate(is_disputed=_disputed())
    rows = rated.filter(is_disputed=True) if disputed else rated
    return rows.order_by("-is_disputed", "code").values(
        "code", "source__label", "source__perturbation", "source__truth", "source__experiment", "source__action",
        "yes", "judged", "given", "is_disputed",
    )  # fmt: skip


def line(row: dict[str, object]) -> ItemLine:
    """The line of one row of `item_lines`."""
    code, label, wrong, truth, experiment, action, yes, judged, given, disputed = row.values()
    return ItemLine(code, label, wrong, truth, experiment, action, yes, judged, given - judged, disputed)  # type: ignore[arg-type, operator]


def is_disputed(truth: bool | None, yes: int, judged: int) -> bool:
    """Most of two or more raters say otherwise than the truth the item came with. A flag: no number is changed by it."""
    against = judged - yes if truth else yes
    return truth is not None and judged >= 2 and 2 * against > judged


def _disputed() -> Case:
    """The same for the database."""
    says_no, says_yes = Q(judged__gt=2 * F("yes")), Q(judged__lt=2 * F("yes"))
    against = Q(source__truth=True) & says_no | Q(source__truth=False) & says_yes
    return Case(When(against & Q(judged__gte=2), then=Value(True)), default=Value(False), output_field=BooleanField())
