"""The counts of a rater's items that are stored in the rater's row: `answered_items`, `waiting_items`, `counted_items`.

Whatever creates, releases or deletes assignments calls `update_item_counts` in the same transaction. Storing an answer
changes the counts by one, a correction adds one to `corrections` (ratings.rating.submit). `manage.py verify` compares
them with the rows.
"""

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from ratings.models import Assignment, Rater
from ratings.models.answers import FIRST, WAITING

ANSWERED = Q(answered_at__isnull=False)
ITEM_COUNTS = {
    "answered_items": ANSWERED,
    "waiting_items": WAITING,
    "counted_items": ANSWERED & Q(occasion=FIRST, released_at__isnull=True, surplus=False),
}


def update_item_counts(raters: QuerySet[Rater]) -> None:
    """Count the assignments of these raters and store the counts."""
    raters.order_by().update(**{name: count_items(condition) for name, condition in ITEM_COUNTS.items()})


def count_items(condition: Q) -> Coalesce:
    """Return an expression for queries of raters: the number of their assignments that meet the condition."""
    own = Assignment.objects.filter(condition, rater=OuterRef("pk")).order_by().values("rater")
    return Coalesce(Subquery(own.annotate(n=Count("pk")).values("n")), 0)
