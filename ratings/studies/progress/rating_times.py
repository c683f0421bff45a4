"""How long raters need for an item: the median of each rater, computed by the database."""

from collections import defaultdict
from collections.abc import Mapping
from statistics import mean

from django.db.models import Case, Count, F, QuerySet, Value, When, Window
from django.db.models.functions import Coalesce, RowNumber

from ratings.models import Rating

_RATER = "assignment__rater"
# Imported ratings without a known time have 0 seconds: they must not pull a median down.
_ELAPSED_SECONDS = Case(When(imported=True, seconds=0, then=Value(None)), default=F("seconds"))


def compute_median_times(ratings: QuerySet[Rating]) -> Mapping[int, float]:
    """Return the median seconds per item, by the rater's key.

    The active time that the browser counted is used, else the elapsed time; imported ratings count only if their time
    is known.
    """
    timed = ratings.order_by().annotate(timed=Coalesce("active_seconds", _ELAPSED_SECONDS)).filter(timed__isnull=False)
    # Of n times in order, those with rank p and n <= 2p <= n + 2: both middle ones of an even n, the one of an odd n.
    # In SQL that both databases have: SQLite lacks percentile_cont.
    ranked = timed.annotate(
        twice=2 * Window(RowNumber(), partition_by=F(_RATER), order_by="timed"),
        of=Window(Count("pk"), partition_by=F(_RATER)),
    )
    middle: dict[int, list[float]] = defaultdict(list)
    for key, seconds in ranked.filter(twice__gte=F("of"), twice__lte=F("of") + 2).values_list(_RATER, "timed"):
        middle[key].append(seconds)
    return {key: mean(times) for key, times in middle.items()}
